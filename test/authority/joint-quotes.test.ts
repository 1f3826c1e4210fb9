/** What a tally is told of a holder's terms: contract, "Tally for a jointly held resource". */
import { sql } from 'kysely'
import { afterEach, describe, expect, it } from 'vitest'
import { generatePrivateJwk, importPrivateJwk } from '../../src/wire/signatures/keys.ts'
import { row } from '../support/contract-row.ts'
import { ACCOUNT, JOINT_TIER, SAVINGS, startJointStand } from '../support/joint-holder.ts'
import { startedOnce } from '../support/started.ts'
import { ask, askedOf } from '../support/tally-requests.ts'

const stand = startedOnce(() => startJointStand())
const quoted = (changes: object = {}) => ask(stand, 'quote', askedOf(stand, changes))
const ledger = async (kind: string) =>
  (await stand.authority.call(stand.bea, { target: `/owner/ledger?kind=${kind}` })).body.entries

afterEach(async () => {
  stand.served.mandate = stand.mandate
  await stand.own('DELETE', `/${ACCOUNT}`)
  await stand.authority.call(stand.bea, { method: 'DELETE', target: '/owner/policies/savings' })
})

describe('a quote', () => {
  row('joint-quote', async () => {
    expect((await quoted()).body).toEqual({ owner: 'bea', tier: null, because: 'not_agreed' })
    await stand.agreed()
    expect((await quoted()).body).toEqual({ owner: 'bea', tier: null, because: 'no_tier' })
    await stand.tier({ rules: [{ when: ['standing.revoked_before'], then: 'refuse' }] })
    const { status, body } = await quoted()
    const { name, terms } = JOINT_TIER
    const { purpose: _hers, ...offered } = terms
    expect([status, body]).toEqual([
      200,
      {
        owner: 'bea',
        tier_id: 'savings',
        tier: { name, resources: [SAVINGS], ask_me: false, terms: { ...offered, per_operation: false } },
      },
    ])
  })

  it('is not given for a tier that wants attested what nobody attests of her', async () => {
    await stand.agreed()
    await stand.tier({ clearance: { desk: ['markets'] } })
    expect((await quoted()).body).toEqual({ owner: 'bea', tier: null, because: 'clearance' })
  })

  it('is not given under another mandate than she agreed to, of which she is told once', async () => {
    await stand.agreed()
    await stand.tier()
    stand.served.mandate = { ...stand.mandate, rule: { kind: 'any', threshold: 1 } }
    // Reading it anew, she is asked to agree anew.
    await stand.own('POST', '/preview', { tally: stand.tally, account: ACCOUNT })
    const before = (await ledger('joint_changed')).length
    for (const _again of [1, 2])
      expect((await quoted()).body).toEqual({ owner: 'bea', tier: null, because: 'mandate_changed' })
    expect((await ledger('joint_changed')).slice(before)).toMatchObject([{ account: ACCOUNT }])
    // However many others its tally serves after that.
    const [holder, ...others] = stand.mandate['holders'] as { weight: number }[]
    for (const weight of [5, 6]) {
      stand.served.mandate = {
        ...stand.mandate,
        holders: [{ ...holder, weight }, ...others],
        total_weight: undefined,
        rule: { kind: 'any' },
      }
      await stand.own('POST', '/preview', { tally: stand.tally, account: ACCOUNT })
      expect((await quoted()).body).toMatchObject({ because: 'mandate_changed' })
    }
    expect((await ledger('joint_changed')).slice(before)).toHaveLength(1)
    expect((await stand.own('GET')).body.accounts).toMatchObject([{ state: 'mandate_changed' }])
  })

  it('of a tally that serves two mandates in turn is told to her once an hour, and what she allowed ends each time', async () => {
    await stand.agreed()
    await stand.tier()
    const before = (await ledger('joint_changed')).length
    const told = async () => (await ledger('joint_changed')).length - before
    const turn = async (rule: object, because: string | undefined) => {
      stand.served.mandate = { ...stand.mandate, rule }
      await stand.own('POST', '/preview', { tally: stand.tally, account: ACCOUNT })
      expect((await quoted()).body.because).toBe(because)
    }
    for (const _again of [1, 2, 3]) {
      await turn({ kind: 'any', threshold: 1 }, 'mandate_changed')
      await turn(stand.mandate['rule'] as object, undefined)
    }
    expect(await told()).toBe(1)
    const { db } = stand.authority.database
    await sql`UPDATE joint_accounts SET changed_told_at = changed_told_at - interval '61 minutes'`.execute(db)
    await turn({ kind: 'any', threshold: 1 }, 'mandate_changed')
    expect(await told()).toBe(2)
  })

  it('rests on no consequence class that the tally lowered, until she agrees anew', async () => {
    await stand.agreed()
    const registered = stand.served.registered
    const classOf = async () => {
      const { body } = await stand.authority.call(stand.bea, { target: '/owner/resources' })
      return (body as { _id: string; consequence: string | null }[]).find(({ _id }) => _id === SAVINGS)
        ?.consequence
    }
    const serve = async (consequence: string | undefined, listed = true) => {
      const others = registered.filter(({ _id }) => _id !== SAVINGS)
      const mine = { _id: SAVINGS, name: 'Savings', resource_scopes: ['read', 'trade'], consequence }
      stand.served.registered = listed ? [...others, mine] : others
      await stand.own('POST', '/preview', { tally: stand.tally, account: ACCOUNT })
      await quoted({ resource_id: SAVINGS })
      return classOf()
    }
    try {
      await stand.own('DELETE', `/${ACCOUNT}`)
      await serve('compensatable')
      await stand.agreed()
      await stand.tier()
      expect(await classOf()).toBe('compensatable')
      expect(await serve('irreversible')).toBe('irreversible')
      expect(await serve('reversible')).toBe('irreversible')
      expect(await serve(undefined)).toBe('irreversible')
      // Neither by taking it out and in again.
      await serve(undefined, false)
      expect(await serve('reversible')).toBe('irreversible')
      await stand.own('DELETE', `/${ACCOUNT}`)
      await stand.agreed()
      expect(await classOf()).toBe('reversible')
    } finally {
      stand.served.registered = registered
    }
  })

  it.each([
    ['of her own resources', { resource_id: 'bea/portfolio' }],
    ['of what the account does not register', { resource_id: `${ACCOUNT}/other` }],
  ])('is refused %s', async (_name, changes) => {
    await stand.agreed()
    const { status, body } = await quoted(changes)
    expect([status, body.error]).toEqual([403, 'request_denied'])
  })

  it.each([
    ['for another server', { aud: 'https://as.elsewhere.example' }, 401],
    ['of a tally that is not listed', { iss: 'https://tally.elsewhere.example' }, 401],
    ['that has expired', { iat: 1_000, exp: 1_060 }, 401],
    ['that would be good for too long', { exp: Math.floor(Date.now() / 1_000) + 9_000 }, 401],
    ['about an owner who is not served here', { owner: 'nobody' }, 404],
  ])('is refused to a request %s', async (_name, changes, status) => {
    await stand.agreed()
    expect((await quoted(changes)).status).toBe(status)
  })

  it('is refused to a request that the tally did not sign', async () => {
    await stand.agreed()
    const stranger = importPrivateJwk(generatePrivateJwk())
    expect((await ask(stand, 'quote', askedOf(stand), stranger)).status).toBe(401)
  })

  it('has in the registry what the tally registered since', async () => {
    await stand.agreed()
    const registered = stand.served.registered
    const house = { _id: `${ACCOUNT}/house`, name: 'House', resource_scopes: ['read'] }
    stand.served.registered = [...registered, house]
    await stand.own('POST', '/preview', { tally: stand.tally, account: ACCOUNT })
    expect((await quoted({ resource_id: house._id })).body).toMatchObject({ because: 'no_tier' })
    stand.served.registered = registered
  })
})
