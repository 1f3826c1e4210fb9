/**
 * Owns how the ceiling of an organization bounds what passes by an owner's allowance at a resource that it
 * governs. Contract: "The organization's authority" (envelope), "What the service does" (nothing above the
 * owner can widen). It only lowers: whatever is beyond an allowance stays beyond it under each ceiling.
 */
import type { OwnerAllowance } from '../../wire/documents/allowance.ts'
import { UNIT_MAX } from '../../wire/allowance-words.ts'
import type { AllowanceCeiling } from '../../wire/organization/charter.ts'
import { isAtMost } from '../allowance/decimal.ts'
import {
  judgeOperation,
  type AllowanceResult,
  type TierOperation,
  type WindowUse,
} from '../allowance/judge-operation.ts'

/**
 * Why a charter cannot bound allowances by these entries, as the place and a clause; undefined if it can. The
 * shape of each was checked before (src/wire/organization/charter.ts).
 */
export function allowanceCeilingsFault(ceilings: readonly AllowanceCeiling[]): string | undefined {
  for (const [at, { unit, per }] of ceilings.entries()) {
    if (unit.length > UNIT_MAX)
      return `[${at}].unit: give at most ${UNIT_MAX} characters, because no allowance has a longer unit`
    if (ceilings.findIndex(one => one.unit === unit && one.per === per) !== at)
      return `[${at}]: there is an entry of this \`unit\` and \`per\` already; keep one`
  }
  return undefined
}

/**
 * The ceiling of two together: whatever is within it is within both. Of a unit that both name it has the
 * lower number of each span, and of any other unit nothing. Undefined bounds nothing.
 */
export function narrowerCeilings(
  one: readonly AllowanceCeiling[] | undefined,
  other: readonly AllowanceCeiling[] | undefined,
): readonly AllowanceCeiling[] | undefined {
  if (one === undefined || other === undefined) return one ?? other
  const units = new Set(one.map(({ unit }) => unit))
  const others = new Set(other.map(({ unit }) => unit))
  const lowest = new Map<string, AllowanceCeiling>()
  for (const entry of [...one, ...other]) {
    const { unit, per, max } = entry
    if (!units.has(unit) || !others.has(unit)) continue
    // No span has a blank.
    const place = `${per} ${unit}`
    const known = lowest.get(place)
    lowest.set(place, known === undefined ? entry : { unit, per, max: lower(known.max, max) })
  }
  return [...lowest.values()]
}

/**
 * What a later list would let through beyond `bounds`: its entries that are higher, and those of `bounds` in
 * place of which it has none, although it names their unit.
 */
export function ceilingRises(
  bounds: readonly AllowanceCeiling[],
  later: readonly AllowanceCeiling[],
): { rises: AllowanceCeiling[]; ends: AllowanceCeiling[] } {
  const maxOf = (list: readonly AllowanceCeiling[], { unit, per }: AllowanceCeiling): string | undefined =>
    list.find(one => one.unit === unit && one.per === per)?.max
  const together = narrowerCeilings(bounds, later) ?? []
  return {
    rises: later.filter(one => !isAtMost(one.max, maxOf(together, one) ?? '')),
    ends: together.filter(one => maxOf(later, one) === undefined),
  }
}

/**
 * The allowance with the `max` of each window lowered to that of the ceiling, where the ceiling's is lower.
 * Without a ceiling it stays as it is.
 */
export function underAllowanceCeiling(
  allowance: OwnerAllowance,
  ceilings: readonly AllowanceCeiling[] | undefined,
): OwnerAllowance {
  if (ceilings === undefined) return allowance
  const windows = allowance.windows.map(window => {
    const unit = allowance.amounts.find(({ name }) => name === window.of)?.unit
    const bounds = ceilings.filter(one => one.unit === unit && one.per === window.per)
    return { ...window, max: bounds.reduce((least, { max }) => lower(least, max), window.max) }
  })
  return { ...allowance, windows }
}

/** The lower of two; if one of them cannot be read, what nothing is at most. */
function lower(one: string, other: string): string {
  if (isAtMost(one, other)) return one
  return isAtMost(other, one) ? other : ''
}

/**
 * Judges an operation at a governed resource as `judgeOperation` does, and by the ceiling besides: each
 * amount is compared with a unit that the ceiling names, and has a window for each entry of that unit. Her
 * own limits are told first. Those of the ceiling are `ceiling` (no amount is counted), `ceiling:<name>` (the
 * ceiling cannot bound this amount), and `ceiling:<of>:<per>` (only the ceiling leaves no room in this
 * window). Without a ceiling her allowance decides alone.
 */
// oxlint-disable-next-line eslint/max-params -- the allowance, the operation, what is used, and the ceiling
export function judgeUnderCeiling(
  allowance: OwnerAllowance,
  operation: TierOperation,
  uses: readonly WindowUse[],
  ceilings: readonly AllowanceCeiling[] | undefined,
): AllowanceResult {
  const own = judgeOperation(allowance, operation, uses)
  if (!own.within || ceilings === undefined) return own
  if (allowance.amounts.length === 0) return { within: false, limit: 'ceiling' }
  const unbound = unboundAmount(allowance, operation.tier_id, ceilings)
  if (unbound !== undefined) return { within: false, limit: `ceiling:${unbound}` }
  const judged = judgeOperation(underAllowanceCeiling(allowance, ceilings), operation, uses)
  return judged.within ? judged : { within: false, limit: judged.limit.replace(/^window:/, 'ceiling:') }
}

/**
 * The name of the first amount that the ceiling cannot bound at this tier. Two amounts of one unit are two
 * sums, of which a window counts one each, so the second is bounded by nothing.
 */
function unboundAmount(
  { amounts, windows, tiers }: OwnerAllowance,
  tier_id: string,
  ceilings: readonly AllowanceCeiling[],
): string | undefined {
  const places = Object.hasOwn(tiers, tier_id) ? tiers[tier_id]!.amounts : {}
  const isCompared = (name: string): boolean =>
    Object.hasOwn(places, name) && places[name]!.unit_pointer !== undefined
  const hasWindow = (name: string, per: string): boolean =>
    windows.some(window => window.of === name && window.per === per)
  return amounts.find(({ name, unit }, at) => {
    const entries = ceilings.filter(one => one.unit === unit)
    const isFirst = amounts.findIndex(other => other.unit === unit) === at
    const isBounded = entries.length > 0 && entries.every(({ per }) => hasWindow(name, per))
    return !(isBounded && isFirst && isCompared(name))
  })?.name
}
