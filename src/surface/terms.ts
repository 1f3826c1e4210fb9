/**
 * GET /terms, an owner's roster, and GET /terms/{template_id}, every version of her terms ever published, in
 * three representations. Contract: "Terms document", "Owner's authorization server: public".
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { linkNext, PAGE, pageOf, plainText, queryOf } from '../http/pages.ts'
import { contentDigest, sha256 } from '../wire/encoding.ts'
import { AUTHORITY_PATH } from '../wire/names.ts'
import { refuse } from '../wire/refusal.ts'
import { parseTemplateId, TERMS_HTML_POLICY, termsRoster, type TermsVersion } from '../wire/terms.ts'
import type { Issuer } from './issuer.ts'
import { FORMATS, MEDIA_TYPES, preferredFormat, represent } from './terms-formats.ts'
import { asOwner, type Owner } from '../wire/identifiers.ts'

export const ROSTER_QUERY = PAGE.extend({ owner: plainText(200).optional() })
export const TERMS_QUERY = z.strictObject({ format: z.enum(FORMATS).optional() })

/** Whose terms they are, and where they are kept. */
export interface TermsSource {
  /** Owners who are served, at most `limit`. */
  owners(limit: number): Promise<readonly Owner[]>
  /** An owner's terms that stand, by tier after the one named; undefined where no such owner is served. */
  standing(
    owner: Owner,
    page: { after: string | undefined; limit: number },
  ): Promise<readonly TermsVersion[] | undefined>
  /** A version that was ever published. */
  version(id: { owner: Owner; tier_id: string; version: number }): Promise<TermsVersion | undefined>
}

type Terms = Pick<Issuer, 'issuer' | 'specNs'> & { terms: TermsSource }

/** Registers the roster and the documents. */
export function registerTerms(app: FastifyInstance, of: Terms): void {
  app.get(AUTHORITY_PATH.terms, (request, reply) => getRoster(of, request, reply))
  app.get<{ Params: { owner: string; tier: string; version: string } }>(
    `${AUTHORITY_PATH.terms}/:owner/:tier/:version`,
    (request, reply) => {
      const { owner, tier, version } = request.params
      return getTerms(of, `${owner}/${tier}/${version}`, { request, reply })
    },
  )
}

/** `owner` may be left out where one alone is served; unknown owners are 404. */
async function getRoster(
  { issuer, terms }: Terms,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<object> {
  const { owner: named, after, limit } = queryOf(ROSTER_QUERY, request)
  const owner = named === undefined ? await onlyOwner(terms) : asOwner(named)
  const standing = await terms.standing(owner, { after, limit: limit + 1 })
  if (standing === undefined) refuse('not_found', 'No such owner is served here.')
  const { items, last } = pageOf(standing, limit)
  linkNext(
    reply,
    request,
    last && { after: last.tier_id, limit },
    named === undefined ? {} : { owner: named },
  )
  reply.header('cache-control', 'no-cache')
  return termsRoster(owner, issuer, items)
}

async function onlyOwner(terms: TermsSource): Promise<Owner> {
  const [first, second] = await terms.owners(2)
  if (first === undefined) refuse('not_found', 'No owner is served here yet.')
  if (second !== undefined) refuse('invalid_request', 'Name the owner: several are served here (?owner=).')
  return first
}

/** The version as asked for; immutable, so it may be kept for ever. */
async function getTerms(
  of: Terms,
  template_id: string,
  { request, reply }: { request: FastifyRequest; reply: FastifyReply },
): Promise<Buffer | undefined> {
  const { format } = queryOf(TERMS_QUERY, request)
  const id = template_id.includes('\0') ? undefined : parseTemplateId(template_id)
  const version = id === undefined ? undefined : await of.terms.version(id)
  if (version === undefined) refuse('not_found', 'No terms were ever published under this id.')
  const wanted = format ?? preferredFormat(request.headers.accept)
  const body = Buffer.from(represent(of, version, wanted))
  const etag = `"${sha256(body).toString('base64url')}"`
  reply.headers({
    'content-type': MEDIA_TYPES[wanted],
    'cache-control': 'public, max-age=31536000, immutable',
    'content-digest': contentDigest(body),
    etag,
    vary: 'accept',
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    ...(wanted === 'html'
      ? { 'content-security-policy': TERMS_HTML_POLICY }
      : { 'access-control-allow-origin': '*' }),
  })
  if (!names(request.headers['if-none-match'], etag)) return body
  reply.code(304)
  return undefined
}

/** RFC 9110 §13.1.2: `*`, or any of the tags listed, compared weakly: a proxy that recodes an answer weakens its tag. */
function names(ifNoneMatch: string | undefined, etag: string): boolean {
  const tags = ifNoneMatch?.split(',').map(tag => tag.trim().replace(/^W\//, '')) ?? []
  return tags.includes('*') || tags.includes(etag)
}
