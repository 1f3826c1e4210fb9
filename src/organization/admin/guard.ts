/**
 * Whose request it is at the administration: an administrator of the provisioning file, by the signature of
 * one of his device keys or an access token of the realm. Contract: "Authentication" (as the owner at the
 * owner API; a change is accepted once).
 */
import type { FastifyRequest } from 'fastify'
import { namedKeyids, verifyDeviceSignature } from '../../credentials/device-signature.ts'
import { presentedBy, proveLogin, refusedSignature, refusedToken } from '../../credentials/presentation.ts'
import type { Credential } from '../../http/endpoint.ts'
import { signedMessage } from '../../http/signed-request.ts'
import { inTransaction } from '../../storage/core/database.ts'
import { spendSignature } from '../../storage/organization/activity.ts'
import { lockHead } from '../../storage/organization/charters.ts'
import type { Tx } from '../../storage/organization/database.ts'
import { sha256 } from '../../wire/encoding.ts'
import { SIGNATURE_WINDOW_SECONDS } from '../../wire/http-signature.ts'
import type { PublicKey } from '../../wire/keys.ts'
import type { Administration } from '../context.ts'

const SPACE = 'admin'
/** Kept past both ends of the window, and a window more for replicas whose clocks differ. */
const KEPT_SECONDS = 3 * SIGNATURE_WINDOW_SECONDS

/** The administrator that a request's credential proved. */
export interface AdminCredential {
  /** His name in the provisioning file. */
  readonly admin: string
  /**
   * Marks a signature as presented, in the transaction of what it changes; throws 401 where it was before.
   */
  spend(tx: Tx): Promise<void>
}

export const ADMINISTRATOR: Credential<Administration, AdminCredential> = {
  names: ['admin', 'bearer'],
  async admit(api, request, run) {
    const presented = presentedBy(request, api.accepted)
    return run(
      presented.kind === 'signature' ? bySignature(api, request) : await byToken(api, presented.token),
    )
  },
}

/**
 * Runs a change in one transaction, alone with the charter, its groups and members, in which the request is
 * spent first: of two presentations of one signature the second changes nothing. `work` is told the version
 * in force, 0 where there is none.
 */
export function changeAs<T>(
  { database }: Pick<Administration, 'database'>,
  credential: AdminCredential,
  work: (tx: Tx, version: number) => Promise<T>,
): Promise<T> {
  return inTransaction(database.db, async tx => {
    const version = await lockHead(tx)
    await credential.spend(tx)
    return work(tx, version)
  })
}

function bySignature(api: Administration, request: FastifyRequest): AdminCredential {
  const message = signedMessage(request, api.base)
  const judged = { now: api.now(), space: SPACE } as const
  const named = new Set(namedKeyids(message, judged))
  const enrolled = new Map<string, { admin: string; key: PublicKey }>()
  for (const { name, keys } of api.administrators)
    for (const key of keys) if (named.has(key.thumbprint)) enrolled.set(key.thumbprint, { admin: name, key })
  const { key, signature } = verifyDeviceSignature(message, judged, id => enrolled.get(id)?.key)
  return {
    admin: enrolled.get(key.thumbprint)!.admin,
    async spend(tx) {
      const digest = sha256(Buffer.concat([Buffer.from(key.thumbprint), signature]))
      if (!(await spendSignature(tx, digest, KEPT_SECONDS)))
        throw refusedSignature(SPACE, 'Sign anew, with a fresh nonce: this signature was presented before.')
    },
  }
}

/** A bearer token is presented with every request of its life, so it is not marked as spent (RFC 6750). */
async function byToken(api: Administration, token: string): Promise<AdminCredential> {
  const { subject, expiresAt } = await proveLogin(api.accepted.realm!, SPACE, token)
  const person = api.administrators.find(({ subjects }) => subjects.includes(subject))
  if (person === undefined)
    throw refusedToken(
      SPACE,
      'Have this login named in the provisioning file: it is no administrator’s here.',
    )
  return {
    admin: person.name,
    async spend() {
      if (api.now() >= expiresAt) throw refusedToken(SPACE, 'Get a fresh token: this one has expired.')
    },
  }
}
