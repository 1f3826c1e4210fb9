/**
 * Her credentials: the device keys she enrolled and the logins bound to her, each named and each revocable.
 * Contract: "Authentication" (owner at the owner API: independently sufficient, independently revocable).
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../../http/servers/endpoint.ts'
import { plainText } from '../../../http/servers/pages.ts'
import type { Tx } from '../../../storage/authority/database.ts'
import { appendEvent } from '../../../storage/authority/ledger/events.ts'
import { appendLedger } from '../../../storage/authority/ledger/ledger.ts'
import {
  deleteLogin,
  hasCredential,
  insertLogin,
  listLogins,
  loginKey,
  type LoginSubject,
} from '../../../storage/authority/credentials/logins.ts'
import {
  type DeviceKeyRow,
  deviceKeysNamed,
  insertDeviceKey,
  listDeviceKeys,
  readDeviceKey,
  revokeDeviceKey,
} from '../../../storage/authority/credentials/device-keys.ts'
import type { Actor } from '../../../wire/owner/actor.ts'
import { importPublicJwk, publicJwk, type PublicKey } from '../../../wire/signatures/keys.ts'
import type { Owner } from '../../../wire/identifiers.ts'
import { SERVED } from '../../../wire/signatures/pinned-keys.ts'
import { Refusal, refuse } from '../../../wire/refusal.ts'
import type { DeviceKey, EnrolledKey, LetIn, LetInKey, Login } from '../../../wire/owner/owner-credentials.ts'
import type { CellView } from '../../cells/cells.ts'
import type { OwnerApi } from '../api.ts'
import type { ProvenLogin, Realm } from '../../../credentials/oidc.ts'
import { changeAs, OWNER, type OwnerCredential } from './guard.ts'
import { ownerList } from '../lists.ts'

/** Her name for a credential. It is shown to her, so it must contain visible text and nothing else. */
export const CREDENTIAL_NAME = plainText(100)
  .regex(/^\P{Cc}*$/u, 'leave out control characters')
  .regex(/\S/, 'give a name that shows something')
export const PUBLIC_JWK = z.record(z.string(), z.unknown())

const NO_SUCH_KEY = 'You have no device key of this kid or name in force.'
const NO_SUCH_LOGIN = 'You have no login of this id.'

const text = z.string()
const LET_IN: z.ZodType<LetIn> = z.strictObject({
  passkey: text,
  expires_at: text,
  surface: z.literal('served'),
})
const KEY_MEMBERS = z.strictObject({ kid: text, name: text, enrolled_at: text })
const LOGIN_MEMBERS = z.strictObject({ id: text, name: text, issuer: text, subject: text, bound_at: text })
const DEVICE_KEY: z.ZodType<DeviceKey> = KEY_MEMBERS.extend({
  jwk: PUBLIC_JWK,
  revoked_at: text.nullable(),
  surface: z.literal(SERVED).optional(),
  let_in: LET_IN.optional(),
}).meta({ id: 'DeviceKey' })
const ENROLLED_KEY: z.ZodType<EnrolledKey> = KEY_MEMBERS.meta({ id: 'EnrolledKey' })
const LOGIN: z.ZodType<Login> = LOGIN_MEMBERS.meta({ id: 'Login' })
export const DELETED = z.strictObject({ deleted: text })
/** The device key that a passkey let in, and the owner. */
export const LET_IN_KEY: z.ZodType<LetInKey> = KEY_MEMBERS.extend({ owner: text, let_in: LET_IN }).meta({
  id: 'LetInKey',
})
/** What a one-time code enrolled, and for whom. */
export const ENROLLED: z.ZodType<{ owner: string } & (EnrolledKey | Login)> = z.union([
  KEY_MEMBERS.extend({ owner: text }),
  LOGIN_MEMBERS.extend({ owner: text }),
])

