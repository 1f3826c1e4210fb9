/**
 * Owns the rules on allowances: what was let through unasked stays within what its owner bounded, as far as
 * grants, calls and her own readings show it. contract, "Policy vocabulary and tiers"; an addition
 * (docs/details/owner-api.md, "Allowances").
 */
import type { AllowanceRecord, Indexed } from './indexed.ts'
import {
  done,
  end,
  may,
  type Op,
  type Period,
  type Present,
  type Share,
  type Uses,
  type Violation,
  type WindowUse,
} from './record.ts'

/** The zone of every allowance of a history: its days and hours begin at half past, the whole year. */
export const ZONE = { name: 'Asia/Kolkata', offsetMs: 19_800_000 }
/** Grants of one allowance that an agent may have unspent. */
const UNSPENT_MAX = 5
/** How long after its grant expired a share may still be counted as used. */
const COUNTED_MS_MAX = 60_000
/** What had no answer has its effect within this, or never. */
const EFFECT_MS = 30_000
/** The clocks of this machine and of a token, in whole seconds, differ by less. */
const CLOCK_MS = 2_000
const HOUR_MS = 3_600_000

/** By how much two moments may seem to be in another order than they were. */
const clockMsOf = ({ cast }: Indexed): number => CLOCK_MS + (cast.clocksApartMs ?? 0)

/** What took a share, or may have. */
interface Take {
  by: Present
  share: Share
  /** It was taken between these two moments. */
  from: number
  to: number
  /** It was granted, and nobody had approved it, so that it took its share. */
  isSure: boolean
  /** The last moment at which its grant may be live. */
  ends: number
  isSpent: boolean
  /** When the first call began that may have spent it; infinite if there was none. */
  spentFrom: number
}

/** Of one allowance, as every rule needs it. */
interface Judged {
  indexed: Indexed
  record: AllowanceRecord
  takes: Take[]
  /** Whose windows it counts in: its agent's, or everybody's. */
  whoseOf: (take: Take) => string
}

/**
 * What is wrong with the allowances of a history. `countedMs`: how long after its grant expired a share may
 * still be counted, if it is not a minute.
 */
export function allowanceRules(indexed: Indexed, countedMs = COUNTED_MS_MAX): Violation[] {
  return [...indexed.allowances.values()].flatMap(record => {
    const takes = record.presents.flatMap(by => takeOf(indexed, by))
    const isShared = record.edits[0]?.among !== 'lineage'
    const whoseOf = ({ by }: Take): string => (isShared ? '' : by.handle)
    const judged = { indexed, record, takes, whoseOf }
    return [...unasked(judged), ...unspent(judged), ...spentInTime(judged), ...windowRules(judged, countedMs)]
  })
}

function takeOf({ families, callsOf }: Indexed, by: Present): Take[] {
  const { share, grant, at } = by
  if (share === undefined) return []
  if (grant === undefined) {
    if (done(by)) return []
    const to = at + EFFECT_MS
    const ends = to + share.agreed * 1_000
    return [{ by, share, from: at, to, isSure: false, ends, isSpent: false, spentFrom: Infinity }]
  }
  const { decides, presents } = families.get(grant.family) ?? { decides: [], presents: [] }
  const approvals = decides.filter(one => may(one) && one.decision === 'approved' && one.at < by.until)
  const isAskedAgain = (approval: Op): boolean =>
    presents.some(one => one.answer === 'need_info' && one.until > approval.at)
  // What she approved takes nothing of an allowance.
  if (approvals.some(one => done(one) && one.until < at && !isAskedAgain(one))) return []
  const calls = (callsOf.get(grant.jti) ?? []).filter(call => call.exact && may(call))
  return [
    {
      by,
      share,
      from: at,
      to: by.until,
      isSure: approvals.length === 0,
      ends: grant.exp * 1_000,
      isSpent: calls.some(done),
      spentFrom: Math.min(Infinity, ...calls.map(call => call.at)),
    },
  ]
}

