/**
 * Owns the figures that have goals: the rounds that each comes from, and its goal. docs/performance.md
 * describes them.
 */
import type { Round } from './run.ts'

/** Of what others take for a decision: calls a second, cycle by cycle, of those that were measured. */
export type PeerName = 'envoy' | 'jwt_authn' | 'usher' | 'usher_leased' | 'openfga'
export interface Peers {
  calls_per_second: Partial<Record<PeerName, number[]>>
}

export interface Spread {
  median: number
  min: number
  max: number
}

export interface Figure {
  /** Of the JSON's top: the median, the most or the 99th hundredth of what it is made of. */
  value: number
  /** Over the cycles, or over all revokes. */
  spread: Spread
  /** Null if a figure is only reported. */
  goal: Goal | null
}

export interface Goal {
  kind: 'least' | 'most'
  bound: number
}

/** One value for each cycle of rounds, or revoke; undefined if the run did not have what it is made of. */
interface Definition {
  goal: Goal | null
  of: 'median' | 'max' | 'p99'
  values: (facts: FigureFacts) => (number | undefined)[] | undefined
}

export interface FigureFacts {
  rounds: ReadonlyMap<string, Round[]>
  readyMs: number[]
  /** Ratios in turns, if ten million grants were filled. */
  scale?: Record<'introspect' | 'consume' | 'revoke', number[]> | undefined
  /** Of `usher agent bridge`: start by start, and turn by turn. */
  bridge?: Record<'start_ms' | 'added_p50_ms', number[]> | undefined
  /** Turn by turn, of what allowances cost. */
  allowances?:
    | Record<'agreement' | 'overRow' | 'overGranting' | 'overWithout' | 'neighbour', number[]>
    | undefined
  /** The same with ten million uses of one over ten thousand, if they were filled in. */
  allowanceUses?: Record<'agreement' | 'list', number[]> | undefined
  /** Turn by turn, of what several hold. */
  joint?: Record<'negotiation_ratio' | 'call_ratio', number[]> | undefined
  /** Revoke by revoke: while sidecars hold leases, while none does, and while one of them is stopped. */
  leases?: Record<'leased_ms' | 'asked_ms' | 'silent_ms', number[]> | undefined
  /** Cycle by cycle, of what others take for a decision. */
  peers?: Peers | undefined
  /** In turns, if one owner was flooded while another was measured. */
  neighbour?: { overSpread: number[]; overIdle: number[]; errors: number[] } | undefined
}

const atLeast = (bound: number): Goal => ({ kind: 'least', bound })
const atMost = (bound: number): Goal => ({ kind: 'most', bound })