/** Her device keys and logins. */
export const CREDENTIALS: readonly Endpoint<OwnerApi>[] = [
  ownerList({
    path: '/owner/device-keys',
    rows: { addedUnder: 'Authentication' },
    summary: 'Her device keys, those too that were revoked or have ended',
    says: 'By kid.',
    item: DEVICE_KEY,
    list: listDeviceKeys,
    key: 'kid',
    show: row => {
      const { kid, name, enrolled_at, jwk, revoked_at } = row
      const let_in = letInOf(row)
      const surface = jwk['surface'] === SERVED ? ({ surface: SERVED } as const) : {}
      return { kid, name, enrolled_at, jwk, revoked_at, ...surface, ...(let_in && { let_in }) }
    },
  }),
  endpoint({
    method: 'post',
    path: '/owner/device-keys',
    rows: { addedUnder: 'Authentication' },
    summary: 'Enrols a further device key',
    credential: OWNER,
    refuses: { 409: ['conflict'] },
    first: ({ accepted }: OwnerApi) => {
      if (!accepted.deviceKeys) refuse('conflict', 'Device keys are not taken here: none can be added.')
    },
    body: { schema: z.strictObject({ name: CREDENTIAL_NAME, jwk: PUBLIC_JWK }) },
    answers: { 201: { says: 'Enrolled.', schema: ENROLLED_KEY } },
    handle: async (api: OwnerApi, { caller, body: { name, jwk }, answer }) => {
      const key = importKey(jwk)
      const added = { name, key, jwk, by: byOwner(caller), cell: api.cell }
      const enrol = (tx: Tx) => enrolKey(tx, caller.owner, added)
      return answer(201, await changeAs(api, caller, enrol))
    },
  }),
  endpoint({
    method: 'delete',
    path: '/owner/device-keys/{kid}',
    rows: { addedUnder: 'Authentication' },
    summary: 'Revokes a device key, by its kid or its name, at once and for ever; the last credential stays',
    credential: OWNER,
    parameters: { schema: z.strictObject({ kid: plainText(200) }), unknown: NO_SUCH_KEY },
    answers: { 200: { says: 'Revoked.', schema: DELETED } },
    refuses: { 404: ['not_found'], 409: ['conflict'] },
    handle: async (api: OwnerApi, { caller, parameters: { kid }, answer }) =>
      answer(200, await removeAs(api, caller, tx => revokeKey(tx, caller, kid))),
  }),
  ownerList({
    path: '/owner/logins',
    rows: { addedUnder: 'Authentication' },
    summary: 'Her logins',
    says: 'By id.',
    item: LOGIN,
    list: listLogins,
    key: 'id',
    show: ({ id, name, issuer, subject, bound_at }) => ({ id, name, issuer, subject, bound_at }),
  }),
  endpoint({
    method: 'post',
    path: '/owner/logins',
    rows: { addedUnder: 'Authentication' },
    summary: 'Binds the login that an access token proves',
    credential: OWNER,
    refuses: { 409: ['conflict'] },
    first: ({ accepted }: OwnerApi) => {
      if (accepted.realm === undefined) refuse('conflict', 'Logins are not taken here: none can be added.')
    },
    // The login is what its access token proves; nobody's claims about it count.
    body: { schema: z.strictObject({ name: CREDENTIAL_NAME, access_token: plainText(16_384) }) },
    answers: { 201: { says: 'Bound.', schema: LOGIN } },
    handle: async (api: OwnerApi, { caller, body: { name, access_token }, answer }) => {
      // This is proved before the transaction begins, because nothing is fetched inside one.
      const login = await proveBodyLogin(api.accepted.realm!, access_token)
      const bind = (tx: Tx) =>
        bindLogin(tx, caller.owner, { name, login, by: byOwner(caller), cell: api.cell })
      return answer(201, await changeAs(api, caller, bind))
    },
  }),
  endpoint({
    method: 'delete',
    path: '/owner/logins/{id}',
    rows: { addedUnder: 'Authentication' },
    summary: 'Removes a login, at once; the last credential stays',
    credential: OWNER,
    parameters: { schema: z.strictObject({ id: plainText(200) }), unknown: NO_SUCH_LOGIN },
    answers: { 200: { says: 'Removed.', schema: DELETED } },
    refuses: { 404: ['not_found'], 409: ['conflict'] },
    handle: async (api: OwnerApi, { caller, parameters: { id }, answer }) => {
      const { owner } = caller
      const removed = await removeAs(api, caller, tx => removeLogin(tx, caller, id))
      await api.cell?.release({ kind: 'login', key: loginKey(removed), owner })
      return answer(200, { deleted: id })
    },
  }),
]

/** How a credential is added or removed, and who did it. */
export interface ChangedBy {
  by: 'owner' | 'enrolment_code' | 'recovery' | 'passkey'
  actor: Actor
}

export const byOwner = ({ actor }: OwnerCredential): ChangedBy => ({ by: 'owner', actor })

/** The passkey that let it in, and until when; undefined for a key that was enrolled for good. */
export function letInOf({
  expires_at,
  passkey,
}: Pick<DeviceKeyRow, 'expires_at' | 'passkey'>): LetIn | undefined {
  if (expires_at === null || passkey === null) return undefined
  return { passkey, expires_at, surface: 'served' }
}

/** A public key from a body. Refuses `invalid_request` naming the member. */
export function importKey(jwk: Record<string, unknown>): PublicKey {
  try {
    return importPublicJwk(jwk)
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return refuse('invalid_request', `jwk: ${error.detail ?? error.code}`, { cause: error })
  }
}

/** A key as it was sent, and how it is enrolled. */
interface AddedKey {
  name: string
  key: PublicKey
  jwk: Record<string, unknown>
  by: ChangedBy
  cell: CellView | undefined
}

/**
 * Enrols a key, which stays hers for ever; of its JWK also `surface` is kept, by which a resource that pins
 * it is warned (`wire/pinned-keys`). Refuses 409 if it was enrolled or revoked before, by her or by anybody.
 */
