/**
 * Owns the request by which a new device asks one of hers to enrol its key. It contains only a public key, so
 * losing it does no harm; the check word shows that it arrived unchanged. Contract: "Authentication".
 */
import { parseJsonObject } from '../../wire/json.ts'
import { jwkOf } from './device-jwk.ts'
import { thumbprint } from '../jws.ts'

const REQUEST = /^key_([A-Za-z0-9_-]{43})$/
const PUBLIC_KEY = /^[A-Za-z0-9_-]{43}$/

export function requestOf({ x }: { x: string }): string {
  return `key_${x}`
}

/** The public key of a device that asks, as it is enrolled. */
export interface DeviceRequest {
  jwk: Record<string, string>
  kid: string
  /** It is one of the command line, which has no check word and shows its kid. */
  isOfCommandLine: boolean
}

/**
 * The key in a request, in a link that contains one, or as `usher owner key` prints it. Undefined for
 * anything else: a private key, too.
 */
export async function readRequest(text: string): Promise<DeviceRequest | undefined> {
  const ofPage = REQUEST.exec(text.trim().split('#add=').at(-1)!)?.[1]
  if (ofPage !== undefined)
    return { jwk: jwkOf({ x: ofPage }), kid: await thumbprint(ofPage), isOfCommandLine: false }
  const x = publicKeyIn(text)
  if (x === undefined) return undefined
  return { jwk: { kty: 'OKP', crv: 'Ed25519', x }, kid: await thumbprint(x), isOfCommandLine: true }
}

/** The `x` of a public JWK. It was not made in a page, so it says nothing of one. */
function publicKeyIn(text: string): string | undefined {
  try {
    const { kty, crv, x, d } = parseJsonObject(text)
    const isPublic = kty === 'OKP' && crv === 'Ed25519' && d === undefined
    return isPublic && typeof x === 'string' && PUBLIC_KEY.test(x) ? x : undefined
  } catch {
    return undefined
  }
}

/** The beginning of the key's thumbprint, in two halves. */
export function checkWord(kid: string): string {
  return `${kid.slice(0, 5)} ${kid.slice(5, 10)}`
}
