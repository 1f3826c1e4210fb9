/**
 * What an allowance costs, measured with the program as it is deployed, in fewer turns than the bench takes.
 * The bench holds the goals. A test that did so would be red on a busy machine, so this one holds what would
 * be wrong on any: a cost that is a multiple, or one that grows with what was used before.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { figuresOf } from '../../bench/figures.ts'
import { measureAllowances } from '../../bench/scenarios/allowances.ts'
import { measureAllowanceUses } from '../../bench/scenarios/allowance-uses.ts'

/** Of the best turn: how often what is compared with it, because whatever else runs only adds to one. */
const MOST = { agreement: 3, neighbour: 2, uses: 2 }
const tell = (): void => undefined
let directory = ''

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'usher-allowance-cost-'))
})
afterEach(() => rm(directory, { recursive: true, force: true }))

test('an agreement within an allowance takes at most three times as long as one without, and a neighbour at most twice', async () => {
  const { ratios, ...measured } = await measureAllowances(directory, { turns: 2, tell })
  const { agreement_p50_ms, agreements_per_second, neighbour_p50_ms } = measured
  for (const { without, with: within } of [agreement_p50_ms, agreements_per_second, neighbour_p50_ms])
    for (const turns of [without, within]) {
      expect(turns).toHaveLength(2)
      expect(Math.min(...turns)).toBeGreaterThan(0)
    }
  for (const rates of Object.values(measured.row_per_second)) expect(rates).toHaveLength(2)
  expect(Math.min(...ratios.agreement)).toBeLessThan(MOST.agreement)
  expect(Math.min(...ratios.neighbour)).toBeLessThan(MOST.neighbour)
  const figures = figuresOf({ rounds: new Map(), readyMs: [], allowances: ratios })
  expect(figures.allowance_agreement_over_without!.goal).toEqual({ kind: 'most', bound: 1.15 })
  expect(figures.allowance_neighbour_p50_ratio!.goal).toEqual({ kind: 'most', bound: 1.05 })
  expect(figures.busy_allowance_over_row!.spread.min).toBeGreaterThan(0)
  expect(figures.busy_allowance_over_granting!.spread.min).toBeGreaterThan(0)
})

test('an allowance that was used ten times as often takes at most twice as long to be used, and to be read', async () => {
  const { few, many, ratios } = await measureAllowanceUses(directory, { many: 100_000, turns: 2, tell })
  expect([few, many]).toEqual([10_000, 100_000])
  for (const turns of Object.values(ratios)) expect(turns).toHaveLength(2)
  expect(Math.min(...ratios.agreement)).toBeLessThan(MOST.uses)
  expect(Math.min(...ratios.list)).toBeLessThan(MOST.uses)
  const figures = figuresOf({ rounds: new Map(), readyMs: [], allowanceUses: ratios })
  expect(figures.allowance_agreement_10m_over_10k!.goal).toEqual({ kind: 'most', bound: 1.2 })
  expect(figures.allowance_list_10m_over_10k!.goal).toEqual({ kind: 'most', bound: 1.2 })
})
