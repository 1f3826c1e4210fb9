/**
 * Her credentials: the device keys she enrolled and the logins bound to her, each named and each revocable.
 * Contract: "Authentication" (owner at the owner API: independently sufficient, independently revocable).
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { Tx } from '../../storage/authority/database.ts'
import { appendEvent } from '../../storage/authority/events.ts'
import { appendLedger } from '../../storage/authority/ledger.ts'
import {
  deleteLogin,
  hasCredential,
  insertLogin,
  listLogins,
  type Login,
} from '../../storage/authority/logins.ts'
import {
  insertDeviceKey,
  listDeviceKeys,
  readDeviceKey,
  revokeDeviceKey,
} from '../../storage/authority/owners.ts'
import { importPublicJwk, publicJwk, type PublicKey } from '../../wire/keys.ts'
import { Refusal, refuse } from '../../wire/refusal.ts'
import type { Authority } from '../context.ts'
import type { ProvenLogin, Realm } from './oidc.ts'
import type { OwnerAuthentication } from './credential.ts'
import { changeAs, ownerOf, type OwnerCredential } from './guard.ts'
import { bodyOf, listPage, plainText } from './requests.ts'
import type { Owner } from '../../wire/identifiers.ts'

/** What she calls a credential: it is shown to her, so it must show something and nothing else. */
export const CREDENTIAL_NAME = plainText(100)
  .regex(/^\P{Cc}*$/u, 'leave out control characters')
  .regex(/\S/, 'give a name that shows something')
export const PUBLIC_JWK = z.record(z.string(), z.unknown())
export const NEW_DEVICE_KEY = z.strictObject({ name: CREDENTIAL_NAME, jwk: PUBLIC_JWK })
/** The login is what its access token proves; what anybody claims about it is not asked. */
export const NEW_LOGIN = z.strictObject({ name: CREDENTIAL_NAME, access_token: plainText(16_384) })

const KEY_PATH = z.strictObject({ kid: plainText(200) })
const LOGIN_PATH = z.strictObject({ id: plainText(200) })

/** By whose authority a credential is added. */
export type AddedBy = 'owner' | 'enrolment_code'

