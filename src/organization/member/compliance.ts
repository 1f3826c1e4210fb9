/**
 * The report of a member's authorization server: that the ceiling was applied, and which fields it cut.
 * Contract: "The organization's authority" (`/member/compliance`: never her terms), "Events" (compliance
 * report).
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../http/servers/endpoint.ts'
import { inTransaction } from '../../storage/core/database.ts'
import { appendActivity } from '../../storage/organization/activity.ts'
import { lockHead } from '../../storage/organization/charters.ts'
import { agreeAgain, readMember, reportCompliance } from '../../storage/organization/members.ts'
import { ORGANIZATION_PATH } from '../../wire/names.ts'
import { refuse } from '../../wire/refusal.ts'
import type { Organization } from '../context.ts'
import { spendOnce } from './authority.ts'
import { MEMBER } from './credential.ts'

const count = z.int().min(0)

/** Numbers and names of fields: no member could contain her terms. */
const REPORT = z.strictObject({
  charter_version: z.int().min(1),
  agreed_version: z.int().min(1).optional(),
  resources_governed: count,
  tiers_governed: count,
  clamped_fields: z.array(z.string().regex(/^[a-z][a-z0-9_]{0,63}$/, 'give the name of a field')).max(64),
  within: z.boolean(),
})

export const COMPLIANCE: readonly Endpoint<Organization>[] = [
  endpoint({
    method: 'post',
    path: ORGANIZATION_PATH.compliance,
    rows: ['org-member-compliance'],
    summary: 'That the ceiling was applied, which fields it cut, and to which version she has agreed',
    credential: MEMBER,
    body: { schema: REPORT },
    answers: { 200: { says: 'It is recorded.', schema: z.strictObject({ recorded: z.literal(true) }) } },
    handle: async ({ database: { ofNobody: db } }: Organization, { caller, body, answer }) => {
      const { owner, join_id, signature } = caller
      const { charter_version, agreed_version } = body
      await inTransaction(db, async tx => {
        const inForce = await lockHead(tx)
        await spendOnce(tx, signature)
        const member = await readMember(tx, owner)
        if (member === undefined || member.join_id !== join_id)
          refuse('invalid_token', 'This membership has ended.')
        if (Math.max(charter_version, agreed_version ?? 0) > inForce)
          refuse('invalid_request', 'Name versions that were published.')
        await reportCompliance(tx, owner, body)
        // A late report never takes back an agreement.
        if (agreed_version === undefined || agreed_version <= member.agreed_version) return
        await agreeAgain(tx, owner, agreed_version)
        await appendActivity(tx, { kind: 'agreed', owner, data: { charter_version: agreed_version } })
      })
      return answer(200, { recorded: true as const })
    },
  }),
]
