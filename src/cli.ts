#!/usr/bin/env node
/**
 * Owns the command line `usher`: one program, one subcommand per party. Contract: "What the service does":
 * each party is loaded only when it is asked for, so an agent's start pays for no server.
 */
import { Command, Option } from 'commander'
import { nodeFault, readManifest } from './files/package.ts'
import { EXIT, processTerminal, runCommand, UsageError, type CommandEnd } from './terminal/command.ts'
import { momentOf } from './terminal/moment.ts'
import { printable } from './terminal/printable.ts'
import { endWhenUnread } from './terminal/unread-output.ts'
import { addVerifiers } from './terminal/verify-program.ts'

/** A failure that a party explains completely: one line per fault, no stack. */
function endingOf(error: unknown): CommandEnd | undefined {
  const isFault = error instanceof Error && error.name === 'ConfigFault'
  return isFault ? { code: EXIT.usage, message: error.message.split('\n') } : undefined
}

endWhenUnread()
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

const JSON_OPTION = ['--json', 'JSON for scripts'] as const
const RECOVER = [
  '--recover',
  'for an owner who can use none of her credentials: the code works after UMA_AS_RECOVERY_DELAY, unless she cancels it',
] as const
const CHECK = ['--check', 'name every fault of the configuration and end; touches nothing'] as const

/** The parties whose configuration can be checked. */
type CheckedParty = 'authority' | 'sidecar' | 'organization' | 'tally' | 'witness'

async function checkOf(party: CheckedParty, path?: string): Promise<void> {
  const { configurationFaults, configurationWarnings, ConfigFault } = await import('./config.ts')
  const faults = configurationFaults(party, path)
  if (faults.length > 0) throw new ConfigFault(faults)
  for (const warning of configurationWarnings(party, path)) processTerminal.err(`Warning: ${warning}\n`)
  processTerminal.out(`The configuration of usher ${party} has no fault.\n`)
}

/** Checks or runs. */
const checkedOr =
  (party: CheckedParty, run: () => Promise<void>) =>
  ({ check }: { check?: boolean }): Promise<void> =>
    check === true ? checkOf(party) : run()
const owners = () => import('./authority/administration/main.ts')

interface HeadsOptions {
  config?: string
  owner?: string
  json?: boolean
}

interface SurveyFlags {
  owner?: string
  header?: string[]
  diff?: string
  path?: string
  check?: boolean
}
interface ProvisionFlags {
  from: string
  owner?: string
  resource?: string
  clientId?: string
  header?: string[]
}

/** What stands before a further command is for the command itself, which is not run then. */
function refuseOptionsBefore(command: Command, next: Command): void {
  const [name] = Object.keys(command.opts())
  if (name === undefined) return
  const flag = command.options.find(option => option.attributeName() === name)?.long ?? name
  throw new UsageError(
    `${flag} is of usher ${command.name()} alone, and usher ${command.name()} ${next.name()} takes none of its options: leave it out.`,
  )
}

const authority = program
  .command('authority')
  .hook('preSubcommand', refuseOptionsBefore)
  .description("run an owner's authorization server (settings: docs/configuration.md)")
  .option(...CHECK)
  .action(checkedOr('authority', async () => (await import('./authority/main.ts')).runAuthority()))
authority
  .command('enrol')
  .description('as `usher authority owner enrol <owner>`')
  .requiredOption('--owner <owner>', 'the owner to enrol')
  .option(...RECOVER)
  .option(...JSON_OPTION)
  .action(async ({ owner, ...options }: { owner: string; recover?: boolean; json?: boolean }) =>
    (await owners()).runEnrolOwner(owner, options),
  )
authority
  .command('plan')
  .description('what a start would change by the provisioning file, and what differs from it and stays')
  .option(...JSON_OPTION)
  .action(async (options: { json?: boolean }) => (await owners()).runPlan(options))
authority
  .command('provision')
  .requiredOption('--from <file or url>', "a sidecar's file, or an MCP server without an enforcement point")
  .option('--owner <name>', 'the owner; of a file every owner when left out')
  .option('--resource <url>', 'of a server: the URL that agents call')
  .option('--client-id <name>', 'of a server: the name by which the authority will know it (tools)')
  .option('--header <name: value...>', 'sent to the server with each request')
  .description('write resource servers, resources and tiers of the provisioning file, for you to edit')
  .action(async (options: ProvisionFlags) => {
    await heedProxy()
    await (await import('./agent/bridge/survey/main.ts')).runProvisionProposal(options, processTerminal)
  })
authority
  .command('after-restore')
  .description(
    'after the database was restored to an earlier time: end every grant, tell every owner, and give each ledger a new origin',
  )
  .requiredOption('--at <time>', 'the time that the backup is of, such as 2026-11-23T20:15:00Z')
  .option('--cell <cell>', 'which of several was restored (UMA_AS_CELLS)')
  .option(...JSON_OPTION)
  .action(async (options: { at: string; cell?: string; json?: boolean }) =>
    (await owners()).runAfterRestore(options),
  )
