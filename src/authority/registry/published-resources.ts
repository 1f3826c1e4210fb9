/**
 * What a resource publishes about itself, read and judged: its RFC 9728 document, its keys, its signed
 * claims. Others choose the addresses, so each read is bounded, and each fault has a code and a sentence.
 * Contract: "Resource server establishment: POST `/rs/register`", "Resource metadata (RFC 9728)".
 */
import type { KeySource } from '../../http/servers/published-keys.ts'
import type { MissingReason, RemoteDocuments } from '../../http/outbound/remote-documents.ts'
import { registrationFault, type ClaimingDocument } from '../../rules/registration.ts'
import { isJsonObject, type Json } from '../../wire/json.ts'
import { parseJws } from '../../wire/signatures/jws.ts'
import { keyNamed, parseJwks } from '../../wire/signatures/keys.ts'
import {
  parseResourceMetadata,
  resourceMetadataUrl,
  verifySignedMetadata,
  type ResourceMetadata,
} from '../../wire/resources/resource-metadata.ts'
import { Refusal } from '../../wire/refusal.ts'

/** Why the publication of a resource cannot be used: `reason` is for dashboards, the message for people. */
export class PublicationFault extends Error {
  override readonly name = 'PublicationFault'
  readonly reason: string
  /** Whether the fault may pass soon: there was no answer, or the question could not be sent. */
  readonly passing: boolean

  constructor(reason: string, message: string, options: { passing?: boolean; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.reason = reason
    this.passing = options.passing ?? false
  }
}

/**
 * A document that establishes who claims the resource: it describes itself, names this authority, and has its
 * keys at its origin.
 */
export type EstablishedDocument = ResourceMetadata & { jwks_uri: string }

/**
 * Until when the caller waits (ms since the epoch), and whether the owner knows the resource server already.
 */
export interface Patience {
  deadline: number
  favoured: boolean
}

/** Every method throws `PublicationFault`. */
export interface PublishedResources {
  /** The established document of a resource. Throws `Refusal` for a text that cannot name a resource. */
  document(resourceUri: string, patience: Patience): Promise<EstablishedDocument>
  /** The keys that the document names. */
  keys(document: EstablishedDocument, patience: Patience): KeySource
  /** The signed claims of the document, verified, and established in their own right (RFC 9728 §2.2). */
  signedClaims(document: EstablishedDocument, patience: Patience): Promise<ResourceMetadata>
}

/** Faults that a retry does not mend. */
const LASTING: ReadonlySet<string> = new Set<MissingReason>([
  'forbidden_url',
  'forbidden_address',
  'too_large',
  'media_type',
  'malformed',
])

/** Reads through `documents`, which keeps what it read; `issuer` is ours. */
export function createPublishedResources(documents: RemoteDocuments, issuer: string): PublishedResources {
  const read = async (
    what: 'document' | 'keys',
    url: string,
    looking: Patience & ListingCheck,
  ): Promise<Json> => {
    const found = await documents.read(url, looking)
    if ('json' in found) return found.json
    const { missing, reason = 'unavailable', fault: cause } = found
    const passing = !LASTING.has(reason)
    throw new PublicationFault(`${what}_${reason}`, `The document at ${url} ${missing}.`, { passing, cause })
  }
  const readKeys = async (document: EstablishedDocument, looking: Patience & ListingCheck) => {
    const json = await read('keys', document.jwks_uri, looking)
    return refusedAs('keys_malformed', () => parseJwks(json))
  }
  const keys = (document: EstablishedDocument, patience: Patience): KeySource => ({
    keys: () => readKeys(document, patience),
    find: async kid => {
      const holds = sound(json => keyNamed(parseJwks(json), kid) !== undefined)
      return keyNamed(await readKeys(document, { ...patience, holds }), kid)
    },
  })
  return {
    keys,
    document: async (resource, patience) => {
      const holds = sound(json => establish(json, resource, issuer) !== undefined)
      const json = await read('document', resourceMetadataUrl(resource), { ...patience, holds })
      return establish(json, resource, issuer)
    },
    signedClaims: async (document, patience) => {
      const { signed_metadata, ...plain } = document
      if (signed_metadata === undefined)
        throw new PublicationFault('metadata_unsigned', 'The document has no `signed_metadata`; sign it.')
      const claims = await verifySigned(signed_metadata, keys(document, patience), document.resource)
      const fault = registrationFault({ ...plain, ...claims }, { resource_uri: document.resource, issuer })
      if (fault !== undefined) throw new PublicationFault('metadata_inconsistent', fault)
      return claims
    },
  }
}

interface ListingCheck {
  holds?: (json: Json) => boolean
}

/** Finds nothing in a malformed document, so that it is fetched again sooner. */
function sound(holds: (json: Json) => boolean): (json: Json) => boolean {
  return json => {
    try {
      return holds(json)
    } catch (error) {
      if (error instanceof Refusal || error instanceof PublicationFault) return false
      throw error
    }
  }
}

function establish(json: Json, resource_uri: string, issuer: string): EstablishedDocument {
  const claim = { resource_uri, issuer }
  const named = isJsonObject(json) ? json['resource'] : undefined
  const document =
    typeof named === 'string' && named !== resource_uri
      ? ({ resource: named } satisfies ClaimingDocument)
      : refusedAs('document_malformed', () => parseResourceMetadata(json, resource_uri))
  const fault = registrationFault(document, claim)
  if (fault !== undefined) throw new PublicationFault('document_inconsistent', fault)
  return document as EstablishedDocument
}

async function verifySigned(signed: string, source: KeySource, resource: string): Promise<ResourceMetadata> {
  const { kid } = refusedAs('metadata_signature', () => parseJws(signed).header)
  const known = await source.keys()
  const rotatedIn =
    typeof kid === 'string' && keyNamed(known, kid) === undefined ? await source.find(kid) : undefined
  const keys = rotatedIn === undefined ? known : [rotatedIn]
  return refusedAs('metadata_signature', () => verifySignedMetadata(signed, keys, resource))
}

/** If the parsers of the wire refuse something, it counts as a fault of the publication here. */
function refusedAs<T>(reason: string, read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    throw new PublicationFault(reason, error.detail ?? error.message, { cause: error })
  }
}
