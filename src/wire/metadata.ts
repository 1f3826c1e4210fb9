/**
 * Owns the metadata documents of both sides: the resource's (RFC 9728) with its signed copy, and the
 * authorization server's (RFC 8414, UMA 2.0 Grant §2). Contract: "Resource metadata (RFC 9728)",
 * "Authorization server metadata members".
 */
import { parsePathTemplate, type HttpOperation } from './http-operation.ts'
import type { Json, JsonObject } from './json.ts'
import { findByKid, signJws, verifyJws, type Verified } from './jws.ts'
import type { PrivateKey } from './keys.ts'
import {
  asObject,
  compactMember,
  isWebUrl,
  member,
  optionalText,
  optionalUrl,
  textMember,
  textsMember,
  urlMember,
} from './members.ts'
import {
  agreementFormats,
  AUTHORITY_PATH,
  GRANT_TYPE_CLIENT_CREDENTIALS,
  GRANT_TYPE_UMA_TICKET,
  HTTP_SIGNATURE_ALGORITHM,
  JWS_ALGORITHMS,
  specNames,
  TYP,
  WELL_KNOWN,
  type Alias,
} from './names.ts'
import { refuse } from './refusal.ts'
import type { VerificationKeys } from './tokens.ts'

/**
 * A tool as the resource describes it, structural only. `http`: how it is called where the resource is a
 * plain API.
 */
export type ToolSurface = {
  tool: string
  resource_scopes: string[]
  consequence?: string
  http?: HttpOperation[]
}

/** The RFC 9728 document; lists that would be empty are left out (RFC 9728 §3.2). */
export type ResourceMetadata = {
  resource: string
  authorization_servers?: string[]
  scopes_supported?: string[]
  jwks_uri?: string
  bearer_methods_supported?: string[]
  resource_signing_alg_values_supported?: string[]
  tool_surfaces?: ToolSurface[]
  owner_resources_endpoint?: string
  signed_metadata?: string
}

/** What a resource says of itself. `resource` is its identifier, compared code point by code point. */
export interface ResourceDescription {
  resource: string
  authorization_servers: readonly string[]
  scopes_supported: readonly string[]
  jwks_uri: string
  tool_surfaces: readonly ToolSurface[]
  /** Left out of the document of `/mcp` itself, which is no owner's. */
  owner_resources_endpoint?: string | undefined
}

/**
 * The URL of a resource's metadata (RFC 9728 §3.1): the well-known path inserted between host and path, after
 * dropping a `/` that stands directly behind the host; nothing is decoded or normalised. Refuses
 * (`invalid_request`) a resource that is not an https URL without fragment; http is let through for a literal
 * loopback host alone.
 */
