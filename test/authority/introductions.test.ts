/** Contract, "Connection" (introduced by an active connection) and "Owner API" (introduction of a sibling agent). */
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { signIntroduction } from '../../src/wire/introduction.ts'
import type { PrivateKey, PublicKey } from '../../src/wire/keys.ts'
import { startTestAuthority, type TestAuthority } from '../support/authority.ts'
import {
  newKey,
  startIssuer,
  startOperator,
  type TestIssuer,
  type TestOperator,
} from '../support/operators.ts'
import { decide, protectionCall, testAgent, type TestAgent } from '../support/test-agent.ts'

let issuer: TestIssuer
let authority: TestAuthority
let operator: TestOperator

beforeAll(async () => {
  issuer = await startIssuer()
  operator = await startOperator({ keys: [...keys] })
  authority = await startTestAuthority({
    environment: { UMA_AS_AGENT_ISSUERS: issuer.iss, UMA_DEV_LOOPBACK: 'true' },
  })
})
afterAll(async () => {
  await authority.close()
  await Promise.all([issuer.close(), operator.close()])
})
beforeEach(async () => {
  for (const item of await pending()) await decide(authority, item['handle'] as string, 'denied')
})

const now = () => Math.floor(Date.now() / 1000)
const TRADE = { operation: { tool: 'place_trade', params: { symbol: 'VTI', qty: 2 } } }
const get = async (target: string) =>
  (await authority.call(authority.alice, { target })).body as Record<string, unknown>[]
const pending = () => get('/owner/pending?limit=1000')
const post = (target: string, json: unknown) =>
  authority.call(authority.alice, { method: 'POST', target, json })
const revoke = (handle: string) => post('/owner/connections/revoke', { handle })
const connectionOf = async (handle: string) =>
  (await get('/owner/connections?limit=1000')).find(connection => connection['handle'] === handle)

/** The operator publishes them all beforehand: a directory just read is read again only after ten seconds. */
const keys = Array.from({ length: 80 }, newKey)
const nextKey = () => keys.pop()!

const agentOf = (key: PrivateKey, client_id = operator.client_id) => testAgent(authority, { key, client_id })
let subjects = 0
const identifiedOf = (key: PrivateKey, claims: Record<string, unknown> = {}) =>
  testAgent(authority, {
    key,
    client_id: operator.client_id,
    identified: issuer.identify(key, `agent-${subjects++}`, claims),
  })
/** An agent of the operator that the owner approved in person. */
async function introducerAgent(): Promise<TestAgent> {
  const agent = agentOf(nextKey())
  await agent.granted()
  return agent
}
const introduction = (by: PrivateKey, newcomer: PublicKey, more: object = {}, agent_token?: string) =>
  signIntroduction(
    { newcomer, aud: authority.issuer, iat: now(), exp: now() + 60, jti: 'int_1', agent_token, ...more },
    by,
  )

describe('An agent introduced by an active connection', () => {
  it('skips first contact: granted at once under its own key and terms, its connection naming the introducer', async () => {
    const parent = await introducerAgent()
    const child = agentOf(nextKey())
    const reply = await child.ask('portfolio_read', { introduction: introduction(parent.key, child.key) })
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
      { timeout: 10_000, interval: 20 },
    )
    // And from now on it is an agent she knows.
    expect((await child.ask('statement_read')).status).toBe(200)
  })

  it('is still asked about where the tier asks: kind operation, on a connection that stands', async () => {
    const parent = await introducerAgent()
    const child = agentOf(nextKey())
    const held = await child.ask('place_trade', {
      ...TRADE,
      introduction: introduction(parent.key, child.key),
    })
    expect(held.body).toMatchObject({ error: 'request_submitted', kind: 'operation' })
    const [item] = await pending()
    expect(item).toMatchObject({
      handle: child.handle,
      kind: 'operation',
      identity: { introduced_by: parent.handle },
      assurance_notes: expect.arrayContaining(['introduction: accepted']),
    })
    expect(await connectionOf(child.handle)).toMatchObject({ status: 'active', introduced_by: parent.handle })
    await decide(authority, child.handle, 'approved')
    expect((await child.present(held.body.ticket)).status).toBe(200)
  })

  it('by the parent_agent of its agent token, where no introduction is sent', async () => {
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
    ['expired', (p, c) => introduction(p.key, c.key, { exp: now() - 1 })],
    ['good for more than 300 seconds', (p, c) => introduction(p.key, c.key, { exp: now() + 400 })],
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
    expect(await pending()).toEqual([])
  })
})

