/**
 * Owns which documents the agent trusts. Contract: "Challenge (beat 1)", client rule: the metadata is read
 * from the resource that was called, and the authority is accepted only if that document names it. Nothing is
 * ever fetched from the address in a challenge.
 */
import { BoundedMap } from '../../limits/bounded-map.ts'
import type { JsonObject } from '../../wire/json.ts'
import { parseJwks, type PublishedKey } from '../../wire/signatures/keys.ts'
import {
  parseResourceMetadata,
  resourceMetadataUrl,
  type ResourceMetadata,
  type ToolSurface,
} from '../../wire/resources/resource-metadata.ts'
import {
  parseAuthorizationServerMetadata,
  type AuthorizationServerMetadata,
} from '../../wire/resources/authorization-server-metadata.ts'
import { WELL_KNOWN } from '../../wire/names.ts'
import type { Challenge } from '../../wire/negotiation/negotiation.ts'
import { AgentError, fail, reading } from '../agent-error.ts'
import { checkAddress, fetchDocument } from '../transports/transport.ts'
import { throughOutages } from './token.ts'

/** The authority of a resource, as both of them say: the resource names it, and it names itself. */
export interface AuthorityMetadata {
  issuer: string
  tokenEndpoint: URL
  jwksUri: URL
}

/** The agent's knowledge of resources and authorities; documents are kept for at most 300 s. */
export interface Directory {
  /**
   * The authority that a challenge names, after checking that the challenge agrees with itself, with the
   * resource that was called, and with the documents of both. Fails with `challenge_untrusted`.
   */
  authorityOf(resource: string, challenge: Challenge, signal?: AbortSignal): Promise<AuthorityMetadata>
  /**
   * The authority of that issuer, if the resource's own document names it. Fails with `challenge_untrusted`.
   */
  authorityNamed(resource: string, issuer: string, signal?: AbortSignal): Promise<AuthorityMetadata>
  /** The tools that a resource says it has, from its own document. */
  surfacesOf(resource: string, signal?: AbortSignal): Promise<ToolSurface[]>
  /**
   * The name of the owner of a resource, where its own document says where her resources are listed.
   * Undefined if that document says nothing of it, or if the resource has none.
   */
  ownerNameOf(resource: string, signal?: AbortSignal): Promise<string | undefined>
  /** The keys an authority signs with; `fresh` asks again, for a key not among those known. */
  keysOf(
    authority: AuthorityMetadata,
    options: { fresh: boolean; signal?: AbortSignal | undefined },
  ): Promise<PublishedKey[]>
}

const DOCUMENT_SECONDS_KEPT = 300
const DOCUMENTS_KEPT_MAX = 256
/**
 * How long outages of the documents about one authority are waited out, all of them together: the ticket of
 * the challenge, which is good for 300 s, is presented after that. Each document is asked for at least once.
 */
const OUTAGE_SECONDS_MAX = 60

interface DirectoryOptions {
  allowLoopback: boolean
  now: () => number
  /**
   * Is called before a document in an outage is asked for again; `document` says which it is and where. Left
   * out, each is asked for once.
   */
  onRetry?: ((code: string, seconds: number, document: string) => void) | undefined
}

/** A directory that fetches over https (`allowLoopback`: also http, from hosts literally loopback). */
export function createDirectory(options: DirectoryOptions): Directory {
  const { onRetry } = options
  const cache = new BoundedMap<string, { at: number; document: JsonObject }>(DOCUMENTS_KEPT_MAX)
  const get = async (address: string, what: string, fetching: MetadataOptions): Promise<JsonObject> => {
    const url = checkAddress(address, options.allowLoopback, what)
    const known = cache.get(url.href)
    const now = options.now()
    // A document that was fetched within this second counts as fresh, because a hostile challenge must not
    // make us fetch twice.
    if (known && (fetching.fresh ? now <= known.at : now < known.at + DOCUMENT_SECONDS_KEPT))
      return known.document
    const { signal, until = options.now() + OUTAGE_SECONDS_MAX } = fetching
    const fetched = (): Promise<JsonObject> => fetchDocument(url, what, signal)
    const isPatient = onRetry !== undefined && fetching.once !== true
    const waiting = {
      onRetry: (code: string, seconds: number) => onRetry?.(code, seconds, `${what} at ${url.href}`),
      signal,
      secondsLeft: () => until - options.now(),
    }
    const document = await (isPatient ? throughOutages(waiting, fetched) : fetched())
    cache.set(url.href, { at: options.now(), document })
    return document
  }
  const metadataOf = async (
    resource: string,
    fetching: Omit<MetadataOptions, 'fresh'>,
  ): Promise<ResourceMetadata> => {
    const address = reading('request_invalid', 'The resource has no metadata address', () =>
      resourceMetadataUrl(resource),
    )
    return metadataIn(await get(address, 'resource metadata', { ...fetching, fresh: false }), resource)
  }
  const authorityNamed: Directory['authorityNamed'] = async (resource, issuer, signal) => {
    const until = options.now() + OUTAGE_SECONDS_MAX
    await checkNamed(resource, issuer, fresh =>
      get(resourceMetadataUrl(resource), 'resource metadata', { fresh, signal, until }),
    )
    const document = (wellKnown: string): Promise<JsonObject> =>
      get(issuer + wellKnown, "authority's metadata", { fresh: false, signal, until })
    // An authority that serves nothing under this profile's own name may be a plain UMA server (UMA 2.0 Grant
    // §2).
    const found = await document(WELL_KNOWN.agentsConfiguration).catch((absent: unknown) => {
      if (!isAbsence(absent)) throw absent
      return document(WELL_KNOWN.umaConfiguration).catch((error: unknown) => {
        throw isAbsence(error) ? absent : error
      })
    })
    return readAuthority(found, issuer, options)
  }
  return {
    authorityOf: async (resource, challenge, signal) => {
      checkChallenge(resource, challenge)
      return authorityNamed(resource, challenge.as_uri, signal)
    },
    authorityNamed,
    surfacesOf: async (resource, signal) => (await metadataOf(resource, { signal })).tool_surfaces ?? [],
    ownerNameOf: async (resource, signal) => {
      const metadata = await metadataOf(resource, { signal, once: true }).catch((error: unknown) => {
        if (!isAbsence(error)) throw error
      })
      const listing = metadata?.owner_resources_endpoint
      return listing === undefined ? undefined : ownerIn(listing)
    },
    keysOf: async (authority, fetching) => {
      const document = await get(authority.jwksUri.href, "authority's keys", fetching)
      return reading('answer_malformed', "The authority's keys are not usable", () => parseJwks(document))
    },
  }
}

