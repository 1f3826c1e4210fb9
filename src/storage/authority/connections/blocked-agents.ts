/**
 * Agents that the owner blocked, by handle and by key. Contract: "Connection" (states), "Owner API"
 * (connections); an addition to it (docs/choices.md). Lock order as in connections.ts.
 */
import { sql } from 'kysely'
import type { Actor } from '../../../wire/owner/actor.ts'
import { thumbprintIn } from '../../../wire/agents/handles.ts'
import type { Handle, Owner } from '../../../wire/identifiers.ts'
import { endsLeases } from '../../core/after-commit.ts'
import { endConnections, type ConnectionEnd } from './connections.ts'
import type { Db, Tx } from '../database.ts'
import { takeBack } from '../joint/joint-withdrawals.ts'
import { lockQueue } from '../owners/owners.ts'
import { endWaitingOf } from '../negotiations/pending.ts'

/** An agent as a request names it; `jkt` is the thumbprint of the key that signed. */
export interface AskingAgent {
  handle: Handle
  jkt: string
}

/**
 * Whether the owner blocked the handle or the key. Decides nothing finally, unless the caller holds the
 * queue's lock, as a block does.
 */
export async function isAgentBlocked(db: Db, owner: Owner, { handle, jkt }: AskingAgent): Promise<boolean> {
  const { rows } = await sql`
    SELECT 1 FROM connections
    WHERE owner = ${owner} AND (handle = ${handle} OR jkt = ${jkt}) AND blocked_at IS NOT NULL
    LIMIT 1`.execute(db)
  return rows.length === 1
}

/**
 * Blocks an agent that she knows, or that waits for her: neither its handle nor its key asks from now on. Its
 * connections end, those of the agents that they introduced, and what they wait for.
 * @returns undefined if she knows no such agent; `newly`: it was not blocked before.
 */
export async function blockAgent(
  tx: Tx,
  owner: Owner,
  handle: Handle,
  actor: Actor,
): Promise<(ConnectionEnd & { newly: boolean }) | undefined> {
  await lockQueue(tx, owner)
  endsLeases(tx, owner)
  const own = (await lockOwn(tx, owner, handle)) ?? (await recordWaiting(tx, owner, handle))
  if (own === undefined) return undefined
  const isOf = sql`(handle = ${handle} OR jkt = ${own.jkt})`
  const { rows: parents } = await sql<{ handle: Handle }>`
    SELECT handle FROM connections
    WHERE owner = ${owner} AND status = 'active' AND introduced_by IS NULL AND ${isOf}
    ORDER BY handle FOR UPDATE`.execute(tx)
  const { rows: children } = await sql<{ handle: Handle }>`
    SELECT handle FROM connections
    WHERE owner = ${owner} AND status = 'active' AND introduced_by IS NOT NULL
      AND (${isOf} OR introduced_by = ANY(ARRAY(SELECT handle FROM connections WHERE owner = ${owner} AND ${isOf})))
    ORDER BY handle FOR UPDATE`.execute(tx)
  const active = [...parents, ...children].map(one => one.handle)
  const ended = await endConnections(tx, owner, active)
  await sql`
    UPDATE connections SET blocked_at = coalesce(blocked_at, now())
    WHERE owner = ${owner} AND handle = ${handle}`.execute(tx)
  const all = [...new Set([handle, ...ended.handles])]
  await takeBack(tx, owner, { handles: all })
  const families = await endWaitingOf(tx, owner, all, { by: 'block', actor })
  return { ...ended, families, newly: own.blocked_at === null }
}

/**
 * Gives back the right to ask; access withdrawn stays withdrawn. @returns whether it was blocked; undefined
 * if she knows no such agent.
 */
export async function unblockAgent(tx: Tx, owner: Owner, handle: Handle): Promise<boolean | undefined> {
  const own = await lockOwn(tx, owner, handle)
  if (own === undefined) return undefined
  await sql`
    UPDATE connections SET blocked_at = NULL WHERE owner = ${owner} AND handle = ${handle}`.execute(tx)
  return own.blocked_at !== null
}

interface Own {
  jkt: string | null
  blocked_at: string | null
}

/** Its lock keeps a label or a last access out; admissions are kept out by the queue's. */
async function lockOwn(tx: Tx, owner: Owner, handle: Handle): Promise<Own | undefined> {
  const { rows } = await sql<Own>`
    SELECT jkt, blocked_at FROM connections WHERE owner = ${owner} AND handle = ${handle}
    FOR NO KEY UPDATE`.execute(tx)
  return rows[0]
}

/** An agent that only waits gets a connection that was never in force. Undefined if it waits for nothing. */
async function recordWaiting(tx: Tx, owner: Owner, handle: Handle): Promise<Own | undefined> {
  const { rows: waiting } = await sql<{ jkt: string | null }>`
    SELECT held->>'jkt' AS jkt FROM families
    WHERE owner = ${owner} AND handle = ${handle} AND state = 'awaiting_owner' AND decision IS NULL
    LIMIT 1`.execute(tx)
  if (waiting[0] === undefined) return undefined
  const inHandle = thumbprintIn(handle)
  const jkt = inHandle ?? waiting[0].jkt
  const identity = inHandle === undefined ? 'identified' : 'pseudonymous'
  await sql`
    INSERT INTO connections (owner, handle, status, identity, jkt)
    VALUES (${owner}, ${handle}, 'revoked', ${identity}, ${jkt})`.execute(tx)
  return { jkt, blocked_at: null }
}
