/**
 * A tier that names an allowance asks about what is not within it: contract, "Policy vocabulary and tiers",
 * "Owner API" (`/owner/policies`).
 */
import { sql } from 'kysely'
import { beforeEach, describe, expect, it } from 'vitest'
import { lockQueue } from '../../src/storage/authority/owners/owners.ts'
import { readAllowance, storeAllowance } from '../../src/storage/authority/policies/allowances.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import { asOwner } from '../../src/wire/identifiers.ts'
import type { OwnerCall, Reply } from '../support/authority.ts'
import { authorityStand } from '../support/stands.ts'
import { decide, pendingAt, testAgent } from '../support/test-agent.ts'
import { until } from '../support/until.ts'

const authority = authorityStand()

const own = (call: OwnerCall): Promise<Reply> => authority.call(authority.alice, call)
const put = (id: string, json: unknown) => own({ method: 'PUT', target: `/owner/allowances/${id}`, json })
const answers = ({ status, body }: Reply) => [status, body.error]

describe('A tier that names an allowance', () => {
  const AUTO = { when: ['standing.approved_at_tier'], then: 'auto' }
  const beyond = (id: string, then = 'ask') => ({ when: [`operation.beyond:${id}`], then })
  const edit = (rules: object[], more: object = {}) =>
    own({ method: 'PUT', target: '/owner/policies/trading', json: { rules, ...more } })
  const trading = { trading: { tools: ['place_trade'], free: ['/qty'] } }
  const trade = (qty: number) => ({ operation: { tool: 'place_trade', params: { qty } } })
  const refusal = (reply: Reply) => [...answers(reply), reply.body.error_description as string]

  beforeEach(async () => {
    await put('trades', { tiers: trading })
    expect((await edit([AUTO, beyond('trades')])).status).toBe(200)
  })

  it('is refused without it, and if the allowance does not name the tier', async () => {
    expect(refusal(await edit([AUTO, beyond('absent')]))).toEqual([
      400,
      'invalid_request',
      expect.stringContaining('you have no allowance `absent`; make it first'),
    ])
    await put('silent', {})
    expect(refusal(await edit([AUTO, beyond('silent')]))[2]).toContain('add `trading` to its `tiers` first')
    const open = await edit([AUTO, beyond('trades')], { ask_me: false })
    expect(refusal(open)[2]).toContain('set `ask_me` to true')
    expect((await put('silent', { tiers: trading })).status).toBe(200)
    expect((await edit([AUTO, beyond('silent')])).status).toBe(200)
  })

  it('keeps it while a rule lets through: the edit that takes it out alone is refused', async () => {
    const alone = await edit([AUTO])
    expect(refusal(alone)).toEqual([
      400,
      'invalid_request',
      expect.stringContaining('take out the `auto` rules'),
    ])
    expect((await edit([])).status).toBe(200)
    expect((await edit([AUTO])).status).toBe(200)
  })

  it('is never left open by two edits at once, of which one knows nothing of the other', async () => {
    for (let round = 0; round < 10; round++) {
      expect((await edit([])).status).toBe(200)
      const [bounded, open] = await Promise.all([edit([AUTO, beyond('trades')]), edit([AUTO])])
      expect(bounded.status).toBe(200)
      expect(open.status).toBeOneOf([200, 400])
      const { body } = await own({ target: '/owner/policies' })
      const tier = body.tiers.find(({ id }: { id: string }) => id === 'trading')
      expect(tier.rules).toEqual([AUTO, beyond('trades')])
    }
  })

  it('asks about what is beyond it, and says which rule and which limit', async () => {
    const agent = testAgent(authority)
    await agent.granted('place_trade', trade(1))
    const beyondIt = { operation: { tool: 'place_trade', params: { qty: 1, tip: 2 } } }
    const next = await agent.ask('place_trade', beyondIt)
    expect([next.body.error, next.body.kind]).toEqual(['request_submitted', 'operation'])
    const waits = (await pendingAt(authority)).find(({ handle }) => handle === agent.handle)!
    expect(waits['because']).toEqual([
      'baseline:ask_me',
      'auto:standing.approved_at_tier',
      'ask:operation.beyond:trades',
      'limit:members',
    ])
    await decide(authority, agent.handle, 'approved')
    expect((await agent.present(next.body.ticket)).status).toBe(200)
  })

  it('that refuses what is beyond it leaves a first contact to her, and gives what she approved', async () => {
    expect((await edit([AUTO, beyond('trades', 'refuse')])).status).toBe(200)
    const agent = testAgent(authority)
    const other = { operation: { tool: 'place_trade', params: { tip: 1 } } }
    const first = await agent.ask('place_trade', other)
    expect([first.body.error, first.body.kind]).toEqual(['request_submitted', 'connection'])
    await decide(authority, agent.handle, 'approved')
    expect((await agent.present(first.body.ticket)).status).toBe(200)
    expect(answers(await agent.ask('place_trade', other))).toEqual([403, 'request_denied'])
    expect((await agent.ask('place_trade', trade(1))).status).toBe(200)
  })

  it('keeps asking when the allowance no longer names it, and when it has ended', async () => {
    const agent = testAgent(authority)
    await agent.granted('place_trade', trade(1))
    for (const members of [{ tiers: {} }, { tiers: trading, until: '2020-01-01T00:00:00Z' }]) {
      expect((await put('trades', members)).status).toBe(200)
      expect((await agent.ask('place_trade', trade(1))).body.error).toBe('request_submitted')
      await decide(authority, agent.handle, 'denied')
    }
  })

  describe('in an edit that says which version of the allowance she read', () => {
    const rules = [AUTO, beyond('trades')]
    const editAt = (version: number | string, json: object = { rules }) =>
      own({ method: 'PUT', target: `/owner/policies/trading?allowance_version=${version}`, json })
    const rulesNow = async (): Promise<object[]> => {
      const { body } = await own({ target: '/owner/policies' })
      return body.tiers.find(({ id }: { id: string }) => id === 'trading').rules
    }
    const moved = [412, 'precondition_failed', expect.stringContaining('read it again, then edit the tier')]
    let version = 0

    beforeEach(async () => {
      version = (await put('trades', { tiers: trading })).body.version
      expect((await edit([])).status).toBe(200)
    })

    it('is stored within that version alone; of another it is 412, which says what to do', async () => {
      for (const other of [version - 1, version + 1]) {
        const reply = await editAt(other)
        expect([refusal(reply), reply.body.reason]).toEqual([moved, 'allowance_moved'])
      }
      expect(await rulesNow()).toEqual([])
      expect((await editAt(version)).status).toBe(200)
      expect(await rulesNow()).toEqual(rules)
    })

    it('is 412 also if the allowance names the tier no more', async () => {
      expect((await put('trades', { tiers: {} })).status).toBe(200)
      expect(refusal(await editAt(version))).toEqual(moved)
    })

    it('is refused if no rule names an allowance, and if that is no version', async () => {
      expect(refusal(await editAt(version, { rules: [] }))).toEqual([
        400,
        'invalid_request',
        expect.stringContaining('Leave out allowance_version'),
      ])
      for (const other of ['0', '1.5', 'last'])
        expect(answers(await editAt(other))).toEqual([400, 'invalid_request'])
      expect(refusal(await editAt(1, { rules: [AUTO, beyond('absent')] }))[2]).toContain('make it first')
    })

    it('opens nothing if the allowance is edited while that edit waits for its turn', async () => {
      const { db } = authority.database
      const alice = asOwner('alice')
      const read = (await readAllowance(db, alice, 'trades'))!
      const { editing } = await inTransaction(db, async tx => {
        await lockQueue(tx, alice)
        const waiting = editAt(read.version)
        await until(async () => (await waitingStatements()) > 0)
        const raised = { ...read, version: read.version + 1, hold_s: 600 }
        expect(await storeAllowance(tx, alice, raised)).toBe('stored')
        return { editing: waiting }
      })
      expect(refusal(await editing)).toEqual(moved)
      expect(await rulesNow()).toEqual([])
    })

    /** Statements that wait for a lock in this database. */
    async function waitingStatements(): Promise<number> {
      const { rows } = await sql<{ waiting: number }>`
        SELECT count(*)::int AS waiting FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'`.execute(authority.database.db)
      return rows[0]!.waiting
    }
  })

  it('warns of a resource that takes only what she signs', async () => {
    await authority.database.pool.query(
      "UPDATE resources SET approval = 'signed' WHERE owner = 'alice' AND resource_id = 'alice/trades'",
    )
    const { body } = await edit([AUTO, beyond('trades')])
    expect(body.warnings).toEqual([expect.stringContaining('`alice/trades` takes only what you sign')])
  })
})
