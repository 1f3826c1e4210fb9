/**
 * Negotiations and their tickets: every presentation is one conditional statement, and the row count says
 * who won. Contract: "Permission ticket".
 */
import { sql } from 'kysely'
import { prepared, type Db, type Tx } from './database.ts'
import type { FamilyState, PendingKind } from './tables.ts'

export interface FamilyRow {
  owner: string
  family: string
  state: FamilyState
  client_id: string
  resource_id: string
  resource_scopes: string[]
  tier_id: string | null
  /** The offer that was sent (wire TermsTemplate), null where none was. */
  template: unknown
  opened_at: string
  negotiation_expires_at: string
  ticket_issued_at: string
  ticket_previous_at: string | null
  ticket_expires_at: string
  kind: PendingKind | null
  handle: string | null
  operator: string | null
  attested: boolean | null
  params_key: string | null
  requested_at: string | null
  /** What collecting the grant needs, kept from the agreement. */
  held: unknown
  /** What the owner is shown. */
  item: unknown
  decision: 'approved' | 'denied' | null
  decided_by: string | null
  decided_at: string | null
  generation: number | null
}

export interface NewFamily {
  owner: string
  family: string
  state: 'need_info' | 'denied' | 'ended'
  client_id: string
  resource_id: string
  resource_scopes: string[]
  tier_id: string | null
  template: unknown
  /** Seconds since the epoch at which the sealed first ticket expires. */
  sealedExpiresAt: number
  /** SHA-256 of the next ticket; null where the negotiation ends here. */
  ticketHash: Buffer | null
  ticketSeconds: number
  negotiationSeconds: number
}

/**
 * First presentation of a sealed ticket: the family's key decides the race.
 * @returns false where the ticket was presented before (the answer is `invalid_grant`).
 */
export async function openFamily(db: Db, row: NewFamily): Promise<boolean> {
  const { owner, family, state, client_id, resource_id, resource_scopes, tier_id, template } = row
  const { affected } = await OPEN(db, [
    owner,
    family,
    state,
    client_id,
    resource_id,
    resource_scopes,
    tier_id,
    json(template),
    row.sealedExpiresAt,
    row.ticketHash,
    row.ticketSeconds,
    row.negotiationSeconds,
  ])
  return affected === 1n
}

const OPEN = prepared(
  'open-family',
  `INSERT INTO families (owner, family, state, client_id, resource_id, resource_scopes, tier_id, template,
    sealed_expires_at, ticket_hash, ticket_expires_at, negotiation_expires_at)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, to_timestamp($9::float8), $10,
    now() + $11::float8 * interval '1 second', now() + $12::float8 * interval '1 second')
  ON CONFLICT (owner, family) DO NOTHING`,
)

const FAMILY_COLUMNS = `owner, family, state, client_id, resource_id, resource_scopes, tier_id, template,
  opened_at, negotiation_expires_at, ticket_issued_at, ticket_previous_at, ticket_expires_at, kind, handle,
  operator, attested, params_key, requested_at, held, item, decision, decided_by, decided_at, generation`

/**
 * Spends a ticket. Awaiting the owner it rotates to `nextHash` in the same statement, which also reads her
 * decision, so no poll can erase one; elsewhere nothing is left valid until the answer issues the next.
 * @returns the family as it now stands, or undefined: unknown, spent and expired are one.
 */
export async function presentTicket(
  db: Db,
  ticket: { owner: string; hash: Buffer; nextHash: Buffer; awaitingSeconds: number },
): Promise<FamilyRow | undefined> {
  const { rows } = await PRESENT(db, [ticket.owner, ticket.hash, ticket.nextHash, ticket.awaitingSeconds])
  return rows[0]
}

const PRESENT = prepared<FamilyRow>(
  'present-ticket',
  `UPDATE families SET
    ticket_hash = CASE WHEN state = 'awaiting_owner' THEN $3::bytea END,
    ticket_previous_at = ticket_issued_at,
    ticket_issued_at = now(),
    ticket_expires_at = CASE WHEN state = 'awaiting_owner'
      THEN least(now() + $4::float8 * interval '1 second', negotiation_expires_at)
      ELSE ticket_expires_at END
  WHERE owner = $1 AND ticket_hash = $2
    AND ticket_expires_at > now() AND negotiation_expires_at > now()
    AND state IN ('need_info', 'awaiting_owner')
  RETURNING ${FAMILY_COLUMNS}`,
)

