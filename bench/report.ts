/**
 * Owns what a run comes to: medians and spread over the rounds, the ratios with their goals, as JSON and as a page of text.
 * docs/performance.md describes the JSON.
 */
import type { Machine, PostgresFacts } from './machine.ts'
import type { Round } from './run.ts'
import type { Scenario } from './world.ts'

export interface Spread {
  median: number
  min: number
  max: number
}

export interface ScenarioReport {
  title: string
  load_processes: number
  calls: number
  failures: 0
  calls_per_second: Spread
  p50_ms: Spread
  p95_ms: Spread
  p99_ms: Spread
  /** Medians. */
  cpu_us_per_call: Record<string, number> | null
  recorded_after_ms: Spread | null
  rounds: Round[]
}

export interface Ratio {
  /** Ratios of the rounds of one cycle, over all cycles. */
  spread: Spread
  goal_at_least: number
  numerator: string
  denominator: string
}

/** What `--json` writes. The figures of the goals stand at the top as plain numbers, under their own names. */
export interface Report {
  schema: 1
  started_at: string
  took_seconds: number
  standing_over_verify: number
  single_use_over_verify: number
  negotiation_over_bare: number
  ratios: Record<string, Ratio>
  scenarios: Record<string, ScenarioReport>
  generator: {
    calls_per_second_against_noop: number
    cores_used_against_noop: number | null
    ceiling_calls_per_second: number | null
  }
  dropped_reports: number
  others_cpu_share: Spread | null
  settings: Record<string, number>
  machine: Machine
  postgres: PostgresFacts
}

export interface RunFacts {
  scenarios: readonly Scenario[]
  rounds: Map<string, Round[]>
  startedAt: Date
  droppedReports: number
  settings: Record<string, number>
  machine: Machine
  postgres: PostgresFacts
}

const RATIOS = {
  standing_over_verify: { numerator: 'standing', denominator: 'verify', goal_at_least: 0.5 },
  single_use_over_verify: { numerator: 'single_use', denominator: 'verify', goal_at_least: 0.25 },
  negotiation_over_bare: { numerator: 'negotiation', denominator: 'negotiation_bare', goal_at_least: 0.4 },
} as const

/** The report of a run. */
export function makeReport(facts: RunFacts): Report {
  const scenarios = Object.fromEntries(
    facts.scenarios.map(scenario => [scenario.name, reportOf(scenario, facts.rounds.get(scenario.name)!)]),
  )
  const ratios = Object.fromEntries(
    Object.entries(RATIOS).map(([name, ratio]) => [name, { ...ratio, spread: ratioOf(facts.rounds, ratio) }]),
  )
  const median = (name: keyof typeof RATIOS): number => ratios[name]!.spread.median
  const others = [...facts.rounds.values()].flat().map(round => round.others_cpu_share)
  return {
    schema: 1,
    started_at: facts.startedAt.toISOString(),
    took_seconds: Math.round((Date.now() - facts.startedAt.getTime()) / 1_000),
    standing_over_verify: median('standing_over_verify'),
    single_use_over_verify: median('single_use_over_verify'),
    negotiation_over_bare: median('negotiation_over_bare'),
    ratios,
    scenarios,
    generator: generatorOf(scenarios['noop']!),
    dropped_reports: facts.droppedReports,
    others_cpu_share: spreadOf(others),
    settings: facts.settings,
    machine: facts.machine,
    postgres: facts.postgres,
  }
}

function reportOf(scenario: Scenario, rounds: Round[]): ScenarioReport {
  const of = (read: (round: Round) => number): Spread => spreadOf(rounds.map(read))!
  const parties = Object.keys(rounds[0]?.cpu_us_per_call ?? {})
  const cpu = parties.map(party => [party, of(round => round.cpu_us_per_call?.[party] ?? 0).median] as const)
  return {
    title: scenario.title,
    load_processes: scenario.processes,
    calls: rounds.reduce((sum, { calls }) => sum + calls, 0),
    failures: 0, // one would have ended the run
    calls_per_second: of(round => round.calls_per_second),
    p50_ms: of(round => round.p50_ms),
    p95_ms: of(round => round.p95_ms),
    p99_ms: of(round => round.p99_ms),
    cpu_us_per_call: parties.length === 0 ? null : Object.fromEntries(cpu),
    recorded_after_ms: spreadOf(rounds.map(round => round.recorded_after_ms)),
    rounds,
  }
}

function ratioOf(
  rounds: Map<string, Round[]>,
  { numerator, denominator }: { numerator: string; denominator: string },
): Spread {
  const below = rounds.get(denominator)!
  return spreadOf(
    rounds.get(numerator)!.map((round, n) => round.calls_per_second / below[n]!.calls_per_second),
  )!
}

