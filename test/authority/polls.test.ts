/**
 * Polls of what waits for the owner: contract, "Permission ticket" (awaiting-owner), with the interval of its
 * answers.
 */
import { expect, it } from 'vitest'
import { authorityStand } from '../support/stands.ts'
import { testAgent } from '../support/test-agent.ts'

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
