/**
 * Owns what a run comes to: medians and spread over the rounds, the ratios with their goals, as JSON and as a
 * page of text. docs/performance.md describes the JSON.
 */
import type { CrossCheck } from './cross-check.ts'
import {
  figuresOf,
  spreadOf,
  type Figure,
  type FigureFacts,
  type FigureName,
  type Spread,
} from './figures.ts'
import type { Machine, PostgresFacts } from './machine.ts'
import type { Round } from './run.ts'
import type { Scenario } from './world.ts'

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

interface Generator {
  calls_per_second_against_noop: number
  cores_used_against_noop: number | null
  ceiling_calls_per_second: number | null
}

/** What `--json` writes. The figures with goals are at the top as plain numbers, under their own names. */
export type Report = Partial<Record<FigureName, number>> & {
  schema: 2
  command: string
  started_at: string
  took_seconds: number
  figures: Partial<Record<FigureName, Figure>>
  scenarios: Record<string, ScenarioReport>
  generator: Generator | null
  /** What h2load reached against the same servers; null if it is not installed, or was not to be run. */
  cross_check: CrossCheck | null
  dropped_reports: number
  others_cpu_share: Spread | null
  settings: Record<string, number>
  machine: Machine
  postgres: PostgresFacts
}

export interface RunFacts extends FigureFacts {
  /** What was typed to have this run. */
  command: string
  lanes: readonly { name: string; scenario: Scenario }[]
  startedAt: Date
  crossCheck: CrossCheck | undefined
  droppedReports: number
  settings: Record<string, number>
  machine: Machine
  postgres: PostgresFacts
}

/** The report of a run. */
export function makeReport(facts: RunFacts): Report {
  const scenarios = Object.fromEntries(
    facts.lanes.map(({ name, scenario }) => [name, reportOf(scenario, facts.rounds.get(name)!)]),
  )
  const figures = figuresOf(facts)
  const others = [...facts.rounds.values()].flat().map(round => round.others_cpu_share)
  return {
    schema: 2,
    command: facts.command,
    started_at: facts.startedAt.toISOString(),
    took_seconds: Math.round((Date.now() - facts.startedAt.getTime()) / 1_000),
    ...Object.fromEntries(Object.entries(figures).map(([name, { value }]) => [name, value])),
    figures,
    scenarios,
    generator: scenarios['noop'] === undefined ? null : generatorOf(scenarios['noop']),
    cross_check: facts.crossCheck ?? null,
    dropped_reports: facts.droppedReports,
    others_cpu_share: spreadOf(others),
    settings: facts.settings,
    machine: facts.machine,
    postgres: facts.postgres,
  }
}

function reportOf(scenario: Scenario, rounds: Round[]): ScenarioReport {
  const of = (read: (round: Round) => number | undefined): Spread => spreadOf(rounds.map(read))!
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

/**
 * What the generator could drive if the server cost nothing: its rate against the no-op server over the share
 * of a core it took.
 */
function generatorOf({ calls_per_second, cpu_us_per_call }: ScenarioReport): Generator {
  const rate = calls_per_second.median
  const micros = cpu_us_per_call?.['load']
  return {
    calls_per_second_against_noop: rate,
    cores_used_against_noop: micros === undefined ? null : (rate * micros) / 1e6,
    ceiling_calls_per_second: micros === undefined ? null : 1e6 / micros,
  }
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
      ...Object.entries(report.scenarios).map(scenarioLine),
    ]),
    '',
    ...cpuTable(report),
    table([['', 'figure', '(min to max)', 'goal'], ...Object.entries(report.figures).map(figureLine)]),
    '',
    ...(report.generator === null ? [] : [generatorLine(report.generator)]),
    ...crossCheckLines(report),
    ...recordedLines(report),
  ].join('\n')
}

function busy({ max }: Spread): string {
  return max > BUSY_SHARE
    ? ': the machine was busy with other work, so trust the ratios more than the rates'
    : ''
}

function scenarioLine([name, report]: [string, ScenarioReport]): string[] {
  const { calls_per_second: rate, p50_ms, p95_ms, p99_ms, failures } = report
  return [
    titleOf(name, report),
    whole(rate.median),
    `(${whole(rate.min)} to ${whole(rate.max)})`,
    ...[p50_ms, p95_ms, p99_ms].map(({ median }) => median.toFixed(1)),
    String(failures),
  ]
}

/** A title, and where it is another checkout's, its name. */
function titleOf(name: string, { title }: ScenarioReport): string {
  const beside = / \(.+\)$/.exec(name)?.[0] ?? ''
  return title + beside
}

/** Where the time goes: a core gives a million of these microseconds a second. */
function cpuTable({ scenarios }: Report): string[] {
  const parties = ['load', 'bare', 'sidecar', 'authority', 'postgres']
  const rows = Object.entries(scenarios).filter(([, { cpu_us_per_call }]) => cpu_us_per_call !== null)
  if (rows.length === 0) return []
  const lines = rows.map(([name, report]) => {
    const cells = parties.map(party => report.cpu_us_per_call![party])
    return [
      titleOf(name, report),
      ...cells.map(micros => (micros === undefined || micros < 1 ? '-' : whole(micros))),
    ]
  })
  return [table([['CPU µs per call', ...parties], ...lines]), '']
}

function figureLine([name, { value, spread, goal }]: [string, Figure]): string[] {
  const range = `(${spread.min.toPrecision(3)} to ${spread.max.toPrecision(3)})`
  return [name, value.toPrecision(3), range, goal === null ? 'reported' : `at ${goal.kind} ${goal.bound}`]
}

function crossCheckLines({ cross_check: checked, scenarios }: Report): string[] {
  if (checked === null) return []
  const told = Object.entries(checked.calls_per_second).map(
    ([name, rate]) =>
      `${name} ${whole(rate)} (ours: ${whole(scenarios[name]!.rounds.at(-1)!.calls_per_second)} in its last round)`,
  )
  return [`${checked.tool} made, calls a second: ${told.join('; ')}`]
}

function generatorLine(generator: Generator): string {
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
