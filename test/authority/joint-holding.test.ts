/** What an owner holds with others, at her own authority: contract, "Tally for a jointly held resource". */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { mandateDigest, parseMandate } from '../../src/wire/joint/mandate.ts'
import { startTestAuthority } from '../support/authority.ts'
import { row } from '../support/contract-row.ts'
import { ACCOUNT, JOINT_TIER, SAVINGS, startJointStand } from '../support/joint-holder.ts'
import { holdLease } from '../support/lease-holder.ts'
import { startedOnce } from '../support/started.ts'

const stand = startedOnce(() => startJointStand())
const named = () => ({ tally: stand.tally, account: ACCOUNT })
const ledger = async (kind: string) =>
  (await stand.authority.call(stand.bea, { target: `/owner/ledger?kind=${kind}` })).body.entries
const resource = async (id: string) =>
  (await stand.authority.call(stand.bea, { target: '/owner/resources' })).body.find(
    (one: { _id: string }) => one._id === id,
  )
const digest = () => mandateDigest(parseMandate(stand.served.mandate))
let first: typeof stand.served

beforeEach(() => {
  first = { ...stand.served }
})
afterEach(async () => {
  Object.assign(stand.served, first)
  stand.server.script(`/mandate/${ACCOUNT}`, () => undefined)
  await stand.own('DELETE', `/${ACCOUNT}`)
  for (const id of ['savings', 'mixed'])
    await stand.authority.call(stand.bea, { method: 'DELETE', target: `/owner/policies/${id}` })
})

describe('Tally for a jointly held resource, at a holder', () => {
  row('joint-preview', async () => {
    const { status, body } = await stand.own('POST', '/preview', named())
    expect([status, body]).toEqual([
      200,
      {
        mandate: stand.mandate,
        mandate_s256: digest(),
        summary: expect.arrayContaining([
          'An agent is let in if holders with a weight of 2 of 3 together allow it.',
        ]) as unknown,
        my_terms: [],
        writes_terms: false,
      },
    ])
    expect((await stand.own('GET')).body).toEqual({ accounts: [] })
    expect(await resource(SAVINGS)).toBeUndefined()
  })

  row('joint-agree', async () => {
    const bare = await stand.own('POST', '', { ...named(), mandate_s256: digest() })
    expect([bare.status, bare.body.reason]).toEqual([400, 'agreement_required'])
    expect((await stand.own('GET')).body.accounts).toEqual([])
    const { status, body } = await stand.agreed()
    expect([status, body.mandate_s256]).toEqual([200, digest()])
    expect(await resource(SAVINGS)).toMatchObject({
      name: 'Savings',
      resource_scopes: ['read', 'trade'],
      source: 'joint',
      tier: null,
    })
    expect(await ledger('joint_agreed')).toMatchObject([
      { account: ACCOUNT, tally: stand.tally, mandate_s256: digest(), by: 'owner' },
    ])
  })

  row('joint-list', async () => {
    await stand.agreed()
    expect((await stand.own('GET')).body.accounts).toEqual([
      {
        account: ACCOUNT,
        tally: stand.tally,
        mandate_s256: digest(),
        rule: { kind: 'threshold', threshold: 2, total_weight: 3 },
        holders: stand.mandate['holders'],
        resources: [`${ACCOUNT}/*`],
        since: expect.any(String) as unknown,
        state: 'agreed',
      },
    ])
  })

  row('joint-leave', async () => {
    await stand.agreed()
    expect((await stand.tier()).status).toBe(201)
    const { status, body } = await stand.own('DELETE', `/${ACCOUNT}`)
    expect([status, body]).toEqual([200, { left: ACCOUNT }])
    expect((await stand.own('GET')).body.accounts).toEqual([])
    const tiers = await stand.authority.call(stand.bea, { target: '/owner/policies' })
    expect(tiers.body.tiers.find((one: { id: string }) => one.id === 'savings')).toMatchObject({
      resources: [SAVINGS],
      terms: JOINT_TIER.terms,
    })
    // Nothing of it can be asked for any more.
    expect(await resource(SAVINGS)).toMatchObject({ resource_scopes: [] })
    expect((await stand.own('DELETE', `/${ACCOUNT}`)).status).toBe(404)
    // Her terms are shown to her when she reads the mandate again.
    const again = await stand.own('POST', '/preview', named())
    expect(again.body.my_terms).toMatchObject([{ tier: 'savings', resources: [SAVINGS] }])
  })
})

describe('leaving', () => {
  it('again waits for sidecars all the same: its first answer may have been lost', async () => {
    const holder = await holdLease(stand.authority, { owner: 'bea' })
    expect((await stand.own('DELETE', `/${ACCOUNT}`)).status).toBe(404)
    expect(holder.asked()).toBe(1)
    await holder.say({ end: true })
  })
})

