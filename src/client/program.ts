/**
 * Owns the frame of `usher owner` and `usher admin`: the server that they ask, the credential, and how they
 * end. Contract: "Authentication": a device key, or an access token of the person's realm.
 */
import { resolve } from 'node:path'
import { Command } from 'commander'
import { EXIT, UsageError, type CommandEnd, type Terminal } from '../terminal/command.ts'
import { fromHome } from '../terminal/home.ts'
import { readKeyFile, writeNewKey } from '../terminal/key-file.ts'
import { localTime, printable, printableJson } from '../terminal/printable.ts'
import { profilePath, readProfile } from '../terminal/profile-file.ts'
import { publicJwk, type PrivateKey } from '../wire/signatures/keys.ts'
import { ApiError } from './api-error.ts'
import type { ClientAction, ClientSession } from './session.ts'
import { publishedApi, type PublishedApi } from './published-api.ts'
import { apiBase, type ApiAccess } from './signed-fetch.ts'

/** The configuration's values, for options that the command line leaves out. */
export interface ClientSettings {
  issuer: string | undefined
  api: string | undefined
  token: string | undefined
  /** The path of the device key. */
  key: string
}

export interface ProgramOptions<Client> {
  /** The command, for example `usher owner`. */
  name: string
  description: string
  /** What is asked, in a sentence: `the owner API`. */
  called: string
  /** The party of the issuer: `the authority`. */
  party: string
  /** The prefix of the variables that provide defaults: `UMA_OWNER`. */
  prefix: string
  /** What a holder of the key can do: `decides as you`. */
  power: string
  settings: () => ClientSettings
  /** The member of the issuer's metadata that names the API, if there is one. */
  publishedAs?: PublishedApi | undefined
  /** Whether a profile beside the key says where it is enrolled, if nothing else does. */
  profiled?: boolean
  connect: (access: ApiAccess) => Client
}

/** Options that every subcommand takes. */
interface CommonValues {
  api?: string
  issuer?: string
  key?: string
  token?: string
  json?: boolean
  wide?: boolean
}

export interface ClientProgram<Client> {
  /** It has `key` and the common options; further subcommands are added to it. */
  command: Command
  /** The subcommand `key`, for further ones below it, and the key that it shows, made if there is none. */
  key: Command
  ownKey: () => Promise<PrivateKey>
  action: ClientAction<Client>
  /** Where the subcommands would ask now. */
  place: () => Promise<ClientPlace>
  /** Like `action`, for the first use of a device key, which is made if there is none. */
  actionWithNewKey: ClientAction<Client>
}

/** The program, without the party's own subcommands. */
export function createProgram<Client>(
  options: ProgramOptions<Client>,
  terminal: Terminal,
): ClientProgram<Client> {
  const { name, description, called, party, prefix } = options
  const command = new Command(name)
    .description(description)
    .option(
      '--api <url>',
      `where ${called} is reached (${prefix}_API; default: ${options.publishedAs === undefined ? 'the issuer' : "as the issuer's metadata says, else the issuer"})`,
    )
    .option('--issuer <url>', `the issuer of ${party} (${prefix}_ISSUER)`)
    .option('--key <file>', `your device key (${prefix}_KEY)`)
    .option('--token <token>', `an access token of your realm, instead of a device key (${prefix}_TOKEN)`)
    .option('--json', 'JSON for scripts instead of tables')
    .option('--wide', 'tables as wide as they are, nothing shortened to fit the terminal')
  const path = (): string => {
    const file = command.opts<CommonValues>().key ?? options.settings().key
    return resolve(fromHome(file))
  }
  const ownKey = (): Promise<PrivateKey> => keyMadeAt(path(), options, terminal)
  const actionOf =
    (readKey: () => Promise<PrivateKey>): ClientAction<Client> =>
    run =>
    async (...args) => {
      const values = command.opts<CommonValues>()
      await run(await openSession(options, values, { terminal, readKey, key: path() }), ...args)
    }
  const key = command
    .command('key')
    .description('print the public half of your device key, for enrolling it; makes the key if there is none')
    .action(async () => {
      const own = await ownKey()
      terminal.out(`${printableJson(publicJwk(own, own.thumbprint))}\n`)
    })
  return {
    command,
    key,
    ownKey,
    action: actionOf(() => readKeyFile(path(), `${name} key`)),
    place: () => placeOf(options, command.opts<CommonValues>(), path()),
    actionWithNewKey: actionOf(ownKey),
  }
}

/** The device key at `path`; made if there is none. */
async function keyMadeAt(
  path: string,
  { name, power }: { name: string; power: string },
  terminal: Terminal,
): Promise<PrivateKey> {
  const existing = await readKeyFile(path, `${name} key`).catch(async (error: unknown) => {
    if (error instanceof UsageError && isMissing(error.cause)) return undefined
    throw error
  })
  if (existing) return existing
  const key = await writeNewKey(path)
  terminal.err(`Made a device key in ${printable(path)}. Anybody who holds that file ${power}.\n`)
  return key
}

/** Where the commands of a program ask, and what says so. */
export interface ClientPlace {
  issuer: string | undefined
  issuerFrom: 'option' | 'variable' | 'profile' | undefined
  /** Undefined if the metadata of the issuer says where it is. */
  api: string | undefined
  apiFrom: 'option' | 'variable' | 'profile' | 'metadata'
  /** The path of the device key. */
  key: string
  /** The path of the profile of that key, whether there is one or not. */
  path: string
}

