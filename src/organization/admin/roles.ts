/**
 * Groups: each change publishes the next charter version. Contract: "The organization's authority" (group
 * management).
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../http/servers/endpoint.ts'
import { plainText } from '../../http/servers/pages.ts'
import { charterFault, roleFault } from '../../rules/organization/charter.ts'
import { appendActivity, type NewActivity } from '../../storage/organization/activity.ts'
import type { CharterRow } from '../../storage/organization/charters.ts'
import type { Tx } from '../../storage/organization/database.ts'
import { membersByRole, roleHasMembers } from '../../storage/organization/members.ts'
import { DELEGATIONS, parseRole, type Charter } from '../../wire/organization/charter.ts'
import { refuse } from '../../wire/refusal.ts'
import type { Administration } from '../context.ts'
import { BASE_VERSION, charterInForce, publish, refuseFault, refuseStale, VERSION } from './charter.ts'
import { ADMINISTRATOR, changeAs, type OrganizationAdminCredential } from './guard.ts'

const ROLE = z
  .strictObject({
    name: z.string(),
    grants: z.array(z.string()),
    delegation: z.enum(DELEGATIONS),
  })
  .meta({ id: 'Role' })
const NO_SUCH_ROLE = 'The charter in force has no group of this id.'
const ONE_ROLE = { schema: z.strictObject({ id: plainText(64) }), unknown: NO_SUCH_ROLE }
/** The answer to a change that published a version. */
export const CHANGED = { 200: { says: 'What is in force now.', schema: VERSION } }

/** Members of one group that are listed with it. */
const MEMBERS_SHOWN = 1_000

export const ROLES: readonly Endpoint<Administration>[] = [
  endpoint({
    method: 'get',
    path: '/admin/roles',
    rows: ['org-roles-get'],
    summary: 'Groups, the default one, and who is in each',
    credential: ADMINISTRATOR,
    answers: {
      200: {
        says: 'As the charter in force has them.',
        schema: z.strictObject({
          version: z.int(),
          roles: z.record(z.string(), ROLE),
          default_role: z.string().nullable(),
          /** At most MEMBERS_SHOWN of each, by name; `/admin/members` lists all. */
          members: z.record(z.string(), z.array(z.string())),
          /** Groups that have more. */
          more: z.array(z.string()),
        }),
      },
    },
    handle: async ({ database }: Administration, { answer }) => {
      const { charter, version } = await charterInForce(database.ofNobody)
      const { roles, default_role } = charter
      const bounds = { roles: Object.keys(roles), limit: MEMBERS_SHOWN + 1 }
      const found = Object.entries(await membersByRole(database.ofNobody, bounds))
      const members = Object.fromEntries(
        found.map(([role, owners]) => [role, owners.slice(0, MEMBERS_SHOWN)]),
      )
      const more = found.filter(([, owners]) => owners.length > MEMBERS_SHOWN).map(([role]) => role)
      return answer(200, { version, roles, default_role, members, more })
    },
  }),
  endpoint({
    method: 'put',
    path: '/admin/roles/{id}',
    rows: ['org-roles-put'],
    summary: 'Makes or changes a group, within what the charter claims',
    credential: ADMINISTRATOR,
    parameters: ONE_ROLE,
    body: { schema: z.looseObject({ base_version: BASE_VERSION }) },
    answers: CHANGED,
    refuses: { 409: ['conflict'], 412: ['precondition_failed'], 428: ['precondition_failed'] },
    handle: async (api: Administration, { caller, parameters: { id }, body, answer }) => {
      const { base_version, ...input } = body
      const role = parseRole(input, 'role')
      const kind = 'role_changed'
      const published = await changeRoles(
        api,
        caller,
        { base_version, kind, data: { role: id, ...role } },
        charter => {
          refuseFault(roleFault(id, role, { claims: charter.claims, at: 'role' }))
          return { ...charter, roles: { ...charter.roles, [id]: role } }
        },
      )
      return answer(200, published)
    },
  }),
  endpoint({
    method: 'delete',
    path: '/admin/roles/{id}',
    rows: ['org-roles-delete'],
    summary: 'Deletes a group that nobody is in and that is not the default one',
    credential: ADMINISTRATOR,
    parameters: ONE_ROLE,
    reads: { 'if-match': 'The version in force, in quotes.' },
    answers: CHANGED,
    refuses: { 409: ['conflict'], 412: ['precondition_failed'], 428: ['precondition_failed'] },
    handle: async (api: Administration, { caller, parameters: { id }, request, answer }) => {
      const base_version = matched(request.headers['if-match'])
      const change = { base_version, kind: 'role_deleted', data: { role: id } } as const
      const published = await changeRoles(api, caller, change, async (charter, tx) => {
        if (!Object.hasOwn(charter.roles, id)) refuse('not_found', NO_SUCH_ROLE)
        if (charter.default_role === id)
          refuse('conflict', 'Make another group the default one first: joiners come into this one.')
        if (await roleHasMembers(tx, id))
          refuse('conflict', 'Move its members first: somebody is in this group.')
        const { [id]: _group, ...roles } = charter.roles
        return { ...charter, roles }
      })
      return answer(200, published)
    },
  }),
  endpoint({
    method: 'post',
    path: '/admin/roles/default',
    rows: ['org-roles-default'],
    summary: 'The group of joiners; null grants them nothing',
    credential: ADMINISTRATOR,
    body: { schema: z.strictObject({ role: plainText(64).nullable(), base_version: BASE_VERSION }) },
    answers: CHANGED,
    refuses: {
      404: ['not_found'],
      409: ['conflict'],
      412: ['precondition_failed'],
      428: ['precondition_failed'],
    },
    handle: async (api: Administration, { caller, body: { role, base_version }, answer }) => {
      const change = { base_version, kind: 'default_role_changed', data: { role } } as const
      const published = await changeRoles(api, caller, change, charter => {
        const changed = { ...charter, default_role: role }
        refuseFault(charterFault(changed))
        return changed
      })
      return answer(200, published)
    },
  }),
]

interface RoleChange extends Pick<NewActivity, 'kind' | 'data'> {
  base_version: number
}

/** Publishes what `change` makes from the charter in force. Refuses 409 if that is not `base_version`. */
// oxlint-disable-next-line eslint/max-params -- where, who, what is recorded, and what is changed
function changeRoles(
  api: Administration,
  caller: OrganizationAdminCredential,
  { base_version, kind, data }: RoleChange,
  change: (charter: Charter, tx: Tx) => Charter | Promise<Charter>,
): Promise<z.output<typeof VERSION>> {
  return changeAs(api, caller, async (tx, version) => {
    refuseStale(version, base_version)
    const { charter } = await charterInForce(tx)
    const changed = await change(charter, tx)
    const { admin } = caller
    const row: CharterRow = await publish(tx, changed, { admin, affects: 'everybody' })
    await appendActivity(tx, { kind, admin, data: { ...data, charter_version: row.version } })
    return { version: row.version, s256: row.s256 }
  })
}

/** The version that If-Match names. Refuses 428 if it is missing, 400 if it is no version. */
function matched(header: string | undefined): number {
  if (header === undefined)
    refuse('precondition_failed', 'Send If-Match with the version that you read, such as "3".', {
      status: 428,
    })
  const named = /^"(0|[1-9]\d{0,14})"$/.exec(header)?.[1]
  return named === undefined
    ? refuse('invalid_request', 'Send If-Match as one version in quotes, such as "3".')
    : Number(named)
}
