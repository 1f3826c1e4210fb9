/**
 * A resource and its owner's authority on the wire, as an agent meets them: plain by default, and hostile or
 * broken if a test changes one of their documents or answers. They simulate peers that the real ones cannot
 * be made to be.
 */
import { s256Json } from '../../src/wire/encoding.ts'
import { verifyRequest } from '../../src/wire/signatures/http-signature.ts'
import type { JsonObject } from '../../src/wire/json.ts'
import { verifyAgreement, type Agreement } from '../../src/wire/negotiation/agreement.ts'
import { importPublicJwk, publicJwk, type PrivateKey } from '../../src/wire/signatures/keys.ts'
import { resourceMetadataUrl } from '../../src/wire/resources/resource-metadata.ts'
import { DEFAULT_SPEC_NS, ID_JAG } from '../../src/wire/names.ts'
import { buildRemediation, encodeChallenge } from '../../src/wire/negotiation/challenge.ts'
import { grantAnswer, needInfo, type Challenge } from '../../src/wire/negotiation/negotiation.ts'
import { signReceipt, type ReceiptClaims } from '../../src/wire/negotiation/receipt.ts'
import type { TermsTemplate } from '../../src/wire/negotiation/terms.ts'
import { newFamily, newJti, newNonce, newTicket } from '../../src/wire/negotiation/ticket.ts'
import { readRptClaims, signRpt, type RptClaims } from '../../src/wire/negotiation/tokens.ts'
import { startScriptedServer, type Received, type Reply, type ScriptedServer } from './scripted-http.ts'
import { newKey } from './wire-samples.ts'
import { asHandle, asOwner } from '../../src/wire/identifiers.ts'

/** What a test changes: each is given the plain document and answers the one to send. */
export interface Twists {
  challenge?: (plain: Challenge) => Challenge
  resourceMetadata?: (plain: JsonObject) => JsonObject
  authorityMetadata?: (plain: JsonObject) => JsonObject
  template?: (plain: TermsTemplate) => TermsTemplate
  rpt?: (plain: RptClaims) => RptClaims
  receipt?: (plain: ReceiptClaims) => ReceiptClaims
  /** What grants and receipts are signed with, if not the published key. */
  signWith?: PrivateKey
  /** Whether the owner is asked, and how many polls she takes; `denied` once they are over. */
  owner?: {
    polls: number
    kind: 'connection' | 'operation' | undefined
    interval: number
    denied?: boolean
    /** She reads the reason of an earlier request. */
    reason_shown?: false
  }
  /** The tool asks each time: a single-use grant for one operation. */
  perOperation?: boolean
  /**
   * What a server says to `server/discover`; one of MCP 2026-07-28 when left out. Undefined: like any other
   * request.
   */
  discovery?: (id: string) => Reply | undefined
}

export interface ScriptedPeers {
  /** The URL to call. */
  resource: string
  issuer: string
  tools: ScriptedServer
  authority: ScriptedServer
  twists: Twists
  /** The agreements presented so far, verified. */
  agreements: Agreement[]
  /** The grants issued so far. */
  grants: RptClaims[]
  /** Form parameters of every request to the token endpoint. */
  tokenForms(): Record<string, string>[]
  close(): Promise<void>
}

const SCOPE = 'read'

/** Starts both. The tool answers every authorized call with its arguments and the token's `jti`. */
export async function startScriptedPeers(): Promise<ScriptedPeers> {
  const key = newKey()
  const twists: Twists = {}
  const agreements: Agreement[] = []
  const grants: RptClaims[] = []
  const state: State = {
    key,
    twists,
    agreements,
    grants,
    template: undefined,
    polls: 0,
    resource: '',
    issuer: '',
  }
  const authority = await startScriptedServer(received => authorityAnswer(state, received))
  const tools = await startScriptedServer(
    received => resourceAnswer(state, received),
    undefined,
    received => discoveryAnswer(state, received),
  )
  state.issuer = authority.origin
  state.resource = `${tools.origin}/mcp/alice`
  return {
    resource: state.resource,
    issuer: state.issuer,
    tools,
    authority,
    twists,
    agreements,
    grants,
    tokenForms: () => authority.to('/token').map(({ form }) => Object.fromEntries(form)),
    close: async () => {
      await Promise.all([tools.close(), authority.close()])
    },
  }
}

