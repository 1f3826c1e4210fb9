/**
 * The one-time code by which an owner gets her first credential: printed by the operator of this authority,
 * presented by her. Contract: "Authentication" (owner at the owner API: a device key she enrolled; no static
 * owner credential exists).
 */
import { randomBytes } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import { refuseGuessing } from '../../credentials/attempt-limit.ts'
import { verifyDeviceSignature } from '../../credentials/device-signature.ts'
import { challenge, presentedBy, proveLogin, refusedSignature } from '../../credentials/presentation.ts'
import { endpoint, type Credential, type Endpoint } from '../../http/endpoint.ts'
import { plainText } from '../../http/pages.ts'
import { signedMessage } from '../../http/signed-request.ts'
import { inTransaction } from '../../storage/core/database.ts'
import type { Db, Tx } from '../../storage/authority/database.ts'
import { replaceEnrolmentCode, spendEnrolmentCode } from '../../storage/authority/logins.ts'
import { lockQueue, ownerOf, readOwner } from '../../storage/authority/owners.ts'
import { encodeBase64url, sha256 } from '../../wire/encoding.ts'
import type { EnrolledKey, Login } from '../../wire/owner-api.ts'
import { asOwner, type Owner } from '../../wire/identifiers.ts'
import type { OwnerApi } from './api.ts'
import { bindLogin, CREDENTIAL_NAME, ENROLLED, enrolKey, importKey, PUBLIC_JWK } from './credentials.ts'
import { OWNER } from './guard.ts'

const CODE = /^enrol_([A-Za-z0-9_-]{1,64})\.[A-Za-z0-9_-]{43}$/
const SECRET_BYTES = 32

/**
 * Makes a code for an owner and ends her earlier one. The code names her by her routing tag, and only its
 * hash is kept. @returns undefined where she is not served here.
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
 * The same credentials as elsewhere, proved by the handler: they are nobody's yet. One who guesses has to
 * wait first.
 */
const UNENROLLED: Credential<OwnerApi, undefined> = {
  names: OWNER.names,
  async admit({ attempts }, { ip }, run) {
    refuseGuessing(attempts, ip)
    return run(undefined)
  },
}

/** 401 for a code that is unknown, used or expired, alike; 429 for a source that guesses. */
export const ENROLMENT: Endpoint<OwnerApi> = endpoint({
  method: 'post',
  path: '/owner/enrolment',
  rows: { addedUnder: 'Authentication' },
  summary:
    'Enrols a first credential by a one-time code: the key in the body, which signs the request, or the login of the access token',
  credential: UNENROLLED,
  body: {
    // With `jwk` a device key is enrolled, which signs the request; without, the login of the request's
    // access token.
    schema: z.strictObject({ code: plainText(200), name: CREDENTIAL_NAME, jwk: PUBLIC_JWK.optional() }),
  },
  answers: { 201: { says: 'Enrolled; the code is used up.', schema: ENROLLED } },
  handle: async (api: OwnerApi, { body: { code, name, jwk }, request, answer }) => {
    const enrol = await provenCredential(api, request, { name, jwk })
    const made = await redeem(api.database.db, code, enrol)
    if (made !== undefined) return answer(201, made)
    api.attempts.failed(request.ip)
    throw challenge(api.accepted, 'Ask the operator of this authority for a new code: this one is not good.')
  },
})

/** What is enrolled once the code has proved good: already proved to be the caller's, and not yet written. */
type Enrol = (tx: Tx, owner: Owner) => Promise<EnrolledKey | Login>

async function provenCredential(
  api: OwnerApi,
  request: FastifyRequest,
  { name, jwk }: { name: string; jwk: Record<string, unknown> | undefined },
): Promise<Enrol> {
  const presented = presentedBy(request, api.accepted)
  const actor = { kind: 'owner', credential: 'enrolment_code' } as const
  const by = { by: 'enrolment_code', actor } as const
  if (presented.kind === 'bearer') {
    if (jwk !== undefined)
      throw refusedSignature(api.accepted.space, 'Sign the request with the key that it enrols.')
    const login = await proveLogin(api.accepted.realm!, api.accepted.space, presented.token)
    return (tx, owner) => bindLogin(tx, owner, { name, login, by })
  }
  if (jwk === undefined)
    throw refusedSignature(api.accepted.space, 'Send the public half of the signing key as jwk.')
  const key = importKey(jwk)
  const judged = { now: api.now(), space: api.accepted.space }
  verifyDeviceSignature(signedMessage(request, api.base), judged, keyid =>
    keyid === key.thumbprint ? key : undefined,
  )
  return (tx, owner) => enrolKey(tx, owner, { name, key, by })
}

/** No owner is called so. */
const NOBODY = asOwner('')

/**
 * Uses the code up and enrols, in one transaction: a code is spent only by what it enrolled. A code of
 * nobody's costs the same statements as one of somebody's. @returns undefined where the code is not good.
 */
async function redeem(
  db: Db,
  code: string,
  enrol: Enrol,
): Promise<({ owner: string } & (EnrolledKey | Login)) | undefined> {
  const tag = CODE.exec(code)?.[1] ?? ''
  const owner = await ownerOf(db, 'tag', tag)
  return inTransaction(db, async tx => {
    await lockQueue(tx, owner ?? NOBODY)
    if (!(await spendEnrolmentCode(tx, owner ?? NOBODY, sha256(code)))) return undefined
    return { owner: owner!, ...(await enrol(tx, owner!)) }
  })
}
