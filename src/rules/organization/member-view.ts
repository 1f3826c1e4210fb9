/**
 * Owns one member's view of a charter: the ceiling, what her group shares with her, and what follows, in
 * sentences. Contract: "The organization's authority" (preview: the charter in sentences, before joining; the
 * envelope, polled). Our code makes the sentences from the charter, and a member's own server makes them
 * again from the view, so that an organization can write no other promise into them.
 */
import {
  EMERGENCY_RESOURCES_BYTES_MAX,
  ORGANIZATION_NAME_MAX,
  VIEW_BYTES_MAX,
  VIEW_SENTENCES_MAX,
  VIEW_TEXT_MAX,
  type AllowanceCeiling,
  type Charter,
  type CharterBreakGlass,
  type CharterRole,
  type Delegation,
} from '../../wire/organization/charter.ts'
import type { AllowancePeriod } from '../../wire/allowance-words.ts'
import { s256Json } from '../../wire/encoding.ts'
import type { MemberView } from '../../wire/documents/member-view.ts'
import type { ShownView } from '../../wire/owner/owner-organization.ts'
import { wordText } from '../words/allowance-words.ts'
import { ceilingRises } from './allowance-ceiling.ts'

export type { MemberView } from '../../wire/documents/member-view.ts'

/**
 * The acts of an organization's administrators on agents that touch what it claims, unless she takes them
 * away.
 */
export const ADMINISTRATOR_POWERS = ['approve', 'revoke', 'restore', 'block', 'unblock'] as const

export interface Viewed {
  organization: { id: string; name: string }
  issuer: string
  charter: Charter
  charter_version: number
  published_at: string
  owner: string
  /** Her group; undefined if she is not a member yet, and would be in the default group. */
  role: string | null
  view: number
}

/** Her view. Without a group, or if the group no longer exists, nothing is shared with her. */
export function memberView(viewed: Viewed): MemberView {
  const { organization, issuer, charter, owner, role, view, charter_version, published_at } = viewed
  const group = groupOf(charter, role)
  const shared = sharedWith(charter, role)
  const { envelope, identity_provider: provider } = charter
  return {
    org: organization.id,
    name: organization.name,
    issuer,
    view,
    charter_version,
    published_at,
    charter_name: charter.name,
    claims: charter.claims,
    identity_provider: provider && { issuer: provider.issuer, subject: subjectOf(provider.subjects, owner) },
    max_expires_in: envelope.max_expires_in,
    allowed_scopes: envelope.allowed_scopes,
    require_prohibited: envelope.require_prohibited,
    always_ask: envelope.always_ask,
    require_clearance: envelope.require_clearance,
    ...(envelope.max_allowance && { max_allowance: envelope.max_allowance }),
    break_glass: charter.break_glass,
    summary: summaryOf(organization.name, charter, shared),
    powers: powersOf({ ...charter, ...shared }),
    role: group === undefined ? null : role,
    role_name: group?.name ?? null,
    ...shared,
    binds_s256: bindingDigest({
      claims: charter.claims,
      break_glass: charter.break_glass,
      identity_provider: provider,
      ...envelope,
      ...shared,
    }),
  }
}

interface Shared {
  grants: string[]
  delegation: Delegation
}

/** The resources that a group shares; none without a group, or if it no longer exists. */
export function sharedWith(charter: Pick<Charter, 'roles'>, role: string | null): Shared {
  const group = groupOf(charter, role)
  return { grants: group?.grants ?? [], delegation: group?.delegation ?? 'none' }
}

function groupOf({ roles }: Pick<Charter, 'roles'>, role: string | null): CharterRole | undefined {
  return role !== null && Object.hasOwn(roles, role) ? roles[role] : undefined
}

function subjectOf(subjects: Readonly<Record<string, string>>, owner: string): string | null {
  return Object.hasOwn(subjects, owner) ? subjects[owner]! : null
}

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

/**
 * The digest of what she agrees to: it covers everything that could bind her, and nothing that is only shown.
 * A view that bounds no allowance has the digest that it had before there were allowances.
 */
export function bindingDigest(view: ViewBinding): string {
  const { claims, break_glass, identity_provider, max_expires_in, allowed_scopes } = view
  const { require_prohibited, always_ask, require_clearance, max_allowance, grants, delegation } = view
  return s256Json({
    claims,
    break_glass,
    identity_provider: identity_provider && { issuer: identity_provider.issuer },
    administrators_may: [...ADMINISTRATOR_POWERS],
    max_expires_in,
    allowed_scopes,
    require_prohibited,
    always_ask,
    require_clearance,
    ...(max_allowance && { max_allowance }),
    grants,
    delegation,
  })
}

/**
 * What her own server says of a view: `summary` and `powers` are made anew from what it binds her to, because
 * an organization could send others than its charter gives. `own_words` are the sentences that only the
 * organization says, such as its rules; they can but narrow, and nobody has checked them.
 */
