/**
 * Owns how an owner reads her rules, and why a request came before her, in plain words. Contract: "Owner
 * API" (policies, pending), docs/choices.md (vocabulary). An authority of another version may know other
 * words: what is not known here is shown as it came.
 */
import { parseCondition } from '../rules/conditions.ts'
import type { Tier } from '../wire/owner-api.ts'

const UNITS = { d: 'day', h: 'hour', m: 'minute' } as const

const WHAT_A_RULE_DOES: ReadonlyMap<string, string> = new Map([
  ['auto', 'let it through'],
  ['ask', 'ask you'],
  ['refuse', 'refuse it'],
])

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
