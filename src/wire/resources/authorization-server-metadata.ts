/**
 * Owns the metadata document of an authorization server (RFC 8414, UMA 2.0 Grant §2), and what a tally and a
 * holder of a joint account add to it. Contract: "Authorization server metadata members".
 */
import type { JsonObject } from '../json.ts'
import { LEASE_MS, LEASE_OFFER } from './leases.ts'
import { asObject, member, optionalUrl, present, urlMember } from '../json-members.ts'
import {
  agreementFormats,
  aliasIn,
  AUTHORITY_PATH,
  GRANT_TYPE_CLIENT_CREDENTIALS,
  GRANT_TYPE_UMA_TICKET,
  HTTP_SIGNATURE_ALGORITHM,
  ID_JAG,
  JWS_ALGORITHMS,
  specNames,
  TALLY_ALIAS,
  TALLY_PATH,
  WELL_KNOWN,
} from '../names.ts'
import { refuse } from '../refusal.ts'

/** How many tokens one request to /introspect or /consume may name (docs/choices.md). */
export const TOKENS_MAX = 64

/** The endpoints that an agent or a resource server uses; absent ones are not offered. */
export type AuthorizationServerMetadata = {
  issuer: string
  token_endpoint: string
  jwks_uri: string
  permission_endpoint?: string
  introspection_endpoint?: string
  consume_endpoint?: string
  audit_endpoint?: string
  terms_endpoint?: string
}

/**
 * Where an issuer of tokens describes itself, in the order in which we ask: OpenID Connect Discovery §4
 * appends to its path, RFC 8414 §3.1 inserts before it.
 */
export function issuerMetadataUrls(issuer: string): { openid: string; oauth: string } {
  const { origin, pathname } = new URL(issuer)
  const path = pathname.replace(/\/$/, '')
  return {
    openid: origin + path + WELL_KNOWN.openidConfiguration,
    oauth: origin + WELL_KNOWN.oauthConfiguration + path,
  }
}

/** The optional parts of an authorization server. */
export interface AuthorityDescription {
  issuer: string
  specNs: string
  /** Names that are accepted beside the contract's. */
  aliases?: readonly string[]
  /** The address of the owner API, if it is published. */
  owner_endpoint?: string | undefined
  /** Whether `/rs/register` is served. */
  registration?: boolean
  /** Whether an organization may tell it something. */
  notices?: boolean
  /** Where administrators of an organization act, if any may. */
  org_admin_endpoint?: string | undefined
  /** Whether holders may use its answers about grants again for a while (wire/resources/leases.ts). */
  leases?: boolean
  tally?: boolean
  /** Whether a tally may ask it for quotes and verdicts of its owners. */
  joint?: boolean
  /** Whether it signs checkpoints of its owners' ledgers. */
  ledger?: boolean
}

/**
 * The metadata document, the same at every well-known path. Members of parts that are not served are left
 * out.
 */
export function authorizationServerMetadata(description: AuthorityDescription): JsonObject {
  const { issuer, specNs, aliases = [], registration = false, notices = false } = description
  const { owner_endpoint, org_admin_endpoint, leases = false, tally = false, joint = false } = description
  const { ledger = false } = description
  const names = specNames(specNs)
  return {
    issuer,
    token_endpoint: issuer + AUTHORITY_PATH.token,
    jwks_uri: issuer + AUTHORITY_PATH.jwks,
    permission_endpoint: issuer + AUTHORITY_PATH.permission,
    introspection_endpoint: issuer + AUTHORITY_PATH.introspect,
    introspection_tokens_max: TOKENS_MAX,
    ...(leases ? { [LEASE_OFFER]: LEASE_MS } : {}),
    consume_endpoint: issuer + AUTHORITY_PATH.consume,
    consume_tokens_max: TOKENS_MAX,
    audit_endpoint: issuer + AUTHORITY_PATH.audit,
    terms_endpoint: issuer + AUTHORITY_PATH.terms,
    ...(owner_endpoint === undefined ? {} : { owner_endpoint }),
    ...(registration ? { rs_registration_endpoint: issuer + AUTHORITY_PATH.register } : {}),
    ...(notices ? { org_notice_endpoint: issuer + AUTHORITY_PATH.notice } : {}),
    ...(org_admin_endpoint === undefined ? {} : { org_admin_endpoint }),
    ...(tally ? tallyMembers(issuer, aliases) : {}),
    ...(joint
      ? {
          joint_quote_endpoint: issuer + AUTHORITY_PATH.jointQuote,
          joint_verdict_endpoint: issuer + AUTHORITY_PATH.jointVerdict,
        }
      : {}),
    ...(ledger ? { ledger_jwks_uri: issuer + AUTHORITY_PATH.ledgerJwks } : {}),
    grant_types_supported: [GRANT_TYPE_UMA_TICKET, GRANT_TYPE_CLIENT_CREDENTIALS],
    // RFC 8414 §2 requires the second; nothing is authorized by a redirect here, and the endpoint says so.
    // Clients of OAuth alone read no document without it, and cannot say why.
    authorization_endpoint: issuer + AUTHORITY_PATH.authorize,
    response_types_supported: [],
    token_endpoint_auth_methods_supported: ['client_secret_basic', 'client_secret_post'],
    // The scopes of access tokens: that of the PAT.
    introspection_endpoint_auth_methods_supported: ['Bearer'],
    // An identity is required only on behalf of an organization.
    claim_token_formats_supported: [...agreementFormats({ specNs, aliases }), ...(notices ? [ID_JAG] : [])],
    uma_profiles_supported: [names.coreProfile, names.termsProfile],
    signing_alg_values_supported: [...JWS_ALGORITHMS],
    http_message_signature_alg_values_supported: [HTTP_SIGNATURE_ALGORITHM],
  }
}

