/**
 * Bad input at every owner endpoint gets its coded 4xx with a sentence, never a 500: contract, "Errors" and
 * "Limits".
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { OwnerCall } from '../support/authority.ts'
import { authorityStand } from '../support/stands.ts'

const authority = authorityStand()

const call = (wanted: OwnerCall) => authority.call(authority.alice, wanted)

const POSTS: { target: string; good: Record<string, unknown>; member: string }[] = [
  { target: '/owner/pending/fam_x/decision', good: { decision: 'approved' }, member: 'decision' },
  { target: '/owner/connections/revoke', good: { handle: 'jkt:x' }, member: 'handle' },
  { target: '/owner/operators/block', good: { origin: 'https://op.example' }, member: 'origin' },
  { target: '/owner/operators/unblock', good: { origin: 'https://op.example' }, member: 'origin' },
]
const LISTS = [
  '/owner/pending',
  '/owner/connections',
  '/owner/operators',
  '/owner/policies',
  '/owner/resources',
]

const BODIES: [string, (of: (typeof POSTS)[number]) => Partial<OwnerCall>, number, string][] = [
  ['no body', () => ({}), 400, 'invalid_request'],
  ['an empty body', () => ({ raw: '' }), 400, 'invalid_request'],
  ['a missing member', () => ({ json: {} }), 400, 'invalid_request'],
  ['a number for text', of => ({ json: { [of.member]: 7 } }), 400, 'invalid_request'],
  ['null for text', of => ({ json: { [of.member]: null } }), 400, 'invalid_request'],
  ['an object for text', of => ({ json: { [of.member]: {} } }), 400, 'invalid_request'],
  ['an array for the body', of => ({ json: [of.good] }), 400, 'invalid_request'],
  ['text for the body', () => ({ json: 'approved' }), 400, 'invalid_request'],
  ['an unknown member', of => ({ json: { ...of.good, extra: 1 } }), 400, 'invalid_request'],
  ['an oversized member', of => ({ json: { [of.member]: 'x'.repeat(10_000) } }), 400, 'invalid_request'],
  ['a NUL in it', of => ({ json: { [of.member]: 'jkt:\u0000' } }), 400, 'invalid_request'],
  ['malformed JSON', () => ({ raw: '{"a":' }), 400, 'invalid_request'],
  ['a member twice', of => ({ raw: `{"${of.member}":"a","${of.member}":"b"}` }), 400, 'invalid_request'],
  ['a second document', of => ({ raw: `${JSON.stringify(of.good)}{}` }), 400, 'invalid_request'],
  ['bytes that are no UTF-8', () => ({ raw: Buffer.from([0x22, 0xff, 0x22]) }), 400, 'invalid_request'],
  [
    'another content type',
    of => ({ json: of.good, headers: { 'content-type': 'text/plain' } }),
    415,
    'unsupported_media_type',
  ],
  [
    'a form in place of JSON',
    () => ({ raw: 'a=b', headers: { 'content-type': 'application/x-www-form-urlencoded' } }),
    415,
    'unsupported_media_type',
  ],
  [
    'a content-encoding',
    of => ({ json: of.good, headers: { 'content-encoding': 'gzip' } }),
    415,
    'unsupported_media_type',
  ],
  ['more than 256 KiB', of => ({ json: { [of.member]: 'x'.repeat(300_000) } }), 413, 'request_too_large'],
]

describe.each(POSTS)('POST $target', of => {
  it.each(BODIES)('with %s is refused with its code and a sentence', async (_case, make, status, error) => {
    const reply = await call({ method: 'POST', target: of.target, ...make(of) })
    expect({ status: reply.status, error: reply.body?.error }).toEqual({ status, error })
    expect(reply.body.error_description).toMatch(/[.:]$/)
    expect(reply.headers.get('cache-control')).toBe('no-store')
  })

  it('answers whatever JSON it is sent with a coded 4xx', async () => {
    await fc.assert(
      fc.asyncProperty(fc.jsonValue(), async json => {
        const { status, body } = await call({ method: 'POST', target: of.target, json })
        expect(status).toBeGreaterThanOrEqual(400)
        expect(status).toBeLessThan(500)
        expect(body).toMatchObject({ error: expect.any(String), error_description: expect.any(String) })
      }),
      { numRuns: 40 },
    )
  })
})

describe('Parameters', () => {
  const BAD = [
    'limit=0',
    'limit=1001',
    'limit=-1',
    'limit=1e3',
    'limit=ten',
    'limit=1&limit=2',
    'unknown=1',
    'after=%00',
    'after=a%00b',
    'after=%ff',
    `after=${'x'.repeat(3_000)}`,
  ]
  it.each(LISTS.flatMap(list => BAD.map(query => [list, query] as const)))(
    'GET %s?%s is 400 with a sentence',
    async (list, query) => {
      const reply = await call({ target: `${list}?${query}` })
      expect(reply).toMatchObject({ status: 400, body: { error: 'invalid_request' } })
      expect(reply.body.error_description).toMatch(/\.$/)
    },
  )

  it.each([
    'after=x',
    'after=-1',
    'after=99999999999999999999',
    'after=1.5',
    'kind=unheard_of',
    'kind=%00',
    'handle=%00',
    'limit=0',
    'other=1',
  ])('GET /owner/ledger?%s is 400 with a sentence', async query => {
    expect(await call({ target: `/owner/ledger?${query}` })).toMatchObject({
      status: 400,
      body: { error: 'invalid_request' },
    })
  })

  it.each(['limit=1000', 'limit=1', 'after=', 'after=%E2%80%AE', 'after=%27%3B--', ''])(
    'GET with %j is answered, however odd',
    async query => {
      for (const list of LISTS) {
        // Nothing is after an item that never waited, and that must not read as nothing that waits.
        const unknownItem = list === '/owner/pending' && /after=./.test(query)
        const { status, body } = await call({ target: `${list}?${query}` })
        expect([status, body.error]).toEqual(unknownItem ? [400, 'invalid_request'] : [200, undefined])
      }
    },
  )

  it.each(['%00', 'fam_%00', '%ff', '%', 'x'.repeat(4_000), '%2e%2e', '..%2f..'])(
    'POST /owner/pending/%s/decision is a coded 4xx',
    async family => {
      const target = `/owner/pending/${family}/decision`
      const reply = await call({ method: 'POST', target, json: { decision: 'approved' } })
      expect(reply.status).toBeGreaterThanOrEqual(400)
      expect(reply.status).toBeLessThan(500)
      expect(reply.body).toMatchObject({ error: expect.any(String) })
    },
  )

  it.each(['abc', '-1', '1.5', '99999999999999999999', '1 2'])(
    'GET /owner/events with Last-Event-ID %j is 400, not a stream',
    async id => {
      const reply = await call({ target: '/owner/events', headers: { 'last-event-id': id } })
      expect(reply).toMatchObject({ status: 400, body: { error: 'invalid_request' } })
      expect(reply.headers.get('content-type')).toMatch(/^application\/json/)
    },
  )

  it('a wrong method is 405 and names the right one', async () => {
    const reply = await call({ method: 'POST', target: '/owner/pending', json: {} })
    expect(reply).toMatchObject({ status: 405, body: { error: 'method_not_allowed' } })
    expect(reply.headers.get('allow')).toBe('GET')
  })

  it('an unknown path is 404 with a code', async () => {
    expect(await call({ target: '/owner/nothing' })).toMatchObject({
      status: 404,
      body: { error: 'not_found' },
    })
  })
})
