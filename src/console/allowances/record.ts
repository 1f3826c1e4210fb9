/**
 * Owns her allowances as the page reads them, what lowers or ends one, and how the use of a window is told.
 * Contract: "Owner API" (`/owner/allowances*`).
 */
import { isAtMost } from '../../rules/allowance/decimal.ts'
import { CALLS } from '../../rules/allowance/judge-operation.ts'
import { quantityText, type LimitPlace } from '../../rules/words/allowance-words.ts'
import { DECIMAL } from '../../wire/decimal.ts'
import type { AllowancePeriod, OwnerAllowance, ShownAllowance } from '../../wire/documents/allowance.ts'
import { isSame } from '../rules/draft.ts'
import { WORDS } from '../words.ts'

/**
 * A window as it stands now. Numbers are decimal text: `used` is all that is taken, and `held` the part of it
 * in live grants that are not spent. `ends` is null if the window never begins anew.
 */
export interface ListedWindow {
  of: string
  per: AllowancePeriod
  max: string
  used: string
  held: string
  left: string
  starts: string
  ends: string | null
}

/** The windows of all her agents; or those of the lineage of `whose`, a handle. */
export interface ListedUse {
  whose?: string
  windows: ListedWindow[]
}

/**
 * `use` is left out by an authority that does not say it, and empty if it cannot be told; `more`: it names
 * only the latest lineages; `held_more`: more is in unspent grants than it says.
 */
export type ListedAllowance = ShownAllowance & { use?: ListedUse[]; more?: true; held_more?: true }

/** What she stores: all but the name and the version. */
export type AllowanceMembers = Omit<OwnerAllowance, 'id' | 'version'>

/** The members of an allowance, without what is only told about it, such as the `ceiling` of a window. */
export function membersOf(allowance: OwnerAllowance): AllowanceMembers {
  const { zone, among, until, hold_s, amounts, tiers } = allowance
  const windows = allowance.windows.map(({ of, per, max }) => ({ of, per, max }))
  return { zone, among, until, hold_s, amounts, windows, tiers }
}

/** Whether `to` is a number that an allowance accepts at this place, and lower than the present one. */
export function isLower(place: LimitPlace, to: string, present: string): boolean {
  if ('of' in place && place.of === CALLS && to.includes('.')) return false
  return DECIMAL.test(to) && isAtMost(to, present) && !isAtMost(present, to)
}

/** The allowance with this number in place of the one that is there. */
export function withNumber(allowance: OwnerAllowance, place: LimitPlace, to: string): AllowanceMembers {
  const members = membersOf(allowance)
  if ('each' in place) {
    const amounts = members.amounts.map(one => (one.name === place.each ? { ...one, each_max: to } : one))
    return { ...members, amounts }
  }
  const windows = members.windows.map(one =>
    one.of === place.of && one.per === place.per ? { ...one, max: to } : one,
  )
  return { ...members, windows }
}

/** An edit of hers that is stored, and what she was shown of the allowance when she began it. */
export interface StoredEdit {
  over: OwnerAllowance
  stored: OwnerAllowance
}

/**
 * The version over which she stores another edit, which she began when she was shown `begun`. If `begun` says
 * what her stored edit replaced, nothing but that edit came since, and the other one is stored over it. If
 * not, the other one stays over what she was shown, and is refused.
 */
export function baseAfter(begun: OwnerAllowance, { over, stored }: StoredEdit): OwnerAllowance {
  return isSame(membersOf(begun), membersOf(over)) ? stored : begun
}

/** How far the page's idea of the server's clock may be ahead of it. */
const CLOCK_SECONDS = 5

/** The allowance with its end in the past, also by a clock that is a little behind `nowSeconds`. */
export function endedAt(allowance: OwnerAllowance, nowSeconds: number): AllowanceMembers {
  const until = new Date((nowSeconds - CLOCK_SECONDS) * 1_000).toISOString()
  return { ...membersOf(allowance), until }
}

/** Whether its end has come; `nowSeconds` since the epoch. */
export function isOver({ until }: Pick<OwnerAllowance, 'until'>, nowSeconds: number): boolean {
  return until !== null && Date.parse(until) <= nowSeconds * 1_000
}

/**
 * Whether an allowance says all that she wanted stored. If both have ended by `nowSeconds` since the epoch,
 * they may have ended at different times.
 */
export function saysSame(stored: OwnerAllowance, body: AllowanceMembers, nowSeconds: number): boolean {
  const haveEnded = isOver(stored, nowSeconds) && isOver(body, nowSeconds)
  return isSame(membersOf(stored), haveEnded ? { ...body, until: stored.until } : body)
}

/**
 * Whether no number at all bounds one of its amounts, or all that it lets through, which she may not have
 * meant.
 */
export function isBoundless({ amounts, windows }: Pick<OwnerAllowance, 'amounts' | 'windows'>): boolean {
  return (
    windows.length === 0 ||
    amounts.some(({ name, each_max }) => each_max === undefined && windows.every(({ of }) => of !== name))
  )
}

/** How much of a window is used, and how much is left, in numbers. */
export function useText(
  allowance: Pick<OwnerAllowance, 'amounts' | 'tiers'>,
  { of, max, used, left }: Pick<ListedWindow, 'of' | 'max' | 'used' | 'left'>,
): string {
  return WORDS.allowances.used(used, quantityText(allowance, of, max), left)
}

/** The window of all her agents at this place, if the allowance is counted for all of them together. */
export function standingAt({ among, use }: ListedAllowance, place: LimitPlace): ListedWindow | undefined {
  if (among !== 'all' || 'each' in place) return undefined
  return use?.[0]?.windows.find(({ of, per }) => of === place.of && per === place.per)
}

/**
 * When the clock next makes untrue what a page shows of allowances, because one ends or a window begins anew:
 * milliseconds since the epoch, later than `nowMs`; undefined if it never does.
 */
export function nextTurnMs(allowances: readonly ListedAllowance[], nowMs: number): number | undefined {
  const windows = allowances.flatMap(({ use = [] }) => use.flatMap(one => one.windows))
  const times = [...allowances.map(({ until }) => until), ...windows.map(({ ends }) => ends)]
  const coming = times.map(time => Date.parse(time ?? '')).filter(at => at > nowMs)
  return coming.length === 0 ? undefined : coming.reduce((least, at) => Math.min(least, at))
}

/** How a bar is divided, in hundredths of its length. Only for the picture: the numbers stand beside it. */
export interface BarParts {
  spent: number
  open: number
}

/** A window that holds nothing is full. */
export function barOf(standing: Pick<ListedWindow, 'max' | 'used' | 'held'>): BarParts {
  const max = Number(standing.max)
  if (!(max > 0)) return { spent: 100, open: 0 }
  const part = (amount: number): number => Math.min(Math.max((amount / max) * 100, 0), 100)
  const used = part(Number(standing.used))
  const open = Math.min(part(Number(standing.held)), used)
  return { spent: used - open, open }
}