authority
  .command('audit')
  .description('the security events of all owners, a line for each, for a security system (ids, no secrets)')
  .requiredOption('--since <time>', 'from then on: 30m, 2h or 7d ago, or 2026-11-21T09:00Z', momentOf)
  .option('--until <time>', 'before then, written in the same ways; now if left out', momentOf)
  .option('--owner <owner>', 'hers alone')
  .addOption(
    new Option('--format <format>', 'how a line is written').choices(['json', 'cef']).default('json'),
  )
  .action(async (options: { since: Date; until?: Date; owner?: string; format: 'json' | 'cef' }) =>
    (await owners()).runAudit(options),
  )
const ownerLives = authority
  .command('owner')
  .description('owners that come and go while the authority runs, in its database')
const ofOwner = (verb: string, description: string): Command =>
  ownerLives
    .command(verb)
    .argument('<owner>', 'her name')
    .description(description)
    .option(...JSON_OPTION)
ofOwner('add', 'serve an owner from now on; she then enrols a credential').action(
  async (owner: string, options: { json?: boolean }) => (await owners()).runAddOwner(owner, options),
)
ownerLives
  .command('list')
  .description('owners, removed ones included')
  .option(...JSON_OPTION)
  .action(async (options: { json?: boolean }) => (await owners()).runListOwners(options))
ofOwner('show', 'one owner').action(async (owner: string, options: { json?: boolean }) =>
  (await owners()).runShowOwner(owner, options),
)
ofOwner('enrol', 'print a one-time code by which she enrols her first device key or login')
  .option(...RECOVER)
  .action(async (owner: string, options: { recover?: boolean; json?: boolean }) =>
    (await owners()).runEnrolOwner(owner, options),
  )
ofOwner('suspend', 'end every grant on her resources, and let no agent in until she is resumed').action(
  async (owner: string, options: { json?: boolean }) =>
    (await owners()).runSuspendOwner(owner, options, true),
)
ofOwner('resume', 'take that back; no grant of before lives').action(
  async (owner: string, options: { json?: boolean }) =>
    (await owners()).runSuspendOwner(owner, options, false),
)
ofOwner('remove', 'end her access, write her archive, delete her data; the name is never given again')
  .option('--archives <folder>', 'the folder for her archive (UMA_AS_ARCHIVES)')
  .action(async (owner: string, options: { archives?: string; json?: boolean }) =>
    (await owners()).runRemoveOwner(owner, options),
  )
ofOwner('move', 'move her to another cell (UMA_AS_CELLS), or end a move that was broken off')
  .requiredOption('--to <cell>', 'the cell, `home` for that of DATABASE_URL')
  .action(async (owner: string, options: { to: string; json?: boolean }) =>
    (await owners()).runMoveOwner(owner, options),
  )
const organization = program
  .command('organization')
  .hook('preSubcommand', refuseOptionsBefore)
  .description("run an organization's authority, which may only narrow (settings: docs/configuration.md)")
  .option(...CHECK)
  .action(checkedOr('organization', async () => (await import('./organization/main.ts')).runOrganization()))
organization
  .command('migrate')
  .description("bring the organization's database up to date, then end")
  .action(async () => (await import('./organization/main.ts')).runOrganizationMigrate())
const tally = program
  .command('tally')
  .hook('preSubcommand', refuseOptionsBefore)
  .description(
    'run a tally for jointly held resources, which decides nothing (settings: docs/configuration.md)',
  )
  .option(...CHECK)
  .action(checkedOr('tally', async () => (await import('./tally/main.ts')).runTally()))
tally
  .command('migrate')
  .description("bring the tally's database up to date, then end")
  .action(async () => (await import('./tally/main.ts')).runTallyMigrate())
const witness = program
  .command('witness')
  .hook('preSubcommand', refuseOptionsBefore)
  .description(
    "run a witness, which cosigns heads of other authorities' ledgers (settings: docs/configuration.md)",
  )
  .option(...CHECK)
  .action(checkedOr('witness', async () => (await import('./witness/main.ts')).runWitness()))
witness
  .command('keys')
  .description('print the verifier keys by which logs and verifiers name this witness')
  .action(async () => (await import('./witness/main.ts')).printWitnessKeys())
witness
  .command('migrate')
  .description("bring the witness's database up to date, then end")
  .action(async () => (await import('./witness/main.ts')).runWitnessMigrate())
const sidecar = program
  .command('sidecar')
  .hook('preSubcommand', refuseOptionsBefore)
  .description('run the enforcement point beside Envoy')
  .option('--config <file>', 'its YAML file (UMA_PEP_CONFIG)')
  .option(...CHECK)
  .action(async ({ config, check }: { config?: string; check?: boolean }) =>
    check === true ? checkOf('sidecar', config) : (await import('./enforcement/main.ts')).runSidecar(config),
  )
