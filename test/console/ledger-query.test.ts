/** How her page asks for the ledger: contract, "Owner API" (`GET /owner/ledger`). */
import { afterEach, describe, expect, it, vi } from 'vitest'
import {
  allEntries,
  EXPORTED_MAX,
  ledgerPath,
  nextPage,
  NO_FILTER,
  type EntriesPage,
} from '../../src/console/ledger/query.ts'

afterEach(() => vi.unstubAllEnvs())

const queryOf = (path: string): Record<string, string> =>
  Object.fromEntries(new URL(path, 'https://as.example').searchParams)
const asked = (changes: Partial<typeof NO_FILTER>): Record<string, string> =>
  queryOf(ledgerPath({ ...NO_FILTER, ...changes }, { limit: 50 }))
const entry = (seq: number) => ({ seq, ts: '2026-11-21T09:00:00.000Z', kind: 'touched' })

/** A ledger that is read so, and what it was asked for. */
function ledger(pageAt: (before: number) => EntriesPage) {
  const before: number[] = []
  const read = async (path: string): Promise<EntriesPage> => {
    const at = Number(queryOf(path)['before'] ?? Infinity)
    before.push(at)
    return pageAt(at)
  }
  return { before, read }
}

describe('The page asks the server', () => {
  it('for nothing that she left open', () => {
    expect(asked({ words: '  ' })).toEqual({ first: 'newest', limit: '50' })
  })

  it('for words, agent and kind, newest first', () => {
    expect(asked({ words: ' VTI & Co ', handle: 'jkt:a', kind: 'touched' })).toEqual({
      first: 'newest',
      limit: '50',
      q: 'VTI & Co',
      handle: 'jkt:a',
      kind: 'touched',
    })
    expect(asked({ words: 'w'.repeat(300) })['q']).toHaveLength(200)
  })

  it('for days of her own time zone, the last one to its end, however long it is', () => {
    vi.stubEnv('TZ', 'Europe/Zurich')
    const { since, until } = asked({ from: '2026-03-28', until: '2026-03-29' })
    expect(new Date(Number(since) * 1_000).toISOString()).toBe('2026-03-27T23:00:00.000Z')
    // The clocks went forward that night.
    expect(new Date(Number(until) * 1_000).toISOString()).toBe('2026-03-29T22:00:00.000Z')
    expect(asked({ from: 'soon' })).toEqual(asked({}))
  })
})

describe('A page without an entry', () => {
  it('is read on from, until one has an entry', async () => {
    const { read, before } = ledger(at =>
      at > 300 ? { entries: [], next: at === Infinity ? 900 : at - 300 } : { entries: [entry(7)], next: 7 },
    )
    expect(await nextPage(read, NO_FILTER, { limit: 50 })).toEqual({ entries: [entry(7)], next: 7 })
    expect(before).toEqual([Infinity, 900, 600, 300])
  })

  it('ends if there is no next one', async () => {
    const { read, before } = ledger(() => ({ entries: [], next: null }))
    expect(await nextPage(read, NO_FILTER, { before: 9, limit: 50 })).toEqual({ entries: [], next: null })
    expect(before).toEqual([9])
  })

  it('does not keep her waiting for a ledger without an end: she may search on', async () => {
    const { read, before } = ledger(at => ({ entries: [], next: Math.min(at, 1_000) - 1 }))
    expect(await nextPage(read, NO_FILTER, { limit: 50 })).toEqual({ entries: [], next: 980 })
    expect(before).toHaveLength(20)
  })
})

describe('An export', () => {
  const pageOf = (at: number, length: number): EntriesPage => {
    const from = Math.min(at, 20_001)
    const entries = Array.from({ length: Math.min(length, from - 1) }, (_, place) => entry(from - 1 - place))
    return { entries, next: from - length > 1 ? from - length : null }
  }

  it('has all that fits, over pages that have nothing', async () => {
    const { read } = ledger(at => (at === Infinity ? { entries: [], next: 1_500 } : pageOf(at, 1_000)))
    const { entries, isCut } = await allEntries(read, NO_FILTER)
    expect([entries.length, entries[0]!.seq, entries.at(-1)!.seq, isCut]).toEqual([1_499, 1_499, 1, false])
  })

  it('says so if it stops at its bound', async () => {
    const { read, before } = ledger(at => pageOf(at, 1_000))
    const { entries, isCut } = await allEntries(read, NO_FILTER)
    expect([entries.length, entries.at(-1)!.seq, isCut]).toEqual([EXPORTED_MAX, 10_001, true])
    expect(before).toHaveLength(10)
  })

  it('of exactly as many as the bound is whole', async () => {
    const { read } = ledger(at => pageOf(Math.min(at, 10_001), 1_000))
    expect(await allEntries(read, NO_FILTER)).toMatchObject({ isCut: false })
  })
})
