/**
 * Owns a part of a history: agents and owners act at random during faults until so many operations are done.
 * Then nothing is disturbed any more, everything is asked once more, and the whole part is judged.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { allowanceRules } from './check-allowances.ts'
import { violationsOf } from './check.ts'
import { createFaults } from './faults.ts'
import { groupsOf, type Group, type GroupOptions } from './groups.ts'
import { indexOf } from './indexed.ts'
import type { Cast, Op, Violation } from './record.ts'
import { createRecorder, type Recorder } from './recorder.ts'

export interface PartOptions extends GroupOptions {
  ops: number
  faultEvery: number
  spareSidecarsFrom: number
  /** How far the clocks of the database's servers are apart. */
  clocksApartMs: number
  /** Whether it is to end before its operations are done. */
  isLate: () => boolean
  onProgress: (count: number) => void
}

export interface Part {
  violations: Violation[]
  history: Op[]
  tally: Record<string, number>
  count: number
}

/** Of the operations of a part. */
const judgedEvery = (ops: number): number => Math.max(500, Math.ceil(ops / 8))
const TOLD_EVERY_OPS = 2_000
/** Calls that are running when a fault begins, if it should hit running calls. */
const MET_CALLS = 8
const MET_MS_MAX = 150
const TOLD_MS_MAX = 90_000
const BETWEEN_READS_MS = 1_000

/** Makes a part and judges it. */
export async function runPart(options: PartOptions): Promise<Part> {
  const { processes, ops, faultEvery, spareSidecarsFrom, chance, callsAtOnce } = options
  const recorder = createRecorder()
  const groups = await groupsOf(options, recorder)
  const all = groups.flatMap(({ agents }) => agents.all)
  const { clocksApartMs } = options
  const cast: Cast = {
    agents: all.map(({ owner, handle, operator }) => ({ owner, handle, operator })),
    clocksApartMs,
  }
  const spares = (name: string) => name.startsWith('sidecar') && recorder.count > ops * spareSidecarsFrom
  const faults = createFaults({ processes, recorder, chance, callsAtOnce }, ({ name }) => spares(name))
  for (const { agents, owners, allowances, opening } of groups) {
    await allowances?.make()
    await Promise.all(agents.all.map(agents.negotiateFor))
    await owners.approveAll()
    await opening?.()
  }
  /** Begins a fault; most of them meet calls that are just being let through, and told of. */
  const disturb = async ({ agents }: Group): Promise<void> => {
    const met = chance.next() < 0.7 ? MET_CALLS : 0
    const meet = (at: number): Promise<void> => (at % 2 === 0 ? agents.spend() : agents.callStanding())
    const calls = Array.from({ length: met }, (_, at) => meet(at))
    if (met > 0) await delay(chance.below(MET_MS_MAX))
    faults.begin()
    await Promise.all(calls)
  }
  let [faultAt, judgeAt, tellAt] = [faultEvery, judgedEvery(ops), 0]
  let violations: Violation[] = []
  const client = async (group: Group): Promise<void> => {
    while (recorder.count < ops && violations.length === 0 && !options.isLate()) {
      await group.act()
      if (recorder.count >= faultAt) {
        faultAt = recorder.count + faultEvery
        await disturb(group)
      }
      if (recorder.count >= judgeAt) {
        judgeAt = recorder.count + judgedEvery(ops)
        violations = violationsOf(recorder.history, cast)
      }
      if (recorder.count >= tellAt) {
        tellAt = recorder.count + TOLD_EVERY_OPS
        options.onProgress(recorder.count)
      }
    }
  }
  await Promise.all(groups.flatMap(group => Array.from({ length: group.clients }, () => client(group))))
  await faults.over()
  await processes.postgres.setRight()
  if (violations.length === 0) violations = await lastWords(groups, recorder, cast)
  const { history, count } = recorder
  return { violations, history, tally: tallyOf(history, faults.tally), count }
}

/** Asks everything once more, until nothing is under way, and judges the whole part. */
async function lastWords(groups: readonly Group[], { history }: Recorder, cast: Cast): Promise<Violation[]> {
  const each = (work: (group: Group) => Promise<void>) => Promise.all(groups.map(work))
  await each(({ agents }) => agents.callAll())
  await each(({ owners }) => owners.denyAll())
  const until = performance.now() + TOLD_MS_MAX
  let violations: Violation[]
  do {
    await each(({ owners }) => owners.readAllOn())
    const before = history.length
    await each(async ({ allowances }) => allowances?.readAll())
    violations = violationsOf(history, cast, { final: true })
    const latest = history.filter(({ op, n }) => op !== 'uses' || n >= before)
    const isWhole = !isUntold(violations) && allowanceRules(indexOf(latest, cast), 0).length === 0
    if (isWhole || performance.now() >= until) break
    await delay(BETWEEN_READS_MS)
  } while (violations.length === 0 || isUntold(violations))
  await each(({ owners }) => owners.readAll())
  return violationsOf(history, cast, { final: true })
}

/** Whether a call is missing from a ledger that a sidecar may still tell of. */
const isUntold = (found: readonly Violation[]): boolean =>
  found.some(({ says }) => says.includes('entries tell of'))

function tallyOf(history: readonly Op[], faults: Record<string, number>): Record<string, number> {
  const tally: Record<string, number> = {}
  for (const one of history) {
    const { op, outcome } = one
    if (op === 'fault') continue
    const name = process.env['HISTORY_CODES'] ? `${op} ${outcome} ${one.code}` : `${op} ${outcome}`
    tally[name] = (tally[name] ?? 0) + 1
  }
  return { ...tally, ...faults }
}
