/**
 * contract, "Owner API" (`/owner/pending/{family}/decision`): her decision is bound to the very item that she
 * was shown, and by a signature of her own key, which stays with all that rests on it.
 */
import { afterEach, describe, expect, it } from 'vitest'
import { boundApproval } from '../../src/owner/signed-approval.ts'
import { itemDigest, withoutParameters, type DecisionItem } from '../../src/wire/owner/decision-item.ts'
import { signStatement, type StatementClaims } from '../../src/wire/owner/decision-statement.ts'
import { s256, s256Json } from '../../src/wire/encoding.ts'
import type { PrivateKey } from '../../src/wire/signatures/keys.ts'
import { parseJws, signJws } from '../../src/wire/signatures/jws.ts'
import { TYP } from '../../src/wire/names.ts'
import type { PendingItem } from '../../src/wire/owner/owner-api.ts'
import { authorityStand } from '../support/stands.ts'
import { denyAll, protectionCall, testAgent, type TestAgent } from '../support/test-agent.ts'
import { newKey } from '../support/wire-samples.ts'

const authority = authorityStand()
const agent = () => testAgent(authority)
const now = () => Math.floor(Date.now() / 1_000)
const post = (family: string, json: object) =>
  authority.call(authority.alice, { method: 'POST', target: `/owner/pending/${family}/decision`, json })
const ledgerOf = async (kind: string, handle: string) => {
  const { body } = await authority.call(authority.alice, {
    target: `/owner/ledger?kind=${kind}&handle=${handle}`,
  })
  return body.entries as Record<string, unknown>[]
}

/** What waits for her of that agent. */
async function shown({ handle }: TestAgent): Promise<PendingItem> {
  const { body } = await authority.call(authority.alice, { target: '/owner/pending?limit=1000' })
  return (body as PendingItem[]).find(one => one.handle === handle)!
}

async function waiting(by: TestAgent, ...asked: Parameters<TestAgent['ask']>) {
  const { ticket } = (await by.ask(...asked)).body as { ticket: string }
  return { ticket, ...(await shown(by)) }
}

function signed(
  item: DecisionItem,
  changes: Partial<Omit<StatementClaims, 'iss' | 'exp'>> = {},
  key: PrivateKey = authority.alice.key,
): string {
  const { owner, family, single_use, expires_in, kind } = item
  return signStatement(
    {
      aud: authority.issuer,
      owner,
      family,
      decision: 'approved',
      item_s256: itemDigest(item),
      admits: kind === 'operation' ? null : 'all',
      single_use,
      expires_in,
      iat: now(),
      jti: `dec_${family}`,
      ...changes,
    },
    key,
  )
}

// Few strangers may wait at once.
afterEach(() => denyAll(authority))

describe('The item that waits', () => {
  it('is one record, which names the terms, the agreement and the grant, with its hash', async () => {
    const one = agent()
    const { item, item_s256, family } = await waiting(one)
    expect(item).toMatchObject({ v: 1, owner: 'alice', family, kind: 'connection', opens: expect.any(Array) })
    expect(item.agent).toEqual({ handle: one.handle, jkt: one.key.thumbprint, identity: 'pseudonymous' })
    expect(s256Json(item)).toBe(item_s256)
    const terms = `/terms/${item.template_id}`
    const published = await authority.request('GET', terms, { headers: { accept: 'application/json' } })
    expect(item.terms_s256).toBe(s256Json(JSON.parse(published.text)))
    const { body } = await authority.call(authority.alice, { target: `/owner/pending/${family}` })
    expect(body).toMatchObject({ family, item, item_s256 })
    expect(s256(body.agreement_jws)).toBe(item.agreement_s256)
  })

  it('answers 404 for what never waited, and 409 for what waits no more', async () => {
    const target = (family: string) => ({ target: `/owner/pending/${family}` })
    expect((await authority.call(authority.alice, target('fam_never'))).status).toBe(404)
    const { family } = await waiting(agent())
    await post(family, { decision: 'denied' })
    expect((await authority.call(authority.alice, target(family))).status).toBe(409)
  })
})

