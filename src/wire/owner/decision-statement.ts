/**
 * Owns the statement that an owner signs over her decision, with a key that her authority does not have.
 * Contract: "Owner API" (`/owner/pending/{family}/decision`), "Algorithms"; docs/choices.md settles its
 * members.
 */
import { s256, s256Json, sha256 } from '../encoding.ts'
import { asFamily, asOwner } from '../identifiers.ts'
import { canonicalize, isJsonObject, parseJson, type JsonObject } from '../json.ts'
import { parseJws, signJws, verifyJws, type Verified } from '../signatures/jws.ts'
import type { PrivateKey, PublicKey } from '../signatures/keys.ts'
import {
  booleanMember,
  integerMember,
  isCompact,
  member,
  objectMember,
  textMember,
  wordMember,
} from '../json-members.ts'
import { TYP } from '../names.ts'
import { readAssertion, verifyAssertion, type Assertion } from '../passkeys/passkey-assertion.ts'
import type { PinnedPasskey } from '../signatures/pinned-keys.ts'
import { refuse } from '../refusal.ts'
import {
  DECISION_SECONDS,
  statementClaims,
  statementIssuer,
  type StatementClaims,
} from './statement-claims.ts'

export { DECISION_SECONDS, type Admits, type StatementClaims } from './statement-claims.ts'

/** How far `iat` may be ahead, for clocks that differ. */
const SKEW_SECONDS = 60

const ADMITS = ['all', 'tier'] as const

/** A statement by a passkey: the claims, and its assertion over their SHA-256. */
export type PasskeyStatement = { payload: JsonObject; webauthn: Assertion }

/** A compact JWS by a device key, or a passkey's. */
export type SignedStatement = string | PasskeyStatement

/** The owner and keys whose statements are accepted. */
export interface StatementKeys {
  readonly devices: readonly PublicKey[]
  readonly passkeys: readonly PinnedPasskey[]
}

const MEMBERS: ReadonlySet<string> = new Set([
  'iss',
  'aud',
  'owner',
  'family',
  'decision',
  'item_s256',
  'admits',
  'single_use',
  'expires_in',
  'iat',
  'exp',
  'jti',
])

/** The compact statement over what was decided at `iat` (seconds), signed by one of the owner's own keys. */
export function signStatement(content: Omit<StatementClaims, 'iss' | 'exp'>, key: PrivateKey): string {
  return signJws({ typ: TYP.decision, payload: statementClaims(content, key.thumbprint) }, key)
}

/**
 * A statement in JSON: text of the form of a compact JWS, or `{payload, webauthn}` without any other member.
 * Refuses with `invalid_request`; verifies nothing.
 */
export function readStatement(value: unknown): SignedStatement {
  if (typeof value === 'string' && isCompact(value)) return value
  if (!isJsonObject(value)) refuse('invalid_request', 'Give statement as a compact JWS, or as a passkey’s.')
  const unknown = Object.keys(value).find(name => name !== 'payload' && name !== 'webauthn')
  if (unknown !== undefined) refuse('invalid_request', `Leave ${unknown.slice(0, 40)} out of the statement.`)
  return { payload: objectMember(value, 'payload'), webauthn: readAssertion(value['webauthn']) }
}

/** A statement as a file contains it. Refuses like `readStatement`. */
export function parseStatement(text: string): SignedStatement {
  return readStatement(text.startsWith('{') ? parseJson(text) : text)
}

/** The digest that names a statement: of the compact JWS, or of the JSON of a passkey's statement. */
export function statementDigest(statement: SignedStatement): string {
  return typeof statement === 'string' ? s256(statement) : s256Json(statement)
}

/** The claims that a statement carries, unverified and of any form. */
export function statementPayload(statement: SignedStatement): JsonObject {
  return typeof statement === 'string' ? parseJws(statement).payload : statement.payload
}

/**
 * The digest of a statement's claims. It is the same whatever encoding or signature is chosen for them, so it
 * finds a statement that is presented again.
 */
export function statementClaimsDigest(statement: SignedStatement): string {
  return s256Json(statementPayload(statement))
}

/**
 * Verifies a statement at `now` (seconds) by the one of `keys` whose thumbprint `iss` names, whatever its
 * header says (a passkey's `id` must name the same key): `typ`, signature, every claim of its type and no
 * other, `aud`, `iat` at most 60 s ahead, `exp` exactly 3600 s and the life of the grant after it, and still
 * in the future. Refuses with `invalid_request`, or with `statement_key` if none of the keys made it. It
 * checks neither whether the statement is about the item (`statementFault` of rules/owner-statement.ts does),
 * nor whether it was used before.
 */
export function verifyStatement(
  statement: SignedStatement,
  keys: StatementKeys,
  expected: { audience: string; now: number },
): Verified<StatementClaims> {
  const claims =
    typeof statement === 'string'
      ? verifyByDevice(statement, keys.devices)
      : verifyByPasskey(statement, keys.passkeys)
  checkTimes(claims, expected.now)
  if (claims.aud !== expected.audience) refuse('invalid_request', `Sign a decision for ${expected.audience}.`)
  return claims as Verified<StatementClaims>
}

function verifyByDevice(compact: string, devices: readonly PublicKey[]): StatementClaims {
  const parsed = parseJws(compact)
  if (parsed.header['typ'] !== TYP.decision) refuse('invalid_request', `Give typ as ${TYP.decision}.`)
  const claims = readClaims(parsed.payload)
  const key = devices.find(one => statementIssuer(one.thumbprint) === claims.iss) ?? unknownKey()
  verifyJws(parsed, key, { typ: TYP.decision })
  return claims
}

function verifyByPasskey(
  { payload, webauthn }: PasskeyStatement,
  passkeys: readonly PinnedPasskey[],
): StatementClaims {
  const claims = readClaims(payload)
  const key =
    passkeys.find(({ id, thumbprint }) => id === webauthn.id && statementIssuer(thumbprint) === claims.iss) ??
    unknownKey()
  verifyAssertion(webauthn, key, sha256(canonicalize(claims)))
  return claims
}

function unknownKey(): never {
  refuse('statement_key', 'Sign the decision with a key of the owner that is accepted here.')
}

function readClaims(payload: JsonObject): StatementClaims {
  const unknown = Object.keys(payload).find(name => !MEMBERS.has(name))
  if (unknown !== undefined) refuse('invalid_request', `Leave ${unknown.slice(0, 40)} out of the statement.`)
  return {
    iss: textMember(payload, 'iss'),
    aud: textMember(payload, 'aud'),
    owner: asOwner(textMember(payload, 'owner')),
    family: asFamily(textMember(payload, 'family')),
    decision: wordMember(payload, 'decision', ['approved', 'denied']),
    item_s256: textMember(payload, 'item_s256'),
    admits: member(payload, 'admits') === null ? null : wordMember(payload, 'admits', ADMITS),
    single_use: booleanMember(payload, 'single_use'),
    expires_in: integerMember(payload, 'expires_in', 1),
    iat: integerMember(payload, 'iat'),
    exp: integerMember(payload, 'exp'),
    jti: textMember(payload, 'jti'),
  }
}

function checkTimes({ iat, exp, expires_in }: StatementClaims, now: number): void {
  if (iat > now + SKEW_SECONDS)
    refuse('invalid_request', 'Set the clock: the decision was signed ahead of time.')
  if (exp !== iat + DECISION_SECONDS + expires_in)
    refuse('invalid_request', `Give exp as iat + ${DECISION_SECONDS} + expires_in.`)
  if (now >= exp) refuse('invalid_request', 'Decide again: this statement has expired.')
}
