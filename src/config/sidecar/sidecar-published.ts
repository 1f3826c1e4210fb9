/**
 * Owns whether what a sidecar will publish of a resource is what its readers take: agents read the metadata,
 * authorities the listing. Contract: "Resource metadata (RFC 9728)", "Registry materialization": a document
 * that nobody reads would let no agent negotiate, with nothing in any log.
 */
import { CHALLENGE_BYTES_MAX } from '../../wire/negotiation/challenge.ts'
import { DOCUMENT_BYTES_MAX, SCOPES_SUPPORTED_MAX } from '../../wire/document-bounds.ts'
import { LISTING_BOUNDS } from '../../wire/resources/owner-resources.ts'
import type { SidecarFile } from './sidecar-file.ts'

/** What else the metadata contains: addresses, algorithms, header and signature of its signed form. */
const METADATA_REST_BYTES = 2_048
/** What else a challenge carries: the ticket above all. */
const CHALLENGE_REST_BYTES = 3_072

type PublishingOwner = Pick<SidecarFile['owners'][number], 'at' | 'tools' | 'api'>

/** A sentence for each bound of a reader that this resource goes beyond. */
export function publishedFaults({ at, tools, api = [] }: PublishingOwner, resource: string): string[] {
  const faults: string[] = []
  const beyond = (what: string, { is, most }: { is: number; most: number }, remedy: string): void => {
    if (is > most) faults.push(`tools of ${at}: ${what} ${is}, and readers take ${most}: ${remedy}.`)
  }
  const divide = 'divide the tools between several resources'
  const scopes = new Set(tools.flatMap(tool => tool.scopes))
  beyond('their scopes are', { is: scopes.size, most: SCOPES_SUPPORTED_MAX }, divide)
  for (const [id, ofOne] of Map.groupBy(tools, ({ resource_id }) => resource_id)) {
    const { size } = new Set(ofOne.flatMap(tool => tool.scopes))
    const other = 'give some of its tools another resource_id'
    beyond(`the scopes of ${id} are`, { is: size, most: LISTING_BOUNDS.scopes }, other)
    beyond(`the tools of ${id} are`, { is: ofOne.length, most: LISTING_BOUNDS.tools }, other)
  }
  for (const { tool, scopes: own } of tools) {
    const { length } = own.join(' ')
    const bytes = length + base64Bytes(length) + CHALLENGE_REST_BYTES
    const fewer = 'let it need fewer, or shorter ones'
    beyond(
      `with the scopes of ${tool}, bytes of a challenge are`,
      { is: bytes, most: CHALLENGE_BYTES_MAX },
      fewer,
    )
  }
  beyond(
    'bytes of their metadata are',
    { is: metadataBytes({ tools, api }, [...scopes], resource), most: DOCUMENT_BYTES_MAX },
    divide,
  )
  return faults
}

/** The document as it is served: its members, and the same members signed. */
function metadataBytes(
  { tools, api = [] }: Pick<PublishingOwner, 'tools' | 'api'>,
  scopes_supported: string[],
  resource: string,
): number {
  const tool_surfaces = tools.map(({ tool, scopes: resource_scopes, consequence }) => {
    const http = api.filter(one => one.tool === tool).map(({ method, path }) => ({ method, path }))
    return { tool, resource_scopes, consequence, ...(http.length > 0 && { http }) }
  })
  const members = Buffer.byteLength(JSON.stringify({ resource, scopes_supported, tool_surfaces }))
  return members + base64Bytes(members) + METADATA_REST_BYTES
}

const base64Bytes = (bytes: number): number => Math.ceil((bytes * 4) / 3)
