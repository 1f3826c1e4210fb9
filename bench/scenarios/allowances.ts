/**
 * Owns what allowances cost (docs/allowances.md), at one authority and in turns: an agreement whose grant one
 * of them bounds beside one at the same kind of tier without; many agents who take of one at the same time,
 * beside what the row of one passes (allowance-row.ts); and what bob notices of a busy one, beside the same
 * load without one. docs/performance.md says how to read it. By itself:
 * `node bench/scenarios/allowances.ts`.
 */
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { generatePrivateJwk, importPrivateJwk } from '../../src/wire/signatures/keys.ts'
import { spreadOf } from '../figures.ts'
import { analyze, startOwnSystem } from '../system.ts'
import {
  openSpenders,
  SIDES,
  type BatchSpent,
  type BySide,
  type Side,
  type Spender,
} from './allowance-owners.ts'
import { openRow, type AllowanceRow, type RowRates } from './allowance-row.ts'
import { measureAllowanceUses, renderAllowanceUses } from './allowance-uses.ts'
import { openBob, type Bob } from './bob.ts'
import { runByItself } from './by-itself.ts'
import { inTurn } from './in-turn.ts'
import { paced } from './paced.ts'

const TURNS = 7
/** Agreements of each side in a turn, and before the first. */
const AGREEMENTS = { counted: 120, warmUp: 250 }
/**
 * Of the load beside bob's calls, and how long one phase of it lasts: two in each turn. It is far below what
 * the authority can do, so that the waiting for her is measured, not the waiting for the CPU. With phases
 * half as long, medians of whole runs differed by 0.2.
 */
const LOAD_PER_SECOND = 40
const LOAD_SECONDS = 8
/** More than bob can have calls unanswered. */
const BOB_CONNECTIONS = 64

export interface AllowanceCost {
  /** All turn by turn: medians of one agreement, in milliseconds. */
  agreement_p50_ms: BySide<number[]>
  /** Of many at once, and how busy they keep the processors; and what the row of the allowance passes. */
  agreements_per_second: BySide<number[]>
  processors_busy: BySide<number[]>
  row_per_second: Record<keyof RowRates, number[]>
  /** Of bob's calls, in milliseconds. */
  neighbour_p50_ms: BySide<number[]>
  ratios: Record<'agreement' | 'overRow' | 'overGranting' | 'overWithout' | 'neighbour', number[]>
}

/** Measures on a system of its own. Takes about four minutes with as many turns as it has by default. */
export async function measureAllowances(
  directory: string,
  { turns = TURNS, tell }: { turns?: number; tell: (line: string) => void },
): Promise<AllowanceCost> {
  tell('allowances: starting their system')
  const system = await startOwnSystem(join(directory, 'allowances'))
  const stops: (() => Promise<void>)[] = [() => system.stop()]
  try {
    const spenders = await openSpenders(system)
    const agent = importPrivateJwk(generatePrivateJwk())
    // Two phases in each turn, and in the one that warms up.
    const seconds = 2 * LOAD_SECONDS * (turns + 1)
    const bob = await openBob(system, { agent, seconds, connections: BOB_CONNECTIONS })
    const row = await openRow(system)
    stops.push(...[...Object.values(spenders), bob, row].map(one => () => one.close()))
    // Cold code, empty pools, and plans that were made for empty tables are no cost of an allowance.
    for (const side of SIDES) await spenders[side].spendBatch()
    await analyze(system.database.url)
    await inTurn(AGREEMENTS.warmUp, agreementsOf(spenders))
    await takeTurn({ spenders, bob, row }, 'without')
    const seen: Turn[] = []
    for (let turn = 1; turn <= turns; turn++) {
      seen.push(await takeTurn({ spenders, bob, row }, SIDES[turn % SIDES.length]!))
      tell(`allowances: turn ${turn} of ${turns}`)
    }
    return costOf(seen)
  } finally {
    for (const stop of stops.toReversed()) await stop()
  }
}

/** What one turn saw. */
interface Turn {
  agreement_p50_ms: BySide<number>
  batch: BySide<BatchSpent>
  row: RowRates
  neighbour_p50_ms: BySide<number>
}

async function takeTurn(
  { spenders, bob, row }: { spenders: BySide<Spender>; bob: Bob; row: AllowanceRow },
  first: Side,
): Promise<Turn> {
  const [without, withIt] = await inTurn(AGREEMENTS.counted, agreementsOf(spenders))
  const order = first === 'with' ? SIDES.toReversed() : SIDES
  const batch: Partial<BySide<BatchSpent>> = {}
  for (const side of order) batch[side] = await spenders[side].spendBatch()
  const waits: BySide<number> = { without: 0, with: 0 }
  for (const side of order) waits[side] = await neighbourMs(bob, spenders[side])
  return {
    agreement_p50_ms: { without: without!, with: withIt! },
    batch: batch as BySide<BatchSpent>,
    row: await row.rates(),
    neighbour_p50_ms: waits,
  }
}

