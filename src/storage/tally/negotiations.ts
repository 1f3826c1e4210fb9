/**
 * Negotiations and their tickets: every presentation is one conditional statement, and the row count says
 * which caller won. Contract: "Permission ticket".
 */
import { sql, type Selectable } from 'kysely'
import type { Family, Owner } from '../../wire/identifiers.ts'
import type { TermsTemplate } from '../../wire/negotiation/terms.ts'
import { inTransaction } from '../core/database.ts'
import type { Db, Tx } from './database.ts'
import type { PendingAgreement, NegotiationsTable } from './tables.ts'

/** A negotiation in its present state. Only the hashes of its tickets are known, and they stay here. */
export type NegotiationRow = Omit<Selectable<NegotiationsTable>, 'sealed_expires_at' | 'ticket_hash'>

/** The channel for news about accounts; a message is the name of one. */
export const ACCOUNTS_CHANNEL = 'usher_tally'

export interface NewNegotiation {
  account: Owner
  family: Family
  state: 'need_info' | 'denied' | 'ended'
  client_id: string
  resource_id: string
  resource_scopes: readonly string[]
  version: number
  template: TermsTemplate | null
  /** Seconds since the epoch at which the sealed first ticket expires. */
  sealedExpiresAt: number
  /** SHA-256 of the next ticket; null if the negotiation ends here. */
  ticketHash: Buffer | null
  ticketSeconds: number
  negotiationSeconds: number
}

/**
 * The first presentation of a sealed ticket: the primary key decides the race. @returns false if the ticket
 * was presented before.
 */
export async function openNegotiation(db: Db, row: NewNegotiation): Promise<boolean> {
  const template = row.template === null ? null : JSON.stringify(row.template)
  const done = await sql`
    INSERT INTO negotiations (account, family, state, client_id, resource_id, resource_scopes, version, template,
      sealed_expires_at, ticket_hash, ticket_expires_at, negotiation_expires_at)
    VALUES (${row.account}, ${row.family}, ${row.state}, ${row.client_id}, ${row.resource_id},
      ${[...row.resource_scopes]}, ${row.version}, ${template}, to_timestamp(${row.sealedExpiresAt}),
      ${row.ticketHash}, now() + ${row.ticketSeconds} * interval '1 second',
      now() + ${row.negotiationSeconds} * interval '1 second')
    ON CONFLICT (account, family) DO NOTHING`.execute(db)
  return done.numAffectedRows === 1n
}

const COLUMNS = sql.raw(`account, family, state, client_id, resource_id, resource_scopes, version, template,
  negotiation_expires_at, ticket_issued_at, ticket_previous_at, ticket_expires_at, held, decision, withdrawn`)

/**
 * Spends a ticket. While holders are asked it rotates to `nextHash` in the same statement, which also reads
 * what they decided. @returns the negotiation as it now stands, or undefined, which does not distinguish
 * unknown, spent and expired.
 */
export async function presentTicket(
  db: Db,
  ticket: { account: Owner; hash: Buffer; nextHash: Buffer; awaitingSeconds: number; pollSeconds: number },
): Promise<NegotiationRow | undefined> {
  const { account, hash, nextHash, awaitingSeconds, pollSeconds } = ticket
  const statement = sql<NegotiationRow>`
    UPDATE negotiations SET
      ticket_hash = CASE WHEN state = 'awaiting_holders' THEN ${nextHash}::bytea END,
      -- When the previous answer was given: that to a hasty poll was held until the interval after the one before it.
      ticket_previous_at = least(now(), greatest(ticket_issued_at,
        ticket_previous_at + ${pollSeconds} * interval '1 second')),
      ticket_issued_at = now(),
      ticket_expires_at = CASE WHEN state = 'awaiting_holders'
        THEN least(now() + ${awaitingSeconds} * interval '1 second', negotiation_expires_at)
        ELSE ticket_expires_at END
    WHERE account = ${account} AND ticket_hash = ${hash}
      AND ticket_expires_at > now() AND negotiation_expires_at > now()
      AND state IN ('need_info', 'awaiting_holders')
    RETURNING ${COLUMNS}`
  const { rows } = await statement.execute(db)
  return rows[0]
}