describe('A decision', () => {
  it('on another item than waits is 409 item_changed with the item, which goes on waiting', async () => {
    const { family, item, item_s256 } = await waiting(agent())
    for (const json of [
      { decision: 'approved', item_s256: s256('{}') },
      { decision: 'approved', item_s256, statement: signed(item, { item_s256: s256('{}') }) },
    ])
      expect(await post(family, json)).toMatchObject({
        status: 409,
        body: { error: 'item_changed', item, item_s256 },
      })
    expect(await post(family, { decision: 'approved', item_s256 })).toMatchObject({ status: 200 })
  })

  it('on what was shown before a tier changed is 409 item_changed with the item as it is, and opens nothing', async () => {
    const edit = (json: object) =>
      authority.call(authority.alice, { method: 'PUT', target: '/owner/policies/statements', json })
    expect((await edit({ ask_me: true })).status).toBe(200)
    const one = agent()
    const before = await waiting(one)
    expect(before.item.opens).toEqual(['reading'])
    // From now on her approval would let the agent through unasked there, too.
    expect((await edit({ ask_me: false })).status).toBe(200)
    const after = await shown(one)
    expect(after.item).toEqual({ ...before.item, opens: ['reading', 'statements'] })
    for (const said of [
      { item_s256: before.item_s256 },
      { statement: signed(before.item) },
      { item_s256: after.item_s256, statement: signed(before.item) },
    ])
      expect(await post(before.family, { decision: 'approved', ...said })).toMatchObject({
        status: 409,
        body: { error: 'item_changed', item: after.item, item_s256: after.item_s256 },
      })
    expect((await shown(one)).item_s256).toBe(after.item_s256)
    expect(await ledgerOf('connected', one.handle)).toEqual([])
    const statement = signed(after.item)
    expect(await post(after.family, { decision: 'approved', statement })).toMatchObject({ status: 200 })
  })

  it('is refused if no database or reader could take what comes with it', async () => {
    const { family, item } = await waiting(agent())
    for (const said of [
      { decision: 'denied', reason: 'Not\0now' },
      { decision: 'approved', statement: signed(item, { jti: 'j'.repeat(10_000) }) },
    ])
      expect(await post(family, said)).toMatchObject({ status: 400, body: { error: 'invalid_request' } })
    expect((await post(family, { decision: 'approved' })).status).toBe(200)
  })

  it('says in the ledger how it was bound', async () => {
    const how = async (said: (item: PendingItem) => object) => {
      const one = agent()
      const item = await waiting(one)
      expect((await post(item.family, { decision: 'approved', ...said(item) })).status).toBe(200)
      return (await ledgerOf('approved', one.handle))[0]
    }
    expect(await how(() => ({}))).toMatchObject({ binding: 'unbound' })
    expect(await how(({ item_s256 }) => ({ item_s256 }))).toMatchObject({ binding: 'digest' })
    let statement = ''
    const entry = await how(({ item }) => ({ statement: (statement = signed(item)) }))
    expect(entry).toMatchObject({ binding: 'signed', statement_s256: s256(statement) })
  })

  it('signed by her key goes with the grant: in the introspection without parameters, and in the receipt', async () => {
    const one = agent()
    const first = await waiting(one)
    await post(first.family, { decision: 'approved' })
    expect((await one.present(first.ticket)).status).toBe(200)
    const { ticket, item, item_s256, family } = await waiting(one, 'place_trade', {
      operation: { tool: 'place_trade', params: { symbol: 'VTI', qty: 7 } },
    })
    const statement = signed(item)
    expect(await post(family, { decision: 'approved', item_s256, statement })).toMatchObject({ status: 200 })
    const { body } = await one.present(ticket)
    const { body: told } = await protectionCall(authority, '/introspect', { token: body.access_token })
    expect(told).toMatchObject({ active: true, owner_decision: { statement, item: withoutParameters(item) } })
    expect(JSON.stringify(told.owner_decision)).not.toMatch(/VTI\\?"/)
    const { payload } = parseJws(body.receipt, 200_000)
    expect(payload['owner_decision']).toEqual({ item_s256, statement })
  })

  it.each<[string, string, number, (item: DecisionItem) => string]>([
    ['by a key that is not hers', 'statement_key', 403, item => signed(item, {}, newKey())],
    [
      'for another authority',
      'invalid_statement',
      400,
      item => signed(item, { aud: 'https://other.example' }),
    ],
    ['of another decision', 'invalid_statement', 400, item => signed(item, { decision: 'denied' })],
    ['that admits something else', 'invalid_statement', 400, item => signed(item, { admits: null })],
    [
      'over another life',
      'invalid_statement',
      400,
      item => signed(item, { expires_in: item.expires_in + 1 }),
    ],
    ['that is none', 'invalid_statement', 400, () => 'a.b.c'],
    ['that is over', 'invalid_statement', 400, item => signed(item, { iat: now() - 3600 - item.expires_in })],
  ])('with a statement %s is %s, and the item stays', async (_what, error, status, statementOf) => {
    const { family, item, item_s256 } = await waiting(agent())
    const json = { decision: 'approved', item_s256, statement: statementOf(item) }
    expect(await post(family, json)).toMatchObject({ status, body: { error } })
    expect(await post(family, { decision: 'approved' })).toMatchObject({ status: 200 })
  })

  it('at her terminal is signed over the item that was shown', async () => {
    const one = agent()
    const item = await waiting(one)
    const { client } = authority.alice
    const bound = boundApproval(client.access, item, { now: now() })
    expect(await client.decide(item.family, 'approved', bound)).toMatchObject({ decision: 'approved' })
    const [entry] = await ledgerOf('approved', one.handle)
    expect(entry).toMatchObject({ binding: 'signed', statement_s256: s256(bound.statement!) })
  })

  it('with a statement that was made for one item decides no other', async () => {
    const [one, other] = [await waiting(agent()), await waiting(agent())]
    const replayed = { decision: 'approved', statement: signed(one.item) }
    expect(await post(other.family, replayed)).toMatchObject({ status: 409, body: { error: 'item_changed' } })
    expect((await post(one.family, replayed)).status).toBe(200)
    expect(await post(one.family, replayed)).toMatchObject({
      status: 409,
      body: { error: 'statement_replayed', decision: 'approved', by: 'owner', actor: { kind: 'owner' } },
    })
  })

  it('that comes second is told who decided, and is a replay only with the statement that decided', async () => {
    const { family, item } = await waiting(agent())
    const [first, second] = [signed(item), signed(item, { jti: 'dec_of_another_device' })]
    const form = { typ: TYP.decision, kid: false } as const
    const signedAgain = signJws({ ...form, payload: parseJws(first).payload }, authority.alice.key)
    expect((await post(family, { decision: 'approved', statement: first })).status).toBe(200)
    const codes: unknown[] = []
    for (const statement of [second, undefined, first, signedAgain])
      codes.push((await post(family, { decision: 'approved', statement })).body.error)
    expect(codes).toEqual(['conflict', 'conflict', 'statement_replayed', 'statement_replayed'])
  })

  it('to deny may give a reason, which the agent reads', async () => {
    const one = agent()
    const { family, ticket } = await waiting(one)
    const reason = `Not this month 🙂${'.'.repeat(184)}`
    expect((await post(family, { decision: 'denied', reason: `${reason}..` })).status).toBe(400)
    expect((await post(family, { decision: 'denied', reason })).status).toBe(200)
    expect(await one.present(ticket)).toMatchObject({
      status: 403,
      body: { error: 'request_denied', owner_reason: reason },
    })
    expect((await ledgerOf('denied', one.handle))[0]).toMatchObject({ reason })
  })

  it('to approve keeps no reason', async () => {
    const one = agent()
    const { family } = await waiting(one)
    expect((await post(family, { decision: 'approved', reason: 'why not' })).status).toBe(200)
    expect((await ledgerOf('approved', one.handle))[0]).not.toHaveProperty('reason')
  })
})

describe('A resource that takes only what she signs', () => {
  const takes = (approval: 'signed' | null) =>
    authority.database.pool.query('UPDATE resources SET approval = $1 WHERE resource_id = $2', [
      approval,
      'alice/trades',
    ])
  afterEach(() => takes(null))

  it('takes no approval but a signed one, alone or among several, and any denial', async () => {
    const { family, item, item_s256 } = await waiting(agent(), 'place_trade', {
      operation: { tool: 'place_trade', params: { symbol: 'VTI', qty: 1 } },
    })
    await takes('signed')
    const refused = { status: 409, body: { error: 'signature_required' } }
    for (const said of [{}, { item_s256 }])
      expect(await post(family, { decision: 'approved', ...said })).toMatchObject(refused)
    const several = { method: 'POST', target: '/owner/pending/decisions' } as const
    expect(
      await authority.call(authority.alice, {
        ...several,
        json: { decisions: [{ family, decision: 'approved', item_s256 }] },
      }),
    ).toMatchObject({ ...refused, body: { ...refused.body, family } })
    expect((await post(family, { decision: 'approved', statement: signed(item) })).status).toBe(200)
    const other = await waiting(agent())
    expect((await post(other.family, { decision: 'denied' })).status).toBe(200)
  })
})

describe('A first contact that is approved for its tier alone', () => {
  const only = { decision: 'approved', only: true } as const
  const trades = { operation: { tool: 'place_trade', params: { symbol: 'VTI', qty: 1 } } }
  const admitted = async (said: object): Promise<TestAgent> => {
    const one = agent()
    const { family, ticket } = await waiting(one, 'place_trade', trades)
    expect((await post(family, { ...only, ...said })).status).toBe(200)
    expect((await one.present(ticket)).status).toBe(200)
    return one
  }

  it('is asked about once at each other tier, which one that is let in for all is not', async () => {
    const all = await admitted({ only: false })
    expect((await all.ask('portfolio_read')).status).toBe(200)
    const one = await admitted({})
    const { ticket, kind, because, family } = await waiting(one, 'portfolio_read')
    expect([kind, because]).toEqual(['operation', expect.arrayContaining(['ask:standing.first_at_tier'])])
    expect((await post(family, { decision: 'approved' })).status).toBe(200)
    expect((await one.present(ticket)).status).toBe(200)
    expect((await one.ask('portfolio_read')).status).toBe(200)
  })

  it('is new at every other tier when it is let in again', async () => {
    const one = await admitted({ only: false })
    expect((await one.ask('portfolio_read')).status).toBe(200)
    await authority.alice.client.revoke(one.handle)
    const { family, ticket } = await waiting(one, 'place_trade', trades)
    expect((await post(family, only)).status).toBe(200)
    expect((await one.present(ticket)).status).toBe(200)
    expect((await waiting(one, 'portfolio_read')).kind).toBe('operation')
  })

  it('is signed for as such: a statement that admits otherwise is refused', async () => {
    const { family, item } = await waiting(agent())
    const [all, tier] = [signed(item), signed(item, { admits: 'tier' })]
    const refused = { status: 400, body: { error: 'invalid_statement' } }
    expect(await post(family, { ...only, statement: all })).toMatchObject(refused)
    expect(await post(family, { decision: 'approved', statement: tier })).toMatchObject(refused)
    expect((await post(family, { ...only, statement: tier })).status).toBe(200)
  })

  it('means nothing for an operation or a denial', async () => {
    const one = await admitted({ only: false })
    const { family, item } = await waiting(one, 'place_trade', trades)
    expect((await post(family, { ...only, statement: signed(item) })).status).toBe(200)
    expect((await one.ask('portfolio_read')).status).toBe(200)
    const other = await waiting(agent())
    expect((await post(other.family, { ...only, decision: 'denied' })).status).toBe(200)
  })
})

describe('Several decisions at once', () => {
  const decideAll = (decisions: object[]) =>
    authority.call(authority.alice, {
      method: 'POST',
      target: '/owner/pending/decisions',
      json: { decisions },
    })

  it('are taken together, each bound by itself', async () => {
    const [one, other] = [await waiting(agent()), await waiting(agent())]
    const reply = await decideAll([
      { family: one.family, decision: 'approved', statement: signed(one.item) },
      { family: other.family, decision: 'denied', reason: 'Not now' },
    ])
    expect(reply).toMatchObject({
      status: 200,
      body: {
        decisions: [
          { family: one.family, decision: 'approved', by: 'owner' },
          { family: other.family, decision: 'denied', by: 'owner' },
        ],
      },
    })
    expect((await ledgerOf('approved', one.handle))[0]).toMatchObject({ binding: 'signed' })
    expect((await ledgerOf('denied', other.handle))[0]).toMatchObject({
      binding: 'unbound',
      reason: 'Not now',
    })
  })

  it.each<[string, number, string, (item: PendingItem) => object]>([
    ['is of another item', 409, 'item_changed', () => ({ item_s256: s256('{}') })],
    [
      'is signed by somebody else',
      403,
      'statement_key',
      ({ item }) => ({ statement: signed(item, {}, newKey()) }),
    ],
  ])('are none where one %s, and the refusal names its family', async (_what, status, error, said) => {
    const [one, other] = [await waiting(agent()), await waiting(agent())]
    const wrong = { family: other.family, decision: 'approved', ...said(other) }
    expect(await decideAll([{ family: one.family, decision: 'approved' }, wrong])).toMatchObject({
      status,
      body: { error, family: other.family },
    })
    for (const { family } of [one, other])
      expect((await post(family, { decision: 'denied' })).status).toBe(200)
  })

  it('are none if one waits no more, and the refusal says whose decision that was', async () => {
    const [one, other] = [await waiting(agent()), await waiting(agent())]
    await post(other.family, { decision: 'denied' })
    const both = [one, other].map(({ family }) => ({ family, decision: 'approved' }))
    expect(await decideAll(both)).toMatchObject({
      status: 409,
      body: { error: 'conflict', family: other.family, decision: 'denied', by: 'owner' },
    })
    expect(await post(one.family, { decision: 'denied' })).toMatchObject({ status: 200 })
  })

  it('are 1 to 50, one for each family', async () => {
    const { family } = await waiting(agent())
    const one = { family, decision: 'approved' }
    const many = Array.from({ length: 51 }, (_, n) => ({ ...one, family: `fam_${n}` }))
    for (const decisions of [[], many, [one, one]]) expect((await decideAll(decisions)).status).toBe(400)
    expect((await decideAll([one])).status).toBe(200)
  })
})
