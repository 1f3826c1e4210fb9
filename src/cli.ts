#!/usr/bin/env node
/**
 * Owns the command line `usher`: one program, one subcommand per party. Contract: "What the service does":
 * each party is loaded only when it is asked for, so an agent's start pays for no server.
 */
import { Command } from 'commander'
import { nodeFault, readManifest } from './files/package.ts'
import { EXIT, processTerminal, runCommand, UsageError, type Ending } from './terminal/command.ts'

/** A failure that a party explains whole: one line per fault, no stack. */
function endingOf(error: unknown): Ending | undefined {
  const isFault = error instanceof Error && error.name === 'ConfigFault'
  return isFault ? { code: EXIT.usage, message: error.message.split('\n') } : undefined
}

const manifest = readManifest()
const unusable = nodeFault(process.versions.node, manifest.engines.node)
if (unusable !== undefined) {
  processTerminal.err(`${unusable}\n`)
  process.exit(EXIT.usage)
}

const program = new Command('usher')
  .description('Lets software agents use your tools on your terms: UMA 2.0 authorization for Envoy.')
  .option('--version', 'print the version')
  .on('option:version', () => {
    processTerminal.out(`${manifest.version}\n`)
    process.exit(EXIT.done)
  })
program.enablePositionalOptions() // what follows a subcommand's name belongs to the subcommand
let exitCode: number | undefined

const authority = program
  .command('authority')
  .description("run an owner's authorization server (settings: docs/configuration.md)")
  .action(async () => (await import('./authority/main.ts')).runAuthority())
authority
  .command('enrol')
  .description('print a one-time code by which an owner enrols her first device key or login')
  .requiredOption('--owner <owner>', 'whom it is for')
  .option('--json', 'JSON for scripts')
  .action(async (options: { owner: string; json?: boolean }) =>
    (await import('./authority/main.ts')).runEnrol(options),
  )
const organization = program
  .command('organization')
  .description("run an organization's authority, which may only narrow (settings: docs/configuration.md)")
  .action(async () => (await import('./organization/main.ts')).runOrganization())
organization
  .command('migrate')
  .description("bring the organization's database up to date, then end")
  .action(async () => (await import('./organization/main.ts')).runOrganizationMigrate())
program
  .command('sidecar')
  .description('run the enforcement point beside Envoy')
  .option('--config <file>', 'its YAML file (UMA_PEP_CONFIG)')
  .action(async (options: { config?: string }) =>
    (await import('./enforcement/main.ts')).runSidecar(options.config),
  )
program
  .command('migrate')
  .description("bring the authority's database up to date, then end")
  .action(async () => (await import('./authority/main.ts')).runMigrate())
program
  .command('keys')
  .description('signing keys of servers: of an authority, an organization or a resource')
  .command('new')
  .argument('<file>', 'where it is written; a file that is there already is left alone')
  .description('make a signing key, in a file that its user alone can read; prints the public half')
  .action(async (file: string) =>
    (await import('./terminal/key-command.ts')).newKeySet(file, processTerminal),
  )
program
  .command('print-docs')
  .description('print the reference of every setting, as docs/configuration.md holds it')
  .action(async () => processTerminal.out((await import('./config.ts')).configurationDocs()))

/** A subcommand that reads its own arguments, `--help` among them. */
function passOn(name: string, description: string, run: (args: string[]) => Promise<number>): void {
  program
    .command(name)
    .description(description)
    .argument('[arguments...]')
    .helpOption(false)
    .allowUnknownOption()
    .passThroughOptions()
    .action(async (args: string[]) => {
      exitCode = await run(args)
    })
}

passOn('agent', 'call tools as an agent: keygen, call, decline, introduce, receipts, bridge', async args =>
  (await import('./agent/main.ts')).runAgent(args),
)
passOn(
  'owner',
  'decide as the owner: pending, approve, deny, connections, revoke, ledger, watch, …',
  async args => (await import('./owner/main.ts')).runOwner(args),
)
passOn(
  'admin',
  'administer an organization: charter, groups, members, invite, clearance, activity',
  async args => (await import('./admin/main.ts')).runAdmin(args),
)
passOn('dev', 'walk the whole story on this machine, with everything it needs', async args =>
  (await import('./dev/main.ts').catch(sayWhereDemoIs)).runDev(args),
)

/** The image holds nothing of the demo (rolldown.config.js). */
function sayWhereDemoIs(error: unknown): never {
  const { code, url } = error as { code?: string; url?: string }
  if (code !== 'ERR_MODULE_NOT_FOUND' || url?.endsWith('/dev/main.js') !== true) throw error
  throw new UsageError(
    'usher dev is not in this image: run it from a checkout (make demo) or from the package.',
  )
}

const ended = await runCommand(program, process.argv.slice(2), processTerminal, endingOf)
// Not process.exit(): a server that was started goes on, and what was written is flushed.
process.exitCode = ended === EXIT.done ? (exitCode ?? EXIT.done) : ended
