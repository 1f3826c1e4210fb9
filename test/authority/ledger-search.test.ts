/**
 * How she finds entries of her ledger by time and words: contract, "Owner API" (`GET /owner/ledger`: `since`
 * and `until` are seconds, `q` words of any text in the entry).
 */
import { describe, expect, it } from 'vitest'
import { readAll, readNumbered } from '../../src/client/exchange.ts'
import { authorityStand } from '../support/stands.ts'
import { startedOnce } from '../support/started.ts'

const authority = authorityStand()
/** More than one request looks at. */
const ENTRIES = 12_000
const FIRST = 1_700_000_000

/** One entry each ten seconds; some speak of gold, and very few of opal. */
const filled = startedOnce(async () => {
  const { alice, database } = authority
  await database.pool.query(
    `INSERT INTO ledger (owner, kind, handle, data, ts)
     SELECT $1, CASE WHEN n % 2 = 0 THEN 'touched' ELSE 'promised' END, 'agent-' || n % 3,
       json_build_object('summary', CASE WHEN n % 4000 = 5 THEN 'Opal' WHEN n % 7 = 0 THEN 'Gold' ELSE 'Silver' END || ' of day ' || n),
       to_timestamp($2 + 10 * n)
     FROM generate_series(0, $3 - 1) n`,
    [alice.owner, FIRST, ENTRIES],
  )
  return { close: async () => undefined }
})

interface Page {
  entries: { seq: number; ts: string; kind: string; summary: string }[]
  next: number | null
}

const page = async (query: Record<string, string | number>): Promise<Page> => {
  const asked = new URLSearchParams(query as Record<string, string>)
  const { status, body } = await authority.call(authority.alice, {
    target: `/owner/ledger?${asked.toString()}`,
  })
  expect(status).toBe(200)
  return body
}

/** All pages of a search, and how many there were. */
async function all(query: Record<string, string | number>): Promise<{ days: number[]; pages: number }> {
  expect(filled).toBeDefined()
  const days: number[] = []
  const following = query['first'] === 'newest' ? 'before' : 'after'
  let next: number | null = 0
  for (let pages = 0; ; pages++) {
    const found: Page = await page(pages === 0 ? query : { ...query, [following]: next })
    days.push(...found.entries.map(({ summary }) => Number(summary.split(' ').at(-1))))
    if (found.next === null) return { days, pages: pages + 1 }
    next = found.next
  }
}

const days = Array.from({ length: ENTRIES }, (_, n) => n)

describe('A search of the ledger', () => {
  it.each<[string, Record<string, string | number>, (n: number) => boolean]>([
    ['a word that few entries have', { q: 'opal' }, n => n % 4000 === 5],
    ['two words, in any case and order', { q: 'DAY gold', limit: 1000 }, n => n % 7 === 0 && n % 4000 !== 5],
    ['a word that none has', { q: 'copper' }, () => false],
    ['the time from which on', { since: FIRST + 119_000, limit: 1000 }, n => n >= 11_900],
    ['the time before which', { until: FIRST + 1_000, limit: 1000 }, n => n < 100],
    ['both', { since: FIRST + 60_005, until: FIRST + 60_020, limit: 1000 }, n => n === 6_001],
    [
      'a word, a kind and a time',
      { q: 'gold', kind: 'touched', since: FIRST + 100_000, limit: 50 },
      n => n >= 10_000 && n % 14 === 0 && n % 4000 !== 5,
    ],
    ['a handle and a word', { q: 'opal', handle: 'agent-2' }, n => n % 4000 === 5 && n % 3 === 2],
  ])('by %s finds what it says, page by page, from either end', async (_, query, isFound) => {
    const wanted = days.filter(isFound)
    expect((await all(query)).days).toEqual(wanted)
    expect((await all({ ...query, first: 'newest' })).days).toEqual(wanted.toReversed())
  })

  it('looks at a bounded number of entries at a time, and says where it goes on', async () => {
    const { days: found, pages } = await all({ q: 'copper' })
    expect([found, pages]).toEqual([[], 3])
  })

  it('is read to its end by our client, though a page of it is empty', async () => {
    const { alice, ownerUrl, issuer } = authority
    const access = { api: ownerUrl, issuer, key: alice.key }
    const entries = readNumbered<{ summary: string }>(access, '/owner/ledger', 'entries', { q: 'opal 8005' })
    expect(await readAll(entries)).toMatchObject([{ summary: 'Opal of day 8005' }])
  })

  it('finds a stretch of time without looking at all before it', async () => {
    expect((await all({ since: FIRST + 119_000, limit: 1000 })).pages).toBe(1)
    expect((await all({ until: FIRST + 100, first: 'newest', limit: 1000 })).pages).toBe(1)
  })

  it.each([
    ['since=yesterday', 'Unix time'],
    ['until=-1', 'Unix time'],
    [`q=${'x'.repeat(201)}`, '200 characters'],
  ])('by %s is refused, and the refusal says what to give', async (query, says) => {
    const { status, body } = await authority.call(authority.alice, { target: `/owner/ledger?${query}` })
    expect([status, body.error]).toEqual([400, 'invalid_request'])
    expect(body.error_description).toContain(says)
  })
})
