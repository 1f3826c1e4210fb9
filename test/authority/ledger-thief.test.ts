/**
 * A thief who has the database of a real authority and the key of its log. He changes an owner's ledger,
 * makes chains and tree anew and signs them, and she exports what he left: docs/proof.md, "What somebody
 * with the database can do, and what is found". Contract: "Events" (row 5).
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { signTree } from '../../src/authority/ledger/checkpoints.ts'
import { fetchProofs } from '../../src/client/consistency-proofs.ts'
import { ledgerFileLines } from '../../src/owner/ledger-file.ts'
import { appendLedgerAll } from '../../src/storage/authority/ledger/ledger.ts'
import { completeTree } from '../../src/storage/authority/ledger/ledger-tree.ts'
import { verifyLedgerFile } from '../../src/terminal/verify-ledger.ts'
import { asHandle } from '../../src/wire/identifiers.ts'
import { readLedgerHead } from '../../src/wire/ledger/ledger-head.ts'
import { publicJwk } from '../../src/wire/signatures/keys.ts'
import { ISSUER } from '../support/authority.ts'
import { capturedTerminal } from '../support/captured-terminal.ts'
import { configFolder } from '../support/config-files.ts'
import { withLogKeys } from '../support/log-keys.ts'
import { connected } from '../support/postgres.ts'
import { authorityStand } from '../support/stands.ts'
import { protectionCall, testAgent } from '../support/test-agent.ts'
import { until } from '../support/until.ts'

const log = withLogKeys()
const authority = authorityStand({ environment: log.environment })
const { folder } = configFolder()

/** What one server and one agent hold: paths of files. */
let heads: string
let receipts: string
let keys: string
/** How many entries the head covers that both of them hold, and how many there are. */
let covered: number
let size: number

const fileOf = (name: string, text: string): string => {
  writeFileSync(join(folder, name), text)
  return join(folder, name)
}
const inDatabase = (text: string) => connected(authority.database.url, client => client.query(text))
const count = (): Promise<number> =>
  connected(authority.database.url, async client => {
    const all = await client.query<{ n: string }>(`SELECT count(*) AS n FROM ledger WHERE owner = 'alice'`)
    return Number(all.rows[0]!.n)
  })

async function append(entries: number): Promise<void> {
  await appendLedgerAll(
    authority.database.db,
    authority.alice.owner,
    Array.from({ length: entries }, (_, n) => ({
      kind: 'approved' as const,
      ...(n % 3 === 0 ? {} : { handle: asHandle(`jkt:${n % 3}`) }),
      data: { n },
    })),
  )
}

/** Until the head covers every entry. */
const signed = (): Promise<void> =>
  until(async () => {
    const { text } = await authority.call(authority.alice, { target: '/owner/ledger/checkpoint' })
    return Number(text.split('\n')[1]) === (await count())
  })

const TABLES = ['ledger', 'ledger_tiles', 'heads', 'ledger_checkpoints']

beforeAll(async () => {
  await append(250)
  await signed()
  // Heads that others get are those of before the present hour.
  await inDatabase(`UPDATE ledger_checkpoints SET signed_at = signed_at - interval '1 hour'`)
  const agent = testAgent(authority)
  const { rpt, receipt: first } = await agent.granted()
  const introspected = async () => (await protectionCall(authority, '/introspect', { token: rpt })).body
  await until(async () => 'ledger_head' in (await introspected()))
  const { ledger_head } = await introspected()
  covered = readLedgerHead(ledger_head).size
  const { receipt: second } = await agent.granted()
  await append(30)
  await signed()
  size = await count()
  heads = fileOf('heads.jsonl', `${JSON.stringify({ ledger_head })}\n`)
  receipts = fileOf('receipts.txt', `${first}\n${second}\n`)
  const { body } = await authority.request('GET', '/jwks')
  const log_keys = log.keys.map(key => publicJwk(key))
  keys = fileOf('keys.json', JSON.stringify({ issuer: ISSUER, log_keys, keys: body.keys }))
  for (const table of TABLES)
    await inDatabase(`CREATE TABLE honest_${table} AS SELECT * FROM ${table} WHERE owner = 'alice'`)
})

