/**
 * Her allowances: contract, "Owner API" and "Policy vocabulary and tiers"; an addition
 * (docs/details/owner-api.md).
 */
import { describe, expect, it } from 'vitest'
import type { OwnerCall, Reply } from '../support/authority.ts'
import { SHOPPING } from '../support/allowance.ts'
import { readEvents, startOfReading } from '../../src/storage/authority/ledger/events.ts'
import { asOwner } from '../../src/wire/identifiers.ts'
import { parseJson, type Json } from '../../src/wire/json.ts'
import { authorityStand } from '../support/stands.ts'

const authority = authorityStand({ owners: ['alice', 'bea'] })

const own = (call: OwnerCall, owner = authority.alice): Promise<Reply> => authority.call(owner, call)
const get = (id: string) => own({ target: `/owner/allowances/${id}` })
const put = (id: string, json: unknown, headers: Record<string, string> = {}) =>
  own({ method: 'PUT', target: `/owner/allowances/${id}`, json, headers })
/** What it says, without what is used of it. */
const stored = ({ body }: Reply): object => {
  const { use: _use, ...members } = body as { use: object }
  return members
}
const answers = ({ status, body }: Reply) => [status, body.error]
const told = async (id: string) => {
  const { body } = await own({ target: '/owner/ledger?kind=allowance_changed&limit=1000' })
  return (body.entries as { allowance: string }[]).filter(entry => entry.allowance === id)
}

