/**
 * Owns the plain words in which an owner reads her rules, and why a request came to her. Contract: "Owner
 * API" (policies, pending), docs/choices.md (vocabulary). An authority of another version may know other
 * words: unknown words are shown as they came.
 */
import { LIMIT_WORD, parseCondition, type RequestFacts } from '../conditions.ts'
import { evaluateTier, mayLetThrough, type Rule } from '../tier.ts'
import type { PendingItem, Tier, VocabularyWord } from '../../wire/owner/owner-api.ts'

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

/** The part after the colon, depending on what a condition takes. */
const VALUES = {
  duration: '<duration>',
  count: '<count>',
  level: '<level>',
  class: '<class>',
  allowance: '<allowance>',
} as const

/** A condition as it is written in a rule: `standing.calls_above:<count>`. */
export function conditionForm({ condition, takes }: Pick<VocabularyWord, 'condition' | 'takes'>): string {
  return takes === null ? condition : `${condition}:${VALUES[takes]}`
}

/** How rules are written, for the help texts of commands that accept a tier. */
export const RULE_HELP = `
Rules, of which the strictest that fits decides (auto, ask, refuse):
  rules:
    - when: [standing.calls_above:100]            # <count>: recent calls
      then: ask
    - when: [standing.age_above:90d, standing.never_revoked]   # <duration>: 90d, 12h, 30m
      then: auto
    - when: [request.consequence_at_or_above:irreversible]     # <class>
      then: refuse
    - when: [assurance.provenance_below:1]         # <level>
      then: ask
\`usher owner vocabulary\` lists every condition.
`

const FIRST_CONTACT = 'you do not know this agent yet'

const WHY: ReadonlyMap<string, string> = new Map([
  ['first_contact', FIRST_CONTACT],
  ['revoked_before', 'you know this agent, and its access was ended; approving lets it in again'],
  ['baseline:ask_me', 'its tier asks you about each operation'],
  ['baseline:auto', 'its tier does not ask you about each operation'],
])

const ORGANIZATION_WORD = 'organization:'

/** Words of an organization that governs the resource; those for its own rules begin like those for hers. */
const WHY_THERE: ReadonlyMap<string, string> = new Map([
  ['always_ask', 'your organization has each operation there approved'],
])

/**
 * The limits of an allowance that an operation does not keep, by the first part of the word; `of` is the
 * rest, such as the name of an amount.
 */
const LIMITS: ReadonlyMap<string, (of: string) => string> = new Map<string, (of: string) => string>([
  ['until', () => 'the allowance has ended'],
  ['tiers', () => 'the allowance says nothing of this tier'],
  ['tools', () => 'the allowance does not name this tool'],
  ['amount', of => `the operation has no ${of} that can be counted`],
  ['each_max', of => `${of} is more than each operation may have`],
  ['unit', of => `${of} is in another unit`],
  ['only', of => `${of} is nothing that the allowance lists`],
  ['members', () => 'the operation has a parameter that the allowance does not name'],
  ['window', windowText],
  ['approval', () => 'the resource takes only what you approve'],
  ['unspent', () => 'the agent has as many unspent grants as an allowance lets it have'],
  ['ends', () => 'a grant would end at once'],
  ['issue', () => 'nothing was left when it was to be granted'],
  ['ceiling', ceilingText],
])

const IN_A_WINDOW: ReadonlyMap<string, string> = new Map([
  ['hour', 'this hour'],
  ['day', 'this day'],
  ['week', 'this week'],
  ['month', 'this month'],
  ['all', 'in all'],
])

function windowText(window: string): string {
  const [of = '', per = ''] = window.split(':')
  return `too little is left of ${of} ${IN_A_WINDOW.get(per) ?? per}`
}

/** `of`: nothing, an amount that is not counted as the organization demands, or a window that it lowered. */
function ceilingText(of: string): string {
  if (of === '') return 'your organization lets nothing through that no amount of the allowance counts'
  if (!of.includes(':')) return `your organization demands that ${of} is counted in its unit and spans`
  return `${windowText(of)} of what your organization lets through`
}

/**
 * Why a request came to her, in one line: `you do not know this agent yet; a rule asks you, as it gives no
 * reason`. A first contact comes to her whatever its tier says, so that is said first.
 */
export function becauseText({ kind, because }: Partial<Pick<PendingItem, 'kind' | 'because'>>): string {
  const first = kind === 'connection' ? [FIRST_CONTACT] : []
  const words = [...new Set([...first, ...(because ?? []).map(wordText)])]
  const isKnown = wasRevoked(because)
  return words.filter(word => !isKnown || word !== FIRST_CONTACT).join('; ')
}

