/**
 * Finds the administrator, listed in a file, who sent a request: by the signature of one of his device keys,
 * or by an access token of the realm. Contract: "Authentication" (as the owner at the owner API; a change is
 * accepted once).
 */
import type { FastifyRequest } from 'fastify'
import { signedMessage, type SignatureBase } from '../http/servers/signed-request.ts'
import { sha256 } from '../wire/encoding.ts'
import type { PublicKey } from '../wire/signatures/keys.ts'
import { namedKeyids, verifyDeviceSignature } from './device-signature.ts'
import { presentedBy, proveLogin, refusedToken, type AcceptedCredentials } from './presentation.ts'

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

function bySignature(proving: AdministratorGuard, request: FastifyRequest): ProvenAdministrator {
  const message = signedMessage(request, proving.base)
  const judged = { now: proving.now(), space: SPACE } as const
  const named = new Set(namedKeyids(message, judged))
  const enrolled = new Map<string, { admin: string; key: PublicKey }>()
  for (const { name, keys } of proving.administrators)
    for (const key of keys) if (named.has(key.thumbprint)) enrolled.set(key.thumbprint, { admin: name, key })
  const { key, signature } = verifyDeviceSignature(message, judged, id => enrolled.get(id)?.key)
  const digest = sha256(Buffer.concat([Buffer.from(key.thumbprint), signature]))
  return { admin: enrolled.get(key.thumbprint)!.admin, kind: 'signature', digest }
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