/**
 * Issues the next ticket of a negotiation whose last one was just spent, with a new offer where the terms
 * were edited since. @returns false where the negotiation has ended meanwhile.
 */
export async function continueFamily(
  db: Db,
  next: {
    owner: string
    family: string
    ticketHash: Buffer
    ticketSeconds: number
    offer?: { tier_id: string; template: unknown }
  },
): Promise<boolean> {
  const offer = next.offer
  const done = await sql`
    UPDATE families SET ticket_hash = ${next.ticketHash}, ticket_issued_at = now(),
      ticket_expires_at = least(now() + ${next.ticketSeconds} * interval '1 second', negotiation_expires_at)
      ${offer === undefined ? sql`` : sql`, tier_id = ${offer.tier_id}, template = ${json(offer.template)}`}
    WHERE owner = ${next.owner} AND family = ${next.family} AND state = 'need_info' AND ticket_hash IS NULL
      AND negotiation_expires_at > now()`.execute(db)
  return done.numAffectedRows === 1n
}

/** Ends a negotiation that has not ended. @returns whether this call ended it. */
export async function endFamily(
  db: Db,
  owner: string,
  family: string,
  state: 'denied' | 'ended' | 'granted',
): Promise<boolean> {
  const done = await db
    .updateTable('families')
    .set({ state, ticket_hash: null })
    .where('owner', '=', owner)
    .where('family', '=', family)
    .where('state', 'in', ['need_info', 'awaiting_owner'])
    .executeTakeFirst()
  return done.numUpdatedRows === 1n
}

/** One negotiation, or undefined. */
export async function readFamily(db: Db, owner: string, family: string): Promise<FamilyRow | undefined> {
  const { rows } = await sql<FamilyRow>`
    SELECT ${sql.raw(FAMILY_COLUMNS)} FROM families WHERE owner = ${owner} AND family = ${family}`.execute(db)
  return rows[0]
}

export interface HeldRequest {
  owner: string
  family: string
  kind: PendingKind
  handle: string
  operator: string | null
  attested: boolean
  /** Same handle, resource and parameters make the same item. */
  paramsKey: string
  held: unknown
  item: unknown
  ticketHash: Buffer
  awaitingSeconds: number
}

/** need_info -> awaiting_owner, with the ticket to poll with. The caller holds the owner's queue lock. */
export async function holdFamily(tx: Tx, request: HeldRequest): Promise<boolean> {
  const done = await sql`
    UPDATE families SET state = 'awaiting_owner', kind = ${request.kind}, handle = ${request.handle},
      operator = ${request.operator}, attested = ${request.attested}, params_key = ${request.paramsKey},
      held = ${json(request.held)}, item = ${json(request.item)}, requested_at = now(),
      ticket_hash = ${request.ticketHash}, ticket_issued_at = now(),
      ticket_expires_at = least(now() + ${request.awaitingSeconds} * interval '1 second', negotiation_expires_at)
    WHERE owner = ${request.owner} AND family = ${request.family} AND state = 'need_info'
      AND ticket_hash IS NULL`.execute(tx)
  return done.numAffectedRows === 1n
}

/**
 * The agent whose answer was lost negotiated anew: its new negotiation ends and the waiting item goes on,
 * under a fresh ticket. The caller holds the owner's queue lock.
 * @returns false where the item stopped waiting meanwhile.
 */
export async function joinFamily(
  tx: Tx,
  join: { owner: string; family: string; waiting: string; ticketHash: Buffer; awaitingSeconds: number },
): Promise<boolean> {
  const done = await sql`
    UPDATE families SET ticket_hash = ${join.ticketHash}, ticket_previous_at = ticket_issued_at,
      ticket_issued_at = now(),
      ticket_expires_at = least(now() + ${join.awaitingSeconds} * interval '1 second', negotiation_expires_at)
    WHERE owner = ${join.owner} AND family = ${join.waiting} AND state = 'awaiting_owner'`.execute(tx)
  if (done.numAffectedRows !== 1n) return false
  await endFamily(tx, join.owner, join.family, 'ended')
  return true
}

/** Records a ticket the poller was already given: the poll held by the server reads the decision again. */
export async function readDecision(
  db: Db,
  owner: string,
  family: string,
): Promise<'approved' | 'denied' | null> {
  const row = await db
    .selectFrom('families')
    .select('decision')
    .where('owner', '=', owner)
    .where('family', '=', family)
    .executeTakeFirst()
  return row?.decision ?? null
}

function json(value: unknown): string | null {
  return value === null || value === undefined ? null : JSON.stringify(value)
}
