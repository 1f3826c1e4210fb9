/**
 * Whether the organization invited a named person, and her answer that she declines. Contract: "The
 * organization's authority" (`/member/invitation`), "Organization membership, on the member's authorization
 * server" (refuse an invitation, recorded as an answer).
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../http/servers/endpoint.ts'
import { plainText } from '../../http/servers/pages.ts'
import { inTransaction } from '../../storage/core/database.ts'
import { appendActivity } from '../../storage/organization/activity.ts'
import { lockHead } from '../../storage/organization/charters.ts'
import { declineInvitations, readInvitationOf } from '../../storage/organization/invitations.ts'
import { invitationCode, isCode } from '../../wire/organization/join-code.ts'
import { ORGANIZATION_PATH } from '../../wire/names.ts'
import { refuse } from '../../wire/refusal.ts'
import type { Organization } from '../context.ts'
import { PERSON, provenAuthority, spendOnce } from './authority.ts'
import { goodInvitation } from './codes.ts'

const INVITED = z.strictObject({
  invitation: z.strictObject({
    code: z.string(),
    note: z.string().nullable(),
    invited_at: z.string(),
    expires_at: z.string(),
  }),
})
const NOBODY_ASKED = 'No invitation waits for this person.'

export const INVITATION: readonly Endpoint<Organization>[] = [
  endpoint({
    method: 'get',
    path: ORGANIZATION_PATH.invitation,
    rows: ['org-member-invitation'],
    summary: 'The invitation that waits for an owner, told to her own authorization server; 404: none does',
    query: z.strictObject(PERSON),
    answers: {
      200: { says: 'The newest.', schema: INVITED, headers: { 'cache-control': 'no-store' } },
    },
    refuses: { 401: ['invalid_token'], 404: ['not_found'] },
    handle: async (organization: Organization, { query: person, request, answer }) => {
      await provenAuthority(organization, request, person.as_uri)
      const row = await readInvitationOf(organization.database.ofNobody, person)
      if (row === undefined) refuse('not_found', NOBODY_ASKED)
      const { note, invited_at, expires_at, code_id, code_sha256 } = row
      // Only the hash of the code is stored. The code is computed again, with the key that was in use when it
      // was made.
      const code = organization.keys
        .map(key => invitationCode(code_id, key))
        .find(one => isCode(one, code_sha256))
      if (code === undefined) refuse('not_found', NOBODY_ASKED)
      return answer(200, { invitation: { code, note, invited_at, expires_at } })
    },
  }),
  endpoint({
    method: 'post',
    path: ORGANIZATION_PATH.decline,
    rows: { addedUnder: "The organization's authority" },
    summary: 'She does not join: the code is dead, or every invitation of hers where none is named',
    body: { schema: z.strictObject({ ...PERSON, code: plainText(200).optional() }) },
    answers: {
      200: { says: 'Nothing waits for her.', schema: z.strictObject({ declined: z.literal(true) }) },
    },
    refuses: { 401: ['invalid_token'], 404: ['not_found'] },
    handle: async (organization: Organization, { body: { code, ...person }, request, answer }) => {
      const signature = await provenAuthority(organization, request, person.as_uri)
      const code_id =
        code === undefined ? undefined : await goodInvitation(organization, request, { ...person, code })
      await inTransaction(organization.database.ofNobody, async tx => {
        await lockHead(tx)
        await spendOnce(tx, signature)
        const { owner, as_uri } = person
        for (const declined of await declineInvitations(tx, person, code_id))
          await appendActivity(tx, { kind: 'declined', owner, data: { code_id: declined, as_uri } })
      })
      return answer(200, { declined: true as const })
    },
  }),
]