/** What the thief does, from what was there before any theft; then he makes all of it fit, and signs it. */
async function steal(text: string): Promise<void> {
  const back = TABLES.map(
    table =>
      `DELETE FROM ${table} WHERE owner = 'alice'; INSERT INTO ${table} SELECT * FROM honest_${table};`,
  )
  await inDatabase(`${back.join(' ')} ${text};
    UPDATE ledger SET leaf = NULL, prev = NULL WHERE owner = 'alice';
    DELETE FROM ledger_tiles WHERE owner = 'alice';
    DELETE FROM ledger_checkpoints WHERE owner = 'alice';
    UPDATE heads SET ledger = (SELECT max(seq) FROM ledger WHERE owner = 'alice'), tree_size = 0, tree_root = NULL,
      frontier = '' WHERE owner = 'alice'`)
  const { db } = authority.database
  const { owner } = authority.alice
  while (await completeTree(db, owner));
  await until(async () => (await signTree(db, owner, { issuer: ISSUER, key: log.keys[0]! })) === 'unchanged')
}

/** The codes of what is found in what she exports then, each once, beside what others hold. */
async function found(beside: { heads?: string[]; receipts?: string[] } = {}): Promise<string[]> {
  const lines: string[] = []
  for await (const line of ledgerFileLines(authority.alice.client.access)) lines.push(line)
  const terminal = capturedTerminal()
  const now = Math.floor(Date.now() / 1_000) + 5
  const options = { keys, ...beside }
  const code = await verifyLedgerFile(fileOf('ledger.jsonl', lines.join('')), options, {
    terminal,
    now,
    fetchProofs,
  }).then(
    () => 0,
    (error: { code?: number }) => error.code ?? -1,
  )
  const codes = [...new Set([...terminal.printed.matchAll(/^(\w+): /gm)].map(([, one]) => one!))]
  expect(code).toBe(codes.length > 0 ? 1 : 0)
  return codes
}

/** Moves the positions of entries; over negative ones, because each position is there once. */
const moved = (where: string, to: string): string =>
  `UPDATE ledger SET seq = -(${to}) WHERE owner = 'alice' AND ${where};
   UPDATE ledger SET seq = -seq WHERE owner = 'alice' AND seq < 0`

describe('A thief with the database and the key of the log', () => {
  it('who changes nothing leaves what fits the head of the server, and the receipts of the agent', async () => {
    await steal('SELECT 1')
    expect(covered).toBeGreaterThanOrEqual(250)
    expect(size).toBeGreaterThan(covered + 30)
    expect(await found({ heads: [heads], receipts: [receipts] })).toEqual([])
  })

  it.each<[string, string, string]>([
    ['edits an entry', 'fork', `UPDATE ledger SET data = '{"n":-1}' WHERE owner = 'alice' AND seq = 100`],
    [
      'deletes an entry',
      'fork',
      `DELETE FROM ledger WHERE owner = 'alice' AND seq = 100; ${moved('seq > 100', 'seq - 1')}`,
    ],
    [
      'puts an entry in',
      'fork',
      `${moved('seq >= 100', 'seq + 1')};
       INSERT INTO ledger (owner, seq, kind, data) VALUES ('alice', 100, 'approved', '{"n":-1}')`,
    ],
    ['numbers two entries anew', 'fork', moved('seq IN (100, 101)', '201 - seq')],
    ['rolls the ledger back', 'rollback', `DELETE FROM ledger WHERE owner = 'alice' AND seq > 200`],
    [
      'forks the ledger',
      'fork',
      `DELETE FROM ledger WHERE owner = 'alice' AND seq > 200;
       INSERT INTO ledger (owner, seq, kind, data) SELECT 'alice', n, 'approved', '{}' FROM generate_series(201, 400) n`,
    ],
  ])('who %s below the head that others hold is found by each of them (%s)', async (_what, code, text) => {
    await steal(text)
    expect(await found()).toEqual([])
    expect(await found({ heads: [heads] })).toEqual([code])
    expect(await found({ receipts: [receipts] })).toContain(code)
  })

  it('is found by nobody above that head, which is an hour as a rule', async () => {
    await steal(`UPDATE ledger SET data = '{"n":-1}' WHERE owner = 'alice' AND seq = ${size - 3};
      DELETE FROM ledger WHERE owner = 'alice' AND seq > ${size - 2}`)
    expect(await found({ heads: [heads], receipts: [receipts] })).toEqual([])
  })
})