interface State {
  key: PrivateKey
  twists: Twists
  agreements: Agreement[]
  grants: RptClaims[]
  template: TermsTemplate | undefined
  polls: number
  resource: string
  issuer: string
}

/** The challenge to a call of a tool, in both encodings' common form. */
export function challengeOf(state: Pick<ScriptedPeers, 'resource' | 'issuer'>, tool: string): Challenge {
  const { ticket } = newTicket('tag')
  const { resource, issuer } = state
  const call = {
    specNs: DEFAULT_SPEC_NS,
    owner: asOwner('alice'),
    tool,
    resourceUrl: resource,
    scopes: [SCOPE],
  }
  return {
    realm: 'tools',
    as_uri: issuer,
    ticket,
    resource_metadata: resourceMetadataUrl(resource),
    scope: SCOPE,
    authorization_remediation: buildRemediation({ ...call, ticket, as_uri: issuer }),
  }
}

/** Which revision it speaks, which is asked before a call and no call itself. */
function discoveryAnswer({ twists }: State, { path, body }: Received): Reply | undefined {
  if (path !== '/mcp/alice' || !body.includes('"server/discover"')) return undefined
  const { id } = JSON.parse(body.toString()) as { id: string }
  if (twists.discovery !== undefined) return twists.discovery(id)
  const result = { supportedVersions: ['2026-07-28'], capabilities: {} }
  return { body: { jsonrpc: '2.0', id, result } }
}

function resourceAnswer(state: State, received: Received): Reply | undefined {
  if (received.path === '/.well-known/oauth-protected-resource/mcp/alice') {
    const plain = {
      resource: state.resource,
      authorization_servers: [state.issuer],
      scopes_supported: [SCOPE],
    }
    return { body: state.twists.resourceMetadata?.(plain) ?? plain }
  }
  if (received.path.startsWith('/mcp/alice/')) return apiAnswer(state, received)
  if (received.path !== '/mcp/alice') return undefined
  const { id, params } = JSON.parse(received.body.toString()) as {
    id: string
    params: { name: string; arguments?: JsonObject }
  }
  const { authorization } = received.headers
  if (authorization === undefined) return challengeReply(state, params.name)
  const claims = verifyCall(state, received, authorization.replace(/^PoP /, ''))
  if (claims.operation && claims.operation.params_s256 !== s256Json(params.arguments ?? {})) {
    return {
      status: 403,
      body: { error: 'operation_mismatch', error_description: 'Other parameters were approved.' },
    }
  }
  const text = JSON.stringify({ tool: params.name, arguments: params.arguments ?? {}, jti: claims.jti })
  return { body: { jsonrpc: '2.0', id, result: { content: [{ type: 'text', text }] } } }
}

/**
 * A plain API below the resource, of the one tool `api_call`: it answers what it was asked, and with which
 * grant.
 */
function apiAnswer(state: State, received: Received): Reply {
  const { authorization } = received.headers
  if (authorization === undefined) return challengeReply(state, 'api_call')
  const claims = verifyCall(state, received, authorization.replace(/^PoP /, ''))
  const { method, path, query, headers, body } = received
  const told = { method, path, query, type: headers['content-type'], body: body.toString(), jti: claims.jti }
  return { body: { ...told, operation: claims.operation ?? null } }
}

function challengeReply(state: State, tool: string): Reply {
  const plain = challengeOf(state, tool)
  const challenge = state.twists.challenge?.(plain) ?? plain
  return { status: 401, headers: { 'www-authenticate': encodeChallenge(challenge) } }
}

/**
 * As an enforcement point does: the signature of the key in the grant, over what was sent. Throws if it is
 * not.
 */
function verifyCall(state: State, received: Received, token: string): RptClaims {
  const claims = readRptClaims(token)
  const url = new URL(state.resource)
  const bound = importPublicJwk(claims.cnf.jwk)
  verifyRequest(
    {
      method: received.method,
      scheme: 'http',
      authority: url.host,
      path: received.path,
      query: received.query,
      headers: received.lines,
      body: received.body,
    },
    {
      requiredComponents: ['@method', '@authority', '@path', 'authorization'],
      mustCoverDigest: true,
      now: Math.floor(Date.now() / 1000),
      keyidRequired: false,
      findKey: () => bound,
    },
  )
  return claims
}

