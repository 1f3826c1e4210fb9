/**
 * The facts that an enforcement point needs about an owner whose resource it enforces. Contract: "The
 * organization's authority" (`/membership/{owner}`), "Authorized call" (the organization's ceiling).
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../http/servers/endpoint.ts'
import { agreedCharter } from '../../rules/organization/agreed-charter.ts'
import { sharedWith } from '../../rules/organization/member-view.ts'
import { readCharter, readCharterVersion } from '../../storage/organization/charters.ts'
import type { Db } from '../../storage/organization/database.ts'
import { readMember, type MemberRow } from '../../storage/organization/members.ts'
import { MEMBERSHIP_ANSWER, type EnforcedMembership } from '../../wire/documents/enforced-membership.ts'
import { asOwner } from '../../wire/identifiers.ts'
import { NAME_PATTERN, ORGANIZATION_PATH } from '../../wire/names.ts'
import { refuse } from '../../wire/refusal.ts'
import type { Organization } from '../context.ts'
import { ENFORCEMENT_POINT } from './guard.ts'

const UNKNOWN = 'No resource of this owner is yours to ask about.'

export const ENFORCED_MEMBERSHIP: readonly Endpoint<Organization>[] = [
  endpoint({
    method: 'get',
    path: `${ORGANIZATION_PATH.membership}/{owner}`,
    rows: ['org-membership'],
    summary: 'What is governed of an owner here, what is shared with her, and the ceiling',
    credential: ENFORCEMENT_POINT,
    parameters: {
      schema: z.strictObject({ owner: z.string().regex(NAME_PATTERN).transform(asOwner) }),
      unknown: UNKNOWN,
    },
    answers: {
      200: {
        says: 'The membership as it is now; for an owner who is no member, only the claims.',
        schema: MEMBERSHIP_ANSWER,
        headers: { 'cache-control': 'no-store' },
      },
    },
    handle: async ({ database }: Organization, { caller, parameters: { owner }, answer }) => {
      if (![...caller.resources.values()].includes(owner)) refuse('not_found', UNKNOWN)
      const db = database.ofNobody
      const member = await readMember(db, owner)
      if (member !== undefined) return answer(200, await enforcedOf(db, member))
      const claims = (await readCharter(db))?.charter.claims ?? []
      return answer(200, { member: false as const, claims })
    },
  }),
]

/** Her ceiling as it is now, over what she agreed to have governed. */
async function enforcedOf(db: Db, member: MemberRow): Promise<EnforcedMembership> {
  const { role, joined_at, as_uri, view, view_version, agreed_version } = member
  const [inForce, agreed] = await Promise.all(
    [view_version, agreed_version].map(version => readCharterVersion(db, version)),
  )
  const { charter } = inForce!
  const { claims, break_glass } = agreedCharter(charter, agreed!.charter)
  const { envelope } = charter
  return {
    member: true,
    since: joined_at,
    as_uri,
    view,
    charter_version: view_version,
    claims,
    ...sharedWith(charter, role),
    max_expires_in: envelope.max_expires_in,
    allowed_scopes: envelope.allowed_scopes,
    always_ask: envelope.always_ask,
    break_glass: {
      enabled: break_glass.enabled,
      resources: break_glass.resources,
      max_expires_in: break_glass.max_expires_in,
    },
  }
}
