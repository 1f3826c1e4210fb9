/**
 * Owns what an allowance may say when it is saved, and what an edit may change of it. Contract: "Policy
 * vocabulary and tiers", "Owner API".
 */
import type { AllowanceContent, OwnerAllowance, TierAllowance } from '../../wire/documents/allowance.ts'
import type { Json } from '../../wire/json.ts'
import { CALLS, pointersOf } from './judge-operation.ts'

/** How many allowances one owner may have. */
export const ALLOWANCES_MAX = 100
/** How many tiers one allowance may name. */
const TIERS_MAX = 16
/** Characters of its JSON: a list of all that an owner may have then fits into one answer. */
const CHARACTERS_MAX = 30_000
/**
 * How deep a value in `only` may be nested. Her ledger and her archive hold it deeper than her request did,
 * and nobody reads JSON over `JSON_DEPTH_MAX`: one such value would close all of it to her clients.
 */
const VALUE_DEPTH_MAX = 32

/**
 * Why the allowance cannot be saved, as the sentence of a 400, or undefined. Its shape was checked before
 * (src/wire/documents/allowance.ts).
 */
export function allowanceFault(content: AllowanceContent): string | undefined {
  return sizeFault(content) ?? amountsFault(content) ?? windowsFault(content) ?? tiersFault(content)
}

function sizeFault({ amounts, windows, tiers }: AllowanceContent): string | undefined {
  if (Object.keys(tiers).length > TIERS_MAX)
    return `tiers: name at most ${TIERS_MAX} tiers; make another allowance for the others.`
  // What is used may come with it, as it was read, and is not stored.
  return JSON.stringify({ amounts, windows, tiers }).length > CHARACTERS_MAX
    ? `Keep the allowance within ${CHARACTERS_MAX} characters; split it into several.`
    : undefined
}

function amountsFault({ amounts }: AllowanceContent): string | undefined {
  const names = amounts.map(({ name }) => name)
  const at = names.findIndex((name, i) => name === CALLS || names.indexOf(name) !== i)
  if (at === -1) return undefined
  return names[at] === CALLS
    ? `amounts[${at}].name: use another name; \`${CALLS}\` counts calls.`
    : `amounts[${at}].name: it is listed twice; list it once.`
}

function windowsFault({ amounts, windows }: AllowanceContent): string | undefined {
  for (const [at, { of, per, max }] of windows.entries()) {
    if (of !== CALLS && !amounts.some(({ name }) => name === of))
      return `windows[${at}].of: write \`${CALLS}\`, or the name of one of the amounts.`
    if (of === CALLS && max.includes('.')) return `windows[${at}].max: give a whole number of calls.`
    if (windows.findIndex(other => other.of === of && other.per === per) !== at)
      return `windows[${at}]: there is a window of this \`of\` and \`per\` already; keep one.`
  }
  return undefined
}

function tiersFault({ amounts, tiers }: AllowanceContent): string | undefined {
  for (const [id, tier] of Object.entries(tiers)) {
    const fault =
      toolsFault(tier) ??
      placesFault(amounts, tier) ??
      pointersFault(tier) ??
      valuesFault(tier) ??
      nulFault(tier)
    if (fault !== undefined) return `tiers.${id}.${fault}`
  }
  return undefined
}

function toolsFault({ tools }: TierAllowance): string | undefined {
  const at = tools.findIndex((tool, i) => tools.indexOf(tool) !== i)
  return at === -1 ? undefined : `tools[${at}]: it is listed twice; list it once.`
}

/** Each amount stands somewhere, because an operation that does not say it could not be counted. */
function placesFault(
  amounts: OwnerAllowance['amounts'],
  { amounts: places }: TierAllowance,
): string | undefined {
  const missing = amounts.find(({ name }) => !Object.hasOwn(places, name))
  if (missing !== undefined)
    return `amounts: give the pointer of \`${missing.name}\`, because each amount is counted at each tier.`
  for (const [name, { unit_pointer }] of Object.entries(places)) {
    const amount = amounts.find(one => one.name === name)
    if (amount === undefined)
      return `amounts.${name}: the allowance has no amount of this name; add it there.`
    if (unit_pointer !== undefined && amount.unit === undefined)
      return `amounts.${name}.unit_pointer: give the amount a \`unit\` to compare with, or leave this out.`
  }
  return undefined
}