/** What the generator could drive if the server cost nothing: its rate against the no-op server over the share of a core it took. */
function generatorOf({ calls_per_second, cpu_us_per_call }: ScenarioReport): Report['generator'] {
  const rate = calls_per_second.median
  const micros = cpu_us_per_call?.['load']
  return {
    calls_per_second_against_noop: rate,
    cores_used_against_noop: micros === undefined ? null : (rate * micros) / 1e6,
    ceiling_calls_per_second: micros === undefined ? null : 1e6 / micros,
  }
}

function spreadOf(values: (number | undefined)[]): Spread | null {
  const sorted = values.filter(value => value !== undefined).sort((a, b) => a - b)
  if (sorted.length === 0) return null
  const middle = sorted.length >> 1
  const median = sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
  return { median, min: sorted[0]!, max: sorted.at(-1)! }
}

const BUSY_SHARE = 0.1

/** The report as a page of text. */
export function renderReport(report: Report): string {
  const { machine, postgres, settings, others_cpu_share: others } = report
  return [
    `${settings['rounds']} rounds of ${settings['seconds']} s each, interleaved, ${settings['in_flight']} calls in flight; ${report.took_seconds} s in all`,
    `machine   ${machine.cpu}, ${machine.cores} cores, ${machine.memory_mib} MiB, ${machine.system}, ${machine.file_system}; Node ${machine.node}`,
    `Postgres  ${postgres.version}: fsync ${postgres.fsync}, synchronous_commit ${postgres.synchronous_commit}, full_page_writes ${postgres.full_page_writes}, shared_buffers ${postgres.shared_buffers}`,
    ...(others === null
      ? []
      : [
          `others    took ${percent(others.median)} of the CPU (at most ${percent(others.max)})${busy(others)}`,
        ]),
    '',
    table([
      ['', 'calls a second', '(min to max)', 'p50 ms', 'p95 ms', 'p99 ms', 'failed'],
      ...Object.values(report.scenarios).map(scenarioLine),
    ]),
    '',
    ...cpuTable(report),
    table([
      ['', 'median', '(min to max)', 'goal'],
      ...Object.entries(report.ratios).map(([name, { spread, goal_at_least }]) => [
        name,
        spread.median.toFixed(2),
        `(${spread.min.toFixed(2)} to ${spread.max.toFixed(2)})`,
        `at least ${goal_at_least}`,
      ]),
    ]),
    '',
    generatorLine(report),
    ...recordedLines(report),
  ].join('\n')
}

function busy({ max }: Spread): string {
  return max > BUSY_SHARE
    ? ': the machine was busy with other work, so trust the ratios more than the rates'
    : ''
}

function scenarioLine({
  title,
  calls_per_second: rate,
  p50_ms,
  p95_ms,
  p99_ms,
  failures,
}: ScenarioReport): string[] {
  return [
    title,
    whole(rate.median),
    `(${whole(rate.min)} to ${whole(rate.max)})`,
    ...[p50_ms, p95_ms, p99_ms].map(({ median }) => median.toFixed(1)),
    String(failures),
  ]
}

/** Where the time goes: a core gives a million of these microseconds a second. */
function cpuTable({ scenarios }: Report): string[] {
  const parties = ['load', 'bare', 'sidecar', 'authority', 'postgres']
  const rows = Object.values(scenarios).filter(({ cpu_us_per_call }) => cpu_us_per_call !== null)
  if (rows.length === 0) return []
  const lines = rows.map(({ title, cpu_us_per_call }) => {
    const cells = parties.map(party => cpu_us_per_call![party])
    return [title, ...cells.map(micros => (micros === undefined || micros < 1 ? '-' : whole(micros)))]
  })
  return [table([['CPU µs per call', ...parties], ...lines]), '']
}

function generatorLine({ generator }: Report): string {
  const {
    calls_per_second_against_noop: rate,
    cores_used_against_noop: cores,
    ceiling_calls_per_second,
  } = generator
  const drove = `The load generator drove ${whole(rate)} calls a second against the no-op server`
  if (cores === null || ceiling_calls_per_second === null) return `${drove}.`
  return `${drove}, with ${percent(cores)} of a core: its own ceiling is about ${whole(ceiling_calls_per_second)}.`
}

function recordedLines({ scenarios, dropped_reports }: Report): string[] {
  const waits = Object.values(scenarios).flatMap(({ title, recorded_after_ms: wait }) =>
    wait === null ? [] : [`${title}: ${whole(wait.median)} ms (at most ${whole(wait.max)})`],
  )
  return [
    `Every allowed call is in the owner's ledger (${dropped_reports} reports dropped); after a round, the last one was there within`,
    `  ${waits.join('; ')}`,
  ]
}

function table(rows: string[][]): string {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map(row => row[column]!.length)))
  return rows
    .map(row =>
      row
        .map((cell, n) => (n === 0 ? cell.padEnd(widths[n]!) : cell.padStart(widths[n]!)))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}

function whole(value: number): string {
  return Math.round(value).toLocaleString('en-US')
}

function percent(share: number): string {
  return `${Math.round(share * 100)} %`
}