export async function enrolKey(
  tx: Tx,
  owner: Owner,
  { name, key, jwk: sent, by, cell }: AddedKey,
): Promise<EnrolledKey> {
  const kid = key.thumbprint
  const jwk = { ...publicJwk(key), ...(sent['surface'] === SERVED && { surface: SERVED }) }
  const isFree = (await cell?.claim({ kind: 'device_key', key: kid, owner })) ?? true
  if (!isFree || !(await insertDeviceKey(tx, { owner, kid, jwk, name })))
    refuse('conflict', 'Make a new device key: this one was enrolled before, and a key is enrolled once.')
  const { enrolled_at } = (await readDeviceKey(tx, kid))!
  await tellCredential(tx, owner, { change: 'added', what: { credential: 'device_key', kid, name }, by })
  return { kid, name, enrolled_at }
}

/** Binds a login. Refuses 409 if it is bound already, to her or to anybody. */
export async function bindLogin(
  tx: Tx,
  owner: Owner,
  { name, login, by, cell }: { name: string; login: LoginSubject; by: ChangedBy; cell: CellView | undefined },
): Promise<Login> {
  const isFree = (await cell?.claim({ kind: 'login', key: loginKey(login), owner })) ?? true
  const row = isFree
    ? await insertLogin(tx, { owner, name, issuer: login.issuer, subject: login.subject })
    : undefined
  if (row === undefined)
    refuse('conflict', 'Remove this login from the other owner first: a login belongs to one owner.')
  const { id, issuer, subject, bound_at } = row
  await tellCredential(tx, owner, {
    change: 'added',
    what: { credential: 'login', id, name, issuer, subject },
    by,
  })
  return { id, name, issuer, subject, bound_at }
}

/** Unlike the request's own credential, a token in a body that proves nothing is refused 400. */
async function proveBodyLogin(realm: Realm, token: string): Promise<ProvenLogin> {
  try {
    return await realm.prove(token)
  } catch (error) {
    if (!(error instanceof Refusal) || error.code !== 'invalid_token') throw error
    return refuse('invalid_request', `access_token: ${error.detail ?? error.code}`, { cause: error })
  }
}

/**
 * Removes one of her credentials, at once. Refuses 409 if no credential would be left that is accepted here,
 * because she could not come back without the operator of this authority.
 */
export function removeAs<Removed>(
  api: OwnerApi,
  credential: OwnerCredential,
  remove: (tx: Tx) => Promise<Removed>,
): Promise<Removed> {
  const { owner } = credential
  const { accepted, relyingParty } = api
  return changeAs(api, credential, async tx => {
    const removed = await remove(tx)
    const issuer = accepted.realm?.issuer
    const kinds = { deviceKeys: accepted.deviceKeys, issuer, rpId: relyingParty()?.rp_id ?? '' }
    if (!(await hasCredential(tx, owner, kinds)))
      refuse('conflict', 'Add another credential first: this is your last one.')
    return removed
  })
}

/**
 * A kid comes first, so that no name that she gave hides another key's kid. Refuses 409 if several keys have
 * the name.
 */
async function revokeKey(tx: Tx, caller: OwnerCredential, kidOrName: string): Promise<{ deleted: string }> {
  const { owner } = caller
  const kid = (await revokeDeviceKey(tx, owner, kidOrName))
    ? kidOrName
    : await onlyKeyNamed(tx, owner, kidOrName)
  if (kid !== kidOrName && !(await revokeDeviceKey(tx, owner, kid))) unknownKey()
  const { name } = (await readDeviceKey(tx, kid))!
  const what = { credential: 'device_key', kid, name }
  await tellCredential(tx, owner, { change: 'removed', what, by: byOwner(caller) })
  return { deleted: kid }
}

async function onlyKeyNamed(tx: Tx, owner: Owner, name: string): Promise<string> {
  const [kid, ...others] = await deviceKeysNamed(tx, owner, name)
  if (kid === undefined) return unknownKey()
  if (others.length > 0)
    refuse('conflict', `Give a kid: several of your keys have this name: ${[kid, ...others].join(', ')}.`)
  return kid
}

async function removeLogin(tx: Tx, caller: OwnerCredential, id: string): Promise<LoginSubject> {
  const { owner } = caller
  const row = await deleteLogin(tx, owner, id)
  if (row === undefined) unknownLogin()
  const { name, issuer, subject } = row
  const what = { credential: 'login', id, name, issuer, subject }
  await tellCredential(tx, owner, { change: 'removed', what, by: byOwner(caller) })
  return { issuer, subject }
}

/**
 * This is recorded, like everything that affects who may decide. The event also ends the streams of a removed
 * credential.
 */
export async function tellCredential(
  tx: Tx,
  owner: Owner,
  { change, what, by }: { change: 'added' | 'removed'; what: Record<string, unknown>; by: ChangedBy },
): Promise<void> {
  const data = { ...what, ...by }
  await appendLedger(tx, owner, { kind: `credential_${change}`, data })
  await appendEvent(tx, owner, `credential_${change}`, data)
}

function unknownKey(): never {
  refuse('not_found', NO_SUCH_KEY)
}

function unknownLogin(): never {
  refuse('not_found', NO_SUCH_LOGIN)
}
