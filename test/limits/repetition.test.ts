/** contract, "Limits" (lifetimes): work in the background, after each pause or when it is woken. */
import { onTestFinished, describe, expect, it } from 'vitest'
import { startRepeating } from '../../src/limits/repetition.ts'
import { until } from '../support/until.ts'

/** Work that ends when it is let go; its pauses are longer than any test. */
function started() {
  const runs: (() => void)[] = []
  const errors: unknown[] = []
  let fails = false
  const repetition = startRepeating(
    () =>
      new Promise<void>((resolve, reject) => {
        runs.push(() => (fails ? reject(new Error('broken off')) : resolve()))
      }),
    { pauseSeconds: 3_600, onError: error => errors.push(error) },
  )
  onTestFinished(async () => {
    for (const end of runs) end()
    await repetition.stop()
  })
  return {
    wake: () => repetition.wake(),
    stop: () => repetition.stop(),
    runs,
    errors,
    failing: () => void (fails = true),
  }
}

describe('Work that is repeated', () => {
  it('begins when it is woken, and once more right after if that was while it ran', async () => {
    const { wake, runs } = started()
    expect(runs).toHaveLength(0)
    wake()
    expect(runs).toHaveLength(1)
    wake()
    wake()
    expect(runs).toHaveLength(1)
    runs[0]!()
    await until(() => runs.length === 2)
    runs[1]!()
    await new Promise(resolve => setImmediate(resolve))
    expect(runs).toHaveLength(2)
  })

  it('that fails is told, and can be woken again', async () => {
    const { wake, runs, errors, failing } = started()
    wake()
    failing()
    runs[0]!()
    await until(() => errors.length === 1)
    wake()
    await until(() => runs.length === 2)
  })

  it('does not begin once it was stopped, and stopping waits for what runs', async () => {
    const { wake, stop, runs } = started()
    wake()
    let hasStopped = false
    const stopping = stop().then(() => (hasStopped = true))
    wake()
    await new Promise(resolve => setImmediate(resolve))
    expect([runs.length, hasStopped]).toEqual([1, false])
    runs[0]!()
    await stopping
    expect(runs).toHaveLength(1)
  })
})
