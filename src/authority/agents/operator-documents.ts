/**
 * What an operator publishes about an agent, as far as the checks that ran found out: its client document and
 * its key directory, read before any transaction. A document that cannot be fetched proves nothing, and does
 * not make the request wrong. Contract: "Operator documents", "Agreement (claim_token, beat 3)" (`client_id`,
 * `signature_agent`).
 */
import type { RemoteDocument, RemoteDocuments } from '../../http/outbound/remote-documents.ts'
import type { Json } from '../../wire/json.ts'
import {
  directoryOf,
  directoryThumbprints,
  directoryUrl,
  readClientDocument,
  type ClientDocument,
} from '../../wire/agents/operator-documents.ts'
import { Refusal } from '../../wire/refusal.ts'
import type { Patience } from '../registry/published-resources.ts'

/** The question to an operator. */
export interface NamedOperator {
  client_id: string
  signature_agent: string | undefined
  /** The thumbprints to look for in its directory, that of the signing key first. */
  jkts: readonly [string, ...string[]]
}

/** How long to wait (ms since the epoch), and whether the owner knows the operator already. */
export interface OperatorPatience extends Patience {
  /** When the request was signed, in ms since the epoch: keys may have been published for it until then. */
  signedAt?: number | undefined
}

export interface OperatorFindings {
  clientDocumentClaimsItsUrl: boolean
  /** What the client document calls the operator. */
  name: string | undefined
  /** Those of the requested thumbprints that its directory lists. */
  listed: ReadonlySet<string>
  /** One sentence per check, for the owner. */
  notes: string[]
}

export interface OperatorDocuments {
  /** What the operator behind a client_id publishes about it and about these keys. Never throws. */
  lookUp(named: NamedOperator, patience: OperatorPatience): Promise<OperatorFindings>
  /**
   * Every thumbprint in the directory at an operator's well-known path; undefined if no directory can be
   * fetched.
   */
  published(origin: string, patience: OperatorPatience): Promise<ReadonlySet<string> | undefined>
}

/** `documents` keeps what operators publish; `now` is in seconds. */
export function createOperatorDocuments(documents: RemoteDocuments, now: () => number): OperatorDocuments {
  const listedIn = (json: Json): ReadonlySet<string> => directoryThumbprints(json, now())
  const readDirectory = async (named: NamedOperator, patience: OperatorPatience) => {
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

/** The result of `read` for a document; undefined if it refuses it. */
function attempt<T>(read: (json: Json) => T, json: Json): T | undefined {
  try {
    return read(json)
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return undefined
  }
}
