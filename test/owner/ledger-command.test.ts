/**
 * `usher owner ledger`: the whole of it, its newest part, and what happens from now on (contract, "Events",
 * "Owner API").
 */
import { beforeEach, describe, expect, it, vi } from 'vitest'
import { localTime } from '../../src/terminal/printable.ts'
import { ownerCommand } from '../support/owner-command.ts'
import type { Received, Reply } from '../support/scripted-http.ts'

const { answers, api, owner, ownerAt } = ownerCommand()

const HOUR = 3_600_000

/** A ledger of `count` entries, the last of them now and each an hour after the one before it. */
function ledgerOf(count: number): { append: () => void } {
  const entries = Array.from({ length: count }, (_, at) => ({
    seq: at + 1,
    ts: new Date(Date.now() - (count - 1 - at) * HOUR).toISOString(),
    kind: 'touched',
    handle: 'jkt:abcdefgh',
  }))
  api.script('/owner/ledger', ({ query }: Received): Reply => {
    const asked = new URLSearchParams(query)
    const [after, before] = [Number(asked.get('after') ?? 0), Number(asked.get('before') ?? Infinity)]
    const limit = Math.min(Number(asked.get('limit') ?? 3), 3)
    const within = entries.filter(({ seq }) => seq > after && seq < before)
    const ordered = asked.get('first') === 'newest' ? within.toReversed() : within
    const page = ordered.slice(0, limit)
    return { body: { entries: page, next: ordered.length > limit ? page.at(-1)!.seq : null } }
  })
  return {
    append: () => {
      const seq = entries.length + 1
      entries.push({ seq, ts: new Date().toISOString(), kind: 'revoked', handle: 'jkt:abcdefgh' })
    },
  }
}

async function seqs(...args: string[]): Promise<number[]> {
  const { printed } = await owner('ledger', ...args, '--json')
  return (JSON.parse(printed) as { seq: number }[]).map(({ seq }) => seq)
}

describe('the ledger at a terminal', () => {
  const ts = '2026-11-28T17:34:05.400Z'
  const call = Date.parse(ts) - 200
  beforeEach(() => {
    const handle = 'jkt:VWo19Q8HVWo19Q8HVWo19Q8HVWo19Q8HVWo19Q8HVWo'
    const entries = [
      { seq: 1, ts, kind: 'touched', handle, tool: 'portfolio_read\u202e', at: 1, at_ms: call },
      { seq: 2, ts, kind: 'revoked', handle: `${handle.slice(0, -1)}x`, by: 'owner' },
      { seq: 3, ts, kind: 'newer', what: 'else\u001b' },
      { seq: 4, ts, kind: 'approved', handle, by: 'owner', resource_id: 'alice/book' },
    ]
    answers['/owner/resources'] = { body: [{ _id: 'alice/book', name: 'Address book' }] }
    answers['/owner/ledger'] = { body: { entries, next: null } }
    answers['/owner/connections'] = { body: [{ handle, label: 'Tax bot' }] }
  })

  it('is told in sentences, with her names, in her time zone, at the time of the call', async () => {
    const { printed } = await ownerAt(80, 'ledger')
    const at = (ms: number): string => localTime(ms / 1_000, { precise: true })
    const unbroken = printed.replaceAll(/\n {25}/g, ' ')
    expect(unbroken.split('\n').slice(1)).toEqual([
      `${at(call)}  "Tax bot" used portfolio_read\\u{202e}. Reported 0.2 s later.`,
      `${at(call + 200)}  You ended the access of agent jkt:VWo19Q8H.`,
      `${at(call + 200)}  newer what=else\\u{1b}`,
      `${at(call + 200)}  You approved what "Tax bot" asked at "Address book" (alice/book).`,
      '',
    ])
    expect(printed).toMatch(/^Times of \S+\. --wide shows every member of an entry\.\n/)
    expect(Math.max(...printed.split('\n').map(line => line.length))).toBeLessThanOrEqual(80)
  })

  it('is whole with --wide', async () => {
    const wide = await ownerAt(80, 'ledger', '--wide')
    expect(wide).toEqual(await owner('ledger'))
    expect(wide.printed).toContain(`at_ms=${call}`)
  })
})

