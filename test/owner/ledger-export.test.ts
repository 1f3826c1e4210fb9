/**
 * `usher owner ledger export`: her ledger, or the record of one agent, as a file that others verify
 * (docs/choices.md, "The file of a ledger"; contract, "Owner API").
 */
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { verifyLedger, verifyRecord } from '../../src/verify/index.ts'
import { readLedgerExport, readLedgerFile, type LedgerRecord } from '../../src/wire/ledger/ledger-file.ts'
import { encodeTileNumber } from '../../src/wire/ledger/tile-path.ts'
import { ownerCommand } from '../support/owner-command.ts'
import { LOG_KEY, ledgerFileOf, ORIGIN, OWNER, recordOf, sampleEntries } from '../support/sample-ledger.ts'
import type { Received, Reply } from '../support/scripted-http.ts'

const { answers, api, owner, directory } = ownerCommand()

const all = sampleEntries(310)
const ledger = ledgerFileOf(all.slice(0, 300))

/** As the owner API answers it, from this entry on. */
function serve(first = 1): void {
  answers['/owner/ledger/checkpoint'] = { body: ledger.checkpoint }
  for (const { level, index, hashes } of ledger.tiles) {
    const width = hashes.length / 32
    const number = `${encodeTileNumber(index)}${width < 256 ? `.p/${width}` : ''}`
    answers[`/owner/ledger/tile/${level}/${number}`] = { body: Buffer.from(hashes) }
  }
  api.script('/owner/ledger', ({ query }: Received): Reply => {
    const asked = new URLSearchParams(query)
    expect(asked.get('bodies')).toBe('true')
    const after = Math.max(Number(asked.get('after') ?? 0), first - 1)
    const handle = asked.get('handle')
    const listed = all.filter(entry => entry.seq > after && (handle === null || entry.handle === handle))
    const page = listed.slice(0, 100)
    const entries = page.map(({ family, handle, count, prev, salt, ...entry }) => ({
      ...entry,
      owner: OWNER,
      ...JSON.parse(entry.data_text),
      ...(family === null ? {} : { family }),
      ...(handle === null ? {} : { handle, prev }),
      ...(count === 1 ? {} : { count }),
      salt: Buffer.from(salt).toString('base64url'),
    }))
    return { body: { entries, next: page.length === 100 ? page.at(-1)!.seq : null } }
  })
}
const path = () => join(directory(), 'ledger.jsonl')
const written = () => readLedgerFile(readFileSync(path(), 'utf8').split('\n'))

describe('The export of a ledger', () => {
  beforeEach(() => serve())

  it('has what the checkpoint covers, and holds by the key of the log', async () => {
    const { code, printed } = await owner('ledger', 'export', path())
    expect([code, printed]).toEqual([
      0,
      expect.stringMatching(`^300 entries of ${ORIGIN} are in .*usher verify ledger`),
    ])
    expect(await written()).toEqual(ledger)
    expect(verifyLedger(await written(), { keys: [LOG_KEY], origin: ORIGIN }).faults).toEqual([])
    expect(statSync(path()).mode & 0o077).toBe(0)
  })

  it('has the entries that the retention has left, and says how many', async () => {
    serve(51)
    const { printed } = await owner('ledger', 'export', path(), '--json')
    expect(JSON.parse(printed)).toEqual({ file: path(), origin: ORIGIN, size: 300, entries: 250 })
    expect(verifyLedger(await written(), { keys: [LOG_KEY], first: 51 }).faults).toEqual([])
  })

  it('is written to the output with -', async () => {
    const { printed } = await owner('ledger', 'export', '-')
    expect(await readLedgerFile(printed.split('\n'))).toEqual(ledger)
  })

  it.each<[string, () => void, number, RegExp]>([
    [
      'there is no checkpoint yet',
      () => {
        const body = {
          error: 'not_found',
          error_description: 'There is no checkpoint before the first entry.',
        }
        answers['/owner/ledger/checkpoint'] = { status: 404, body }
      },
      1,
      /no checkpoint before the first entry/,
    ],
    [
      'the authority has no keys of the log',
      () => {
        const body = { error: 'not_found', error_description: 'Nothing is served at this path.' }
        answers['/owner/ledger/checkpoint'] = { status: 404, body }
        const refused = { error: 'invalid_request', error_description: 'Leave out bodies.' }
        api.script('/owner/ledger', ({ query }): Reply =>
          new URLSearchParams(query).has('bodies')
            ? { status: 400, body: refused }
            : { body: { entries: [], next: null } },
        )
      },
      1,
      /signs no heads of ledgers.*UMA_AS_LOG_KEYS_FILE/,
    ],
    [
      'older entries wait',
      () => {
        const body = { error: 'temporarily_unavailable', error_description: 'Ask again shortly.' }
        answers['/owner/ledger/checkpoint'] = { status: 503, body }
      },
      3,
      /Ask again shortly/,
    ],
    [
      'the checkpoint is none',
      () => (answers['/owner/ledger/checkpoint'] = { body: 'a page' }),
      1,
      /a checkpoint that is no signed note/,
    ],
    [
      'entries have no bodies',
      () => {
        const entries = [{ seq: 1, ts: '2026-11-28T18:00:00.000Z', kind: 'touched', owner: OWNER }]
        api.script('/owner/ledger', { body: { entries, next: null } })
      },
      1,
      /entry 1 without what its leaf is made from/,
    ],
    [
      'no entry is left',
      () => api.script('/owner/ledger', { body: { entries: [], next: null } }),
      1,
      /No entry is left/,
    ],
  ])('is not written, nor is an older one replaced, where %s', async (_what, script, exit, sentence) => {
    writeFileSync(path(), 'an older one')
    script()
    const { code, said } = await owner('ledger', 'export', path())
    expect([code, said]).toEqual([exit, expect.stringMatching(sentence)])
    expect(readFileSync(path(), 'utf8')).toBe('an older one')
  })

  it('is not written where the entries do not end', async () => {
    api.script('/owner/ledger', ({ query }): Reply => {
      const next = Number(new URLSearchParams(query).get('after') ?? 0) + 1
      return { body: { entries: [], next } }
    })
    const { code, said } = await owner('ledger', 'export', path())
    expect([code, said]).toEqual([1, expect.stringMatching(/^list_endless: /m)])
    expect(existsSync(path())).toBe(false)
    expect(api.to('/owner/ledger')).toHaveLength(ledger.entries.length + 1)
  })

  it.each([
    [['ledger', '--kind', 'promised', 'export']],
    [['ledger', '--handle', 'jkt:1', '--last', '5', 'export']],
  ])('takes no filter but an agent, because a part proves nothing of the rest: %j', async args => {
    const { code, said } = await owner(...args, path())
    expect([code, said]).toEqual([2, expect.stringMatching(/Leave out --(kind|last)/)])
    expect(existsSync(path())).toBe(false)
  })
})

