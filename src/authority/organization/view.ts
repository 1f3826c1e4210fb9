/**
 * What an organization says of itself and of a member, as it is read: each member of its type, and only what
 * a charter could say. Whatever is sent beside is dropped. Contract: "The organization's authority"
 * (discovery, preview, join, envelope).
 */
import { z } from 'zod'
import { viewFault } from '../../rules/membership.ts'
import { sameOrigin } from '../../rules/registration.ts'
import type { MemberView } from '../../rules/member-view.ts'
import { DELEGATIONS } from '../../wire/charter.ts'
import type { Json } from '../../wire/json.ts'

/** Of the lists and texts that an organization sends: more than a charter can hold. */
const LIST_MAX = 1_000
const TEXT_MAX = 2_000

/** Nothing that could not stand in a charter: it is shown to people. */
const text = z
  .string()
  .max(TEXT_MAX)
  .regex(/^[^\p{Cc}\p{Cs}]+$/u)
const texts = z.array(text).max(LIST_MAX)
const powers = z.array(z.object({ what: text, detail: text })).max(LIST_MAX)

/** A member's view, as the owner API answers it too. */
export const VIEW_MEMBERS = {
  org: text,
  name: text,
  issuer: text,
  view: z.int(),
  charter_version: z.int(),
  published_at: text,
  charter_name: text,
  claims: texts,
  identity_provider: z.object({ issuer: text, subject: text.nullable() }).nullable(),
  max_expires_in: z.int(),
  allowed_scopes: texts.nullable(),
  require_prohibited: texts,
  always_ask: texts,
  require_clearance: z.record(text, texts),
  break_glass: z.object({
    enabled: z.boolean(),
    resources: texts,
    max_expires_in: z.int(),
    require_reason: z.boolean(),
    invokers: texts,
  }),
  summary: texts,
  powers: z.object({ gets: powers, can: powers, cannot: powers }),
  role: text.nullable(),
  role_name: text.nullable(),
  grants: texts,
  delegation: z.enum(DELEGATIONS),
  binds_s256: text,
}
const VIEW = z.object(VIEW_MEMBERS) satisfies z.ZodType<MemberView>

/** What an organization sent that is none of what it should be; the message is for the log. */
export class MalformedAnswer extends Error {}

/**
 * The view in an answer of `issuer`; throws `MalformedAnswer` for one that no charter of it could have made.
 */
export function readView(json: Json, issuer: string): MemberView {
  const read = VIEW.safeParse(json)
  if (!read.success) throw new MalformedAnswer(`no view: ${z.prettifyError(read.error)}`)
  if (read.data.issuer !== issuer) throw new MalformedAnswer('the view is of another organization')
  const fault = viewFault(read.data)
  if (fault !== undefined) throw new MalformedAnswer(`no view: ${fault}`)
  return read.data
}

const DISCOVERED = z.object({
  issuer: text,
  organization: z.object({ id: text, name: text }),
  jwks_uri: text,
  preview_endpoint: text,
  enrolment_endpoint: text,
  envelope_endpoint: text,
  leave_endpoint: text,
  decline_endpoint: text.optional(),
  invitation_endpoint: text.optional(),
  compliance_endpoint: text.optional(),
})

/** Where an organization's endpoints are, all at its own origin. */
export type Discovered = z.output<typeof DISCOVERED>

/**
 * The discovery document of `issuer`; throws `MalformedAnswer` for another's, and where an endpoint is at
 * another origin.
 */
export function readDiscovery(json: Json, issuer: string): Discovered {
  const read = DISCOVERED.safeParse(json)
  if (!read.success) throw new MalformedAnswer(`no discovery: ${z.prettifyError(read.error)}`)
  if (read.data.issuer !== issuer) throw new MalformedAnswer('the discovery is of another organization')
  const { issuer: _issuer, organization: _organization, ...addresses } = read.data
  const elsewhere = Object.entries(addresses).find(([, url]) => url !== undefined && !sameOrigin(url, issuer))
  if (elsewhere !== undefined) throw new MalformedAnswer(`${elsewhere[0]} is at another origin`)
  return read.data
}
