/**
 * Owns calls at a fixed rate, which are begun when they are due, whether or not earlier ones were answered.
 */
import { setTimeout as delay } from 'node:timers/promises'

/**
 * Begins so many calls a second, whether or not earlier ones were answered; each is told when it was due.
 * Resolves when all have ended.
 */
export async function paced(
  perSecond: number,
  seconds: number,
  call: (n: number, dueAt: number) => Promise<void>,
): Promise<void> {
  const calls: Promise<void>[] = []
  const begunAt = performance.now()
  for (let n = 0; n < perSecond * seconds; n++) {
    const dueAt = begunAt + (n * 1_000) / perSecond
    await delay(Math.max(0, dueAt - performance.now()))
    calls.push(call(n, dueAt))
  }
  await Promise.all(calls)
}
