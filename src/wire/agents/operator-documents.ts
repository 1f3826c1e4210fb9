/**
 * Owns what operators and issuers of agent tokens publish: the client identity document, the key directory,
 * the issuer's discovery document. Contract: "Operator documents", "Agreement (claim_token, beat 3)"
 * (client_id, signature_agent) and "Authentication" (agent-token issuers);
 * draft-ietf-oauth-client-id-metadata-document, draft-meunier-http-message-signatures-directory. The
 * authority fetches them; this file says what a document means.
 */
import { operatorOrigin } from './agent-identity.ts'
import { asObject, member, textMember, urlMember } from '../json-members.ts'
import { isJsonObject, type Json, type JsonObject } from '../json.ts'
import { thumbprintOf } from '../signatures/keys.ts'
import { WELL_KNOWN } from '../names.ts'
import { refuse } from '../refusal.ts'

const NAME_CHARACTERS_MAX = 100
const SHARED_SECRET_MEMBERS = ['client_secret', 'client_secret_expires_at'] as const
const SHARED_SECRET_METHODS: ReadonlySet<unknown> = new Set([
  'client_secret_basic',
  'client_secret_post',
  'client_secret_jwt',
])

/**
 * A client identity document that claims the URL where it was found. `name` is free text from the operator.
 */
export interface ClientDocument {
  readonly client_id: string
  readonly name: string | undefined
}

/**
 * Reads the document found at `client_id`. Refuses (`invalid_request`) one that does not claim that URL
 * character by character, and one that carries a shared secret or says it authenticates by one.
 */
export function readClientDocument(json: Json, client_id: string): ClientDocument {
  const document = asObject(json, 'the client document')
  if (textMember(document, 'client_id') !== client_id)
    refuse('invalid_request', 'Publish a client document whose client_id is its own URL.')
  const secret = SHARED_SECRET_MEMBERS.some(name => Object.hasOwn(document, name))
  if (secret || SHARED_SECRET_METHODS.has(member(document, 'token_endpoint_auth_method')))
    refuse('invalid_request', 'Publish no shared secret in a client document.')
  return { client_id, name: readName(document) }
}

/** Names are shown to the owner: cut to a length, and without NUL, which a database cannot hold. */
function readName(document: JsonObject): string | undefined {
  const name = member(document, 'client_name')
  if (typeof name !== 'string') return undefined
  const shown = Array.from(name.replaceAll('\0', '').trim()).slice(0, NAME_CHARACTERS_MAX).join('')
  return shown === '' ? undefined : shown
}

/**
 * Where the key directory of the operator behind `client_id` is: `signature_agent`, or its well-known path
 * if that is a bare origin or absent. Undefined if `signature_agent` is at another origin, as a
 * directory there attests nothing.
 */
export function directoryUrl(client_id: string, signature_agent: string | undefined): string | undefined {
  const operator = operatorOrigin(client_id)
  if (operator === undefined) return undefined
  if (signature_agent === undefined) return directoryOf(operator)
  if (!URL.canParse(signature_agent)) return undefined
  const { origin, pathname, search } = new URL(signature_agent)
  if (origin !== operator) return undefined
  return pathname === '/' && search === '' ? directoryOf(operator) : signature_agent
}

/** The well-known address of an operator's key directory. */
export function directoryOf(operator: string): string {
  return operator + WELL_KNOWN.signatureDirectory
}

/**
 * The thumbprints of the keys that a directory lists at `now` (seconds): Ed25519 keys for signatures, inside
 * their own `nbf` and `exp`. Only the key counts, under any `kid`. Refuses (`invalid_request`) a document
 * that is no JWKS.
 */
export function directoryThumbprints(json: Json, now: number): ReadonlySet<string> {
  const members = isJsonObject(json) ? member(json, 'keys') : undefined
  if (!Array.isArray(members))
    refuse('invalid_request', 'Publish a key directory as a JWKS: an object with a `keys` array.')
  return new Set(
    members.flatMap(one =>
      isJsonObject(one) && isUsable(one) && isInForce(one, now) ? thumbprint(one) : [],
    ),
  )
}

/**
 * Keys are not fully imported, because they are only compared with imported ones, and a directory may list
 * hundreds.
 */
function isUsable(jwk: JsonObject): boolean {
  const { kty, crv, alg, use } = jwk
  return (
    kty === 'OKP' &&
    crv === 'Ed25519' &&
    !Object.hasOwn(jwk, 'd') &&
    (alg === undefined || alg === 'Ed25519' || alg === 'EdDSA') &&
    (use === undefined || use === 'sig')
  )
}

function isInForce(jwk: JsonObject, now: number): boolean {
  const bound = (name: string, otherwise: number): number => {
    const value = member(jwk, name)
    if (value === undefined) return otherwise
    // A bound that cannot be read counts as not met.
    return typeof value === 'number' ? value : Number.NaN
  }
  return bound('nbf', -Infinity) <= now && now < bound('exp', Infinity)
}

function thumbprint(jwk: JsonObject): string[] {
  const { x } = jwk
  return typeof x === 'string' && /^[\w-]{43}$/.test(x) ? [thumbprintOf(x)] : []
}

/** Where an issuer's discovery document is. */
export function issuerDocumentUrl(iss: string): string {
  return iss.replace(/\/$/, '') + WELL_KNOWN.agentIssuer
}

/**
 * The address of an issuer's keys, from its discovery document. Refuses (`invalid_request`) a document that
 * names another issuer, or none, and one without `jwks_uri`.
 */
export function readIssuerDocument(json: Json, iss: string): string {
  const document = asObject(json, "the issuer's document")
  if (textMember(document, 'issuer') !== iss)
    refuse('invalid_request', 'Publish an issuer document that names its own issuer.')
  return urlMember(document, 'jwks_uri')
}
