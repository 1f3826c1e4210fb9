/** The time that a check may take: contract, "Authorized call" (a grant is not spent for a late answer). */
import { describe, expect, onTestFinished, test } from 'vitest'
import type { Outcome } from '../../src/enforcement/call.ts'
import { checkDeadline } from '../../src/enforcement/deadline.ts'
import type { CheckDoor } from '../../src/enforcement/doors/check-door.ts'
import { startCheckServer } from '../../src/enforcement/doors/grpc/check-server.ts'
import { createHealth } from '../../src/enforcement/telemetry/health.ts'
import { checkBytes, connect } from '../support/check-client.ts'

const HOUR_MS = 3_600_000
const ALLOW: Outcome = { kind: 'allow', headers: {}, remove: [], metadata: {} }

/** Asks a door with this clock about a call whose proxy waits for a minute. */
async function askedAt(clock: () => number, decide: CheckDoor['decide']): Promise<unknown> {
  const server = await startCheckServer({
    address: '127.0.0.1:0',
    health: createHealth(),
    bodyBytesMax: 1_024,
    deadlineMarginMs: 200,
    clock,
    decide,
  })
  const client = connect(server.address)
  onTestFinished(async () => {
    client.close()
    await server.stop(100)
  })
  const reply = await client.check(checkBytes(), { deadline: Date.now() + 60_000 })
  return reply.denied_response?.status?.code ?? 'allowed'
}

describe('The deadline of a check', () => {
  test('is judged by one clock, of which the call knows whatever the door knows', async () => {
    const left: number[] = []
    const answer = await askedAt(
      () => Date.now() - HOUR_MS,
      async ({ deadline }) => {
        left.push(deadline!.remainingMs(), deadline!.answerMs())
        return ALLOW
      },
    )
    expect(answer).toBe('allowed')
    expect(left.map(ms => Math.round(ms / HOUR_MS))).toEqual([1, 1])
  })

  test('has passed if it has by that clock: the call is refused as an outage, and is not judged', async () => {
    let judged = 0
    expect(
      await askedAt(
        () => Date.now() + HOUR_MS,
        async () => (judged++, ALLOW),
      ),
    ).toBe(503)
    expect(judged).toBe(0)
  })

  test('ends every wait a margin before the caller leaves, and the answer half a margin before', () => {
    let now = 1_000
    const deadline = checkDeadline(3_000, { clock: () => now, marginMs: 400 })
    expect([deadline.remainingMs(), deadline.answerMs()]).toEqual([1_600, 1_800])
    now = 2_700
    expect([deadline.remainingMs(), deadline.answerMs()]).toEqual([-100, 100])
  })

  test('counts what was spent waiting for the authority', () => {
    const deadline = checkDeadline(3_000, { clock: () => 0, marginMs: 400 })
    deadline.waited(20)
    deadline.waited(30)
    expect(deadline.waitedMs).toBe(50)
  })
})
