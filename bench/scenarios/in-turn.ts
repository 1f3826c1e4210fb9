/** Owns the comparison of calls one by one: by turns, so that what disturbs one disturbs the others. */
import { spreadOf } from '../figures.ts'

/**
 * The median of what each of these calls answers, such as its milliseconds, over so many rounds of all.
 * Every second round goes the other way, so that each comes first as often.
 */
export async function inTurn(rounds: number, calls: readonly (() => Promise<number>)[]): Promise<number[]> {
  const seen = calls.map((call): { call: () => Promise<number>; times: number[] } => ({ call, times: [] }))
  for (let n = 0; n < rounds; n++)
    for (const { call, times } of n % 2 === 0 ? seen : seen.toReversed()) times.push(await call())
  return seen.map(({ times }) => spreadOf(times)!.median)
}
