/**
 * Owns the check of a decision that a passkey signed, in the browser: the checks of
 * src/wire/passkeys/passkey-assertion.ts, by WebCrypto. Contract: "Algorithms", "Owner API". Passkeys that
 * she removed count, too, because what they signed stays signed. The origin only has to be in the domain that
 * the passkey is bound to, because the origins that are accepted now say nothing about the past.
 */
import { canonicalize, isJsonObject, parseJsonObject, type Json, type JsonObject } from '../../wire/json.ts'
import type { Passkey } from '../../wire/owner/owner-credentials.ts'
import { thumbprintInput } from '../../wire/passkeys/passkey-claims.ts'
import { base64url, bytesOfBase64url, sha256, textOfBase64url } from '../bytes.ts'

/** rpIdHash, flags and signCount. */
const AUTHENTICATOR_BYTES = 37
const FLAGS_AT = 32
const [PRESENT, VERIFIED] = [0x01, 0x04]
const SCALAR_BYTES = 32

/** How claims name the passkey that signs them: by its RFC 7638 thumbprint. */
export async function passkeyThumbprint({ jwk }: Pick<Passkey, 'jwk'>): Promise<string> {
  return base64url(await sha256(thumbprintInput(jwk)))
}

/**
 * Its claims and her name for the passkey; `other`: none of these passkeys made it; `wrong`: it does not
 * hold.
 */
export async function signedByPasskey(
  statement: Json | undefined,
  passkeys: readonly Passkey[],
): Promise<'other' | 'wrong' | { payload: JsonObject; name: string }> {
  if (!isJsonObject(statement)) return 'wrong'
  const { payload, webauthn } = statement
  if (!isJsonObject(payload) || !isJsonObject(webauthn)) return 'wrong'
  const passkey = passkeys.find(({ id }) => id === webauthn['id'])
  if (passkey === undefined) return 'other'
  if (payload['iss'] !== `jkt:${await passkeyThumbprint(passkey)}`) return 'wrong'
  return (await holds(webauthn, passkey, payload)) ? { payload, name: passkey.name } : 'wrong'
}

async function holds(webauthn: JsonObject, { jwk, rp_id }: Passkey, payload: JsonObject): Promise<boolean> {
  const [data, clientData, der] = ['authenticatorData', 'clientDataJSON', 'signature'].map(name => {
    const text = webauthn[name]
    return typeof text === 'string' ? bytesOfBase64url(text) : undefined
  })
  if (data?.length !== AUTHENTICATOR_BYTES || clientData === undefined || der === undefined) return false
  const flags = data[FLAGS_AT]!
  if ((flags & PRESENT) === 0 || (flags & VERIFIED) === 0) return false
  if (base64url(data.subarray(0, FLAGS_AT)) !== base64url(await sha256(rp_id))) return false
  const challenge = base64url(await sha256(canonicalize(payload)))
  if (!isOf(textOfBase64url(base64url(clientData)) ?? '', { challenge, rp_id })) return false
  const signature = rawOf(der)
  if (signature === undefined) return false
  const signed = Uint8Array.from([...data, ...(await sha256(clientData))])
  const algorithm = { name: 'ECDSA', namedCurve: 'P-256' }
  const key = await crypto.subtle.importKey('jwk', jwk, algorithm, false, ['verify'])
  return crypto.subtle.verify({ name: 'ECDSA', hash: 'SHA-256' }, key, signature, signed)
}

function isOf(text: string, { challenge, rp_id }: { challenge: string; rp_id: string }): boolean {
  try {
    const { type, challenge: signed, origin, crossOrigin = false } = parseJsonObject(text)
    const host = typeof origin === 'string' ? URL.parse(origin)?.hostname : undefined
    const isWithin = host === rp_id || host?.endsWith(`.${rp_id}`) === true
    return type === 'webauthn.get' && signed === challenge && isWithin && crossOrigin === false
  } catch {
    return false
  }
}

/** r and s, 32 bytes each, of a signature in DER in its shortest form. */
function rawOf(der: Uint8Array): Uint8Array<ArrayBuffer> | undefined {
  if (der[0] !== 0x30 || der[1] !== der.length - 2) return undefined
  const raw = new Uint8Array(2 * SCALAR_BYTES)
  let at = 2
  for (const end of [SCALAR_BYTES, 2 * SCALAR_BYTES]) {
    const length = der[at + 1] ?? 0
    const integer = der.subarray(at + 2, at + 2 + length)
    const [first = 0x80, second = 0x80] = integer
    const isShortest = first < 0x80 && (first > 0 || second >= 0x80)
    if (der[at] !== 0x02 || integer.length !== length || length > SCALAR_BYTES + 1 || !isShortest)
      return undefined
    const scalar = first === 0 ? integer.subarray(1) : integer
    if (scalar.length > SCALAR_BYTES) return undefined
    raw.set(scalar, end - scalar.length)
    at += 2 + length
  }
  return at === der.length ? raw : undefined
}