/** `owner_resources_endpoint` of an owner; without her name it is that of all. */
const OWNER_IN = /\/owner-resources\/([^/]+)\/?$/

function ownerIn(listing: string): string | undefined {
  const [, name] = OWNER_IN.exec(new URL(listing).pathname) ?? []
  try {
    return name === undefined ? undefined : decodeURIComponent(name)
  } catch {
    // It is no UTF-8, so it is nobody's name.
    return undefined
  }
}

const ABSENT = new Set([404, 410])

/** Whether nothing is there, as opposed to an outage or a refusal to answer. */
function isAbsence(error: unknown): boolean {
  return error instanceof AgentError && error.code === 'unreachable' && ABSENT.has(error.status ?? 0)
}

interface MetadataOptions {
  fresh: boolean
  signal?: AbortSignal | undefined
  /** Nothing waits for it that could not do without it, so an outage is not waited out. */
  once?: boolean | undefined
  /** When outages are waited out no longer, if other documents share that time, by the directory's clock. */
  until?: number | undefined
}

/**
 * Checks a challenge against the metadata before anything is fetched; its parser has checked that it agrees
 * with itself.
 */
function checkChallenge(resource: string, challenge: Challenge): void {
  const formed = reading('request_invalid', 'The resource has no metadata address', () =>
    resourceMetadataUrl(resource),
  )
  if (challenge.resource_metadata !== formed) {
    fail(
      'challenge_untrusted',
      `The challenge points to the metadata at ${challenge.resource_metadata}; the metadata of the called resource is at ${formed}. Call the address that the resource is published under; if it is yours, set public_url of its sidecar to what agents call.`,
    )
  }
  const { authorization_details } = challenge.authorization_remediation
  if (!authorization_details.every(detail => detail.locations.includes(resource))) {
    fail('challenge_untrusted', 'The remediation is about another resource than the one called.')
  }
}

/**
 * Compares the authority with the resource's own document; if a kept one does not name it, it is fetched
 * again.
 */
async function checkNamed(
  resource: string,
  issuer: string,
  get: (fresh: boolean) => Promise<JsonObject>,
): Promise<void> {
  const document = await get(false)
  if (names(document, resource, issuer)) return
  const fresh = await get(true)
  if (fresh !== document && names(fresh, resource, issuer)) return
  fail(
    'challenge_untrusted',
    `The resource's metadata does not name ${issuer} as one of its authorization servers.`,
  )
}

function names(document: JsonObject, resource: string, issuer: string): boolean {
  return metadataIn(document, resource).authorization_servers?.includes(issuer) ?? false
}

function metadataIn(document: JsonObject, resource: string): ResourceMetadata {
  return reading('challenge_untrusted', "The resource's metadata is not usable", () =>
    parseResourceMetadata(document, resource),
  )
}

function readAuthority(
  document: JsonObject,
  issuer: string,
  options: { allowLoopback: boolean },
): AuthorityMetadata {
  const metadata: AuthorizationServerMetadata = reading(
    'challenge_untrusted',
    "The authority's metadata is not usable",
    () => parseAuthorizationServerMetadata(document, issuer),
  )
  return {
    issuer,
    tokenEndpoint: checkAddress(metadata.token_endpoint, options.allowLoopback, 'token endpoint'),
    jwksUri: checkAddress(metadata.jwks_uri, options.allowLoopback, "authority's jwks_uri"),
  }
}
