/**
 * Her membership of an organization: what it is, what joining would commit her to, joining, leaving and
 * declining. Contract: "Organization membership, on the member's authorization server".
 */
import { z } from 'zod'
import { refuseGuessing } from '../../credentials/attempt-limit.ts'
import { endpoint, type Endpoint } from '../../http/servers/endpoint.ts'
import { plainText } from '../../http/servers/pages.ts'
import { approvalSentences } from '../../rules/organization/charter-sentences.ts'
import { shownView } from '../../rules/organization/member-view.ts'
import {
  approvalsUntilAgreed,
  reachOf,
  VIEW_AGE_SECONDS_MAX,
  type AgreedView,
} from '../../rules/organization/membership.ts'
import { needsApproval } from '../../rules/organization/tier-ceiling.ts'
import { readMembership, type Membership } from '../../storage/authority/membership/membership.ts'
import { listTiers, type TierRow } from '../../storage/authority/policies/tiers.ts'
import { MEMBER_VIEW } from '../../wire/documents/member-view.ts'
import type { Owner } from '../../wire/identifiers.ts'
import type {
  OrganizationAgreement,
  OrganizationPreview,
  OrganizationStanding,
} from '../../wire/owner/owner-organization.ts'
import { Refusal, refuse } from '../../wire/refusal.ts'
import { OrganizationOutage, OrganizationRefusal, type JoinEntry } from '../organization/client.ts'
import {
  agreeAgain,
  ALL_POWERS,
  decline,
  join,
  leave,
  preview,
  restrictAdministrators,
  waitingFor,
} from '../organization/membership.ts'
import { previewCuts } from '../organization/membership-effect.ts'
import { readAllowanceCeilings } from '../organization/view-document.ts'
import { LEASES_AWAITED, runAndAwaitLeases } from '../protection/lease-wait.ts'
import type { KnownInvitation, OwnerApi } from './api.ts'
import { OWNER, type OwnerCredential } from './credentials/guard.ts'
import { CUT } from './policies/tier-queries.ts'

const ADDED = { addedUnder: "Organization membership, on the member's authorization server" }
const TIERS_MAX = 100_000

const text = z.string()
const texts = z.array(text)
const anything = z.unknown()

const CHANGE = CUT.extend({ tier: text, tier_name: text, own_resources: texts })
/** A view, as her own server tells it. */
const SHOWN = { ...MEMBER_VIEW.shape, own_words: texts }
const PREVIEW: z.ZodType<OrganizationPreview> = z.object({
  ...SHOWN,
  changes: z.array(CHANGE),
  governed_resources: texts,
})
const INVITATION = z.object({
  issuer: text,
  code: text,
  note: text.nullable(),
  invited_at: text,
  expires_at: text,
})
const NO_MEMBER = z.object({
  enrolled: z.literal(false),
  available: texts,
  invitation: INVITATION.nullable(),
  unreachable: texts,
})
const MEMBER = z.object({
  enrolled: z.literal(true),
  ...SHOWN,
  joined: text,
  agreed_version: z.int(),
  waiting: z.object({ version: z.int(), changes: texts }).nullable(),
  stale: z.boolean(),
  last_read: text,
  tiers: z.record(text, z.array(z.object({ field: text, yours: anything, ceiling: anything }))),
  governed_resources: texts,
  conflicts: texts,
  administrators_may: texts,
})
const STANDING: z.ZodType<OrganizationStanding> = z.union([NO_MEMBER, MEMBER])
/** She may have left since, by another request. */
const AGREEMENT: z.ZodType<OrganizationAgreement> = z.union([
  NO_MEMBER.extend(LEASES_AWAITED),
  MEMBER.extend(LEASES_AWAITED),
])