describe('PUT /owner/allowances/{id}', () => {
  it('makes an allowance, with defaults for what is left out; the ETag is the quoted version', async () => {
    const made = await put('weekend', { ...SHOPPING, until: '2999-03-08T23:00:00+01:00' })
    expect([made.status, made.headers.get('etag')]).toEqual([201, '"1"'])
    const { shopping } = SHOPPING.tiers
    expect(made.body).toEqual({
      id: 'weekend',
      version: 1,
      among: 'all',
      until: '2999-03-08T22:00:00.000Z',
      hold_s: 300,
      ...SHOPPING,
      tiers: {
        shopping: { ...shopping, amounts: { price: { as: 'number', ...shopping.amounts.price } } },
      },
    })
    const read = await get('weekend')
    expect([read.status, read.headers.get('etag'), stored(read)]).toEqual([200, '"1"', made.body])
  })

  it('edits it as a whole, under the next version, and takes it as GET gave it', async () => {
    const before = await get('weekend')
    const again = await put('weekend', before.body)
    expect([again.status, again.headers.get('etag')]).toEqual([200, '"2"'])
    expect(again.body).toEqual({ ...stored(before), version: 2 })
    const { amounts, zone } = SHOPPING
    const less = await put('weekend', { amounts })
    expect(less.body).toMatchObject({ version: 3, zone, amounts, windows: [], tiers: {}, until: null })
  })

  it('If-Match names the version she edited: a stale one, or one of nothing, is 412 and changes nothing', async () => {
    const before = (await get('weekend')).body
    for (const tag of ['"2"', '"4"', '3', '"weekend"', ''])
      expect(answers(await put('weekend', SHOPPING, { 'if-match': tag }))).toEqual([
        412,
        'precondition_failed',
      ])
    for (const tag of ['*', '"1"'])
      expect(answers(await put('unmade', {}, { 'if-match': tag }))).toEqual([412, 'precondition_failed'])
    expect([(await get('weekend')).body, answers(await get('unmade'))]).toEqual([before, [404, 'not_found']])
    for (const [tag, version] of [
      ['"3"', 4],
      ['*', 5],
      ['"1", W/"5"', 6],
    ] as const)
      expect((await put('weekend', SHOPPING, { 'if-match': tag })).body.version).toBe(version)
  })

  it('If-None-Match: * makes one, and edits none', async () => {
    expect((await put('fresh', {}, { 'if-none-match': '*' })).status).toBe(201)
    const second = await put('fresh', SHOPPING, { 'if-none-match': '*' })
    expect(answers(second)).toEqual([412, 'precondition_failed'])
    expect(second.body.error_description).toContain('choose another id')
    expect((await get('fresh')).body).toMatchObject({ version: 1, amounts: [] })
  })

  it('refuses what may not change, because of what was counted: 409 says what to do', async () => {
    for (const changes of [
      { zone: 'UTC' },
      { among: 'lineage' },
      { amounts: [{ name: 'price', unit: 'EUR' }] },
    ]) {
      const reply = await put('weekend', { ...SHOPPING, ...changes })
      expect(answers(reply)).toEqual([409, 'conflict'])
      expect(reply.body.error_description).toContain('make another allowance')
    }
    expect((await get('weekend')).body.version).toBe(6)
  })

  it.each<[string, unknown, RegExp]>([
    ['a window of no amount', { ...SHOPPING, amounts: [], tiers: {} }, /windows\[0\]\.of: write `calls`, or/],
    ['an amount as a number', { amounts: [{ name: 'price', each_max: 50 }] }, /each_max.*as text/],
    ['a zone that nobody knows', { zone: 'Mars/Olympus' }, /zone: give the name of a time zone/],
    ['an abbreviation of a zone', { zone: 'PDT' }, /zone: give the name of a time zone/],
    ['an end that no calendar has', { until: '2026-02-30T00:00:00Z' }, /until.*give a time with its offset/],
    [
      'a tier by no name of one',
      { tiers: { ' ': { tools: ['a'] } } },
      /name a tier as it is named elsewhere/,
    ],
    [
      'NUL in a pointer, which Postgres could not read again',
      { tiers: { shopping: { tools: ['a'], free: ['/a\0'] } } },
      /tiers\.shopping\.free\[0\]: leave out the character NUL/,
    ],
    ['an unknown member', { maximum: 5 }, /unknown member "maximum"/],
    ['another id', { id: 'other' }, /an allowance keeps its id/],
  ])('refuses %s: 400 says what to do', async (_what, json, sentence) => {
    const reply = await put('refused', json)
    expect(answers(reply)).toEqual([400, 'invalid_request'])
    expect(reply.body.error_description).toMatch(sentence)
    expect(answers(await get('refused'))).toEqual([404, 'not_found'])
  })

  it('holds the deepest value that is taken so that her ledger and her archive can still be read', async () => {
    const nested = (depth: number) => JSON.parse('['.repeat(depth) + ']'.repeat(depth)) as Json
    const save = (depth: number) =>
      put('deep', {
        tiers: { shopping: { tools: ['a'], only: [{ pointer: '/a', one_of: [nested(depth)] }] } },
      })
    expect([answers(await save(58)), answers(await save(33))]).toEqual(
      [58, 33].map(() => [400, 'invalid_request']),
    )
    expect((await save(32)).status).toBe(201)
    for (const target of ['/owner/ledger?limit=1000', '/owner/export?limit=1000', '/owner/allowances']) {
      const { status, text } = await own({ target })
      expect(status).toBe(200)
      expect(parseJson(text)).toBeTruthy()
    }
  })

  it.each(['Weekend', 'a_b', 'a'.repeat(33), '%C3%A9', 'a%20'])('knows no allowance %j', async id => {
    expect(answers(await put(id, {}))).toEqual([404, 'not_found'])
    expect(answers(await get(id))).toEqual([404, 'not_found'])
  })

  it('is told in her ledger, whole, each time, with who did it', async () => {
    const { body: before } = await put('diary', {})
    const { body: after } = await put('diary', { ...SHOPPING, zone: 'UTC' })
    const actor = { kind: 'owner', credential: 'device_key', kid: authority.alice.key.thumbprint }
    const entry = ({ id, ...members }: { id: string; version: number }, was: number | null) =>
      expect.objectContaining({ allowance: id, was, by: 'owner', actor, ...members })
    expect(await told('diary')).toEqual([entry(before, null), entry(after, 1)])
    await put('diary', {}, { 'if-match': '"1"' })
    expect(await told('diary')).toHaveLength(2)
  })

  it('is told to her other portals each time, and not if nothing is stored', async () => {
    const { db } = authority.database
    const { after } = await startOfReading(db, asOwner('alice'))
    const { version } = (await put('diary', { ...SHOPPING, zone: 'UTC' })).body
    expect((await put('diary', {}, { 'if-match': '"1"' })).status).toBe(412)
    expect(await readEvents(db, asOwner('alice'), { after, limit: 10 })).toMatchObject([
      { event: 'allowance_changed', data: { allowance: 'diary', version, by: 'owner' } },
    ])
  })

  it('makes a hundred of them at most; the others may still be edited', async () => {
    const bea = authority.owners['bea']!
    const save = (id: string) => own({ method: 'PUT', target: `/owner/allowances/${id}`, json: {} }, bea)
    for (let n = 0; n < 100; n++) expect((await save(`a-${n}`)).status).toBe(201)
    const more = await save('one-more')
    expect(answers(more)).toEqual([409, 'conflict'])
    expect(more.body.error_description).toContain('edit one of them')
    expect((await save('a-7')).status).toBe(200)
  })
})