const FIGURES = {
  standing_over_verify: { goal: atLeast(0.75), of: 'median', values: ratio('standing', 'verify') },
  single_use_over_verify: { goal: atLeast(0.45), of: 'median', values: ratio('single_use', 'verify') },
  negotiation_over_bare: {
    goal: atLeast(0.4),
    of: 'median',
    values: ratio('negotiation', 'negotiation_bare'),
  },
  added_p50_ms_at_500: {
    goal: atMost(0.5),
    of: 'median',
    values: each('standing_at_500', round => round.own_p50_ms),
  },
  p99_over_p50_at_half: {
    goal: atMost(10),
    of: 'median',
    values: each('standing_at_half', round => round.p99_ms / round.p50_ms),
  },
  introspect_10m_over_10k: { goal: atMost(1.2), of: 'median', values: ({ scale }) => scale?.introspect },
  consume_10m_over_10k: { goal: atMost(1.2), of: 'median', values: ({ scale }) => scale?.consume },
  revoke_1m_over_1: { goal: atMost(1.5), of: 'median', values: ({ scale }) => scale?.revoke },
  neighbour_p99_ratio: {
    goal: atMost(2),
    of: 'median',
    values: ({ neighbour }) => neighbour?.overSpread,
  },
  neighbour_errors: { goal: atMost(0), of: 'max', values: ({ neighbour }) => neighbour?.errors },
  neighbour_p99_over_idle: { goal: null, of: 'median', values: ({ neighbour }) => neighbour?.overIdle },
  bridge_start_ms: { goal: atMost(500), of: 'median', values: ({ bridge }) => bridge?.start_ms },
  bridge_added_p50_ms: { goal: atMost(5), of: 'median', values: ({ bridge }) => bridge?.added_p50_ms },
  joint_negotiation_over_ordinary: {
    goal: atMost(10),
    of: 'median',
    values: ({ joint }) => joint?.negotiation_ratio,
  },
  joint_call_over_standing: {
    goal: atLeast(0.9),
    of: 'median',
    values: ({ joint }) => joint?.call_ratio,
  },
  allowance_agreement_over_without: {
    goal: atMost(1.15),
    of: 'median',
    values: ({ allowances }) => allowances?.agreement,
  },
  allowance_neighbour_p50_ratio: {
    goal: atMost(1.05),
    of: 'median',
    values: ({ allowances }) => allowances?.neighbour,
  },
  busy_allowance_over_row: { goal: null, of: 'median', values: ({ allowances }) => allowances?.overRow },
  busy_allowance_over_granting: {
    goal: null,
    of: 'median',
    values: ({ allowances }) => allowances?.overGranting,
  },
  busy_allowance_over_without: {
    goal: null,
    of: 'median',
    values: ({ allowances }) => allowances?.overWithout,
  },
  allowance_agreement_10m_over_10k: {
    goal: atMost(1.2),
    of: 'median',
    values: ({ allowanceUses }) => allowanceUses?.agreement,
  },
  allowance_list_10m_over_10k: {
    goal: atMost(1.2),
    of: 'median',
    values: ({ allowanceUses }) => allowanceUses?.list,
  },
  revoke_leased_p50_ms: { goal: null, of: 'median', values: ({ leases }) => leases?.leased_ms },
  revoke_leased_p99_ms: { goal: atMost(20), of: 'p99', values: ({ leases }) => leases?.leased_ms },
  revoke_asked_p50_ms: { goal: null, of: 'median', values: ({ leases }) => leases?.asked_ms },
  revoke_asked_p99_ms: { goal: null, of: 'p99', values: ({ leases }) => leases?.asked_ms },
  revoke_silent_ms: { goal: atMost(2_100), of: 'max', values: ({ leases }) => leases?.silent_ms },
  usher_over_jwt_authn: {
    goal: atLeast(0.3),
    of: 'median',
    values: ({ peers }) => peers && peerRatio(peers, 'usher', 'jwt_authn'),
  },
  usher_over_openfga: {
    goal: atLeast(0.45),
    of: 'median',
    values: ({ peers }) => peers && peerRatio(peers, 'usher', 'openfga'),
  },
  two_workers_over_one: { goal: null, of: 'median', values: ratio('standing_two_sidecars', 'standing') },
  kept_over_standing: { goal: null, of: 'median', values: ratio('standing_kept', 'standing') },
  leased_over_standing: { goal: null, of: 'median', values: ratio('standing_leased', 'standing') },
  ready_ms: { goal: atMost(1_000), of: 'median', values: ({ readyMs }) => readyMs },
  rss_mib_at_1000: {
    goal: atMost(140),
    of: 'max',
    values: each('standing_at_1000', round => round.sidecar_rss_mib),
  },
} as const satisfies Record<string, Definition>

export type FigureName = keyof typeof FIGURES

/** The figures that can be made of a run. */
export function figuresOf(facts: FigureFacts): Partial<Record<FigureName, Figure>> {
  const made = Object.entries(FIGURES).flatMap(([name, { goal, of, values }]): [string, Figure][] => {
    const seen = values(facts)?.filter(value => value !== undefined) ?? []
    const spread = spreadOf(seen)
    if (spread === null) return []
    const value =
      of === 'p99'
        ? percentile(
            seen.toSorted((a, b) => a - b),
            0.99,
          )
        : spread[of]
    return [[name, { value, spread, goal }]]
  })
  return Object.fromEntries(made)
}

/** Whether a figure is as good as its goal asks; also if it has none. */
export function meets({ value, goal }: Pick<Figure, 'value' | 'goal'>): boolean {
  return goal === null || (goal.kind === 'least' ? value >= goal.bound : value <= goal.bound)
}

/** Calls a second of one scenario over those of another, in each cycle. */
function ratio(numerator: string, denominator: string): Definition['values'] {
  return ({ rounds }) => {
    const below = rounds.get(denominator)
    if (below === undefined) return undefined
    return rounds.get(numerator)?.map((round, n) => round.calls_per_second / below[n]!.calls_per_second)
  }
}

/** One rate over another's, cycle by cycle. */
export function peerRatio(
  { calls_per_second: rates }: Peers,
  one: PeerName,
  other: PeerName,
): number[] | undefined {
  const below = rates[other]
  return below && rates[one]?.map((rate, n) => rate / below[n]!)
}

function each(scenario: string, read: (round: Round) => number | undefined): Definition['values'] {
  return ({ rounds }) => rounds.get(scenario)?.map(read)
}

/** Median, least and most; null of nothing. */
export function spreadOf(values: readonly (number | undefined)[]): Spread | null {
  const sorted = values.filter(value => value !== undefined).sort((a, b) => a - b)
  if (sorted.length === 0) return null
  const middle = sorted.length >> 1
  const median = sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
  return { median, min: sorted[0]!, max: sorted.at(-1)! }
}

/** Of values that rise, the one below which that share of them is. There must be one. */
export function percentile(sorted: ArrayLike<number>, share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]!
}