sidecar
  .command('explain')
  .argument(
    '<what>',
    'a decision line of the log in quotes; or with --log a family (fam_…) or an agent (jkt:…) by its beginning, a request id, or an owner, whose refusals are told',
  )
  .option('--log <file>', 'the log to look in; - reads standard input')
  .description('why a call was let through or refused, and what to do')
  .action(async (id: string, options: { log?: string }) => {
    const { explain } = await import('./enforcement/explain/main.ts')
    for (const line of await explain(id, options.log)) processTerminal.out(`${printable(line)}\n`)
  })
sidecar
  .command('heads')
  .option('--config <file>', "the sidecar's YAML file (UMA_PEP_CONFIG)")
  .option('--owner <name>', 'only those of her ledger')
  .option('--json', 'one JSON object a line, with the signatures')
  .description("the heads of owners' ledgers that authorities sent in the last seven days")
  .action(async ({ json, ...query }: HeadsOptions) => {
    const { headsOfSidecar } = await import('./enforcement/ledger/main.ts')
    const { headsText } = await import('./terminal/heads-table.ts')
    processTerminal.out(headsText(headsOfSidecar(query), { json, columns: processTerminal.columns }))
  })
sidecar
  .command('tools')
  .argument('<url>', 'an MCP server, without an enforcement point in front of it')
  .option('--owner <name>', 'whose resource ids are written; {owner} when left out')
  .option('--header <name: value...>', 'sent with each request, such as "x-uma-owner: alice"')
  .option('--diff <file>', "say what is new, gone or changed against a sidecar's file, or a block of before")
  .option('--path <path>', 'the path of the resource in that file, if it has several')
  .option('--check', 'with --diff: end with 1 if anything differs')
  .description(
    "write `tools:` and `methods:` of the sidecar's file from what a server lists, for you to edit",
  )
  .action(async (url: string, options: SurveyFlags) => {
    await heedProxy()
    const { runToolsSurvey } = await import('./agent/bridge/survey/main.ts')
    exitCode = await runToolsSurvey(url, options, processTerminal)
  })
addVerifiers(program.command('verify'), async () => {
  await heedProxy()
  return (await import('./client/consistency-proofs.ts')).fetchProofs
})
program
  .command('doctor')
  .description(
    'check clocks, database, keys, certificates, reachability and metadata of what the environment configures',
  )
  .option('--config <file>', 'the YAML file of a sidecar to check (UMA_PEP_CONFIG)')
  .action(async ({ config }: { config?: string }) => {
    const { runDoctor } = await import('./doctor/main.ts')
    exitCode = await runDoctor(processTerminal, { sidecarFile: config })
  })
program
  .command('migrate')
  .description("bring the authority's database up to date, then end")
  .action(async () => (await import('./authority/main.ts')).runMigrate())
const keys = program
  .command('keys')
  .description('signing keys of servers: of an authority, an organization, a tally, a witness or a resource')
keys
  .command('new')
  .argument('<file>', 'the file to write; an existing file is left alone')
  .description('make a signing key, in a file that its user alone can read; prints the public half')
  .action(async (file: string) =>
    (await import('./terminal/key-command.ts')).newKeySet(file, processTerminal),
  )
keys
  .command('public')
  .argument('<file>', 'a file that `keys new` made')
  .description('print the public halves of its keys, as `jwks` of a provisioning file takes them')
  .action(async (file: string) =>
    (await import('./terminal/key-command.ts')).publicKeySet(file, processTerminal),
  )
keys
  .command('new-notification')
  .argument('<file>', 'the file to write; an existing file is left alone')
  .description('make the key by which an authority notifies owners; prints the public half')
  .action(async (file: string) =>
    (await import('./terminal/key-command.ts')).newNotificationKey(file, processTerminal),
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
      if (name !== 'dev') await heedProxy()
      exitCode = await run(args)
    })
}

/** What people run goes out as their environment says; servers never do. */
async function heedProxy(): Promise<void> {
  const { proxyVariables } = await import('./config/outgoing-proxy.ts')
  const { useProxy } = await import('./http/outbound/outgoing-proxy.ts')
  const unheeded = useProxy(proxyVariables())
  if (unheeded !== undefined) processTerminal.err(`Warning: ${unheeded}\n`)
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

/** The image contains nothing of the demo (rolldown.config.js). */
function sayWhereDemoIs(error: unknown): never {
  const { code, url } = error as { code?: string; url?: string }
  if (code !== 'ERR_MODULE_NOT_FOUND' || url?.endsWith('/dev/main.js') !== true) throw error
  throw new UsageError(
    'usher dev is not in this image: run it from a checkout (make demo) or from the package.',
  )
}

const ended = await runCommand(program, process.argv.slice(2), processTerminal, endingOf)
// process.exit() is not used, so that a started server keeps running, and all output is flushed.
process.exitCode = ended === EXIT.done ? (exitCode ?? EXIT.done) : ended
