/**
 * What the statements of calls, of negotiations and of due work read of an owner who has much, although
 * Postgres planned them for owners who have little: it plans once, for all, and again when it has analyzed a
 * table. Contract: "What the service does". Rows are counted, not milliseconds: they are the same on every
 * machine.
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
import { returnExpired, takeReturns } from '../../src/storage/authority/policies/allowance-returns.ts'
import { listUses } from '../../src/storage/authority/policies/allowance-uses.ts'
import type { Tx } from '../../src/storage/authority/database.ts'
import { takeDue } from '../../src/storage/authority/due.ts'
import { asHandle, type Family, type Handle, type Owner } from '../../src/wire/identifiers.ts'
import { ALLOWANCE, saveAllowance, take, withinOf } from '../support/allowance-grants.ts'
import { DIGEST, multiply, rowsRead, TEXT } from '../support/rows-read.ts'
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
  /** The one that she has within an allowance. */
  held: Buffer
  /** One that she may have within an allowance. */
  within: Awaited<ReturnType<typeof withinOf>>
}

type Act = (tx: Tx, known: Known, nth: 0 | 1) => Promise<unknown>

const asked = ({ owner }: Known) => ({
  owner,
  client_id: seed.CLIENT_ID,
  resource_id: seed.resourceId(owner),
})

const atAllowance = (owner: Owner) => ({
  tier_id: seed.TIER,
  windowSeconds: 60,
  countTo: undefined,
  allowance: { id: ALLOWANCE, resource_id: seed.resourceId(owner) },
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
  'an agent at a tier that names an allowance': (tx, { owner, handle }) =>
    readStanding(tx, owner, { handle, ...atAllowance(owner) }),
  'an agent that another one brings in there': (tx, { owner, handle: introducedBy }) =>
    readStanding(tx, owner, { handle: asHandle('stranger'), introducedBy, ...atAllowance(owner) }),
  'an allowance that she reads, with what is used': (tx, { owner }) => listUses(tx, owner, { limit: 1 }),
  'a grant within an allowance': (tx, { within }) => recordWithin(tx, within),
  'work that is due': async (tx, { owner }) => {
    await sql`UPDATE due SET at = now() WHERE ${hers(owner)} AND kind = 'sweep' AND client_id = ''`.execute(
      tx,
    )
    return takeDue(tx, 'sweep', { limit: 100, seconds: 60 })
  },
  'shares that are due': async (tx, { owner, held }) => {
    await due(tx, owner, held)
    return takeReturns(tx, 60)
  },
  'a share that goes back': async (tx, { owner, held }) => {
    await due(tx, owner, held)
    return (await returnExpired(tx, owner, [held])).returned
  },
  'a grant that is read': (tx, { owner, grants }) =>
    readGrant(tx, owner, seed.CLIENT_ID, grants[0]!.rpt_sha256),
  'a grant that is spent': (tx, { owner, grants }, nth) =>
    consumeGrant(tx, owner, { client_id: seed.CLIENT_ID }, grants[nth]!.rpt_sha256),
  'a call that is reported': (tx, { owner, grants }, nth) =>
    recordTouches(tx, { owner, client_id: seed.CLIENT_ID, aud: seed.resourceUri(owner) }, [
      { ...grants[nth]!, key: seed.name('once'), data: {} },
    ]),
}

/** SQL: `owner` is this one; planned as if she had two rows, so that the rest of a key is looked up. */
const hers = (owner: Owner) => sql`owner = ANY(ARRAY[${owner}, ${owner}])`

/** As if the grant had expired, unspent. */
async function due(tx: Tx, owner: Owner, held: Buffer): Promise<void> {
  const past = sql`now() - interval '1 minute'`
  await sql`UPDATE grants SET expires_at = ${past} WHERE ${hers(owner)} AND rpt_sha256 = ${held}`.execute(tx)
  await sql`
    UPDATE allowance_held SET expires_at = ${past}, due_at = ${past}
    WHERE ${hers(owner)} AND rpt_sha256 = ${held}`.execute(tx)
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
  await sql`UPDATE due SET at = now() + interval '1 hour' WHERE owner = ${owner}`.execute(db)
  const windows = [{ of: 'calls', per: 'all', max: '9' }]
  await saveAllowance(db, owner, { among: 'lineage', hold_s: 3_600, windows })
  const agent = { handle, generation }
  const { rpt: held } = await take(db, owner, agent)
  const within = await withinOf(db, owner, agent)
  return { owner, handle, generation, rests: await seed.governedOf(db, owner), grants, tickets, within, held }
}

/** Columns of keys of the tables that an owner may have many rows of, and what makes them differ. */
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
  due: { client_id: TEXT },
}

const readBy = (act: Act, known: Known, nth: 0 | 1): Promise<Record<string, number>> =>
  rowsRead(database.db, async tx => {
    const found = await act(tx, known, nth)
    expect(Array.isArray(found) ? found.length : found).toBeTruthy()
  })

it('Whatever an owner has many of, a call, each step of a negotiation and what is due read a few rows', async () => {
  const known = await seedKnown()
  const { db } = database
  await multiply(db, known.owner, KEYS, { count: OTHERS, whose: `'owner-' || n` })
  await sql`ANALYZE`.execute(db)
  for (const act of Object.values(ACTS)) await readBy(act, known, 0)
  await multiply(db, known.owner, KEYS, { count: MANY, whose: 'one.owner' })
  const dear: Record<string, unknown> = {}
  for (const since of ['', ', analyzed since']) {
    if (since !== '') await sql`ANALYZE`.execute(db)
    for (const [name, act] of Object.entries(ACTS)) {
      const read = await readBy(act, known, 1)
      // Within a transaction her live grants are always counted.
      if (name === COUNTS) delete read['grants']
      const all = Object.values(read).reduce((sum, rows) => sum + rows, 0)
      expect(all, name).toBeGreaterThan(0)
      if (all > ROWS_MAX) dear[name + since] = read
    }
  }
  expect(dear).toEqual({})
})
