/** Heads of ledgers that an enforcement point keeps: docs/choices.md, "Heads that others keep". */
import { execFile } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { createMemoryHeads, openHeadFiles, readHeads } from '../../src/enforcement/ledger/head-stores.ts'
import { createLedgerHeads, type HeadStore } from '../../src/enforcement/ledger/heads.ts'
import { headsOfSidecar } from '../../src/enforcement/ledger/main.ts'
import { headsText } from '../../src/terminal/heads-table.ts'
import { asOwner } from '../../src/wire/identifiers.ts'
import { originBase, signCheckpoint } from '../../src/wire/ledger/checkpoint.ts'
import { headOfCheckpoint, type LedgerHead } from '../../src/wire/ledger/ledger-head.ts'
import { generatePrivateJwk, importPrivateJwk } from '../../src/wire/signatures/keys.ts'

import { configFolder } from '../support/config-files.ts'
import { embeddedSettings, sendCall, standProtected } from '../support/embedded.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { usherProgram } from '../support/usher-program.ts'
import { coreStand } from './core.ts'

const { authority, agent, standing } = coreStand()

const DAY_MS = 86_400_000
const START = Date.UTC(2026, 10, 29, 10)
const AUTHORITY = 'https://as.example'
const ALICE = { owner: asOwner('alice'), authority: AUTHORITY }
const LISTEN = { check: '127.0.0.1:0', http: '127.0.0.1:0' }
const key = importPrivateJwk(generatePrivateJwk())

const headOf = (size: number, fill = size): LedgerHead =>
  headOfCheckpoint(
    signCheckpoint({ origin: `${originBase(AUTHORITY)}tag`, size, root: Buffer.alloc(32, fill) }, key),
    key.kid,
  )

const directory = temporaryFolder('heads')

const stateDirectory = () => mkdtempSync(join(directory, 'state-'))
function open(store: HeadStore | undefined, { now = START, path = stateDirectory() } = {}) {
  const at = { now }
  const sentences: string[] = []
  const clock = () => at.now
  const onFault = (error: unknown) => void sentences.push(String(error))
  const used = store ?? openHeadFiles(path, { clock, onFault })
  const heads = createLedgerHeads({ store: used, clock, onFault })
  return { at, sentences, heads, path, take: heads.takerOf(ALICE) }
}
const sizes = (kept: readonly { ledger_head: LedgerHead }[]) => kept.map(({ ledger_head: { size } }) => size)

describe('An enforcement point keeps', () => {
  it('each distinct head of an owner once, however often it comes, also what conflicts', async () => {
    const { heads, take, path } = open(undefined)
    const [five, other, six] = [headOf(5), headOf(5, 9), headOf(6)]
    for (const head of [five, five, other, five, six, structuredClone(other)]) take(head)
    await heads.close()
    expect(readHeads(path, START).map(({ ledger_head }) => ledger_head)).toEqual([five, other, six])
    expect(readHeads(path, START)[0]).toEqual({ ...ALICE, received_at: START / 1_000, ledger_head: five })
  })

  it.each(['origin', 'size', 'root', 'kid', 'sig'] as const)(
    'two heads that differ in %s alone',
    async name => {
      const { heads, take, path } = open(undefined)
      const five = headOf(5)
      take(five)
      take({ ...five, [name]: { ...headOf(6), origin: `${five.origin}/1`, kid: 'other' }[name] })
      await heads.close()
      expect(readHeads(path, START)).toHaveLength(2)
    },
  )

  it('them for seven days after they were received last, and then no longer', async () => {
    const { at, heads, take, path } = open(undefined)
    const days = async (from: number, to: number) => {
      for (let day = from; day <= to; day++) {
        at.now = START + day * DAY_MS
        take(headOf(2))
        await heads.close()
      }
      return { kept: sizes(heads.list()), files: readdirSync(join(path, 'ledger_heads')) }
    }
    take(headOf(1))
    expect((await days(0, 7)).kept).toEqual([1, 2])
    const { kept, files } = await days(8, 9)
    expect(kept).toEqual([2])
    expect(files).not.toContain('2026-11-29.jsonl')
    expect(files).toContain('2026-12-01.jsonl')
  })

  it('them through a restart, together with what other replicas received', async () => {
    const first = open(undefined)
    first.take(headOf(1))
    await first.heads.close()
    const second = open(undefined, { path: first.path, now: START + 1_000 })
    second.take(headOf(1))
    second.take(headOf(2))
    await second.heads.close()
    expect(sizes(second.heads.list())).toEqual([1, 2])
    expect(second.heads.list()[0]!.received_at).toBe(START / 1_000)
  })

  it('them in memory where there is no directory, for seven days', () => {
    const at = { now: START }
    const heads = createLedgerHeads({
      store: createMemoryHeads({ clock: () => at.now }),
      clock: () => at.now,
      onFault: sentence => expect.unreachable(sentence),
    })
    const take = heads.takerOf(ALICE)
    for (const head of [headOf(1), headOf(1), headOf(2)]) take(head)
    expect(sizes(heads.list())).toEqual([1, 2])
    at.now += 6 * DAY_MS
    take(headOf(2))
    at.now += 2 * DAY_MS
    expect(sizes(heads.list())).toEqual([2])
  })

  it('what it can read of a file that was cut off', async () => {
    const { heads, take, path } = open(undefined)
    take(headOf(1))
    await heads.close()
    writeFileSync(join(path, 'ledger_heads', '2026-11-29.jsonl'), '{"owner":"ali', { flag: 'a' })
    expect(sizes(readHeads(path, START))).toEqual([1])
  })
})

