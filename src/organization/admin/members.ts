/**
 * Members, as administrators see and move them, attest their clearances and end their membership. Contract:
 * "The organization's authority" (`/admin/...`: members; group management: moving one member, clearances).
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../http/servers/endpoint.ts'
import { nextLink, PAGE, pageOf, plainText } from '../../http/servers/pages.ts'
import { appendActivity, type NewActivity } from '../../storage/organization/activity.ts'
import type { Tx } from '../../storage/organization/database.ts'
import {
  attestClearance,
  deleteMember,
  listMembers,
  moveMember,
  readMember,
  type MemberRow,
} from '../../storage/organization/members.ts'
import { insertNotice, noticeStates, type NoticeState } from '../../storage/organization/notices.ts'
import { parseTextByName, type Charter } from '../../wire/organization/charter.ts'
import { canonicalize } from '../../wire/json.ts'
import { asOwner, type Owner } from '../../wire/identifiers.ts'
import { NAME_PATTERN } from '../../wire/names.ts'
import { refuse } from '../../wire/refusal.ts'
import type { Administration } from '../context.ts'
import { charterInForce, publish, VERSION } from './charter.ts'
import { ADMINISTRATOR, changeAs, type OrganizationAdminCredential } from './guard.ts'
import { CHANGED } from './roles.ts'

const rows = { addedUnder: "The organization's authority" } as const

/** The limit keeps the document that carries it far below what a verifier accepts. */
const CLEARANCE_BYTES_MAX = 8_192
const NO_SUCH_MEMBER = 'No member has this owner name.'
/** Who did it, as members see it. */
const BY_ADMINISTRATOR = 'administrator'
const ONE_MEMBER = {
  schema: z.strictObject({ owner: z.string().regex(NAME_PATTERN).transform(asOwner) }),
  unknown: NO_SUCH_MEMBER,
}

const MEMBER = z
  .strictObject({
    owner: z.string(),
    as_uri: z.string(),
    role: z.string().nullable(),
    joined: z.string(),
    agreed_version: z.int(),
    clearance: z.record(z.string(), z.string()),
    /** The last report of her authority; null if there is none yet. */
    compliance: z.looseObject({ reported_at: z.string() }).nullable(),
    /** The notices that her authority must still get. */
    notices_waiting: z.int(),
    /** The notices that never reached it, the newest first. */
    notices_stopped: z.strictObject({ kind: z.string(), status: z.int().nullable(), at: z.string() }).array(),
  })
  .meta({ id: 'Member' })

