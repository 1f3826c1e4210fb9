/**
 * The one-time code by which an owner gets her first credential: printed by the operator of this authority,
 * presented by her. Contract: "Authentication" (owner at the owner API: a device key she enrolled; no static
 * owner credential exists).
 */
import { randomBytes } from 'node:crypto'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { signatureBase, signedMessage, type SignatureBase } from '../../http/signed-request.ts'
import { inTransaction } from '../../storage/core/database.ts'
import type { Db, Tx } from '../../storage/authority/database.ts'
import { replaceEnrolmentCode, spendEnrolmentCode } from '../../storage/authority/logins.ts'
import { lockQueue, ownerOf, readOwner } from '../../storage/authority/owners.ts'
import { encodeBase64url, sha256 } from '../../wire/encoding.ts'
import { Refusal } from '../../wire/refusal.ts'
import { createAttemptLimit, type AttemptLimit } from './attempt-limit.ts'
import type { Authority } from '../context.ts'
import { verifyDeviceSignature } from './device-signature.ts'
import { challenge, presentedBy, refusedSignature, type OwnerAuthentication } from './credential.ts'
import { bindLogin, CREDENTIAL_NAME, enrolKey, importKey, PUBLIC_JWK } from './credentials.ts'
import { proveLogin } from './guard.ts'
import { bodyOf, plainText } from './requests.ts'
import { asOwner, type Owner } from '../../wire/identifiers.ts'

/** With `jwk` a device key is enrolled, which signs the request; without, the login of the request's access token. */
export const ENROLMENT = z.strictObject({
  code: plainText(200),
  name: CREDENTIAL_NAME,
  jwk: PUBLIC_JWK.optional(),
})

const CODE = /^enrol_([A-Za-z0-9_-]{1,64})\.[A-Za-z0-9_-]{43}$/
const SECRET_BYTES = 32
const FAILURES_PER_MINUTE = 20

/**
 * Makes a code for an owner and ends her earlier one. The code names her by her routing tag, and only its hash is
 * kept. @returns undefined where she is not served here.
 */
export async function issueEnrolmentCode(
  db: Db,
  owner: Owner,
  lifetimeSeconds: number,
): Promise<{ code: string; expires_at: string } | undefined> {
  const row = await readOwner(db, owner)
  if (row === undefined) return undefined
  const code = `enrol_${row.tag}.${encodeBase64url(randomBytes(SECRET_BYTES))}`
  const expires_at = await replaceEnrolmentCode(db, { owner, code_sha256: sha256(code), lifetimeSeconds })
  return { code, expires_at }
}

/**
 * Registers POST /owner/enrolment: 201 with the credential; 401 for a code that is unknown, used or expired, alike;
 * 429 for a source that guesses.
 */
export function registerEnrolment(
  app: FastifyInstance,
  authority: Authority,
  accepted: OwnerAuthentication,
): void {
  const base = signatureBase(authority.issuer)
  const limit = createAttemptLimit({ failuresPerMinute: FAILURES_PER_MINUTE, clock: () => Date.now() })
  app.post('/owner/enrolment', async (request, reply) => {
    refuseGuessing(limit, request.ip)
    const { code, name, jwk } = bodyOf(ENROLMENT, request)
    const enrol = await provenCredential({ authority, base, accepted }, request, { name, jwk })
    const made = await redeem(authority.database.db, code, enrol)
    if (made !== undefined) return reply.code(201).send(made)
    limit.failed(request.ip)
    throw challenge(accepted, 'Ask the operator of this authority for a new code: this one is not good.')
  })
}

/** What is enrolled once the code has proved good: already proved to be the caller's, and not yet written. */
type Enrol = (tx: Tx, owner: Owner) => Promise<object>

interface Enrolling {
  authority: Authority
  base: SignatureBase
  accepted: OwnerAuthentication
}

async function provenCredential(
  { authority, base, accepted }: Enrolling,
  request: FastifyRequest,
  { name, jwk }: { name: string; jwk: Record<string, unknown> | undefined },
): Promise<Enrol> {
  const presented = presentedBy(request, accepted)
  const by = 'enrolment_code'
  if (presented.kind === 'bearer') {
    if (jwk !== undefined) throw refusedSignature('Sign the request with the key that it enrols.')
    const login = await proveLogin(accepted.realm!, presented.token)
    return (tx, owner) => bindLogin(tx, owner, { name, login, by })
  }
  if (jwk === undefined) throw refusedSignature('Send the public half of the signing key as jwk.')
  const key = importKey(jwk)
  verifyDeviceSignature(signedMessage(request, base), authority.now(), keyid =>
    keyid === key.thumbprint ? key : undefined,
  )
  return (tx, owner) => enrolKey(tx, owner, { name, key, by })
}

/** No owner is called so. */
const NOBODY = asOwner('')

/**
 * Uses the code up and enrols, in one transaction: a code is spent only by what it enrolled. A code of nobody's
 * costs the same statements as one of somebody's. @returns undefined where the code is not good.
 */
async function redeem(db: Db, code: string, enrol: Enrol): Promise<object | undefined> {
  const tag = CODE.exec(code)?.[1] ?? ''
  const owner = await ownerOf(db, 'tag', tag)
  return inTransaction(db, async tx => {
    await lockQueue(tx, owner ?? NOBODY)
    if (!(await spendEnrolmentCode(tx, owner ?? NOBODY, sha256(code)))) return undefined
    return { owner, ...(await enrol(tx, owner!)) }
  })
}

function refuseGuessing(limit: AttemptLimit, source: string): void {
  const seconds = limit.wait(source)
  if (seconds === 0) return
  throw new Refusal('temporarily_unavailable', 'Wait before you try another code.', {
    status: 429,
    headers: { 'retry-after': String(seconds) },
  })
}
