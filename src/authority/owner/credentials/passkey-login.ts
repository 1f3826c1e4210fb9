/**
 * How a passkey lets in a device key, once for each nonce that this authority issued. Contract:
 * "Authentication" (owner at the owner API); docs/choices.md.
 */
import type { FastifyRequest } from 'fastify'
import { verifyDeviceSignature } from '../../../credentials/device-signature.ts'
import { challenge } from '../../../credentials/presentation.ts'
import { signedMessage } from '../../../http/servers/signed-request.ts'
import type { Tx } from '../../../storage/authority/database.ts'
import {
  insertSessionKey,
  readDeviceKey,
  revokeEarlierLetIn,
} from '../../../storage/authority/credentials/device-keys.ts'
import { lockQueue, spendSignature } from '../../../storage/authority/owners/owners.ts'
import { readPasskey } from '../../../storage/authority/credentials/passkeys.ts'
import { inTransaction } from '../../../storage/core/database.ts'
import { sha256 } from '../../../wire/encoding.ts'
import type { Owner } from '../../../wire/identifiers.ts'
import { canonicalize } from '../../../wire/json.ts'
import { publicJwk, type PublicKey } from '../../../wire/signatures/keys.ts'
import type { LetInKey } from '../../../wire/owner/owner-credentials.ts'
import { verifyAssertion, type Assertion } from '../../../wire/passkeys/passkey-assertion.ts'
import type { LoginClaims, RegistrationClaims } from '../../../wire/passkeys/passkey-claims.ts'
import { isPasskeyNonce } from '../../../wire/passkeys/passkey-nonce.ts'
import { refuse, Refusal } from '../../../wire/refusal.ts'
import type { RelyingParty } from '../../../wire/passkeys/relying-party.ts'
import type { OwnerApi } from '../api.ts'
import { importKey, letInOf, tellCredential } from './credentials.ts'
import { pinnedPasskey } from './own-passkeys.ts'

/** How long she may take to answer the prompt of her device. */
export const NONCE_SECONDS = 300
/** A nonce is remembered beyond its end, because the clocks of replicas differ. */
const NONCE_RETENTION_SECONDS = 2 * NONCE_SECONDS
/** How long a passkey lets a device key in. */
const SESSION_KEY_SECONDS = 12 * 3600
/** How many keys of one owner may be let in and in force at a time. */
const LET_IN_MAX = 50

/** The relying party of passkeys. Refuses 409 if passkeys are not accepted. */
export function partyOf({ relyingParty }: OwnerApi): RelyingParty {
  return (
    relyingParty() ??
    refuse('conflict', 'No passkeys are taken here: the page has no domain (UMA_AS_PASSKEY_RP_ID).')
  )
}

/** Refuses 409 if device keys are not accepted. */
export function takesDeviceKeys({ accepted }: OwnerApi): void {
  if (!accepted.deviceKeys) refuse('conflict', 'Device keys are not taken here: none can be let in.')
}

/** The key in a body, which must sign the request. Refuses 400 if it is no key, 401 if another key signed. */
export function signingKey(api: OwnerApi, request: FastifyRequest, jwk: Record<string, unknown>): PublicKey {
  const key = importKey(jwk)
  const judged = { now: api.now(), space: api.accepted.space }
  verifyDeviceSignature(signedMessage(request, api.base), judged, keyid =>
    keyid === key.thumbprint ? key : undefined,
  )
  return key
}

/**
 * What is wrong with a nonce, before checking whether it was used: not ours, issued for something else, or
 * too old.
 */
export function nonceFault(
  { ticketKeys, now }: OwnerApi,
  claims: LoginClaims | RegistrationClaims,
): string | undefined {
  const { use, nonce, exp } = claims
  const owner = claims.use === 'passkey' ? claims.owner : ''
  if (!isPasskeyNonce(nonce, { use, owner, exp }, ticketKeys))
    return 'Sign over a nonce of this authority, with the exp that it gave.'
  return now() < exp ? undefined : 'Begin anew: the time of this nonce is over.'
}

