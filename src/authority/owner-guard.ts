/**
 * Whose request it is at the owner API: the one credential here is an RFC 9421 signature by a device key that
 * an owner enrolled; a second, equally sufficient one (OIDC) would answer the same `OwnerCredential`.
 * Contract: "Authentication" (owner at the owner API; accepted once).
 */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { signatureBase, signedMessage, type SignatureBase } from '../http/signed-request.ts'
import { inTransaction, type Db, type Tx } from '../storage/database.ts'
import { lockQueue, readDeviceKey, spendSignature } from '../storage/owners.ts'
import { sha256 } from '../wire/encoding.ts'
import { SIGNATURE_WINDOW_SECONDS, verifyRequest, type SignedMessage } from '../wire/http-signature.ts'
import { importPublicJwk, type PublicKey } from '../wire/keys.ts'
import { Refusal } from '../wire/refusal.ts'
import type { Authority } from './context.ts'

/** The owner that a request's credential proved, and what can be asked of that credential afterwards. */
export interface OwnerCredential {
  readonly owner: string
  /**
   * Marks the request as presented, in the transaction of what it changes. Throws 401 `invalid_credential` where
   * it was presented before: then nothing of the transaction may stay.
   */
  spend(tx: Tx): Promise<void>
  /** Whether the credential would be accepted still: an event stream ends when it would not. */
  stands(db: Db): Promise<boolean>
}

/** Everything under this path on the owner listener is guarded; nothing else is. */
const GUARDED = '/owner/'
const KEYIDS_MAX = 4
/** Kept past both ends of the window, and a window more for replicas whose clocks differ. */
const KEPT_SECONDS = 3 * SIGNATURE_WINDOW_SECONDS

const credentials = new WeakMap<FastifyRequest, OwnerCredential>()

/** Requires an owner's credential of every request under /owner/, before its handler runs. */
export function registerOwnerGuard(app: FastifyInstance, authority: Authority): void {
  const base = signatureBase(authority.issuer)
  app.addHook('preHandler', async request => {
    if (request.routeOptions.url?.startsWith(GUARDED) !== true) return
    credentials.set(request, await authenticate(authority, base, request))
  })
}

/** The credential of a guarded request; every operation acts on the owner it proved. */
export function ownerOf(request: FastifyRequest): OwnerCredential {
  const credential = credentials.get(request)
  if (credential === undefined) throw new Error('this route is not behind the owner guard')
  return credential
}

/**
 * Runs a change in one transaction in which the request is spent first: of two presentations of one signature
 * the second changes nothing. Holds the owner's queue lock, the head of the lock order, from the start, so that
 * her changes and what is announced of them stand in one order.
 */
export function changeAs<T>(
  authority: Authority,
  credential: OwnerCredential,
  change: (tx: Tx) => Promise<T>,
): Promise<T> {
  return inTransaction(authority.database.db, async tx => {
    await lockQueue(tx, credential.owner)
    await credential.spend(tx)
    return change(tx)
  })
}

/**
 * The device key's owner. `@authority` is the issuer's, whatever address the request came to. A key that was
 * never enrolled and one that is revoked are refused alike.
 */
async function authenticate(
  authority: Authority,
  base: SignatureBase,
  request: FastifyRequest,
): Promise<OwnerCredential> {
  const message = signedMessage(request, base)
  const { db } = authority.database
  const enrolled = new Map<string, { owner: string; key: PublicKey }>()
  for (const keyid of namedKeyids(message, authority.now())) {
    const row = await readDeviceKey(db, keyid)
    if (row !== undefined && row.revoked_at === null)
      enrolled.set(keyid, { owner: row.owner, key: importPublicJwk(row.jwk) })
  }
  const { keyid, signature } = verify(message, authority.now(), id => enrolled.get(id)?.key)
  const { owner, key } = enrolled.get(keyid!)!
  return deviceCredential(owner, key, signature)
}

function deviceCredential(owner: string, key: PublicKey, signature: Buffer): OwnerCredential {
  return {
    owner,
    async spend(tx) {
      const digest = sha256(Buffer.concat([Buffer.from(key.thumbprint), signature]))
      if (!(await spendSignature(tx, owner, digest, KEPT_SECONDS)))
        throw refusedSignature('Sign anew, with a fresh nonce: this signature was presented before.')
    },
    async stands(db) {
      const row = await readDeviceKey(db, key.thumbprint)
      return row !== undefined && row.owner === owner && row.revoked_at === null
    },
  }
}

/** The keyids that the signatures name: the verifier says which it would look up when it is given no key. */
function namedKeyids(message: SignedMessage, now: number): string[] {
  const named = new Set<string>()
  try {
    verify(message, now, keyid => void named.add(keyid))
  } catch (error) {
    if (named.size === 0) throw error
  }
  return [...named].slice(0, KEYIDS_MAX)
}

function verify(
  message: SignedMessage,
  now: number,
  find: (keyid: string) => PublicKey | undefined | void,
): { keyid: string | undefined; signature: Buffer } {
  try {
    return verifyRequest(message, {
      requiredComponents: ['@method', '@authority', '@path'],
      mustCoverDigest: true,
      absentAuthorizationIsEmpty: true,
      keyidRequired: true,
      now,
      findKey: keyid => (keyid === undefined ? undefined : (find(keyid) ?? undefined)),
    })
  } catch (error) {
    if (error instanceof Refusal) throw refusedSignature(error.detail, error)
    throw error
  }
}

/** 401, saying what a good signature covers (RFC 9421 §5.1). */
function refusedSignature(detail: string | undefined, cause?: unknown): Refusal {
  return new Refusal('invalid_credential', detail, {
    headers: {
      'www-authenticate': 'Signature realm="owner"',
      'accept-signature':
        'sig1=("@method" "@authority" "@path" "@query" "content-digest");created;keyid;nonce',
    },
    ...(cause === undefined ? {} : { cause }),
  })
}
