/**
 * Owns `usher owner`: the owner API from a command line. contract, "Owner API". Tables for people, `--json` for scripts; what
 * strangers wrote is escaped before it reaches the terminal.
 */
import { homedir, hostname } from 'node:os'
import { resolve } from 'node:path'
import { Command } from 'commander'
import { ConfigFault, readClientConfig } from '../config.ts'
import {
  EXIT,
  processTerminal,
  runCommand,
  UsageError,
  type Ending,
  type Terminal,
} from '../terminal/command.ts'
import { readKeyFile, writeNewKey } from '../terminal/key-file.ts'
import { printable, printableJson } from '../terminal/printable.ts'
import { publicJwk, type PrivateKey } from '../wire/keys.ts'
import { createOwnerClient, readAll } from './client.ts'
import { addCredentialCommands } from './credential-commands.ts'
import { addLedger } from './ledger-command.ts'
import { named, nameOf } from './names.ts'
import { OwnerError } from './owner-error.ts'
import { addPolicyCommands } from './policy-commands.ts'
import { addReceipts } from './receipt-commands.ts'
import { addServerCommands } from './server-commands.ts'
import { tell, type Action, type Session } from './session.ts'
import * as show from './show.ts'
import { watch } from './watch.ts'

/** Options that every subcommand takes, after the configuration has filled the gaps. */
interface OwnerOptions {
  api?: string
  issuer?: string
  key?: string
  token?: string
  json?: boolean
  wide?: boolean
}

/** Runs `usher owner` with the arguments after it. Answers the exit code (see `terminal/command.ts`). */
export function runOwner(args: readonly string[], terminal: Terminal = processTerminal): Promise<number> {
  const program = ownerCommand(terminal)
  return runCommand(program, args, terminal, error =>
    endingOf(error, { asJson: program.opts<OwnerOptions>().json === true }),
  )
}

function ownerCommand(terminal: Terminal): Command {
  const program = new Command('usher owner')
    .description(
      'Decide for yourself: what waits, who may, what they did. With your device key, or a token of your realm.',
    )
    .option('--api <url>', 'where the owner API is reached (UMA_OWNER_API; default: the issuer)')
    .option('--issuer <url>', "the authority's issuer (UMA_OWNER_ISSUER)")
    .option('--key <file>', 'your device key (UMA_OWNER_KEY)')
    .option('--token <token>', 'an access token of your realm, instead of a device key (UMA_OWNER_TOKEN)')
    .option('--json', 'JSON for scripts instead of tables')
    .option('--wide', 'tables as wide as they are, nothing shortened to fit the terminal')
  const action: Action =
    run =>
    async (...args) =>
      run(await session(program.opts<OwnerOptions>(), terminal), ...args)

  addKey(program, terminal)
  addEnrol(program, terminal)
  addCredentialCommands(program, action)
  program
    .command('pending')
    .argument('[family]', 'one request, with everything known about it')
    .description('what waits for your decision')
    .action(action(pending))
  for (const [name, decision] of [
    ['approve', 'approved'],
    ['deny', 'denied'],
  ] as const) {
    program
      .command(name)
      .argument('<family>', 'the request, as `pending` names it; the beginning of its name will do')
      .description(`${name} one request`)
      .action(action((session, family: string) => decide(session, family, decision)))
  }
  program
    .command('connections')
    .description('the agents you know, and what they may')
    .action(action(connections))
  program
    .command('revoke')
    .argument('<handle>', 'the agent, as `connections` names it; the beginning of its handle will do')
    .description('end a connection and every grant under it, now')
    .action(action(revoke))
  program.command('policies').description('your tiers and their terms').action(action(policies))
  program
    .command('resources')
    .description('what you own here, and which tier governs it')
    .action(action(resources))
  addPolicyCommands(program, action)
  addServerCommands(program, action)
  addLedger(program, action, wholeNumber)
  addReceipts(program, action, wholeNumber)
  program
    .command('watch')
    .option('--after <id>', 'resume after this event')
    .description('what happens, as it happens; ends with Ctrl-C')
    .action(action(watch))
  return program
}

function addKey(program: Command, terminal: Terminal): void {
  program
    .command('key')
    .description('show the public half of your device key, to be enrolled; makes the key where there is none')
    .action(async () => {
      const key = await ownKey(program.opts<OwnerOptions>(), terminal)
      terminal.out(`${printableJson(publicJwk(key, key.thumbprint))}\n`)
    })
}

/** The device key of this machine; made where there is none. */
async function ownKey(options: OwnerOptions, terminal: Terminal): Promise<PrivateKey> {
  const path = keyPath(options)
  const existing = await readKeyFile(path, 'usher owner key').catch(async (error: unknown) => {
    if (error instanceof UsageError && isMissing(error.cause)) return undefined
    throw error
  })
  if (existing) return existing
  const key = await writeNewKey(path)
  terminal.err(`Made a device key in ${printable(path)}. Whoever holds that file decides as you.\n`)
  return key
}

