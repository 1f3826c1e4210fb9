/**
 * Owns the metadata document of a resource (RFC 9728) with its signed copy. Contract: "Resource metadata
 * (RFC 9728)".
 */
import { DOCUMENT_BYTES_MAX, SCOPES_SUPPORTED_MAX } from '../document-bounds.ts'
import { parsePathTemplate, type HttpOperation } from './http-operation.ts'
import type { Json, JsonObject } from '../json.ts'
import { findByKid, signJws, verifyJws, type Verified } from '../signatures/jws.ts'
import type { PrivateKey } from '../signatures/keys.ts'
import {
  asObject,
  compactMember,
  isWebUrl,
  member,
  optionalText,
  present,
  optionalUrl,
  textMember,
  textsMember,
} from '../json-members.ts'
import { JWS_ALGORITHMS, TYP, WELL_KNOWN } from '../names.ts'
import { refuse } from '../refusal.ts'
import type { VerificationKeys } from '../negotiation/tokens.ts'

/**
 * A tool as the resource describes it, structural only. `http`: how it is called if the resource is a
 * plain API.
 */
export type ToolSurface = {
  tool: string
  resource_scopes: string[]
  consequence?: string
  http?: HttpOperation[]
}

/** The RFC 9728 document; empty lists are left out (RFC 9728 §3.2). */
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

/** A resource's own description. `resource` is its identifier, compared code point by code point. */
export interface ResourceDescription {
  resource: string
  authorization_servers: readonly string[]
  scopes_supported: readonly string[]
  jwks_uri: string
  tool_surfaces: readonly ToolSurface[]
  /** Left out of the document of `/mcp` itself, which belongs to no owner. */
  owner_resources_endpoint?: string | undefined
}

/**
 * The URL of a resource's metadata (RFC 9728 §3.1): the well-known path inserted between host and path, after
 * dropping a `/` directly after the host; nothing is decoded or normalised. Refuses (`invalid_request`) a
 * resource that is not an https URL without fragment; http is accepted only for a literal loopback host.
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
  const object = present(asObject(json, 'the resource metadata'))
  if (member(object, 'resource') !== expectedResource) {
    refuse('invalid_request', `Publish metadata whose resource is ${expectedResource}.`)
  }
  const jwks_uri = optionalUrl(object, 'jwks_uri')
  const owner_resources_endpoint = optionalUrl(object, 'owner_resources_endpoint')
  const signed = member(object, 'signed_metadata') !== undefined
  return {
    resource: expectedResource,
    ...readTexts(object, 'authorization_servers'),
    ...readTexts(object, 'scopes_supported', SCOPES_SUPPORTED_MAX),
    ...readTexts(object, 'bearer_methods_supported'),
    ...readTexts(object, 'resource_signing_alg_values_supported'),
    ...listMember('tool_surfaces', readToolSurfaces(object)),
    ...(jwks_uri === undefined ? {} : { jwks_uri }),
    ...(owner_resources_endpoint === undefined ? {} : { owner_resources_endpoint }),
    ...(signed ? { signed_metadata: compactMember(object, 'signed_metadata') } : {}),
  }
}

/**
 * The claims of `signed_metadata`, verified against the resource's keys; they take precedence over the plain
 * members (RFC 9728 §2.2). `typ` may be absent, but not different. Refuses (`invalid_request`) another issuer
 * or resource, and one nested in another.
 */
export function verifySignedMetadata(
  signed: string,
  keys: VerificationKeys,
  expectedResource: string,
): Verified<ResourceMetadata> {
  const { payload } = verifyJws(signed, findByKid(keys), {
    typ: TYP.signedMetadata,
    typOptional: true,
    maxBytes: DOCUMENT_BYTES_MAX,
  })
  if (member(payload, 'iss') !== expectedResource) {
    refuse('invalid_request', `Sign the metadata as issuer ${expectedResource}.`)
  }
  if (member(payload, 'signed_metadata') !== undefined) {
    refuse('invalid_request', 'Leave signed_metadata out of the signed metadata.')
  }
  return parseResourceMetadata(payload, expectedResource) as Verified<ResourceMetadata>
}

function readToolSurfaces(object: JsonObject): ToolSurface[] {
  const surfaces: Json | undefined = member(object, 'tool_surfaces')
  if (surfaces === undefined) return []
  if (!Array.isArray(surfaces)) refuse('invalid_request', 'Give tool_surfaces as an array of objects.')
  return surfaces.map(one => {
    const surface = present(asObject(one, 'each of tool_surfaces'))
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

function readTexts<N extends string>(object: JsonObject, name: N, most?: number): { [K in N]?: string[] } {
  return listMember(name, textsMember(object, name, true, most))
}

/** The member, unless its list is empty: RFC 9728 §3.2 says to leave empty ones out. */
function listMember<N extends string, T>(name: N, items: readonly T[]): { [K in N]?: T[] } {
  return (items.length === 0 ? {} : { [name]: [...items] }) as { [K in N]?: T[] }
}
