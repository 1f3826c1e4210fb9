/**
 * Owns what a ledger that strangers can check costs: `/token` and calls at an authority with keys of the log
 * beside one without, by turns; numbering's share of the authority's CPU at 1,000 reports a second; and a
 * million entries beside a thousand. docs/performance.md says how to read it. By itself:
 * `node bench/scenarios/ledger.ts`.
 */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { importPrivateJwk } from '../../src/wire/signatures/keys.ts'
import { spreadOf, type Spread } from '../figures.ts'
import { runRounds, type Round } from '../run.ts'
import { startOwnSystem, type System } from '../system.ts'
import { runByItself } from './by-itself.ts'
import { scenarioNamed } from './index.ts'
import { ACTS, measureLedgerSize, writeLogKeys, type Act, type LedgerSize } from './ledger-size.ts'
import { openAuthority, type AuthorityDoor } from './negotiation.ts'

const MANY = 1_000_000
const TOKEN = { turns: 5, grants: 120, warmUp: 200 }
/** Of the calls: short rounds, but many of them count when the two sides take turns. */
const CALLS = { rounds: 3, seconds: 4, warmUpSeconds: 3, inFlight: 100, connections: 4 }
const CEILINGS = ['standing', 'single_use'] as const
/** Each call of it ends as a report. */
const REPORTS = 'standing_at_1000'
const SIDES = ['without', 'with'] as const

type Side = (typeof SIDES)[number]
type BySide<T> = Record<Side, T>

/** What is measured at both authorities; `ratios`, turn by turn, are with the keys over without. */
interface Compared {
  name: string
  unit: string
  sides: BySide<Spread>
  ratios: number[]
  goal: string
  isMet: boolean
}

export interface LedgerCost {
  compared: Compared[]
  /** CPU of the authority for a call and its report, at 1,000 a second, with the keys of the log. */
  authority_us_per_call: number | undefined
  size: LedgerSize
}

/** Measures all of it, on systems of its own. */
export async function measureLedger(
  directory: string,
  { many, tell }: { many: number; tell: (line: string) => void },
): Promise<LedgerCost> {
  const { compared, authority_us_per_call } = await compareSystems(directory, tell)
  const own = join(directory, 'size')
  await mkdir(own, { mode: 0o755 })
  return { compared, authority_us_per_call, size: await measureLedgerSize(own, { many, tell }) }
}

async function compareSystems(
  directory: string,
  tell: (line: string) => void,
): Promise<Omit<LedgerCost, 'size'>> {
  const systems: System[] = []
  try {
    for (const side of SIDES) {
      const own = join(directory, side)
      await mkdir(own, { mode: 0o755 })
      const settings = side === 'with' ? { UMA_AS_LOG_KEYS_FILE: await writeLogKeys(own) } : {}
      systems.push(await startOwnSystem(own, settings))
    }
    const [without, withKeys] = systems as [System, System]
    const bySide = { without, with: withKeys }
    const token = await compareTokens(bySide, tell)
    const rounds = await callRounds(bySide, tell)
    const cpu = rounds(REPORTS, ({ cpu_us_per_call }) => cpu_us_per_call?.['authority'])
    const rates = CEILINGS.map(name =>
      callRates(
        name,
        rounds(name, round => round.calls_per_second)!,
      ),
    )
    return {
      compared: [token, ...rates, ...(cpu === undefined ? [] : [cpuOf(cpu)])],
      authority_us_per_call: cpu && spreadOf(cpu.with)!.median,
    }
  } finally {
    for (const system of systems.toReversed()) await system.stop()
  }
}

/** The request that is answered with a grant and its receipt, one at a time, at both in turn. */
async function compareTokens(systems: BySide<System>, tell: (line: string) => void): Promise<Compared> {
  const share = { inFlight: 1, connections: 1 }
  const doors: BySide<AuthorityDoor> = {
    without: await openAuthority(systems.without.world, share),
    with: await openAuthority(systems.with.world, share),
  }
  try {
    const keys = {
      without: systems.without.world.agents.map(({ jwk }) => importPrivateJwk(jwk)),
      with: systems.with.world.agents.map(({ jwk }) => importPrivateJwk(jwk)),
    }
    let sent = 0
    const medians = async (grants: number): Promise<BySide<number>> => {
      const times: BySide<number[]> = { without: [], with: [] }
      for (let n = 0; n < grants; n++, sent++)
        for (const side of SIDES) {
          const key = keys[side][sent % keys[side].length]!
          await doors[side].negotiate(key, undefined, ms => times[side].push(ms))
        }
      return { without: spreadOf(times.without)!.median, with: spreadOf(times.with)!.median }
    }
    await medians(TOKEN.warmUp)
    const turns: BySide<number>[] = []
    for (let turn = 1; turn <= TOKEN.turns; turn++) {
      turns.push(await medians(TOKEN.grants))
      tell(`ledger: /token, turn ${turn} of ${TOKEN.turns}`)
    }
    const values = { without: turns.map(one => one.without), with: turns.map(one => one.with) }
    const compared = compare('/token with the agreement, p50', 'ms', values)
    const isMet = spreadOf(compared.ratios)!.median <= 1.02
    return { ...compared, goal: 'at most 1.02', isMet }
  } finally {
    await Promise.all([doors.without.close(), doors.with.close()])
  }
}

