/**
 * Owns a load process: forked by the runner, it opens one scenario, makes its corpus when told, and calls in a closed loop: each lane
 * makes its next call when the last one was answered. The first wrong answer fails the round.
 */
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
      return closedLoop(load!, order.seconds * 1_000)
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
  return { calls: latencies.length, elapsedMs, latencies: Float64Array.from(latencies) }
}
