/** Heads in receipts and introspection answers: docs/choices.md, "Heads that others keep". */
import { decodeJwt } from 'jose'
import { sql } from 'kysely'
import { describe, expect, it } from 'vitest'
import { signTree } from '../../src/authority/ledger/checkpoints.ts'
import { startHourHeads } from '../../src/authority/ledger/hour-heads.ts'
import { readCheckpoint, readHourCheckpoint } from '../../src/storage/authority/ledger/ledger-checkpoints.ts'
import { appendLedgerAll } from '../../src/storage/authority/ledger/ledger.ts'
import { number } from '../../src/storage/authority/ledger/positions.ts'
import type { Owner } from '../../src/wire/identifiers.ts'
import { originBase } from '../../src/wire/ledger/checkpoint.ts'
import { checkpointOfHead, headOfCheckpoint, readLedgerHead } from '../../src/wire/ledger/ledger-head.ts'
import { generatePrivateJwk, importPrivateJwk } from '../../src/wire/signatures/keys.ts'
import { withLogKeys } from '../support/log-keys.ts'
import { connected } from '../support/postgres.ts'
import * as seed from '../support/seed.ts'
import { authorityStand, coreStand } from '../support/stands.ts'
import { protectionCall, testAgent } from '../support/test-agent.ts'
import { until } from '../support/until.ts'

const database = coreStand()
const log = withLogKeys()
const authority = authorityStand({ environment: log.environment })
const without = authorityStand()

const ISSUER = 'https://as.example'
const BASE = originBase(ISSUER)
const HOUR_MS = 3_600_000
const key = importPrivateJwk(generatePrivateJwk())

async function append(owner: Owner): Promise<void> {
  await appendLedgerAll(database.db, owner, [{ kind: 'approved', data: {} }])
  await number(database.db, owner)
}
/** As if her last checkpoint had been signed so much earlier. */
const signedEarlier = (owner: Owner, interval: string, { db } = database) =>
  sql`UPDATE ledger_checkpoints SET signed_at = signed_at - ${interval}::interval,
    hour = hour - extract(epoch FROM ${interval}::interval)::bigint / 3600 WHERE owner = ${owner}`.execute(db)
/** Signs one more entry. @returns the note, and the hour in which it was signed. */
async function signOneMore(owner: Owner) {
  await append(owner)
  expect(await signTree(database.db, owner, { issuer: ISSUER, key })).toBe('signed')
  const { rows } = await sql<{ hour: number }>`
    SELECT floor(extract(epoch FROM signed_at) / 3600)::int AS hour FROM ledger_checkpoints
    WHERE owner = ${owner}`.execute(database.db)
  return { note: (await readCheckpoint(database.db, owner, BASE))!.note, hour: rows[0]!.hour }
}
const noteOf = async (owner: Owner, hour: number) =>
  (await readHourCheckpoint(database.db, owner, { base: BASE, hour }))?.note

describe('The head of an hour', () => {
  it('is the one that was signed last before it, however often is signed within it', async () => {
    const owner = await seed.seedOwner(database.db)
    const first = await signOneMore(owner)
    expect(await noteOf(owner, first.hour)).toBeUndefined()
    await signedEarlier(owner, '2 hours')
    expect(await noteOf(owner, first.hour)).toBe(first.note)
    const second = await signOneMore(owner)
    expect(await noteOf(owner, second.hour)).toBe(first.note)
    await signedEarlier(owner, '2 seconds')
    await signOneMore(owner)
    expect(await noteOf(owner, second.hour)).toBe(first.note)
    await signedEarlier(owner, '1 hour')
    const last = (await readCheckpoint(database.db, owner, BASE))!.note
    expect(await noteOf(owner, second.hour)).toBe(last)
    const { hour } = await signOneMore(owner)
    expect(await noteOf(owner, hour)).toBe(last)
  })

  it('is none for an hour that has not begun by the clock of the database, or that is over', async () => {
    const owner = await seed.seedOwner(database.db)
    const { hour } = await signOneMore(owner)
    await signedEarlier(owner, '1 hour')
    expect(await noteOf(owner, hour + 2)).toBeUndefined()
    await signOneMore(owner)
    expect(await noteOf(owner, hour - 1)).toBeUndefined()
  })

  it('is none in an hour in which a program from before it signed first', async () => {
    const owner = await seed.seedOwner(database.db)
    const first = await signOneMore(owner)
    await signedEarlier(owner, '3 hours')
    await signOneMore(owner)
    await signedEarlier(owner, '1 hour')
    // It writes what it knows.
    await sql`UPDATE ledger_checkpoints SET size = size + 1, note = 'newer', signed_at = clock_timestamp()
      WHERE owner = ${owner}`.execute(database.db)
    expect(await noteOf(owner, first.hour)).toBeUndefined()
  })
})

