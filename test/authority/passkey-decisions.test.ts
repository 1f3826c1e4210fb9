/**
 * contract, "Owner API" (`/owner/pending/{family}/decision`): her decision, signed by a passkey that her
 * authority registered.
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { describe, expect, it } from 'vitest'
import { STATEMENTS_CHANNEL, type SentStatement } from '../../src/storage/core/database.ts'
import { itemDigest } from '../../src/wire/owner/decision-item.ts'
import { parseStatement, statementDigest, verifyStatement } from '../../src/wire/owner/decision-statement.ts'
import { parseJws } from '../../src/wire/signatures/jws.ts'
import { canonicalize, type JsonObject } from '../../src/wire/json.ts'
import type { PendingItem } from '../../src/wire/owner/owner-api.ts'
import type { Passkey } from '../../src/wire/owner/owner-credentials.ts'
import { pinnedPasskeys } from '../../src/wire/passkeys/passkey-claims.ts'
import { parsePinnedKeys } from '../../src/wire/signatures/pinned-keys.ts'
import type { OwnerCall, TestOwner } from '../support/authority.ts'
import { hardware, passkeyCalls } from '../support/passkey-calls.ts'
import {
  approvalByPasskey,
  assertionOf,
  ORIGIN,
  RP_ID,
  sha256,
  type SoftPasskey,
  type Wrongly,
} from '../support/passkeys.ts'
import { authorityStand } from '../support/stands.ts'
import { protectionCall, testAgent } from '../support/test-agent.ts'

const authority = authorityStand({
  owners: ['alice', 'bea'],
  environment: { UMA_AS_PASSKEY_RP_ID: RP_ID, UMA_AS_PASSKEY_ORIGINS: ORIGIN },
})
const call = (owner: TestOwner, request: OwnerCall) => authority.call(owner, request)
const { registered, ledger } = passkeyCalls(authority)
const now = () => Math.floor(Date.now() / 1_000)

describe('A decision that a passkey signed', () => {
  const owner = () => authority.alice
  const post = (family: string, json: object) =>
    call(owner(), { method: 'POST', target: `/owner/pending/${family}/decision`, json })

  async function waiting(by: ReturnType<typeof testAgent>, ...asked: Parameters<typeof by.ask>) {
    const { ticket } = (await by.ask(...asked)).body as { ticket: string }
    const { body } = await call(owner(), { target: '/owner/pending?limit=1000' })
    return { ticket, ...(body as PendingItem[]).find(one => one.handle === by.handle)! }
  }

  it('is taken, goes with the grant and the receipt, and is verified by the exported key alone', async () => {
    const passkey = await registered(owner())
    const agent = testAgent(authority)
    const first = await waiting(agent)
    const admitted = approvalByPasskey(first.item, passkey, {
      aud: authority.issuer,
      iat: now(),
      admits: 'all',
    })
    expect(await post(first.family, { decision: 'approved', statement: admitted })).toMatchObject({
      status: 200,
    })
    await agent.present(first.ticket)
    const { ticket, item, family } = await waiting(agent, 'place_trade', {
      operation: { tool: 'place_trade', params: { symbol: 'VTI', qty: 7 } },
    })
    const statement = approvalByPasskey(item, passkey, { aud: authority.issuer, iat: now() })
    const item_s256 = itemDigest(item)
    expect((await post(family, { decision: 'approved', item_s256, statement })).status).toBe(200)
    const [entry] = await ledger(owner(), 'approved')
    expect(entry).toMatchObject({ binding: 'signed', statement_s256: statementDigest(statement) })
    const { body } = await agent.present(ticket)
    const { body: told } = await protectionCall(authority, '/introspect', { token: body.access_token })
    expect(told).toMatchObject({ active: true, owner_decision: { statement } })
    const said = parseJws(body.receipt, 200_000).payload['owner_decision'] as JsonObject
    expect(said).toEqual({ item_s256, statement })
    const { body: mine } = await call(owner(), { target: '/owner/passkeys' })
    const exported = (mine as Passkey[]).find(({ id }) => id === passkey.id)!
    const keys = parsePinnedKeys(JSON.stringify(pinnedPasskeys(exported)))
    const kept = parseStatement(JSON.stringify(said['statement']))
    const expected = { audience: authority.issuer, now: now() }
    expect(verifyStatement(kept, keys, expected).item_s256).toBe(item_s256)
  })

  it.each<[string, number, (passkey: SoftPasskey) => Promise<SoftPasskey>]>([
    ['of another owner', 403, async () => registered(authority.owners['bea']!)],
    ['that nobody registered', 403, async () => hardware()],
    [
      'that was removed',
      403,
      async passkey => {
        await call(owner(), { method: 'DELETE', target: `/owner/passkeys/${passkey.id}` })
        return passkey
      },
    ],
  ])('%s is refused, and the item stays', async (_what, status, other) => {
    const passkey = await other(await registered(owner()))
    const { family, item } = await waiting(testAgent(authority))
    const statement = approvalByPasskey(item, passkey, { aud: authority.issuer, iat: now(), admits: 'all' })
    const answer = await post(family, { decision: 'approved', statement })
    expect(answer).toMatchObject({ status, body: { error: 'statement_key' } })
    expect((await post(family, { decision: 'denied' })).status).toBe(200)
  })

  it('reads the one passkey that it names, however many she has', async () => {
    await registered(owner())
    const passkey = await registered(owner())
    const { family, item } = await waiting(testAgent(authority))
    const statement = approvalByPasskey(item, passkey, { aud: authority.issuer, iat: now(), admits: 'all' })
    const read: SentStatement[] = []
    const collect = (sent: unknown): void => {
      if (/from "passkeys"/.test((sent as SentStatement).text)) read.push(sent as SentStatement)
    }
    subscribe(STATEMENTS_CHANNEL, collect)
    try {
      expect((await post(family, { decision: 'approved', statement })).status).toBe(200)
    } finally {
      unsubscribe(STATEMENTS_CHANNEL, collect)
    }
    expect(read.map(({ values }) => values)).toEqual([expect.arrayContaining([passkey.id])])
  })

  it('at another origin, or as a login, is refused, and the item stays', async () => {
    const passkey = await registered(owner())
    const { family, item } = await waiting(testAgent(authority))
    const { payload } = approvalByPasskey(item, passkey, { aud: authority.issuer, iat: now(), admits: 'all' })
    const signed = (claims: JsonObject, how: Wrongly = {}) => ({
      payload: claims,
      webauthn: assertionOf(passkey, sha256(canonicalize(claims)), how),
    })
    for (const statement of [
      signed(payload, { clientData: { origin: 'https://evil.example' } }),
      signed({ ...payload, use: 'device-key' }),
    ])
      expect(await post(family, { decision: 'approved', statement })).toMatchObject({
        status: 400,
        body: { error: 'invalid_statement' },
      })
    expect((await post(family, { decision: 'denied' })).status).toBe(200)
  })
})

describe('An authority whose page has no domain', () => {
  const alone = authorityStand({ environment: { UMA_AS_OWNER_URL: 'https://192.0.2.1' } })

  it('takes no passkey, and says so', async () => {
    const asked: OwnerCall = {
      method: 'POST',
      target: '/owner/passkeys/options',
      json: { use: 'device-key' },
    }
    expect(await alone.call(alone.alice, { ...asked, sign: false })).toMatchObject({
      status: 409,
      body: { error: 'conflict' },
    })
    const settings = await fetch(`${alone.ownerUrl}/console.json`)
    if (settings.ok) expect(await settings.json()).not.toHaveProperty('passkeys')
  })
})
