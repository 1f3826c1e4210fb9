/**
 * Finds the owner of a request to the owner API: the one who enrolled the device key that signed it, or to
 * whom the login of its access token is bound. Contract: "Authentication" (owner at the owner API; accepted
 * once).
 */
import type { FastifyRequest } from 'fastify'
import {
  namedKeyids,
  verifyDeviceSignature,
  type SignatureContext,
} from '../../../credentials/device-signature.ts'
import type { ProvenLogin, Realm } from '../../../credentials/oidc.ts'
import { presentedBy, proveLogin, refusedSignature, refusedToken } from '../../../credentials/presentation.ts'
import type { Credential } from '../../../http/servers/endpoint.ts'
import { signedMessage } from '../../../http/servers/signed-request.ts'
import { inTransaction } from '../../../storage/core/database.ts'
import type { Db, Tx } from '../../../storage/authority/database.ts'
import { loginId, ownerOfLogin } from '../../../storage/authority/credentials/logins.ts'
import { readDeviceKey, type DeviceKeyRow } from '../../../storage/authority/credentials/device-keys.ts'
import { lockQueue, spendSignature } from '../../../storage/authority/owners/owners.ts'
import {
  MARK_RETENTION_SECONDS,
  signatureDigest,
  type SignedMessage,
} from '../../../wire/signatures/http-signature.ts'
import { importPublicJwk, type PublicKey } from '../../../wire/signatures/keys.ts'
import type { Owner } from '../../../wire/identifiers.ts'
import type { Refusal } from '../../../wire/refusal.ts'
import type { OwnerApi } from '../api.ts'
import type { OwnerCredential } from './credential.ts'

export type { OwnerCredential } from './credential.ts'

const SPACE = 'owner'

/** What proving a credential needs. */
type Guarding = Pick<OwnerApi, 'accepted' | 'base' | 'database' | 'now'>

/** An owner's credential: the handler is told which. */
export const OWNER: Credential<Guarding, OwnerCredential> = {
  names: ['owner', 'bearer'],
  async admit(api, request, run) {
    const presented = presentedBy(request, api.accepted)
    const credential =
      presented.kind === 'signature'
        ? await bySignature(api, request)
        : await byToken(api, api.accepted.realm!, presented.token)
    return run(credential)
  },
}

/**
 * Runs a change in one transaction in which the credential is checked again and the request is spent first.
 * So of two presentations of one signature the second changes nothing, and neither does a request whose
 * credential was revoked while it was under way. Holds the owner's queue lock, the first in the lock order,
 * from the start, so that her changes and their announcements have the same order.
 */
export function changeAs<T>(
  { database }: Pick<OwnerApi, 'database'>,
  credential: OwnerCredential,
  change: (tx: Tx) => Promise<T>,
): Promise<T> {
  return inTransaction(database.of(credential.owner), async tx => {
    await lockQueue(tx, credential.owner)
    await credential.spend(tx)
    return change(tx)
  })
}

/**
 * The device key's owner. `@authority` is the issuer's, whatever address the request came to. Who signs with
 * a key that was removed, or that has expired, is told so; a key that was never enrolled is unknown.
 */
async function bySignature(api: Guarding, request: FastifyRequest): Promise<OwnerCredential> {
  const message = signedMessage(request, api.base)
  const judged = { now: api.now(), space: SPACE } as const
  const db = api.database.ofNobody
  const enrolled = new Map<string, OwnerKey>()
  const ended = new Map<string, DeviceKeyRow>()
  for (const keyid of namedKeyids(message, judged)) {
    const row = await readDeviceKey(db, keyid)
    if (row?.in_force === false) ended.set(keyid, row)
    if (row?.in_force === true)
      enrolled.set(keyid, {
        owner: row.owner,
        key: importPublicJwk(row.jwk),
        expiresAt: row.expires_at === null ? undefined : Math.floor(Date.parse(row.expires_at) / 1_000),
      })
  }
  if (enrolled.size === 0) refuseEnded(message, judged, ended)
  const { key, signature } = verifyDeviceSignature(message, judged, id => enrolled.get(id)?.key)
  return deviceCredential(enrolled.get(key.thumbprint)!, signature)
}

/** Throws if a key that is no longer in force signed it; whoever cannot sign with that key learns nothing. */
function refuseEnded(
  message: SignedMessage,
  judged: SignatureContext,
  ended: ReadonlyMap<string, DeviceKeyRow>,
): void {
  let row: DeviceKeyRow | undefined
  try {
    const find = (id: string) => ended.get(id) && importPublicJwk(ended.get(id)!.jwk)
    row = ended.get(verifyDeviceSignature(message, judged, find).key.thumbprint)
  } catch {
    return
  }
  if (row === undefined) return
  const { owner, name, revoked_at, expires_at } = row
  const when = revoked_at === null ? `its time ended ${expires_at}` : `removed ${revoked_at}`
  throw refusedSignature(
    SPACE,
    `The key "${name}" may no longer decide for ${owner} (${when}). Make another key, and have it enrolled: ask for a code, or add it from another device.`,
  )
}

/** `expiresAt` is in seconds since the epoch; undefined if the key was enrolled for good. */
interface OwnerKey {
  owner: Owner
  key: PublicKey
  expiresAt: number | undefined
}

function deviceCredential({ owner, key, expiresAt }: OwnerKey, signature: Buffer): OwnerCredential {
  const stands = async (db: Db): Promise<boolean> => {
    const row = await readDeviceKey(db, key.thumbprint)
    return row?.in_force === true && row.owner === owner
  }
  return {
    owner,
    id: key.thumbprint,
    actor: { kind: 'owner', credential: 'device_key', kid: key.thumbprint },
    ...(expiresAt !== undefined && { expiresAt }),
    async spend(tx) {
      if (!(await stands(tx)))
        throw refusedSignature(SPACE, 'Sign with a registered key, and name it by its keyid.')
      const digest = signatureDigest({ key, signature })
      if (!(await spendSignature(tx, owner, digest, MARK_RETENTION_SECONDS)))
        throw refusedSignature(SPACE, 'Sign again, with a fresh nonce: this signature was presented before.')
    },
  }
}

/**
 * The owner to whom the proven login is bound. A login that was never bound and one that is removed are
 * refused alike.
 */
async function byToken(api: Guarding, realm: Realm, token: string): Promise<OwnerCredential> {
  const login = await proveLogin(realm, SPACE, token)
  const owner = await ownerOfLogin(api.database.ofNobody, login)
  if (owner === undefined) throw unboundLogin()
  return loginCredential(api, owner, login)
}

/** A bearer token is presented with every request of its life, so it is not marked as spent (RFC 6750). */
function loginCredential(api: Guarding, owner: Owner, login: ProvenLogin): OwnerCredential {
  const { expiresAt } = login
  const stands = async (db: Db): Promise<boolean> =>
    api.now() < expiresAt && (await ownerOfLogin(db, login)) === owner
  const id = loginId(login)
  return {
    owner,
    id,
    actor: { kind: 'owner', credential: 'login', id },
    expiresAt,
    async spend(tx) {
      if (!(await stands(tx))) throw unboundLogin()
    },
  }
}

function unboundLogin(): Refusal {
  return refusedToken(
    SPACE,
    'Bind this login first, with a device key or an enrolment code: it is no owner’s here.',
  )
}
