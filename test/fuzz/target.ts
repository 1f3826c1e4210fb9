/**
 * Owns how a fuzz target is run: first every input that once was a find, then new ones from a seed.
 * `FUZZ_SEED` replays a run, `FUZZ_RUNS` (20,000) and `FUZZ_SECONDS` (per target, in place of the number) say
 * how long. Inputs are plain data, so a find can be kept.
 */
import * as fc from 'fast-check'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

export interface FuzzTarget<T> {
  /** Names its corpus too. */
  name: string
  inputs: fc.Arbitrary<T>
  /** Throws if something does not hold; answers how it ended, for the count. */
  check: (input: T) => Promise<string> | string
  /**
   * The least share of inputs that must end in this way, far below the usual share. With fewer, the inputs no
   * longer reach their target. Deviations of a run of thousands stay well above.
   */
  shares: Record<string, number>
}

interface Find {
  why: string
  input: unknown
}

const RUNS = Number(process.env['FUZZ_RUNS'] ?? 20_000)
const SECONDS = Number(process.env['FUZZ_SECONDS'] ?? 0)
/**
 * The same at every run of the tests, which must not turn red by luck; another at every `make fuzz`, which is
 * there to find.
 */
const SEED = Number(process.env['FUZZ_SEED'] ?? (SECONDS > 0 ? (Math.random() * 2 ** 31) | 0 : 1))

/** Declares the tests of a target. */
export function fuzz<T>({ name, inputs, check, shares }: FuzzTarget<T>): void {
  const finds = corpus(name)
  if (finds.length > 0) {
    test.each(finds.map(find => [find.why, find.input as T] as const))(
      `${name}, once a find: %s`,
      async (_why, input) => {
        expect(await check(input)).toBeTypeOf('string')
      },
    )
  }
  test(
    `${name}, whatever arrives`,
    { timeout: SECONDS > 0 ? SECONDS * 1_000 + 60_000 : 180_000 },
    async () => {
      const seen: Record<string, number> = {}
      let ran = 0
      const property = fc.asyncProperty(inputs, async input => {
        const ending = await check(input)
        seen[ending] = (seen[ending] ?? 0) + 1
        ran++
      })
      const limits =
        SECONDS > 0 ? { interruptAfterTimeLimit: SECONDS * 1_000, numRuns: 2 ** 31 } : { numRuns: RUNS }
      await fc.assert(property, { ...limits, seed: SEED, reporter: report(name) })
      process.stdout.write(`fuzz ${name}: ${ran} inputs, seed ${SEED}, ${JSON.stringify(seen)}\n`)
      for (const [ending, share] of Object.entries(shares))
        expect({ ending, reached: (seen[ending] ?? 0) >= ran * share }).toEqual({ ending, reached: true })
    },
  )
}

/** Says how to replay the failure, and the line that keeps it. */
function report<T>(name: string) {
  return (run: fc.RunDetails<[T]>): void => {
    if (!run.failed) return
    const [input] = run.counterexample ?? []
    const line = JSON.stringify({ why: 'say what it was', input })
    throw new Error(
      `${name} failed after ${run.numRuns} inputs. Replay: FUZZ_SEED=${run.seed} vitest run test/fuzz. ` +
        `Keep in test/fuzz/corpus/${name}.json: ${line}`,
      { cause: run.errorInstance },
    )
  }
}

function corpus(name: string): Find[] {
  const file = join(import.meta.dirname, 'corpus', `${name}.json`)
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as Find[]) : []
}
