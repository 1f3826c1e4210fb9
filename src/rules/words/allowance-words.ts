/**
 * Owns the card of an allowance: the lines in which its owner reads, at a terminal and on her page, what it
 * lets through without asking her. Each line makes sense alone, so that an edit is told as the lines that go
 * and those that come. Contract: "Policy vocabulary and tiers", "Owner API"; an addition
 * (docs/details/owner-api.md).
 */
import type {
  AllowancePeriod,
  OwnerAllowance,
  ShownAllowance,
  TierAllowance,
} from '../../wire/documents/allowance.ts'
import { canonicalize } from '../../wire/json.ts'
import { CALLS } from '../allowance/judge-operation.ts'
import { secondsText } from './rule-words.ts'

const PER: Readonly<Record<AllowancePeriod, string>> = {
  hour: 'an hour',
  day: 'a day',
  week: 'a week',
  month: 'a month',
  all: 'in all',
}

const AS: Readonly<Record<TierAllowance['amounts'][string]['as'], string>> = {
  number: 'as a number',
  string: 'as text',
  query: 'as the only value of its name',
}

const UNIT_OF_TOOL = 'as the tool counts'

/** What reads as one word in a sentence; anything else is quoted as JSON. */
const ONE_WORD = /^[\w./~@-]+$/

/** When the card is read, and how it shows a time in ISO 8601. */
export interface CardClock {
  readonly nowMs: number
  readonly timeText: (time: string) => string
}

/** All that an allowance says: what is counted and how far, until when, and what each tier lets through. */
export function allowanceLines(allowance: OwnerAllowance, clock: CardClock): string[] {
  return [
    whoseLine(allowance),
    ...limitLines(allowance),
    ...timeLines(allowance, clock),
    ...Object.keys(allowance.tiers).flatMap(id => tierLines(allowance, id).map(line => `at ${id}: ${line}`)),
    otherLine(allowance),
  ]
}

/** For whom its windows count. */
export function whoseLine({ among }: Pick<OwnerAllowance, 'among'>): string {
  return among === 'lineage'
    ? 'each agent, together with those that it introduced, has all of this for itself'
    : 'all your agents together have this'
}

/** One number of an allowance: the most of an amount in one operation, or the most of a window. */
export type LimitPlace = { readonly each: string } | { readonly of: string; readonly per: AllowancePeriod }

/** A number in words; `most` is the number itself, as decimal text. */
export interface CardLimit {
  readonly place: LimitPlace
  readonly text: string
  readonly most: string
  /** The number that her organization sets at what it governs, if that is lower. */
  readonly ceiling?: string
}

/** What an allowance says of numbers. */
type LimitMembers = Pick<ShownAllowance, 'among' | 'amounts' | 'windows' | 'tiers'>

/** Each number that bounds one operation, then each that bounds a window. */
export function limitsOf(allowance: LimitMembers): CardLimit[] {
  const { among, amounts, windows } = allowance
  const each = among === 'lineage' ? ', each' : ''
  const ofOne = amounts.flatMap(({ name, each_max: most }) => {
    if (most === undefined) return []
    const text = `${name}: at most ${quantityText(allowance, name, most)} in one operation`
    return [{ place: { each: name }, most, text }]
  })
  const ofWindows = windows.map(({ of, per, max: most, ceiling }) => ({
    place: { of, per },
    most,
    text: `${windowLimitText(allowance, { of, per, max: most })}${each}`,
    ...(ceiling === undefined ? {} : { ceiling: `${quantityText(allowance, of, ceiling)}${each}` }),
  }))
  return [...ofOne, ...ofWindows]
}

/** What no number bounds: one operation, or all of them together. */
export function unboundedLines({ amounts, windows }: Pick<LimitMembers, 'amounts' | 'windows'>): string[] {
  const isBounded = (name: string): boolean => windows.some(({ of }) => of === name)
  return [
    ...amounts
      .filter(({ each_max }) => each_max === undefined)
      .map(({ name }) => `${name}: any amount in one operation`),
    ...amounts.flatMap(({ name }) => (isBounded(name) ? [] : [`${name}: no limit on the sum`])),
    ...(isBounded(CALLS) ? [] : [`${CALLS}: no limit on how many`]),
  ]
}

/** How much each operation may be, and all of them together; that there is no limit is said as well. */
export function limitLines(allowance: LimitMembers): string[] {
  return [...limitsOf(allowance).map(({ text }) => text), ...unboundedLines(allowance)]
}

/**
 * A number of what a window counts: `200 CHF`, `5` calls, or `10 (as the tool counts)` and
 * `10 CHF (as the tool counts)` if some tier compares no unit.
 */
export function quantityText(
  allowance: Pick<OwnerAllowance, 'amounts' | 'tiers'>,
  of: string,
  number: string,
): string {
  if (of === CALLS) return number
  const unit = allowance.amounts.find(({ name }) => name === of)?.unit
  const text = unit === undefined ? number : `${number} ${wordText(unit)}`
  return isUnitCompared(allowance, of) ? text : `${text} (${UNIT_OF_TOOL})`
}

