/**
 * Owns an emergency: a grant of the owner's organization, for one call, without her decision. Contract: "The
 * organization's authority" (`/break-glass`). Her own authority must accept it, and she is notified about all
 * of it.
 */
import { s256, s256Json } from '../../wire/encoding.ts'
import type { JsonObject } from '../../wire/json.ts'
import { parseJwks, publicJwk } from '../../wire/signatures/keys.ts'
import { compactMember, textMember } from '../../wire/json-members.ts'
import { WELL_KNOWN } from '../../wire/names.ts'
import { verifyRpt, type RptClaims } from '../../wire/negotiation/tokens.ts'
import { toolParameters } from '../../wire/resources/tool-parameters.ts'
import { signedFields } from '../../wire/signatures/sent-request.ts'
import { fail, reading } from '../agent-error.ts'
import { toolCallParams, type ToolCall } from '../transports/mcp.ts'
import type { Profile } from '../profile.ts'
import type { Grant } from '../store.ts'
import { readAnswerObject, refusalOf } from './token.ts'
import { checkAddress, DOCUMENT_BYTES_MAX, exchange, fetchDocument } from '../transports/transport.ts'

/** What asking for an emergency grant needs, besides the call itself. */
export interface BreakGlassOptions {
  /** The issuer of the owner's organization. */
  organization: string
  owner: string
  /** The scopes that the call needs, as the resource's terms name them. */
  resource_id: string
  scopes: readonly string[]
  /** A description of the emergency; she reads it. */
  reason?: string | undefined
  /**
   * The voucher of an administrator. Without one, the agent acts for the invoker that its `client_id` names.
   */
  voucher?: string | undefined
  /** Seconds. */
  expires_in?: number | undefined
}

/** The organization asks her authority before it answers, so this takes longer. */
const SECONDS_MAX = 20

/**
 * Redeems an emergency window for exactly this call. Fails with the organization's own refusal code, and with
 * `grant_untrusted` if the grant is not the one that was requested. The call spends the grant.
 */
export async function redeemEmergency(
  profile: Profile,
  emergency: BreakGlassOptions,
  { resource, call, signal }: { resource: string; call: ToolCall; signal: AbortSignal | undefined },
): Promise<Grant> {
  const issuer = emergency.organization
  const { endpoint, jwksUri } = await discover(profile, issuer, signal)
  const params = reading('request_invalid', 'The call cannot be let through', () =>
    toolParameters(toolCallParams(call)),
  )
  const body = JSON.stringify(requestOf(profile, emergency, { resource, tool: call.tool, params }))
  const answer = await exchange(
    {
      method: 'POST',
      url: endpoint,
      headers: {
        accept: 'application/json',
        'content-type': 'application/json',
        // With the key that the grant will be bound to, over the whole body.
        ...signedFields({ method: 'POST', url: endpoint, headers: {}, body }, profile.key, {
          created: profile.now(),
          keyid: profile.key.thumbprint,
        }),
      },
      body,
      timeoutSeconds: SECONDS_MAX,
      signal,
    },
    DOCUMENT_BYTES_MAX,
  )
  const answerBody = readAnswerObject(answer, { who: 'organization', now: profile.now() })
  if (answer.status !== 200) throw refusalOf(answer, answerBody, { who: 'organization', now: profile.now() })
  const access_token = reading('answer_malformed', "The organization's answer is not usable", () =>
    compactMember(answerBody, 'access_token'),
  )
  const keys = await fetchDocument(jwksUri, "organization's keys", signal)
  const claims = reading('grant_untrusted', 'The emergency grant does not verify', () =>
    verifyRpt(access_token, parseJwks(keys), { issuer, audience: resource, now: profile.now() }),
  )
  const request = {
    emergency,
    operation: { tool: call.tool, params_s256: s256Json(params) },
    contract: s256(body),
  }
  checkClaims(profile, claims, request)
  const { jti, family, contract, permissions, exp } = claims
  return { access_token, jti, resource, as_uri: issuer, family, permissions, exp, contract, single_use: true }
}

function requestOf(
  profile: Profile,
  { owner, resource_id, scopes, reason, voucher, expires_in }: BreakGlassOptions,
  { resource, tool, params }: { resource: string; tool: string; params: JsonObject },
): JsonObject {
  return {
    owner,
    resource,
    resource_id,
    scopes: [...scopes],
    agent_jwk: { ...publicJwk(profile.key) },
    operation: { tool, params },
    ...(reason === undefined ? {} : { reason }),
    ...(voucher === undefined ? {} : { voucher }),
    ...(voucher !== undefined || profile.client_id === undefined ? {} : { client_id: profile.client_id }),
    ...(expires_in === undefined ? {} : { expires_in }),
  }
}

/** The organization's redemption endpoint and its keys, from its own document, on its own origin. */
async function discover(
  { allowLoopback }: Profile,
  issuer: string,
  signal: AbortSignal | undefined,
): Promise<{ endpoint: URL; jwksUri: URL }> {
  const base = checkAddress(issuer, allowLoopback, 'organization')
  const document = await fetchDocument(
    new URL(issuer + WELL_KNOWN.organization),
    "organization's metadata",
    signal,
  )
  const at = (name: string): URL => {
    const text = reading('answer_malformed', "The organization's metadata is not usable", () =>
      textMember(document, name),
    )
    const url = checkAddress(text, allowLoopback, `organization's ${name}`)
    if (url.origin !== base.origin)
      fail('challenge_untrusted', `The organization names a ${name} at ${url.origin}, which is not its own.`)
    return url
  }
  if (document['issuer'] !== issuer)
    fail('challenge_untrusted', `The organization at ${issuer} calls itself by another name.`)
  return { endpoint: at('break_glass_endpoint'), jwksUri: at('jwks_uri') }
}

function checkClaims(
  { key }: Profile,
  claims: RptClaims,
  request: {
    emergency: BreakGlassOptions
    operation: { tool: string; params_s256: string }
    contract: string
  },
): void {
  const { emergency, operation, contract } = request
  const faults = {
    'another key': claims.cnf.jwk.x !== key.x,
    'another owner': claims.owner !== emergency.owner,
    'another request': claims.contract !== contract,
    'more than one use': claims.single_use !== true,
    'another operation':
      claims.operation?.tool !== operation.tool || claims.operation.params_s256 !== operation.params_s256,
    'other resources': claims.permissions.some(one => one.resource_id !== emergency.resource_id),
  }
  const fault = Object.entries(faults).find(([, wrong]) => wrong)?.[0]
  if (fault !== undefined) fail('grant_untrusted', `The emergency grant is for ${fault}.`)
}
