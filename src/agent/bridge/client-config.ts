/**
 * Owns the entry by which an MCP client starts the bridge. Contract: "What the service does": the client
 * stays as it is, and is given one more server.
 */
import { constants } from 'node:fs'
import { copyFile, mkdir, readFile, realpath, rename, stat, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname, extname, join } from 'node:path'
import { UsageError, type Terminal } from '../../terminal/command.ts'
import { printable, printableJson } from '../../terminal/printable.ts'
import { isJsonObject, parseJson, type Json, type JsonObject } from '../../wire/json.ts'

/** Where a client keeps its servers, and in which form. */
interface ClientFile {
  path: string
  format: { kind: 'json'; member: 'mcpServers' | 'servers'; typed: boolean } | { kind: 'toml' }
}

export interface ConfigureOptions {
  resources: readonly string[]
  client: string
  name: string
  write?: string | true | undefined
  /** The environment that the bridge is to be started with. */
  environment?: Readonly<Record<string, string>> | undefined
}

/** A program with the arguments that come before ours. */
interface Start {
  command: string
  args: string[]
}

const NAME = /^[A-Za-z0-9_-]{1,64}$/

/**
 * Prints the entry, or merges it into the file. Fails with `UsageError` where the file is not what it should
 * be.
 */
export async function configure(options: ConfigureOptions, terminal: Terminal): Promise<void> {
  const { resources, client, name, write } = options
  if (!NAME.test(name)) throw new UsageError('Give --name letters, digits, - and _.')
  for (const resource of resources)
    if (!URL.canParse(resource)) throw new UsageError(`${resource} is no URL.`)
  const file = clientFile(client)
  const start = ownStart()
  const env = options.environment ?? {}
  const entry = {
    command: start.command,
    args: [...start.args, 'agent', 'bridge', ...resources],
    ...(Object.keys(env).length > 0 && { env: { ...env } }),
  }
  if (write === undefined) {
    terminal.err(`Add this to ${printable(file.path)}, or run it again with --write:\n`)
    return terminal.out(
      file.format.kind === 'toml'
        ? tomlEntry(name, entry)
        : `${printableJson(jsonEntry(file.format, name, entry))}\n`,
    )
  }
  const path = write === true ? file.path : write
  const before = await readText(path)
  const after =
    file.format.kind === 'toml'
      ? mergeToml(before ?? '', name, entry)
      : mergeJson(before, { path, entry, name, format: file.format })
  const kept = await replace(path, before, after)
  const told = kept === undefined ? '' : `; the file as it was is ${printable(kept)}`
  terminal.err(`Wrote ${printable(name)} to ${printable(path)}${told}.\n`)
}

interface Entry {
  command: string
  args: string[]
  env?: Record<string, string>
}

function clientFile(client: string): ClientFile {
  const home = homedir()
  const json = (
    path: string,
    member: 'mcpServers' | 'servers' = 'mcpServers',
    typed = false,
  ): ClientFile => ({ path, format: { kind: 'json', member, typed } })
  switch (client) {
    case 'claude-desktop':
      return json(join(claudeFolder(home), 'claude_desktop_config.json'))
    case 'claude-code':
      return json('.mcp.json', 'mcpServers', true)
    case 'cursor':
      return json(join(home, '.cursor', 'mcp.json'))
    case 'vscode':
      return json(join('.vscode', 'mcp.json'), 'servers', true)
    case 'codex':
      return { path: join(home, '.codex', 'config.toml'), format: { kind: 'toml' } }
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
 * By the very files that run now, of the package as of the sources. Never by a name that a registry would
 * look up: there it may be somebody else's.
 */
function ownStart(): Start {
  const cli =
    extname(import.meta.filename) === '.ts'
      ? join(import.meta.dirname, '..', '..', 'cli.ts')
      : join(import.meta.dirname, 'cli.js')
  return { command: process.execPath, args: [cli] }
}

type JsonFormat = Extract<ClientFile['format'], { kind: 'json' }>

function jsonEntry({ member, typed }: JsonFormat, name: string, entry: Entry): JsonObject {
  return { [member]: { [name]: { ...(typed ? { type: 'stdio' } : {}), ...entry } } }
}

function mergeJson(
  before: string | undefined,
  { path, name, entry, format }: { path: string; name: string; entry: Entry; format: JsonFormat },
): string {
  const file = before === undefined || before.trim() === '' ? {} : parseFile(before, path)
  const servers = file[format.member] ?? {}
  if (!isJsonObject(servers)) throw new UsageError(`${path} has ${format.member} that is no object.`)
  const added = jsonEntry(format, name, entry)[format.member] as JsonObject
  return `${JSON.stringify({ ...file, [format.member]: { ...servers, ...added } }, null, 2)}\n`
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

function tomlEntry(name: string, { command, args, env }: Entry): string {
  // Basic strings of TOML have the escapes of JSON.
  const variables = Object.entries(env ?? {}).map(([key, value]) => `${key} = ${JSON.stringify(value)}`)
  const table = variables.length === 0 ? '' : `env = { ${variables.join(', ')} }\n`
  return `[mcp_servers.${name}]\ncommand = ${JSON.stringify(command)}\nargs = [${args.map(arg => JSON.stringify(arg)).join(', ')}]\n${table}`
}

/** Another table of that name goes; all else stays as it is written. */
function mergeToml(before: string, name: string, entry: Entry): string {
  const lines = before.split('\n')
  const starts = (line: string): boolean => /^\s*\[/.test(line)
  const ours = new RegExp(String.raw`^\s*\[\s*mcp_servers\s*\.\s*"?${name}"?\s*(?:\.[^\]]*)?\]`)
  let inside = false
  const kept = lines.filter(line => {
    if (starts(line)) inside = ours.test(line)
    return !inside
  })
  const rest = kept.join('\n').trimEnd()
  return `${rest}${rest === '' ? '' : '\n\n'}${tomlEntry(name, entry)}`
}

/** The file's text; undefined if there is none. One that cannot be read is nobody's to write over. */
async function readText(path: string): Promise<string | undefined> {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(await readFile(path))
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw new UsageError(`${path} cannot be read as text: add the entry by hand.`, { cause })
  }
}

/**
 * @returns where the file as it was is kept; undefined if there was none. A link goes on leading to the file.
 */
async function replace(path: string, before: string | undefined, after: string): Promise<string | undefined> {
  await mkdir(dirname(path), { recursive: true })
  if (before === undefined) {
    await writeFile(path, after, { mode: 0o600, flag: 'wx' })
    return undefined
  }
  const target = await realpath(path)
  const kept = await keep(target)
  const temporary = `${target}.${crypto.randomUUID()}`
  await writeFile(temporary, after, { mode: (await stat(target)).mode & 0o777, flag: 'wx' })
  await rename(temporary, target)
  return kept
}

/**
 * Copies a file beside it, under a name that is free: the first copy is the one that somebody will want back.
 */
async function keep(path: string): Promise<string> {
  for (let n = 0; ; n++) {
    const copy = n === 0 ? `${path}.bak` : `${path}.bak.${n}`
    try {
      await copyFile(path, copy, constants.COPYFILE_EXCL)
      return copy
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
  }
}
