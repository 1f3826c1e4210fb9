/**
 * Owns which part of a long table a run tries. `make test` sets TEST_LAYER=landing and passes over each
 * `*.full.test.ts`; a table in any other file stays whole but for what it gives here. `make test-full`, and a
 * file that is run by itself, try all. Which layer holds what stands in CONTRIBUTING.md.
 */

/** Whether this run is `make test`. */
export const isLanding = process.env['TEST_LAYER'] === 'landing'

/** Those rows that `make test` tries, or all. At least one row stays. */
export function rowsOfLayer<T>(all: readonly T[], isQuick: (row: T) => boolean): readonly T[] {
  const quick = all.filter(isQuick)
  if (quick.length === 0) throw new Error('no row of this table would be tried by make test')
  return isLanding ? quick : all
}

/** How many inputs a property that takes seconds tries: `make test` a quarter of them, from the same seed. */
export function inputsOfLayer(all: number): number {
  return isLanding ? Math.ceil(all / 4) : all
}

/** How often a race is run: as RACE_ROUNDS says (`make test`: 15), else `otherwise`. */
export function raceRounds(otherwise: number): number {
  return Number(process.env['RACE_ROUNDS'] ?? otherwise)
}
