/**
 * `usher owner allowance` at a real authority: contract, "Policy vocabulary and tiers", "Owner API". What she
 * adds opens what she was told, and no more.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { stringify } from 'yaml'
import { addAllowance } from '../../src/owner/allowances/allowance-add.ts'
import { editAllowance, endAllowance } from '../../src/owner/allowances/allowance-edit.ts'
import type { OwnerSession } from '../../src/owner/session.ts'
import { capturedTerminal } from '../support/captured-terminal.ts'
import { authorityStand } from '../support/stands.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { denyAll, testAgent, type TestAgent } from '../support/test-agent.ts'

const authority = authorityStand()
const directory = temporaryFolder('allowance')

const YES = { yes: true }
const AUTO = { when: ['standing.approved_at_tier'], then: 'auto' }
const file = (id: string, members: object = {}): string => {
  const trading = { tools: ['place_trade'], amounts: { qty: { pointer: '/qty' } } }
  const amounts = [{ name: 'qty', each_max: '5' }]
  const windows = [{ of: 'calls', per: 'all', max: '3' }]
  const path = join(directory, `${id}.yaml`)
  writeFileSync(path, stringify({ id, amounts, windows, tiers: { trading }, ...members }))
  return path
}
/** Runs a command of hers; what it printed, and what it said before. */
async function hers(
  run: (session: OwnerSession) => Promise<void>,
): Promise<{ printed: string; said: string }> {
  const terminal = capturedTerminal()
  await run({ client: authority.alice.client, terminal, json: false })
  return { printed: terminal.printed, said: terminal.said }
}
const trade = async (agent: TestAgent, qty: number): Promise<number> =>
  (await agent.ask('place_trade', { operation: { tool: 'place_trade', params: { qty } } })).status
const tradingTier = async () => (await authority.alice.client.policies()).find(({ id }) => id === 'trading')!

afterEach(async () => {
  await denyAll(authority)
  const json = { rules: [] }
  await authority.call(authority.alice, { method: 'PUT', target: '/owner/policies/trading', json })
})

describe('An allowance that she adds from the command line', () => {
  it('opens its tier to those whom it named, as far as it goes; its end opens nothing', async () => {
    const agent = testAgent(authority)
    await agent.granted('place_trade', { operation: { tool: 'place_trade', params: { qty: 1 } } })
    expect(await trade(agent, 2)).toBe(403)
    const { said, printed } = await hers(session => addAllowance(session, file('trades'), YES))
    expect(said).toContain(`Agent ${agent.handle.slice(0, 12)}`)
    expect(printed).toContain('Saved: the allowance trades.\ntrading goes by it: alice/trading/v')
    expect((await tradingTier()).rules).toEqual([AUTO, { when: ['operation.beyond:trades'], then: 'ask' }])
    expect(await trade(agent, 2)).toBe(200)
    expect(await trade(agent, 5.5)).toBe(403)
    await hers(session => endAllowance(session, 'trades', YES))
    expect(await trade(agent, 3)).toBe(403)
  })

  it('is there once, however often she adds it', async () => {
    const path = file('twice')
    await hers(session => addAllowance(session, path, YES))
    const { terms } = await tradingTier()
    const { printed } = await hers(session => addAllowance(session, path, YES))
    expect(printed).toBe('The allowance twice was there already.\nEach of its tiers goes by it already.\n')
    expect((await tradingTier()).terms.template_id).toBe(terms.template_id)
  })

  it('opens nothing if another device raises it while she reads what it opens', async () => {
    const path = file('raised')
    await hers(session => addAllowance(session, path, YES))
    const json = { rules: [] }
    await authority.call(authority.alice, { method: 'PUT', target: '/owner/policies/trading', json })
    const raise = { ...YES, max: 'all:calls=900' }
    const terminal = Object.assign(capturedTerminal(), {
      confirm: async () => {
        await hers(session => editAllowance(session, 'raised', undefined, raise))
        return true
      },
    })
    const session = { client: authority.alice.client, terminal, json: false }
    const refused = { code: 'precondition_failed', status: 412, reason: 'allowance_moved' }
    await expect(addAllowance(session, path, {})).rejects.toMatchObject(refused)
    expect(terminal.said).toContain('The allowance was edited after you read it.')
    expect((await tradingTier()).rules).toEqual([])
  })

  it('has another limit after an edit, and refuses what is beyond if its file says so', async () => {
    const agent = testAgent(authority)
    await agent.granted('place_trade', { operation: { tool: 'place_trade', params: { qty: 1 } } })
    const at = { tools: ['place_trade'], amounts: { qty: { pointer: '/qty' } }, beyond: 'refuse' }
    await hers(session => addAllowance(session, file('few', { tiers: { trading: at } }), YES))
    const edited = await hers(session =>
      editAllowance(session, 'few', undefined, { ...YES, max: 'all:calls=1' }),
    )
    expect(edited.said).toContain('No longer:\n- calls: at most 3 in all\n')
    expect(await trade(agent, 2)).toBe(200)
    const beyond = await agent.ask('place_trade', {
      operation: { tool: 'place_trade', params: { qty: 3 } },
    })
    expect([beyond.status, beyond.body.error]).toEqual([403, 'request_denied'])
  })
})
