/**
 * Owns identity assertions: who may vouch for the agent, and what it checks before it sends one. Contract:
 * "need_info answer (beat 2)"; ID-JAG. An authority may ask for one, and names the issuer; only issuers of
 * the agent's own settings are ever asked.
 */
import { decodeBase64url, encodeBase64url } from '../../wire/encoding.ts'
import { requestedIdentity, type IdentityRequest } from '../../wire/agents/identity-claim.ts'
import { parseJson, type JsonObject } from '../../wire/json.ts'
import { asObject, compactMember, textMember } from '../../wire/json-members.ts'
import { issuerMetadataUrls } from '../../wire/resources/authorization-server-metadata.ts'
import { ID_JAG_TYP } from '../../wire/names.ts'
import type { NeedInfo } from '../../wire/negotiation/negotiation.ts'
import { AgentError, fail, reading } from '../agent-error.ts'
import { checkAddress, fetchDocument } from '../transports/transport.ts'

/**
 * The request to the agent's user. Everything but the token endpoint was checked against the negotiation; the
 * issuer itself published the endpoint.
 */
export interface AssertionRequest extends IdentityRequest {
  token_endpoint: string
  /** RFC 7638 thumbprint of the agent's key: `cnf.jkt` of the assertion. */
  jkt: string
  client_id: string | undefined
}

/**
 * The issuers that may vouch for the agent, and how it gets an assertion from them: a compact
 * `oauth-id-jag+jwt`.
 */
export interface IdentitySource {
  /** Issuers, exactly as they write their own names. */
  issuers: readonly string[]
  assertion: (request: AssertionRequest) => string | Promise<string>
}

/** The facts that an assertion must agree with. */
export interface IdentityBounds {
  authority: string
  resource: string
  tool: string
  jkt: string
  client_id: string | undefined
  allowLoopback: boolean
  signal?: AbortSignal | undefined
}

/**
 * The claim_token that answers `needed`, base64url, and whose assertion it is; undefined if no assertion is
 * asked for. Fails with `identity_required` if this agent has no source, `identity_untrusted` if the request
 * does not agree with the negotiation or names an issuer that is not listed, and `identity_unusable` for an
 * assertion that the authority would certainly refuse.
 */
export async function identityToken(
  source: IdentitySource | undefined,
  needed: NeedInfo,
  bounds: IdentityBounds,
): Promise<{ issuer: string; claim_token: string } | undefined> {
  const request = reading('answer_malformed', 'The authority asks for an identity that cannot be read', () =>
    requestedIdentity(needed),
  )
  if (request === undefined) return undefined
  checkRequest(source, request, bounds)
  const token_endpoint = await tokenEndpointOf(request.issuer, bounds)
  const { jkt, client_id } = bounds
  // If the authority names several operations, the one that is called.
  const scope = request.scope === undefined ? undefined : bounds.tool
  const assertionRequest: AssertionRequest = { ...request, scope, token_endpoint, jkt, client_id }
  const assertion = await fetchAssertion(source, assertionRequest)
  checkAssertion(assertion, assertionRequest)
  return { issuer: request.issuer, claim_token: encodeBase64url(assertion) }
}

function checkRequest(
  source: IdentitySource | undefined,
  { issuer, audience, resource, scope }: IdentityRequest,
  bounds: IdentityBounds,
): asserts source is IdentitySource {
  if (source === undefined)
    fail(
      'identity_required',
      `The authority asks for an identity assertion by ${issuer}, and this agent has none. Give usher agent call --identity-issuer and --identity-command, or createAgent identity_issuers and identityAssertion.`,
    )
  if (!source.issuers.includes(issuer))
    fail(
      'identity_untrusted',
      `The authority asks for an identity assertion by ${issuer}, which is not listed. If it may vouch for this agent, add it to --identity-issuer (identity_issuers of createAgent).`,
    )
  if (audience !== bounds.authority)
    fail('identity_untrusted', `${bounds.authority} asks for an assertion to another audience, ${audience}.`)
  if (resource !== undefined && resource !== bounds.resource)
    fail(
      'identity_untrusted',
      `The assertion is asked for another resource than the one called, ${resource}.`,
    )
  if (scope !== undefined && !scope.split(' ').includes(bounds.tool))
    fail('identity_untrusted', `The assertion is asked for another operation than the one called, ${scope}.`)
}

async function fetchAssertion(source: IdentitySource, assertionRequest: AssertionRequest): Promise<string> {
  try {
    return await source.assertion(assertionRequest)
  } catch (cause) {
    if (cause instanceof AgentError) throw cause
    return fail('identity_unusable', `No identity assertion by ${assertionRequest.issuer} could be had.`, {
      cause,
    })
  }
}

/**
 * The authority would only find out later that an assertion is for another key, audience or issuer, and that
 * would cost a negotiation.
 */
function checkAssertion(assertion: string, { issuer, audience, jkt }: AssertionRequest): void {
  const { header, payload } = reading('identity_unusable', 'The identity assertion cannot be read', () =>
    unverified(assertion),
  )
  const claims = payload as { aud?: unknown; cnf?: { jkt?: unknown } }
  const to = Array.isArray(claims.aud) && claims.aud.length === 1 ? (claims.aud[0] as unknown) : claims.aud
  const faults = [
    typeof header['typ'] === 'string' && header['typ'].toLowerCase() === ID_JAG_TYP ? '' : 'typ',
    payload['iss'] === issuer ? '' : 'iss',
    to === audience ? '' : 'aud',
    claims.cnf?.jkt === jkt ? '' : 'cnf.jkt',
  ].filter(fault => fault !== '')
  if (faults.length > 0)
    fail(
      'identity_unusable',
      `The identity assertion is not the one that was asked for: ${faults.join(', ')} differ.`,
    )
}

/**
 * The two objects of a JWT. Its signature is for the authority to verify, by an algorithm that may be none of
 * ours.
 */
function unverified(assertion: string): { header: JsonObject; payload: JsonObject } {
  const [header, payload] = compactMember({ assertion }, 'assertion')
    .split('.')
    .slice(0, 2)
    .map(part => parseJson(decodeBase64url(part)))
  return { header: asObject(header, 'the header'), payload: asObject(payload, 'the claims') }
}

/** The issuer's token endpoint: by its OpenID document, else that of RFC 8414. */
async function tokenEndpointOf(issuer: string, bounds: IdentityBounds): Promise<string> {
  const base = checkAddress(issuer, bounds.allowLoopback, 'identity provider')
  const { openid, oauth } = issuerMetadataUrls(base.href)
  const at = (url: string): Promise<JsonObject> =>
    fetchDocument(new URL(url), "identity provider's metadata", bounds.signal)
  const document = await at(openid).catch((absent: unknown) => {
    if (!(absent instanceof AgentError) || absent.status !== 404) throw absent
    return at(oauth)
  })
  if (document['issuer'] !== issuer)
    fail('identity_untrusted', `The identity provider at ${issuer} calls itself by another name.`)
  const endpoint = reading('answer_malformed', "The identity provider's metadata is not usable", () =>
    textMember(document, 'token_endpoint'),
  )
  return checkAddress(endpoint, bounds.allowLoopback, "identity provider's token endpoint").href
}