describe('the newest part of the ledger', () => {
  it.each([
    [
      ['--last', '2'],
      [8, 9],
    ],
    [
      ['--last', '5'],
      [5, 6, 7, 8, 9],
    ],
    [
      ['--since', '90m'],
      [8, 9],
    ],
    [
      ['--since', '1d'],
      [1, 2, 3, 4, 5, 6, 7, 8, 9],
    ],
    [['--last', '1', '--since', '90m'], [9]],
    [
      ['--last', '5', '--after', '7'],
      [8, 9],
    ],
  ])('%j is told in the order in which it happened', async (args, expected) => {
    ledgerOf(9)
    expect(await seqs(...args)).toEqual(expected)
  })

  it('is read from its end: what is older is not asked for', async () => {
    ledgerOf(9)
    await seqs('--last', '2')
    expect(api.to('/owner/ledger')).toHaveLength(1)
  })

  it('takes a moment with its zone, and no other', async () => {
    ledgerOf(3)
    expect(await seqs('--since', new Date(Date.now() - 90 * 60_000).toISOString())).toEqual([2, 3])
    for (const wrong of ['yesterday', '2h30', '2026-11-21', '2026-11-21T09:00', '2026-99-21T09:00Z'])
      expect(await owner('ledger', '--since', wrong)).toMatchObject({ code: 2, printed: '' })
  })

  it('and the oldest part are not asked for at once', async () => {
    expect(await owner('ledger', '--last', '2', '--limit', '2')).toMatchObject({ code: 2, printed: '' })
  })
})

describe('--search', () => {
  it('asks the authority for entries with these words, of the time that is wanted', async () => {
    ledgerOf(1)
    const [since, until] = ['2026-11-21T09:00:00Z', '2026-11-22T09:00:00Z']
    await owner('ledger', '--search', 'VTI sell', '--since', since, '--until', until)
    const query = new URLSearchParams(api.to('/owner/ledger')[0]!.query)
    expect(['q', 'since', 'until'].map(name => query.get(name))).toEqual([
      'VTI sell',
      ...[since, until].map(at => String(Date.parse(at) / 1_000)),
    ])
  })

  it('goes on with what comes, but not to a time that ends', async () => {
    const both = ['--follow', '--until', '1h']
    expect(await owner('ledger', ...both)).toMatchObject({ code: 2, printed: '' })
  })

  it.each([
    [['--every', '5']],
    [['--follow', '--every', '0']],
    [['--follow', '--every', '3601']],
    [['--follow', '--every', 'hourly']],
  ])('is asked for at a pause that is one, and only where it goes on: %j', async words => {
    expect(await owner('ledger', ...words)).toMatchObject({
      code: 2,
      printed: '',
      said: expect.stringContaining('--every') as string,
    })
    expect(api.to('/owner/ledger')).toEqual([])
  })
})

describe('--handle', () => {
  it('takes the beginning of a handle that she knows, and any other as it is', async () => {
    ledgerOf(1)
    answers['/owner/connections'] = { body: [{ handle: 'jkt:abcdefgh' }] }
    await owner('ledger', '--handle', 'jkt:abcd')
    await owner('ledger', '--handle', 'jkt:refused')
    expect(api.to('/owner/ledger').map(({ query }) => new URLSearchParams(query).get('handle'))).toEqual([
      'jkt:abcdefgh',
      'jkt:refused',
    ])
  })
})

describe('--follow', () => {
  it('goes on with what happens, one line for each, until Ctrl-C', async () => {
    const { append } = ledgerOf(2)
    const ended = owner('ledger', '--last', '1', '--follow', '--every', '0.1')
    await vi.waitFor(() => expect(api.to('/owner/ledger').length).toBeGreaterThan(1), 10_000)
    append()
    await vi.waitFor(() => expect(api.to('/owner/ledger').at(-1)!.query).toContain('after=3'), 10_000)
    process.emit('SIGINT')
    const { code, printed } = await ended
    expect(code).toBe(0)
    expect(printed.trim().split('\n')).toEqual([
      expect.stringMatching(/^2 {2}\S+ \S+Z {2}touched {2}/),
      expect.stringMatching(/^3 {2}\S+ \S+Z {2}revoked {2}/),
    ])
  })

  it('goes on where the authority was out of order, and ends where it refuses', async () => {
    let asked = 0
    api.script('/owner/ledger', () => {
      asked++
      if (asked === 1) return { body: { entries: [], next: null } }
      const error = asked === 2 ? 'temporarily_unavailable' : 'access_denied'
      return { status: asked === 2 ? 503 : 403, body: { error, error_description: `Answer ${asked}.` } }
    })
    expect(await owner('ledger', '--after', '0', '--follow', '--every', '0.1')).toMatchObject({
      code: 1,
      said: expect.stringMatching(/^Answer 2[.] Trying again[.]\n.*Answer 3[.]\n$/) as string,
    })
  }, 20_000)
})
