/**
 * Contract, "Connection": what an introducer and the agents that it introduced have in common, and what ends
 * them together.
 */
import { describe, expect, it } from 'vitest'
import type { PrivateKey } from '../../src/wire/signatures/keys.ts'
import { startTestAuthority } from '../support/authority.ts'
import { introductionStand, introductionTo } from '../support/introductions.ts'
import { newKey, startOperator } from '../support/operators.ts'
import { decide, protectionCall, testAgent, type TestAgent } from '../support/test-agent.ts'
import { raceRounds } from '../support/layer.ts'

const TRADE = { operation: { tool: 'place_trade', params: { symbol: 'VTI', qty: 2 } } }
const { agentOf, authority, introducerAgent, introduction, nextKey, operator, post, revoke } =
  introductionStand()

describe('Lineage', () => {
  async function family() {
    const parent = await introducerAgent()
    const child = agentOf(nextKey())
    const reply = await child.ask('portfolio_read', {
      introduction: introduction(parent.key, child.key),
    })
    expect(reply.status).toBe(200)
    return { parent, child, rpt: reply.body.access_token as string }
  }

  it('revoking the introducer ends the introduced, and their grants with them', async () => {
    const { parent, child, rpt } = await family()
    expect((await revoke(parent.handle)).body).toMatchObject({ connections_revoked: 2 })
    expect((await protectionCall(authority, '/introspect', { token: rpt })).body).toMatchObject({
      active: false,
      reason: 'connection_revoked',
    })
    expect((await child.ask()).body).toMatchObject({ kind: 'connection' })
  })

  it('blocking the operator ends introducer and introduced, and refuses what they ask', async () => {
    const { parent, child, rpt } = await family()
    await post('/owner/operators/block', { origin: operator.origin })
    expect((await protectionCall(authority, '/introspect', { token: rpt })).body.active).toBe(false)
    for (const agent of [parent, child])
      expect((await agent.ask()).body.error_description).toMatch(/blocked the operator/)
    await post('/owner/operators/unblock', { origin: operator.origin })
  })

  it('the introduced do not end the introducer', async () => {
    const { parent, child } = await family()
    await revoke(child.handle)
    expect((await parent.ask('statement_read')).status).toBe(200)
  })

  it("the owner's approval counts across the lineage, both ways, and no longer once it is revoked", async () => {
    const asking = await startTestAuthority({
      environment: { UMA_DEV_LOOPBACK: 'true' },
      provision: document => ({
        owners: document.owners.map(owner => ({
          ...owner,
          tiers: owner.tiers.map(tier =>
            tier.id === 'trading'
              ? { ...tier, rules: [{ when: ['standing.approved_at_tier'], then: 'auto' }] }
              : tier,
          ),
        })),
      }),
    })
    const [parent, first, second] = [nextKey(), nextKey(), nextKey()].map(key =>
      testAgent(asking, { key, client_id: operator.client_id }),
    ) as [TestAgent, TestAgent, TestAgent]
    const by = (child: TestAgent) => ({
      ...TRADE,
      introduction: introductionTo(asking.issuer, parent.key, child.key),
    })
    await parent.granted()
    // The parent was approved at another tier, so the child is asked about; once it is, its whole lineage is
    // not.
    expect((await first.ask('place_trade', by(first))).body).toMatchObject({ kind: 'operation' })
    await decide(asking, first.handle, 'approved')
    expect((await parent.ask('place_trade', TRADE)).status).toBe(200)
    expect((await second.ask('place_trade', by(second))).status).toBe(200)
    const target = '/owner/connections/revoke'
    await asking.call(asking.alice, { method: 'POST', target, json: { handle: first.handle } })
    for (const agent of [parent, second])
      expect((await agent.ask('place_trade', TRADE)).body).toMatchObject({ kind: 'operation' })
    await asking.close()
  })

  it('an introduced agent written against the revocation of its parent: none outlives it', async () => {
    const racing = await startTestAuthority({ environment: { UMA_DEV_LOOPBACK: 'true' } })
    const pairs = Array.from({ length: raceRounds(40) }, () => [newKey(), newKey()] as const)
    const theirs = await startOperator({ keys: pairs.flat() })
    let admitted = 0
    for (const [parentKey, childKey] of pairs) {
      const of = (key: PrivateKey) => testAgent(racing, { key, client_id: theirs.client_id })
      const [parent, child] = [of(parentKey), of(childKey)]
      await parent.granted()
      const offer = await child.offer()
      const signed = introductionTo(racing.issuer, parentKey, childKey)
      const [reply] = await Promise.all([
        child.agree(offer, { introduction: signed }),
        racing.call(racing.alice, {
          method: 'POST',
          target: '/owner/connections/revoke',
          json: { handle: parent.handle },
        }),
      ])
      if (reply.status === 200) admitted += 1
      else await decide(racing, child.handle, 'denied')
      const { rows } = await racing.database.pool.query(
        "SELECT 1 FROM connections WHERE handle = $1 AND status = 'active'",
        [child.handle],
      )
      expect(rows).toEqual([])
    }
    expect(admitted).toBeLessThanOrEqual(pairs.length)
    await racing.close()
    await theirs.close()
  })
})