/** What `read` gives of each round; undefined where it gives nothing of one. */
type RoundValues = (
  scenario: string,
  read: (round: Round) => number | undefined,
) => BySide<number[]> | undefined

/** Rounds of calls at both in turn; answers how to read them. */
async function callRounds(systems: BySide<System>, tell: (line: string) => void): Promise<RoundValues> {
  const lanes = [...CEILINGS, REPORTS].flatMap(name =>
    SIDES.map(side => ({ scenario: scenarioNamed(name), system: systems[side], beside: side })),
  )
  const rounds = await runRounds(lanes, { ...CALLS, tell })
  return (scenario, read) => {
    const of = (side: Side): number[] =>
      rounds.get(`${scenario} (${side})`)!.flatMap(round => read(round) ?? [])
    const values = { without: of('without'), with: of('with') }
    return values.with.length === CALLS.rounds && values.without.length === CALLS.rounds ? values : undefined
  }
}

function compare(
  name: string,
  unit: string,
  values: BySide<number[]>,
): Pick<Compared, 'name' | 'unit' | 'sides' | 'ratios'> {
  const ratios = values.with.map((value, n) => value / values.without[n]!)
  return { name, unit, sides: { without: spreadOf(values.without)!, with: spreadOf(values.with)! }, ratios }
}

/** As the gate judges: a rate is lost if it is below three quarters even in its best round. */
function callRates(name: string, values: BySide<number[]>): Compared {
  const compared = compare(`calls, ${name}`, 'a second', values)
  return {
    ...compared,
    goal: 'at least 0.75 in the best round',
    isMet: spreadOf(compared.ratios)!.max >= 0.75,
  }
}

function cpuOf(values: BySide<number[]>): Compared {
  const compared = compare('CPU of the authority a call, at 1,000 a second', 'µs', values)
  return { ...compared, goal: 'none', isMet: true }
}

const NAMES: Record<Act, string> = {
  numbering: 'numbering 10 entries',
  inclusion: 'a proof of inclusion',
  checkpoint: 'signing a checkpoint',
  tile: 'GET /owner/ledger/tile',
}

/** What was measured, as lines of text. */
export function renderLedger({ compared, authority_us_per_call, size }: LedgerCost): string {
  const rows = compared.map(({ name, unit, sides, ratios, goal, isMet }) =>
    row(`${name}, ${unit}`, [sides.without.median, sides.with.median], ratios, { goal, isMet }),
  )
  const acts = ACTS.map(act => {
    const { few, many } = size.p50_ms[act]
    const ratios = size.ratios[act]
    const isMet = spreadOf(ratios)!.median <= 1.2
    return row(`${NAMES[act]}, ms`, [few.median, many.median], ratios, { goal: 'at most 1.2', isMet })
  })
  const count = (value: number): string => value.toLocaleString('en-US')
  return [
    head('', 'without keys', 'with keys'),
    ...rows,
    ...renderNumbering(size.numbering_us, authority_us_per_call),
    head('', count(size.few), count(size.many)),
    ...acts,
    `(medians of the turns; ${count(size.many)} entries were filled in ${Math.round(size.fill_seconds)} s)`,
  ].join('\n')
}

/** The whole of it, and what the tree adds: an event is numbered by the same statements and has no leaf. */
function renderNumbering(
  { entry, event }: LedgerSize['numbering_us'],
  authority: number | undefined,
): string[] {
  const parts: [string, number][] = [
    ['Numbering takes', entry],
    ['That is more than for an event, by', entry - event],
  ]
  return parts.map(([what, us]) => {
    const share = authority && us / authority
    const of =
      share === undefined
        ? 'its share is unknown, because this machine does not tell the CPU time of a process'
        : `${(share * 100).toFixed(1)} % of what the authority takes at 1,000 reports a second (goal at most 3 %: ${words(share <= 0.03)})`
    return `${what} ${us.toFixed(1)} µs of CPU an entry: ${of}`
  })
}

const WIDTH = 52
const words = (isMet: boolean): string => (isMet ? 'met' : 'missed')
const head = (name: string, one: string, other: string): string =>
  `${name.padEnd(WIDTH)}${one.padStart(13)}${other.padStart(13)}   ratio (least to most)`

function row(
  name: string,
  [one, other]: [number, number],
  ratios: readonly number[],
  { goal, isMet }: { goal: string; isMet: boolean },
): string {
  const { median, min, max } = spreadOf(ratios)!
  const cells = [one, other].map(value => value.toFixed(2).padStart(13)).join('')
  const verdict = goal === 'none' ? '' : `, goal ${goal}: ${words(isMet)}`
  return `${name.padEnd(WIDTH)}${cells}   ${median.toFixed(3)} (${min.toFixed(3)} to ${max.toFixed(3)})${verdict}`
}

async function main(): Promise<void> {
  const { values } = parseArgs({ options: { entries: { type: 'string', default: String(MANY) } } })
  const many = Number(values.entries)
  if (!Number.isInteger(many) || many < 1_000) throw new Error('Give --entries as a number from 1000.')
  await runByItself(async (directory, tell) => renderLedger(await measureLedger(directory, { many, tell })))
}

if (import.meta.main) await main()