function authorityAnswer(state: State, received: Received): Reply | undefined {
  const { issuer, twists } = state
  switch (received.path) {
    case '/.well-known/agents-configuration': {
      const plain = { issuer, token_endpoint: `${issuer}/token`, jwks_uri: `${issuer}/jwks` }
      return { body: twists.authorityMetadata?.(plain) ?? plain }
    }
    case '/jwks':
      return { body: { keys: [publicJwk(state.key)] } }
    case '/token':
      return tokenAnswer(state, received.form)
    default:
      return undefined
  }
}

function tokenAnswer(state: State, form: URLSearchParams): Reply {
  const claimToken = form.get('claim_token')
  const { ticket } = newTicket('tag')
  if (form.get('decline') === 'true') {
    state.polls = -1
    return denied('The terms were declined.')
  }
  if (claimToken !== null && form.get('claim_token_format') !== ID_JAG) {
    state.agreements.push(verifyAgreement(claimToken))
    state.polls = 0
  } else if (state.agreements.length === 0 || state.polls < 0) {
    return offer(state, ticket)
  }
  const { owner } = state.twists
  if (owner && state.polls++ < owner.polls) {
    const { kind, interval, reason_shown } = owner
    return { status: 403, body: { error: 'request_submitted', kind, ticket, interval, reason_shown } }
  }
  state.polls = -1 // the next ticket begins another negotiation
  return owner?.denied ? denied('The owner denied this request.') : grantReply(state)
}

function offer(state: State, ticket: string): Reply {
  const { issuer, twists } = state
  const plain: TermsTemplate = {
    template_id: 'alice/reading/v1',
    terms_uri: `${issuer}/terms/alice/reading/v1`,
    proffered_by: issuer,
    purpose: 'Keep an eye on the savings',
    scope: [SCOPE],
    expires_in: 3600,
    prohibited: ['training'],
    resource_id: 'alice/portfolio',
    family: newFamily(),
    nonce: newNonce(),
    ...(twists.perOperation ? { per_operation: true } : {}),
  }
  state.template = twists.template?.(plain) ?? plain
  return { status: 403, body: needInfo({ specNs: DEFAULT_SPEC_NS, ticket, template: state.template }) }
}

function denied(error_description: string): Reply {
  return { status: 403, body: { error: 'request_denied', error_description } }
}

function grantReply(state: State): Reply {
  const { twists, issuer, resource } = state
  const agreement = state.agreements.at(-1)!
  const template = agreement.claims as unknown as TermsTemplate & {
    operation?: { tool: string; params: JsonObject }
  }
  const iat = Math.floor(Date.now() / 1000)
  const handle = `jkt:${agreement.key.thumbprint}`
  const { operation } = template
  const plainRpt: RptClaims = {
    iss: issuer,
    sub: asHandle(handle),
    client_id: asHandle(handle),
    aud: resource,
    jti: newJti('rpt_'),
    iat,
    exp: iat + template.expires_in,
    cnf: { jwk: { kty: 'OKP', crv: 'Ed25519', x: agreement.key.x } },
    permissions: [
      { resource_id: template.resource_id, resource_scopes: [SCOPE], exp: iat + template.expires_in },
    ],
    contract: agreement.hash,
    owner: asOwner('alice'),
    family: template.family,
    ...(operation
      ? { single_use: true, operation: { tool: operation.tool, params_s256: s256Json(operation.params) } }
      : {}),
  }
  const claims = twists.rpt?.(plainRpt) ?? plainRpt
  const plainReceipt: ReceiptClaims = {
    iss: issuer,
    sub: asHandle(handle),
    owner: asOwner('alice'),
    iat,
    jti: newJti('rcp_'),
    family: template.family,
    resource_id: template.resource_id,
    terms_uri: template.terms_uri,
    template_id: template.template_id,
    agreement: agreement.hash,
    agreement_jws: agreement.compact,
    cnf: { jkt: agreement.key.thumbprint },
    rpt: plainRpt.jti,
  }
  const signer = twists.signWith ?? state.key
  state.grants.push(claims)
  return {
    body: grantAnswer({
      access_token: signRpt(claims, signer),
      expires_in: template.expires_in,
      receipt: signReceipt(twists.receipt?.(plainReceipt) ?? plainReceipt, signer),
    }),
  }
}
