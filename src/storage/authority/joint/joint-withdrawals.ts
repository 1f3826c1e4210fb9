/**
 * An owner's withdrawals from tallies: they are marked in the transaction that ends her allowance, and kept
 * until the tally has acknowledged them, or until nothing can rest on the allowance any more. The caller
 * holds her queue's lock, as signing does. Contract: "Tally for a jointly held resource" (on each holder's
 * authorization server).
 */
import { randomUUID } from 'node:crypto'
import { sql, type RawBuilder, type Selectable } from 'kysely'
import { asClientId, type Family, type Handle, type Owner } from '../../../wire/identifiers.ts'
import type { Db, Tx } from '../database.ts'
import { dueWithin } from '../due.ts'
import type { JointQuestionsTable, JointWithdrawalsTable } from './joint-tables.ts'

/** A withdrawal to send; if `negotiations` is null, it covers the whole account. */
export type WaitingWithdrawal = Pick<
  Selectable<JointWithdrawalsTable>,
  'id' | 'tally' | 'account' | 'negotiations' | 'attempts'
>

/** Which allowances end: those of agents, those of one account, or these. */
export type WithdrawalScope =
  | { handles: readonly Handle[]; operator?: string }
  | { account: Owner }
  | { tier_id: string; negotiations: readonly Family[] }

/** An allowance that a grant may rest on; `verdict` as it was signed. */
export type StandingAllowance = Pick<
  Selectable<JointQuestionsTable>,
  'negotiation' | 'resource_id' | 'effect' | 'verdict'
>

/** How many negotiations one withdrawal names at most. */
const NEGOTIATIONS_MAX = 100
/** Before this time the replica that wrote it sends it, so that only one replica sends it. */
const WRITER_LEAD_SECONDS = 3
/** Because clocks differ, another server may consider a grant live for this much longer. */
const GRACE = sql`interval '60 seconds'`
/** Negotiations that run when she leaves end by themselves at their next question. */
const LEAVING = sql`interval '1 hour'`

/**
 * The time is the start of the transaction, so that the index can be used from there on: no index serves
 * `clock_timestamp()`. What lapses in between is withdrawn all the same.
 */
const STANDS = sql`withdrawn_at IS NULL AND relied_until > now()`

/** Withdraws allowances that a grant may still rest on, and makes sure that their tallies are told. */
export async function takeBack(tx: Tx, owner: Owner, which: WithdrawalScope): Promise<void> {
  const { rows } = await sql<Pick<Selectable<JointQuestionsTable>, 'tally' | 'account' | 'negotiation'>>`
    UPDATE joint_questions SET withdrawn_at = clock_timestamp()
    WHERE owner = ${owner} AND ${STANDS} AND ${ofWhich(which)}
    RETURNING tally, account, negotiation`.execute(tx)
  const accounts = Map.groupBy(rows, ({ tally, account }) => JSON.stringify([tally, account]))
  for (const named of accounts.values()) {
    const { tally, account } = named[0]!
    for (let at = 0; at < named.length; at += NEGOTIATIONS_MAX) {
      const negotiations = named.slice(at, at + NEGOTIATIONS_MAX).map(({ negotiation }) => negotiation)
      const until = sql`max(relied_until) + ${GRACE}`
      await write(tx, { owner, tally, account, negotiations }, until)
    }
  }
}

function ofWhich(which: WithdrawalScope): RawBuilder<unknown> {
  if ('account' in which) return sql`account = ${which.account}`
  if ('tier_id' in which)
    return sql`tier_id = ${which.tier_id} AND negotiation = ANY(${[...which.negotiations]}::text[])`
  const { handles, operator = null } = which
  return sql`(handle = ANY(${[...handles]}::text[]) OR operator = ${operator}::text)`
}

/** Withdraws everything for an account that she leaves, including running negotiations. */
export async function takeAllBack(
  tx: Tx,
  owner: Owner,
  { tally, account }: { tally: string; account: Owner },
): Promise<void> {
  await sql`
    UPDATE joint_questions SET withdrawn_at = clock_timestamp()
    WHERE owner = ${owner} AND account = ${account} AND ${STANDS}`.execute(tx)
  const until = sql`greatest(max(relied_until) + ${GRACE}, clock_timestamp() + ${LEAVING})`
  await write(tx, { owner, tally, account, negotiations: null }, until)
}

async function write(
  tx: Tx,
  of: { owner: Owner; tally: string; account: Owner; negotiations: Family[] | null },
  until: RawBuilder<unknown>,
): Promise<void> {
  const { owner, tally, account, negotiations } = of
  await sql`
    INSERT INTO joint_withdrawals (owner, id, tally, account, negotiations, matters_until)
    SELECT ${owner}, ${randomUUID()}, ${tally}, ${account}, ${negotiations}::text[], ${until} FROM joint_questions
    WHERE owner = ${owner} AND tally = ${tally} AND account = ${account}
      AND (${negotiations}::text[] IS NULL OR negotiation = ANY(${negotiations}::text[]))`.execute(tx)
  await dueWithin(tx, owner, { kind: 'withdraw', client_id: asClientId(tally) }, WRITER_LEAD_SECONDS)
}

/** The allowances under a tier that a grant may still rest on. */
export async function listStanding(tx: Tx, owner: Owner, tierId: string): Promise<StandingAllowance[]> {
  const { rows } = await sql<StandingAllowance>`
    SELECT negotiation, resource_id, effect, verdict FROM joint_questions
    WHERE owner = ${owner} AND ${STANDS} AND tier_id = ${tierId}`.execute(tx)
  return rows
}

/** The withdrawals to send, of one tally if one is named, the oldest first. */
export async function listWithdrawals(db: Db, owner: Owner, tally?: string): Promise<WaitingWithdrawal[]> {
  const { rows } = await sql<WaitingWithdrawal>`
    SELECT id, tally, account, negotiations, attempts FROM joint_withdrawals
    WHERE owner = ${owner} AND (${tally ?? null}::text IS NULL OR tally = ${tally ?? null}::text)
    ORDER BY since, id`.execute(db)
  return rows
}

/** Gives up withdrawals that no longer matter. @returns how many were never acknowledged. */
export async function endOverdue(db: Db, owner: Owner, tally: string): Promise<number> {
  const done = await sql`
    DELETE FROM joint_withdrawals
    WHERE owner = ${owner} AND tally = ${tally} AND matters_until <= clock_timestamp()`.execute(db)
  return Number(done.numAffectedRows)
}

/** Deletes a withdrawal that the tally acknowledged. */
export async function endWithdrawal(db: Db, owner: Owner, id: string): Promise<void> {
  await sql`DELETE FROM joint_withdrawals WHERE owner = ${owner} AND id = ${id}`.execute(db)
}

/** Counts a failed attempt of a withdrawal, which is sent again. */
export async function countWithdrawalAttempt(db: Db, owner: Owner, id: string): Promise<void> {
  await sql`
    UPDATE joint_withdrawals SET attempts = attempts + 1 WHERE owner = ${owner} AND id = ${id}`.execute(db)
}