const issuer = plainText(2_048).optional()
const ENTRY = { code: plainText(200).optional(), assertion: plainText(16_384).optional() }
const ONE_ENTRY = 'give a code or an assertion, and not both'
const powers = z.array(z.enum(ALL_POWERS as [string, ...string[]])).max(ALL_POWERS.length)
const PREVIEWED = z
  .strictObject({ issuer, ...ENTRY })
  .refine(({ code, assertion }) => (code === undefined) !== (assertion === undefined), ONE_ENTRY)
const AGREEING = z.strictObject({
  issuer,
  ...ENTRY,
  agreed: z.boolean().optional(),
  charter_version: z.int().min(1).optional(),
  binds_s256: plainText(100).optional(),
  administrators_may: powers.optional(),
})
const AGREED = AGREEING.refine(
  ({ code, assertion }) => code === undefined || assertion === undefined,
  ONE_ENTRY,
)

const JOINING_REFUSED = {
  403: ['request_denied'],
  404: ['not_found'],
  409: ['conflict'],
  429: ['temporarily_unavailable'],
} as const

/** Her endpoints for a membership. */
export const ORGANIZATION: readonly Endpoint<OwnerApi>[] = [
  endpoint({
    method: 'get',
    path: '/owner/organization',
    rows: ['organization-get'],
    summary: 'The organization that she administers for, what is shared with her, and what the ceiling does',
    credential: OWNER,
    answers: { 200: { says: 'Her membership, or which there could be.', schema: STANDING } },
    handle: async (api: OwnerApi, { caller, answer }) => answer(200, await standing(api, caller.owner)),
  }),
  endpoint({
    method: 'post',
    path: '/owner/organization/preview',
    rows: ['organization-preview'],
    summary: 'Shows what a code, or an assertion in its place, would commit her to and change; has no effect',
    credential: OWNER,
    body: { schema: PREVIEWED },
    answers: { 200: { says: 'What it would be, and what it would cut.', schema: PREVIEW } },
    refuses: JOINING_REFUSED,
    handle: async (api: OwnerApi, { caller, body, request, answer }) => {
      const question = { issuer: issuerOf(api, body.issuer), entry: entryOf(body)! }
      return answer(200, await notGuessing(api, request.ip, () => preview(api, caller.owner, question)))
    },
  }),
  endpoint({
    method: 'post',
    path: '/owner/organization',
    rows: ['organization-join'],
    summary:
      'Joins, or agrees to a later version; only with agreed: true, the version and the digest of what binds her',
    credential: OWNER,
    body: { schema: AGREED },
    answers: { 200: { says: 'Her membership.', schema: AGREEMENT } },
    refuses: JOINING_REFUSED,
    handle: async (api: OwnerApi, { caller, body, request, answer }) => {
      const { charter_version, binds_s256 } = body
      if (body.agreed !== true || charter_version === undefined || binds_s256 === undefined)
        refuse(
          'invalid_request',
          'Send agreed: true, with the charter_version and the binds_s256 of the preview that you read.',
          { extra: { reason: 'agreement_required' } },
        )
      const agreement = await runAndAwaitLeases(async () => {
        await agree(api, caller, { ...body, charter_version, binds_s256, ip: request.ip })
        return standing(api, caller.owner)
      })
      return answer(200, agreement)
    },
  }),
  endpoint({
    method: 'put',
    path: '/owner/organization',
    rows: ADDED,
    summary: 'Takes powers of its administrators away; none can be added',
    credential: OWNER,
    body: { schema: z.strictObject({ administrators_may: powers }) },
    answers: { 200: { says: 'Her membership.', schema: STANDING } },
    refuses: JOINING_REFUSED,
    handle: async (api: OwnerApi, { caller, body, answer }) => {
      await restrictAdministrators(api, caller, body.administrators_may)
      return answer(200, await standing(api, caller.owner))
    },
  }),
  endpoint({
    method: 'post',
    path: '/owner/organization/decline',
    rows: ['organization-decline'],
    summary: 'Refuses an invitation, as an answer on record',
    credential: OWNER,
    body: { schema: z.strictObject({ issuer }) },
    answers: { 200: { says: 'Declined.', schema: z.object({ declined: z.literal(true) }) } },
    refuses: JOINING_REFUSED,
    handle: async (api: OwnerApi, { caller, body, answer }) => {
      const declined = issuerOf(api, body.issuer)
      await decline(api, caller, declined)
      // The organization is told after this answer, and would still name the invitation.
      keepInvitation(api, { issuer: declined, owner: caller.owner }, null)
      return answer(200, { declined: true })
    },
  }),
  endpoint({
    method: 'delete',
    path: '/owner/organization',
    rows: ['organization-leave'],
    summary: 'Leaves: access goes, narrowings stay',
    credential: OWNER,
    answers: {
      200: { says: 'She is no member.', schema: z.object({ left: z.literal(true), ...LEASES_AWAITED }) },
    },
    refuses: { 404: ['not_found'] },
    handle: async (api: OwnerApi, { caller, answer }) =>
      answer(
        200,
        await runAndAwaitLeases(async () => {
          await leave(api, caller)
          return { left: true as const }
        }),
      ),
  }),
]