/** Registers /owner/device-keys* and /owner/logins*. */
export function registerOwnerCredentials(
  app: FastifyInstance,
  authority: Authority,
  accepted: OwnerAuthentication,
): void {
  app.get('/owner/device-keys', (request, reply) => getDeviceKeys(authority, request, reply))
  app.post('/owner/device-keys', async (request, reply) => {
    if (!accepted.deviceKeys) refuse('conflict', 'Device keys are not taken here: none can be added.')
    const { name, jwk } = bodyOf(NEW_DEVICE_KEY, request)
    const key = importKey(jwk)
    const made = await changeAs(authority, ownerOf(request), tx =>
      enrolKey(tx, ownerOf(request).owner, { name, key, by: 'owner' }),
    )
    return reply.code(201).send(made)
  })
  app.delete('/owner/device-keys/:kid', async request => {
    const { kid } = KEY_PATH.safeParse(request.params).data ?? unknownKey()
    return removeAs(authority, accepted, ownerOf(request), (tx, owner) => revokeKey(tx, owner, kid))
  })
  app.get('/owner/logins', (request, reply) => getLogins(authority, request, reply))
  app.post('/owner/logins', async (request, reply) => {
    if (accepted.realm === undefined) refuse('conflict', 'Logins are not taken here: none can be added.')
    const { name, access_token } = bodyOf(NEW_LOGIN, request)
    // Proved before the transaction begins: nothing is fetched inside one.
    const login = await proveGivenLogin(accepted.realm, access_token)
    const made = await changeAs(authority, ownerOf(request), tx =>
      bindLogin(tx, ownerOf(request).owner, { name, login, by: 'owner' }),
    )
    return reply.code(201).send(made)
  })
  app.delete('/owner/logins/:id', async request => {
    const { id } = LOGIN_PATH.safeParse(request.params).data ?? unknownLogin()
    return removeAs(authority, accepted, ownerOf(request), (tx, owner) => removeLogin(tx, owner, id))
  })
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

/** Enrols a key, for ever hers. 409 where it is enrolled or revoked already, whoever's it is. */
export async function enrolKey(
  tx: Tx,
  owner: Owner,
  { name, key, by }: { name: string; key: PublicKey; by: AddedBy },
): Promise<object> {
  const kid = key.thumbprint
  if (!(await insertDeviceKey(tx, { owner, kid, jwk: publicJwk(key), name })))
    refuse('conflict', 'Make a new device key: this one was enrolled before, and a key is enrolled once.')
  const { enrolled_at } = (await readDeviceKey(tx, kid))!
  await record(tx, owner, { change: 'added', what: { credential: 'device_key', kid, name }, by })
  return { kid, name, enrolled_at }
}

/** Binds a login. 409 where it is bound already, whoever's it is. */
export async function bindLogin(
  tx: Tx,
  owner: Owner,
  { name, login, by }: { name: string; login: Login; by: AddedBy },
): Promise<object> {
  const row = await insertLogin(tx, { owner, name, issuer: login.issuer, subject: login.subject })
  if (row === undefined)
    refuse('conflict', 'Remove this login where it is bound first: a login belongs to one owner.')
  const { id, issuer, subject, bound_at } = row
  await record(tx, owner, { change: 'added', what: { credential: 'login', id, name, issuer, subject }, by })
  return { id, name, issuer, subject, bound_at }
}

/** A token in a body, unlike the request's own credential, is 400 where it proves nothing. */
async function proveGivenLogin(realm: Realm, token: string): Promise<ProvenLogin> {
  try {
    return await realm.prove(token)
  } catch (error) {
    if (!(error instanceof Refusal) || error.code !== 'invalid_token') throw error
    return refuse('invalid_request', `access_token: ${error.detail ?? error.code}`, { cause: error })
  }
}

/**
 * Removes one of her credentials, at once. 409 where none would be left that is taken here: she could not come
 * back without the operator of this authority.
 */
function removeAs(
  authority: Authority,
  accepted: OwnerAuthentication,
  credential: OwnerCredential,
  remove: (tx: Tx, owner: Owner) => Promise<object>,
): Promise<object> {
  const { owner } = credential
  return changeAs(authority, credential, async tx => {
    const removed = await remove(tx, owner)
    const issuer = accepted.realm?.issuer
    if (!(await hasCredential(tx, owner, { deviceKeys: accepted.deviceKeys, issuer })))
      refuse('conflict', 'Add another credential first: this is your last one.')
    return removed
  })
}

async function revokeKey(tx: Tx, owner: Owner, kid: string): Promise<object> {
  if (!(await revokeDeviceKey(tx, owner, kid))) unknownKey()
  const { name } = (await readDeviceKey(tx, kid))!
  await record(tx, owner, { change: 'removed', what: { credential: 'device_key', kid, name }, by: 'owner' })
  return { deleted: kid }
}

async function removeLogin(tx: Tx, owner: Owner, id: string): Promise<object> {
  const row = await deleteLogin(tx, owner, id)
  if (row === undefined) unknownLogin()
  const { name, issuer, subject } = row
  const what = { credential: 'login', id, name, issuer, subject }
  await record(tx, owner, { change: 'removed', what, by: 'owner' })
  return { deleted: id }
}

/** Told like everything that decides who may decide; the event also ends streams of what was removed. */
async function record(
  tx: Tx,
  owner: Owner,
  { change, what, by }: { change: 'added' | 'removed'; what: Record<string, unknown>; by: AddedBy },
): Promise<void> {
  const data = { ...what, by }
  await appendLedger(tx, owner, { kind: `credential_${change}`, data })
  await appendEvent(tx, owner, `credential_${change}`, data)
}

async function getDeviceKeys(
  authority: Authority,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<object[]> {
  const items = await listPage(authority, { request, reply }, listDeviceKeys, 'kid')
  return items.map(({ kid, name, enrolled_at, revoked_at }) => ({ kid, name, enrolled_at, revoked_at }))
}

async function getLogins(
  authority: Authority,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<object[]> {
  const items = await listPage(authority, { request, reply }, listLogins, 'id')
  return items.map(({ id, name, issuer, subject, bound_at }) => ({ id, name, issuer, subject, bound_at }))
}

function unknownKey(): never {
  refuse('not_found', 'You have no device key of this kid in force.')
}

function unknownLogin(): never {
  refuse('not_found', 'You have no login of this id.')
}
