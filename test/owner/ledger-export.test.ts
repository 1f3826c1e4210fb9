/**
 * `usher owner ledger export`: her ledger as a file that others verify (docs/choices.md, "The file of a
 * ledger"; contract, "Owner API").
 */
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { verifyLedger } from '../../src/verify/index.ts'
import { readLedgerFile } from '../../src/wire/ledger/ledger-file.ts'
import { encodeTileNumber } from '../../src/wire/ledger/tile-path.ts'
import { ownerCommand } from '../support/owner-command.ts'
import { LOG_KEY, ledgerFileOf, ORIGIN, OWNER, sampleEntries } from '../support/sample-ledger.ts'
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
    const page = all.slice(after, after + 100)
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

  it('takes no filter, because a part of a ledger proves nothing of the rest', async () => {
    const { code, said } = await owner('ledger', '--kind', 'promised', 'export', path())
    expect([code, said]).toEqual([2, expect.stringContaining('Leave out --kind')])
    expect(existsSync(path())).toBe(false)
  })
})
