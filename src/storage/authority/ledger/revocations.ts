/**
 * Signed revocations, from the act of the owner's that each tells of until it is signed, once.
 * docs/choices.md, "Revocations that prove themselves". Contract: "Grant (RPT) liveness".
 */
import { sql } from 'kysely'
import type { Handle, Owner } from '../../../wire/identifiers.ts'
import { announceOwner } from '../../core/after-commit.ts'
import type { Db, Tx } from '../database.ts'
import { raiseEnds } from '../owners/ends.ts'
import type { NewLedgerEntry } from './ledger.ts'

/** What a transaction ended, and which entry of her ledger tells of it. */
export interface NewRevocation {
  jti: string
  /** The handles of all connections that ended. */
  ended: readonly Handle[]
  entry: Pick<NewLedgerEntry, 'kind' | 'handle' | 'data'>
}

/** Appends the entry of an act, with `jti`, `ends` and `ended`, and notes that it is to be signed. */
export async function recordRevocation(
  tx: Tx,
  owner: Owner,
  { jti, ended, entry }: NewRevocation,
): Promise<void> {
  const ends = await raiseEnds(tx, owner)
  const data = JSON.stringify({ ...entry.data, jti, ends, ended })
  await sql`
    WITH entry AS (
      INSERT INTO ledger (owner, kind, handle, data)
      VALUES (${owner}, ${entry.kind}, ${entry.handle ?? null}, ${data}) RETURNING id)
    INSERT INTO revocations (owner, jti, ends, ended, entry_id)
    SELECT ${owner}, ${jti}, ${ends}, ${ended}::text[], id FROM entry`.execute(tx)
  announceOwner(tx, owner)
}

/** A revocation as it is stored, and what is needed to sign it. */
export interface StoredRevocation {
  jti: string
  ends: number
  ended: Handle[]
  /** Undefined until it is signed. */
  jwt: string | undefined
  /** The entry that tells of it; undefined until that has a position, and after the retention deleted it. */
  entry: { seq: number; ts: string } | undefined
  /** The database's time when this was read, in milliseconds since the epoch. */
  at: number
  /** So long ago that no enforcement point relies on what ended, whatever became of whoever did it. */
  settled: boolean
}

/** After that nobody waits for the leases of an act any more; they last 2 s. */
const SETTLED_AFTER = '10 seconds'

/** Undefined if she has none of this `jti`. */
export async function readRevocation(
  db: Db,
  owner: Owner,
  jti: string,
): Promise<StoredRevocation | undefined> {
  type Row = Omit<StoredRevocation, 'jwt' | 'entry'> & { jwt: string | null; seq: number | null; ts: string }
  const { rows } = await sql<Row>`
    SELECT r.jti, r.ends, r.ended, r.jwt, l.seq, l.ts, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS at,
      r.done_at < clock_timestamp() - ${SETTLED_AFTER}::interval AS settled
    FROM revocations r LEFT JOIN ledger l ON l.owner = r.owner AND l.id = r.entry_id
    WHERE r.owner = ${owner} AND r.jti = ${jti}`.execute(db)
  const [row] = rows
  if (row === undefined) return undefined
  const { jwt, seq, ts, ...of } = row
  return { ...of, jwt: jwt ?? undefined, entry: seq === null ? undefined : { seq, ts } }
}

/** Keeps the first JWT of a revocation. @returns the one that is kept. */
export async function keepRevocation(
  db: Db,
  owner: Owner,
  { jti, jwt }: { jti: string; jwt: string },
): Promise<string> {
  const { rows } = await sql<{ jwt: string }>`
    UPDATE revocations SET jwt = coalesce(jwt, ${jwt}) WHERE owner = ${owner} AND jti = ${jti}
    RETURNING jwt`.execute(db)
  return rows[0]?.jwt ?? jwt
}

/**
 * The `jti` of the last revocation that ended this connection; undefined if there is none, or if the agent
 * was let in again since.
 */
export async function lastRevocationOf(tx: Tx, owner: Owner, handle: Handle): Promise<string | undefined> {
  const { rows } = await sql<{ jti: string }>`
    SELECT jti FROM (
      SELECT jti, entry_id FROM revocations WHERE owner = ${owner} AND ${handle} = ANY(ended)
      ORDER BY ends DESC LIMIT 1) last
    WHERE NOT EXISTS (SELECT FROM ledger WHERE owner = ${owner} AND handle = ${handle} AND kind = 'connected'
      AND id > last.entry_id)`.execute(tx)
  return rows[0]?.jti
}

/**
 * Some of hers that nobody waits for any more and that are not signed, oldest first; none whose entry the
 * retention has deleted, because nothing can be signed of that.
 */
export async function listUnsigned(db: Db, owner: Owner, limit: number): Promise<string[]> {
  const { rows } = await sql<{ jti: string }>`
    SELECT jti FROM revocations r WHERE owner = ${owner} AND jwt IS NULL
      AND done_at < clock_timestamp() - ${SETTLED_AFTER}::interval
      AND EXISTS (SELECT 1 FROM ledger l WHERE l.owner = r.owner AND l.id = r.entry_id)
    ORDER BY done_at LIMIT ${limit}`.execute(db)
  return rows.map(({ jti }) => jti)
}
