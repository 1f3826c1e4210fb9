/**
 * What the statements of calls and negotiations read of an owner who has much, although Postgres planned them
 * for owners who have little: it plans once, for all. Contract: "What the service does". Rows are counted,
 * not milliseconds: they are the same on every machine.
 */
import { sql } from 'kysely'
import { expect, it } from 'vitest'
import {
  readRequestedResource,
  readGovernedResource,
} from '../../src/storage/authority/negotiations/governance.ts'
import { recordGrant } from '../../src/storage/authority/grants/issue.ts'
import { recordWithin } from '../../src/storage/authority/grants/issue-allowance.ts'
import { consumeGrant } from '../../src/storage/authority/grants/consume.ts'
import { readGrant } from '../../src/storage/authority/grants/read.ts'
import { recordTouches } from '../../src/storage/authority/ledger/last-access.ts'
import { readStanding } from '../../src/storage/authority/negotiations/standing.ts'
import { presentTicket } from '../../src/storage/authority/negotiations/tickets.ts'
import type { Tx } from '../../src/storage/authority/database.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import type { Family, Handle, Owner } from '../../src/wire/identifiers.ts'
import { saveAllowance, take, useOf, withinOf } from '../support/allowance-grants.ts'
import * as seed from '../support/seed.ts'
import { coreStand } from '../support/stands.ts'

/** What one owner has of everything; each of the others has one. */
const MANY = 300
const OTHERS = 1_000
/** One for each table that a statement joins, and a few that it writes. */
const ROWS_MAX = 30

/** One connection, so that each statement keeps the plan of its first use. */
const database = coreStand({ poolMax: 1 })

interface Known {
  owner: Owner
  handle: Handle
  generation: number
  rests: Awaited<ReturnType<typeof seed.governedOf>>
  /** Two that live. */
  grants: { rpt_sha256: Buffer; jti: string; family: Family }[]
  tickets: Buffer[]
  /** One that she may have within an allowance. */
  within: Awaited<ReturnType<typeof withinOf>>
}

type Act = (tx: Tx, known: Known, nth: 0 | 1) => Promise<unknown>

const asked = ({ owner }: Known) => ({
  owner,
  client_id: seed.CLIENT_ID,
  resource_id: seed.resourceId(owner),
})

const COUNTS = 'a grant that is made'
const ACTS: Record<string, Act> = {
  'what a ticket is made from': (tx, known) => readRequestedResource(tx, asked(known)),
  'what governs a resource': (tx, known) => readGovernedResource(tx, asked(known)),
  'an agent that the owner knows': (tx, { owner, handle }) =>
    readStanding(tx, owner, { handle, tier_id: seed.TIER, windowSeconds: 60, countTo: undefined }),
  'a ticket that is presented': (tx, { owner, tickets }, nth) =>
    presentTicket(tx, {
      owner,
      hash: tickets[nth]!,
      nextHash: seed.bytes(),
      awaitingSeconds: 60,
      pollSeconds: 5,
    }),
  [COUNTS]: (tx, { owner, handle, generation, rests }) =>
    recordGrant(tx, { ...seed.grantRow(owner, handle, generation, seed.bytes()), ...rests }, [], 10_000),
  'an allowance that is read': (tx, { owner, handle }) => useOf(tx, owner, handle),
  'a grant within an allowance': (tx, { within }) => recordWithin(tx, within),
  'a grant that is read': (tx, { owner, grants }) =>
    readGrant(tx, owner, seed.CLIENT_ID, grants[0]!.rpt_sha256),
  'a grant that is spent': (tx, { owner, grants }, nth) =>
    consumeGrant(tx, owner, { client_id: seed.CLIENT_ID }, grants[nth]!.rpt_sha256),
  'a call that is reported': (tx, { owner, grants }, nth) =>
    recordTouches(tx, { owner, client_id: seed.CLIENT_ID, aud: seed.resourceUri(owner) }, [
      { ...grants[nth]!, key: seed.name('once'), data: {} },
    ]),
}

