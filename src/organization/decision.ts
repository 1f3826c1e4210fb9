/**
 * The organization's answer to one request of an agent. Contract: "The organization's authority"
 * (`/decision`: allow, ask or refuse; never widens).
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../http/servers/endpoint.ts'
import { plainText } from '../http/servers/pages.ts'
import { decideUnderCharter } from '../rules/organization/charter-decision.ts'
import { readCharterVersion } from '../storage/organization/charters.ts'
import { ORGANIZATION_PATH } from '../wire/names.ts'
import type { Organization } from './context.ts'
import { clearanceOf } from './member/clearance.ts'
import { MEMBER } from './member/credential.ts'

const level = z.int().min(0).max(9)

const ASKED = z.strictObject({
  resource_id: plainText(2_048),
  scopes: z.array(plainText(200)).max(256),
  expires_in: z.int().min(1),
  reason_absent: z.boolean(),
  mission_absent: z.boolean(),
  operation: z.strictObject({ tool: plainText(500), params_s256: plainText(100) }).optional(),
  assurance: z.strictObject({ binding: level, provenance: level, accountability: level }),
  standing: z.strictObject({ connected: z.boolean(), first_party: z.boolean(), introduced: z.boolean() }),
  // An organization may not see her names for her tiers, nor their purposes: a request with them is refused
  // and not read.
  tier: z.null().optional(),
  purpose: z.null().optional(),
})

const DECISION = z.strictObject({
  effect: z.enum(['allow', 'ask', 'refuse']),
  because: z.array(z.string()),
  governed: z.boolean(),
  charter_version: z.int(),
  /**
   * The same as from `/member/clearance`, so that no presentation asks twice; null if nothing is attested, or
   * nothing is governed.
   */
  clearance: z.string().nullable(),
})

export const DECISIONS: readonly Endpoint<Organization>[] = [
  endpoint({
    method: 'post',
    path: ORGANIZATION_PATH.decision,
    rows: ['org-decision'],
    summary: 'Allow, ask or refuse, for one request over a resource of a member; changes nothing',
    credential: MEMBER,
    body: { schema: ASKED },
    answers: {
      200: {
        says: 'The strictest of all that the charter says about it.',
        schema: DECISION,
        headers: { 'cache-control': 'no-store' },
      },
    },
    handle: async (organization: Organization, { caller, body, answer }) => {
      // The version of her view: text and groups change for all members at once.
      const { ofNobody: db } = organization.database
      const { version, charter } = (await readCharterVersion(db, caller.view_version))!
      const { role, clearance } = caller
      const decided = decideUnderCharter({ charter, role, clearance }, body)
      if (decided.effect === 'refuse') {
        const { owner } = caller
        const { resource_id } = body
        const line = { event: 'decision_refused', owner, resource_id, because: decided.because }
        organization.security.reportLimited(owner, line)
      }
      const attested = decided.governed ? clearanceOf(organization, caller) : undefined
      return answer(200, { ...decided, charter_version: version, clearance: attested ?? null })
    },
  }),
]