/** Whether each tier compares the unit of an amount; where one does not, it is a word for her alone. */
function isUnitCompared({ amounts, tiers }: Pick<OwnerAllowance, 'amounts' | 'tiers'>, of: string): boolean {
  return (
    amounts.some(({ name, unit }) => name === of && unit !== undefined) &&
    Object.values(tiers).every(tier => tier.amounts[of]?.unit_pointer !== undefined)
  )
}

/** What no tier lets through; a unit is among it only if each tier compares that of each amount. */
export function otherLine(allowance: Pick<OwnerAllowance, 'amounts' | 'tiers'>): string {
  const { amounts, tiers } = allowance
  if (Object.keys(tiers).length === 0) return 'it names no tier, so every operation is beyond it'
  const isUnit = amounts.length > 0 && amounts.every(({ name }) => isUnitCompared(allowance, name))
  return `any other tool, ${isUnit ? 'unit, ' : ''}value or parameter is beyond it`
}

type WindowMembers = OwnerAllowance['windows'][number]

/** What a window counts, and how long it is: `price a day`. */
export function windowText({ of, per }: Pick<WindowMembers, 'of' | 'per'>): string {
  return `${of} ${wordIn(PER, per)}`
}

/** How much a window lets through, without for whom: `price: at most 200 CHF a day`. */
export function windowLimitText(
  allowance: Pick<OwnerAllowance, 'amounts' | 'tiers'>,
  { of, per, max }: WindowMembers,
): string {
  return `${of}: at most ${quantityText(allowance, of, max)} ${wordIn(PER, per)}`
}

/** How its windows follow each other, when it ends, and how long what it lets through is good. */
export function timeLines(allowance: OwnerAllowance, clock: CardClock): string[] {
  return [
    ...calendarLines(allowance),
    endLine(allowance, clock),
    `a grant is good for one operation, for at most ${secondsText(allowance.hold_s)}`,
  ]
}

/** A window of the calendar bounds itself alone, not any 24 hours, and begins empty. */
function calendarLines({ zone, windows }: OwnerAllowance): string[] {
  if (windows.length === 0) return []
  const [ofCalendar] = windows.filter(({ per }) => per !== 'all')
  return [
    ...(ofCalendar === undefined
      ? []
      : [
          `hours, days, weeks (from Monday) and months are those of ${zone}`,
          'across the end of one, such as midnight, twice its limit can pass within minutes',
        ]),
    'a limit that an edit adds counts what is granted from then on',
  ]
}

function endLine({ until }: OwnerAllowance, { nowMs, timeText }: CardClock): string {
  if (until === null) return 'it has no end'
  return Date.parse(until) > nowMs
    ? `it ends at ${timeText(until)}; then every operation is beyond it`
    : `it ended at ${timeText(until)}; every operation is beyond it`
}

/** What an operation at one tier must be like; none if the allowance does not name the tier. */
export function tierLines({ amounts, tiers }: OwnerAllowance, id: string): string[] {
  const tier = Object.hasOwn(tiers, id) ? tiers[id] : undefined
  if (tier === undefined) return []
  return [
    `the tools ${tier.tools.map(wordText).join(', ')}`,
    ...Object.entries(tier.amounts).map(([name, { pointer, as, unit_pointer }]) => {
      const unit = amounts.find(one => one.name === name)?.unit ?? null
      const counted =
        unit_pointer === undefined
          ? UNIT_OF_TOOL
          : `and ${wordText(unit_pointer)} must be exactly ${canonicalize(unit)}`
      return `${name} stands at ${wordText(pointer)} ${wordIn(AS, as)}, ${counted}`
    }),
    ...tier.only.map(
      ({ pointer, one_of }) =>
        `${wordText(pointer)} must be exactly ${one_of.map(value => canonicalize(value)).join(' or ')}`,
    ),
    ...tier.free.map(pointer => `${wordText(pointer)} may say anything`),
  ]
}

/** A text that another chose: one word, or quoted as JSON, so that no sentence of ours goes on in it. */
export function wordText(text: string): string {
  return ONE_WORD.test(text) ? text : canonicalize(text)
}

/** What stands for a name. An authority of another version may have other names: they stay as they are. */
function wordIn(words: Readonly<Record<string, string>>, name: string): string {
  return Object.hasOwn(words, name) ? words[name]! : name
}

/** What an edit changes, as lines of the card: those that hold no longer, and those that come. */
export function changedLines(
  before: OwnerAllowance,
  after: OwnerAllowance,
  clock: CardClock,
): { goes: string[]; comes: string[] } {
  const [was, becomes] = [allowanceLines(before, clock), allowanceLines(after, clock)]
  return {
    goes: was.filter(line => !becomes.includes(line)),
    comes: becomes.filter(line => !was.includes(line)),
  }
}
