/**
 * Owns the request by which a new device asks one of hers to enrol its key. It contains only a public key, so
 * losing it does no harm; the check word shows that it arrived unchanged. Contract: "Authentication".
 */
import type { BrowserKey } from './device-key.ts'
import { thumbprint } from '../jws.ts'

const REQUEST = /^key_([A-Za-z0-9_-]{43})$/

export function requestOf({ x }: Pick<BrowserKey, 'x'>): string {
  return `key_${x}`
}

/** The key in a request, or in a link that contains one. Undefined for anything else. */
export async function readRequest(text: string): Promise<{ x: string; kid: string } | undefined> {
  const [, x] = REQUEST.exec(text.trim().split('#add=').at(-1)!) ?? []
  return x === undefined ? undefined : { x, kid: await thumbprint(x) }
}

/** The beginning of the key's thumbprint, in two halves. */
export function checkWord(kid: string): string {
  return `${kid.slice(0, 5)} ${kid.slice(5, 10)}`
}
