/**
 * Contract, "Connection" (introduced by an active connection) and "Owner API" (introduction of a sibling
 * agent).
 */
import { describe, expect, it, vi } from 'vitest'
import { lockQueue } from '../../src/storage/authority/owners/owners.ts'
import { readTier, updateTier } from '../../src/storage/authority/policies/tiers.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import { startTestAuthority } from '../support/authority.ts'
import { introductionStand, nowSeconds } from '../support/introductions.ts'
import { lockWaiters } from '../support/lock-waiters.ts'
import { newKey, startIssuer, startOperator } from '../support/operators.ts'
import { decide, pendingAt, protectionCall, testAgent, type TestAgent } from '../support/test-agent.ts'
import { once } from '../support/refused-once.ts'
import { until } from '../support/until.ts'

const TRADE = { operation: { tool: 'place_trade', params: { symbol: 'VTI', qty: 2 } } }
const {
  agentOf,
  authority,
  connectionOf,
  identifiedOf,
  introducerAgent,
  introduction,
  issuer,
  nextKey,
  revoke,
} = introductionStand()

describe('An agent introduced by an active connection', () => {
  it('skips first contact: granted at once under its own key and terms, its connection naming the introducer', async () => {
    const parent = await introducerAgent()
    const child = agentOf(nextKey())
    const reply = await child.ask('portfolio_read', {
      introduction: introduction(parent.key, child.key),
    })
    expect(reply.status).toBe(200)
    expect(await connectionOf(child.handle)).toMatchObject({
      status: 'active',
      introduced_by: parent.handle,
      tiers_granted: ['reading'],
      tiers_approved: [],
    })
    const { body } = await protectionCall(authority, '/introspect', { token: reply.body.access_token })
    expect(body).toMatchObject({ active: true, sub: child.handle, cnf: { jwk: { x: child.key.x } } })
    await vi.waitFor(
      async () => {
        const { entries } = (
          await authority.call(authority.alice, {
            target: `/owner/ledger?handle=${encodeURIComponent(child.handle)}`,
          })
        ).body
        expect(entries.map((entry: { kind: string }) => entry.kind)).toEqual(['connected', 'promised'])
        expect(entries[0]).toMatchObject({ by: 'introduction', introduced_by: parent.handle })
      },
      { timeout: 60_000, interval: 20 },
    )
    // And from now on it is an agent she knows.
    expect((await child.ask('statement_read')).status).toBe(200)
  })

  it('is still asked about if the tier asks: kind operation, on a connection that stands', async () => {
    const parent = await introducerAgent()
    const child = agentOf(nextKey())
    const held = await child.ask('place_trade', {
      ...TRADE,
      introduction: introduction(parent.key, child.key),
    })
    expect(held.body).toMatchObject({ error: 'request_submitted', kind: 'operation' })
    const [item] = await pendingAt(authority)
    expect(item).toMatchObject({
      handle: child.handle,
      kind: 'operation',
      identity: { introduced_by: parent.handle },
      assurance_notes: expect.arrayContaining(['introduction: accepted']),
    })
    expect(await connectionOf(child.handle)).toMatchObject({
      status: 'active',
      introduced_by: parent.handle,
    })
    await decide(authority, child.handle, 'approved')
    expect((await child.present(held.body.ticket)).status).toBe(200)
  })

  it('is not connected if its tier refuses by the time that the grant would be written', async () => {
    const parent = await introducerAgent()
    const child = agentOf(nextKey())
    const offer = await child.offer('statement_read')
    const { database } = authority
    const { owner } = authority.alice
    // In a transaction that the agent's waits for, when all that speaks for it was read.
    const { agreeing, before } = await once(() =>
      inTransaction(database.db, async tx => {
        await lockQueue(tx, owner)
        const agreeing = child.agree(offer, { introduction: introduction(parent.key, child.key) })
        await until(async () => (await lockWaiters(database)) === 1)
        const { terms, ...before } = (await readTier(tx, owner, 'statements'))!
        const { version: _, published_at: __, ...same } = terms
        const refusing = [{ when: ['standing.introduced'], then: 'refuse' as const }]
        await updateTier(tx, { ...before, terms: same, rules: refusing }, undefined)
        return { agreeing, before: { ...before, terms: same } }
      }),
    )
    const { status } = await agreeing
    await inTransaction(database.db, tx => updateTier(tx, before, undefined))
    expect(status).toBe(403)
    expect(await connectionOf(child.handle)).toBeUndefined()
  })

  it('by the parent_agent of its agent token, if no introduction is sent', async () => {
    const parent = identifiedOf(nextKey())
    await parent.granted()
    const [parent_agent] = parent.handle.split('@')
    const child = identifiedOf(nextKey(), { parent_agent })
    expect((await child.ask()).status).toBe(200)
    expect(await connectionOf(child.handle)).toMatchObject({ introduced_by: parent.handle })
  })

  it('by an identified introducer, under its agent token', async () => {
    const parent = identifiedOf(nextKey())
    await parent.granted()
    const [sub] = parent.handle.split('@')
    const child = agentOf(nextKey())
    const signed = introduction(parent.key, child.key, {}, issuer.token(parent.key, { sub }))
    expect((await child.ask('portfolio_read', { introduction: signed })).status).toBe(200)
    expect(await connectionOf(child.handle)).toMatchObject({ introduced_by: parent.handle })
  })
})

