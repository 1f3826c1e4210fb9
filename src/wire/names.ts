/**
 * Owns every fixed name of the protocol: identifier URIs, JWS kinds, grant types, header names, well-known
 * paths. Contract: "Versioning" and the tables that name each; this is a leaf and imports nothing.
 */

/** The namespace base `{spec_ns}` if no other is configured. */
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

/** The names that other software's tallies use for members of their metadata. */
const TALLY_MEMBER_ALIAS = { tally: 'u4a_tally', mandateEndpoint: 'u4a_mandate_endpoint' } as const

/**
 * Other software's names for things that the contract names otherwise. Each is accepted, and published, only
 * if the operator of the authorization server lists it (`UMA_AS_ALIASES`); the contract's own name is always
 * there, too.
 */
export const ALIAS = {
  /** The format of an agreement; goes with the claim type below. */
  agreementFormat: 'urn:uma4agents:format:myterms-agreement-v1+jws',
  /** How the `iss` of an agreement may begin. */
  agentIssuerPrefix: 'aauth:agent:',
  /** `typ` of an introduction. */
  introductionTyp: 'u4a-introduction-v1+jws',
  /** `typ` of an organization's notice, and of a token of its administrator. */
  noticeTyp: 'u4a-org-notice+jwt',
  organizationAdminTyp: 'u4a-org-admin+jwt',
  /** `typ` of what an organization attests about a member. */
  clearanceTyp: 'u4a-clearance+jwt',
  /** A further path of the metadata. */
  configuration: '/.well-known/uma4agents-configuration',
  /** Where an organization is looked for that has no discovery document at the contract's path. */
  organizationDiscovery: '/.well-known/u4a-organization',
  /** `typ` of a tally's requests. */
  tallyRequestTyp: 'u4a-tally-req+jwt',
  ...TALLY_MEMBER_ALIAS,
} as const
export type Alias = (typeof ALIAS)[keyof typeof ALIAS]
/** The same of an organization (`UMA_ORG_ALIASES`). */
export const ORGANIZATION_ALIAS = {
  /** A further path of its discovery document. */
  discovery: ALIAS.organizationDiscovery,
  /** `typ` of its own membership tokens, if other software made them before. */
  membershipTyp: 'u4a-membership+jwt',
  /** `typ` of the acceptance of an emergency by a member's authorization server. */
  breakGlassAcceptedTyp: 'u4a-break-glass-accepted+jwt',
} as const
export type OrganizationAlias = (typeof ORGANIZATION_ALIAS)[keyof typeof ORGANIZATION_ALIAS]
/** The same of a tally (`UMA_TALLY_ALIASES`); its metadata then has those members too. */
export const TALLY_ALIAS = {
  agreementFormat: ALIAS.agreementFormat,
  agentIssuerPrefix: ALIAS.agentIssuerPrefix,
  configuration: ALIAS.configuration,
  ...TALLY_MEMBER_ALIAS,
  /** `typ` of a holder's verdict, which may leave out `aud`, and of her withdrawals. */
  verdictTyp: 'u4a-verdict+jwt',
  verdictWithdrawalTyp: 'u4a-verdict-withdrawal+jwt',
} as const
export type TallyAlias = (typeof TALLY_ALIAS)[keyof typeof TALLY_ALIAS]
/** The same of an enforcement point (`aliases` in its file). */
export const ENFORCEMENT_ALIAS = {
  /** `typ` of the acceptance of an emergency, as the grant carries it. */
  breakGlassAcceptedTyp: 'u4a-break-glass-accepted+jwt',
  /** `typ` of a holder's verdict, which may leave out `aud`. */
  verdictTyp: TALLY_ALIAS.verdictTyp,
  ...TALLY_MEMBER_ALIAS,
} as const
export type EnforcementAlias = (typeof ENFORCEMENT_ALIAS)[keyof typeof ENFORCEMENT_ALIAS]

/** The alias, if it is one of those that are accepted. */
export function aliasIn<A extends string>(aliases: readonly string[], alias: A): A | undefined {
  return aliases.includes(alias) ? alias : undefined
}

export const ALIAS_AGREEMENT_CLAIM = 'urn:uma4agents:claim:myterms-agreement'

/** The formats in which an agreement is accepted, the contract's first. */
export function agreementFormats(of: { specNs: string; aliases: readonly string[] }): string[] {
  const { agreementFormat } = specNames(of.specNs)
  return of.aliases.includes(ALIAS.agreementFormat)
    ? [agreementFormat, ALIAS.agreementFormat]
    : [agreementFormat]
}

/** JWS `typ` by kind. One kind is never accepted in place of another. */
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
  organizationAdmin: 'ext-org-admin+jwt',
  tallyRequest: 'ext-tally-req+jwt',
  verdict: 'ext-verdict+jwt',
  verdictWithdrawal: 'ext-verdict-withdrawal+jwt',
  accessesRequest: 'ext-accesses-req+jwt',
  decision: 'ext-decision-v1+jws',
  revocation: 'ext-revocation+jwt',
} as const

const OTHER_KINDS: ReadonlySet<string> = new Set(
  [TYP, ALIAS, ORGANIZATION_ALIAS, TALLY_ALIAS, ENFORCEMENT_ALIAS]
    .flatMap(names => Object.values(names))
    .filter(name => name !== TYP.rpt),
)

