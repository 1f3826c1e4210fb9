/**
 * Her passkeys. She registers each with one of her credentials, and lists and removes it like any other. A
 * passkey lets in the device key of a browser for half a day, and signs decisions. Contract: "Authentication"
 * (owner at the owner API); docs/choices.md. The proof of a passkey is in src/wire.
 */
import { z } from 'zod'
import { challenge } from '../../../credentials/presentation.ts'
import { endpoint, type Credential, type Endpoint } from '../../../http/servers/endpoint.ts'
import { PAGE, plainText } from '../../../http/servers/pages.ts'
import { peerNetwork } from '../../../http/peer-network.ts'
import type { Tx } from '../../../storage/authority/database.ts'
import { revokeKeysLetIn } from '../../../storage/authority/credentials/device-keys.ts'
import {
  countPasskeys,
  insertPasskey,
  listPasskeys,
  removePasskey,
  type PasskeyRow,
} from '../../../storage/authority/credentials/passkeys.ts'
import { encodeBase64url, sha256 } from '../../../wire/encoding.ts'
import type { Owner } from '../../../wire/identifiers.ts'
import { canonicalize } from '../../../wire/json.ts'
import type { Passkey, PasskeyOptions } from '../../../wire/owner/owner-credentials.ts'
import { readAssertion } from '../../../wire/passkeys/passkey-assertion.ts'
import {
  PASSKEY_USES,
  readLoginClaims,
  readRegistrationClaims,
} from '../../../wire/passkeys/passkey-claims.ts'
import { newPasskeyNonce } from '../../../wire/passkeys/passkey-nonce.ts'
import { readRegistration, verifyRegistration } from '../../../wire/passkeys/passkey-registration.ts'
import { askLater, refuse } from '../../../wire/refusal.ts'
import type { RelyingParty } from '../../../wire/passkeys/relying-party.ts'
import type { OwnerApi } from '../api.ts'
import {
  byOwner,
  CREDENTIAL_NAME,
  DELETED,
  LET_IN_KEY,
  PUBLIC_JWK,
  removeAs,
  tellCredential,
} from './credentials.ts'
import { changeAs, OWNER, type OwnerCredential } from './guard.ts'
import { listPage } from '../lists.ts'
import {
  letIn,
  NONCE_SECONDS,
  nonceFault,
  partyOf,
  signingKey,
  spendNonce,
  takesDeviceKeys,
} from './passkey-login.ts'

/** A credential id of 1023 bytes, in base64url. */
const ID_LENGTH_MAX = 1_364
/** How many passkeys one owner may have, not counting removed ones. */
const PASSKEYS_MAX = 20

const rows = { addedUnder: 'Authentication' } as const
const NO_SUCH_PASSKEY = 'You have no passkey of this id.'
const text = z.string()
const record = z.record(z.string(), z.unknown())

const PASSKEY: z.ZodType<Passkey> = z
  .strictObject({
    id: text,
    name: text,
    jwk: z.strictObject({ kty: z.literal('EC'), crv: z.literal('P-256'), x: text, y: text }),
    rp_id: text,
    origins: text.array(),
    surface: z.literal('served'),
    added_at: text,
    removed_at: text.nullable(),
  })
  .meta({ id: 'Passkey' })

const OPTIONS: z.ZodType<PasskeyOptions> = z
  .strictObject({
    use: z.enum(PASSKEY_USES),
    nonce: text,
    exp: z.int(),
    rp_id: text,
    user: z.strictObject({ id: text, name: text }).optional(),
  })
  .meta({ id: 'PasskeyOptions' })

const WEBAUTHN = { id: plainText(ID_LENGTH_MAX), clientDataJSON: plainText(4_096) }
const REGISTRATION = z.strictObject({ ...WEBAUTHN, authenticatorData: plainText(8_192) })
const ASSERTION = z.strictObject({
  ...WEBAUTHN,
  authenticatorData: plainText(100),
  signature: plainText(200),
})

/** The owner, if the request proves one; nobody yet, if a passkey is going to prove it. */
const ANYBODY: Credential<OwnerApi, OwnerCredential | undefined> = {
  names: OWNER.names,
  async admit(api, request, run) {
    const { signature, 'signature-input': input, authorization } = request.headers
    const presents = [signature, input, authorization].some(header => header !== undefined)
    return presents ? OWNER.admit(api, request, run) : run(undefined)
  },
}

