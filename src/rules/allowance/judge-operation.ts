/**
 * Owns whether one operation is within an allowance. What the owner did not name is beyond it. Contract:
 * "Policy vocabulary and tiers", "RPT claims" (`operation`).
 */
import { canonicalize, isJsonObject, type Json, type JsonObject } from '../../wire/json.ts'
import { parsePointer, pointerTo } from '../../wire/json-pointer.ts'
import { DECIMAL } from '../../wire/decimal.ts'
import type { AllowancePeriod, OwnerAllowance, TierAllowance } from '../../wire/documents/allowance.ts'
import type { Operation } from '../agreement.ts'
import { isAtMost, sumOf } from './decimal.ts'

/** What a window counts that counts no amount. */
export const CALLS = 'calls'

/** An operation at a tier, and the time in seconds since the epoch. */
export interface TierOperation {
  readonly tier_id: string
  readonly operation: Operation
  readonly now: number
}

/** How much was used in the present window of an `of` and a `per`, as decimal text. */
export interface WindowUse {
  readonly of: string
  readonly per: AllowancePeriod
  readonly used: string
}

/**
 * Within, with what it takes of each amount; or the first limit that it does not keep, in words that hold
 * nothing of the agent's: `until`, `tiers`, `tools`, `amount:<name>`, `each_max:<name>`, `unit:<name>`,
 * `only:<pointer>`, `members`, `window:<of>:<per>`.
 */
export type AllowanceResult =
  | { readonly within: true; readonly amounts: Readonly<Record<string, string>> }
  | { readonly within: false; readonly limit: string }

/**
 * Judges an operation by an allowance. `uses` has one entry for each of its windows: a window of which nobody
 * knows how much was used has no room. The parameters must come from `parseJson`, so no member stands twice.
 */
export function judgeOperation(
  allowance: OwnerAllowance,
  { tier_id, operation: { tool, params }, now }: TierOperation,
  uses: readonly WindowUse[],
): AllowanceResult {
  const { until, tiers } = allowance
  if (until !== null && !(now * 1000 < Date.parse(until))) return beyond('until')
  const tier = Object.hasOwn(tiers, tier_id) ? tiers[tier_id] : undefined
  if (tier === undefined) return beyond('tiers')
  if (!tier.tools.includes(tool)) return beyond('tools')
  const amounts: Record<string, string> = {}
  for (const amount of allowance.amounts) {
    const read = amountIn(params, amount, tier)
    if ('limit' in read) return beyond(`${read.limit}:${amount.name}`)
    amounts[amount.name] = read.amount
  }
  const limit =
    brokenOnly(tier, params) ??
    (unnamedMembers(tier, params).length === 0 ? undefined : 'members') ??
    fullWindow(allowance, amounts, uses)
  return limit === undefined ? { within: true, amounts } : beyond(limit)
}

function beyond(limit: string): AllowanceResult {
  return { within: false, limit }
}

/** The value at a pointer, which passes through objects alone; undefined if nothing stands there. */
function valueAt(params: JsonObject, pointer: string): Json | undefined {
  const steps = parsePointer(pointer)
  if (steps === undefined) return undefined
  let value: Json | undefined = params
  for (const step of steps) {
    if (!isJsonObject(value) || !Object.hasOwn(value, step)) return undefined
    value = value[step]
  }
  return value
}

/**
 * What the operation says of an amount, as decimal text. The spelling of a number is that of RFC 8785, which
 * an approval binds too: `-0` is `0` there, and a number that it writes with an exponent is no amount.
 */
