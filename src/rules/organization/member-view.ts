/**
 * Owns one member's view of a charter: the ceiling, what her group shares with her, and what follows, in the
 * sentences of charter-sentences.ts. Contract: "The organization's authority" (preview: the charter in
 * sentences, before joining; the envelope, polled). A member's own server makes the sentences again from the
 * view, so that an organization can write no other promise into them.
 */
import {
  EMERGENCY_RESOURCES_BYTES_MAX,
  ORGANIZATION_NAME_MAX,
  VIEW_BYTES_MAX,
  VIEW_SENTENCES_MAX,
  VIEW_TEXT_MAX,
  type Charter,
  type CharterRole,
  type Delegation,
} from '../../wire/organization/charter.ts'
import { s256Json } from '../../wire/encoding.ts'
import type { MemberView } from '../../wire/documents/member-view.ts'
import type { ShownView } from '../../wire/owner/owner-organization.ts'
import {
  bindingSentences,
  conditionSentences,
  orNothing,
  sentences,
  type ViewBinding,
} from './charter-sentences.ts'

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
