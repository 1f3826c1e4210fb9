/**
 * What a membership does to negotiations and grants: contract, "Organization membership, on the member's
 * authorization server".
 */
import { sql } from 'kysely'
import { afterEach, describe, expect, it } from 'vitest'
import { endMembershipAndReach } from '../../src/authority/organization/membership.ts'
import { lockQueue } from '../../src/storage/authority/owners/owners.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import type { Reply } from '../support/authority.ts'
import { lockWaiters } from '../support/lock-waiters.ts'
import { once } from '../support/refused-once.ts'
import { until } from '../support/until.ts'
import { startMembershipStand } from '../support/membership.ts'
import { startedOnce } from '../support/started.ts'
import { decide, denyAll, protectionCall, testAgent, type ToolName } from '../support/test-agent.ts'

const stand = startedOnce(() => startMembershipStand())
const introspect = async (rpt: string) => {
  const { body } = await protectionCall(stand.authority, '/introspect', { token: rpt })
  return body.active === true ? 'active' : (body.reason as string)
}
const read = (ago: number) =>
  sql`UPDATE memberships SET read_at = now() - ${ago} * interval '1 second'`.execute(
    stand.authority.database.db,
  )
const put = (tier: string, json: object) =>
  stand.authority.call(stand.alice, { method: 'PUT', target: `/owner/policies/${tier}`, json })
const refusal = async (tool: ToolName) => {
  const agent = testAgent(stand.authority)
  return agent.present(await agent.ticket(tool))
}

afterEach(async () => {
  await denyAll(stand.authority)
  await stand.own('DELETE')
})

describe('A membership', () => {
  it('ends the grants on what it governs at both its ends and leaves her own alive, and joining again revives none', async () => {
    const agent = testAgent(stand.authority)
    const before = await agent.granted('portfolio_read')
    const own = await agent.granted('statement_read')
    await stand.joined()
    expect(await introspect(before.rpt)).toBe('organization_revoked')
    expect(await introspect(own.rpt)).toBe('active')
    const within = await agent.granted('portfolio_read')
    expect(await introspect(within.rpt)).toBe('active')
    await stand.own('DELETE')
    expect(await introspect(within.rpt)).toBe('organization_revoked')
    await stand.joined()
    for (const { rpt } of [before, within]) expect(await introspect(rpt)).toBe('organization_revoked')
    expect(await introspect(own.rpt)).toBe('active')
  })

  it('gives back no grant that it ended once she has left, neither to introspection nor to be spent', async () => {
    const agent = testAgent(stand.authority)
    const trade = { operation: { tool: 'place_trade', params: { symbol: 'VTI', qty: 2 } } }
    const ended = [await agent.granted('portfolio_read'), await agent.granted('place_trade', trade)]
    const own = await agent.granted('statement_read')
    await stand.joined()
    for (const { rpt } of ended) expect(await introspect(rpt)).toBe('organization_revoked')
    await stand.own('DELETE')
    for (const { rpt } of ended) expect(await introspect(rpt)).toBe('revoked')
    const { body } = await protectionCall(stand.authority, '/consume', { token: ended[1]!.rpt })
    expect([body.consumed, body.error]).toEqual([false, 'revoked'])
    expect(await introspect(own.rpt)).toBe('active')
    expect(await introspect((await agent.granted('portfolio_read')).rpt)).toBe('active')
  })

  it('lets nobody in to what is claimed and not shared', async () => {
    await stand.joined()
    const { status, body } = await refusal('place_trade')
    expect([status, body.error]).toEqual([403, 'request_denied'])
    expect(body.error_description).toContain('does not share it')
  })

  it('takes an approval with it that is not collected', async () => {
    await stand.joined()
    const agent = testAgent(stand.authority)
    const asked = await agent.ask('portfolio_read')
    expect(asked.body.error).toBe('request_submitted')
    const [item] = (await stand.authority.call(stand.alice, { target: '/owner/pending' })).body
    await stand.authority.call(stand.alice, {
      method: 'POST',
      target: `/owner/pending/${item.family}/decision`,
      json: { decision: 'approved' },
    })
    await stand.own('DELETE')
    const { status, body } = await agent.present(asked.body.ticket)
    expect([status, body.error]).toEqual([403, 'request_denied'])
  })

  it('ends what she approved before she joined, and says that it is governed now, not that it is shared no more', async () => {
    const agent = testAgent(stand.authority)
    const asked = await agent.ask('portfolio_read')
    await decide(stand.authority, agent.handle, 'approved')
    await stand.joined()
    const { status, body } = await agent.present(asked.body.ticket)
    expect([status, body.error]).toEqual([403, 'request_denied'])
    expect(body.error_description).toContain('has come to govern this resource since')
  })

  it('that ends while a request is read is no outage: what it governed is hers again', async () => {
    await stand.joined()
    const agent = testAgent(stand.authority)
    const ticket = await agent.ticket('portfolio_read')
    const { database } = stand.authority
    let presented: Promise<Reply> | undefined
    await once(() =>
      inTransaction(database.db, async tx => {
        await lockQueue(tx, stand.alice.owner)
        // The request has read how the resource stands, and waits to read her membership.
        await sql`LOCK TABLE memberships IN ACCESS EXCLUSIVE MODE`.execute(tx)
        presented = agent.present(ticket)
        await until(async () => (await lockWaiters(database)) === 1)
        await endMembershipAndReach(tx, stand.alice.owner, { by: 'organization' })
      }),
    )
    expect((await presented!).body.error).toBe('need_info')
  })

  it('holds whatever she saves to the ceiling, and says what it cut', async () => {
    await stand.joined()
    const { status, body } = await put('reading', { terms: { expires_in: 7200, prohibited: [] } })
    expect([status, body.terms.expires_in, body.terms.prohibited]).toEqual([200, 900, ['passing it on']])
    expect(body.clamped.map(({ field }: { field: string }) => field)).toEqual(['expires_in', 'prohibited'])
    expect((await put('statements', { name: 'Mine' })).body.clamped).toEqual([])
    await stand.own('DELETE')
    const own = await put('reading', { terms: { expires_in: 7200 } })
    expect([own.body.terms.expires_in, own.body.clamped]).toEqual([7200, undefined])
  })
})

describe('A view that nobody confirmed for ten minutes', () => {
  it('is relied on no more: what it governs is 503 with a ticket to go on with, and her own is as before', async () => {
    await stand.joined()
    const agent = testAgent(stand.authority)
    const ticket = await agent.ticket('portfolio_read')
    await read(601)
    const out = await agent.present(ticket)
    expect([out.status, out.body.error, out.body.ticket]).toEqual([503, 'temporarily_unavailable', ticket])
    expect(out.headers.get('retry-after')).toBe('30')
    expect((await refusal('statement_read')).body.error).toBe('need_info')
    await read(0)
    const offered = await agent.present(out.body.ticket)
    expect(offered.body.error).toBe('need_info')
    const offer = {
      ticket: offered.body.ticket,
      template: offered.body.required_claims[0].terms_template,
    }
    await read(601)
    const again = await agent.agree(offer)
    expect(again.status).toBe(503)
    await read(0)
    const { body } = await agent.agree({ ...offer, ticket: again.body.ticket })
    expect(body.error).toBe('request_submitted')
    expect((await stand.own('GET')).body.stale).toBe(false)
  })
})