function amountIn(
  params: JsonObject,
  { name, unit, each_max }: OwnerAllowance['amounts'][number],
  { amounts }: TierAllowance,
): { amount: string } | { limit: 'amount' | 'each_max' | 'unit' } {
  const place = Object.hasOwn(amounts, name) ? amounts[name] : undefined
  if (place === undefined) return { limit: 'amount' }
  const value = valueAt(params, place.pointer)
  const amount = place.as === 'number' ? numberText(value) : textIn(value, place.as)
  if (amount === undefined || !DECIMAL.test(amount)) return { limit: 'amount' }
  if (each_max !== undefined && !isAtMost(amount, each_max)) return { limit: 'each_max' }
  if (place.unit_pointer === undefined) return { amount }
  const unitText = textIn(valueAt(params, place.unit_pointer), place.as)
  return unit !== undefined && unitText === unit ? { amount } : { limit: 'unit' }
}

function numberText(value: Json | undefined): string | undefined {
  return typeof value === 'number' ? String(value) : undefined
}

/** The text that stands there; in a query, the only one of its name. */
function textIn(value: Json | undefined, as: 'number' | 'string' | 'query'): string | undefined {
  if (as !== 'query') return typeof value === 'string' ? value : undefined
  if (!Array.isArray(value) || value.length !== 1) return undefined
  const [one] = value
  return typeof one === 'string' ? one : undefined
}

/** The first `only` whose value is missing, or is none of its own by the bytes of RFC 8785. */
function brokenOnly({ only }: TierAllowance, params: JsonObject): string | undefined {
  for (const { pointer, one_of } of only) {
    const value = valueAt(params, pointer)
    const text = value === undefined ? undefined : canonicalize(value)
    if (text === undefined || !one_of.some(one => canonicalize(one) === text)) return `only:${pointer}`
  }
  return undefined
}

/** The members that an allowance names at a tier, as a tree; `isNamed` at those where a pointer ends. */
interface NamedMembers {
  isNamed: boolean
  readonly members: Map<string, NamedMembers>
}

function placesOf(tier: TierAllowance): NamedMembers {
  const root: NamedMembers = { isNamed: false, members: new Map() }
  for (const pointer of pointersOf(tier)) {
    const steps = parsePointer(pointer)
    if (steps === undefined) continue
    let at = root
    for (const step of steps) {
      const next = at.members.get(step) ?? { isNamed: false, members: new Map() }
      at.members.set(step, next)
      at = next
    }
    at.isNamed = true
  }
  return root
}

/** Every pointer of a tier: of amounts, of their units, of `only` and of `free`. */
export function pointersOf({ amounts, only, free }: TierAllowance): string[] {
  const ofAmounts = Object.values(amounts).flatMap(({ pointer, unit_pointer }) =>
    unit_pointer === undefined ? [pointer] : [pointer, unit_pointer],
  )
  return [...ofAmounts, ...only.map(({ pointer }) => pointer), ...free]
}

/**
 * The members of an operation that a tier of an allowance does not name, as JSON pointers: none of them
 * stands at a named place, below one, or is an object on the way to one. What stands at the place of an
 * amount or a unit is read by itself, and nothing is below it.
 */
export function unnamedMembers(tier: TierAllowance, params: JsonObject): string[] {
  return unnamedIn(params, placesOf(tier), '')
}

function unnamedIn(object: JsonObject, { members }: NamedMembers, above: string): string[] {
  return Object.entries(object).flatMap(([name, value]) => {
    const place = members.get(name)
    if (place?.isNamed === true) return []
    const pointer = pointerTo(above, name)
    return place !== undefined && isJsonObject(value) ? unnamedIn(value, place, pointer) : [pointer]
  })
}

/** The first window that has no room for it, or of which no use is known. */
function fullWindow(
  { windows }: OwnerAllowance,
  amounts: Readonly<Record<string, string>>,
  uses: readonly WindowUse[],
): string | undefined {
  const full = windows.find(({ of, per, max }) => {
    const use = uses.find(one => one.of === of && one.per === per)
    const share = of === CALLS ? '1' : Object.hasOwn(amounts, of) ? amounts[of] : undefined
    const sum = use === undefined || share === undefined ? undefined : sumOf(use.used, share)
    return sum === undefined || !isAtMost(sum, max)
  })
  return full && `window:${full.of}:${full.per}`
}
