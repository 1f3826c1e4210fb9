/**
 * Owns the order of a run: a warm-up of every scenario, then rounds interleaved (A B C A B C), so that whatever disturbs the machine disturbs
 * numerator and denominator alike. Any wrong answer, and any allowed call that does not reach the ledger, ends the run.
 */
import { availableParallelism } from 'node:os'
import { startLoad, type LoadProcesses } from './load-processes.ts'
import { readCpu, type CpuReading } from './machine.ts'
import type { System } from './system.ts'
import type { RoundPart, Scenario } from './world.ts'

export interface RunOptions {
  scenarios: readonly Scenario[]
  rounds: number
  /** Length of one round, and of the warm-up. */
  seconds: number
  warmUpSeconds: number
  inFlight: number
  connections: number
  /** Told what happens, for whoever waits. */
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
  /** Of all cores, the share that went to none of ours. */
  others_cpu_share: number | undefined
  /** From the end of the round until the ledger held its last call. */
  recorded_after_ms: number | undefined
}

interface Lane {
  scenario: Scenario
  load: LoadProcesses
  rounds: Round[]
}

/** Of a round that has not been seen: more calls than any machine makes would only take long to sign. */
const CALLS_PER_SECOND_GUESS = 1_500

/** Runs everything; answers the rounds of each scenario, in order. */
export async function runRounds(system: System, options: RunOptions): Promise<Map<string, Round[]>> {
  const lanes: Lane[] = []
  const runner = createRunner(system)
  try {
    for (const scenario of options.scenarios)
      lanes.push({ scenario, load: await startLoad(scenario, system.world, options), rounds: [] })
    options.tell(`warm-up: ${options.warmUpSeconds} s of each`)
    const rates = new Map<string, number>()
    for (const lane of lanes) {
      const { calls_per_second } = await runner(lane, options.warmUpSeconds, CALLS_PER_SECOND_GUESS)
      rates.set(lane.scenario.name, calls_per_second)
    }
    for (let n = 1; n <= options.rounds; n++) {
      for (const lane of lanes) {
        const { name } = lane.scenario
        const round = await runner(lane, options.seconds, rates.get(name)!)
        lane.rounds.push(round)
        rates.set(name, Math.max(rates.get(name)!, round.calls_per_second))
        options.tell(`round ${n}/${options.rounds} ${name}: ${Math.round(round.calls_per_second)} a second`)
      }
    }
    return new Map(lanes.map(({ scenario, rounds }) => [scenario.name, rounds]))
  } finally {
    await Promise.all(lanes.map(({ load }) => load.stop()))
  }
}

function createRunner(system: System): (lane: Lane, seconds: number, rate: number) => Promise<Round> {
  /** Allowed calls that the ledger must tell of: those of the rounds, and the first of each corpus, which asks as a proxy does. */
  let recorded = 0
  return async ({ scenario, load }, seconds, rate) => {
    await load.prepare(Math.ceil(rate * seconds * 1.5) + 500)
    const pids = { ...system.pids, load: load.pids }
    const before = await readCpu(pids)
    const parts = await load.run(seconds)
    const endedAt = performance.now()
    const round = summary(parts)
    if (scenario.reported) {
      recorded += round.calls + parts.length
      await system.untilRecorded(recorded)
    }
    const settledAt = performance.now()
    return {
      ...round,
      ...cpuOf(before, await readCpu(pids), round.calls),
      recorded_after_ms: scenario.reported ? settledAt - endedAt : undefined,
    }
  }
}

function summary(
  parts: RoundPart[],
): Omit<Round, 'cpu_us_per_call' | 'others_cpu_share' | 'recorded_after_ms'> {
  const calls = parts.reduce((sum, part) => sum + part.calls, 0)
  const elapsedMs = Math.max(...parts.map(part => part.elapsedMs))
  const latencies = Float64Array.from(parts.flatMap(part => [...part.latencies])).sort()
  if (calls === 0) throw new Error('a round ended without a call')
  const percentile = (share: number): number => latencies[Math.min(calls - 1, Math.floor(calls * share))]!
  return {
    calls,
    seconds: elapsedMs / 1_000,
    calls_per_second: calls / (elapsedMs / 1_000),
    p50_ms: percentile(0.5),
    p95_ms: percentile(0.95),
    p99_ms: percentile(0.99),
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
