/**
 * Owns the checks of offered terms, before anybody is asked about them and before they are signed. Contract:
 * "need_info answer (beat 2)".
 */
import { offeredTerms, type NeedInfo } from '../../wire/negotiation/negotiation.ts'
import type { TermsTemplate } from '../../wire/negotiation/terms.ts'
import { fail } from '../agent-error.ts'
import type { Profile } from '../profile.ts'
import { checkAddress } from '../transports/transport.ts'
import type { AuthorityMetadata } from './metadata.ts'

/** The negotiation that the terms are offered in. */
interface OfferParts {
  profile: Pick<Profile, 'specNs' | 'allowLoopback'>
  authority: Pick<AuthorityMetadata, 'issuer'>
  request: { owner?: string | undefined }
}

/**
 * The offered terms, once it is certain that they are this authority's own and name their document on its
 * origin: the agent signs what the owner offers, not what somebody else claims that she offers.
 */
export function readOffer({ profile, authority, request }: OfferParts, needed: NeedInfo): TermsTemplate {
  const template = offeredTerms(needed, profile.specNs)
  if (!template) {
    const formats = needed.required_claims.flatMap(claim => claim.claim_token_format)
    fail(
      'unsupported_claim',
      `The authority asks for claims that this agent cannot bring: ${formats.join(', ') || 'unnamed'}.`,
    )
  }
  if (template.proffered_by !== authority.issuer) {
    fail(
      'terms_untrusted',
      `The terms are proffered by ${template.proffered_by}, not by ${authority.issuer}.`,
    )
  }
  const document = checkAddress(template.terms_uri, profile.allowLoopback, 'terms document')
  if (document.origin !== new URL(authority.issuer).origin) {
    fail('terms_untrusted', `The terms document is at ${document.origin}, and not at ${authority.issuer}.`)
  }
  if (request.owner !== undefined) checkOwner(template, request.owner)
  return template
}

/**
 * The resource writes the challenge, and its authority knows whose the terms are: a resource must not choose
 * the key, for one key at two owners' would link them. A resource's id may begin with a namespace of hers.
 */
function checkOwner({ template_id, resource_id }: TermsTemplate, owner: string): void {
  const named = [template_id, resource_id].filter(id => id.includes('/')).map(id => id.split('/')[0]!)
  if (named.length === 0 || named.includes(owner)) return
  fail(
    'terms_untrusted',
    `The resource says that it is ${owner}'s, but the terms are those of ${named[0]!}, so nothing was signed.`,
  )
}