/** Marks a nonce as used. @returns whether it was unused: true for one caller only. */
export function spendNonce(tx: Tx, owner: Owner, nonce: string): Promise<boolean> {
  return spendSignature(tx, owner, sha256(`passkey nonce ${nonce}`), NONCE_RETENTION_SECONDS)
}

/**
 * Lets a device key in by a passkey, for the owner of the passkey with this id. Throws 401 if the nonce is
 * not ours, has expired or was used before, and if the passkey is nobody's or did not sign this; 409 if the
 * key was enrolled before.
 */
export async function letIn(
  api: OwnerApi,
  of: { name: string; key: PublicKey; claims: LoginClaims; assertion: Assertion },
): Promise<LetInKey> {
  const { name, key, claims, assertion } = of
  const { database } = api
  const refused = (detail: string | undefined): Refusal => challenge(api.accepted, detail)
  const fault = nonceFault(api, claims)
  if (fault !== undefined) throw refused(fault)
  const row = await readPasskey(database.ofNobody, assertion.id)
  const passkey = row && pinnedPasskey(row, api.relyingParty())
  if (row === undefined || passkey === undefined) throw notLetIn(refused)
  try {
    verifyAssertion(assertion, passkey, sha256(canonicalize(claims)))
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    throw notLetIn(refused)
  }
  const { owner, id } = row
  const enrol = async (tx: Tx): Promise<LetInKey> => {
    await lockQueue(tx, owner)
    // The passkey may have been removed meanwhile.
    if ((await readPasskey(tx, id)) === undefined) throw notLetIn(refused)
    if (!(await spendNonce(tx, owner, claims.nonce)))
      throw refused('Begin anew: a passkey signed over this nonce before.')
    return enrolLetIn(tx, api.cell, { owner, passkey: id, name, key })
  }
  // Logins wait for her queue lock, so they may hold no more database connections than one owner may.
  return inTransaction(database.of(owner), enrol)
}

/**
 * Writes and records a key that one of her passkeys lets in, and the key that ends to make room for it.
 * Refuses 409 if the key was enrolled before.
 */
async function enrolLetIn(
  tx: Tx,
  cell: OwnerApi['cell'],
  { owner, passkey: id, name, key }: { owner: Owner; passkey: string; name: string; key: PublicKey },
): Promise<LetInKey> {
  const kid = key.thumbprint
  const made = { owner, kid, jwk: publicJwk(key), name, passkey: id, lifetimeSeconds: SESSION_KEY_SECONDS }
  // The key is claimed under her queue's lock, so that an owner who is removed meanwhile leaves no claim
  // behind.
  const isFree = (await cell?.claim({ kind: 'device_key', key: kid, owner })) ?? true
  if (!isFree || !(await insertSessionKey(tx, made)))
    refuse('conflict', 'Make a new device key: this one was enrolled before, and a key is enrolled once.')
  const { enrolled_at, ...enrolled } = (await readDeviceKey(tx, kid))!
  const let_in = letInOf(enrolled)!
  const what = { credential: 'device_key', kid, name, passkey: id, expires_at: let_in.expires_at }
  const actor = { kind: 'owner', credential: 'passkey', id } as const
  const by = { by: 'passkey', actor } as const
  await tellCredential(tx, owner, { change: 'added', what, by })
  // The oldest key ends. A limit that refused instead would lock her out until one of them expires.
  for (const { passkey, ...earlier } of await revokeEarlierLetIn(tx, owner, LET_IN_MAX))
    await tellCredential(tx, owner, {
      change: 'removed',
      what: { credential: 'device_key', ...earlier, passkey },
      by,
    })
  return { owner, kid, name, enrolled_at, let_in }
}

/**
 * An unknown passkey, a removed one and one that did not sign this are refused alike, so that nobody learns
 * which ids are registered.
 */
function notLetIn(refused: (detail: string) => Refusal): Refusal {
  return refused('Use another passkey, or enrol this browser by a code: this passkey let nobody in.')
}
