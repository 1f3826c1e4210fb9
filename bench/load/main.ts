/**
 * Owns a load process: forked by the runner, it opens one scenario, makes its corpus when told, and calls. In
 * a closed loop each lane makes its next call when the last one was answered, which finds the ceiling; in an
 * open loop calls come at random at a mean rate, as callers who do not know of each other do, which is what
 * latencies are measured under. The first wrong answer fails the round.
 */
import { setTimeout } from 'node:timers/promises'
import { scenarioNamed } from '../scenarios/index.ts'
import type { Load, LoadOrder, LoadReply, RoundPart, Share } from '../world.ts'

let load: Load | undefined
let share: Share = { inFlight: 1, connections: 1 }

process.on('message', (order: LoadOrder) => {
  obey(order).then(
    done => reply({ done }),
    (error: unknown) =>
      reply({ failed: error instanceof Error ? (error.stack ?? error.message) : String(error) }),
  )
})
// The runner has gone: so goes its load.
process.once('disconnect', () => process.exit(0))

function reply(message: LoadReply): void {
  process.send?.(message)
}

async function obey(order: LoadOrder): Promise<RoundPart | undefined> {
  switch (order.order) {
    case 'open':
      share = order.share
      load = await scenarioNamed(order.scenario).open(order.world, share)
      return undefined
    case 'prepare':
      await load!.prepare(order.calls)
      return undefined
    case 'run':
      return order.callsPerSecond === undefined
        ? closedLoop(load!, order.seconds * 1_000)
        : openLoop(load!, order.seconds * 1_000, order.callsPerSecond)
  }
}

async function closedLoop(load: Load, durationMs: number): Promise<RoundPart> {
  const latencies: number[] = []
  const startedAt = performance.now()
  const lane = async (): Promise<void> => {
    for (let at = startedAt; at < startedAt + durationMs;) {
      const call = load.next()
      if (call === undefined) return
      await call
      const now = performance.now()
      latencies.push(now - at)
      at = now
    }
  }
  await Promise.all(Array.from({ length: share.inFlight }, lane))
  const elapsedMs = performance.now() - startedAt
  return { calls: latencies.length, elapsedMs, latencies: Float64Array.from(latencies), skipped: 0 }
}

/**
 * More unanswered calls than this and the rate is past what can be sustained: further ones are skipped, and
 * counted.
 */
const UNANSWERED_MAX = 500

async function openLoop(load: Load, durationMs: number, callsPerSecond: number): Promise<RoundPart> {
  const latencies: number[] = []
  const unanswered = new Set<Promise<void>>()
  let skipped = 0
  const failures: unknown[] = []
  const begin = (dueAt: number): void => {
    const call = unanswered.size < UNANSWERED_MAX ? load.next() : undefined
    if (call === undefined) return void skipped++
    const answered = call
      .then(() => void latencies.push(performance.now() - dueAt))
      .catch((error: unknown) => failures.push(error))
      .then(() => void unanswered.delete(answered))
    unanswered.add(answered)
  }
  const startedAt = performance.now()
  for (let dueAt = startedAt; dueAt < startedAt + durationMs && failures.length === 0;) {
    if (dueAt > performance.now()) await setTimeout(1)
    for (; dueAt <= performance.now() && dueAt < startedAt + durationMs; dueAt += gapMs(callsPerSecond))
      begin(dueAt)
  }
  await Promise.all(unanswered)
  if (failures.length > 0) throw failures[0]
  const elapsedMs = performance.now() - startedAt
  return { calls: latencies.length, elapsedMs, latencies: Float64Array.from(latencies), skipped }
}

/** Between arrivals of a Poisson process. */
function gapMs(callsPerSecond: number): number {
  return (-Math.log(1 - Math.random()) * 1_000) / callsPerSecond
}
