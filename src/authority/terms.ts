/**
 * GET /terms, an owner's roster, and GET /terms/{template_id}, every version of her terms ever published, in
 * three representations. Contract: "Terms document", "Owner's authorization server: public".
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { listOwners, readOwner } from '../storage/authority/owners.ts'
import { listTiers, readTerms } from '../storage/authority/tiers.ts'
import { contentDigest, sha256 } from '../wire/encoding.ts'
import { AUTHORITY_PATH } from '../wire/names.ts'
import { refuse } from '../wire/refusal.ts'
import {
  parseTemplateId,
  TERMS_HTML_POLICY,
  termsDocument,
  termsHtml,
  termsOdrl,
  termsRoster,
  type TermsVersion,
} from '../wire/terms.ts'
import type { Authority } from './context.ts'
import { linkNext, PAGE, pageOf, plainText, queryOf } from './owner/requests.ts'

export const ROSTER_QUERY = PAGE.extend({ owner: plainText(200).optional() })
const FORMATS = ['json', 'html', 'jsonld'] as const
type Format = (typeof FORMATS)[number]
export const TERMS_QUERY = z.strictObject({ format: z.enum(FORMATS).optional() })

/** Registers the roster and the documents. */
export function registerTerms(app: FastifyInstance, authority: Authority): void {
  app.get(AUTHORITY_PATH.terms, (request, reply) => getRoster(authority, request, reply))
  app.get<{ Params: { owner: string; tier: string; version: string } }>(
    `${AUTHORITY_PATH.terms}/:owner/:tier/:version`,
    (request, reply) => {
      const { owner, tier, version } = request.params
      return getTerms(authority, `${owner}/${tier}/${version}`, { request, reply })
    },
  )
}

/** `owner` may be left out where one alone is served; unknown owners are 404. */
async function getRoster(
  authority: Authority,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<object> {
  const { owner: named, after, limit } = queryOf(ROSTER_QUERY, request)
  const { db } = authority.database
  const owner = named ?? (await onlyOwner(authority))
  if ((await readOwner(db, owner)) === undefined) refuse('not_found', 'No such owner is served here.')
  const { items, last } = pageOf(await listTiers(db, owner, { after, limit: limit + 1 }), limit)
  linkNext(
    reply,
    request,
    last && { after: last.tier_id, limit },
    named === undefined ? {} : { owner: named },
  )
  reply.header('cache-control', 'no-cache')
  return termsRoster(
    owner,
    authority.issuer,
    items.map(tier => tier.terms),
  )
}

async function onlyOwner(authority: Authority): Promise<string> {
  const [first, second] = await listOwners(authority.database.db, { limit: 2 })
  if (first === undefined) refuse('not_found', 'No owner is served here yet.')
  if (second !== undefined) refuse('invalid_request', 'Name the owner: several are served here (?owner=).')
  return first.owner
}

/** The version as asked for; immutable, so it may be kept for ever. */
async function getTerms(
  authority: Authority,
  template_id: string,
  { request, reply }: { request: FastifyRequest; reply: FastifyReply },
): Promise<Buffer | undefined> {
  const { format } = queryOf(TERMS_QUERY, request)
  const id = template_id.includes('\0') ? undefined : parseTemplateId(template_id)
  const version =
    id === undefined ? undefined : await readTerms(authority.database.db, id.owner, id.tier_id, id.version)
  if (version === undefined) refuse('not_found', 'No terms were ever published under this id.')
  const wanted = format ?? preferredFormat(request.headers.accept)
  const body = Buffer.from(represent(authority, version, wanted))
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

const MEDIA_TYPES: Record<Format, string> = {
  json: 'application/json; charset=utf-8',
  html: 'text/html; charset=utf-8',
  jsonld: 'application/ld+json',
}

function represent(authority: Authority, version: TermsVersion, format: Format): string {
  const { issuer, specNs } = authority
  switch (format) {
    case 'json':
      return JSON.stringify(termsDocument(version, issuer))
    case 'html':
      return termsHtml(version, issuer)
    case 'jsonld':
      return JSON.stringify(termsOdrl(version, { issuer, specNs }))
  }
}

/** By `Accept` (RFC 9110 §12.5.1): the type with the highest weight that we have; JSON in every other case. */
function preferredFormat(accept: string | undefined): Format {
  const weights = new Map<string, number>()
  for (const part of (accept ?? '').split(',')) {
    const [type = '', ...parameters] = part.split(';').map(text => text.trim().toLowerCase())
    const weight = parameters.find(text => text.startsWith('q='))?.slice(2)
    weights.set(type, weight === undefined ? 1 : Number(weight) || 0)
  }
  const any = weights.get('*/*') ?? 0
  const offered = [
    { format: 'json', weight: weights.get('application/json') ?? weights.get('application/*') ?? any },
    { format: 'html', weight: weights.get('text/html') ?? weights.get('text/*') ?? any },
    { format: 'jsonld', weight: weights.get('application/ld+json') ?? weights.get('application/*') ?? any },
  ] as const
  return offered.reduce((best, next) => (next.weight > best.weight ? next : best)).format
}