/** What an allowance does not let through is asked about, however little of it was used. */
function unasked({ takes }: Judged): Violation[] {
  return takes
    .filter(({ isSure, share }) => isSure && share.beyond)
    .map(({ by }) => wrong(`${by.grant!.jti} is beyond the allowance and was let through unasked`, [by]))
}

/** No agent holds more than so many unspent grants of an allowance. */
function unspent({ indexed, takes }: Judged): Violation[] {
  const sure = takes.filter(({ isSure }) => isSure)
  return sure.flatMap(last => {
    const { handle } = last.by
    const isEnded = (take: Take): boolean =>
      (indexed.endsOf.get(handle) ?? []).some(one => one.at < last.to && end(one) > take.from)
    const live = sure.filter(
      one =>
        one.by.handle === handle &&
        one.to <= last.to &&
        one.spentFrom >= last.to &&
        one.ends > last.to + clockMsOf(indexed) &&
        !isEnded(one),
    )
    return live.length > UNSPENT_MAX
      ? [wrong(`${handle} holds ${live.length} unspent grants of one allowance`, byOf(live))]
      : []
  })
}

/** What is not spent before its grant expires is given back, so nothing passes on it after. */
function spentInTime({ indexed, takes }: Judged): Violation[] {
  return takes.flatMap(({ by, ends, isSure }) => {
    const calls = isSure ? (indexed.callsOf.get(by.grant!.jti) ?? []) : []
    const late = calls.find(call => done(call) && call.at > ends + clockMsOf(indexed))
    return late === undefined
      ? []
      : [wrong(`a call passed on ${by.grant!.jti} after it had expired`, [by, late])]
  })
}

type Window = Pick<WindowUse, 'of' | 'per'>

function windowRules(judged: Judged, countedMs: number): Violation[] {
  const { indexed, record } = judged
  const windows = new Map<string, Window>()
  for (const edit of record.edits)
    for (const { of, per } of edit.windows) windows.set(`${of} ${per}`, { of, per })
  return [...windows.values()].flatMap(window => {
    const groups = groupsOf(judged, window.per)
    return [
      ...[...groups.values()].flatMap(({ sure }) => [
        ...outlived(window, sure),
        ...overfull(judged, window, sure),
      ]),
      ...record.uses.flatMap(uses =>
        misread(uses, window, groups, { countedMs, clockMs: clockMsOf(indexed) }),
      ),
    ]
  })
}

/** Those that surely count in a window, and those that may. */
interface Group {
  sure: Take[]
  maybe: Take[]
}

/** By whose window it is, and when that begins. */
function groupsOf({ indexed, takes, whoseOf }: Judged, per: Period): Map<string, Group> {
  const clockMs = clockMsOf(indexed)
  const groups = new Map<string, Group>()
  for (const take of takes) {
    const starts = new Set([startOf(per, take.from - clockMs), startOf(per, take.to + clockMs)])
    for (const start of starts) {
      const key = `${whoseOf(take)} ${start}`
      const group = groups.get(key) ?? { sure: [], maybe: [] }
      groups.set(key, group)
      group.maybe.push(take)
      if (take.isSure && starts.size === 1) group.sure.push(take)
    }
  }
  return groups
}

function startOf(per: Period, at: number): number {
  return per === 'all' ? 0 : at - ((at + ZONE.offsetMs) % HOUR_MS)
}

/** What is taken in a window is spent in it or not at all. */
function outlived({ per }: Window, sure: readonly Take[]): Violation[] {
  if (per === 'all') return []
  return sure
    .filter(({ from, ends }) => ends > startOf(per, from) + HOUR_MS)
    .map(({ by }) => wrong(`${by.grant!.jti} outlives the window that it was taken in`, [by]))
}

/**
 * Of those that had been taken and not given back at some moment, the last to be taken found all others
 * counted, and so room for them all. What was spent is never given back.
 */
