/**
 * Owns the signed documents that the page verifies itself, by WebCrypto. Contract: "Algorithms", "Agreement
 * (claim_token, beat 3)" (JWS protected header). src/wire/signatures/jws.ts and
 * src/wire/negotiation/known-agreement.ts do the same for programs.
 */
import { isJsonObject, parseJsonObject, type Json, type JsonObject } from '../wire/json.ts'
import { TYP } from '../wire/names.ts'
import { base64url, bytesOfBase64url, s256, sha256, textOfBase64url, utf8 } from './bytes.ts'

/** A compact JWS that was read, and is not verified yet. */
interface Jws {
  header: JsonObject
  payload: JsonObject
  input: string
  signature: Uint8Array<ArrayBuffer>
}

/**
 * The claims of an agreement, if it has this hash (`agreement`, s256) and is signed by the key with this
 * thumbprint (`jkt`); undefined otherwise. Judges no claim.
 */
export async function signedAgreement(
  compact: string,
  { agreement, jkt }: { agreement: string; jkt: string },
): Promise<JsonObject | undefined> {
  if ((await s256(compact)) !== agreement) return undefined
  const read = await selfSignedAgreement(compact)
  return read?.jkt === jkt ? read.claims : undefined
}

/**
 * The claims of an agreement that is signed by the key in its own header, and the thumbprint of that key. An
 * agent token in the header is only read for its key. Whose key it is, is not judged.
 */
export async function selfSignedAgreement(
  compact: string,
): Promise<{ claims: JsonObject; jkt: string } | undefined> {
  const jws = parsedJws(compact, TYP.agreement)
  const x = jws === undefined ? undefined : agentKeyIn(jws.header)
  if (jws === undefined || x === undefined || !(await isSignedBy(jws, x))) return undefined
  return { claims: jws.payload, jkt: await thumbprint(x) }
}

/**
 * A compact JWS of that `typ`, read strictly: another spelling of the same bytes is refused. Only an
 * agreement may have no `typ`, or spell it as media types may be (RFC 7515 §4.1.9), because agents of others
 * sign it.
 */
export function parsedJws(compact: string, typ: string): Jws | undefined {
  const [protectedText = '', payloadText = '', signatureText = '', ...more] = compact.split('.')
  const signature = bytesOfBase64url(signatureText)
  if (more.length > 0 || signature?.length !== 64) return undefined
  try {
    const header = parseJsonObject(textOfBase64url(protectedText) ?? '')
    const payload = parseJsonObject(textOfBase64url(payloadText) ?? '')
    const { alg, crit, b64, typ: kind } = header
    if (alg !== 'EdDSA' && alg !== 'Ed25519') return undefined
    if (crit !== undefined || b64 !== undefined) return undefined
    const isKind = typ === TYP.agreement ? isAgreement(kind) : kind === typ
    return isKind ? { header, payload, input: `${protectedText}.${payloadText}`, signature } : undefined
  } catch {
    return undefined
  }
}

function isAgreement(kind: Json | undefined): boolean {
  if (kind === undefined) return true
  return typeof kind === 'string' && kind.toLowerCase().replace(/^application\//, '') === TYP.agreement
}

/** The `x` of an Ed25519 key, 43 characters; undefined for any other. */
export function keyIn(jwk: Json | undefined): string | undefined {
  if (!isJsonObject(jwk) || jwk['kty'] !== 'OKP' || jwk['crv'] !== 'Ed25519') return undefined
  const { x } = jwk
  return typeof x === 'string' && bytesOfBase64url(x)?.length === 32 ? x : undefined
}

/** The RFC 7638 thumbprint of the Ed25519 key with this `x`. */
export async function thumbprint(x: string): Promise<string> {
  return base64url(await sha256(JSON.stringify({ crv: 'Ed25519', kty: 'OKP', x })))
}

/**
 * The key is in the header itself, or in the token of the agent's provider, which the authority has verified.
 */
function agentKeyIn(header: JsonObject): string | undefined {
  const { jwk, agent_token: token } = header
  if (token === undefined) return keyIn(jwk)
  if (typeof token !== 'string') return undefined
  try {
    const { cnf } = parseJsonObject(textOfBase64url(token.split('.')[1] ?? '') ?? '')
    return isJsonObject(cnf) ? keyIn(cnf['jwk']) : undefined
  } catch {
    return undefined
  }
}

/** Whether the Ed25519 key with this `x` signed it. */
export async function isSignedBy(
  { input, signature }: Pick<Jws, 'input' | 'signature'>,
  x: string,
): Promise<boolean> {
  const jwk = { kty: 'OKP', crv: 'Ed25519', x }
  const key = await crypto.subtle.importKey('jwk', jwk, { name: 'Ed25519' }, false, ['verify'])
  return crypto.subtle.verify('Ed25519', key, signature, utf8(input))
}
