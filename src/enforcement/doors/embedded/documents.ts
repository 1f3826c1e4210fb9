/**
 * Owns how a resource that enforces by itself serves what it publishes. Contract: "Resource server
 * enforcement point": RFC 9728 documents, `/jwks`, `/owner-resources`; the documents are those of the
 * sidecar.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { ANY_ORIGIN, anyOriginMay, headersOf, isPreflight } from '../../../http/servers/any-origin.ts'
import { WELL_KNOWN } from '../../../wire/names.ts'
import { Refusal } from '../../../wire/refusal.ts'
import { denialMessage, denialOf } from '../../denial.ts'
import { readHeaderLines, type HeaderFields } from '../../request/header-lines.ts'
import { DOCUMENT_CACHE_SECONDS, listedAt, type PublicDocuments } from '../../documents/public-documents.ts'
import { splitTarget } from '../../request/request-target.ts'

/**
 * Answers a request for a public document. For any other request it does nothing and returns false. Never
 * rejects.
 */
export type AnswerDocument = (request: IncomingMessage, response: ServerResponse) => Promise<boolean>

/** The answer: a document or a refusal. */
export interface DocumentAnswer {
  status: number
  headers: HeaderFields
  body: string
}

/** Answers the document at a target; undefined if no document of ours is there. Never rejects. */
export type FindDocument = (request: IncomingMessage) => Promise<DocumentAnswer | undefined>

/** The header fields of documents that everybody may read, and any page too. */
const PUBLIC: HeaderFields = [
  ['cache-control', `public, max-age=${DOCUMENT_CACHE_SECONDS}`],
  ...Object.entries(ANY_ORIGIN),
]
const OF_ONE: HeaderFields = [['cache-control', 'no-store']]
const LISTING = '/owner-resources'

export function createDocuments(documents: PublicDocuments, report: (fault: unknown) => void): FindDocument {
  return async request => {
    const target = sentTarget(request)
    const path = target.split('?', 1)[0]!
    if (!isDocumentPath(path)) return undefined
    try {
      return await answer(request, { target, path }, documents)
    } catch (thrown) {
      if (!(thrown instanceof Refusal)) report(thrown)
      return denialMessage(denialOf(thrown))
    }
  }
}

/** The same for Node's own server. */
export function documentAnswers(find: FindDocument): AnswerDocument {
  return async (request, response) => {
    const found = await find(request)
    if (found === undefined) return false
    // Something else may have answered meanwhile, for example a time limit of the application.
    if (response.headersSent || response.destroyed) {
      response.destroy()
      return true
    }
    response.statusCode = found.status
    for (const [name, value] of found.headers) response.setHeader(name, value)
    response.end(found.body)
    return true
  }
}

function isDocumentPath(path: string): boolean {
  return (
    path === '/jwks' ||
    path === WELL_KNOWN.protectedResource ||
    path.startsWith(`${WELL_KNOWN.protectedResource}/`) ||
    isListing(path)
  )
}

const isListing = (path: string): boolean => path === LISTING || path.startsWith(`${LISTING}/`)

/** The target as it was sent, even if a framework shortened it. */
function sentTarget(request: IncomingMessage & { originalUrl?: unknown }): string {
  return typeof request.originalUrl === 'string' ? request.originalUrl : (request.url ?? '')
}

async function answer(
  request: IncomingMessage,
  { target, path }: { target: string; path: string },
  documents: PublicDocuments,
): Promise<DocumentAnswer> {
  const read = headersOf(request)
  // Only a signed request may read the listing, so pages of other origins may not.
  if (!isListing(path) && isPreflight(request.method, read))
    return { status: 204, headers: Object.entries(anyOriginMay(read)), body: '' }
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    throw new Refusal('method_not_allowed', 'Use GET at this path.', { headers: { allow: 'GET' } })
  }
  splitTarget(target)
  const { rawHeaders } = request
  // Refuses what two readers could take differently; the listing's signature is over these fields.
  readHeaderLines(rawHeaders.flatMap((name, i) => (i % 2 === 0 ? [[name, rawHeaders[i + 1]!] as const] : [])))
  if (path === '/jwks') return json(documents.jwks, PUBLIC)
  if (path.startsWith(WELL_KNOWN.protectedResource)) {
    return json(documents.metadata(path.slice(WELL_KNOWN.protectedResource.length)), PUBLIC)
  }
  const question = { raw: { method: request.method, url: target, rawHeaders } }
  const of = path === LISTING ? undefined : listedAt(path.slice(LISTING.length))
  return json(await documents.listing(question, of), OF_ONE)
}

function json(value: object, fields: HeaderFields): DocumentAnswer {
  return {
    status: 200,
    headers: [['content-type', 'application/json'], ...fields, ['x-content-type-options', 'nosniff']],
    body: JSON.stringify(value),
  }
}
