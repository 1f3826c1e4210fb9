/** Leased liveness: docs/choices.md, ADR 0021; contract, "Introspection and consume answers". */
import { describe, expect, it, onTestFinished } from 'vitest'
import { listHolders } from '../../src/storage/authority/grants/leases.ts'
import { LEASE_MS, LEASE_RENEW_MS, LEASE_SETTLEMENT_MS } from '../../src/wire/resources/leases.ts'
import { CLIENT_ID, startTestAuthority, type TestAuthority } from '../support/authority.ts'
import { holdLease, type LeaseHolder } from '../support/lease-holder.ts'
import { authorityStand } from '../support/stands.ts'
import { protectionCall, testAgent } from '../support/test-agent.ts'
import { until } from '../support/until.ts'

const authority = authorityStand({ owners: ['alice', 'bea'] })
const TRADE = { operation: { tool: 'place_trade', params: {} } }

const introspect = async (token: string, lease?: string, at: TestAuthority = authority) =>
  (await protectionCall(at, '/introspect', { token, ...(lease !== undefined && { lease }) }, 'alice')).body

async function held(
  of: Parameters<typeof holdLease>[1] = {},
  at: TestAuthority = authority,
): Promise<LeaseHolder> {
  const holder = await holdLease(at, of)
  onTestFinished(async () => {
    await holder.say({ end: true })
    holder.drop()
    await holder.ended
  })
  return holder
}

const revoke = (handle: string, at: TestAuthority = authority) => at.alice.client.revoke(handle)

describe('a lease', () => {
  it('is offered by the metadata, and given on a stream that stays open', async () => {
    const { body } = await authority.request('GET', '/.well-known/agents-configuration')
    expect(body.introspection_lease_ms_max).toBe(LEASE_MS)
    const { lease } = await held()
    expect(lease).toEqual({ id: lease.id, lease_ms: LEASE_MS, renew_ms: LEASE_RENEW_MS, asked: 0 })
  })

  it('lets an answer about a standing grant be used again, and says for how long', async () => {
    const { rpt } = await testAgent(authority).granted()
    const { lease } = await held()
    const { lease_ms, ...answer } = await introspect(rpt, lease.id)
    expect(lease_ms).toBe(LEASE_MS)
    expect(answer).toEqual(await introspect(rpt))
  })

  it('counts for each of several tokens', async () => {
    const agent = testAgent(authority)
    const tokens = [(await agent.granted()).rpt, 'none', (await agent.granted()).rpt]
    const { lease } = await held()
    const { body } = await protectionCall(authority, '/introspect', { tokens, lease: lease.id }, 'alice')
    expect(body.answers.map((one: { lease_ms?: number }) => one.lease_ms)).toEqual([
      LEASE_MS,
      undefined,
      LEASE_MS,
    ])
  })

  it('is none for a grant that is for a single use', async () => {
    const { rpt } = await testAgent(authority).granted('place_trade', TRADE)
    const { lease } = await held()
    expect(await introspect(rpt, lease.id)).toEqual(await introspect(rpt))
  })

  it.each([
    ['that nobody was given', 'AAAAAAAAAAAAAAAAAAAAAA'],
    ['of another form', '\0'],
    ['that is empty', ''],
  ])('%s is as if none was named', async (_which, lease) => {
    const { rpt } = await testAgent(authority).granted()
    const answer = await introspect(rpt, lease)
    expect(answer.active).toBe(true)
    expect(answer).not.toHaveProperty('lease_ms')
  })

  it('of another owner is none', async () => {
    const { rpt } = await testAgent(authority).granted()
    const { lease } = await held({ owner: 'bea' })
    expect(await introspect(rpt, lease.id)).not.toHaveProperty('lease_ms')
  })

  it('ends when its holder says so, and with its last word nothing more is answered under it', async () => {
    const { rpt } = await testAgent(authority).granted()
    const holder = await held()
    expect((await holder.say({ acknowledged: 0 })).body).toEqual({ asked: 0 })
    expect((await holder.say({ end: true })).status).toBe(200)
    expect(await introspect(rpt, holder.lease.id)).not.toHaveProperty('lease_ms')
    expect((await holder.say({ acknowledged: 0 })).status).toBe(404)
  })

  it('takes the place of the one that its holder had before', async () => {
    const first = await held()
    const second = await held({ replaces: first.lease.id })
    expect((await first.say({ acknowledged: 0 })).status).toBe(404)
    expect((await second.say({ acknowledged: 0 })).status).toBe(200)
  })

  it.each([
    ['without a PAT', {}, '{}', 401],
    ['a request with an unknown member', undefined, '{"owner":"bea"}', 400],
    ['a malformed id to replace', undefined, '{"replaces":"x"}', 400],
  ])('is refused %s', async (_what, headers, body, status) => {
    const pat = await authority.pat()
    const reply = await authority.request('POST', '/leases', {
      headers: { 'content-type': 'application/json', ...(headers ?? { authorization: `Bearer ${pat}` }) },
      body,
    })
    expect(reply.status).toBe(status)
  })
})