describe('A head holds no call', () => {
  it.each<[string, unknown]>([
    ['is text', 'head'],
    ['has no signature', { ...headOf(1), sig: undefined }],
    ['has a size below 0', { ...headOf(1), size: -1 }],
  ])('and is not kept, if it %s: a sentence names authority and owner', async (_what, value) => {
    const { heads, take, path, sentences } = open(undefined)
    take(value)
    await heads.close()
    expect(readHeads(path, START)).toEqual([])
    expect(sentences.join()).toMatch(
      /^The authority https:\/\/as\.example sent a ledger_head of alice that cannot be read/,
    )
  })

  it('and is nothing where an answer has none', async () => {
    const { heads, take, path, sentences } = open(undefined)
    take(undefined)
    take(null)
    await heads.close()
    expect([readHeads(path, START), sentences]).toEqual([[], []])
  })

  it('and waits for the next one, if it cannot be written', async () => {
    const path = stateDirectory()
    writeFileSync(join(path, 'ledger_heads'), 'no folder')
    const { heads, take, sentences } = open(undefined, { path })
    take(headOf(1))
    await heads.close()
    expect(sentences.length).toBeGreaterThan(0)
    rmSync(join(path, 'ledger_heads'))
    take(headOf(2))
    await heads.close()
    expect(sizes(readHeads(path, START))).toEqual([1, 2])
  })

  it('and no more than 500 of an owner are kept in a day, so that no authority fills the disk', async () => {
    const { at, heads, take, path, sentences } = open(undefined)
    for (let size = 1; size <= 600; size++) take({ ...headOf(1), size })
    await heads.close()
    expect(readHeads(path, START)).toHaveLength(500)
    expect(sentences.join()).toMatch(/no more are kept/)
    expect(sentences).toHaveLength(1)
    at.now += DAY_MS
    take({ ...headOf(1), size: 601 })
    await heads.close()
    expect(readHeads(path, at.now)).toHaveLength(501)
  })
})

describe('usher sidecar heads', () => {
  const { folder, keysFile } = configFolder()
  const fileOf = (settings: object): string => {
    const file = join(folder, 'sidecar.yaml')
    writeFileSync(
      file,
      JSON.stringify({ ...embeddedSettings(AUTHORITY, keysFile, settings), listen: LISTEN }),
    )
    return file
  }
  const run = (settings: object, { owner, json }: { owner?: string; json?: boolean } = {}) =>
    headsText(headsOfSidecar({ config: fileOf(settings), owner }), { json })

  it('prints what authorities sent with their answers about grants, for people and for programs', async () => {
    const reports = { state_dir: stateDirectory() }
    expect(run({ reports })).toMatch(/^No authority sent a head/)
    const stand = await standProtected(authority.issuer, (_request, response) => response.end('done'), {
      reports,
    })
    const call = async (head: unknown) => {
      const token = standing({}, { ledger_head: head })
      expect((await sendCall(stand.port, { token, signer: agent })).body).toBe('done')
    }
    for (const head of [headOf(5), headOf(5), headOf(5, 9), undefined, 'none']) await call(head)
    await stand.close()
    expect(stand.point.ledgerHeads()).toHaveLength(2)
    const lines = run({ reports }, { json: true }).trim().split('\n')
    expect(lines.map(line => JSON.parse(line) as unknown)).toEqual(
      [headOf(5), headOf(5, 9)].map(ledger_head => ({
        owner: 'alice',
        authority: authority.issuer,
        received_at: expect.any(Number) as number,
        ledger_head,
      })),
    )
    expect(run({ reports })).toMatch(
      /^OWNER +RECEIVED +SIZE +ROOT +ORIGIN\nalice .* 5 .*as\.example\/ledger\/tag\n/,
    )
    expect(run({ reports }, { owner: 'bob', json: true })).toBe('')
  })

  it('is a command that says what it does', async () => {
    const config = fileOf({ reports: { state_dir: stateDirectory() } })
    const usher = (...args: string[]) =>
      promisify(execFile)(process.execPath, [usherProgram(), 'sidecar', 'heads', ...args], {
        env: { PATH: process.env['PATH'] ?? '' },
      })
    expect((await usher('--config', config)).stdout).toBe(
      'No authority sent a head of a ledger in the last seven days.\n',
    )
    expect((await usher('--help')).stdout).toContain("the heads of owners' ledgers that authorities sent")
    await expect(usher('--config', fileOf({}))).rejects.toMatchObject({
      stderr: expect.stringContaining('reports.state_dir is not set') as string,
    })
  })

  it('says what to set where the sidecar keeps them in its own memory', () => {
    expect(() => run({})).toThrow(/reports\.state_dir is not set\. Set it/)
  })
})