/** Joins with a code or an assertion; without either, agrees to the version that waits. */
async function agree(
  api: OwnerApi,
  caller: OwnerCredential,
  { ip, ...body }: z.output<typeof AGREED> & { charter_version: number; binds_s256: string; ip: string },
): Promise<void> {
  const { charter_version, binds_s256, administrators_may = ALL_POWERS } = body
  const entry = entryOf(body)
  if (entry === undefined) return agreeAgain(api, caller, { charter_version, binds_s256 })
  const issuer = issuerOf(api, body.issuer)
  const agreeing = { issuer, entry, charter_version, binds_s256, administrators_may }
  await notGuessing(api, ip, () => join(api, caller, agreeing))
  keepInvitation(api, { issuer, owner: caller.owner }, null)
}

/** Whether she comes with a code or an assertion; undefined if she gave neither. */
function entryOf({ code, assertion }: z.output<z.ZodObject<typeof ENTRY>>): JoinEntry | undefined {
  if (assertion !== undefined) return { assertion }
  return code === undefined ? undefined : { code }
}

/**
 * The organization that she means: the one that she names, or the only one that is listed. Refuses any other.
 */
function issuerOf({ organizations: { issuers } }: OwnerApi, named: string | undefined): string {
  const only = issuers.length === 1 ? issuers[0] : undefined
  const meant =
    named ?? only ?? refuse('invalid_request', 'Name the issuer of the organization that you mean.')
  if (!issuers.includes(meant))
    refuse(
      'request_denied',
      'Ask the operator of your authorization server: that organization is not listed.',
    )
  return meant
}

const GUESSES: readonly unknown[] = ['invalid_code', 'invalid_assertion']

/** Wrong codes and assertions are limited per source. */
async function notGuessing<T>(api: OwnerApi, ip: string, work: () => Promise<T>): Promise<T> {
  refuseGuessing(api.attempts, ip)
  try {
    return await work()
  } catch (error) {
    if (error instanceof Refusal && GUESSES.includes(error.extra?.['reason'])) api.attempts.failed(ip)
    throw error
  }
}

async function standing(api: OwnerApi, owner: Owner): Promise<OrganizationStanding> {
  const db = api.database.of(owner)
  const membership = await readMembership(db, owner)
  if (membership === undefined) return { enrolled: false, ...(await whatThereIs(api, owner)) }
  const { view, agreed, joined_at, read_at, read_ago, administrators_may } = membership
  const { governed_resources, conflicts } = await previewCuts(db, owner, membership)
  const tiers = await listTiers(db, owner, { limit: TIERS_MAX })
  return {
    enrolled: true,
    ...shownView(view),
    summary: summaryOf(membership),
    joined: joined_at,
    agreed_version: agreed.charter_version,
    waiting: waitingFor(membership),
    stale: read_ago > VIEW_AGE_SECONDS_MAX,
    last_read: read_at,
    tiers: Object.fromEntries(
      tiers.flatMap(tier => {
        const reached = tier.resources.filter(id => reachOf(id, membership) !== null)
        return reached.length === 0 ? [] : [[tier.tier_id, ceilingOver(tier, reached, membership)]]
      }),
    ),
    governed_resources,
    conflicts,
    administrators_may,
  }
}