/**
 * The key that is let in signs the request. Requests of a source are limited as work, separately from guesses
 * of codes: the wrong logins of a stranger must not stop anybody behind the same ingress from using a code.
 */
const UNPROVEN: Credential<OwnerApi, undefined> = {
  names: ['owner'],
  async admit({ logins }, { ip }, run) {
    const source = peerNetwork(ip)
    const seconds = logins.take(source)
    if (seconds > 0) throw askLater('Wait before you use a passkey again.', seconds)
    const answer = await run(undefined)
    // A caller that is let in is not counted.
    logins.give(source)
    return answer
  },
}

export const PASSKEYS: readonly Endpoint<OwnerApi>[] = [
  endpoint({
    method: 'post',
    path: '/owner/passkeys/options',
    rows,
    summary: 'What a passkey is to sign over: of `device-key` for anybody, of `passkey` for an owner',
    credential: ANYBODY,
    body: { schema: z.strictObject({ use: z.enum(PASSKEY_USES) }) },
    answers: {
      200: {
        says: 'The nonce is good once, and until `exp`: the challenge is the SHA-256 of the JCS of {use, jkt, nonce, exp}, of a registration of {use, owner, nonce, exp}, where `owner` is `user.name`.',
        schema: OPTIONS,
      },
    },
    refuses: { 409: ['conflict'] },
    handle: async (api: OwnerApi, { caller, body: { use }, answer }) => {
      const { rp_id } = partyOf(api)
      const exp = api.now() + NONCE_SECONDS
      const nonceFor = (owner: string) => newPasskeyNonce({ use, owner, exp }, api.ticketKeys[0])
      if (use === 'device-key') {
        takesDeviceKeys(api)
        return answer(200, { use, nonce: nonceFor(''), exp, rp_id })
      }
      if (caller === undefined) throw challenge(api.accepted, undefined)
      const { owner } = caller
      const user = { id: userHandle(api, owner), name: owner }
      return answer(200, { use, nonce: nonceFor(owner), exp, rp_id, user })
    },
  }),
  endpoint({
    method: 'post',
    path: '/owner/passkeys/login',
    rows,
    summary: 'Lets in the device key of the body, which signs the request, for 12 hours, by a passkey',
    credential: UNPROVEN,
    body: {
      schema: z.strictObject({
        name: CREDENTIAL_NAME,
        jwk: PUBLIC_JWK,
        payload: record,
        webauthn: ASSERTION,
      }),
    },
    answers: { 201: { says: 'It decides for her until `let_in.expires_at`.', schema: LET_IN_KEY } },
    refuses: { 409: ['conflict'], 429: ['temporarily_unavailable'] },
    first: (api: OwnerApi) => {
      partyOf(api)
      takesDeviceKeys(api)
    },
    handle: async (api: OwnerApi, { body: { name, jwk, payload, webauthn }, request, answer }) => {
      const claims = readLoginClaims(payload)
      const assertion = readAssertion(webauthn)
      const key = signingKey(api, request, jwk)
      if (claims.jkt !== key.thumbprint)
        refuse('invalid_request', 'payload: give jkt as the thumbprint of jwk.')
      return answer(201, await letIn(api, { name, key, claims, assertion }))
    },
  }),
  endpoint({
    method: 'get',
    path: '/owner/passkeys',
    rows,
    summary: 'Her passkeys, removed ones too',
    credential: OWNER,
    query: PAGE,
    answers: {
      200: {
        says: 'By id; `origins` are those at which it is taken now, none where it is taken no more.',
        schema: PASSKEY.array(),
      },
    },
    handle: async (api: OwnerApi, { caller, query, answer }) => {
      const listRequest = { caller, query, path: '/owner/passkeys' }
      const { items, headers } = await listPage(api, listRequest, listPasskeys, 'id')
      const party = api.relyingParty()
      return answer(
        200,
        items.map(row => shown(row, party)),
        headers,
      )
    },
  }),
  endpoint({
    method: 'post',
    path: '/owner/passkeys',
    rows,
    summary: 'Makes a passkey hers that her browser just made (attestation `none`, ES256)',
    credential: OWNER,
    body: {
      schema: z.strictObject({ name: CREDENTIAL_NAME, payload: record, webauthn: REGISTRATION }),
    },
    answers: { 201: { says: 'It is hers.', schema: PASSKEY } },
    refuses: { 409: ['conflict'] },
    handle: async (api: OwnerApi, { caller, body: { name, payload, webauthn }, answer }) => {
      const party = partyOf(api)
      const claims = readRegistrationClaims(payload)
      if (claims.owner !== caller.owner) refuse('invalid_request', 'payload: give owner as yourself.')
      const fault = nonceFault(api, claims)
      if (fault !== undefined) refuse('invalid_request', fault)
      const made = verifyRegistration(readRegistration(webauthn), party, sha256(canonicalize(claims)))
      const { id } = made.passkey
      const row = await changeAs(api, caller, tx =>
        add(tx, api, caller, { id, jwk: made.jwk, rp_id: party.rp_id, name, nonce: claims.nonce }),
      )
      return answer(201, shown(row, party))
    },
  }),
  endpoint({
    method: 'delete',
    path: '/owner/passkeys/{id}',
    rows,
    summary: 'Removes a passkey and what it let in, at once and for ever; the last credential stays',
    credential: OWNER,
    parameters: { schema: z.strictObject({ id: plainText(ID_LENGTH_MAX) }), unknown: NO_SUCH_PASSKEY },
    answers: { 200: { says: 'Removed.', schema: DELETED } },
    refuses: { 404: ['not_found'], 409: ['conflict'] },
    handle: async (api: OwnerApi, { caller, parameters: { id }, answer }) =>
      answer(200, await removeAs(api, caller, tx => remove(tx, caller, id))),
  }),
]

