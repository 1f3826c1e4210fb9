/**
 * Owns the entry by which an MCP client starts the bridge. Contract: "What the service does": the client
 * stays as it is, and is given one more server.
 */
import { constants } from 'node:fs'
import {
  chmod,
  copyFile,
  mkdir,
  open,
  readFile,
  readlink,
  realpath,
  rename,
  rm,
  stat,
} from 'node:fs/promises'
import { dirname, extname, join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { UsageError, type Terminal } from '../../../terminal/command.ts'
import { homeFolder } from '../../../terminal/home.ts'
import { printable, printableJson } from '../../../terminal/printable.ts'
import { isJsonObject, parseJson, type Json, type JsonObject } from '../../../wire/json.ts'
import { checkAddress } from '../../transports/transport.ts'
import { withEntry } from './json-entry.ts'
import { CLIENT_NAME } from '../listen-token.ts'
import { mergedToml, tomlEntry, type Entry } from './toml-entry.ts'

/** The file and format in which a client keeps its servers. */
interface ClientFile {
  /** Its own place for it, which may need a home folder. */
  path: () => string
  format: { kind: 'json'; member: 'mcpServers' | 'servers'; typed: boolean } | { kind: 'toml' }
  /** Whether the client reads entries of servers that it does not start itself. */
  remote: boolean
}

export interface ConfigureOptions {
  resources: readonly string[]
  client: string
  name: string
  write?: string | true | undefined
  /** The options that the client should start the bridge with. */
  options?: readonly string[] | undefined
  /** Whether the bridge takes resources on a loopback host, in its environment. */
  allowLoopback?: boolean | undefined
  /** The environment in which the client should start the bridge. */
  environment?: Readonly<Record<string, string>> | undefined
  /** A bridge that runs, instead of one that the client starts; `secret` is this client's own. */
  running?: { url: string; secret: string } | undefined
}

/** A program with the arguments that come before ours. */
interface Start {
  command: string
  args: string[]
}

/** With the names of tools as they are shown, and four underscores and `mcp`, 64 characters (`tools.ts`). */
const NAME_FITS_MAX = 9

/**
 * Prints the entry, or merges it into the file. Fails with `UsageError` if the file is not what it should
 * be, and with `address_refused` for a resource that the bridge would refuse.
 */
export async function configure(options: ConfigureOptions, terminal: Terminal): Promise<void> {
  const { resources, client, name, write } = options
  if (!CLIENT_NAME.test(name)) throw new UsageError('Give --name letters, digits, - and _.')
  for (const resource of resources) checkAddress(resource, options.allowLoopback ?? false, 'resource')
  if (name.length > NAME_FITS_MAX)
    terminal.err(
      `Some clients put the name of the entry before each tool's, and drop tools whose names are then too long: ` +
        `take one of at most ${NAME_FITS_MAX} characters.\n`,
    )
  const file = clientFile(client)
  if (options.running !== undefined && !file.remote)
    throw new UsageError(`${client} only takes servers that it starts itself: leave --listen out.`)
  const entry = entryOf(options)
  if (write === undefined) {
    terminal.err(`Add this to ${printable(file.path())}, or run it again with --write:\n`)
    return terminal.out(
      file.format.kind === 'toml'
        ? tomlEntry(name, entry)
        : `${printableJson({ [file.format.member]: { [name]: jsonServer(file.format, entry) } })}\n`,
    )
  }
  const path = write === true ? file.path() : write
  const before = await readText(path)
  const after =
    file.format.kind === 'toml'
      ? await mergedToml(before ?? '', name, entry)
      : mergeJson(before, { path, entry, name, format: file.format })
  if (after === undefined) {
    terminal.out(tomlEntry(name, entry))
    throw new UsageError(
      `${path} is no TOML that another entry can be merged into, and stays as it is: add the entry by hand.`,
    )
  }
  const backup = await replace(path, before, { after, secret: options.running !== undefined })
  const notice = backup === undefined ? '' : `; the file as it was is ${printable(backup)}`
  terminal.err(`Wrote ${printable(name)} to ${printable(path)}${notice}.\n`)
  if (options.running === undefined) return
  terminal.err(
    `It holds the secret of this client: keep ${printable(path)} and its copies out of version control.\n`,
  )
  for (const open of await openToOthers(backup === undefined ? [path] : [path, backup]))
    terminal.err(
      `Others on this machine can read ${printable(open)}: its file system keeps no modes. Keep it elsewhere, or mount it with a mask of 077.\n`,
    )
}

/** Those of the files that others than their user may read. Windows has no such modes. */
async function openToOthers(paths: readonly string[]): Promise<string[]> {
  if (process.platform === 'win32') return []
  const modes = await Promise.all(paths.map(async path => (await stat(path)).mode))
  return paths.filter((_path, at) => (modes[at]! & 0o044) !== 0)
}

function entryOf({ resources, options = [], environment: env = {}, running }: ConfigureOptions): Entry {
  if (running !== undefined)
    return { url: running.url, http_headers: { Authorization: `Bearer ${running.secret}` } }
  const start = ownStart()
  return {
    command: start.command,
    args: [...start.args, 'agent', 'bridge', ...resources, ...options],
    ...(Object.keys(env).length > 0 && { env: { ...env } }),
  }
}

function clientFile(client: string): ClientFile {
  const json = (
    path: () => string,
    member: 'mcpServers' | 'servers' = 'mcpServers',
    typed = false,
    remote = true,
  ): ClientFile => ({ path, format: { kind: 'json', member, typed }, remote })
  switch (client) {
    case 'claude-desktop':
      return json(
        () => join(claudeFolder(homeFolder()), 'claude_desktop_config.json'),
        'mcpServers',
        false,
        false,
      )
    case 'claude-code':
      return json(() => '.mcp.json', 'mcpServers', true)
    case 'cursor':
      return json(() => join(homeFolder(), '.cursor', 'mcp.json'))
    case 'vscode':
      return json(() => join('.vscode', 'mcp.json'), 'servers', true)
    case 'codex':
      return {
        path: () => join(homeFolder(), '.codex', 'config.toml'),
        format: { kind: 'toml' },
        remote: true,
      }
    default:
      throw new UsageError('Give --client as claude-desktop, claude-code, cursor, vscode or codex.')
  }
}

function claudeFolder(home: string): string {
  if (process.platform === 'darwin') return join(home, 'Library', 'Application Support', 'Claude')
  if (process.platform === 'win32') return join(home, 'AppData', 'Roaming', 'Claude')
  return join(home, '.config', 'Claude')
}

/**
 * Starts the bridge by exactly the files that run now, whether from the package or from the sources. It never
 * uses a name that a registry would look up, because the name may be somebody else's there.
 */
function ownStart(): Start {
  const cli =
    extname(import.meta.filename) === '.ts'
      ? join(import.meta.dirname, '..', '..', '..', 'cli.ts')
      : join(import.meta.dirname, 'cli.js')
  return { command: process.execPath, args: [cli] }
}

type JsonFormat = Extract<ClientFile['format'], { kind: 'json' }>

function jsonServer({ typed }: JsonFormat, entry: Entry): JsonObject {
  const type = 'url' in entry ? 'http' : 'stdio'
  const { http_headers: headers, ...rest } = { http_headers: undefined, ...entry }
  return { ...(typed ? { type } : {}), ...rest, ...(headers === undefined ? {} : { headers }) }
}

function mergeJson(
  before: string | undefined,
  { path, name, entry, format }: { path: string; name: string; entry: Entry; format: JsonFormat },
): string {
  const { member } = format
  const text = before === undefined || before.trim() === '' ? '{}\n' : before
  const file = parseFile(text, path)
  const servers = file[member] ?? {}
  if (!isJsonObject(servers)) throw new UsageError(`${path} has ${member} that is no object.`)
  const server = jsonServer(format, entry)
  const after = withEntry(text, [member, name], server)
  // Written only if it says what it said before, and our entry.
  const target = { ...file, [member]: { ...servers, [name]: server } }
  if (isDeepStrictEqual(parseFile(after, path), target)) return after
  throw new UsageError(`${path} is written in a way that cannot be edited: add the entry by hand.`)
}

function parseFile(text: string, path: string): JsonObject {
  const unreadable = (cause?: unknown): never => {
    throw new UsageError(
      `${path} is no plain JSON object (perhaps it has comments): add the entry by hand.`,
      { cause },
    )
  }
  let json: Json
  try {
    json = parseJson(text)
  } catch (cause) {
    return unreadable(cause)
  }
  return isJsonObject(json) ? json : unreadable()
}

/** The file's text; undefined if there is none. A file that cannot be read must not be overwritten. */
async function readText(path: string): Promise<string | undefined> {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(await readFile(path))
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return absent(path)
    throw new UsageError(`${path} cannot be read as text: add the entry by hand.`, { cause })
  }
}