describe('The whole request is denied for an introduction that is', () => {
  it.each<[string, (parent: TestAgent, child: TestAgent) => unknown]>([
    ['malformed', () => 'x'],
    ['for another authority', (p, c) => introduction(p.key, c.key, { aud: 'https://other.example' })],
    ['expired', (p, c) => introduction(p.key, c.key, { exp: nowSeconds() - 1 })],
    ['good for more than 300 seconds', (p, c) => introduction(p.key, c.key, { exp: nowSeconds() + 400 })],
    ['of another key', p => introduction(p.key, newKey())],
    ['over 4096 bytes', (p, c) => introduction(p.key, c.key, { jti: 'x'.repeat(4200) })],
    [
      'by an agent of an issuer that is not listed',
      (p, c) => introduction(p.key, c.key, {}, issuer.token(p.key, { iss: 'https://other.example' })),
    ],
    [
      'under an agent token of another key',
      (p, c) => introduction(p.key, c.key, {}, issuer.token(c.key, { sub: 'x' })),
    ],
  ])('%s', async (_, make) => {
    const [parent, child] = [agentOf(newKey()), agentOf(newKey())]
    const reply = await child.ask('portfolio_read', { introduction: make(parent, child) })
    expect([reply.status, reply.body.error]).toEqual([403, 'request_denied'])
    expect(reply.body.error_description).toMatch(/introduction|agent_token|document/i)
    expect(await pendingAt(authority)).toEqual([])
  })
})

