/**
 * Owns a second reading of a request, written for this purpose and with nothing of the product in it: how a
 * server behind the proxy would read it. An allow must be an allow in this reading, too.
 */
import { createHash } from 'node:crypto'

/** A request body as a plain JSON-RPC server takes it; undefined if it is none. */
export function readLikeATool(
  body: Buffer,
): { method: string | undefined; name: unknown; args: unknown } | undefined {
  let message: unknown
  try {
    message = JSON.parse(body.toString('utf8'))
  } catch {
    return undefined
  }
  if (typeof message !== 'object' || message === null || Array.isArray(message)) return undefined
  const { method, params } = message as { method?: string; params?: { name?: unknown; arguments?: unknown } }
  return { method, name: params?.name, args: params?.arguments ?? {} }
}

/** Methods that nobody needs a grant for, from docs/contract.md, "Authorized call", and docs/choices.md. */
export function isFree(method: string | undefined): boolean {
  return (
    method === undefined ||
    ['initialize', 'ping', 'tools/list', 'server/discover'].includes(method) ||
    method.startsWith('notifications/')
  )
}

/**
 * `params_s256`, computed in another way than the product does: sorted by a replacer, hashed with createHash.
 */
export function hashArguments(args: unknown): string {
  const sorted = (value: unknown): unknown =>
    Array.isArray(value)
      ? value.map(sorted)
      : typeof value === 'object' && value !== null
        ? new Map(
            Object.entries(value)
              .toSorted(([a], [b]) => (a < b ? -1 : 1))
              .map(([key, inner]) => [key, sorted(inner)]),
          )
        : value
  const text = (value: unknown): string => {
    if (value instanceof Map)
      return `{${[...value].map(([key, inner]) => `${JSON.stringify(key)}:${text(inner)}`).join(',')}}`
    if (Array.isArray(value)) return `[${value.map(text).join(',')}]`
    return JSON.stringify(value)
  }
  return `s256:${createHash('sha256')
    .update(text(sorted(args)))
    .digest('base64url')}`
}
