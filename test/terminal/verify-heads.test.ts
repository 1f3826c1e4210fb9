/** `usher verify heads`: docs/choices.md, "Heads that contradict each other". */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { verifyHeads } from '../../src/terminal/verify-heads.ts'
import { originBase, signCheckpoint } from '../../src/wire/ledger/checkpoint.ts'
import { headOfCheckpoint } from '../../src/wire/ledger/ledger-head.ts'
import { signJws } from '../../src/wire/signatures/jws.ts'
import { generatePrivateJwk, importPrivateJwk, publicJwk } from '../../src/wire/signatures/keys.ts'
import { capturedTerminal } from '../support/captured-terminal.ts'
import { configFolder } from '../support/config-files.ts'

const { folder } = configFolder()
const key = importPrivateJwk(generatePrivateJwk())
const other = importPrivateJwk(generatePrivateJwk())
const ORIGIN = `${originBase('https://as.example')}AbCdEfGhIjKl`

const headOf = (size: number, { root = size, origin = ORIGIN, by = key } = {}) =>
  headOfCheckpoint(signCheckpoint({ origin, size, root: Buffer.alloc(32, root) }, by), by.kid)
const line = (ledger_head: object) =>
  JSON.stringify({ owner: 'alice', authority: 'https://as.example', received_at: 1, ledger_head })
const receipt = (claims: object) => signJws({ typ: 'myterms-receipt+jws', payload: { ...claims } }, other)

let files = 0
function fileOf(...lines: string[]): string {
  const path = join(folder, `heads-${++files}.jsonl`)
  writeFileSync(path, lines.map(one => `${one}\n`).join(''))
  return path
}
async function verify(...paths: string[]): Promise<{ code: number; printed: string }> {
  const terminal = capturedTerminal()
  const keys = fileOf(JSON.stringify({ keys: [publicJwk(key)] }))
  const code = await verifyHeads(paths, { keys, terminal }).then(
    () => 0,
    (error: { exitCode?: number; code?: number; message: string }) => {
      terminal.out(error.message)
      return error.exitCode ?? error.code ?? -1
    },
  )
  return { code, printed: terminal.printed }
}

describe('Heads of ledgers that several people hold', () => {
  it('are in order where they are the same, from sidecars and from receipts', async () => {
    const head = headOf(5)
    const { code, printed } = await verify(
      fileOf(line(head), line(headOf(7, { origin: `${ORIGIN}2` }))),
      fileOf(receipt({ ledger_head: head }), receipt({})),
    )
    expect([code, printed]).toEqual([0, expect.stringContaining('none contradicts another')])
  })

  it('are a fork where one origin has two roots of one size: the places of both are named', async () => {
    const [mine, hers] = [fileOf(line(headOf(5))), fileOf(receipt({ ledger_head: headOf(5, { root: 9 }) }))]
    const { code, printed } = await verify(mine, hers)
    expect(code).toBe(1)
    expect(printed).toMatch(/^fork: as\.example\/ledger\/AbCdEfGhIjKl has 2 ledgers of 5 entries/)
    expect(printed).toContain(`${mine}:1`)
    expect(printed).toContain(`${hers}:1`)
  })

  it('are unproved where their sizes differ', async () => {
    const { code, printed } = await verify(fileOf(line(headOf(12)), line(headOf(5))))
    expect([code, printed]).toEqual([1, expect.stringMatching(/^unproved: .* with 5, 12 entries/)])
  })

  it('are a fork where a ledger has two origins, unless a restore is on record', async () => {
    const { code, printed } = await verify(
      fileOf(line(headOf(5)), line(headOf(5, { origin: `${ORIGIN}/1764374400` }))),
    )
    expect([code, printed]).toEqual([
      1,
      expect.stringMatching(
        /^two origins: as\.example\/ledger\/AbCdEfGhIjKl has 2 origins: .*unless an entry `restored`/,
      ),
    ])
  })

  it.each<[string, object]>([
    ['another key', headOf(5, { by: other })],
    ['nobody', { ...headOf(5), sig: headOf(6).sig }],
  ])('say nothing where %s signed one: it makes no fork', async (_who, head) => {
    const path = fileOf(line(headOf(5, { root: 9 })), line(head))
    const { code, printed } = await verify(path)
    expect(code).toBe(1)
    expect(printed).toMatch(new RegExp(`^unsigned: .*heads-\\d+\\.jsonl:2: this head says nothing`))
    expect(printed).not.toContain('fork')
  })

  it.each<[string, string[], RegExp]>([
    ['no head', [receipt({})], /no head of a ledger/],
    ['another text', ['a head'], /heads-\d+\.jsonl:1 is neither a receipt nor a line/],
    ['a head that is none', [line({ ...headOf(5), size: -1 })], /heads-\d+\.jsonl:1 is neither/],
  ])('are refused as wrong usage where a file has %s', async (_what, lines, sentence) => {
    const { code, printed } = await verify(fileOf(...lines))
    expect(printed).toMatch(sentence)
    expect(code).not.toBe(1)
  })
})
