/**
 * Owns every fixed name of the protocol: identifier URIs, JWS kinds, grant types, header names, well-known
 * paths. Contract: "Versioning" and the tables that name each; this is a leaf and imports nothing.
 */

/** The namespace base `{spec_ns}` where no other is configured. */
export const DEFAULT_SPEC_NS = 'https://u4a.ai/spec'

/** The identifier URIs built from one `{spec_ns}`. */
export interface SpecNames {
  /** `type` of an `authorization_details` entry. */
  readonly toolCall: string
  readonly agreementClaim: string
  readonly agreementFormat: string
  /** Profile URIs for `uma_profiles_supported` (UMA 2.0 Grant §2) and the ODRL `profile`. */
  readonly coreProfile: string
  readonly termsProfile: string
}

/**
 * The identifier URIs under a namespace base (contract, "Challenge (beat 1)", "need_info answer (beat 2)").
 */
export function specNames(specNs: string = DEFAULT_SPEC_NS): SpecNames {
  return {
    toolCall: `${specNs}/core/1.0#tool-call`,
    agreementClaim: `${specNs}/terms/1.0#myterms-agreement`,
    agreementFormat: `${specNs}/terms/1.0#myterms-agreement-v1+jws`,
    coreProfile: `${specNs}/core/1.0`,
    termsProfile: `${specNs}/terms/1.0`,
  }
}

/**
 * What other software calls things that the contract names otherwise. Each is taken, and told, only where the
 * operator of the authorization server lists it (`UMA_AS_ALIASES`); the contract's own name stands beside it
 * always.
 */
export const ALIAS = {
  /** The format of an agreement; goes with the claim type below. */
  agreementFormat: 'urn:uma4agents:format:myterms-agreement-v1+jws',
  /** How the `iss` of an agreement may begin. */
  agentIssuerPrefix: 'aauth:agent:',
  /** `typ` of an introduction. */
  introductionTyp: 'u4a-introduction-v1+jws',
  /** Where the metadata stands too. */
  configuration: '/.well-known/uma4agents-configuration',
} as const
export type Alias = (typeof ALIAS)[keyof typeof ALIAS]
/** The same of an organization (`UMA_ORG_ALIASES`). */
export const ORGANIZATION_ALIAS = {
  /** Where its discovery stands too. */
  discovery: '/.well-known/u4a-organization',
} as const
export type OrganizationAlias = (typeof ORGANIZATION_ALIAS)[keyof typeof ORGANIZATION_ALIAS]
export const ALIAS_AGREEMENT_CLAIM = 'urn:uma4agents:claim:myterms-agreement'

/** The formats in which an agreement is taken, the contract's first. */
export function agreementFormats(of: { specNs: string; aliases: readonly Alias[] }): string[] {
  const { agreementFormat } = specNames(of.specNs)
  return of.aliases.includes(ALIAS.agreementFormat)
    ? [agreementFormat, ALIAS.agreementFormat]
    : [agreementFormat]
}

/** JWS `typ` by kind. One kind is never accepted where another is expected. */
export const TYP = {
  agreement: 'myterms-agreement-v1+jws',
  receipt: 'myterms-receipt+jws',
  introduction: 'ext-introduction-v1+jws',
  agentToken: 'aa-agent+jwt',
  rpt: 'at+jwt',
  pat: 'pat+jwt',
  signedMetadata: 'oauth-protected-resource+jwt',
  membership: 'ext-membership+jwt',
  notice: 'ext-org-notice+jwt',
  breakGlassAccepted: 'ext-break-glass-accepted+jwt',
  clearance: 'ext-clearance+jwt',
} as const

/** Token endpoint `grant_type` values (contract, "Token endpoint"). */
export const GRANT_TYPE_UMA_TICKET = 'urn:ietf:params:oauth:grant-type:uma-ticket'
export const GRANT_TYPE_CLIENT_CREDENTIALS = 'client_credentials'

/** The token type of an identity assertion, by which it is asked for and presented (ID-JAG). */
export const ID_JAG = 'urn:ietf:params:oauth:token-type:id-jag'
/**
 * Its JWS `typ`. Providers sign it by algorithms of their own, so it is verified where logins are, not here.
 */