export function resourceMetadataUrl(resource: string): string {
  const [, origin, rest] = /^(https?:\/\/[^/?#]+)([^#]*)$/.exec(resource) ?? []
  if (origin === undefined || rest === undefined || !isWebUrl(resource)) {
    refuse('invalid_request', 'Name the resource by an https URL without a fragment.')
  }
  const path = rest === '/' || rest.startsWith('/?') ? rest.slice(1) : rest
  return `${origin}${WELL_KNOWN.protectedResource}${path}`
}

/**
 * The document of a resource with its `signed_metadata` (JWT under the resource's key, `iss` the resource
 * itself).
 */
export function resourceMetadata(description: ResourceDescription, key: PrivateKey): ResourceMetadata {
  const document: ResourceMetadata = {
    resource: description.resource,
    ...listMember('authorization_servers', description.authorization_servers),
    ...listMember('scopes_supported', description.scopes_supported),
    jwks_uri: description.jwks_uri,
    bearer_methods_supported: ['header'],
    resource_signing_alg_values_supported: [...JWS_ALGORITHMS],
    ...listMember('tool_surfaces', description.tool_surfaces),
    ...(description.owner_resources_endpoint === undefined
      ? {}
      : { owner_resources_endpoint: description.owner_resources_endpoint }),
  }
  return { ...document, signed_metadata: signedMetadata(document, key) }
}

/** `signed_metadata` of a document: the same claims as a JWT, `iss` being the resource (RFC 9728 §2.2). */
export function signedMetadata(document: ResourceMetadata, key: PrivateKey): string {
  const { signed_metadata: _omitted, ...claims } = document
  return signJws({ typ: TYP.signedMetadata, payload: { iss: document.resource, ...claims } }, key)
}

/**
 * A received RFC 9728 document, each member of its type; unknown members are dropped. Refuses
 * (`invalid_request`) one whose `resource` is not, character by character, the one asked about (RFC 9728
 * §3.3). `signed_metadata` is not verified here.
 */
export function parseResourceMetadata(json: unknown, expectedResource: string): ResourceMetadata {
  const object = asObject(json, 'the resource metadata')
  if (member(object, 'resource') !== expectedResource) {
    refuse('invalid_request', `Publish metadata whose resource is ${expectedResource}.`)
  }
  const jwks_uri = optionalUrl(object, 'jwks_uri')
  const owner_resources_endpoint = optionalUrl(object, 'owner_resources_endpoint')
  const signed = member(object, 'signed_metadata') !== undefined
  return {
    resource: expectedResource,
    ...readTexts(object, 'authorization_servers'),
    ...readTexts(object, 'scopes_supported'),
    ...readTexts(object, 'bearer_methods_supported'),
    ...readTexts(object, 'resource_signing_alg_values_supported'),
    ...listMember('tool_surfaces', readToolSurfaces(object)),
    ...(jwks_uri === undefined ? {} : { jwks_uri }),
    ...(owner_resources_endpoint === undefined ? {} : { owner_resources_endpoint }),
    ...(signed ? { signed_metadata: compactMember(object, 'signed_metadata') } : {}),
  }
}

/**
 * The claims of `signed_metadata`, verified against the resource's keys; they go before the plain members
 * (RFC 9728 §2.2). `typ` may be absent, not other. Refuses (`invalid_request`) another issuer or resource,
 * and one nested in another.
 */
export function verifySignedMetadata(
  signed: string,
  keys: VerificationKeys,
  expectedResource: string,
): Verified<ResourceMetadata> {
  const { payload } = verifyJws(signed, findByKid(keys), { typ: TYP.signedMetadata, typOptional: true })
  if (member(payload, 'iss') !== expectedResource) {
    refuse('invalid_request', `Sign the metadata as issuer ${expectedResource}.`)
  }
  if (member(payload, 'signed_metadata') !== undefined) {
    refuse('invalid_request', 'Leave signed_metadata out of the signed metadata.')
  }
  return parseResourceMetadata(payload, expectedResource) as Verified<ResourceMetadata>
}

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

/** What an authorization server offers beside the parts every one has. */
export interface AuthorityDescription {
  issuer: string
  specNs: string
  /** Names of others that are taken beside the contract's. */
  aliases?: readonly Alias[]
  /** Where the owner API is reached, if owners elsewhere may know. */
  owner_endpoint?: string | undefined
  /** Whether `/rs/register` is served. */
  registration?: boolean
  /** Whether an organization may tell it something. */
  notices?: boolean
}

/**
 * The metadata document, the same at every well-known path. Members of parts that are not served are left
 * out.
 */
export function authorizationServerMetadata(description: AuthorityDescription): JsonObject {
  const { issuer, specNs, aliases = [], owner_endpoint, registration = false, notices = false } = description
  const names = specNames(specNs)
  return {
    issuer,
    token_endpoint: issuer + AUTHORITY_PATH.token,
    jwks_uri: issuer + AUTHORITY_PATH.jwks,
    permission_endpoint: issuer + AUTHORITY_PATH.permission,
    introspection_endpoint: issuer + AUTHORITY_PATH.introspect,
    consume_endpoint: issuer + AUTHORITY_PATH.consume,
    audit_endpoint: issuer + AUTHORITY_PATH.audit,
    terms_endpoint: issuer + AUTHORITY_PATH.terms,
    ...(owner_endpoint === undefined ? {} : { owner_endpoint }),
    ...(registration ? { rs_registration_endpoint: issuer + AUTHORITY_PATH.register } : {}),
    ...(notices ? { org_notice_endpoint: issuer + AUTHORITY_PATH.notice } : {}),
    grant_types_supported: [GRANT_TYPE_UMA_TICKET, GRANT_TYPE_CLIENT_CREDENTIALS],
    // RFC 8414 §2 requires the first; nothing is authorized by a redirect here.
    response_types_supported: [],
    token_endpoint_auth_methods_supported: ['client_secret_basic', 'client_secret_post'],
    // Of the access token types: the PAT.
    introspection_endpoint_auth_methods_supported: ['Bearer'],
    claim_token_formats_supported: agreementFormats({ specNs, aliases }),
    uma_profiles_supported: [names.coreProfile, names.termsProfile],
    signing_alg_values_supported: [...JWS_ALGORITHMS],
    http_message_signature_alg_values_supported: [HTTP_SIGNATURE_ALGORITHM],
  }
}

/**
 * A received authorization server document, each member of its type; unknown members are dropped. Refuses
 * (`invalid_request`) one whose `issuer` is not, character by character, the one asked about (RFC 8414 §3.3).
 */
export function parseAuthorizationServerMetadata(json: unknown, issuer: string): AuthorizationServerMetadata {
  const object = asObject(json, 'the authorization server metadata')
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

function readToolSurfaces(object: JsonObject): ToolSurface[] {
  const surfaces: Json | undefined = member(object, 'tool_surfaces')
  if (surfaces === undefined) return []
  if (!Array.isArray(surfaces)) refuse('invalid_request', 'Give tool_surfaces as an array of objects.')
  return surfaces.map(one => {
    const surface = asObject(one, 'each of tool_surfaces')
    const consequence = optionalText(surface, 'consequence')
    return {
      tool: textMember(surface, 'tool'),
      resource_scopes: textsMember(surface, 'resource_scopes'),
      ...(consequence === undefined ? {} : { consequence }),
      ...listMember('http', readHttpOperations(surface)),
    }
  })
}

function readHttpOperations(surface: JsonObject): HttpOperation[] {
  const http = member(surface, 'http')
  if (http === undefined) return []
  if (!Array.isArray(http)) refuse('invalid_request', 'Give http of a tool surface as an array of objects.')
  return http.map(one => {
    const object = asObject(one, 'each of http')
    const path = member(object, 'path')
    const method = textMember(object, 'method')
    if (typeof path !== 'string' || !/^[A-Z]{1,32}$/.test(method)) {
      refuse('invalid_request', 'Give each of http a method in capitals and a path template.')
    }
    parsePathTemplate(path)
    return { method, path }
  })
}

function readTexts<N extends string>(object: JsonObject, name: N): { [K in N]?: string[] } {
  return listMember(name, textsMember(object, name, true))
}

function readUrl<N extends string>(object: JsonObject, name: N): { [K in N]?: string } {
  const url = optionalUrl(object, name)
  return (url === undefined ? {} : { [name]: url }) as { [K in N]?: string }
}

/** The member, unless its list is empty: RFC 9728 §3.2 has such members left out. */
function listMember<N extends string, T>(name: N, items: readonly T[]): { [K in N]?: T[] } {
  return (items.length === 0 ? {} : { [name]: [...items] }) as { [K in N]?: T[] }
}
