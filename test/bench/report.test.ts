import { describe, expect, it } from 'vitest'
import { meets } from '../../bench/figures.ts'
import { makeReport, renderReport, type Report, type RunFacts } from '../../bench/report.ts'
import type { Round } from '../../bench/run.ts'
import { SCENARIOS } from '../../bench/scenarios/index.ts'

function round(rate: number, more: Partial<Round> = {}): Round {
  return {
    calls: rate * 3,
    seconds: 3,
    calls_per_second: rate,
    p50_ms: 10,
    p95_ms: 20,
    p99_ms: 30,
    cpu_us_per_call: { load: 20, sidecar: 400 },
    others_cpu_share: 0.01,
    recorded_after_ms: undefined,
    asked_per_second: undefined,
    skipped: 0,
    own_p50_ms: 0.3,
    sidecar_rss_mib: 100,
    ...more,
  }
}

function facts(
  rates: Record<string, number[]>,
  more: Partial<Round> = {},
): RunFacts & { rounds: Map<string, Round[]> } {
  const rounds = new Map(
    SCENARIOS.map(({ name }) => [name, (rates[name] ?? [100, 100, 100]).map(rate => round(rate, more))]),
  )
  return {
    lanes: SCENARIOS.map(scenario => ({ name: scenario.name, scenario })),
    rounds,
    readyMs: [400, 900, 500],
    command: 'make bench',
    startedAt: new Date(),
    crossCheck: { tool: 'h2load', calls_per_second: { noop: 90, standing: 100 } },
    droppedReports: 0,
    settings: { rounds: 3, seconds: 3, in_flight: 100 },
    machine: {
      cpu: 'a cpu',
      cores: 2,
      memory_mib: 1,
      system: 'linux',
      node: 'v24',
      file_system: 'ext4',
      load_before: 0,
    },
    postgres: {
      version: '18',
      fsync: 'on',
      synchronous_commit: 'on',
      full_page_writes: 'on',
      shared_buffers: '128MB',
    },
  }
}

/** The names that others read this bench by. */
const FIGURES: (keyof Report)[] = [
  'standing_over_verify',
  'single_use_over_verify',
  'negotiation_over_bare',
  'added_p50_ms_at_500',
  'p99_over_p50_at_half',
  'two_workers_over_one',
  'kept_over_standing',
  'leased_over_standing',
  'ready_ms',
  'introspect_10m_over_10k',
  'consume_10m_over_10k',
  'revoke_1m_over_1',
  'rss_mib_at_1000',
  'neighbour_p99_ratio',
  'neighbour_errors',
  'neighbour_p99_over_idle',
  'bridge_start_ms',
  'bridge_added_p50_ms',
  'allowance_agreement_over_without',
  'allowance_neighbour_p50_ratio',
  'busy_allowance_over_row',
  'busy_allowance_over_without',
  'allowance_agreement_10m_over_10k',
  'allowance_list_10m_over_10k',
  'revoke_leased_p50_ms',
  'revoke_leased_p99_ms',
  'revoke_asked_p50_ms',
  'revoke_asked_p99_ms',
  'revoke_silent_ms',
]