export const ID_JAG_TYP = 'oauth-id-jag+jwt'

/** The scope of a PAT. */
export const PROTECTION_SCOPE = 'uma_protection'

/** `token_type` of a grant and the Authorization scheme that presents it; compared without regard to case. */
export const POP = 'PoP'

/** The WWW-Authenticate scheme of a challenge, and its `error`. */
export const UMA_SCHEME = 'UMA'
export const CHALLENGE_ERROR = 'insufficient_authorization'

/**
 * Paths under an origin. The RFC 9728 one is inserted before the resource's path, see `resourceMetadataUrl`.
 */
export const WELL_KNOWN = {
  agentsConfiguration: '/.well-known/agents-configuration',
  umaConfiguration: '/.well-known/uma2-configuration',
  oauthConfiguration: '/.well-known/oauth-authorization-server',
  organization: '/.well-known/ext-organization',
  protectedResource: '/.well-known/oauth-protected-resource',
  agentIssuer: '/.well-known/aauth-agent.json',
  signatureDirectory: '/.well-known/http-message-signatures-directory',
} as const

/** Paths of the authorization server (contract, "Endpoints"), under its issuer. */
export const AUTHORITY_PATH = {
  jwks: '/jwks',
  terms: '/terms',
  token: '/token',
  permission: '/perm',
  introspect: '/introspect',
  consume: '/consume',
  audit: '/audit/access',
  owner: '/owner',
  register: '/rs/register',
  notice: '/org/notice',
} as const

/** Paths of an organization, under its issuer. */
export const ORGANIZATION_PATH = {
  jwks: '/jwks',
  preview: '/member/preview',
  join: '/member/join',
  envelope: '/member/envelope',
  leave: '/member/leave',
  decline: '/member/decline',
  invitation: '/member/invitation',
  clearance: '/member/clearance',
  compliance: '/member/compliance',
  membership: '/membership',
  breakGlass: '/break-glass',
  introspect: '/introspect',
  consume: '/consume',
  decision: '/decision',
} as const

/** What the enforcement point tells the upstream of an allowed call; every client copy is removed. */
export const UPSTREAM_HEADER = {
  owner: 'x-uma-owner',
  agent: 'x-uma-agent',
  family: 'x-uma-family',
  contract: 'x-uma-contract',
  tool: 'x-uma-tool',
} as const

/** Prefix of those headers; also spelt with `_` by clients that hope some server folds the two. */
export const UPSTREAM_HEADER_PREFIX = 'x-uma-'

/**
 * Both algorithm names a JWS header may carry, and the one of RFC 9421. The key decides, never the header.
 */
export const JWS_ALGORITHMS = ['Ed25519', 'EdDSA'] as const
export const HTTP_SIGNATURE_ALGORITHM = 'ed25519'

/**
 * Owners, tiers and accounts stand as one segment in paths and template ids, so they keep to this alphabet.
 */
export const NAME_PATTERN = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/

/** The agreement's `iss` prefix (contract, "Agreement"). */
export const AGENT_ISSUER_PREFIX = 'agent:'

/** How the `iss` of an agreement may begin, the contract's way first. */
export function agentIssuerPrefixes(aliases: readonly Alias[]): string[] {
  return [AGENT_ISSUER_PREFIX, ...aliases.filter(alias => alias === ALIAS.agentIssuerPrefix)]
}

/**
 * Members of `params._meta` of a JSON-RPC message that no HTTP request carries: its proof, and who was found
 * to call.
 */
export const MESSAGE_META = {
  authorization: 'usher/authorization',
  caller: 'usher/caller',
} as const

/**
 * Codes of JSON-RPC errors: beat 1 where there is no status line, and any other denial. Others use -32001
 * too: never tell by it alone.
 */
export const RPC_ERROR = { challenge: -32001, refusal: -32002 } as const

/**
 * What a call of MCP 2026-07-28 carries beside its arguments where a tool asked back, by the member of
 * `params`; and the name under which it stands among the parameters that are approved.
 */
export const FURTHER_INPUT = {
  inputResponses: 'usher/inputResponses',
  requestState: 'usher/requestState',
} as const