/** Whether a `typ` is the name of another kind than the RPT, here or in the software that has other names. */
export function isOtherKindThanRpt(typ: string): boolean {
  const kind = typ.toLowerCase().replace(/^application\//, '')
  return OTHER_KINDS.has(kind) || kind === ID_JAG_TYP
}

/** Token endpoint `grant_type` values (contract, "Token endpoint"). */
export const GRANT_TYPE_UMA_TICKET = 'urn:ietf:params:oauth:grant-type:uma-ticket'
export const GRANT_TYPE_CLIENT_CREDENTIALS = 'client_credentials'

/** The token type by which an identity assertion is requested and presented (ID-JAG). */
export const ID_JAG = 'urn:ietf:params:oauth:token-type:id-jag'
/**
 * Its JWS `typ`. Providers sign it with other algorithms, so it is verified where logins are verified, not
 * here.
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
 * The member of an outage's body by which an enforcement point says that the call was not let through and the
 * grant that came with it is unspent.
 */
export const GRANT_UNSPENT = 'grant_unspent'

/**
 * Paths under an origin. The RFC 9728 one is inserted before the resource's path, see `resourceMetadataUrl`.
 */
export const WELL_KNOWN = {
  agentsConfiguration: '/.well-known/agents-configuration',
  umaConfiguration: '/.well-known/uma2-configuration',
  oauthConfiguration: '/.well-known/oauth-authorization-server',
  openidConfiguration: '/.well-known/openid-configuration',
  organization: '/.well-known/ext-organization',
  protectedResource: '/.well-known/oauth-protected-resource',
  agentIssuer: '/.well-known/aauth-agent.json',
  signatureDirectory: '/.well-known/http-message-signatures-directory',
} as const

/** Paths of the authorization server (contract, "Endpoints"), under its issuer. */
export const AUTHORITY_PATH = {
  jwks: '/jwks',
  terms: '/terms',
  authorize: '/authorize',
  token: '/token',
  permission: '/perm',
  introspect: '/introspect',
  consume: '/consume',
  audit: '/audit/access',
  owner: '/owner',
  register: '/rs/register',
  notice: '/org/notice',
  organizationAdmin: '/org/admin',
  jointQuote: '/joint/quote',
  jointVerdict: '/joint/verdict',
  ledgerJwks: '/ledger/jwks',
} as const

/** Where anybody asks whether two heads of one ledger belong together, by the routing tag in its origin. */
export const CONSISTENCY_PATH = '/ledger/{tag}/consistency'

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

/** Paths of a tally beside those of any authorization server, under its issuer. */
export const TALLY_PATH = {
  mandate: '/mandate',
  withdrawal: '/joint/withdrawal',
  accesses: '/joint/accesses',
} as const

/**
 * The header fields by which the enforcement point describes an allowed call to the upstream; every client
 * copy is removed.
 */
export const UPSTREAM_HEADER = {
  owner: 'x-uma-owner',
  agent: 'x-uma-agent',
  family: 'x-uma-family',
  contract: 'x-uma-contract',
  tool: 'x-uma-tool',
} as const

/** The prefix of those headers. Clients may also spell it with `_`, hoping that some server folds the two. */
export const UPSTREAM_HEADER_PREFIX = 'x-uma-'

/**
 * Both algorithm names a JWS header may carry, and the one of RFC 9421. The key decides, never the header.
 */
export const JWS_ALGORITHMS = ['Ed25519', 'EdDSA'] as const
export const HTTP_SIGNATURE_ALGORITHM = 'ed25519'

/** The tool that `usher doctor` calls without a grant: no server has it, so that the call reaches none. */
export const DOCTOR_TOOL = 'usher_doctor'

/** The name of an authority's first cell, that of DATABASE_URL: it knows where each owner is. */
export const HOME_CELL = 'home'

/** Owners, tiers and accounts are one segment in paths and template ids, so they use only this alphabet. */
export const NAME_PATTERN = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/

/** The id of an allowance, which a rule names behind a colon. */
export const ALLOWANCE_ID = /^[a-z0-9-]{1,32}$/

/** The agreement's `iss` prefix (contract, "Agreement"). */
export const AGENT_ISSUER_PREFIX = 'agent:'

/** How the `iss` of an agreement may begin, the contract's way first. */
export function agentIssuerPrefixes(aliases: readonly string[]): string[] {
  return [AGENT_ISSUER_PREFIX, ...aliases.filter(alias => alias === ALIAS.agentIssuerPrefix)]
}

/**
 * Members of `params._meta` of a JSON-RPC message that no HTTP request carries: its proof, and the caller
 * that was found.
 */
export const MESSAGE_META = {
  authorization: 'usher/authorization',
  caller: 'usher/caller',
} as const

/**
 * Codes of JSON-RPC errors: beat 1 if there is no status line, and any other denial. Others use -32001 too,
 * so the code alone is never enough.
 */
export const RPC_ERROR = { challenge: -32001, refusal: -32002, methodNotFound: -32601 } as const

/**
 * What a call of MCP 2026-07-28 carries beside its arguments if a tool asked back, by the member of `params`,
 * and its name among the parameters that are approved.
 */
export const FURTHER_INPUT = {
  inputResponses: 'usher/inputResponses',
  requestState: 'usher/requestState',
} as const
/** The name of the MCP method among the parameters that are approved, if it is another than `tools/call`. */
export const METHOD_PARAMETER = 'usher/method'
