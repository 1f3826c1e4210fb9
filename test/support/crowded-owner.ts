/**
 * Owns an owner with more of everything than anybody has: written by INSERT … SELECT, so that a million
 * ledger rows take seconds. For the tests and the bench of what her lists cost.
 */
import { sql, type RawBuilder } from 'kysely'
import type { RequestFacts } from '../../src/rules/conditions.ts'
import { HASH_BYTES } from '../../src/rules/ledger/merkle.ts'
import type { Db } from '../../src/storage/authority/database.ts'
import { basisOf, templateOf, waitingItem } from './seed.ts'
import { asFamily, asHandle, type Owner } from '../../src/wire/identifiers.ts'

export interface Crowd {
  owner: Owner
  ledgerRows: number
  connections: number
  waiting: number
}

/** The agent that made three in ten of the ledger's entries, and one with a few. */
export const BUSY = 'jkt:agent000000'
export const QUIET = 'jkt:agent000007'
/** The operator of half the agents; the other half are of a hundred. */
export const LARGE_OPERATOR = 'https://operator-large.example'
export const SMALL_OPERATOR = 'https://operator-07.example'
/** A statement may take ten seconds, also on a disk that is busy. */
const ROWS_PER_INSERT = 20_000
/** Ledger numbers begin here. */
export const FIRST_SEQ = 1_000_000

/** What every promise in the ledger was judged by, so that a dry run has something to judge. */
const PAST_FACTS: RequestFacts = {
  connection: 'active',
  standing: {
    approvedAtTier: true,
    neverRevoked: true,
    firstParty: false,
    ageSeconds: 86_400,
    firstAtTier: false,
    revokedBefore: false,
    introduced: false,
    lineageNewAtTier: false,
  },
  assurance: { binding: 1, provenance: 0, accountability: 0 },
  request: { expiresInSeconds: 60, reasonAbsent: true, missionAbsent: true, consequence: 'reversible' },
}

const handle = (n: RawBuilder<unknown>) => sql`'jkt:agent' || lpad((${n})::text, 6, '0')`

/** Fills the tables of an owner who exists already, and tells the planner of it. */
export async function crowd(db: Db, { owner, ledgerRows, connections, waiting }: Crowd): Promise<void> {
  const n = sql`n`
  const operator = sql`CASE WHEN n % 2 = 0 THEN ${LARGE_OPERATOR}
    ELSE 'https://operator-' || lpad((n % 100)::text, 2, '0') || '.example' END`
  await sql`
    INSERT INTO operators (owner, origin)
    SELECT DISTINCT ${owner}, ${operator} FROM generate_series(0, 199) n ON CONFLICT DO NOTHING`.execute(db)
  await sql`
    INSERT INTO connections (owner, handle, status, identity, jkt)
    SELECT ${owner}, ${handle(n)}, CASE WHEN n % 10 = 9 THEN 'revoked' ELSE 'active' END, 'pseudonymous', ${handle(n)}
    FROM generate_series(0, ${connections - 1}) n`.execute(db)
  await sql`
    INSERT INTO connection_operators (owner, handle, origin)
    SELECT ${owner}, ${handle(n)}, ${operator} FROM generate_series(0, ${connections - 1}) n`.execute(db)
  await sql`
    INSERT INTO connection_tiers (owner, handle, tier_id, granted_at, approved_at, approved_generation)
    SELECT ${owner}, ${handle(n)}, 'reading', now(), now(), 1 FROM generate_series(0, ${connections - 1}) n`.execute(
    db,
  )
  // Two grants in five belong to the busy agent.
  await sql`
    INSERT INTO grants (owner, rpt_sha256, jti, family, handle, generation, client_id, aud, resource_id, tier_id,
      tier_epoch, single_use, claims, expires_at)
    SELECT ${owner}, sha256(n::text::bytea), 'rpt_' || n, 'fam_' || n,
      CASE WHEN n % 5 < 2 THEN ${BUSY} ELSE ${handle(sql`n % ${connections}::int`)} END, 1, 'demo-tools',
      'https://tools.example/mcp/alice', ${`${owner}/portfolio`}, 'reading', 1, false, '{}',
      now() + interval '1 hour'
    FROM generate_series(1, ${connections * 2}) n`.execute(db)
  await crowdFamilies(db, { owner, connections, waiting })
  await crowdLedger(db, { owner, connections, ledgerRows })
  await crowdReceipts(db, owner)
  await sql`
    INSERT INTO resources (owner, resource_id, client_id, name, type, resource_scopes, consequence, source)
    SELECT ${owner}, ${owner} || '/album-' || n, 'demo-tools', 'Album ' || n, 'album', '{read}', 'reversible', 'provisioned'
    FROM generate_series(1, 2000) n`.execute(db)
  await sql`
    INSERT INTO tier_resources (owner, resource_id, tier_id)
    SELECT ${owner}, ${owner} || '/album-' || n, 'reading' FROM generate_series(1, 1000) n`.execute(db)
  await sql`ANALYZE`.execute(db)
}