/** Further members of the document, if it belongs to a tally. */
function tallyMembers(issuer: string, aliases: readonly string[]): JsonObject {
  const mandates = issuer + TALLY_PATH.mandate
  return {
    ext_tally: true,
    ...(aliases.includes(TALLY_ALIAS.tally) ? { [TALLY_ALIAS.tally]: true } : {}),
    ext_mandate_endpoint: mandates,
    ...(aliases.includes(TALLY_ALIAS.mandateEndpoint) ? { [TALLY_ALIAS.mandateEndpoint]: mandates } : {}),
    ext_withdrawal_endpoint: issuer + TALLY_PATH.withdrawal,
    ext_accesses_endpoint: issuer + TALLY_PATH.accesses,
  }
}

/**
 * A received authorization server document, each member of its type; unknown members are dropped. Refuses
 * (`invalid_request`) one whose `issuer` is not, character by character, the one asked about (RFC 8414 §3.3).
 */
export function parseAuthorizationServerMetadata(json: unknown, issuer: string): AuthorizationServerMetadata {
  const object = present(asObject(json, 'the authorization server metadata'))
  if (member(object, 'issuer') !== issuer)
    refuse('invalid_request', `Publish metadata whose issuer is ${issuer}.`)
  return {
    issuer,
    token_endpoint: urlMember(object, 'token_endpoint'),
    jwks_uri: urlMember(object, 'jwks_uri'),
    ...readUrl(object, 'permission_endpoint'),
    ...readUrl(object, 'introspection_endpoint'),
    ...readUrl(object, 'consume_endpoint'),
    ...readUrl(object, 'audit_endpoint'),
    ...readUrl(object, 'terms_endpoint'),
  }
}

/** The members of a tally's document beyond those of any authorization server. */
export type TallyMetadata = {
  issuer: string
  jwks_uri: string
  /** A base to which `/{account}` is appended. */
  ext_mandate_endpoint: string
  /** Where holders take verdicts back. */
  ext_withdrawal_endpoint?: string
  /** Where holders read which calls were made; also a base. */
  ext_accesses_endpoint?: string
}

/**
 * A received document of a tally, each member of its type; refuses (`invalid_request`) another issuer's, and
 * one that does not say that it is a tally's. If the contract's members are missing, those of `aliases` are
 * read in their place.
 */
export function parseTallyMetadata(
  json: unknown,
  issuer: string,
  aliases: readonly string[] = [],
): TallyMetadata {
  const { jwks_uri } = parseAuthorizationServerMetadata(json, issuer)
  const object = present(asObject(json, 'the metadata of a tally'))
  const named = (name: string, alias: string): string => {
    const match = aliasIn(aliases, alias)
    return match !== undefined && member(object, name) === undefined ? match : name
  }
  if (member(object, named('ext_tally', TALLY_ALIAS.tally)) !== true)
    refuse('invalid_request', 'Publish ext_tally: true, or name another issuer as the tally.')
  return {
    issuer,
    jwks_uri,
    ext_mandate_endpoint: urlMember(object, named('ext_mandate_endpoint', TALLY_ALIAS.mandateEndpoint)),
    ...readUrl(object, 'ext_withdrawal_endpoint'),
    ...readUrl(object, 'ext_accesses_endpoint'),
  }
}

/** The members of a holder's authorization server's document that a tally reads. */
export type HolderMetadata = {
  issuer: string
  jwks_uri: string
  joint_quote_endpoint: string
  joint_verdict_endpoint: string
}

/**
 * A received document of a holder's authorization server, each member of its type; refuses
 * (`invalid_request`) another issuer's, and a document that offers tallies no endpoints.
 */
export function parseHolderMetadata(json: unknown, issuer: string): HolderMetadata {
  const { jwks_uri } = parseAuthorizationServerMetadata(json, issuer)
  const object = asObject(json, 'the metadata of a holder’s authorization server')
  return {
    issuer,
    jwks_uri,
    joint_quote_endpoint: urlMember(object, 'joint_quote_endpoint'),
    joint_verdict_endpoint: urlMember(object, 'joint_verdict_endpoint'),
  }
}

function readUrl<N extends string>(object: JsonObject, name: N): { [K in N]?: string } {
  const url = optionalUrl(object, name)
  return (url === undefined ? {} : { [name]: url }) as { [K in N]?: string }
}
