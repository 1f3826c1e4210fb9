/**
 * GET /mandate/{account}: the holders, their weights, how many must agree; and the registered resources,
 * which the digest does not cover. Contract: "Tally for a jointly held resource".
 */
import { z } from 'zod'
import { ANY_ORIGIN } from '../http/servers/any-origin.ts'
import { endpoint, type Endpoint } from '../http/servers/endpoint.ts'
import { mandateDocument } from '../rules/joint/mandate-document.ts'
import { listResources, readAccount } from '../storage/tally/accounts.ts'
import { namesTag } from '../wire/entity-tags.ts'
import { s256Json } from '../wire/encoding.ts'
import { asOwner } from '../wire/identifiers.ts'
import { NAME_PATTERN, TALLY_PATH } from '../wire/names.ts'
import { refuse } from '../wire/refusal.ts'
import type { TallyStore } from './context.ts'

const UNKNOWN = 'No such account is counted for here.'
const texts = z.array(z.string())

const DOCUMENT = z.strictObject({
  account: z.string(),
  tally: z.string(),
  resources: texts,
  holders: z.array(z.strictObject({ owner: z.string(), issuer: z.string(), weight: z.int() })),
  rule: z.strictObject({ kind: z.enum(['all', 'any', 'threshold']), threshold: z.int() }),
  total_weight: z.int(),
  mandate_s256: z.string(),
  summary: texts,
  registered: z.array(
    z.strictObject({
      _id: z.string(),
      name: z.string(),
      type: z.string().optional(),
      resource_scopes: texts,
      consequence: z.string().optional(),
    }),
  ),
})

const headers = { 'cache-control': 'public, max-age=30', ...ANY_ORIGIN }

export const MANDATE: Endpoint<TallyStore> = endpoint({
  method: 'get',
  path: `${TALLY_PATH.mandate}/{account}`,
  rows: ['tally-mandate'],
  summary: 'The holders, their weights, and how many must agree',
  parameters: {
    schema: z.strictObject({ account: z.string().regex(NAME_PATTERN).transform(asOwner) }),
    unknown: UNKNOWN,
  },
  answers: {
    200: { says: 'The mandate in force.', schema: DOCUMENT, headers },
    304: { says: 'The caller has it already (If-None-Match).' },
  },
  refuses: { 404: ['not_found'] },
  handle: async ({ database: { ofNobody: db } }: TallyStore, { parameters, request, answer }) => {
    const [row, resources] = await Promise.all([
      readAccount(db, parameters.account),
      listResources(db, parameters.account),
    ])
    if (row === undefined) refuse('not_found', UNKNOWN)
    const document = mandateDocument(row.mandate, resources)
    const etag = `"${s256Json(document)}"`
    return namesTag(request.headers['if-none-match'], etag)
      ? answer(304, undefined, { ...headers, etag })
      : answer(200, document, { etag })
  },
})