/** What waits, behind fifty times as many negotiations that are over. */
/** One for each grant, as it was given. After the ledger, which makes the owner's head. */
async function crowdReceipts(db: Db, owner: Owner): Promise<void> {
  await sql`
    INSERT INTO receipts (owner, jti, family, handle, receipt)
    SELECT owner, jti, family, handle, 'receipt' FROM grants WHERE owner = ${owner}`.execute(db)
  await sql`
    INSERT INTO receipt_positions (owner, jti, seq)
    SELECT owner, jti, row_number() OVER () FROM grants WHERE owner = ${owner}`.execute(db)
  await sql`
    UPDATE heads SET receipts = (SELECT max(seq) FROM receipt_positions WHERE owner = ${owner})
    WHERE owner = ${owner}`.execute(db)
}

async function crowdFamilies(
  db: Db,
  { owner, connections, waiting }: Omit<Crowd, 'ledgerRows'>,
): Promise<void> {
  const waits = sql`n <= ${waiting}`
  const item = JSON.stringify(waitingItem(owner))
  // Nobody polls them, so it does not matter which agents they belong to.
  const family = asFamily('fam_of_the_crowd')
  const template = JSON.stringify(templateOf(owner, family))
  const held = JSON.stringify(basisOf(owner, family, asHandle(BUSY)))
  await sql`
    INSERT INTO families (owner, family, state, client_id, resource_id, resource_scopes, tier_id, template, sealed_expires_at,
      negotiation_expires_at, ticket_hash, ticket_expires_at, kind, handle, operator, attested, params_key, requested_at,
      held, item)
    SELECT ${owner}, 'fam_' || lpad(n::text, 8, '0'), CASE WHEN ${waits} THEN 'awaiting_owner' ELSE 'granted' END,
      'demo-tools', ${`${owner}/portfolio`}, '{read}', 'reading', ${template}::json, now() + interval '5 minutes',
      now() + interval '7 days', CASE WHEN ${waits} THEN sha256(n::text::bytea) END, now() + interval '1 hour',
      'operation', ${handle(sql`n % ${connections}::int`)}, NULL, false, n::text, now() - n * interval '1 second', ${held}::json,
      ${item}::json
    FROM generate_series(1, ${waiting * 50}) n`.execute(db)
}

/** Mostly touches. A rare kind is at the very beginning; a kind that the busy agent never had is frequent. */
async function crowdLedger(
  db: Db,
  { owner, connections, ledgerRows }: Omit<Crowd, 'waiting'>,
): Promise<void> {
  const promise = JSON.stringify({
    resource_id: `${owner}/portfolio`,
    tier: 'reading',
    effect: 'grant',
    scopes: ['read'],
    facts: PAST_FACTS,
  })
  for (let from = 1; from <= ledgerRows; from += ROWS_PER_INSERT)
    await sql`
    INSERT INTO ledger (owner, id, seq, ts, kind, family, handle, data)
    SELECT ${owner}, n, ${FIRST_SEQ} + n, now() - (${ledgerRows}::bigint - n) * interval '1 second',
      CASE WHEN n < 10 THEN 'claimed' WHEN n % 100 = 0 THEN 'promised' WHEN n % 10 = 5 THEN 'denied' ELSE 'touched' END,
      'fam_' || n,
      CASE WHEN n % 10 < 3 THEN ${BUSY} ELSE ${handle(sql`n % ${connections}::int`)} END,
      CASE WHEN n % 100 = 0 THEN ${promise}::json ELSE '{"tool":"portfolio_read"}'::json END
    FROM generate_series(${from}::bigint, ${Math.min(from + ROWS_PER_INSERT - 1, ledgerRows)}::bigint) n`.execute(
      db,
    )
  const last = FIRST_SEQ + ledgerRows
  // Her tree covers all of it, though it was never made: nobody is to make up for it meanwhile.
  const subtrees = last.toString(2).replaceAll('0', '').length
  await sql`
    INSERT INTO heads (owner, ledger, tree_size, frontier)
    VALUES (${owner}, ${last}, ${last}, ${Buffer.alloc(subtrees * HASH_BYTES)})
    ON CONFLICT (owner) DO UPDATE
    SET ledger = excluded.ledger, tree_size = excluded.tree_size, frontier = excluded.frontier`.execute(db)
}