describe('GET /owner/allowances', () => {
  it('lists them by id, in pages, and none of another owner', async () => {
    const list = (query: string) => own({ target: `/owner/allowances${query}` })
    const { body } = await list('')
    expect(body.map(({ id }: { id: string }) => id)).toEqual(['deep', 'diary', 'fresh', 'weekend'])
    expect(body[3]).toEqual((await get('weekend')).body)
    const first = await list('?limit=1')
    expect(first.headers.get('link')).toBe('</owner/allowances?after=deep&limit=1>; rel="next"')
    expect((await list('?after=fresh')).body).toEqual([body[3]])
  })

  it('is in her archive', async () => {
    const { body } = await own({ target: '/owner/export?limit=1000' })
    const ids = (body.lines as { part: string; row: { id: string } }[])
      .filter(({ part }) => part === 'allowances')
      .map(({ row }) => row.id)
    expect(ids).toEqual(['deep', 'diary', 'fresh', 'weekend'])
  })
})

describe('Two who save at once', () => {
  it('make one allowance, if both mean a new one', async () => {
    for (let round = 0; round < 10; round++) {
      const saves = Array.from({ length: 8 }, (_, n) =>
        put(`raced-${round}`, { hold_s: 60 + n }, { 'if-none-match': '*' }),
      )
      const replies = await Promise.all(saves)
      const won = replies.filter(({ status }) => status === 201)
      expect([won.length, replies.filter(({ status }) => status === 412).length]).toEqual([1, 7])
      expect(stored(await get(`raced-${round}`))).toEqual(won[0]!.body)
      expect(await told(`raced-${round}`)).toHaveLength(1)
    }
  })

  it('edit one version once', async () => {
    for (let version = 1; version <= 10; version++) {
      const saves = Array.from({ length: 8 }, (_, n) =>
        put('raced-0', { hold_s: 100 + n }, { 'if-match': `"${version}"` }),
      )
      const replies = await Promise.all(saves)
      expect(replies.map(({ status }) => status).toSorted()).toEqual([200, ...Array(7).fill(412)])
      expect((await get('raced-0')).body.version).toBe(version + 1)
    }
  })

  it('lose no edit, if neither says which version it edited: each has a version of its own', async () => {
    const replies = await Promise.all(Array.from({ length: 8 }, () => put('raced-1', {})))
    expect(replies.map(({ body }) => body.version).toSorted()).toEqual([2, 3, 4, 5, 6, 7, 8, 9])
    expect((await told('raced-1')).length).toBe(9)
  })
})
