/**
 * Owns the order of a run: a warm-up of every scenario, then rounds interleaved (A B C A B C), so that
 * whatever disturbs the machine disturbs numerator and denominator alike. Any wrong answer, and any allowed
 * call that does not reach the ledger, ends the run.
 */
import { availableParallelism } from 'node:os'
import { percentile } from './figures.ts'
import { difference, quantile, type Histogram } from './histogram.ts'
import { startLoad, type LoadProcesses } from './load-processes.ts'
import { readCpu, readResidentMib, type CpuReading } from './machine.ts'
import type { System } from './system.ts'
import type { RoundPart, Scenario } from './world.ts'

export interface RunOptions {
  rounds: number
  /** Length of one round, and of the warm-up. */
  seconds: number
  warmUpSeconds: number
  inFlight: number
  connections: number
  /** Called with progress messages, for a person who waits. */
  tell: (line: string) => void
}

/** One scenario in one round. */
export interface Round {
  calls: number
  seconds: number
  calls_per_second: number
  p50_ms: number
  p95_ms: number
  p99_ms: number
  /** CPU time per call, what follows it off its path included, by party; `load` is the load processes. */
  cpu_us_per_call: Record<string, number> | undefined
  /** The share of all cores that other work used. */
  others_cpu_share: number | undefined
  /** From the end of the round until the ledger held its last call. */
  recorded_after_ms: number | undefined
  /**
   * Of an open loop: the rate of arrivals that was asked for, and how many of them were skipped as past what
   * can be sustained.
   */
  asked_per_second: number | undefined
  skipped: number
  /** The median, over the round's calls, of the sidecar's time except for waiting for the authority. */
  own_p50_ms: number | undefined
  /** Resident memory of the sidecar when the round ended. */
  sidecar_rss_mib: number | undefined
}

/** A scenario and the system it is measured on. */
export interface Lane {
  scenario: Scenario
  system: System
  /** The name of the system, if it is not this checkout's. */
  beside: string | undefined
}

/** The name for the figures of a lane. */
export function laneName({ scenario, beside }: Lane): string {
  return beside === undefined ? scenario.name : `${scenario.name} (${beside})`
}

interface OpenLane {
  name: string
  scenario: Scenario
  load: LoadProcesses
  run: (length: Length) => Promise<Round>
  rounds: Round[]
}

/** Of a round that has not been seen: more calls than any machine makes would only take long to sign. */
const CALLS_PER_SECOND_GUESS = 1_500

/** Runs everything; answers the rounds of each lane, in order, by its name. */
export async function runRounds(lanes: readonly Lane[], options: RunOptions): Promise<Map<string, Round[]>> {
  const open: OpenLane[] = []
  const runners = new Map<System, Runner>()
  try {
    for (const lane of lanes) {
      const { scenario, system } = lane
      const load = await startLoad(scenario, system.world, options)
      const runner = runners.get(system) ?? createRunner(system)
      runners.set(system, runner)
      open.push({
        name: laneName(lane),
        scenario,
        load,
        run: length => runner(scenario, load, length),
        rounds: [],
      })
    }
    const rates = await warmUp(open, options)
    for (let n = 1; n <= options.rounds; n++)
      for (const lane of open) await runOnce(lane, n, { rates, options })
    return new Map(open.map(({ name, rounds }) => [name, rounds]))
  } finally {
    await Promise.all(open.map(({ load }) => load.stop()))
  }
}

/** Calls a second of each closed loop, by the lane's name. */
async function warmUp(lanes: readonly OpenLane[], options: RunOptions): Promise<Map<string, number>> {
  options.tell(`warm-up: ${options.warmUpSeconds} s of each`)
  const rates = new Map<string, number>()
  for (const { name, scenario, run } of lanes) {
    // The code paths of an open loop are those of the closed one.
    if (scenario.pace !== undefined) continue
    const round = await run({ seconds: options.warmUpSeconds, expected: CALLS_PER_SECOND_GUESS })
    rates.set(name, round.calls_per_second)
  }
  return rates
}

