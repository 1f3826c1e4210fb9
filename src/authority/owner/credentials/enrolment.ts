/**
 * The one-time code by which an owner gets her first credential: printed by the operator of this authority,
 * presented by her. Contract: "Authentication" (owner at the owner API: a device key she enrolled; no static
 * owner credential exists).
 */
import { randomBytes } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import { refuseGuessing } from '../../../credentials/attempt-limit.ts'
import { challenge, presentedBy, proveLogin, refusedSignature } from '../../../credentials/presentation.ts'
import { endpoint, type Credential, type Endpoint } from '../../../http/servers/endpoint.ts'
import { plainText } from '../../../http/servers/pages.ts'
import { inTransaction } from '../../../storage/core/database.ts'
import type { Tx } from '../../../storage/authority/database.ts'
import { hasCredential, spendEnrolmentCode } from '../../../storage/authority/credentials/logins.ts'
import { lockQueue, NOBODY, ownerOf } from '../../../storage/authority/owners/owners.ts'
import { spendRecovery } from '../../../storage/authority/credentials/recoveries.ts'
import { encodeBase64url, sha256 } from '../../../wire/encoding.ts'
import type { EnrolledKey, Login } from '../../../wire/owner/owner-credentials.ts'
import type { Owner } from '../../../wire/identifiers.ts'
import type { OwnerApi } from '../api.ts'
import { bindLogin, CREDENTIAL_NAME, ENROLLED, enrolKey, PUBLIC_JWK, type ChangedBy } from './credentials.ts'
import { OWNER } from './guard.ts'
import { signingKey } from './passkey-login.ts'

const CODE = /^enrol_([A-Za-z0-9_-]{1,64})\.[A-Za-z0-9_-]{43}$/
const SECRET_BYTES = 32

/** A code for the owner with this routing tag, which names her; only its hash is kept. */
export function newCode(tag: string): string {
  return `enrol_${tag}.${encodeBase64url(randomBytes(SECRET_BYTES))}`
}

/**
 * The credentials are the same as elsewhere, but the handler proves them because they belong to nobody yet. A
 * source that guesses has to wait first.
 */
const UNENROLLED: Credential<OwnerApi, undefined> = {
  names: OWNER.names,
  async admit({ attempts }, { ip }, run) {
    refuseGuessing(attempts, ip)
    return run(undefined)
  },
}

/** Refuses 401 alike for a code that is unknown, used or expired; 429 for a source that guesses. */
export const ENROLMENT: Endpoint<OwnerApi> = endpoint({
  method: 'post',
  path: '/owner/enrolment',
  rows: { addedUnder: 'Authentication' },
  summary:
    'Enrols a first credential by a one-time code: the key in the body, which signs the request, or the login of the access token',
  credential: UNENROLLED,
  body: {
    // With `jwk` a device key is enrolled, which must sign the request. Without it, the login of the
    // request's access token is enrolled.
    schema: z.strictObject({ code: plainText(200), name: CREDENTIAL_NAME, jwk: PUBLIC_JWK.optional() }),
  },
  answers: { 201: { says: 'Enrolled; the code is used up.', schema: ENROLLED } },
  refuses: { 409: ['conflict'], 429: ['temporarily_unavailable'] },
  handle: async (api: OwnerApi, { body: { code, name, jwk }, request, answer }) => {
    const enrol = await provenCredential(api, request, { name, jwk })
    const made = await redeem(api, code, enrol)
    if (made !== undefined) return answer(201, made)
    api.attempts.failed(request.ip)
    throw challenge(api.accepted, 'Ask the operator of this authority for a new code: this one is not valid.')
  },
})

/** What is enrolled if the code is good: already proved to be the caller's, and not yet written. */
type Enrol = (tx: Tx, owner: Owner, by: ChangedBy['by']) => Promise<EnrolledKey | Login>

async function provenCredential(
  api: OwnerApi,
  request: FastifyRequest,
  { name, jwk }: { name: string; jwk: Record<string, unknown> | undefined },
): Promise<Enrol> {
  const presented = presentedBy(request, api.accepted)
  const actor = { kind: 'owner', credential: 'enrolment_code' } as const
  if (presented.kind === 'bearer') {
    if (jwk !== undefined)
      throw refusedSignature(api.accepted.space, 'Sign the request with the key that it enrols.')
    const login = await proveLogin(api.accepted.realm!, api.accepted.space, presented.token)
    return (tx, owner, by) => bindLogin(tx, owner, { name, login, by: { by, actor }, cell: api.cell })
  }
  if (jwk === undefined)
    throw refusedSignature(api.accepted.space, 'Send the public half of the signing key as jwk.')
  const key = signingKey(api, request, jwk)
  return (tx, owner, by) => enrolKey(tx, owner, { name, key, jwk, by: { by, actor }, cell: api.cell })
}

/**
 * Uses the code up and enrols, in one transaction. A first code enrols no second credential: that takes a
 * recovery. A code that belongs to nobody costs the same statements as one that belongs to an owner.
 * @returns undefined if the code is not good.
 */
async function redeem(
  { database, accepted: { deviceKeys, realm } }: OwnerApi,
  code: string,
  enrol: Enrol,
): Promise<({ owner: string } & (EnrolledKey | Login)) | undefined> {
  const tag = CODE.exec(code)?.[1] ?? ''
  const owner = await ownerOf(database.ofNobody, 'tag', tag)
  const use = async (tx: Tx): Promise<({ owner: string } & (EnrolledKey | Login)) | undefined> => {
    await lockQueue(tx, owner ?? NOBODY)
    const first = await spendEnrolmentCode(tx, owner ?? NOBODY, sha256(code))
    // The code was issued before she had a credential, or under settings that are not in force here. It did
    // not wait for the delay, and it is used up.
    if (first && (await hasCredential(tx, owner!, { deviceKeys, issuer: realm?.issuer }))) return undefined
    if (!first && !(await spendRecovery(tx, owner ?? NOBODY, sha256(code)))) return undefined
    return { owner: owner!, ...(await enrol(tx, owner!, first ? 'enrolment_code' : 'recovery')) }
  }
  // Codes wait for a queue, so with no more connections than one owner may have.
  return inTransaction(database.of(owner ?? NOBODY), use)
}
