/**
 * Owns how an identity assertion is requested before terms are offered: one element of `required_claims`,
 * built by the authorization server and read by the agent. Contract: "need_info answer (beat 2)"
 * (`claim_token_format`: an identity assertion may be asked for); ID-JAG.
 */
import { textMember } from '../json-members.ts'
import { ID_JAG } from '../names.ts'
import type { NeedInfo } from '../negotiation/negotiation.ts'

const GRANT_TYPE_TOKEN_EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange'
const SUBJECT_TOKEN_TYPES = ['urn:ietf:params:oauth:token-type:id_token']

/** Requirements for an assertion: by `issuer`, to `audience`, for this resource and operation. */
export type IdentityRequest = {
  issuer: string
  audience: string
  resource?: string | undefined
  /** The name of the operation; if several may be meant, their names with blanks between. */
  scope?: string | undefined
}

/** The request of an authorization server; `tokenEndpoint` is the issuer's. */
export type IdentityDemand = IdentityRequest & { tokenEndpoint: string }

/** The `need_info` body that asks for an identity assertion, before any terms. */
export function needIdentity(of: IdentityDemand & { ticket: string }): NeedInfo {
  const { ticket, issuer, tokenEndpoint, audience, resource, scope } = of
  return {
    error: 'need_info',
    ticket,
    required_claims: [
      {
        claim_type: ID_JAG,
        claim_token_format: [ID_JAG],
        friendly_name: "An identity assertion by the organization's provider",
        identity_provider: {
          issuer,
          token_endpoint: tokenEndpoint,
          grant_type: GRANT_TYPE_TOKEN_EXCHANGE,
          requested_token_type: ID_JAG,
          subject_token_types_supported: SUBJECT_TOKEN_TYPES,
        },
        audience,
        ...(resource === undefined ? {} : { resource }),
        ...(scope === undefined ? {} : { scope }),
      },
    ],
  }
}

/**
 * The identity assertion that an answer asks for; undefined if it asks for none, or does not say by whom and
 * to whom. Only the issuer of `identity_provider` is read: the code that fetches an assertion asks the issuer
 * itself for the rest. Refuses (`invalid_request`) a provider without an issuer.
 */
export function requestedIdentity(needed: NeedInfo): IdentityRequest | undefined {
  const claim = needed.required_claims.find(one => one.claim_token_format.includes(ID_JAG))
  if (claim === undefined) return undefined
  const { identity_provider, audience, resource, scope } = claim
  if (identity_provider === undefined || audience === undefined) return undefined
  return { issuer: textMember(identity_provider, 'issuer'), audience, resource, scope }
}
