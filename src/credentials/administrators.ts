/**
 * Finds the administrator, listed in a file, who sent a request: by the signature of one of his device keys,
 * or by an access token of the realm. Contract: "Authentication" (as the owner at the owner API; a change is
 * accepted once).
 */
import type { FastifyRequest } from 'fastify'
import { signedMessage, type SignatureBase } from '../http/servers/signed-request.ts'
import { MARK_RETENTION_SECONDS, signatureDigest } from '../wire/signatures/http-signature.ts'
import type { PublicKey } from '../wire/signatures/keys.ts'
import { namedKeyids, verifyDeviceSignature } from './device-signature.ts'
import {
  presentedBy,
  proveLogin,
  refusedSignature,
  refusedToken,
  type AcceptedCredentials,
} from './presentation.ts'

/** Somebody who may use an administration: as the file says now. */
export interface Administrator {
  readonly name: string
  readonly keys: readonly PublicKey[]
  /** His identity at the realm. */
  readonly subjects: readonly string[]
}

/** What proving one needs. */
export interface AdministratorGuard {
  readonly accepted: AcceptedCredentials
  readonly administrators: readonly Administrator[]
  /** The address that device keys sign over. */
  readonly base: SignatureBase
  /** Seconds since the epoch. */
  now(): number
}

/**
 * The person, and what makes a change count once: the digest of a signature to spend, or the time at which a
 * token expires. A bearer token is presented with every request of its life (RFC 6750), so it is not spent.
 */
export type ProvenAdministrator = { admin: string } & (
  | { kind: 'signature'; digest: Buffer }
  | { kind: 'token'; expiresAt: number }
)

const SPACE = 'admin'

/** Throws 401 if nobody of the file is proved, and 400 if two credentials are presented. */
export async function proveAdministrator(
  proving: AdministratorGuard,
  request: FastifyRequest,
): Promise<ProvenAdministrator> {
  const presented = presentedBy(request, proving.accepted)
  return presented.kind === 'signature' ? bySignature(proving, request) : byToken(proving, presented.token)
}

/**
 * Uses up what proved the administrator, in the transaction of what it changes. `spend` marks a signature for
 * so many seconds, and answers whether it was new. Throws 401 if it was presented before, or if the token has
 * expired at `now`.
 */
export async function spendProven(
  proven: ProvenAdministrator,
  now: number,
  spend: (digest: Buffer, retentionSeconds: number) => Promise<boolean>,
): Promise<void> {
  if (proven.kind === 'token') {
    if (now < proven.expiresAt) return
    throw refusedToken(SPACE, 'Get a fresh token: this one has expired.')
  }
  if (!(await spend(proven.digest, MARK_RETENTION_SECONDS)))
    throw refusedSignature(SPACE, 'Sign again, with a fresh nonce: this signature was presented before.')
}

function bySignature(proving: AdministratorGuard, request: FastifyRequest): ProvenAdministrator {
  const message = signedMessage(request, proving.base)
  const judged = { now: proving.now(), space: SPACE } as const
  const named = new Set(namedKeyids(message, judged))
  const enrolled = new Map<string, { admin: string; key: PublicKey }>()
  for (const { name, keys } of proving.administrators)
    for (const key of keys) if (named.has(key.thumbprint)) enrolled.set(key.thumbprint, { admin: name, key })
  const verified = verifyDeviceSignature(message, judged, id => enrolled.get(id)?.key)
  const { admin } = enrolled.get(verified.key.thumbprint)!
  return { admin, kind: 'signature', digest: signatureDigest(verified) }
}

async function byToken(proving: AdministratorGuard, token: string): Promise<ProvenAdministrator> {
  const { subject, expiresAt } = await proveLogin(proving.accepted.realm!, SPACE, token)
  const person = proving.administrators.find(({ subjects }) => subjects.includes(subject))
  if (person === undefined)
    throw refusedToken(
      SPACE,
      'Have this login named in the provisioning file: it is no administrator’s here.',
    )
  return { admin: person.name, kind: 'token', expiresAt }
}