/** A link that leads to no file is not followed: its maker meant another file to be there. */
async function absent(path: string): Promise<undefined> {
  const target = await readlink(path).catch(() => undefined)
  if (target === undefined) return undefined
  throw new UsageError(
    `${path} is a link to ${target}, which is not there: make that file, or remove the link, and run it again.`,
  )
}

/**
 * @returns where the original file is kept; undefined if there was none. A link still leads to the file
 * afterwards.
 */
async function replace(
  path: string,
  before: string | undefined,
  { after, secret }: { after: string; secret: boolean },
): Promise<string | undefined> {
  await mkdir(dirname(path), { recursive: true }).catch((cause: unknown) => {
    throw new UsageError(`${dirname(path)} is no folder that a file can be put into.`, { cause })
  })
  if (before === undefined) {
    await writeAll(path, after, 0o600).catch((cause: NodeJS.ErrnoException) => {
      if (cause.code !== 'EEXIST') throw cause
      throw new UsageError(`${path} was made by somebody else meanwhile: run it again.`, { cause })
    })
    return undefined
  }
  const target = await realpath(path)
  const backup = await keep(target)
  // It may hold the secret already.
  if (secret) await chmod(backup, 0o600).catch(unlessWithoutModes)
  const temporary = `${target}.${crypto.randomUUID()}`
  // A file with a secret is readable by its owner alone, even if the file was not before.
  const mode = (await stat(target)).mode & (secret ? 0o600 : 0o777)
  await writeAll(temporary, after, mode)
  await rename(temporary, target)
  return backup
}