describe('An introduction that the record does not bear out falls back silently to first contact, the reason kept', () => {
  async function fallsBack(child: TestAgent, claims: Record<string, unknown>, note: string) {
    const reply = await child.ask('portfolio_read', claims)
    expect(reply.body).toMatchObject({ error: 'request_submitted', kind: 'connection' })
    const item = (await pendingAt(authority)).find(entry => entry['handle'] === child.handle)!
    expect(item['assurance_notes']).toContain(note)
    expect(await connectionOf(child.handle)).not.toMatchObject({ status: 'active' })
  }

  it('if the introducer is unknown', async () => {
    const [parent, child] = [agentOf(nextKey()), agentOf(nextKey())]
    const signed = introduction(parent.key, child.key)
    await fallsBack(child, { introduction: signed }, 'introduction: introducer_not_active')
  })

  it('if the introducer was revoked', async () => {
    const [parent, child] = [await introducerAgent(), agentOf(nextKey())]
    await revoke(parent.handle)
    const signed = introduction(parent.key, child.key)
    await fallsBack(child, { introduction: signed }, 'introduction: introducer_not_active')
  })

  it('if the introducer was itself introduced: one level deep', async () => {
    const [parent, child, grandchild] = [await introducerAgent(), agentOf(nextKey()), agentOf(nextKey())]
    await child.ask('portfolio_read', { introduction: introduction(parent.key, child.key) })
    // Even where the owner approves an operation of the child in person.
    await child.ask('place_trade', TRADE)
    await decide(authority, child.handle, 'approved')
    const signed = introduction(child.key, grandchild.key)
    await fallsBack(grandchild, { introduction: signed }, 'introduction: introducer_was_introduced')
  })

  it("if the introducer is its issuer's child of another agent", async () => {
    const key = nextKey()
    const parent = identifiedOf(key)
    await parent.granted()
    const [sub] = parent.handle.split('@')
    const child = agentOf(nextKey())
    const token = issuer.token(key, { sub, parent_agent: 'somebody' })
    const signed = introduction(key, child.key, {}, token)
    await fallsBack(child, { introduction: signed }, 'introduction: introducer_was_introduced')
  })

  it('if the introducer holds no tier that the owner approved in person since its present admission', async () => {
    const parent = await introducerAgent()
    await authority.database.pool.query(
      'UPDATE connection_tiers SET approved_generation = 0 WHERE handle = $1',
      [parent.handle],
    )
    const child = agentOf(nextKey())
    const signed = introduction(parent.key, child.key)
    await fallsBack(child, { introduction: signed }, 'introduction: introducer_not_approved_in_person')
  })

  it('if the newcomer has an earlier ended connection', async () => {
    const [parent, child] = [await introducerAgent(), await introducerAgent()]
    await revoke(child.handle)
    const signed = introduction(parent.key, child.key)
    await fallsBack(child, { introduction: signed }, 'introduction: newcomer_has_ended_connection')
  })

  it('if the key of the newcomer has an ended connection under another handle', async () => {
    const key = nextKey()
    const bare = agentOf(key)
    await bare.granted()
    await revoke(bare.handle)
    const parent = await introducerAgent()
    const child = identifiedOf(key)
    const signed = introduction(parent.key, key)
    await fallsBack(child, { introduction: signed }, 'introduction: newcomer_has_ended_connection')
  })

  it('where three agents that it introduced are live; one of them ended makes room', async () => {
    const parent = await introducerAgent()
    const children = [agentOf(nextKey()), agentOf(nextKey()), agentOf(nextKey())]
    for (const child of children) {
      const signed = introduction(parent.key, child.key)
      expect((await child.ask('portfolio_read', { introduction: signed })).status).toBe(200)
    }
    const fourth = agentOf(nextKey())
    const signed = introduction(parent.key, fourth.key)
    await fallsBack(fourth, { introduction: signed }, 'introduction: introducer_at_its_cap')
    await revoke(children[0]!.handle)
    expect((await fourth.ask('portfolio_read', { introduction: signed })).status).toBe(200)
  })

  const note = 'introduction: operator_did_not_publish_both_keys'
  it('if the operator has not published the newcomer', async () => {
    const [parent, child] = [await introducerAgent(), agentOf(newKey())]
    await fallsBack(child, { introduction: introduction(parent.key, child.key) }, note)
  })

  it('if the operator has not published the introducer', async () => {
    const [parent, child] = [agentOf(newKey()), agentOf(nextKey())]
    await parent.granted()
    await fallsBack(child, { introduction: introduction(parent.key, child.key) }, note)
  })

  it('if another operator publishes both: listing the key of somebody else proves nothing', async () => {
    const parent = await introducerAgent()
    const key = newKey()
    const other = await startOperator({ keys: [key, parent.key] })
    const child = agentOf(key, other.client_id)
    await fallsBack(child, { introduction: introduction(parent.key, key) }, note)
    await other.close()
  })

  it('if the newcomer names no operator', async () => {
    const parent = await introducerAgent()
    const child = testAgent(authority, { key: nextKey() })
    await fallsBack(child, { introduction: introduction(parent.key, child.key) }, note)
  })

  it('if the parent named by the issuer is unknown', async () => {
    const child = identifiedOf(nextKey(), { parent_agent: 'nobody' })
    await fallsBack(child, {}, 'parent_agent: introducer_not_active')
  })
})

describe('An outage is no verdict on an introduction', () => {
  it("if the keys of the introducer's issuer cannot be had, it is 503 with the ticket to go on with", async () => {
    const gone = await startIssuer()
    const other = await startTestAuthority({
      environment: { UMA_AS_AGENT_ISSUERS: gone.iss, UMA_DEV_LOOPBACK: 'true' },
    })
    const key = newKey()
    const token = gone.token(key)
    await gone.close()
    const child = testAgent(other)
    const offer = await child.offer()
    const reply = await child.agree(offer, { introduction: introduction(key, child.key, {}, token) })
    expect([reply.status, reply.body]).toMatchObject([
      503,
      { error: 'temporarily_unavailable', ticket: expect.any(String) },
    ])
    expect((await other.call(other.alice, { target: '/owner/pending' })).body).toEqual([])
    // Without the introduction, its first contact waits.
    const alone = await child.agree({ ...offer, ticket: reply.body.ticket })
    expect(alone.body).toMatchObject({ error: 'request_submitted', kind: 'connection' })
    await other.close()
  })
})