describe('An introduction that the record does not bear out falls back silently to first contact, the reason kept', () => {
  async function fallsBack(child: TestAgent, claims: Record<string, unknown>, note: string) {
    const reply = await child.ask('portfolio_read', claims)
    expect(reply.body).toMatchObject({ error: 'request_submitted', kind: 'connection' })
    const item = (await pending()).find(entry => entry['handle'] === child.handle)!
    expect(item['assurance_notes']).toContain(note)
    expect(await connectionOf(child.handle)).not.toMatchObject({ status: 'active' })
  }

  it('where the introducer is unknown', async () => {
    const [parent, child] = [agentOf(nextKey()), agentOf(nextKey())]
    const signed = introduction(parent.key, child.key)
    await fallsBack(child, { introduction: signed }, 'introduction: introducer_not_active')
  })

  it('where the introducer was revoked', async () => {
    const [parent, child] = [await introducerAgent(), agentOf(nextKey())]
    await revoke(parent.handle)
    const signed = introduction(parent.key, child.key)
    await fallsBack(child, { introduction: signed }, 'introduction: introducer_not_active')
  })

  it('where the introducer was itself introduced: one level deep', async () => {
    const [parent, child, grandchild] = [await introducerAgent(), agentOf(nextKey()), agentOf(nextKey())]
    await child.ask('portfolio_read', { introduction: introduction(parent.key, child.key) })
    // Even where the owner approves an operation of the child in person.
    await child.ask('place_trade', TRADE)
    await decide(authority, child.handle, 'approved')
    const signed = introduction(child.key, grandchild.key)
    await fallsBack(grandchild, { introduction: signed }, 'introduction: introducer_was_introduced')
  })

  it("where the introducer is its issuer's child of another agent", async () => {
    const key = nextKey()
    const parent = identifiedOf(key)
    await parent.granted()
    const [sub] = parent.handle.split('@')
    const child = agentOf(nextKey())
    const token = issuer.token(key, { sub, parent_agent: 'somebody' })
    const signed = introduction(key, child.key, {}, token)
    await fallsBack(child, { introduction: signed }, 'introduction: introducer_was_introduced')
  })

  it('where the introducer holds no tier that the owner approved in person since its present admission', async () => {
    const parent = await introducerAgent()
    await authority.database.pool.query(
      'UPDATE connection_tiers SET approved_generation = 0 WHERE handle = $1',
      [parent.handle],
    )
    const child = agentOf(nextKey())
    const signed = introduction(parent.key, child.key)
    await fallsBack(child, { introduction: signed }, 'introduction: introducer_not_approved_in_person')
  })

  it('where the newcomer has an earlier ended connection', async () => {
    const [parent, child] = [await introducerAgent(), await introducerAgent()]
    await revoke(child.handle)
    const signed = introduction(parent.key, child.key)
    await fallsBack(child, { introduction: signed }, 'introduction: newcomer_has_ended_connection')
  })

  it('where the key of the newcomer has an ended connection under another handle', async () => {
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
  it('where the operator has not published the newcomer', async () => {
    const [parent, child] = [await introducerAgent(), agentOf(newKey())]
    await fallsBack(child, { introduction: introduction(parent.key, child.key) }, note)
  })

  it('where the operator has not published the introducer', async () => {
    const [parent, child] = [agentOf(newKey()), agentOf(nextKey())]
    await parent.granted()
    await fallsBack(child, { introduction: introduction(parent.key, child.key) }, note)
  })

  it('where another operator publishes both: listing the key of somebody else proves nothing', async () => {
    const parent = await introducerAgent()
    const key = newKey()
    const other = await startOperator({ keys: [key, parent.key] })
    const child = agentOf(key, other.client_id)
    await fallsBack(child, { introduction: introduction(parent.key, key) }, note)
    await other.close()
  })

  it('where the newcomer names no operator', async () => {
    const parent = await introducerAgent()
    const child = testAgent(authority, { key: nextKey() })
    await fallsBack(child, { introduction: introduction(parent.key, child.key) }, note)
  })

  it('where the parent named by the issuer is unknown', async () => {
    const child = identifiedOf(nextKey(), { parent_agent: 'nobody' })
    await fallsBack(child, {}, 'parent_agent: introducer_not_active')
  })

  it("where the introducer's issuer cannot be reached", async () => {
    const gone = await startIssuer()
    const other = await startTestAuthority({
      environment: { UMA_AS_AGENT_ISSUERS: gone.iss, UMA_DEV_LOOPBACK: 'true' },
    })
    const key = newKey()
    const token = gone.token(key)
    await gone.close()
    const child = testAgent(other)
    const reply = await child.ask('portfolio_read', { introduction: introduction(key, child.key, {}, token) })
    expect(reply.body).toMatchObject({ error: 'request_submitted', kind: 'connection' })
    const { body } = await other.call(other.alice, { target: '/owner/pending' })
    expect(body[0].assurance_notes.join()).toMatch(
      /introduction: the keys of the introducer's issuer could not be read/,
    )
    await other.close()
  })
})

describe('Lineage', () => {
  async function family() {
    const parent = await introducerAgent()
    const child = agentOf(nextKey())
    const reply = await child.ask('portfolio_read', { introduction: introduction(parent.key, child.key) })
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
      introduction: signIntroduction(
        { newcomer: child.key, aud: asking.issuer, iat: now(), exp: now() + 60, jti: 'i' },
        parent.key,
      ),
    })
    await parent.granted()
    // The parent was approved at another tier, so the child is asked about; once it is, its whole lineage is not.
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

  it('an introduced agent written against the revocation of its parent: 40 rounds, none outlives it', async () => {
    const racing = await startTestAuthority({ environment: { UMA_DEV_LOOPBACK: 'true' } })
    const pairs = Array.from({ length: 40 }, () => [newKey(), newKey()] as const)
    const theirs = await startOperator({ keys: pairs.flat() })
    let admitted = 0
    for (const [parentKey, childKey] of pairs) {
      const of = (key: PrivateKey) => testAgent(racing, { key, client_id: theirs.client_id })
      const [parent, child] = [of(parentKey), of(childKey)]
      await parent.granted()
      const offer = await child.offer()
      const signed = signIntroduction(
        { newcomer: childKey, aud: racing.issuer, iat: now(), exp: now() + 60, jti: 'i' },
        parentKey,
      )
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
    expect(admitted).toBeLessThanOrEqual(40)
    await racing.close()
    await theirs.close()
  })
})