function pointersFault(tier: TierAllowance): string | undefined {
  const pointers = pointersOf(tier)
  const again = (list: readonly string[]): number => list.findIndex((one, i) => list.indexOf(one) !== i)
  const twice = again(tier.only.map(({ pointer }) => pointer))
  if (twice !== -1) return `only[${twice}]: this pointer is listed twice; put its values into one \`one_of\`.`
  const free = again(tier.free)
  if (free !== -1) return `free[${free}]: it is listed twice; list it once.`
  for (const { pointer, unit_pointer } of Object.values(tier.amounts)) {
    if (unit_pointer === pointer) return 'amounts: an amount and its unit cannot stand at one place.'
    const below = pointers.find(
      other => other.startsWith(`${pointer}/`) || other.startsWith(`${unit_pointer ?? pointer}/`),
    )
    if (below !== undefined)
      return `amounts: nothing stands below an amount or its unit, so no operation has \`${below}\`; correct it.`
  }
  return undefined
}

function valuesFault({ only }: TierAllowance): string | undefined {
  const at = only.findIndex(({ one_of }) => one_of.some(value => isDeeperThan(VALUE_DEPTH_MAX, value)))
  return at === -1
    ? undefined
    : `only[${at}].one_of: nest a value at most ${VALUE_DEPTH_MAX} deep; point at a member of it instead.`
}

function isDeeperThan(depth: number, value: Json): boolean {
  if (typeof value !== 'object' || value === null) return false
  return depth === 0 || Object.values(value).some(inner => isDeeperThan(depth - 1, inner))
}

/**
 * Postgres stores JSON in which a text has NUL, and then reads no member of it: every operation would be
 * beyond the allowance, and nobody could read what is used of it. Units and tools have no control characters.
 */
function nulFault({ amounts, only, free }: TierAllowance): string | undefined {
  const texts: [place: string, value: Json][] = [
    ...Object.entries(amounts).flatMap(([name, { pointer, unit_pointer = '' }]): [string, Json][] => [
      [`amounts.${name}.pointer`, pointer],
      [`amounts.${name}.unit_pointer`, unit_pointer],
    ]),
    ...only.flatMap(({ pointer, one_of }, at): [string, Json][] => [
      [`only[${at}].pointer`, pointer],
      [`only[${at}].one_of`, one_of],
    ]),
    ...free.map((pointer, at): [string, Json] => [`free[${at}]`, pointer]),
  ]
  const found = texts.find(([, value]) => hasNul(value))
  return found && `${found[0]}: leave out the character NUL, because no text with it can be stored.`
}

function hasNul(value: Json): boolean {
  if (typeof value === 'string') return value.includes('\0')
  if (typeof value !== 'object' || value === null) return false
  return Object.entries(value).some(([name, inner]) => name.includes('\0') || hasNul(inner))
}

/**
 * Why an edit is refused, as the sentence of a 409, or undefined: what was counted must go on meaning what it
 * meant. Her other terms may change freely, because editing an allowance withdraws nothing.
 */
export function allowanceEditFault(before: OwnerAllowance, content: AllowanceContent): string | undefined {
  const fixed = 'it is fixed when an allowance is made; leave it, or make another allowance.'
  if (content.zone !== undefined && content.zone !== before.zone) return `zone: ${fixed}`
  if (content.among !== undefined && content.among !== before.among) return `among: ${fixed}`
  for (const { name, unit } of before.amounts) {
    const after = content.amounts.find(one => one.name === name)
    if (after === undefined)
      return `amounts: keep \`${name}\`, under which amounts were counted; or make another allowance.`
    if (after.unit !== unit)
      return `amounts: leave the unit of \`${name}\` as it is, or make another allowance.`
  }
  return undefined
}