describe('agreeing', () => {
  it('to the same mandate again changes nothing', async () => {
    await stand.agreed()
    const before = [await ledger('joint_agreed'), (await stand.own('GET')).body]
    expect((await stand.agreed()).status).toBe(200)
    expect([await ledger('joint_agreed'), (await stand.own('GET')).body]).toEqual(before)
  })

  it('to what is served no more is refused with what is served now', async () => {
    const read = digest()
    stand.served.mandate = { ...stand.mandate, rule: { kind: 'all', threshold: 3 } }
    const { status, body } = await stand.own('POST', '', { ...named(), agreed: true, mandate_s256: read })
    expect([status, body.reason, body.preview.mandate_s256]).toEqual([409, 'mandate_moved', digest()])
    expect((await stand.own('GET')).body.accounts).toEqual([])
  })

  it('is refused to whom the mandate does not name at this server', async () => {
    const eve = stand.authority.owners['eve']!
    for (const below of ['/preview', '']) {
      const json = { ...named(), ...(below === '' ? { agreed: true, mandate_s256: digest() } : {}) }
      const { status, body } = await stand.own('POST', below, json, eve)
      expect([status, body.reason]).toEqual([403, 'not_a_holder'])
    }
  })

  it('is refused with a tally that is not listed, which is not asked', async () => {
    const { status, body } = await stand.own('POST', '/preview', {
      tally: 'https://tally.elsewhere.example',
      account: ACCOUNT,
    })
    expect([status, body.error]).toEqual([403, 'request_denied'])
  })

  it.each([
    ['is not lawful', { rule: { kind: 'threshold', threshold: 9 } }, 'rule.threshold'],
    ['is of another account', { account: 'family-2', resources: ['family-2/*'] }, 'another account'],
    ['is of another tally', { tally: 'https://other.example' }, 'another tally'],
    ['is in another form', { rule: 'all' }, 'another form'],
    ['names its holders by a sum that is not theirs', { total_weight: 9 }, 'total_weight'],
  ])('is refused as 502, with the reason, where the mandate %s', async (_name, changes, word) => {
    stand.served.mandate = { ...stand.mandate, ...changes }
    const { status, body } = await stand.own('POST', '/preview', named())
    expect([status, body.error_description]).toEqual([502, expect.stringContaining(word)])
  })

  it('waits for a tally that cannot be asked', async () => {
    stand.server.script(`/mandate/${ACCOUNT}`, { status: 500, body: 'no' })
    const { status } = await stand.own('POST', '/preview', named())
    expect(status).toBe(503)
  })

  it('is refused where something that it registers is known from another source', async () => {
    await stand.authority.database.db
      .insertInto('resources')
      .values({
        owner: stand.bea.owner,
        resource_id: SAVINGS,
        client_id: 'demo-tools' as never,
        name: 'Mine',
        type: null,
        resource_scopes: ['read'],
        consequence: null,
        source: 'provisioned',
      })
      .execute()
    const { status, body } = await stand.agreed()
    expect([status, body.error]).toEqual([409, 'conflict'])
    expect(await resource(SAVINGS)).toMatchObject({ name: 'Mine', source: 'provisioned' })
    await stand.authority.database.db
      .deleteFrom('resources')
      .where('resource_id', '=', SAVINGS)
      .where('source', '=', 'provisioned')
      .execute()
  })

  it('is refused to an account that is called like an owner here', async () => {
    stand.served.mandate = { ...stand.mandate, account: 'eve', resources: ['eve/*'] }
    stand.server.script('/mandate/eve', () => ({ body: stand.served.mandate }))
    const of = { tally: stand.tally, account: 'eve' }
    const { body: read } = await stand.own('POST', '/preview', of)
    const { status, body } = await stand.own('POST', '', {
      ...of,
      agreed: true,
      mandate_s256: read.mandate_s256,
    })
    expect([status, body.error_description]).toEqual([409, expect.stringContaining('name of an owner')])
  })

  it('enters only what the patterns of the mandate cover', async () => {
    stand.served.mandate = { ...stand.mandate, resources: [`${ACCOUNT}/sav*`] }
    stand.served.registered = [
      ...first.registered,
      { _id: `${ACCOUNT}/house`, name: 'House', resource_scopes: ['read'] },
    ]
    await stand.agreed()
    expect(await resource(SAVINGS)).toBeDefined()
    expect(await resource(`${ACCOUNT}/house`)).toBeUndefined()
  })
})

describe('her terms', () => {
  it('for what she holds jointly stand in tiers of their own', async () => {
    await stand.agreed()
    const mixed = await stand.tier({ id: 'mixed', resources: [SAVINGS, 'bea/account'] })
    expect([mixed.status, mixed.body.error]).toEqual([409, 'conflict'])
    expect((await stand.tier()).status).toBe(201)
  })

  it('let nobody in through a resource server of hers', async () => {
    await stand.agreed()
    await stand.tier()
    const { status, body } = await stand.authority.request('POST', '/perm', {
      headers: {
        authorization: `Bearer ${await stand.authority.pat('bea')}`,
        'content-type': 'application/json',
      },
      body: JSON.stringify([{ resource_id: SAVINGS, resource_scopes: ['read'] }]),
    })
    expect([status, body.error]).toEqual([400, 'invalid_resource_id'])
  })
})

describe('if no tally is listed', () => {
  const without = startedOnce(() => startTestAuthority())

  it('nothing of it is served, described or told', async () => {
    for (const [method, target] of [
      ['GET', '/owner/joint'],
      ['POST', '/owner/joint'],
      ['POST', '/owner/joint/preview'],
      ['DELETE', `/owner/joint/${ACCOUNT}`],
    ] as const)
      expect(
        (await without.call(without.alice, { method, target, ...(method === 'POST' && { json: {} }) }))
          .status,
      ).toBe(404)
    for (const target of ['/joint/quote', '/joint/verdict'])
      expect((await without.request('POST', target, { body: '{}' })).status).toBe(404)
    const { text } = await without.call(without.alice, { target: '/openapi.json' })
    expect(text).not.toContain('/owner/joint')
    const { body } = await without.request('GET', '/.well-known/agents-configuration')
    expect(Object.keys(body).filter(name => name.startsWith('joint'))).toEqual([])
  })
})
