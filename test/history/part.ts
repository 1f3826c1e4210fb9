/**
 * Owns a part of a history: agents and owners act at random during faults until so many operations are done.
 * Then nothing is disturbed any more, everything is asked once more, and the whole part is judged.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { freePorts } from '../../src/dev/stack/ports.ts'
import { createAgents, type Setting } from './agents.ts'
import type { Chance } from './chance.ts'
import { violationsOf } from './check.ts'
import { createFaults } from './faults.ts'
import type { LedgerWatch } from './ledger-watch.ts'
import { createOwners } from './owners.ts'
import type { Processes } from './processes.ts'
import type { Cast, Op, Violation } from './record.ts'
import { createRecorder } from './recorder.ts'

export interface PartOptions {
  processes: Processes
  ledgers: LedgerWatch
  chance: Chance
  ops: number
  clients: number
  callsAtOnce: number
  faultEvery: number
  spareSidecarsFrom: number
  /** Whether agents call right before their owner ends something of theirs, and right after. */
  probes: boolean
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

const AGENTS_EACH = 5
const WEIGHTS = {
  negotiate: 32,
  standing: 28,
  single: 16,
  decide: 14,
  revoke: 1.2,
  block: 0.8,
  edit: 1,
  read: 7,
} as const
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
  const { processes, ledgers, ops, faultEvery, spareSidecarsFrom, chance, callsAtOnce } = options
  const recorder = createRecorder()
  const setting: Setting = { processes, recorder, chance, callsAtOnce }
  // New ones each time, so that nothing that was granted or blocked before matters to this part.
  const agents = createAgents(setting, AGENTS_EACH, await newOrigins(2))
  const probe = options.probes ? agents.callStandingOf : () => Promise.resolve()
  const owners = createOwners(setting, agents.all, { ledgers, probe })
  const cast: Cast = {
    agents: agents.all.map(({ owner, handle, operator }) => ({ owner, handle, operator })),
  }
  const spares = (name: string) => name.startsWith('sidecar') && recorder.count > ops * spareSidecarsFrom
  const faults = createFaults(setting, ({ name }) => spares(name))
  await Promise.all(agents.all.map(agents.negotiateFor))
  await owners.approveAll()
  const acts = {
    negotiate: agents.negotiate,
    standing: agents.callStanding,
    single: agents.callSingle,
    decide: owners.decide,
    revoke: owners.revoke,
    block: owners.blockOrUnblock,
    edit: owners.edit,
    read: owners.read,
  }
  /** Begins a fault; most of them meet calls that are just being let through, and told of. */
  const disturb = async (): Promise<void> => {
    const met = chance.next() < 0.7 ? MET_CALLS : 0
    const meet = (at: number): Promise<void> => (at % 2 === 0 ? agents.spend() : agents.callStanding())
    const calls = Array.from({ length: met }, (_, at) => meet(at))
    if (met > 0) await delay(chance.below(MET_MS_MAX))
    faults.begin()
    await Promise.all(calls)
  }
  let [faultAt, judgeAt, tellAt] = [faultEvery, judgedEvery(ops), 0]
  let violations: Violation[] = []
  const client = async (): Promise<void> => {
    while (recorder.count < ops && violations.length === 0 && !options.isLate()) {
      await acts[chance.weighed(WEIGHTS)]()
      if (recorder.count >= faultAt) {
        faultAt = recorder.count + faultEvery
        await disturb()
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
  await Promise.all(Array.from({ length: options.clients }, client))
  await faults.over()
  if (violations.length === 0) {
    await agents.callAll()
    await owners.denyAll()
    const until = performance.now() + TOLD_MS_MAX
    do {
      await owners.readAllOn()
      violations = violationsOf(recorder.history, cast, { final: true })
    } while (isUntold(violations) && performance.now() < until && (await delay(BETWEEN_READS_MS, true)))
    await owners.readAll()
    violations = violationsOf(recorder.history, cast, { final: true })
  }
  const { history, count } = recorder
  return { violations, history, tally: tallyOf(history, faults.tally), count }
}

const origins = new Set<string>()

async function newOrigins(count: number): Promise<string[]> {
  const made: string[] = []
  while (made.length < count) {
    const origin = `https://127.0.0.1:${(await freePorts(1))[0]}`
    if (!origins.has(origin)) made.push(origin)
    origins.add(origin)
  }
  return made
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