function addEnrol(program: Command, terminal: Terminal): void {
  program
    .command('enrol')
    .requiredOption('--code <code>', 'the one-time code that the operator of the authority gave you')
    .option('--name <name>', 'what you call this credential', hostname())
    .description(
      'enrol your first credential: the key of this machine, made where there is none, or the token',
    )
    .action(async (enrolment: { code: string; name: string }) => {
      const options = program.opts<OwnerOptions>()
      const opened = await session(options, terminal, () => ownKey(options, terminal))
      const enrolled = await opened.client.enrol(enrolment)
      tell(opened, enrolled, ({ name, owner }) => `${printable(name)} decides for ${printable(owner)} now.\n`)
    })
}

async function pending(session: Session, given?: string): Promise<void> {
  const items = await readAll(session.client.pending())
  if (given === undefined) return tell(session, items, show.pendingTable)
  const family = nameOf(
    given,
    items.map(item => item.family),
  )
  const wanted = items.find(item => item.family === family)
  if (wanted === undefined)
    throw new OwnerError('not_found', `Nothing of the name ${given} waits for you.`, { status: 404 })
  tell(session, wanted, show.pendingDetails)
}

async function decide(session: Session, given: string, decision: 'approved' | 'denied'): Promise<void> {
  const { client } = session
  const decided = await named(
    given,
    family => client.decide(family, decision),
    async () => (await readAll(client.pending())).map(({ family }) => family),
  )
  tell(session, decided, one => `${printable(one.family)} ${printable(one.decision)}.\n`)
}

async function connections(session: Session): Promise<void> {
  tell(session, await readAll(session.client.connections()), show.connectionTable)
}

async function revoke(session: Session, given: string): Promise<void> {
  const { client } = session
  const revoked = await named(
    given,
    handle => client.revoke(handle),
    async () => (await readAll(client.connections())).map(({ handle }) => handle),
  )
  tell(session, revoked, show.revokedSentence)
}

async function policies(session: Session): Promise<void> {
  tell(session, { tiers: await session.client.policies() }, ({ tiers }, columns) =>
    show.tierTable(tiers, columns),
  )
}

async function resources(session: Session): Promise<void> {
  tell(session, await readAll(session.client.resources()), show.resourceTable)
}

async function session(
  options: OwnerOptions,
  terminal: Terminal,
  readKey: () => Promise<PrivateKey> = () => readKeyFile(keyPath(options), 'usher owner key'),
): Promise<Session> {
  const config = readClientConfig()
  const issuer = options.issuer ?? config.ownerIssuer
  if (issuer === undefined) throw new UsageError('Name the authority: --issuer <url> or UMA_OWNER_ISSUER.')
  const api = options.api ?? config.ownerApi ?? issuer
  // A key that is named wins over a token that merely stands in the environment.
  const token = options.token ?? (options.key === undefined ? config.ownerToken : undefined)
  if (token !== undefined && !/^[A-Za-z0-9._~+/-]+=*$/.test(token))
    throw new UsageError('Give the access token alone, as your realm issued it.')
  const access = token === undefined ? { api, issuer, key: await readKey() } : { api, issuer, token }
  const columns = options.wide === true ? undefined : terminal.columns
  return { client: createOwnerClient(access), terminal, json: options.json === true, columns }
}

function keyPath(options: OwnerOptions): string {
  return resolve((options.key ?? readClientConfig().ownerKey).replace(/^~(?=\/)/, homedir()))
}

function wholeNumber(value: string): number {
  if (!/^\d{1,15}$/.test(value)) throw new UsageError(`Give a whole number, not ${value}.`)
  return Number(value)
}

function isMissing(cause: unknown): boolean {
  return cause instanceof Error && (cause as NodeJS.ErrnoException).code === 'ENOENT'
}

/** A script that asked for JSON is told in JSON, too, and need not take a sentence apart. */
function endingOf(error: unknown, { asJson }: { asJson: boolean }): Ending | undefined {
  if (error instanceof ConfigFault) return { code: EXIT.usage, message: error.message.split('\n') }
  if (!(error instanceof OwnerError)) return undefined
  const { code, detail } = error
  const message = asJson
    ? printableJson({ error: code, error_description: detail }).split('\n')
    : `${code}: ${detail}`
  if (error.code === 'address_refused') return { code: EXIT.usage, message }
  if (error.code === 'aborted') return { code: EXIT.interrupted, message: '' }
  return { code: error.temporary ? EXIT.unavailable : EXIT.refused, message }
}
