/** Owns what tests say about refusals: that a call ended in one, and in which. */
import { expect } from 'vitest'
import { Refusal, REFUSALS, type RefusalCode } from '../../src/wire/refusal.ts'

/** Whether a word received from outside is one of ours. */
export function isRefusalCode(word: unknown): word is RefusalCode {
  return typeof word === 'string' && Object.hasOwn(REFUSALS, word)
}

/** The refusal that `run` throws; fails when it returns, or throws anything else. */
export function refusalOf(run: () => unknown): Refusal {
  let value: unknown
  try {
    value = run()
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    expect(error.code in REFUSALS).toBe(true)
    return error
  }
  return expect.fail(`expected a refusal, got ${JSON.stringify(value) ?? String(value)}`)
}

/**
 * The refusal that `run` throws, if it throws one; anything else it throws fails the test. For properties.
 */
export function refusalOrValue<T>(run: () => T): { refusal: Refusal } | { value: T } {
  try {
    return { value: run() }
  } catch (error) {
    if (error instanceof Refusal) return { refusal: error }
    throw error
  }
}