describe('an act that ends a grant', () => {
  it('returns once the holder has let go, and says how many did', async () => {
    const agent = testAgent(authority)
    const { rpt } = await agent.granted()
    const holder = await held()
    expect((await introspect(rpt, holder.lease.id)).lease_ms).toBe(LEASE_MS)
    const { leases } = await revoke(agent.handle)
    expect(leases).toEqual({ holders: 1, acknowledged: 1, waited_ms: expect.any(Number) })
    expect(leases!.waited_ms).toBeLessThan(LEASE_SETTLEMENT_MS)
    expect(holder.asked()).toBe(1)
    expect((await introspect(rpt, holder.lease.id)).reason).toBe('connection_revoked')
  })

  it('says nothing of leases if nobody holds one', async () => {
    const agent = testAgent(authority)
    await agent.granted()
    expect(await revoke(agent.handle)).not.toHaveProperty('leases')
  })

  it('waits for a holder that does not answer until nothing of it can be left, and no longer', async () => {
    const agent = testAgent(authority)
    await agent.granted()
    const holder = await held({ answers: false })
    const before = performance.now()
    const { leases } = await revoke(agent.handle)
    expect(performance.now() - before).toBeGreaterThanOrEqual(LEASE_SETTLEMENT_MS)
    expect(leases).toMatchObject({ holders: 1, acknowledged: 0, silent: [CLIENT_ID] })
    expect(leases!.waited_ms).toBeGreaterThanOrEqual(LEASE_SETTLEMENT_MS)
    expect(holder.asked()).toBe(1)
  })

  it('that finds nothing left to end waits all the same: its first answer may have been lost', async () => {
    const agent = testAgent(authority)
    await agent.granted()
    await revoke(agent.handle)
    const holder = await held()
    expect((await revoke(agent.handle)).leases).toMatchObject({ holders: 1, acknowledged: 1 })
    expect(holder.asked()).toBe(1)
  })

  it.each([
    ['/owner/resource-servers/decision', { client_id: CLIENT_ID, decision: 'revoked' }],
    [`/owner/resource-servers/${CLIENT_ID}/revoke`, undefined],
  ])('because its resource server is withdrawn says who was waited for, too: %s', async (target, json) => {
    const own = await startTestAuthority()
    onTestFinished(() => own.close())
    const holder = await held({}, own)
    const { status, body } = await own.call(own.alice, { method: 'POST', target, ...(json && { json }) })
    expect(status).toBe(200)
    expect(body).toMatchObject({ status: 'revoked', leases: { holders: 1, acknowledged: 1 } })
    expect(holder.asked()).toBe(1)
  })

  it('at one replica is heard at the other, and so is what the holder says there', async () => {
    const other = await startTestAuthority({ beside: authority })
    onTestFinished(() => other.close())
    const agent = testAgent(authority)
    const { rpt } = await agent.granted()
    const holder = await held({}, other)
    expect((await introspect(rpt, holder.lease.id)).lease_ms).toBe(LEASE_MS)
    const { leases } = await revoke(agent.handle)
    expect(leases).toMatchObject({ holders: 1, acknowledged: 1 })
    expect(leases!.waited_ms).toBeLessThan(LEASE_SETTLEMENT_MS)
  })

  it('is heard if nobody is notified, by looking', async () => {
    const silent = await startTestAuthority({ environment: { UMA_AS_NOTIFY: 'false' } })
    onTestFinished(() => silent.close())
    const agent = testAgent(silent)
    await agent.granted()
    const holder = await held({}, silent)
    expect((await revoke(agent.handle, silent)).leases).toMatchObject({ holders: 1, acknowledged: 1 })
    expect(holder.asked()).toBe(1)
  })
})

describe('a holder that has gone without a word', () => {
  it('is waited for until its lease is swept, and then no more', async () => {
    const agent = testAgent(authority)
    await agent.granted()
    const holder = await holdLease(authority, { answers: false })
    holder.drop()
    await until(async () =>
      (await listHolders(authority.database.db)).every(({ id }) => id !== holder.lease.id),
    )
    expect((await holder.say({ acknowledged: 0 })).status).toBe(404)
    expect(await revoke(agent.handle)).not.toHaveProperty('leases')
  })

  it('is told so by the end of its stream, if it is there after all', async () => {
    const holder = await holdLease(authority, { answers: false })
    await holder.ended
    expect((await holder.say({ acknowledged: 0 })).status).toBe(404)
  })
})

describe('leases that are switched off', () => {
  it('are neither offered nor given', async () => {
    const off = await startTestAuthority({ beside: authority, environment: { UMA_AS_LEASES: 'false' } })
    onTestFinished(() => off.close())
    const { body } = await off.request('GET', '/.well-known/agents-configuration')
    expect(body).not.toHaveProperty('introspection_lease_ms_max')
    await expect(holdLease(off)).rejects.toThrow('404')
    const { rpt } = await testAgent(authority).granted()
    const { lease } = await held()
    expect(await introspect(rpt, lease.id, off)).not.toHaveProperty('lease_ms')
  })
})