describe('The export of the record of one agent', () => {
  const record = recordOf(all.slice(0, 300), 'jkt:1')
  const writtenRecord = async (): Promise<LedgerRecord> => {
    const read = await readLedgerExport(readFileSync(path(), 'utf8').split('\n'))
    return 'handle' in read ? read : expect.fail('it is the file of a whole ledger')
  }

  beforeEach(() => {
    serve()
    answers['/owner/connections'] = { body: [] }
  })

  it.each<[string, () => string[]]>([
    ['behind the file', () => ['ledger', 'export', path(), '--handle', 'jkt:1']],
    ['before the word', () => ['ledger', '--handle', 'jkt:1', 'export', path()]],
  ])('has its entries alone, each with its proof; --handle may stand %s', async (_where, args) => {
    const { code, printed } = await owner(...args())
    expect([code, printed]).toEqual([
      0,
      expect.stringMatching(`^75 of 300 entries of ${ORIGIN}, those of jkt:1, are in .*usher verify ledger`),
    ])
    expect(await writtenRecord()).toEqual(record)
    expect(verifyRecord(await writtenRecord(), { keys: [LOG_KEY], origin: ORIGIN }).faults).toEqual([])
    expect(statSync(path()).mode & 0o077).toBe(0)
  })

  it('is of the agent whom she calls so, and says of whom', async () => {
    answers['/owner/connections'] = { body: [{ handle: 'jkt:1', label: 'Tax bot' }] }
    const { printed } = await owner('ledger', 'export', path(), '--handle', 'Tax bot', '--json')
    expect(JSON.parse(printed)).toEqual({
      file: path(),
      origin: ORIGIN,
      size: 300,
      entries: 75,
      handle: 'jkt:1',
    })
    expect(await writtenRecord()).toEqual(record)
  })

  it('reads each tile that a proof needs once, however many entries there are', async () => {
    await owner('ledger', 'export', path(), '--handle', 'jkt:1')
    const tiles = api.received.map(one => one.path).filter(one => one.includes('/tile/'))
    expect(tiles.toSorted()).toEqual([
      '/owner/ledger/tile/0/000',
      '/owner/ledger/tile/0/001.p/44',
      '/owner/ledger/tile/1/000.p/1',
    ])
  })

  it('has the entries that the retention has left, which the next entry before them shows', async () => {
    serve(51)
    await owner('ledger', 'export', path(), '--handle', 'jkt:1')
    const found = async (first?: number) =>
      verifyRecord(await writtenRecord(), { keys: [LOG_KEY], first }).faults.map(({ code }) => code)
    expect(await found(51)).toEqual([])
    expect(await found()).toEqual(['gap'])
  })

  it.each<[string, string, () => void, RegExp]>([
    ['the agent has no entry', 'jkt:9', () => undefined, /No entry of jkt:9 is left/],
    [
      'a tile has too few hashes',
      'jkt:1',
      () => (answers['/owner/ledger/tile/0/000'] = { body: Buffer.alloc(32) }),
      /a tile that has too few hashes/,
    ],
  ])('is not written where %s', async (_what, handle, script, sentence) => {
    script()
    const { code, said } = await owner('ledger', 'export', path(), '--handle', handle)
    expect([code, said]).toEqual([1, expect.stringMatching(sentence)])
    expect(existsSync(path())).toBe(false)
  })
})
