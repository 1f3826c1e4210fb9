/**
 * What an organization leaves out of the operations that it always has approved: contract, "What the service
 * does" (nothing above the owner can widen), "Organization membership, on the member's authorization server".
 */
import { afterEach, describe, expect, it } from 'vitest'
import type { Reply } from '../support/authority.ts'
import { CLAIMING, startMembershipStand } from '../support/membership.ts'
import { startedOnce } from '../support/started.ts'
import { denyAll, testAgent, type TestAgent } from '../support/test-agent.ts'

/** Her trades are shared with her. */
const asking = (always_ask: string[]) => ({
  default_role: 'traders',
  envelope: { ...CLAIMING.envelope, always_ask },
})
const TRADES = ['alice/trades']
const TRADE = { operation: { tool: 'place_trade', params: { qty: 5 } } }

const stand = startedOnce(() => startMembershipStand({ charter: asking([]) }))
const edit = (json: object): Promise<Reply> =>
  stand.authority.call(stand.alice, { method: 'PUT', target: '/owner/policies/trading', json })
const outcome = ({ status, body }: Reply): unknown => (status === 200 ? 'granted' : (body.kind ?? body.error))
const ask = async (agent: TestAgent) => outcome(await agent.ask('place_trade', TRADE))

const RULES = [{ when: ['standing.approved_at_tier'], then: 'auto' }]
const NO_RULE =
  'Of what it governs, no rule of yours lets an operation on alice/trades through before you have agreed again.'

/** How her tier answered the last request, and how it would by those rules. */
async function tried(): Promise<string[]> {
  const terms = { purpose: 'Trade', scope: ['trade'], expires_in: 300 }
  const tier = { id: 'trading', name: 'Trading', resources: TRADES, ask_me: true, rules: RULES, terms }
  const target = '/owner/policies/preview'
  const { body } = await stand.authority.call(stand.alice, { method: 'POST', target, json: { tier } })
  const { was, would } = (body.requests as { was: string; would: string }[]).at(-1)!
  return [was, would]
}

/** An agent whose trade she approved once, which a rule of the tier lets trade from then on. */
async function known(): Promise<TestAgent> {
  const edited = await edit({ ask_me: true, rules: RULES, terms: { per_operation: true } })
  if (edited.status !== 200) throw new Error(edited.text)
  await stand.joined()
  const agent = testAgent(stand.authority)
  await agent.granted('place_trade', TRADE)
  return agent
}

const says = (always_ask: string[]): Promise<void> => stand.publishUntilSeen(asking(always_ask), 'always_ask')

afterEach(async () => {
  await denyAll(stand.authority)
  await stand.own('DELETE')
  await stand.publish(asking([]))
})

describe('An operation that an organization no longer has approved', () => {
  it('passes by a rule of hers only once she has agreed to that', async () => {
    const agent = await known()
    expect(await ask(agent)).toBe('granted')
    await says(TRADES)
    expect(await ask(agent)).toBe('operation')
    await denyAll(stand.authority)
    await says([])
    expect(await ask(agent)).toBe('operation')
    await denyAll(stand.authority)
    const { charter_version, binds_s256, waiting, summary } = (await stand.own('GET')).body
    expect(waiting).toEqual({
      version: charter_version,
      changes: ["A rule of yours could let an operation on alice/trades through without anybody's approval."],
    })
    expect(summary).toContain(NO_RULE)
    const again = await stand.own('POST', '', { agreed: true, charter_version, binds_s256 })
    expect([again.status, again.body.waiting]).toEqual([200, null])
    expect(again.body.summary).not.toContain(NO_RULE)
    expect(await ask(agent)).toBe('granted')
  })

  it('is judged in a dry run as it is asked for: by no rule of hers until she has agreed', async () => {
    await stand.publish(asking(TRADES))
    const agent = await known()
    await says([])
    expect(await ask(agent)).toBe('operation')
    await denyAll(stand.authority)
    expect(await tried()).toEqual(['ask', 'ask'])
    const { charter_version, binds_s256 } = (await stand.own('GET')).body
    await stand.own('POST', '', { agreed: true, charter_version, binds_s256 })
    expect(await tried()).toEqual(['ask', 'grant'])
  })

  it('passes by her tier as soon as she asks to be asked no more', async () => {
    await stand.publish(asking(TRADES))
    const agent = await known()
    expect(await ask(agent)).toBe('operation')
    await says([])
    const edited = await edit({ ask_me: false, terms: { per_operation: false } })
    expect([edited.status, edited.body.ask_me, edited.body.clamped]).toEqual([200, false, []])
    expect(outcome(await agent.ask('place_trade'))).toBe('granted')
  })
})
