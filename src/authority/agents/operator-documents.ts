/**
 * What an operator publishes about an agent, as far as checks that ran can tell: its client document and its
 * key directory, read before any transaction. A document that cannot be had proves nothing, and is no fault
 * of the request. Contract: "Operator documents", "Agreement (claim_token, beat 3)" (`client_id`,
 * `signature_agent`).
 */
import type { RemoteDocument, RemoteDocuments } from '../../http/remote-documents.ts'
import type { Json } from '../../wire/json.ts'
import {
  directoryOf,
  directoryThumbprints,
  directoryUrl,
  readClientDocument,
  type ClientDocument,
} from '../../wire/operator-documents.ts'
import { Refusal } from '../../wire/refusal.ts'

/** What was asked of an operator. */
export interface NamedOperator {
  client_id: string
  signature_agent: string | undefined
  /** Thumbprints that are looked for in its directory, the signing key's first. */
  jkts: readonly [string, ...string[]]
}

/** Until when (ms since the epoch), and whether the operator is known to the owner already. */
export interface Patience {
  deadline: number
  favoured: boolean
}

export interface OperatorFindings {
  clientDocumentClaimsItsUrl: boolean
  /** What the client document calls the operator. */
  name: string | undefined
  /** The thumbprints that its directory lists, of those looked for. */
  listed: ReadonlySet<string>
  /** One sentence per check, for the owner. */
  notes: string[]
}

export interface OperatorDocuments {
  /** What the operator behind a client_id publishes of it and of these keys. Never throws. */
  lookUp(named: NamedOperator, patience: Patience): Promise<OperatorFindings>
  /**
   * Every thumbprint in the directory at an operator's well-known path; undefined where there is none to be
   * had.
   */
  published(origin: string, patience: Patience): Promise<ReadonlySet<string> | undefined>
}

/** `documents` keeps what operators publish; `now` is in seconds. */
export function createOperatorDocuments(documents: RemoteDocuments, now: () => number): OperatorDocuments {
  const listedIn = (json: Json): ReadonlySet<string> => directoryThumbprints(json, now())
  const readDirectory = async (named: NamedOperator, patience: Patience) => {
    const url = directoryUrl(named.client_id, named.signature_agent)
    if (url === undefined) return { missing: 'is at another origin than client_id, so it attests nothing' }
    const holds = (json: Json): boolean => named.jkts.every(jkt => attempt(listedIn, json)?.has(jkt))
    return documents.read(url, { ...patience, holds })
  }
  return {
    lookUp: async (named, patience) => {
      const { client_id } = named
      const isIts = (json: Json) => attempt(one => readClientDocument(one, client_id), json) !== undefined
      const [found, directory] = await Promise.all([
        documents.read(client_id, { ...patience, holds: isIts }),
        readDirectory(named, patience),
      ])
      const client = readClient(found, client_id)
      const listing = readListing(directory, listedIn)
      const listed = new Set(named.jkts.filter(jkt => listing.listed.has(jkt)))
      const lists = listed.has(named.jkts[0]) ? 'lists the signing key' : 'does not list the signing key'
      return {
        clientDocumentClaimsItsUrl: client.document !== undefined,
        name: client.document?.name,
        listed,
        notes: [
          `accountability: the client document ${client.why ?? 'claims its own URL'}`,
          `accountability: the key directory ${listing.why ?? lists}`,
        ],
      }
    },
    published: async (origin, patience) => {
      const found = await documents.read(directoryOf(origin), patience)
      return 'json' in found ? attempt(listedIn, found.json) : undefined
    },
  }
}

function readClient(found: RemoteDocument, client_id: string): { document?: ClientDocument; why?: string } {
  if ('missing' in found) return { why: found.missing }
  const document = attempt(json => readClientDocument(json, client_id), found.json)
  return document === undefined ? { why: 'does not claim its own URL' } : { document }
}

function readListing(
  found: RemoteDocument,
  listedIn: (json: Json) => ReadonlySet<string>,
): { listed: ReadonlySet<string>; why?: string } {
  if ('missing' in found) return { listed: new Set(), why: found.missing }
  const listed = attempt(listedIn, found.json)
  return listed === undefined ? { listed: new Set(), why: 'is no key directory' } : { listed }
}

/** What `read` makes of a document; undefined where it refuses it. */
function attempt<T>(read: (json: Json) => T, json: Json): T | undefined {
  try {
    return read(json)
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return undefined
  }
}