export function shownView(view: MemberView): ShownView {
  // A name could continue as a sentence that we did not write.
  const summary = bindingSentences('It', view)
  const known = new Set([...summary, ...bindingSentences(view.name, view)])
  const own_words = view.summary.filter(sentence => !known.has(sentence))
  return { ...view, summary, powers: powersOf(view), own_words }
}

function summaryOf(name: string, charter: Charter, shared: Shared): string[] {
  const { claims, break_glass, identity_provider, envelope } = charter
  const source = { claims, break_glass, identity_provider, ...envelope, ...shared }
  return [...bindingSentences(name, source), ...conditionSentences(charter)]
}

/** All that could bind her, in sentences about `name`. */
function bindingSentences(name: string, view: ViewBinding): string[] {
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
function conditionSentences({ conditions, rules }: Charter): string[] {
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

function powersOf({
  claims,
  break_glass,
  grants,
}: Pick<ViewBinding, 'claims' | 'break_glass' | 'grants'>): MemberView['powers'] {
  return {
    gets: [
      {
        what: 'numbers',
        detail:
          'How many of your resources and tiers it governs, and where its ceiling cut; never your terms.',
      },
      ...powers(
        'requests',
        orNothing(claims),
        list =>
          `What agents ask for on ${list}: scopes, lifetime and standing; never their words or parameters.`,
      ),
    ],
    can: [
      ...(grants.length === 0
        ? [{ what: 'share', detail: 'Nothing is shared with you now; it may share later.' }]
        : powers('share', grants, list => list)),
      {
        what: 'administer',
        detail: `On what it claims, unless you take it away: ${ADMINISTRATOR_POWERS.join(', ')}.`,
      },
      ...(break_glass.enabled ? powers('break_glass', orNothing(break_glass.resources), list => list) : []),
    ],
    cannot: [
      { what: 'widen', detail: 'It cannot allow anything that you do not allow.' },
      { what: 'see_the_rest', detail: 'It learns nothing of resources that it does not claim.' },
      { what: 'keep_you', detail: 'It cannot keep you from leaving.' },
    ],
  }
}

function powers(
  what: string,
  names: readonly string[],
  say: (list: string) => string,
): { what: string; detail: string }[] {
  return sentences(names, say).map(detail => ({ what, detail }))
}

function orNothing(names: readonly string[]): readonly string[] {
  return names.length === 0 ? ['nothing'] : names
}

/**
 * A sentence over a list; over a long one several, each of which is readable by itself and says the same of
 * its part. One name too long for any sentence is `charterFault`'s to refuse.
 */
function sentences(
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

/** A name of the greatest length, each character of which has three bytes. */
const LONGEST_NAME = '\u20ac'.repeat(ORGANIZATION_NAME_MAX)
const LONGEST_ISSUER = `https://${'i'.repeat(VIEW_TEXT_MAX - 8)}`
/** What an identity provider calls her; it is another text for each member. */
const SUBJECT_BYTES_MAX = 2_048

/**
 * Why no member could read her view under this charter, as a clause; undefined if each could. The group that
 * is shared most has the longest view.
 */
export function viewBoundsFault(charter: Charter): string | undefined {
  if (bytesOf(charter.break_glass.resources) > EMERGENCY_RESOURCES_BYTES_MAX)
    return `name less in the emergency clause: over ${EMERGENCY_RESOURCES_BYTES_MAX} bytes fit into no notice`
  const [role] = Object.entries(charter.roles).toSorted(
    ([, one], [, other]) => charactersOf(other) - charactersOf(one),
  )
  const view = memberView({
    organization: { id: 'o'.repeat(64), name: LONGEST_NAME },
    issuer: LONGEST_ISSUER,
    charter,
    charter_version: Number.MAX_SAFE_INTEGER,
    published_at: new Date(0).toISOString(),
    owner: '',
    role: role === undefined ? null : role[0],
    view: Number.MAX_SAFE_INTEGER,
  })
  const tooLong = view.summary.find(sentence => sentence.length > VIEW_TEXT_MAX)
  if (tooLong !== undefined)
    return `say less in one sentence: "${tooLong.slice(0, 80)}…" has over ${VIEW_TEXT_MAX} characters`
  if (view.summary.length > VIEW_SENTENCES_MAX)
    return `say less: members would read ${view.summary.length} sentences, and ${VIEW_SENTENCES_MAX} are the most`
  const bytes = bytesOf(view) + SUBJECT_BYTES_MAX
  return bytes > VIEW_BYTES_MAX
    ? `say less: a member's view would have ${bytes} bytes, and ${VIEW_BYTES_MAX} are the most`
    : undefined
}

function bytesOf(json: object): number {
  return new TextEncoder().encode(JSON.stringify(json)).length
}

function charactersOf({ grants, name }: CharterRole): number {
  return JSON.stringify([grants, name]).length
}