describe('The report of a bench', () => {
  it('gives each ratio as the median of the ratios of its cycles, and their spread', () => {
    const report = makeReport(facts({ verify: [1000, 2000, 4000], standing: [500, 1600, 1000] }))
    expect(report.standing_over_verify).toBe(0.5)
    expect(report.figures.standing_over_verify?.spread).toEqual({ median: 0.5, min: 0.25, max: 0.8 })
  })

  it.each(FIGURES)('names %s at the top, as a number, beside its goal', name => {
    const scale = { introspect: [1.1, 1, 1.2], consume: [1], revoke: [1] }
    const neighbour = { overSpread: [0.9, 1.1, 1], overIdle: [3], errors: [0] }
    const bridge = { start_ms: [300], added_p50_ms: [2] }
    const leases = { leased_ms: [9], asked_ms: [5], silent_ms: [2_005] }
    const allowances = {
      agreement: [1.1],
      overRow: [0.9],
      overGranting: [0.9],
      overWithout: [0.8],
      neighbour: [1],
    }
    const allowanceUses = { agreement: [1], list: [1.1] }
    const measured = { scale, neighbour, bridge, leases, allowances, allowanceUses }
    const report = makeReport({ ...facts({}), ...measured })
    expect(report[name]).toEqual(expect.any(Number))
    expect(report.figures).toHaveProperty(name)
  })

  it('leaves out a figure whose scenarios were not run', () => {
    const { rounds, ...rest } = facts({})
    rounds.delete('verify')
    const lanes = rest.lanes.filter(({ name }) => name !== 'verify')
    const report = makeReport({ ...rest, lanes, rounds })
    expect(report).not.toHaveProperty('standing_over_verify')
    expect(report.negotiation_over_bare).toBe(1)
  })

  it('takes the most memory of any round, and the median of all starts', () => {
    const { rounds, ...rest } = facts({})
    rounds.set('standing_at_1000', [
      round(1000, { sidecar_rss_mib: 120 }),
      round(1000, { sidecar_rss_mib: 150 }),
    ])
    expect(makeReport({ ...rest, rounds })).toMatchObject({ rss_mib_at_1000: 150, ready_ms: 500 })
  })

  it('takes the median of what a neighbour waits for, and the most of what she is refused: one error misses the goal', () => {
    const neighbour = { overSpread: [0.5, 2.5, 1], overIdle: [3, 4, 5], errors: [0, 1, 0] }
    const { figures } = makeReport({ ...facts({}), neighbour })
    expect([figures.neighbour_p99_ratio, figures.neighbour_errors].map(figure => meets(figure!))).toEqual([
      true,
      false,
    ])
    expect(figures.neighbour_p99_ratio!.value).toBe(1)
    expect(figures.neighbour_p99_over_idle).toMatchObject({ value: 4, goal: null })
  })

  it('takes the median of what an allowance adds, and holds no goal of how many agreements pass it at once', () => {
    const allowances = {
      agreement: [1.1, 1.3, 1.14],
      neighbour: [1.2, 1.04, 1.06],
      overRow: [0.2, 0.4, 0.3],
      overGranting: [0.5, 0.7, 0.6],
      overWithout: [0.7, 0.8, 0.9],
    }
    const { figures } = makeReport({ ...facts({}), allowances })
    expect(figures.allowance_agreement_over_without!.value).toBe(1.14)
    expect(meets(figures.allowance_agreement_over_without!)).toBe(true)
    expect(figures.allowance_neighbour_p50_ratio!.value).toBe(1.06)
    expect(meets(figures.allowance_neighbour_p50_ratio!)).toBe(false)
    expect(figures.busy_allowance_over_row).toMatchObject({ value: 0.3, goal: null })
    expect(figures.busy_allowance_over_granting).toMatchObject({ value: 0.6, goal: null })
    expect(figures.busy_allowance_over_without).toMatchObject({ value: 0.8, goal: null })
    expect(figures).not.toHaveProperty('allowance_list_10m_over_10k')
  })

  it('takes the 99th of a hundred revokes in order, and the most of those that a silent sidecar keeps waiting', () => {
    const leased_ms = Array.from({ length: 200 }, (_, n) => 200 - n)
    const { figures } = makeReport({
      ...facts({}),
      leases: { leased_ms, asked_ms: [5, 1, 3], silent_ms: [2_004, 2_101, 2_001] },
    })
    expect(figures.revoke_leased_p99_ms).toMatchObject({ value: 199, spread: { min: 1, max: 200 } })
    expect(figures.revoke_leased_p50_ms!.value).toBe(100.5)
    expect(figures.revoke_asked_p50_ms!.value).toBe(3)
    expect(figures.revoke_silent_ms!.value).toBe(2_101)
    expect(meets(figures.revoke_silent_ms!)).toBe(false)
  })

  it('takes the median of an even number of rounds between the two in the middle', () => {
    const report = makeReport(facts({ noop: [1, 2, 4, 100] }))
    expect(report.scenarios['noop']?.calls_per_second).toEqual({ median: 3, min: 1, max: 100 })
  })

  it('shows what the load generator could drive, from its rate and its share of a core', () => {
    const { generator } = makeReport(facts({ noop: [10_000, 10_000, 10_000] }))
    expect(generator).toEqual({
      calls_per_second_against_noop: 10_000,
      cores_used_against_noop: 0.2,
      ceiling_calls_per_second: 50_000,
    })
  })

  it('shows what another load generator drove, and nothing if none was run', () => {
    expect(renderReport(makeReport(facts({})))).toContain('h2load made, calls a second: noop 90 (ours: 100')
    expect(renderReport(makeReport({ ...facts({}), crossCheck: undefined }))).not.toContain('h2load')
  })

  it('reads on a system that tells no CPU times, too', () => {
    const report = makeReport(facts({}, { cpu_us_per_call: undefined, others_cpu_share: undefined }))
    expect(report.generator?.ceiling_calls_per_second).toBeNull()
    expect(renderReport(report)).not.toMatch(/undefined|NaN|null/)
  })

  it('says that the machine was busy with other work if it was', () => {
    expect(renderReport(makeReport(facts({}, { others_cpu_share: 0.5 })))).toContain('busy with other work')
    expect(renderReport(makeReport(facts({})))).not.toContain('busy with other work')
  })
})
