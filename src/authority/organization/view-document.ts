/**
 * Reads an organization's description of itself and of a member: each member must have its type, and only
 * what a charter could say is accepted. Everything else is dropped. Contract: "The organization's authority"
 * (discovery, preview, join, envelope).
 */
import { z } from 'zod'
import { approvalsNeeded } from '../../rules/organization/agreed-charter.ts'
import { narrowerCeilings } from '../../rules/organization/allowance-ceiling.ts'
import { viewFault, type AgreedView } from '../../rules/organization/membership.ts'
import { sameOrigin } from '../../rules/registration.ts'
import { ALLOWANCE_CEILING, MEMBER_VIEW, type MemberView } from '../../wire/documents/member-view.ts'
import type { Json } from '../../wire/json.ts'
import type { AllowanceCeiling } from '../../wire/organization/charter.ts'

const text = MEMBER_VIEW.shape.name
const texts = MEMBER_VIEW.shape.summary

/** The organization's answer is not in the expected form; the message is for the log. */
export class MalformedAnswer extends Error {}

/**
 * The view in an answer of `issuer`; throws `MalformedAnswer` for a view that none of its charters could
 * produce.
 */
export function readView(json: Json, issuer: string): MemberView {
  const read = MEMBER_VIEW.safeParse(json)
  if (!read.success) throw new MalformedAnswer(`no view: ${z.prettifyError(read.error)}`)
  if (read.data.issuer !== issuer) throw new MalformedAnswer('the view is of another organization')
  const fault = viewFault(read.data)
  if (fault !== undefined) throw new MalformedAnswer(`no view: ${fault}`)
  return read.data
}

/**
 * How views that are stored bound allowances together: what one of them does not let through does not pass.
 * Undefined if none bounds them. `unreadable`: nobody here knows how, as another version of this authority
 * may have stored one.
 */
export function readAllowanceCeilings(
  views: readonly Pick<MemberView, 'max_allowance'>[],
): readonly AllowanceCeiling[] | 'unreadable' | undefined {
  let bounds: readonly AllowanceCeiling[] | undefined
  for (const { max_allowance } of views) {
    if (max_allowance === undefined) continue
    const read = STORED_CEILINGS.safeParse(max_allowance)
    if (!read.success) return 'unreadable'
    bounds = narrowerCeilings(bounds, read.data)
  }
  return bounds
}

/** Two lists together may have more entries than one. */
const STORED_CEILINGS = z.array(ALLOWANCE_CEILING)

/**
 * What she agreed to when a later view comes: her allowances are bounded as low, and as much needs somebody's
 * approval, as any view said since she agreed, because a tier stays as it was cut, too. What is raised, or
 * needs none any more, counts once she has agreed to it.
 */
export function agreedUnder(bound: AgreedView, later: MemberView): MemberView {
  const { view } = bound
  const agreed = { ...bound.agreed, always_ask: approvalsNeeded(bound.agreed, [view, later]) }
  const bounds = readAllowanceCeilings([agreed, view, later])
  if (bounds === undefined) return agreed
  if (bounds !== 'unreadable') return { ...agreed, max_allowance: [...bounds] }
  // What nobody here can read stays as it was stored, and lets nothing through.
  const unreadable = [agreed, view].find(one => readAllowanceCeilings([one]) === 'unreadable')
  return unreadable?.max_allowance === undefined
    ? agreed
    : { ...agreed, max_allowance: unreadable.max_allowance }
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
  decision_endpoint: text.optional(),
  clearance_endpoint: text.optional(),
})

/** Where an organization's endpoints are, all at its own origin. */
export type Discovered = z.output<typeof DISCOVERED>

/**
 * The discovery document of `issuer`; throws `MalformedAnswer` if the document is another issuer's, or if an
 * endpoint is at another origin.
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

const DECIDED = z.object({
  effect: z.enum(['allow', 'ask', 'refuse']),
  because: texts,
  governed: z.boolean(),
  charter_version: z.int(),
  clearance: z.string().nullable(),
})

/** An organization's answer to one request; its words for why are shown to people. */
export type OrganizationDecision = z.output<typeof DECIDED>

/** The answer for one request; throws `MalformedAnswer` if it is not an answer. */
export function readDecision(json: Json): OrganizationDecision {
  const read = DECIDED.safeParse(json)
  if (!read.success) throw new MalformedAnswer(`no decision: ${z.prettifyError(read.error)}`)
  return read.data
}

const ATTESTED = z.object({ clearance: z.string() })

/** The compact attestation in an answer, not verified; throws `MalformedAnswer` if there is none. */
export function readAttestation(json: Json): string {
  const read = ATTESTED.safeParse(json)
  if (!read.success) throw new MalformedAnswer(`no clearance: ${z.prettifyError(read.error)}`)
  return read.data.clearance
}
