/**
 * An allowance that an agreement was found within is not read for the next, which rests on what is true when
 * its grant is written all the same: contract, "Grant (RPT) liveness", "Policy vocabulary and tiers"; an
 * addition (docs/details/owner-api.md).
 */
import { afterEach, describe, expect, it } from 'vitest'
import { asOwner } from '../../src/wire/identifiers.ts'
import { allowanceTrades, isAsked, trade } from '../support/allowance-trades.ts'
import type { Reply } from '../support/authority.ts'
import { introductionStand } from '../support/introductions.ts'
import { quotaRefusals } from '../support/quota-refusals.ts'
import { authorityStand } from '../support/stands.ts'
import { statementsSent } from '../support/statements-sent.ts'
import { denyAll, pendingAt, testAgent, type TestAgent } from '../support/test-agent.ts'

const { agentOf, authority, nextKey } = introductionStand()
/** She may have four live grants here. */
const few = authorityStand({ environment: { UMA_AS_GRANTS_PER_OWNER: '4' } })
const { allow, known, save } = allowanceTrades(authority)
const ALICE = asOwner('alice')
const SIX = { windows: [{ of: 'qty', per: 'all', max: '6' }] }

/** Which readings of the agent's standing, and which writings of a grant, one trade takes. */
async function statementsOf(agent: TestAgent, qty: number): Promise<{ status: number; sent: string[] }> {
  const { outcome, sent } = await statementsSent(ALICE, () => trade(agent, qty))
  return { status: outcome.status, sent: sent.filter(name => /^(read-standings|record-grant)/.test(name)) }
}
const change = (text: string, values: unknown[]) => authority.database.pool.query(text, values)

afterEach(() => denyAll(authority))

const READ = ['read-standings-and-allowances', 'record-grant-within']
const PRESUMED = ['read-standings', 'record-grant-within']

describe('An allowance that an agreement was found within', () => {
  it('is not read for the next one, of whichever agent', async () => {
    await allow(SIX)
    const [agent, other] = [await known(), await known()]
    // Its windows are not there yet, so the first takes two statements more.
    expect((await statementsOf(agent, 1)).sent[0]).toBe(READ[0])
    expect(await statementsOf(agent, 1)).toEqual({ status: 200, sent: PRESUMED })
    expect(await statementsOf(other, 1)).toEqual({ status: 200, sent: PRESUMED })
  })

  it('is read again once one was beyond it, so that no statement is sent that finds the same', async () => {
    await allow(SIX)
    const agent = await known()
    await trade(agent, 1)
    expect((await statementsOf(agent, 5.5)).sent).toEqual(['read-standings', READ[0]])
    expect((await statementsOf(agent, 5.5)).sent).toEqual([READ[0]])
    expect(await statementsOf(agent, 1)).toEqual({ status: 200, sent: READ })
    expect(await statementsOf(agent, 1)).toEqual({ status: 200, sent: PRESUMED })
  })

  it('is read each time where each lineage has windows of its own', async () => {
    await allow({ ...SIX, among: 'lineage' })
    const agent = await known()
    await trade(agent, 1)
    expect(await statementsOf(agent, 1)).toEqual({ status: 200, sent: READ })
  })

  it('is read for an agent that names an operator which is not on its record yet, and for that one alone', async () => {
    await allow(SIX)
    const key = nextKey()
    const agent = await known(testAgent(authority, { key }))
    await trade(agent, 1)
    const attested = agentOf(key)
    expect(await statementsOf(attested, 1)).toEqual({ status: 200, sent: ['read-standings', ...READ] })
    expect(await statementsOf(attested, 1)).toEqual({ status: 200, sent: PRESUMED })
  })

  it('is read if its text is long, because what it lists is not kept for everybody', async () => {
    const only = Array.from({ length: 90 }, (_, n) => `${n} of a list of values`)
    const at = { tools: ['place_trade'], amounts: { qty: { pointer: '/qty' } }, free: ['/note'] }
    await allow({
      ...SIX,
      tiers: { trading: at, other: { ...at, only: [{ pointer: '/to', one_of: only }] } },
    })
    const agent = await known()
    await trade(agent, 1)
    expect(await statementsOf(agent, 1)).toEqual({ status: 200, sent: READ })
  })
})

describe('An allowance that an agreement was found within bounds the next as it is then', () => {
  it.each<[string, string, (id: string) => Promise<unknown>]>([
    ['others used it up', 'limit:window:qty:all', async () => trade(await known(), 4)],
    ['she lowered it', 'limit:each_max:qty', id => save(id, { amounts: [{ name: 'qty', each_max: '1' }] })],
    ['she ended it', 'limit:until', id => save(id, { until: '2020-01-01T00:00:00Z' })],
    [
      'the resource takes only what she signs',
      'limit:approval',
      () =>
        change(`UPDATE resources SET approval = 'signed' WHERE owner = 'alice' AND name = $1`, ['trades']),
    ],
    [
      'nobody can read it any more',
      'unreadable',
      id => change(`UPDATE allowances SET content = '{}' WHERE owner = 'alice' AND id = $1`, [id]),
    ],
  ])('where %s, and she is told that limit', async (_what, limit, happens) => {
    const id = await allow(SIX)
    const agent = await known()
    expect((await trade(agent, 1)).status).toBe(200)
    await happens(id)
    try {
      expect(isAsked(await trade(agent, 2))).toBe(true)
      const because = (await pendingAt(authority)).map(item => item['because'] as string[])
      const told = limit === 'unreadable' ? `ask:operation.beyond:${id}?` : limit
      expect(because.map(words => words.at(-1))).toEqual([told])
    } finally {
      await change(`UPDATE resources SET approval = NULL WHERE owner = $1`, ['alice'])
    }
  })

  it('where she raised it: what was beyond before is not asked about', async () => {
    const id = await allow(SIX)
    const agent = await known()
    expect((await trade(agent, 1)).status).toBe(200)
    await save(id, { amounts: [{ name: 'qty', each_max: '50' }] })
    expect((await trade(agent, 50)).status).toBe(200)
  })

  it('where the agent did not spend five of it', async () => {
    await allow({})
    const agent = await known()
    const replies: Reply[] = []
    for (let n = 0; n < 6; n++) replies.push(await trade(agent, 1 + n / 10))
    expect(replies.map(isAsked)).toEqual([false, false, false, false, false, true])
  })

  it('where she has as many live grants as she may have: she is asked about what is beyond it', async () => {
    const there = allowanceTrades(few)
    await there.allow({ windows: [{ of: 'qty', per: 'all', max: '3' }] })
    const [agent, other] = [await there.known(), await there.known()]
    expect((await trade(agent, 1)).status).toBe(200)
    expect((await trade(other, 2)).status).toBe(200)
    expect(isAsked(await trade(agent, 1))).toBe(true)
    expect(await quotaRefusals(few, 'grants')).toBe(0)
    await there.allow({})
    expect((await trade(agent, 1)).status).toBe(429)
  })
})