describe('What a replica holds in memory', () => {
  const startHeads = (now: () => number) => {
    const faults: unknown[] = []
    const onFault = (fault: unknown) => void faults.push(fault)
    return { heads: startHourHeads(database.db, { base: BASE, clock: now, onFault }), faults }
  }
  const rename = (from: string, to: string) =>
    connected(database.url, client => client.query(`ALTER TABLE ${from} RENAME TO ${to}`))

  it('is told at once, read in the background, and read again in the next hour', async () => {
    const owner = await seed.seedOwner(database.db)
    const { note, hour } = await signOneMore(owner)
    await signedEarlier(owner, '3 hours')
    let now = (hour - 1) * HOUR_MS + 1_000
    const { heads, faults } = startHeads(() => now)
    expect(heads.headOfHour(owner)).toBeUndefined()
    await until(() => heads.headOfHour(owner) !== undefined)
    const head = heads.headOfHour(owner)!
    expect(head).toEqual(headOfCheckpoint(note, key.kid))
    expect(checkpointOfHead(head, key)).toBe(note)
    const later = await signOneMore(owner)
    expect(heads.headOfHour(owner)).toBe(head)
    await signedEarlier(owner, '1 hour')
    now += HOUR_MS
    expect(heads.headOfHour(owner)).toBeUndefined()
    await until(() => heads.headOfHour(owner) !== undefined)
    expect(heads.headOfHour(owner)).toEqual(headOfCheckpoint(later.note, key.kid))
    await heads.stop()
    expect(faults).toEqual([])
  })

  it('is left out after a read that failed, and read again a while later', async () => {
    const owner = await seed.seedOwner(database.db)
    const { hour } = await signOneMore(owner)
    await signedEarlier(owner, '3 hours')
    let now = hour * HOUR_MS - 1_000_000
    const { heads, faults } = startHeads(() => now)
    await rename('ledger_checkpoints', 'checkpoints_away')
    try {
      expect(heads.headOfHour(owner)).toBeUndefined()
      await until(() => faults.length === 1)
    } finally {
      await rename('checkpoints_away', 'ledger_checkpoints')
    }
    expect(heads.headOfHour(owner)).toBeUndefined()
    now += 10_000
    await until(() => heads.headOfHour(owner) !== undefined)
    expect(faults).toHaveLength(1)
    await heads.stop()
  })
})

describe('Receipts and active introspection answers', () => {
  const headIn = (receipt: string) => decodeJwt(receipt)['ledger_head']
  const introspected = async (rpt: string, at = authority) =>
    (await protectionCall(at, '/introspect', { token: rpt })).body

  it('carry the head of the hour, from which its signed note is made again byte for byte', async () => {
    const { alice } = authority
    await appendLedgerAll(authority.database.db, alice.owner, [{ kind: 'approved', data: {} }])
    const { text: note } = await authority.call(alice, { target: '/owner/ledger/checkpoint' })
    await signedEarlier(alice.owner, '1 hour', authority.database)
    const agent = testAgent(authority)
    const { rpt, receipt: first } = await agent.granted()
    // It was in no memory before, and nothing waits for it.
    expect(headIn(first)).toBeUndefined()
    await until(async () => 'ledger_head' in (await introspected(rpt)))
    const head = readLedgerHead((await introspected(rpt)).ledger_head)
    expect(checkpointOfHead(head, log.keys[0]!)).toBe(note)
    const { receipt } = await agent.granted()
    expect(headIn(receipt)).toEqual(head)
    expect(await introspected('unknown')).not.toHaveProperty('ledger_head')
  })

  it('carry none where there are no keys of the log', async () => {
    const agent = testAgent(without)
    const { rpt, receipt } = await agent.granted()
    for (let n = 0; n < 2; n++) expect(await introspected(rpt, without)).not.toHaveProperty('ledger_head')
    expect(headIn(receipt)).toBeUndefined()
  })
})