/** An option wins over a variable, and both over the profile, whose API is that of its issuer alone. */
async function placeOf<Client>(
  { settings, profiled }: ProgramOptions<Client>,
  values: CommonValues,
  key: string,
): Promise<ClientPlace> {
  const configured = settings()
  const path = profilePath(key)
  const named = values.issuer ?? configured.issuer
  const profile = profiled === true ? await readProfile(path) : undefined
  const issuer = named ?? profile?.issuer
  const api = values.api ?? configured.api ?? (profile?.issuer === issuer ? profile?.api : undefined)
  const from = (option: unknown, variable: unknown) =>
    option === undefined ? (variable === undefined ? 'profile' : 'variable') : 'option'
  return {
    issuer,
    issuerFrom: issuer === undefined ? undefined : from(values.issuer, configured.issuer),
    api,
    apiFrom: api === undefined ? 'metadata' : from(values.api, configured.api),
    key,
    path,
  }
}

async function openSession<Client>(
  options: ProgramOptions<Client>,
  values: CommonValues,
  { terminal, readKey, key }: { terminal: Terminal; readKey: () => Promise<PrivateKey>; key: string },
): Promise<ClientSession<Client>> {
  const { party, prefix, settings, publishedAs, connect, profiled } = options
  const { issuer, api: named } = await placeOf(options, values, key)
  const enrolled = profiled === true ? ', or enrol, which keeps it' : ''
  if (issuer === undefined)
    throw new UsageError(`Name ${party}: --issuer <url> or ${prefix}_ISSUER${enrolled}.`)
  if (named === undefined) requireAddress(issuer, prefix)
  const found = named ?? (publishedAs === undefined ? undefined : await publishedApi(issuer, publishedAs))
  // A key that is named on the command line wins over a token in the environment.
  const token = values.token ?? (values.key === undefined ? settings().token : undefined)
  if (token !== undefined && !/^[A-Za-z0-9._~+/-]+=*$/.test(token))
    throw new UsageError('Give the access token alone, as your realm issued it.')
  const unserved = named === undefined ? unservedWords(options, issuer, found) : undefined
  const where = { api: found ?? issuer, issuer, unserved }
  const access = token === undefined ? { ...where, key: await readKey() } : { ...where, token }
  const columns = values.wide === true ? undefined : terminal.columns
  return { client: connect(access), terminal, json: values.json === true, columns }
}

/**
 * Without an address of the API, the issuer is asked for it, or in its place. Fails with `address_refused`,
 * as the client would, which calls the address that of the API though nobody named one.
 */
function requireAddress(issuer: string, prefix: string): void {
  try {
    apiBase(issuer)
  } catch (cause) {
    if (!(cause instanceof ApiError)) throw cause
    const detail = `The issuer (--issuer or ${prefix}_ISSUER) must be an https URL, or http on a loopback host: ${issuer}`
    throw new ApiError(cause.code, detail, { cause })
  }
}

/** The remedy if a path of the API is not served, which the metadata says to be at `found`. */
function unservedWords<Client>(
  { called, prefix, publishedAs }: ProgramOptions<Client>,
  issuer: string,
  found: string | undefined,
): string {
  if (publishedAs === undefined || found === undefined) {
    const lacking = `${issuer} does not serve ${called} and does not say where it is`
    // Metadata counts if it names the issuer to the letter (RFC 8414 §3.3): none of ours has that slash.
    if (publishedAs !== undefined && issuer.endsWith('/'))
      return `${lacking}, because no issuer ends with a slash. Give it as ${issuer.replace(/\/+$/, '')}.`
    return `${lacking}. Name its address: --api <url> or ${prefix}_API.`
  }
  return `${issuer} says that ${called} is at ${found}, and this path is not served there. ${publishedAs.unserved}`
}

function isMissing(cause: unknown): boolean {
  return cause instanceof Error && (cause as NodeJS.ErrnoException).code === 'ENOENT'
}

/**
 * How an error of an API ends the command: a script that asked for JSON also gets errors in JSON, and need
 * not parse a sentence.
 */
export function apiEnding(error: unknown, { asJson }: { asJson: boolean }): CommandEnd | undefined {
  // A fault of the configuration, which this layer may not import.
  if (error instanceof Error && error.name === 'ConfigFault')
    return { code: EXIT.usage, message: error.message.split('\n') }
  if (!(error instanceof ApiError)) return undefined
  const { code, detail } = error
  const message = asJson
    ? printableJson({ error: code, error_description: detail }).split('\n')
    : `${code}: ${inLocalTime(detail)}`
  if (error.code === 'address_refused') return { code: EXIT.usage, message }
  if (error.code === 'aborted') return { code: EXIT.interrupted, message: '' }
  return { code: error.temporary ? EXIT.unavailable : EXIT.refused, message }
}

/** A sentence of the server with its times in the zone of the reader. */
function inLocalTime(sentence: string): string {
  return sentence.replace(/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g, time => localTime(time))
}

/** An option that is a whole number. */
export function wholeNumber(value: string): number {
  if (!/^\d{1,15}$/.test(value)) throw new UsageError(`Give a whole number, not ${value}.`)
  return Number(value)
}