/**
 * Issues the next ticket of a negotiation whose last one was just spent, with a new offer if there is one.
 * @returns false if it has ended meanwhile.
 */
export async function continueNegotiation(
  db: Db,
  next: {
    account: Owner
    family: Family
    ticketHash: Buffer
    ticketSeconds: number
    offer?: { version: number; template: TermsTemplate }
  },
): Promise<boolean> {
  const { offer } = next
  const done = await sql`
    UPDATE negotiations SET ticket_hash = ${next.ticketHash}, ticket_issued_at = now(),
      ticket_expires_at = least(now() + ${next.ticketSeconds} * interval '1 second', negotiation_expires_at)
      ${offer === undefined ? sql`` : sql`, version = ${offer.version}, template = ${JSON.stringify(offer.template)}`}
    WHERE account = ${next.account} AND family = ${next.family} AND state = 'need_info' AND ticket_hash IS NULL
      AND negotiation_expires_at > now()`.execute(db)
  return done.numAffectedRows === 1n
}

/** One negotiation, or undefined. */
export async function readNegotiation(
  db: Db,
  account: Owner,
  family: Family,
): Promise<NegotiationRow | undefined> {
  const { rows } = await sql<NegotiationRow>`
    SELECT ${COLUMNS} FROM negotiations WHERE account = ${account} AND family = ${family}`.execute(db)
  return rows[0]
}

/** Ends a negotiation that has not ended. @returns whether this call ended it. */
export async function endNegotiation(
  db: Db,
  { account, family }: { account: Owner; family: Family },
  state: 'denied' | 'ended',
): Promise<boolean> {
  const done = await sql`
    UPDATE negotiations SET state = ${state}, ticket_hash = NULL
    WHERE account = ${account} AND family = ${family}
      AND state IN ('need_info', 'awaiting_holders')`.execute(db)
  return done.numAffectedRows === 1n
}

/**
 * need_info -> awaiting_holders, with the ticket to poll with, and every holder to be asked. @returns false
 * if it has ended meanwhile, or if the mandate has changed.
 */
export function holdNegotiation(
  db: Db,
  hold: {
    account: Owner
    family: Family
    version: number
    held: PendingAgreement
    ticketHash: Buffer
    awaitingSeconds: number
    holders: readonly { owner: Owner; issuer: string; weight: number }[]
  },
): Promise<boolean> {
  const { account, family, holders } = hold
  return inTransaction(db, async tx => {
    if (!(await isInForce(tx, account, hold.version))) return false
    const done = await sql`
      UPDATE negotiations SET state = 'awaiting_holders', held = ${JSON.stringify(hold.held)},
        ticket_hash = ${hold.ticketHash}, ticket_issued_at = now(), ticket_previous_at = NULL,
        ticket_expires_at = least(now() + ${hold.awaitingSeconds} * interval '1 second', negotiation_expires_at)
      WHERE account = ${account} AND family = ${family} AND state = 'need_info' AND ticket_hash IS NULL
        AND version = ${hold.version}`.execute(tx)
    if (done.numAffectedRows !== 1n) return false
    const rows = holders.map(({ owner, issuer, weight }) => ({
      account,
      family,
      holder: owner,
      issuer,
      weight,
    }))
    await tx.insertInto('answers').values(rows).execute()
    return true
  })
}

/** Whether that version of the mandate is in force, and stays so until the transaction ends. */
export async function isInForce(tx: Tx, account: Owner, version: number): Promise<boolean> {
  const { rows } = await sql`
    SELECT FROM accounts WHERE account = ${account} AND version = ${version} FOR SHARE`.execute(tx)
  return rows.length === 1
}