/** Whether the agent was let in once, and its access has ended since. */
export function wasRevoked(because: readonly string[] | undefined): boolean {
  return because?.includes('revoked_before') === true
}

/**
 * Whether a rule that goes by her approval let the agent through at this tier when it asked, and whatever
 * asked her was about this operation alone. Approving then opens nothing that was not open. What it went by
 * may have ended since (the approval of another agent of its lineage), so nobody may say that it is open now.
 * What asks about the agent, such as `standing.first_at_tier`, may end by the grant, which opens the tier.
 */
export function wasOpen(because: readonly string[] | undefined): boolean {
  if (because?.some(word => /^auto:(?:.*\+)?standing\.approved_at_tier(?:\+|$)/.test(word)) !== true)
    return false
  return because.every(word => ASKS_NOTHING.test(word) || isAboutOperation(word))
}

/**
 * Whether the grant itself, with or without an approval at the tier, lets the agent go on there: one of the
 * rules that asked asks no more once the agent has its first grant, and what else asked may let a later
 * request through. Rules that did not match this request are not known here, so another may ask all the same.
 */
export function opensByGrant(because: readonly string[] = []): boolean {
  if (because.includes(`${ORGANIZATION_WORD}always_ask`)) return false
  const rules = because.flatMap(matchedRule)
  const asksNoMore = (rule: Rule): boolean =>
    evaluateTier({ ask_me: false, rules: [rule] }, AFTER_GRANT).effect === 'auto'
  return (
    rules.some(rule => rule.then === 'ask' && asksNoMore(rule)) &&
    mayLetThrough({ ask_me: because.includes('baseline:ask_me'), rules }, AFTER_GRANT)
  )
}

/**
 * What is known of a later request at the tier. An agent that was introduced, or revoked before, stays so;
 * that is looked at only if a rule that matched names it.
 */
const AFTER_GRANT: RequestFacts = {
  connection: 'active',
  standing: {
    approvedAtTier: undefined,
    neverRevoked: undefined,
    firstParty: undefined,
    firstAtTier: false,
    revokedBefore: true,
    introduced: true,
    lineageNewAtTier: false,
  },
  assurance: { binding: undefined, provenance: undefined, accountability: undefined },
  request: { expiresInSeconds: undefined, reasonAbsent: undefined, missionAbsent: undefined },
}

/**
 * The rule that matched, if the word is one. What an organization does not know of her agents it never knows,
 * so such a condition of its rules holds each time.
 */
function matchedRule(word: string): Rule[] {
  const isAbove = word.startsWith(ORGANIZATION_WORD)
  const [then, rest] = partsOf(isAbove ? word.slice(ORGANIZATION_WORD.length) : word)
  if (then !== 'ask' && then !== 'auto') return []
  const written = rest.split('+').filter(condition => !isAbove || !condition.endsWith('?'))
  return [{ then, when: written.map(condition => condition.replace(/\?$/, '')) }]
}

/** A word in two, at its first colon. */
function partsOf(word: string): [string, string] {
  const colon = word.indexOf(':')
  return [word.slice(0, colon), word.slice(colon + 1)]
}

const ASKS_NOTHING = /^(?:auto|baseline|limit):/

/** Whether this word is a rule that asks, each of whose conditions is about the operation that waits. */
function isAboutOperation(word: string): boolean {
  if (!word.startsWith('ask:')) return false
  const conditions = word.slice('ask:'.length).split('+')
  return conditions.every(condition => /^(?:operation|request)\./.test(condition))
}

/** One word of `because`; a condition that could not be evaluated ends in `?` (see `rules/tier.ts`). */
function wordText(word: string): string {
  if (word.startsWith(ORGANIZATION_WORD)) {
    const suffix = word.slice(ORGANIZATION_WORD.length)
    return WHY_THERE.get(suffix) ?? `your organization says: ${wordText(suffix)}`
  }
  if (word.startsWith(LIMIT_WORD)) return limitText(word.slice(LIMIT_WORD.length))
  const [then, rest] = partsOf(word)
  const did = WHAT_A_MATCH_DID.get(then)
  if (did === undefined) return WHY.get(word) ?? word
  // A rule without conditions is never stored, so there is always a condition.
  if (rest === '') return did
  const reasons = rest
    .split('+')
    .map(written =>
      written.endsWith('?') ? `${conditionText(written.slice(0, -1))} (not known)` : conditionText(written),
    )
  return `${did}, as ${reasons.join(' and ')}`
}

/** `window:price:day` is `too little is left of price this day`. */
function limitText(limit: string): string {
  const [what = '', ...rest] = limit.split(':')
  return LIMITS.get(what)?.(rest.join(':')) ?? `it does not keep the limit ${limit}`
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

/** The seconds in the largest unit that divides them: `5 minutes`. */
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
