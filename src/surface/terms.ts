/**
 * GET /terms, an owner's roster, and GET /terms/{template_id}, every version of her terms ever published, in
 * three representations. Contract: "Terms document", "Owner's authorization server: public".
 */
import { z } from 'zod'
import { ANY_ORIGIN } from '../http/servers/any-origin.ts'
import { endpoint, type Endpoint } from '../http/servers/endpoint.ts'
import { nextLink, PAGE, pageOf, plainText } from '../http/servers/pages.ts'
import { namesTag } from '../wire/entity-tags.ts'
import { contentDigest, sha256 } from '../wire/encoding.ts'
import { AUTHORITY_PATH } from '../wire/names.ts'
import { refuse } from '../wire/refusal.ts'
import {
  parseTemplateId,
  TERMS_HTML_POLICY,
  termsRoster,
  type TermsVersion,
} from '../wire/negotiation/terms.ts'
import type { Issuer } from './issuer.ts'
import { FORMATS, MEDIA_TYPES, preferredFormat, renderTerms } from './terms-formats.ts'
import { asOwner, type Owner } from '../wire/identifiers.ts'

/** The owners of the terms, and where the terms are kept. */
export interface TermsSource {
  /** Owners who are served, at most `limit`. */
  owners(limit: number): Promise<readonly Owner[]>
  /** An owner's present terms, by tier, after the given one; undefined if this owner is not served. */
  standing(
    owner: Owner,
    page: { after: string | undefined; limit: number },
  ): Promise<readonly TermsVersion[] | undefined>
  /** A version that was ever published. */
  version(id: { owner: Owner; tier_id: string; version: number }): Promise<TermsVersion | undefined>
}

export interface Terms {
  issuer: Pick<Issuer, 'issuer' | 'specNs'>
  terms: TermsSource
}

const UNKNOWN = 'No terms were ever published under this id.'
const ROSTER = z.looseObject({
  owner: z.string(),
  proffered_by: z.string(),
  terms: z.array(z.looseObject({})),
})

/** `owner` may be left out if only one is served; unknown owners are 404. */
export const ROSTER_OF_TERMS: Endpoint<Terms> = endpoint({
  method: 'get',
  path: AUTHORITY_PATH.terms,
  rows: ['get-terms'],
  summary: "The owner's roster of terms",
  query: PAGE.extend({ owner: plainText(200).optional() }),
  answers: {
    200: {
      says: 'Her terms in force.',
      schema: ROSTER,
      headers: { 'cache-control': 'no-cache', ...ANY_ORIGIN },
    },
  },
  refuses: { 404: ['not_found'] },
  async handle({ issuer, terms }: Terms, { query, answer }) {
    const { owner: named, after, limit } = query
    const owner = named === undefined ? await onlyOwner(terms) : asOwner(named)
    const standing = await terms.standing(owner, { after, limit: limit + 1 })
    if (standing === undefined) refuse('not_found', 'No such owner is served here.')
    const { items, last } = pageOf(standing, limit)
    const filter: Record<string, string> = named === undefined ? {} : { owner: named }
    const link = nextLink(AUTHORITY_PATH.terms, last && { after: last.tier_id, limit }, filter)
    return answer(200, termsRoster(owner, issuer.issuer, items) as z.output<typeof ROSTER>, link)
  },
})

/** The requested version. It is immutable, so it may be cached for ever. */
export const TERMS_DOCUMENT: Endpoint<Terms> = endpoint({
  method: 'get',
  path: '/terms/{owner}/{tier}/{version}',
  rows: ['get-terms-document'],
  summary: 'One version of the terms: JSON, HTML or JSON-LD with ODRL',
  parameters: {
    schema: z.object({ owner: z.string(), tier: z.string(), version: z.string() }),
    unknown: UNKNOWN,
  },
  query: z.strictObject({ format: z.enum(FORMATS).optional() }),
  answers: {
    200: { says: 'The document, in the representation asked for.' },
    304: { says: 'The caller has it already (If-None-Match).' },
  },
  anyOrigin: true,
  async handle({ issuer, terms }: Terms, { parameters, query, request, answer }) {
    const { owner, tier, version: number } = parameters
    const template_id = `${owner}/${tier}/${number}`
    const id = template_id.includes('\0') ? undefined : parseTemplateId(template_id)
    const version = id === undefined ? undefined : await terms.version(id)
    if (version === undefined) refuse('not_found', UNKNOWN)
    const format = query.format ?? preferredFormat(request.headers.accept)
    const body = Buffer.from(renderTerms(issuer, version, format))
    const etag = `"${sha256(body).toString('base64url')}"`
    const headers = {
      'content-type': MEDIA_TYPES[format],
      'cache-control': 'public, max-age=31536000, immutable',
      'content-digest': contentDigest(body),
      etag,
      vary: 'accept',
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      ...(format === 'html' ? { 'content-security-policy': TERMS_HTML_POLICY } : ANY_ORIGIN),
    }
    return namesTag(request.headers['if-none-match'], etag)
      ? answer(304, undefined, headers)
      : answer(200, body, headers)
  },
})

async function onlyOwner(terms: TermsSource): Promise<Owner> {
  const [first, second] = await terms.owners(2)
  if (first === undefined) refuse('not_found', 'No owner is served here yet.')
  if (second !== undefined) refuse('invalid_request', 'Name the owner: several are served here (?owner=).')
  return first
}