/**
 * What binds her now, in sentences: a bound of allowances that was raised, and what is no longer approved,
 * count once she has agreed to it.
 */
function summaryOf(bound: AgreedView): string[] {
  const { agreed, view } = bound
  const bounds = readAllowanceCeilings([agreed, view])
  const isRead = bounds !== undefined && bounds !== 'unreadable'
  const { summary } = shownView(isRead ? { ...view, max_allowance: [...bounds] } : view)
  return [...summary, ...approvalSentences(approvalsUntilAgreed(bound))]
}

/** A tier, and which part of it lies under a ceiling. */
function ceilingOver(
  { terms, ask_me, clearance }: TierRow,
  reached: readonly string[],
  { view }: Membership,
): { field: string; yours: unknown; ceiling: unknown }[] {
  const { max_expires_in, allowed_scopes, require_prohibited, require_clearance } = view
  return [
    { field: 'expires_in', yours: terms.expires_in, ceiling: max_expires_in },
    ...(allowed_scopes === null ? [] : [{ field: 'scope', yours: terms.scope, ceiling: allowed_scopes }]),
    ...(require_prohibited.length === 0
      ? []
      : [{ field: 'prohibited', yours: terms.prohibited, ceiling: require_prohibited }]),
    ...(reached.some(id => needsApproval(id, view))
      ? [{ field: 'ask_me', yours: ask_me, ceiling: true }]
      : []),
    ...(Object.keys(require_clearance).length === 0
      ? []
      : [{ field: 'clearance', yours: clearance, ceiling: require_clearance }]),
  ]
}

const INVITATIONS_AGE_MS = 60_000

/**
 * The organizations that are listed, and whether one has invited her; each is asked once a minute at most.
 */
async function whatThereIs(
  api: OwnerApi,
  owner: Owner,
): Promise<Omit<Extract<OrganizationStanding, { enrolled: false }>, 'enrolled'>> {
  const { organizations, invitations } = api
  const answers = await Promise.all(
    organizations.issuers.map(async issuer => {
      const cacheEntry = invitations.get(invitationKey({ issuer, owner }))
      if (cacheEntry !== undefined && Date.now() < cacheEntry.until) return cacheEntry
      const answer = await organizations.invitation(issuer, { owner }).catch(silent)
      return keepInvitation(api, { issuer, owner }, answer)
    }),
  )
  const invited = answers.flatMap(({ issuer, answer }) =>
    answer === null || answer === 'silent' ? [] : [{ issuer, ...answer }],
  )
  return {
    available: [...organizations.issuers],
    invitation: invited[0] ?? null,
    unreachable: answers.filter(({ answer }) => answer === 'silent').map(({ issuer }) => issuer),
  }
}

const invitationKey = ({ issuer, owner }: { issuer: string; owner: Owner }): string =>
  JSON.stringify([issuer, owner])

/** What is shown of this organization from now on, until it is asked again. */
function keepInvitation(
  { invitations }: OwnerApi,
  of: { issuer: string; owner: Owner },
  answer: KnownInvitation['answer'],
): KnownInvitation {
  const known = { issuer: of.issuer, answer, until: Date.now() + INVITATIONS_AGE_MS }
  invitations.set(invitationKey(of), known)
  return known
}

function silent(error: unknown): 'silent' {
  if (error instanceof OrganizationOutage || error instanceof OrganizationRefusal) return 'silent'
  throw error
}
