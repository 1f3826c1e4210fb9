/**
 * Owns how an owner reads her rules, and why a request came before her, in plain words. Contract: "Owner
 * API" (policies, pending), docs/choices.md (vocabulary). An authority of another version may know other
 * words: what is not known here is shown as it came.
 */
import { parseCondition } from '../rules/conditions.ts'
import type { PendingItem, Tier } from '../wire/owner-api.ts'

const UNITS = { d: 'day', h: 'hour', m: 'minute' } as const

const WHAT_A_RULE_DOES: ReadonlyMap<string, string> = new Map([
  ['auto', 'let it through'],
  ['ask', 'ask you'],
  ['refuse', 'refuse it'],
])

const WHAT_A_MATCH_DID: ReadonlyMap<string, string> = new Map([
  ['auto', 'a rule lets it through'],
  ['ask', 'a rule asks you'],
  ['refuse', 'a rule refuses it'],
])

const FIRST_CONTACT = 'you do not know this agent yet'

const WHY: ReadonlyMap<string, string> = new Map([
  ['first_contact', FIRST_CONTACT],
  ['baseline:ask_me', 'its tier asks you about each operation'],
  ['baseline:auto', 'its tier does not ask you about each operation'],
])

/**
 * Why a request came before her, in one line: `you do not know this agent yet; a rule asks you, as it gives
 * no reason`. A first contact comes before her whatever its tier says, so that is said first.
 */
export function becauseText({ kind, because }: Partial<Pick<PendingItem, 'kind' | 'because'>>): string {
  const first = kind === 'connection' ? [FIRST_CONTACT] : []
  return [...new Set([...first, ...(because ?? []).map(wordText)])].join('; ')
}

/** One word of `because`; a condition that could not be evaluated ends in `?` (see `rules/tier.ts`). */
function wordText(word: string): string {
  const colon = word.indexOf(':')
  const did = WHAT_A_MATCH_DID.get(word.slice(0, colon))
  if (did === undefined) return WHY.get(word) ?? word
  // A stored rule without conditions is refused, and has none to tell of.
  const rest = word.slice(colon + 1)
  if (rest === '') return did
  const reasons = rest
    .split('+')
    .map(written =>
      written.endsWith('?') ? `${conditionText(written.slice(0, -1))} (not known)` : conditionText(written),
    )
  return `${did}, as ${reasons.join(' and ')}`
}

/**
 * One condition as she reads it: `standing.age_below:90d` is `you have known this agent for less than 90
 * days`.
 */
export function conditionText(written: string): string {
  const parsed = parseCondition(written)
  if ('fault' in parsed) return written
  const { takes, label } = parsed.word
  if (takes === null) return label
  const value = written.slice(written.indexOf(':') + 1)
  return `${label} ${takes === 'duration' ? durationText(value) : value}`
}

/** One rule: `ask you when it gives no reason and it names no mission`. */
export function ruleText({ when, then }: Tier['rules'][number]): string {
  return `${WHAT_A_RULE_DOES.get(then) ?? then} when ${when.map(conditionText).join(' and ')}`
}

/** So many seconds in the largest unit that they are a whole number of: `5 minutes`. */
export function secondsText(seconds: number): string {
  for (const [unit, name] of [
    [86_400, 'day'],
    [3600, 'hour'],
    [60, 'minute'],
  ] as const)
    if (seconds >= unit && seconds % unit === 0) return counted(seconds / unit, name)
  return counted(seconds, 'second')
}

function durationText(written: string): string {
  const unit = UNITS[written.at(-1) as keyof typeof UNITS]
  return unit === undefined ? written : counted(Number.parseInt(written, 10), unit)
}

function counted(count: number, name: string): string {
  return `${count} ${name}${count === 1 ? '' : 's'}`
}
