/**
 * Owns the sentences in which a member reads a charter: what it binds her to, and what a later one would
 * enlarge. Contract: "The organization's authority" (preview: the charter in sentences, before joining). Both
 * the organization and her own server make them by this code, so that what a charter says stands in them as a
 * name, a number or a word of a list, and in no other place.
 */
import type { AllowancePeriod } from '../../wire/allowance-words.ts'
import type { MemberView } from '../../wire/documents/member-view.ts'
import {
  VIEW_TEXT_MAX,
  type AllowanceCeiling,
  type Charter,
  type CharterBreakGlass,
  type Delegation,
} from '../../wire/organization/charter.ts'
import { wordText } from '../words/allowance-words.ts'
import { ceilingRises } from './allowance-ceiling.ts'

/** The parts of a view that could bind her. */
export type ViewBinding = Pick<
  MemberView,
  | 'claims'
  | 'break_glass'
  | 'max_expires_in'
  | 'allowed_scopes'
  | 'require_prohibited'
  | 'always_ask'
  | 'require_clearance'
  | 'max_allowance'
  | 'grants'
  | 'delegation'
> & { identity_provider: { issuer: string } | null }

/** All that could bind her, in sentences about `name`. */
export function bindingSentences(name: string, view: ViewBinding): string[] {
  const { claims, grants, allowed_scopes } = view
  return [
    ...(claims.length === 0
      ? [`${name} claims none of your resources.`]
      : sentences(claims, list => `${name} governs ${list} among your resources.`)),
    ...(grants.length === 0
      ? ['It shares none of them with you.']
      : sentences(grants, list => `It shares ${list} with you.`)),
    DELEGATION_SAYS[view.delegation],
    `Access to them lasts at most ${view.max_expires_in} seconds.`,
    ...(allowed_scopes === null
      ? []
      : allowed_scopes.length === 0
        ? ['No scope of them may be given.']
        : sentences(allowed_scopes, (list, isFirst) =>
            isFirst ? `Only these scopes may be given: ${list}.` : `And these: ${list}.`,
          )),
    ...view.require_prohibited.map(one => `Agents must promise not to: ${one}.`),
    ...sentences(view.always_ask, list => `Every operation on ${list} needs somebody's approval.`),
    ...Object.entries(view.require_clearance).flatMap(([fact, values]) =>
      sentences(
        values,
        (list, isFirst) =>
          isFirst
            ? `An agent may act for you there only if ${fact} is ${list}.`
            : `Or if ${fact} is ${list}.`,
        ' or ',
      ),
    ),
    ...allowanceSentences(view.max_allowance),
    ...emergencySentences(view.break_glass),
    ...(view.identity_provider === null ? [] : [`${view.identity_provider.issuer} vouches for who you are.`]),
  ]
}

/** Where no rule of hers counts although a later view asks for no approval, in sentences. */
export function approvalSentences(patterns: readonly string[]): string[] {
  return sentences(
    patterns,
    list =>
      `Of what it governs, no rule of yours lets an operation on ${list} through before you have agreed again.`,
  )
}

function allowanceSentences(ceilings: readonly AllowanceCeiling[] | undefined): string[] {
  if (ceilings === undefined) return []
  if (ceilings.length === 0) return ['Nothing there passes by an allowance of yours.']
  return [
    ...ceilings.map(
      ({ max, ...place }) => `An allowance may let through at most ${max} ${countedText(place)} there.`,
    ),
    'An allowance lets through nothing there that it counts in no such unit and time.',
    'Each allowance is bounded by itself, and for each agent if it counts each.',
  ]
}

/**
 * How much more a later view lets through by an allowance of hers, in sentences; `bounds` is what holds until
 * she has agreed again.
 */
export function allowanceEnlargements(
  bounds: readonly AllowanceCeiling[] | undefined,
  later: readonly AllowanceCeiling[] | undefined,
): string[] {
  if (bounds === undefined) return []
  // Another version may have stored what nobody here can read: it lets nothing through.
  if (![bounds, later ?? []].every(Array.isArray)) return ['It would bound your allowances in another way.']
  if (later === undefined) return ['It would not bound what your allowances let through there.']
  const { rises, ends } = ceilingRises(bounds, later)
  return [
    ...rises.map(
      ({ max, ...place }) => `An allowance could let through up to ${max} ${countedText(place)} there.`,
    ),
    ...ends.map(place => `An allowance could let through any amount of ${countedText(place)} there.`),
  ]
}

/** The organization chooses the unit, and could go on in it with a sentence that we did not write. */
function countedText({ unit, per }: Pick<AllowanceCeiling, 'unit' | 'per'>): string {
  return `${wordText(unit)} ${SPAN_SAYS[per]}`
}

const SPAN_SAYS: Record<AllowancePeriod, string> = {
  hour: 'an hour',
  day: 'a day',
  week: 'a week',
  month: 'a month',
  all: 'in all',
}

function emergencySentences({ enabled, resources, max_expires_in, ...clause }: CharterBreakGlass): string[] {
  if (!enabled) return ['It may not open an emergency window.']
  return [
    ...sentences(
      orNothing(resources),
      list =>
        `In an emergency it may let an agent use ${list} once, for at most ${max_expires_in} seconds; you are notified of each.`,
    ),
    ...(clause.require_reason ? [] : ['An emergency needs no reason.']),
    ...sentences(clause.invokers, list => `An agent of ${list} needs no administrator for an emergency.`),
  ]
}

/** Conditions and rules, which are not in a view: they narrow alone, and are asked of the organization. */
export function conditionSentences({ conditions, rules }: Charter): string[] {
  const levels = Object.entries(conditions).filter(([, value]) => typeof value === 'number' && value > 0)
  return [
    ...levels.map(([what, level]) => `Agents need ${what.replace('min_', '')} of at least ${level}.`),
    ...(conditions.require_reason ? ['Agents must give a reason.'] : []),
    ...(conditions.require_mission ? ['Agents must name a mission.'] : []),
    ...rules.flatMap(rule =>
      sentences(
        rule.resources,
        list =>
          `${rule.then === 'ask' ? 'Asked about' : 'Refused'}: ${list} when ${rule.when.join(' and ')}.`,
      ),
    ),
  ]
}

const DELEGATION_SAYS: Record<Delegation, string> = {
  none: 'You may pass none of it on to agents.',
  'first-party-only': 'You may pass it on to agents of your own alone.',
  'any-agent': 'You may pass it on to any agent that you admit.',
}

/** The names, or the word for none of them. */
export function orNothing(names: readonly string[]): readonly string[] {
  return names.length === 0 ? ['nothing'] : names
}

/**
 * A sentence over a list; over a long one several, each of which is readable by itself and says the same of
 * its part. One name too long for any sentence is `charterFault`'s to refuse.
 */
export function sentences(
  names: readonly string[],
  say: (list: string, isFirst: boolean) => string,
  between = ', ',
): string[] {
  const texts: string[] = []
  let part: string[] = []
  for (const name of names) {
    const longer = [...part, name]
    if (part.length > 0 && say(longer.join(between), texts.length === 0).length > VIEW_TEXT_MAX) {
      texts.push(say(part.join(between), texts.length === 0))
      part = [name]
    } else part = longer
  }
  if (part.length > 0) texts.push(say(part.join(between), texts.length === 0))
  return texts
}