const agreementsOf = (spenders: BySide<Spender>): (() => Promise<number>)[] =>
  SIDES.map(side => () => spenders[side].spendOne())

/** The median that bob waits while agents of another owner get and spend grants at a fixed rate. */
async function neighbourMs(bob: Bob, spender: Spender): Promise<number> {
  const faults: unknown[] = []
  const [{ p50_ms, errors }] = await Promise.all([
    bob.call(LOAD_SECONDS),
    paced(LOAD_PER_SECOND, LOAD_SECONDS, async () => {
      await spender.spendOne().catch((error: unknown) => faults.push(error))
    }),
  ])
  if (faults.length > 0) throw faults[0]
  if (errors > 0) throw new Error(`${errors} of bob's calls were not answered as they should be`)
  return p50_ms
}

function costOf(seen: readonly Turn[]): AllowanceCost {
  const bySide = (read: (turn: Turn) => BySide<number>): BySide<number[]> => ({
    without: seen.map(turn => read(turn).without),
    with: seen.map(turn => read(turn).with),
  })
  const batchOf = ({ batch }: Turn, figure: keyof BatchSpent): BySide<number> => ({
    without: batch.without[figure],
    with: batch.with[figure],
  })
  const ratio = ({ without, with: above }: BySide<number>): number => above / without
  return {
    agreement_p50_ms: bySide(turn => turn.agreement_p50_ms),
    agreements_per_second: bySide(turn => batchOf(turn, 'perSecond')),
    processors_busy: bySide(turn => batchOf(turn, 'processorsBusy')),
    row_per_second: {
      adding: seen.map(({ row }) => row.adding),
      granting: seen.map(({ row }) => row.granting),
    },
    neighbour_p50_ms: bySide(turn => turn.neighbour_p50_ms),
    ratios: {
      agreement: seen.map(turn => ratio(turn.agreement_p50_ms)),
      overRow: seen.map(({ batch, row }) => batch.with.perSecond / row.adding),
      overGranting: seen.map(({ batch, row }) => batch.with.perSecond / row.granting),
      overWithout: seen.map(turn => ratio(batchOf(turn, 'perSecond'))),
      neighbour: seen.map(turn => ratio(turn.neighbour_p50_ms)),
    },
  }
}

/** What was measured, as lines of text. */
export function renderAllowances(cost: AllowanceCost): string {
  const { agreement_p50_ms, agreements_per_second, row_per_second, neighbour_p50_ms, ratios } = cost
  const percent = (shares: number[]): string =>
    shown(
      shares.map(share => share * 100),
      0,
    )
  const shown = (values: number[], digits: number): string => {
    const { median, min, max } = spreadOf(values)!
    return `${median.toFixed(digits)} (${min.toFixed(digits)} to ${max.toFixed(digits)})`
  }
  return [
    'what an allowance costs',
    `  p50 of an agreement without one, ms     ${shown(agreement_p50_ms.without, 2)}`,
    `  p50 of one within an allowance, ms      ${shown(agreement_p50_ms.with, 2)}`,
    `  the second over the first               ${shown(ratios.agreement, 3)}, goal at most 1.15`,
    `  agreements a second without one         ${shown(agreements_per_second.without, 0)}`,
    `  of many agents within one allowance     ${shown(agreements_per_second.with, 0)}`,
    `  what the row passes, adding alone       ${shown(row_per_second.adding, 0)}`,
    `  what it passes, granting                ${shown(row_per_second.granting, 0)}`,
    `  within one over without                 ${shown(ratios.overWithout, 3)}`,
    `  within one over the row, adding alone   ${shown(ratios.overRow, 3)}`,
    `  within one over the row, granting       ${shown(ratios.overGranting, 3)}`,
    `  processors busy without one, %          ${percent(cost.processors_busy.without)}`,
    `  of many agents within one allowance, %  ${percent(cost.processors_busy.with)}`,
    `  a neighbour's p50 beside neither, ms    ${shown(neighbour_p50_ms.without, 2)}`,
    `  beside a busy allowance, ms             ${shown(neighbour_p50_ms.with, 2)}`,
    `  the second over the first               ${shown(ratios.neighbour, 3)}, goal at most 1.05`,
  ].join('\n')
}

async function main(): Promise<void> {
  const { values } = parseArgs({ options: { uses: { type: 'string' } } })
  const uses = values.uses === undefined ? undefined : Number(values.uses)
  if (uses !== undefined && (!Number.isInteger(uses) || uses < 1_000))
    throw new Error('Give --uses as a number from 1000.')
  await runByItself(async (directory, tell) => renderAllowances(await measureAllowances(directory, { tell })))
  if (uses === undefined) return
  await runByItself(async (directory, tell) =>
    renderAllowanceUses(await measureAllowanceUses(directory, { many: uses, tell })),
  )
}

if (import.meta.main) await main()