async function seedKnown(): Promise<Known> {
  const { db } = database
  const owner = await seed.seedOwner(db)
  const handle = seed.name('jkt:')
  const generation = await seed.seedConnection(db, owner, handle)
  for (const _ of ['one', 'other']) await seed.seedGrant(db, owner, handle, generation)
  const { rows: grants } = await sql<Known['grants'][number]>`
    SELECT rpt_sha256, jti, family FROM grants WHERE owner = ${owner}`.execute(db)
  const tickets = [seed.bytes(), seed.bytes()]
  for (const ticket of tickets) await seed.seedFamily(db, owner, ticket)
  await saveAllowance(db, owner, { hold_s: 3_600, windows: [{ of: 'calls', per: 'all', max: '9' }] })
  const agent = { handle, generation }
  await take(db, owner, agent)
  const within = await withinOf(db, owner, agent)
  return { owner, handle, generation, rests: await seed.governedOf(db, owner), grants, tickets, within }
}

/** Columns of keys of the tables that an owner may have many rows of, and what makes them differ, by `n`. */
const TEXT = `'other-' || n`
const DIGEST = `'\\x' || encode(sha256(n::text::bytea), 'hex')`
const KEYS = {
  resource_servers: { client_id: TEXT, resource_uri: `'https://other.example/' || n` },
  resources: { resource_id: TEXT },
  tiers: { tier_id: TEXT },
  terms_versions: { tier_id: TEXT },
  tier_resources: { tier_id: TEXT, resource_id: TEXT },
  connections: { handle: TEXT, jkt: TEXT },
  connection_tiers: { handle: TEXT },
  grants: { rpt_sha256: DIGEST, jti: TEXT, family: TEXT },
  families: { family: TEXT, ticket_hash: DIGEST },
  allowances: { id: TEXT },
  allowance_windows: { allowance: TEXT },
  allowance_held: { handle: TEXT, rpt_sha256: DIGEST },
}

/** Copies one of her rows of each table. `whose`: SQL for the owner of the n-th copy. */
async function multiply({ owner }: Known, count: number, whose: string): Promise<void> {
  for (const [table, keys] of Object.entries(KEYS)) {
    const members = Object.entries({ ...keys, owner: whose }).map(([name, value]) => `'${name}', ${value}`)
    await sql`
      INSERT INTO ${sql.table(table)}
      SELECT (jsonb_populate_record(NULL::${sql.table(table)},
        to_jsonb(one) || jsonb_build_object(${sql.raw(members.join(', '))}))).*
      FROM (SELECT * FROM ${sql.table(table)} WHERE owner = ${owner} LIMIT 1) one, generate_series(1, ${count}::int) n`.execute(
      database.db,
    )
  }
}

/** Rows of each table that this connection has read and not yet told to the statistics of all. */
async function counts(tx: Tx): Promise<Map<string, number>> {
  const { rows } = await sql<{ table: string; read: number }>`
    SELECT relname AS table, (coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::int AS read
    FROM pg_stat_xact_user_tables`.execute(tx)
  return new Map(rows.map(({ table, read }) => [table, read]))
}

const taken = new Error('taken back')
/** Rows that an act reads; what it writes is taken back. */
async function rowsRead(act: Act, known: Known, nth: 0 | 1): Promise<Record<string, number>> {
  const read: Record<string, number> = {}
  await inTransaction(database.db, async tx => {
    await sql`SET LOCAL plan_cache_mode = force_generic_plan`.execute(tx)
    const before = await counts(tx)
    expect(await act(tx, known, nth)).toBeTruthy()
    for (const [table, rows] of await counts(tx)) {
      const more = rows - (before.get(table) ?? 0)
      if (more > 0) read[table] = more
    }
    throw taken
  }).catch((error: unknown) => {
    if (error !== taken) throw error
  })
  return read
}

it('Whatever an owner has many of, a call and each step of a negotiation read a few rows', async () => {
  const known = await seedKnown()
  await multiply(known, OTHERS, `'owner-' || n`)
  await sql`ANALYZE`.execute(database.db)
  for (const act of Object.values(ACTS)) await rowsRead(act, known, 0)
  await multiply(known, MANY, 'one.owner')
  const dear: Record<string, unknown> = {}
  for (const [name, act] of Object.entries(ACTS)) {
    const read = await rowsRead(act, known, 1)
    // Within a transaction her live grants are always counted.
    if (name === COUNTS) delete read['grants']
    const all = Object.values(read).reduce((sum, rows) => sum + rows, 0)
    expect(all, name).toBeGreaterThan(0)
    if (all > ROWS_MAX) dear[name] = read
  }
  expect(dear).toEqual({})
})
