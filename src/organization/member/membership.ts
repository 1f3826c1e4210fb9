/**
 * Joining and leaving, as a member's authorization server asks for it. Contract: "The organization's
 * authority" (preview, join), "Errors" (joining names the charter version agreed).
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../http/servers/endpoint.ts'
import { plainText } from '../../http/servers/pages.ts'
import { inTransaction } from '../../storage/core/database.ts'
import { appendActivity } from '../../storage/organization/activity.ts'
import {
  lockHead,
  readCharter,
  readCharterVersion,
  type CharterRow,
} from '../../storage/organization/charters.ts'
import type { Tx } from '../../storage/organization/database.ts'
import type { Person } from '../../storage/organization/invitations.ts'
import { deleteMember, insertMember, readMember, type MemberRow } from '../../storage/organization/members.ts'
import { MEMBER_VIEW } from '../../wire/documents/member-view.ts'
import { signMembership } from '../../wire/organization/membership.ts'
import { ORGANIZATION_PATH } from '../../wire/names.ts'
import { refuse } from '../../wire/refusal.ts'
import { refuseWhileOff } from '../../surface/clock.ts'
import type { Organization } from '../context.ts'
import { admissionOf, ENTRY, isOneEntry, ONE_ENTRY, type JoinAdmission } from './admission.ts'
import { PERSON, provenAuthority, spendOnce } from './authority.ts'
import { viewOfJoiner, viewUnder } from './view.ts'

const JOIN_ID = z.string().regex(/^[\x21-\x7e]{16,128}$/, 'give 16 to 128 visible ASCII characters')
const JOIN = z.strictObject({
  ...PERSON,
  ...ENTRY,
  join_id: JOIN_ID,
  charter_version: z.int().min(1),
  binds_s256: plainText(100),
})
const PREVIEW = z.strictObject({ ...PERSON, ...ENTRY })
const JOINED = MEMBER_VIEW.extend({ membership_token: z.string() })

const JOINING_REFUSED = {
  401: ['invalid_token'],
  403: ['request_denied'],
  409: ['conflict'],
  429: ['temporarily_unavailable'],
} as const

export const MEMBERSHIP: readonly Endpoint<Organization>[] = [
  endpoint({
    method: 'post',
    path: ORGANIZATION_PATH.preview,
    rows: ['org-member-preview'],
    summary: 'What an owner would commit herself to; has no effect',
    body: { schema: PREVIEW.refine(isOneEntry, ONE_ENTRY) },
    answers: { 200: { says: 'The view that she would have.', schema: MEMBER_VIEW } },
    refuses: JOINING_REFUSED,
    handle: async (organization: Organization, { body, request, answer }) => {
      await provenAuthority(organization, request, body.as_uri)
      await admissionOf(organization, request, body)
      const row = await readCharter(organization.database.ofNobody)
      return answer(200, viewOfJoiner(organization, row ?? noCharter(), body.owner))
    },
  }),
  endpoint({
    method: 'post',
    path: ORGANIZATION_PATH.join,
    rows: ['org-member-join'],
    summary:
      'Makes an owner a member under the version that she agreed to; the same join_id again answers the same',
    body: { schema: JOIN.refine(isOneEntry, ONE_ENTRY) },
    answers: { 200: { says: 'Her view and her membership token.', schema: JOINED } },
    refuses: JOINING_REFUSED,
    handle: async (organization: Organization, { body, request, answer }) => {
      const signature = await provenAuthority(organization, request, body.as_uri)
      refuseWhileOff(organization.clock)
      const db = organization.database.ofNobody
      const before = await readMember(db, body.owner)
      // If the answer to a join was lost, the join has spent what let her in.
      const admission = isSame(before, body) ? undefined : await admissionOf(organization, request, body)
      const [member, row] = await inTransaction(db, async tx => {
        await lockHead(tx)
        await spendOnce(tx, signature)
        return join(organization, tx, { ...body, admission })
      })
      const view = viewUnder(organization, row, member)
      return answer(200, { ...view, membership_token: tokenOf(organization, member) })
    },
  }),
  endpoint({
    method: 'post',
    path: ORGANIZATION_PATH.leave,
    rows: { addedUnder: "The organization's authority" },
    summary: 'Ends a membership, for her authority; one that is no more is left already',
    body: { schema: z.strictObject({ ...PERSON, join_id: JOIN_ID }) },
    answers: {
      200: { says: 'She is no member by this join.', schema: z.strictObject({ left: z.literal(true) }) },
    },
    refuses: { 401: ['invalid_token'] },
    handle: async (organization: Organization, { body, request, answer }) => {
      const { owner, as_uri, join_id } = body
      const signature = await provenAuthority(organization, request, as_uri)
      await inTransaction(organization.database.ofNobody, async tx => {
        await lockHead(tx)
        await spendOnce(tx, signature)
        if (!isSame(await readMember(tx, owner), body)) return
        await deleteMember(tx, owner)
        await appendActivity(tx, { kind: 'left', owner, data: { as_uri, join_id } })
      })
      return answer(200, { left: true })
    },
  }),
]

interface Join extends z.output<typeof JOIN> {
  /** Undefined if she was a member by this join when it was looked for. */
  admission: JoinAdmission | undefined
}

function isSame(member: MemberRow | undefined, { as_uri, join_id }: Person & { join_id: string }): boolean {
  return member !== undefined && member.as_uri === as_uri && member.join_id === join_id
}

/** Under the lock of the head. @returns the member, and the version of her view. */
async function join(organization: Organization, tx: Tx, request: Join): Promise<[MemberRow, CharterRow]> {
  const { owner, as_uri, join_id, charter_version } = request
  const present = await readMember(tx, owner)
  if (present !== undefined && present.as_uri !== as_uri)
    refuse('conflict', 'This owner is a member already, from another authorization server.', {
      extra: { reason: 'already_member' },
    })
  if (present !== undefined && isSame(present, request))
    return [present, (await readCharterVersion(tx, present.view_version))!]
  if (request.admission === undefined)
    refuse('conflict', 'Repeat the join: the membership has ended meanwhile.')
  const row = (await readCharter(tx)) ?? noCharter()
  const by = await request.admission(tx, row.charter)
  const agreed = await readCharterVersion(tx, charter_version)
  const { binds_s256 } = viewOfJoiner(organization, row, owner)
  if (agreed?.s256 !== row.s256 || binds_s256 !== request.binds_s256)
    refuse('conflict', 'Preview again: the charter has moved since.', {
      extra: { reason: 'charter_moved', charter_version: row.version },
    })
  // Her authority's signature shows that the earlier membership has ended.
  if (present !== undefined) await deleteMember(tx, owner)
  const { version } = row
  const role = row.charter.default_role
  const member = { owner, as_uri, join_id, role, agreed_version: version, view_version: version }
  const joined = await insertMember(tx, member)
  await appendActivity(tx, { kind: 'joined', owner, data: { as_uri, join_id, charter_version: version, by } })
  return [joined, row]
}

/** The same for one membership, at every request. */
function tokenOf(
  { issuer, id, keys }: Organization,
  { owner, as_uri, join_id, joined_at }: MemberRow,
): string {
  const iat = Math.floor(Date.parse(joined_at) / 1_000)
  return signMembership({ iss: issuer, aud: issuer, sub: owner, as_uri, org: id, jti: join_id, iat }, keys[0])
}

function noCharter(): never {
  refuse('conflict', 'Wait until the organization has published a charter.')
}
