/**
 * A charter that lets only the owner's own agents act for her: contract, "Policy vocabulary and tiers"
 * (delegation), "The organization's authority". The organization here allows whatever it is asked, so that
 * her own authority's word is what counts.
 */
import { sql } from 'kysely'
import { afterEach, describe, expect, it } from 'vitest'
import { startDoorStand } from '../support/door-stand.ts'
import { newKey, startIssuer } from '../support/operators.ts'
import { startedOnce } from '../support/started.ts'
import { decide, denyAll, testAgent, type TestAgent } from '../support/test-agent.ts'

const ALLOWED = { effect: 'allow', because: [], governed: true, charter_version: 1, clearance: null }
const REFUSED = [403, 'request_denied', 'not_delegated']

const stand = startedOnce(async () => {
  const issuer = await startIssuer()
  const started = await startDoorStand({
    charter: {
      roles: { staff: { name: 'Staff', grants: ['alice/portfolio'], delegation: 'first-party-only' } },
    },
    authority: { environment: { UMA_AS_AGENT_ISSUERS: issuer.iss } },
  })
  await started.joined()
  started.door.instead('/decision', () => ({ status: 200, body: ALLOWED }))
  const close = async (): Promise<void> => {
    await Promise.all([started.close(), issuer.close()])
  }
  return { ...started, subjects: issuer, close }
})

afterEach(() => denyAll(stand.authority))

let subjects = 0
/** An agent that she marked as her own, and another key of the same subject. */
const ownAndTwin = async (): Promise<[TestAgent, TestAgent]> => {
  const sub = `agent-${subjects++}`
  const made = () => {
    const key = newKey()
    return testAgent(stand.authority, { key, identified: stand.subjects.identify(key, sub) })
  }
  const own = made()
  await own.granted('statement_read')
  await mark(own, true)
  return [own, made()]
}
const mark = (agent: TestAgent, isOwn: boolean) =>
  sql`UPDATE connections SET first_party = ${isOwn} WHERE handle = ${agent.handle}`.execute(
    stand.authority.database.db,
  )
const answer = ({ status, body }: Awaited<ReturnType<TestAgent['ask']>>) => [status, body.error, body.reason]

describe('Where only the owner’s own agents may use what is shared', () => {
  it('one is granted it, another is not, and another key of the same subject is another', async () => {
    const [own, twin] = await ownAndTwin()
    expect(answer(await testAgent(stand.authority).ask('portfolio_read'))).toEqual(REFUSED)
    expect(answer(await twin.ask('portfolio_read'))).toEqual(REFUSED)
    expect((await own.granted('portfolio_read')).rpt).toBeDefined()
  })

  it('an approval is not collected once the agent is the owner’s own no more', async () => {
    const target = '/owner/policies/reading'
    await stand.authority.call(stand.alice, { method: 'PUT', target, json: { ask_me: true } })
    const [own] = await ownAndTwin()
    const asked = await own.ask('portfolio_read', {
      operation: { tool: 'portfolio_read', params: {} },
    })
    expect(asked.body.error).toBe('request_submitted')
    await decide(stand.authority, own.handle, 'approved')
    await mark(own, false)
    expect(answer(await own.present(asked.body.ticket))).toEqual(REFUSED)
  })
})