export const MEMBERS: readonly Endpoint<Administration>[] = [
  endpoint({
    method: 'get',
    path: '/admin/members',
    rows,
    summary: 'Who is a member, in which group, and what her authority reported last',
    credential: ADMINISTRATOR,
    query: PAGE,
    answers: { 200: { says: 'By owner.', schema: MEMBER.array() } },
    handle: async ({ database }: Administration, { query: { after, limit }, answer }) => {
      const { items, last } = pageOf(await listMembers(database.ofNobody, { after, limit: limit + 1 }), limit)
      const states = await noticeStates(
        database.ofNobody,
        items.map(({ owner }) => owner),
      )
      const members = items.map(member => shown(member, states.get(member.owner)))
      return answer(200, members, nextLink('/admin/members', last && { after: last.owner, limit }))
    },
  }),
  endpoint({
    method: 'post',
    path: '/admin/members/{owner}/role',
    rows: ['org-member-role'],
    summary: 'Moves one member into a group; null shares nothing with her',
    credential: ADMINISTRATOR,
    parameters: ONE_MEMBER,
    body: { schema: z.strictObject({ role: plainText(64).nullable() }) },
    answers: CHANGED,
    handle: async (api: Administration, { caller, parameters: { owner }, body: { role }, answer }) => {
      const change = { owner, kind: 'member_moved' } as const
      const published = await changeMember(api, caller, change, async (tx, member, { roles }) => {
        if (role !== null && !Object.hasOwn(roles, role))
          refuse(
            'invalid_request',
            'Correct the member "role": name a group of the charter in force, or null.',
          )
        if (member.role === role) return undefined
        await moveMember(tx, owner, role)
        return { role, before: member.role }
      })
      return answer(200, published)
    },
  }),
  endpoint({
    method: 'put',
    path: '/admin/members/{owner}/clearance',
    rows: ['org-member-clearance-put'],
    summary: 'What is attested of a member, a text for each fact; an empty object withdraws all of it',
    credential: ADMINISTRATOR,
    parameters: ONE_MEMBER,
    body: { schema: z.strictObject({ clearance: z.unknown() }) },
    answers: CHANGED,
    handle: async (api: Administration, { caller, parameters: { owner }, body, answer }) => {
      const clearance = parseTextByName(body.clearance, 'clearance')
      if (Buffer.byteLength(JSON.stringify(clearance)) > CLEARANCE_BYTES_MAX)
        refuse('invalid_request', `Correct clearance: keep it within ${CLEARANCE_BYTES_MAX} bytes of JSON.`)
      const change = { owner, kind: 'clearance_attested' } as const
      const published = await changeMember(api, caller, change, async (tx, member) => {
        if (canonicalize(member.clearance) === canonicalize(clearance)) return undefined
        await attestClearance(tx, owner, clearance)
        return { clearance }
      })
      return answer(200, published)
    },
  }),
  endpoint({
    method: 'delete',
    path: '/admin/members/{owner}',
    rows,
    summary: 'Ends a membership: its token is good for nothing from now on',
    credential: ADMINISTRATOR,
    parameters: ONE_MEMBER,
    answers: { 200: { says: 'Ended.', schema: z.strictObject({ removed: z.string() }) } },
    handle: async (api: Administration, { caller, parameters: { owner }, answer }) => {
      await changeAs(api, caller, async tx => {
        const member = await deleteMember(tx, owner)
        if (member === undefined) refuse('not_found', NO_SUCH_MEMBER)
        const { as_uri, join_id } = member
        await insertNotice(tx, member, { kind: 'membership_ended', by: BY_ADMINISTRATOR })
        const data = { as_uri, join_id }
        await appendActivity(tx, { kind: 'member_removed', admin: caller.admin, owner, data })
      })
      return answer(200, { removed: owner })
    },
  }),
]

/**
 * Changes one member, and publishes the present text under the next number, so that only her view changes.
 * `change` returns what to record, or undefined if nothing changed; then the answer is the version in force.
 */
// oxlint-disable-next-line eslint/max-params -- where, who, whose, and what is changed
function changeMember(
  api: Administration,
  caller: OrganizationAdminCredential,
  { owner, kind }: { owner: Owner; kind: NewActivity['kind'] },
  change: (tx: Tx, member: MemberRow, charter: Charter) => Promise<Record<string, unknown> | undefined>,
): Promise<z.output<typeof VERSION>> {
  return changeAs(api, caller, async tx => {
    const member = (await readMember(tx, owner)) ?? refuse('not_found', NO_SUCH_MEMBER)
    const inForce = await charterInForce(tx)
    const recorded = await change(tx, member, inForce.charter)
    if (recorded === undefined) return { version: inForce.version, s256: inForce.s256 }
    const { admin } = caller
    const { role } = (await readMember(tx, owner))!
    await insertNotice(tx, member, { kind: 'role_changed', role })
    const { version, s256 } = await publish(tx, inForce.charter, { admin, affects: owner })
    await appendActivity(tx, { kind, admin, owner, data: { ...recorded, charter_version: version } })
    return { version, s256 }
  })
}

function shown(member: MemberRow, notices: NoticeState | undefined): z.output<typeof MEMBER> {
  const { owner, as_uri, role, joined_at: joined, agreed_version, clearance, compliance } = member
  const reported =
    compliance === null || member.compliance_at === null
      ? null
      : { ...compliance, reported_at: member.compliance_at }
  const noticeState = { notices_waiting: notices?.waiting ?? 0, notices_stopped: notices?.stopped ?? [] }
  return { owner, as_uri, role, joined, agreed_version, clearance, compliance: reported, ...noticeState }
}
