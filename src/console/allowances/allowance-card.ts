/**
 * Owns the words of an allowance's card: each number, tool, value and parameter that it names, and what
 * nothing bounds, so that nothing passes that these words would not let through. Contract: "Policy vocabulary
 * and tiers", "Owner API" (`/owner/allowances*`).
 */
import { CALLS } from '../../rules/allowance/operation.ts'
import { secondsText } from '../../rules/words/rule-words.ts'
import type { OwnerAllowance, ShownAllowance } from '../../wire/documents/allowance.ts'
import { canonicalize } from '../../wire/json.ts'
import { whenText } from '../parts/time.ts'
import { WORDS } from '../words.ts'
import { isOver, type LimitPlace } from './record.ts'

const W = WORDS.allowances

/**
 * A number of the allowance in words; `most` is the number itself, as decimal text. `ceiling` says that her
 * organization lets less through at what it governs.
 */
export interface CardLimit {
  readonly place: LimitPlace
  readonly text: string
  readonly most: string
  readonly ceiling?: string
}

/** Each number that bounds one operation, then each that bounds a window. */
export function limitsOf(allowance: ShownAllowance): CardLimit[] {
  const { amounts, windows, among } = allowance
  const each = among === 'lineage' ? W.each : ''
  const ofOne = amounts.flatMap(({ name, each_max: most }) =>
    most === undefined
      ? []
      : [{ place: { each: name }, most, text: W.inOne(name, amountText(allowance, name, most)) }],
  )
  const ofWindows = windows.map(({ of, per, max: most, ceiling }) => ({
    place: { of, per },
    most,
    text: `${windowText(allowance, { of, per, max: most })}${each}`,
    ...(ceiling === undefined ? {} : { ceiling: W.ceiling(`${amountText(allowance, of, ceiling)}${each}`) }),
  }))
  return [...ofOne, ...ofWindows]
}

/** A window in words, without what it is counted for. */
export function windowText(
  allowance: OwnerAllowance,
  { of, per, max }: OwnerAllowance['windows'][number],
): string {
  const time = Object.hasOwn(W.per, per) ? W.per[per]! : per
  return of === CALLS ? W.calls(max, time) : W.perWindow(of, amountText(allowance, of, max), time)
}

/** So much of an amount, with its unit, and whether a tier takes the tool's word for what it means. */
export function amountText(
  { amounts, tiers }: Pick<OwnerAllowance, 'amounts' | 'tiers'>,
  name: string,
  number: string,
): string {
  if (name === CALLS) return number
  const unit = amounts.find(one => one.name === name)?.unit
  const isCompared =
    unit !== undefined && Object.values(tiers).every(tier => tier.amounts[name]?.unit_pointer !== undefined)
  const text = unit === undefined ? number : `${number} ${unit}`
  return isCompared ? text : `${text} (${W.asCounted})`
}

/** What no number bounds, which she may not have meant. */
export function unboundedOf({ amounts, windows }: OwnerAllowance): string[] {
  const free = amounts.filter(
    ({ name, each_max }) => each_max === undefined && !windows.some(({ of }) => of === name),
  )
  return [...(windows.length === 0 ? [W.noWindow] : []), ...free.map(({ name }) => W.unbounded(name))]
}

/** For whom it is, until when, and how its windows follow each other; `nowSeconds` since the epoch. */
export function timeSentences(allowance: OwnerAllowance, nowSeconds: number): string[] {
  const { among, until, hold_s, windows, zone } = allowance
  const end = until === null ? W.noEnd : (isOver(allowance, nowSeconds) ? W.ended : W.until)(whenText(until))
  return [
    among === 'lineage' ? W.forEach : W.forAll,
    end,
    W.grants(secondsText(hold_s)),
    ...(windows.some(({ per }) => per !== 'all') ? [W.midnight(zone)] : []),
    ...(windows.length === 0 ? [] : [W.fromThen]),
    W.byHand,
  ]
}

/** What an operation at one tier must be like; texts of hers and of her servers are in it as they came. */
export interface TierLines {
  readonly tools: readonly string[]
  readonly amounts: readonly string[]
  readonly only: readonly { readonly pointer: string; readonly values: readonly string[] }[]
  readonly free: readonly string[]
}

/** Undefined if it does not name the tier. */
export function tierLines(allowance: OwnerAllowance, tier_id: string): TierLines | undefined {
  const tier = Object.hasOwn(allowance.tiers, tier_id) ? allowance.tiers[tier_id] : undefined
  if (tier === undefined) return undefined
  const amounts = allowance.amounts.flatMap(({ name, unit }) => {
    const place = Object.hasOwn(tier.amounts, name) ? tier.amounts[name] : undefined
    if (place === undefined) return []
    const { pointer, as, unit_pointer } = place
    const written = Object.hasOwn(W.as, as) ? W.as[as]! : as
    const ends =
      unit === undefined || unit_pointer === undefined ? W.withoutUnit : W.withUnit(unit_pointer, unit)
    return [`${W.place(name, pointer)}${written}${ends}`]
  })
  const only = tier.only.map(({ pointer, one_of }) => ({ pointer, values: one_of.map(canonicalize) }))
  return { tools: tier.tools, amounts, only, free: tier.free }
}

/** How much of a window is used, and how much is left, in numbers. */
export function useText(
  allowance: Pick<OwnerAllowance, 'amounts' | 'tiers'>,
  standing: { of: string; max: string; used: string; left: string },
): string {
  const { of, max, used, left } = standing
  return W.used(used, amountText(allowance, of, max), left)
}
