/**
 * What waits for her and expires unanswered is told, once. Contract, "Permission ticket" (awaiting-owner:
 * ticket expires), "Events", "Limits".
 */
import { pino } from 'pino'
import { describe, expect, it } from 'vitest'
import { withdrawExpired } from '../../src/authority/negotiation/withdrawals.ts'
import { dueNow } from '../../src/storage/authority/due.ts'
import { readFamily, presentTicket } from '../../src/storage/authority/negotiations/tickets.ts'
import { sweepDue } from '../../src/authority/sweeper.ts'
import { asOwner } from '../../src/wire/identifiers.ts'
import { watchEvents } from '../../src/owner/index.ts'
import * as seed from '../support/seed.ts'
import { authorityStand } from '../support/stands.ts'
import { decide, pendingAt, testAgent } from '../support/test-agent.ts'
import { until } from '../support/until.ts'

const authority = authorityStand({ environment: { UMA_AS_SWEEP_SECONDS: '1' } })
const alice = asOwner('alice')
const db = () => authority.database.db
const expire = (family: string) =>
  authority.database.pool.query(
    "UPDATE families SET ticket_expires_at = now() - interval '1 second' WHERE owner = 'alice' AND family = $1",
    [family],
  )
const told = async (family: string) => {
  const { body } = await authority.call(authority.alice, {
    target: '/owner/ledger?kind=withdrawn&limit=1000',
  })
  return (body.entries as { family: string; reason: string; handle: string }[]).filter(
    one => one.family === family,
  )
}
const sweep = () => {
  const listening = { ms: () => 0, broken: () => undefined }
  return sweepDue(
    { database: authority.database, log: pino({ level: 'silent' }), listening },
    60,
    () => false,
  )
}

describe('An item that nobody answers', () => {
  it('is told on her stream and in her ledger once its ticket has expired, and the agent gets invalid_grant', async () => {
    const agent = testAgent(authority)
    const seen: { event: string; data: unknown }[] = []
    const gone = new AbortController()
    const opened = Promise.withResolvers<void>()
    const watching = (async () => {
      const onState = (state: { kind: string }) => (state.kind === 'open' ? opened.resolve() : undefined)
      for await (const event of watchEvents(authority.alice.client.access, { signal: gone.signal, onState }))
        seen.push(event)
    })()
    await opened.promise
    const { body } = await agent.ask()
    const { family } = (await pendingAt(authority)).find(({ handle }) => handle === agent.handle)!
    await expire(family)
    await dueNow(db(), alice, 'sweep')
    await until(() => seen.some(({ event }) => event === 'withdrawn'))
    expect(seen.find(({ event }) => event === 'withdrawn')!.data).toEqual({ family, because: 'expired' })
    expect(await told(family)).toEqual([expect.objectContaining({ reason: 'expired', handle: agent.handle })])
    expect((await agent.present(body.ticket)).body.error).toBe('invalid_grant')
    gone.abort()
    await watching
  })

  it('is told once, however many replicas sweep', async () => {
    const agent = testAgent(authority)
    await agent.ask()
    const { family } = (await pendingAt(authority)).find(({ handle }) => handle === agent.handle)!
    await expire(family)
    await seed.callers(16, () => withdrawExpired(db(), alice, 100))
    expect(await told(family)).toHaveLength(1)
  })

  it('is not told where she has decided it: that was told already', async () => {
    const agent = testAgent(authority)
    await agent.ask()
    const { family } = (await pendingAt(authority)).find(({ handle }) => handle === agent.handle)!
    await decide(authority, agent.handle, 'approved')
    await expire(family)
    await dueNow(db(), alice, 'sweep')
    await sweep()
    expect(await told(family)).toEqual([])
  })
})

it('a poll that is taken goes on waiting, and one that comes too late is refused, however close both are to the expiry', async () => {
  const owner = await seed.seedOwner(db())
  const outcomes = new Set<string>()
  for (let round = 0; round < 40; round++) {
    const handle = seed.name('jkt:')
    await seed.seedConnection(db(), owner, handle)
    const { family, ticketHash: hash } = await seed.seedWaiting(db(), owner, handle, { kind: 'operation' })
    await authority.database.pool.query(
      "UPDATE families SET ticket_expires_at = clock_timestamp() + $3 * interval '1 ms' WHERE owner = $1 AND family = $2",
      [owner, family, round % 8],
    )
    const poll = presentTicket(db(), {
      owner,
      hash,
      nextHash: seed.bytes(),
      awaitingSeconds: 60,
      pollSeconds: 0,
    })
    const sweeps = Array.from({ length: 6 }, () => withdrawExpired(db(), owner, 100))
    const polled = await poll
    await Promise.all(sweeps)
    const state = (await readFamily(db(), owner, family))?.state
    if (polled !== undefined) expect(state).toBe('awaiting_owner')
    outcomes.add(polled === undefined ? 'late' : 'taken')
    await withdrawExpired(db(), owner, 100)
  }
  expect(outcomes).toContain('taken')
})
