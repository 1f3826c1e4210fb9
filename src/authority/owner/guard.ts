/**
 * Whose request it is at the owner API: the owner who enrolled the device key that signed it, or to whom the
 * login is bound that its access token proves. Contract: "Authentication" (owner at the owner API; accepted
 * once).
 */
import type { FastifyRequest } from 'fastify'
import { namedKeyids, verifyDeviceSignature } from '../../credentials/device-signature.ts'
import type { ProvenLogin, Realm } from '../../credentials/oidc.ts'
import { presentedBy, proveLogin, refusedSignature, refusedToken } from '../../credentials/presentation.ts'
import type { Credential } from '../../http/endpoint.ts'
import { signedMessage } from '../../http/signed-request.ts'
import { inTransaction } from '../../storage/core/database.ts'
import type { Db, Tx } from '../../storage/authority/database.ts'
import { onBehalfOf } from '../../storage/core/shares.ts'
import { loginId, ownerOfLogin } from '../../storage/authority/logins.ts'
import { lockQueue, readDeviceKey, spendSignature } from '../../storage/authority/owners.ts'
import { sha256 } from '../../wire/encoding.ts'
import { SIGNATURE_WINDOW_SECONDS } from '../../wire/http-signature.ts'
import { importPublicJwk, type PublicKey } from '../../wire/keys.ts'
import type { Owner } from '../../wire/identifiers.ts'
import type { Refusal } from '../../wire/refusal.ts'
import type { OwnerApi } from './api.ts'
import type { OwnerCredential } from './credential.ts'

export type { OwnerCredential } from './credential.ts'

/** Kept past both ends of the window, and a window more for replicas whose clocks differ. */
const KEPT_SECONDS = 3 * SIGNATURE_WINDOW_SECONDS

const SPACE = 'owner'

/** What proving a credential takes. */
type Guarding = Pick<OwnerApi, 'accepted' | 'base' | 'database' | 'now'>

/** An owner's credential: the handler is told which, and everything that it does is done on her behalf. */
export const OWNER: Credential<Guarding, OwnerCredential> = {
  names: ['owner', 'bearer'],
  async admit(api, request, run) {
    const presented = presentedBy(request, api.accepted)
    const credential =
      presented.kind === 'signature'
        ? await bySignature(api, request)
        : await byToken(api, api.accepted.realm!, presented.token)
    return onBehalfOf(credential.owner, () => run(credential))
  },
}

/**
 * Runs a change in one transaction in which the credential is looked at anew and the request spent first: of
 * two presentations of one signature the second changes nothing, nor does a request whose credential was
 * revoked while it was under way. Holds the owner's queue lock, the head of the lock order, from the start,
 * so that her changes and what is announced of them stand in one order.
 */
export function changeAs<T>(
  { database }: Pick<OwnerApi, 'database'>,
  credential: OwnerCredential,
  change: (tx: Tx) => Promise<T>,
): Promise<T> {
  return inTransaction(database.db, async tx => {
    await lockQueue(tx, credential.owner)
    await credential.spend(tx)
    return change(tx)
  })
}

/**
 * The device key's owner. `@authority` is the issuer's, whatever address the request came to. A key that was
 * never enrolled and one that is revoked are refused alike.
 */
async function bySignature(api: Guarding, request: FastifyRequest): Promise<OwnerCredential> {
  const message = signedMessage(request, api.base)
  const judged = { now: api.now(), space: SPACE } as const
  const { db } = api.database
  const enrolled = new Map<string, { owner: Owner; key: PublicKey }>()
  for (const keyid of namedKeyids(message, judged)) {
    const row = await readDeviceKey(db, keyid)
    if (row !== undefined && row.revoked_at === null)
      enrolled.set(keyid, { owner: row.owner, key: importPublicJwk(row.jwk) })
  }
  const { key, signature } = verifyDeviceSignature(message, judged, id => enrolled.get(id)?.key)
  return deviceCredential(enrolled.get(key.thumbprint)!.owner, key, signature)
}

function deviceCredential(owner: Owner, key: PublicKey, signature: Buffer): OwnerCredential {
  const stands = async (db: Db): Promise<boolean> => {
    const row = await readDeviceKey(db, key.thumbprint)
    return row !== undefined && row.owner === owner && row.revoked_at === null
  }
  return {
    owner,
    id: key.thumbprint,
    actor: { kind: 'owner', credential: 'device_key', kid: key.thumbprint },
    async spend(tx) {
      if (!(await stands(tx)))
        throw refusedSignature(SPACE, 'Sign with a registered key, and name it by its keyid.')
      const digest = sha256(Buffer.concat([Buffer.from(key.thumbprint), signature]))
      if (!(await spendSignature(tx, owner, digest, KEPT_SECONDS)))
        throw refusedSignature(SPACE, 'Sign anew, with a fresh nonce: this signature was presented before.')
    },
  }
}

/**
 * The owner to whom the proven login is bound. A login that never was and one that is removed are refused
 * alike.
 */
async function byToken(api: Guarding, realm: Realm, token: string): Promise<OwnerCredential> {
  const login = await proveLogin(realm, SPACE, token)
  const owner = await ownerOfLogin(api.database.db, login)
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