/** With `jwk`, `kid` in place of `id` and the rest, this is an entry of a `keys_file`. */
function shown(row: PasskeyRow, party: RelyingParty | undefined): Passkey {
  const { id, name, jwk, rp_id, added_at, removed_at } = row
  const origins = party?.rp_id === rp_id ? [...party.origins] : []
  return { id, name, jwk, rp_id, origins, surface: 'served', added_at, removed_at }
}

/**
 * The user id that a device stores for her: the same for all of her passkeys here, and without meaning to a
 * reader.
 */
function userHandle({ issuer }: Pick<OwnerApi, 'issuer'>, owner: Owner): string {
  return encodeBase64url(sha256(canonicalize([issuer, owner])))
}

type NewPasskey = Pick<PasskeyRow, 'id' | 'jwk' | 'rp_id' | 'name'>

/**
 * Refuses 409 if she has reached the limit, if the passkey was registered before in any cell, or if its nonce
 * was used.
 */
async function add(
  tx: Tx,
  { cell, quotas }: Pick<OwnerApi, 'cell' | 'quotas'>,
  caller: OwnerCredential,
  made: NewPasskey & { nonce: string },
): Promise<PasskeyRow> {
  const { owner } = caller
  const { nonce, ...passkey } = made
  if (!(await spendNonce(tx, owner, nonce)))
    refuse('conflict', 'Begin anew: a passkey was made of this nonce before.')
  if ((await countPasskeys(tx, owner)) >= PASSKEYS_MAX) {
    quotas.reached('passkeys')
    refuse('conflict', `Remove a passkey first: you have ${PASSKEYS_MAX}, as many as one owner may have.`)
  }
  const isFree = (await cell?.claim({ kind: 'passkey', key: passkey.id, owner })) ?? true
  const row = isFree ? await insertPasskey(tx, { owner, ...passkey }) : undefined
  if (row === undefined)
    refuse(
      'conflict',
      'Make a new passkey: this one was registered before, and a passkey is registered once.',
    )
  const what = { credential: 'passkey', id: row.id, name: row.name }
  await tellCredential(tx, owner, { change: 'added', what, by: byOwner(caller) })
  return row
}

/**
 * The device keys that it let in are removed too, because an owner who lost it may have lost those as well.
 */
async function remove(tx: Tx, caller: OwnerCredential, id: string): Promise<{ deleted: string }> {
  const { owner } = caller
  const row = await removePasskey(tx, owner, id)
  if (row === undefined) refuse('not_found', NO_SUCH_PASSKEY)
  const by = byOwner(caller)
  const removals = [{ credential: 'passkey', id, name: row.name }]
  const keys = await revokeKeysLetIn(tx, owner, id)
  for (const what of [...removals, ...keys.map(key => ({ credential: 'device_key', ...key, passkey: id }))])
    await tellCredential(tx, owner, { change: 'removed', what, by })
  return { deleted: id }
}