function overfull(judged: Judged, window: Window, sure: readonly Take[]): Violation[] {
  const spent = sure.filter(({ isSpent }) => isSpent)
  const tooMuchSpent = excess(judged, window, spent)
  const found =
    tooMuchSpent === undefined ? [] : [wrong(`${tooMuchSpent} were spent in ${nameOf(window)}`, byOf(spent))]
  for (const { to } of sure) {
    const counted = sure.filter(
      one => one.to <= to && (one.isSpent || one.ends > to + clockMsOf(judged.indexed)),
    )
    const tooMuch = excess(judged, window, counted)
    if (tooMuch !== undefined)
      return [...found, wrong(`${tooMuch} were used in ${nameOf(window)}`, byOf(counted))]
  }
  return found
}

/** In words, how much these take together, if that is above what any of the last of them can have found. */
function excess({ record }: Judged, window: Window, takes: readonly Take[]): string | undefined {
  const sum = takes.reduce((total, take) => total + amountOf(take, window), 0)
  const latest = takes.reduce((moment, { from }) => Math.max(moment, from), 0)
  const most = takes
    .filter(({ to }) => to >= latest)
    .reduce((max, take) => Math.max(max, mostFor(record, window, take)), 0)
  return sum > most ? `${sum} of ${most}` : undefined
}

/** The highest `max` that may have been in force when it was taken; nothing is within one that has ended. */
function mostFor({ edits }: AllowanceRecord, { of, per }: Window, { from, to }: Take): number {
  const known = edits.filter(one => done(one) && one.until < from)
  const version = known.reduce((latest, one) => Math.max(latest, one.makes), 0)
  return edits
    .filter(one => one.makes >= version && one.at < to)
    .map(({ open, windows }) => {
      const window = windows.find(one => one.of === of && one.per === per)
      return open ? (window?.max ?? Infinity) : 0
    })
    .reduce((max, one) => Math.max(max, one), 0)
}

/**
 * What she reads: all that was taken and cannot have been given back, and nothing whose grant expired a
 * minute ago.
 */
function misread(
  uses: Uses,
  window: Window,
  groups: ReadonlyMap<string, Group>,
  { countedMs, clockMs }: { countedMs: number; clockMs: number },
): Violation[] {
  const readings = uses.windows.filter(({ of, per }) => of === window.of && per === window.per)
  return readings.flatMap(({ whose, starts, used }) => {
    const key = `${whose} ${window.per === 'all' ? 0 : starts}`
    const { sure, maybe } = groups.get(key) ?? { sure: [], maybe: [] }
    const kept = sure.filter(one => one.to < uses.at && (one.isSpent || one.ends > uses.until + clockMs))
    const possible = maybe.filter(
      one =>
        one.from < uses.until && (one.spentFrom < uses.until || one.ends + clockMs + countedMs >= uses.at),
    )
    const [least, most] = [sumOf(kept, window), sumOf(possible, window)]
    const told = `${used} used in ${nameOf(window)}`
    return [
      ...(used < least ? [wrong(`${told}, where ${least} were taken and kept`, [...byOf(kept), uses])] : []),
      ...(used > most
        ? [wrong(`${told}, where ${most} may still be counted`, [...byOf(possible), uses])]
        : []),
    ]
  })
}

function amountOf({ share }: Take, { of }: Window): number {
  return of === 'calls' ? 1 : share.price
}

const sumOf = (takes: readonly Take[], window: Window): number =>
  takes.reduce((total, take) => total + amountOf(take, window), 0)

const nameOf = ({ of, per }: Window): string => `the window of ${of} per ${per}`

const byOf = (takes: readonly Take[]): Present[] => takes.map(({ by }) => by)

function wrong(says: string, ops: readonly Op[]): Violation {
  return { rule: 'allowance', says, ops: ops.map(({ n }) => n) }
}