/** A new file with all of the text; none if that cannot be written, because the client would read a part. */
async function writeAll(path: string, text: string, mode: number): Promise<void> {
  const file = await open(path, 'wx', mode)
  try {
    await file.writeFile(text)
    await file.sync()
  } catch (cause) {
    await rm(path, { force: true })
    const { code } = cause as NodeJS.ErrnoException
    throw new UsageError(`${path} cannot be written whole (${code}): make room there. Nothing was changed.`, {
      cause,
    })
  } finally {
    await file.close()
  }
}

/**
 * What `chmod` says where a file system keeps no modes: FAT, shares of Windows, a drive of Windows in WSL.
 */
const WITHOUT_MODES: ReadonlySet<string> = new Set(['ENOSYS', 'ENOTSUP', 'EOPNOTSUPP', 'EPERM'])

function unlessWithoutModes(error: NodeJS.ErrnoException): void {
  if (!WITHOUT_MODES.has(error.code ?? '')) throw error
}

/**
 * Copies a file into the same folder, under a free name, because the first copy is the one that somebody will
 * want back.
 */
async function keep(path: string): Promise<string> {
  for (let n = 0; ; n++) {
    const copy = n === 0 ? `${path}.bak` : `${path}.bak.${n}`
    try {
      await copyFile(path, copy, constants.COPYFILE_EXCL)
      return copy
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      if (code !== 'EEXIST')
        throw new UsageError(
          `${path} cannot be kept as ${copy} (${code}): make room there. Nothing was changed.`,
          {
            cause: error,
          },
        )
    }
  }
}
