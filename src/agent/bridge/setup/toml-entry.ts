/**
 * Owns the entry of the bridge in a TOML file that somebody else wrote. Contract: "What the service does":
 * the client stays as it is; everything else in its file, including comments, is left as it was written.
 */
import { isDeepStrictEqual } from 'node:util'

/** The command and arguments by which a client starts the bridge. */
export interface StartEntry {
  command: string
  args: string[]
  env?: Record<string, string>
}

/** Where a client finds a bridge that runs (`--listen`), with the header fields that it sends. */
export interface ListenEntry {
  url: string
  http_headers: Record<string, string>
}

/** An entry as TOML has it. */
export type Entry = StartEntry | ListenEntry

/** The entry as a table of its own. */
export function tomlEntry(name: string, entry: Entry): string {
  return [
    `[mcp_servers.${name}]`,
    ...Object.entries(entry).map(([key, value]) => `${key} = ${inToml(value)}`),
    '',
  ].join('\n')
}

/** Basic strings of TOML have the escapes of JSON. */
function inToml(value: string | string[] | Record<string, string>): string {
  if (typeof value === 'string') return JSON.stringify(value)
  if (Array.isArray(value)) return `[${value.map(inToml).join(', ')}]`
  return `{ ${Object.entries(value)
    .map(([key, member]) => `${key} = ${inToml(member)}`)
    .join(', ')} }`
}

/**
 * The file with the entry in place of the one of that name, everything else as it is written; undefined if
 * the file is no TOML, or its `mcp_servers` no table, or if the result would say anything else than before.
 */
export async function mergedToml(before: string, name: string, entry: Entry): Promise<string | undefined> {
  const { parse, patch } = await import('@decimalturn/toml-patch')
  const read = (text: string): Record<string, unknown> | undefined => {
    try {
      return parse(text) as Record<string, unknown>
    } catch {
      return undefined
    }
  }
  const file = read(before)
  if (file === undefined) return undefined
  const servers = Object.hasOwn(file, 'mcp_servers') ? file['mcp_servers'] : {}
  if (!isTable(servers)) return undefined
  const target = { ...file, mcp_servers: { ...servers, [name]: entry } }
  const isRight = (text: string): boolean => isDeepStrictEqual(plain(read(text)), plain(target))
  if (isRight(before)) return before
  const rest = before.trimEnd()
  const added = `${rest === '' ? '' : '\n\n'}${tomlEntry(name, entry)}`
  const appended = rest + (before.includes('\r\n') ? added.replaceAll('\n', '\r\n') : added)
  if (!Object.hasOwn(servers, name) && isRight(appended)) return appended
  try {
    const patched = patch(before, target)
    return isRight(patched) ? patched : undefined
  } catch {
    return undefined
  }
}

function isTable(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Date)
}

/** Tables as plain objects, so that two are compared by what they hold. */
function plain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plain)
  if (value instanceof Date) return String(value)
  if (!isTable(value)) return value
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, plain(member)]))
}
