/** Owns waiting in tests: for a condition, with a deadline, never for a time. */
import { expect } from 'vitest'
import { PATIENCE_MS } from './patience.ts'

/** Between two looks; whoever has waited long is not in a hurry, and leaves the processor to others. */
const PAUSE_MS = { first: 2, most: 50 }

/** Resolves once `condition` holds; rejects after our patience, or `withinMs`. */
export async function until(
  condition: () => boolean | Promise<boolean>,
  withinMs = PATIENCE_MS,
): Promise<void> {
  const deadline = Date.now() + withinMs
  let pause = PAUSE_MS.first
  let holds = await condition()
  while (!holds && Date.now() <= deadline) {
    await new Promise(resolve => setTimeout(resolve, pause))
    pause = Math.min(pause * 1.2, PAUSE_MS.most)
    holds = await condition()
  }
  expect(holds, `the condition did not come true within ${withinMs} ms: ${condition.toString()}`).toBe(true)
}
