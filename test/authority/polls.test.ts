/**
 * Polls of what waits for the owner: contract, "Permission ticket" (awaiting-owner), with the interval of its
 * answers.
 */
import { sql } from 'kysely'
import { expect, it } from 'vitest'
import { inTransaction } from '../../src/storage/core/database.ts'
import { endFamily } from '../../src/storage/authority/negotiations/tickets.ts'
import { asOwner } from '../../src/wire/identifiers.ts'
import { lockWaiters } from '../support/lock-waiters.ts'
import { authorityStand } from '../support/stands.ts'
import { decide, testAgent } from '../support/test-agent.ts'
import { until } from '../support/until.ts'

const INTERVAL_MS = 1_000
const authority = authorityStand({ environment: { UMA_AS_POLL_SECONDS: String(INTERVAL_MS / 1_000) } })

it('the interval counts from the previous answer: a poll as soon as one was answered is held for the whole of it', async () => {
  const agent = testAgent(authority)
  const held = await agent.ask('portfolio_read')
  expect(held.body).toMatchObject({ error: 'request_submitted', interval: INTERVAL_MS / 1_000 })
  const { ticket } = held.body
  const began = performance.now()
  const answers = [await agent.present(ticket)]
  for (let i = 1; i < 4; i += 1) answers.push(await agent.present(answers.at(-1)!.body.ticket))
  expect(answers.map(({ body }) => body.error)).toEqual(answers.map(() => 'request_submitted'))
  // From the third poll's side: of four answers the last three stand an interval after the one before.
  expect(performance.now() - began).toBeGreaterThan((answers.length - 0.5) * INTERVAL_MS)
})

it.each([
  ['ended', [400, 'invalid_grant']],
  ['granted', [400, 'invalid_grant']],
  ['denied', [403, 'request_denied']],
] as const)(
  'an approval that is %s while a poll collects it is told as what happened to it',
  async (state, answer) => {
    const agent = testAgent(authority)
    const { database } = authority
    const alice = asOwner('alice')
    const held = await agent.ask('portfolio_read')
    const { family } = (await decide(authority, agent.handle, 'approved')).body
    const poll = await inTransaction(database.db, async tx => {
      // The poll has spent its ticket, and reads what its approval rests on.
      await sql`LOCK TABLE tier_resources IN ACCESS EXCLUSIVE MODE`.execute(tx)
      const polling = agent.present(held.body.ticket)
      await until(async () => (await lockWaiters(database)) > 0)
      await endFamily(database.db, alice, family, state)
      if (state === 'denied')
        await sql`UPDATE families SET decision = 'denied', decided_by = 'owner' WHERE family = ${family}`.execute(
          database.db,
        )
      return { polling }
    })
    const { status, body } = await poll.polling
    expect([status, body.error]).toEqual(answer)
  },
)