async function runOnce(
  { name, scenario, run, rounds }: OpenLane,
  n: number,
  { rates, options }: { rates: Map<string, number>; options: RunOptions },
): Promise<void> {
  const { pace, share = 1 } = scenario
  const asked = pace && ('halfOf' in pace ? rates.get(pace.halfOf)! / 2 : pace.callsPerSecond)
  const seconds = Math.max(1, Math.round(options.seconds * share))
  const round = await run({ seconds, expected: asked ?? rates.get(name)!, asked })
  rounds.push(round)
  if (asked === undefined) rates.set(name, Math.max(rates.get(name)!, round.calls_per_second))
  options.tell(`round ${n}/${options.rounds} ${name}: ${Math.round(round.calls_per_second)} a second`)
}

interface Length {
  seconds: number
  /** The most calls a second that are to be prepared for. */
  expected: number
  /** Of an open loop. */
  asked?: number | undefined
}

type Runner = (scenario: Scenario, load: LoadProcesses, length: Length) => Promise<Round>

function createRunner(system: System): Runner {
  return async (scenario, load, { seconds, expected, asked }) => {
    await load.prepare(Math.ceil(expected * seconds * 1.5) + 500)
    const pids = { ...system.pids, load: load.pids }
    const ownBefore = scenario.reported ? await system.ownTimes() : undefined
    const before = await readCpu(pids)
    const parts = await load.run(seconds, asked)
    const endedAt = performance.now()
    const round = summary(parts)
    if (scenario.reported) {
      // Beside those of the round the first of each corpus, which asks as a proxy does.
      await system.untilRecorded(round.calls + parts.length)
    }
    const settledAt = performance.now()
    return {
      ...round,
      ...cpuOf(before, await readCpu(pids), round.calls),
      recorded_after_ms: scenario.reported ? settledAt - endedAt : undefined,
      asked_per_second: asked,
      skipped: parts.reduce((sum, part) => sum + part.skipped, 0),
      own_p50_ms: ownMedian(ownBefore, scenario.reported ? await system.ownTimes() : undefined),
      sidecar_rss_mib: await readResidentMib(system.pids.sidecar ?? []),
    }
  }
}

function ownMedian(before: Histogram | undefined, after: Histogram | undefined): number | undefined {
  return before && after && quantile(difference(before, after), 0.5) * 1_000
}

type Measured = Pick<Round, 'calls' | 'seconds' | 'calls_per_second' | 'p50_ms' | 'p95_ms' | 'p99_ms'>

function summary(parts: RoundPart[]): Measured {
  const calls = parts.reduce((sum, part) => sum + part.calls, 0)
  const elapsedMs = Math.max(...parts.map(part => part.elapsedMs))
  const latencies = Float64Array.from(parts.flatMap(part => [...part.latencies])).sort()
  if (calls === 0) throw new Error('a round ended without a call')
  return {
    calls,
    seconds: elapsedMs / 1_000,
    calls_per_second: calls / (elapsedMs / 1_000),
    p50_ms: percentile(latencies, 0.5),
    p95_ms: percentile(latencies, 0.95),
    p99_ms: percentile(latencies, 0.99),
  }
}

function cpuOf(
  before: CpuReading | undefined,
  after: CpuReading | undefined,
  calls: number,
): Pick<Round, 'cpu_us_per_call' | 'others_cpu_share'> {
  if (before === undefined || after === undefined)
    return { cpu_us_per_call: undefined, others_cpu_share: undefined }
  const spent = Object.keys(after.parties).map(
    party => [party, after.parties[party]! - (before.parties[party] ?? 0)] as const,
  )
  const ours = spent.reduce((sum, [, ms]) => sum + ms, 0)
  const others = after.machine - before.machine - ours
  const all = (after.at - before.at) * availableParallelism()
  return {
    cpu_us_per_call: Object.fromEntries(spent.map(([party, ms]) => [party, (ms * 1_000) / calls])),
    others_cpu_share: Math.max(0, others / all),
  }
}
