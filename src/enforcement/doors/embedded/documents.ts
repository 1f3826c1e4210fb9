/**
 * Owns how a resource that enforces by itself serves what it publishes. Contract: "Resource server
 * enforcement point": RFC 9728 documents, `/jwks`, `/owner-resources`; the documents are those of the
 * sidecar.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { WELL_KNOWN } from '../../../wire/names.ts'
import { Refusal } from '../../../wire/refusal.ts'
import { denialMessage, denialOf } from '../../denial.ts'
import { readHeaderLines } from '../../request/header-lines.ts'
import { DOCUMENT_CACHE_SECONDS, type PublicDocuments } from '../../documents/public-documents.ts'
import { splitTarget } from '../../request/request-target.ts'
import { asOwner } from '../../../wire/identifiers.ts'

/** Answers a request for a public document; false, having done nothing, for any other. Never rejects. */
export type AnswerDocument = (request: IncomingMessage, response: ServerResponse) => Promise<boolean>

/** A document, or a refusal, as it is answered. */
export interface DocumentAnswer {
  status: number
  headers: [name: string, value: string][]
  body: string
}

/** Answers the document at a target; undefined where that is none of ours. Never rejects. */
export type FindDocument = (request: IncomingMessage) => Promise<DocumentAnswer | undefined>

const KEPT = `public, max-age=${DOCUMENT_CACHE_SECONDS}`
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
    // Somebody else may have answered meanwhile, a time limit of the application's for one.
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
    [WELL_KNOWN.protectedResource, LISTING].some(base => path === base || path.startsWith(`${base}/`))
  )
}

/** As it was sent, also where a framework shortened it. */
function sentTarget(request: IncomingMessage & { originalUrl?: unknown }): string {
  return typeof request.originalUrl === 'string' ? request.originalUrl : (request.url ?? '')
}

async function answer(
  request: IncomingMessage,
  { target, path }: { target: string; path: string },
  documents: PublicDocuments,
): Promise<DocumentAnswer> {
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    throw new Refusal('method_not_allowed', 'Use GET at this path.', { headers: { allow: 'GET' } })
  }
  splitTarget(target)
  const { rawHeaders } = request
  // Refuses what two readers could take differently; the listing's signature is over these fields.
  readHeaderLines(rawHeaders.flatMap((name, i) => (i % 2 === 0 ? [[name, rawHeaders[i + 1]!] as const] : [])))
  if (path === '/jwks') return json(documents.jwks, KEPT)
  if (path.startsWith(WELL_KNOWN.protectedResource)) {
    return json(documents.metadata(path.slice(WELL_KNOWN.protectedResource.length)), KEPT)
  }
  const asked = { raw: { method: request.method, url: target, rawHeaders } }
  const owner = path === LISTING ? undefined : asOwner(path.slice(LISTING.length + 1))
  return json(await documents.listing(asked, owner), 'no-store')
}

function json(value: object, cacheControl: string): DocumentAnswer {
  return {
    status: 200,
    headers: [
      ['content-type', 'application/json'],
      ['cache-control', cacheControl],
      ['x-content-type-options', 'nosniff'],
    ],
    body: JSON.stringify(value),
  }
}
