/**
 * The document that a member's authorization server polls: the ceiling, and what her group shares. Contract:
 * "The organization's authority" (`/member/envelope`).
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../http/servers/endpoint.ts'
import { readCharterVersion } from '../../storage/organization/charters.ts'
import { MEMBER_VIEW } from '../../wire/documents/member-view.ts'
import { namesTag } from '../../wire/entity-tags.ts'
import { ORGANIZATION_PATH } from '../../wire/names.ts'
import type { Organization } from '../context.ts'
import { MEMBER } from './credential.ts'
import { viewUnder } from './view.ts'

export const ENVELOPE: readonly Endpoint<Organization>[] = [
  endpoint({
    method: 'get',
    path: ORGANIZATION_PATH.envelope,
    rows: ['org-member-envelope'],
    summary: 'Her view as it is now',
    credential: MEMBER,
    reads: { 'if-none-match': 'The ETag of the view that is known.' },
    answers: {
      200: { says: 'Her view; ETag is its number.', schema: MEMBER_VIEW },
      304: { says: 'It is the one that is known.', schema: z.null() },
    },
    handle: async (organization: Organization, { caller, request, answer }) => {
      const etag = `"${caller.view}"`
      if (namesTag(request.headers['if-none-match'], etag)) return answer(304, null, { etag })
      const row = await readCharterVersion(organization.database.ofNobody, caller.view_version)
      return answer(200, viewUnder(organization, row!, caller), { etag, 'cache-control': 'no-store' })
    },
  }),
]
