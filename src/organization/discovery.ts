/**
 * What anybody may know of an organization: its endpoints and its keys. Contract: "The organization's
 * authority".
 */
import { z } from 'zod'
import { ANY_ORIGIN } from '../http/servers/any-origin.ts'
import { endpoint, type Endpoint } from '../http/servers/endpoint.ts'
import { readCharter } from '../storage/organization/charters.ts'
import { publicJwk } from '../wire/signatures/keys.ts'
import { ORGANIZATION_ALIAS, ORGANIZATION_PATH, WELL_KNOWN } from '../wire/names.ts'
import { refuse } from '../wire/refusal.ts'
import type { Organization } from './context.ts'

/** The charter may change at any time; others cache the keys as long as those of an authority. */
const FRESH = { 'cache-control': 'no-cache', ...ANY_ORIGIN }
const KEPT = { 'cache-control': 'public, max-age=300', ...ANY_ORIGIN }

const METADATA = z.strictObject({
  issuer: z.string(),
  organization: z.strictObject({ id: z.string(), name: z.string() }),
  jwks_uri: z.string(),
  preview_endpoint: z.string(),
  enrolment_endpoint: z.string(),
  envelope_endpoint: z.string(),
  leave_endpoint: z.string(),
  decline_endpoint: z.string(),
  invitation_endpoint: z.string(),
  clearance_endpoint: z.string(),
  compliance_endpoint: z.string(),
  membership_endpoint: z.string(),
  break_glass_endpoint: z.string(),
  introspection_endpoint: z.string(),
  consume_endpoint: z.string(),
  decision_endpoint: z.string(),
  charter_version: z.int(),
  break_glass: z.boolean(),
  claims: z.array(z.string()),
  identity_provider: z.strictObject({ issuer: z.string() }).nullable(),
})

export const DISCOVERY: readonly Endpoint<Organization>[] = [
  metadataAt(WELL_KNOWN.organization, ['org-discovery']),
  metadataAt(ORGANIZATION_ALIAS.discovery, { addedUnder: "The organization's authority" }, ({ aliases }) => {
    if (!aliases.includes(ORGANIZATION_ALIAS.discovery))
      refuse('not_found', 'Nothing is served at this path.')
  }),
  endpoint({
    method: 'get',
    path: ORGANIZATION_PATH.jwks,
    rows: ['org-jwks'],
    summary: 'Its signing keys',
    answers: {
      200: { says: 'A JWK set.', schema: z.object({ keys: z.array(z.looseObject({})) }), headers: KEPT },
    },
    handle: async ({ keys }: Organization, { answer }) =>
      answer(200, { keys: keys.map(key => ({ ...publicJwk(key) })) }),
  }),
]

function metadataAt(
  path: string,
  rows: Endpoint<Organization>['rows'],
  first?: (organization: Organization) => void,
): Endpoint<Organization> {
  return endpoint({
    method: 'get',
    path,
    rows,
    summary: 'Issuer, keys and endpoints; what is claimed now',
    answers: { 200: { says: 'The metadata.', schema: METADATA, headers: FRESH } },
    ...(first === undefined ? {} : { first }),
    handle: async ({ issuer, id, name, database }: Organization, { answer }) => {
      const row = await readCharter(database.ofNobody)
      const provider = row?.charter.identity_provider ?? null
      return answer(200, {
        issuer,
        organization: { id, name },
        jwks_uri: issuer + ORGANIZATION_PATH.jwks,
        preview_endpoint: issuer + ORGANIZATION_PATH.preview,
        enrolment_endpoint: issuer + ORGANIZATION_PATH.join,
        envelope_endpoint: issuer + ORGANIZATION_PATH.envelope,
        leave_endpoint: issuer + ORGANIZATION_PATH.leave,
        decline_endpoint: issuer + ORGANIZATION_PATH.decline,
        invitation_endpoint: issuer + ORGANIZATION_PATH.invitation,
        clearance_endpoint: issuer + ORGANIZATION_PATH.clearance,
        compliance_endpoint: issuer + ORGANIZATION_PATH.compliance,
        membership_endpoint: issuer + ORGANIZATION_PATH.membership,
        break_glass_endpoint: issuer + ORGANIZATION_PATH.breakGlass,
        introspection_endpoint: issuer + ORGANIZATION_PATH.introspect,
        consume_endpoint: issuer + ORGANIZATION_PATH.consume,
        decision_endpoint: issuer + ORGANIZATION_PATH.decision,
        charter_version: row?.version ?? 0,
        break_glass: row?.charter.break_glass.enabled ?? false,
        claims: row?.charter.claims ?? [],
        identity_provider: provider && { issuer: provider.issuer },
      })
    },
  })
}
