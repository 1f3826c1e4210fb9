/**
 * Negotiations and their tickets: every presentation is one conditional statement, and the row count says
 * which caller won. Contract: "Permission ticket".
 */
import { sql, type Selectable } from 'kysely'
import { prepared } from '../../core/database.ts'
import type { Db, Tx } from '../database.ts'
import { ASKED_FEW, gatheringOf, TOGETHER_MAX, WRITES_AT_ONCE } from '../../core/batch.ts'
import type { PendingKind } from '../../../rules/connection.ts'
import type { FamiliesTable, FamilyState } from '../tables.ts'
import type { ClientId, Family, Handle, Owner } from '../../../wire/identifiers.ts'
import type { TermsTemplate } from '../../../wire/negotiation/terms.ts'
import type { GrantBasis } from '../../../rules/grant.ts'
import type { ShownItem } from './shown-item.ts'

/** A negotiation in its present state. Only the hashes of its tickets are known, and they stay here. */
export type FamilyRow = Omit<Selectable<FamiliesTable>, 'sealed_expires_at' | 'ticket_hash'>

export interface NewFamily {
  owner: Owner
  family: Family
  state: 'need_info' | 'denied' | 'ended'
  client_id: ClientId
  resource_id: string
  resource_scopes: string[]
  tier_id: string | null
  template: TermsTemplate | null
  /** Seconds since the epoch at which the sealed first ticket expires. */
  sealedExpiresAt: number
  /** SHA-256 of the next ticket; null if the negotiation ends here. */
  ticketHash: Buffer | null
  ticketSeconds: number
  negotiationSeconds: number
}

/**
 * The first presentation of a sealed ticket: the primary key, the family, decides the race.
 * @returns false if the ticket was presented before (the answer is `invalid_grant`).
 */
export function openFamily(db: Db, row: NewFamily): Promise<boolean> {
  return OPEN_FAMILY(db, row)
}

async function openFamilies(db: Db, families: NewFamily[]): Promise<boolean[]> {
  // If several callers present one sealed ticket together, the first one wins. All rows are written in one
  // order, so that no two writers deadlock.
  const first = new Map(families.toReversed().map(row => [row.family, row]))
  const rows = [...first.values()].sort((a, b) => (a.family < b.family ? -1 : 1))
  const of = <Value>(read: (row: NewFamily) => Value): Value[] => rows.map(read)
  const opened = await OPEN(db, [
    rows[0]!.owner,
    of(row => row.family),
    of(row => row.state),
    of(row => row.client_id),
    of(row => row.resource_id),
    of(row => row.tier_id),
    of(row => row.sealedExpiresAt),
    of(row => row.ticketHash),
    of(row => row.ticketSeconds),
    of(row => row.negotiationSeconds),
    JSON.stringify(of(row => row.resource_scopes)),
    JSON.stringify(of(row => row.template)),
  ])
  const made = new Set(opened.rows.map(({ family }) => family))
  return families.map(row => first.get(row.family) === row && made.has(row.family))
}

const OPEN = prepared<{ family: Family }>(
  'open-families',
  `INSERT INTO families (owner, family, state, client_id, resource_id, resource_scopes, tier_id, template,
    sealed_expires_at, ticket_hash, ticket_expires_at, negotiation_expires_at)
  SELECT $1, family, state, client_id, resource_id, ARRAY(SELECT json_array_elements_text(resource_scopes)), tier_id,
    CASE WHEN json_typeof(template) <> 'null' THEN template END, to_timestamp(sealed_expires_at), ticket_hash,
    now() + ticket_seconds * interval '1 second', now() + negotiation_seconds * interval '1 second'
  FROM ROWS FROM (
    unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::float8[], $8::bytea[], $9::float8[], $10::float8[]),
    json_array_elements($11::json), json_array_elements($12::json))
    AS asked(family, state, client_id, resource_id, tier_id, sealed_expires_at, ticket_hash, ticket_seconds,
      negotiation_seconds, resource_scopes, template)
  -- A ticket of before may be presented when its owner has been removed.
  WHERE EXISTS (SELECT FROM owners WHERE owner = $1)
  ON CONFLICT (owner, family) DO NOTHING
  RETURNING family`,
)

const OPEN_FAMILY = gatheringOf((db: Db, families: NewFamily[]) => openFamilies(db, families), {
  owner: (row: NewFamily) => row.owner,
  together: TOGETHER_MAX,
  atOnce: WRITES_AT_ONCE,
})

const FAMILY_COLUMNS = `owner, family, state, client_id, resource_id, resource_scopes, tier_id, template,
  opened_at, negotiation_expires_at, ticket_issued_at, ticket_previous_at, ticket_expires_at, kind, handle,
  operator, attested, params_key, requested_at, held, item, decision, decided_by,
  decided_actor, decided_at, generation, denial_reason, owner_decision,
  identity`

/**
 * Spends a ticket. While it awaits the owner, the same statement rotates it to `nextHash` and reads her
 * decision, so no poll can erase a decision. In other states no ticket is valid until the answer issues the
 * next.
 * @returns the family as it now stands, or undefined, which does not distinguish unknown, spent and expired.
 */
export function presentTicket(db: Db, ticket: PresentedTicket): Promise<FamilyRow | undefined> {
  return PRESENT_TICKET(db, ticket)
}

interface PresentedTicket {
  owner: Owner
  hash: Buffer
  nextHash: Buffer
  awaitingSeconds: number
  /** The least time between two answers to polls. */
  pollSeconds: number
}

/** If several callers present one ticket together, Postgres picks one, and says which. */
async function presentTickets(db: Db, tickets: PresentedTicket[]): Promise<(FamilyRow | undefined)[]> {
  // Rows are written in one order, so that no two callers deadlock.
  const sorted = tickets.toSorted((a, b) => a.hash.compare(b.hash))
  const { rows } = await PRESENT(db, [
    sorted[0]!.owner,
    sorted.map(({ hash }) => hash),
    sorted.map(({ nextHash }) => nextHash),
    sorted.map(({ awaitingSeconds }) => awaitingSeconds),
    sorted.map(({ pollSeconds }) => pollSeconds),
  ])
  const spent = new Map(rows.map(({ place, ...family }) => [sorted[place - 1]!, family]))
  return tickets.map(ticket => spent.get(ticket))
}

const PRESENT = prepared<FamilyRow & { place: number }>(
  'present-tickets',
  `UPDATE families SET
    ticket_hash = CASE WHEN state = 'awaiting_owner' THEN asked.next END,
    -- When the previous answer was given: that to a hasty poll was held until the interval after the one before it.
    ticket_previous_at = least(now(), greatest(ticket_issued_at, ticket_previous_at + asked.poll_seconds * interval '1 second')),
    ticket_issued_at = now(),
    ticket_expires_at = CASE WHEN state = 'awaiting_owner'
      THEN least(now() + asked.awaiting_seconds * interval '1 second', negotiation_expires_at)
      ELSE ticket_expires_at END
  FROM (SELECT $1::text AS asker, asked.* FROM unnest($2::bytea[], $3::bytea[], $4::float8[], $5::float8[])
    WITH ORDINALITY AS asked(hash, next, awaiting_seconds, poll_seconds, place) WHERE ${ASKED_FEW} OFFSET 0) asked
  WHERE owner = asked.asker AND ticket_hash = asked.hash
    AND ticket_expires_at > now() AND negotiation_expires_at > now()
    AND state IN ('need_info', 'awaiting_owner')
  RETURNING asked.place::int, ${FAMILY_COLUMNS}`,
)

const PRESENT_TICKET = gatheringOf((db: Db, tickets: PresentedTicket[]) => presentTickets(db, tickets), {
  owner: ({ owner }: PresentedTicket) => owner,
  together: TOGETHER_MAX,
  atOnce: WRITES_AT_ONCE,
})

/**
 * Issues the next ticket of a negotiation whose last one was just spent, with a new offer if the terms were
 * edited since. @returns false if the negotiation has ended meanwhile.
 */
export async function continueFamily(
  db: Db,
  next: {
    owner: Owner
    family: Family
    ticketHash: Buffer
    ticketSeconds: number
    offer?: { tier_id: string; template: TermsTemplate }
  },
): Promise<boolean> {
  const offer = next.offer
  const statement = sql`
    UPDATE families SET ticket_hash = ${next.ticketHash}, ticket_issued_at = now(),
      ticket_expires_at = least(now() + ${next.ticketSeconds} * interval '1 second', negotiation_expires_at)
      ${offer === undefined ? sql`` : sql`, tier_id = ${offer.tier_id}, template = ${JSON.stringify(offer.template)}`}
    WHERE owner = ${next.owner} AND family = ${next.family} AND state = 'need_info' AND ticket_hash IS NULL
      AND negotiation_expires_at > now()`
  const done = await statement.execute(db)
  return done.numAffectedRows === 1n
}

/**
 * Ends a negotiation that has not ended and is in one of the given states. @returns whether this call ended
 * it.
 */
// oxlint-disable-next-line eslint/max-params -- which one, where it ends, and where it may stand
export async function endFamily(
  db: Db,
  owner: Owner,
  family: Family,
  state: 'denied' | 'ended' | 'granted',
  from: readonly FamilyState[] = ['need_info', 'awaiting_owner'],
): Promise<boolean> {
  const statement = db
    .updateTable('families')
    .set({ state, ticket_hash: null })
    .where('owner', '=', owner)
    .where('family', '=', family)
    .where('state', 'in', from)
  const done = await statement.executeTakeFirst()
  return done.numUpdatedRows === 1n
}

/** One negotiation, or undefined. */
export async function readFamily(db: Db, owner: Owner, family: Family): Promise<FamilyRow | undefined> {
  const { rows } = await sql<FamilyRow>`
    SELECT ${sql.raw(FAMILY_COLUMNS)} FROM families WHERE owner = ${owner} AND family = ${family}`.execute(db)
  return rows[0]
}

export interface PendingRequest {
  owner: Owner
  family: Family
  kind: PendingKind
  handle: Handle
  operator: string | null
  attested: boolean
  /** The same handle, resource and parameters make the same item. */
  paramsKey: string
  held: GrantBasis
  item: ShownItem
  ticketHash: Buffer
  awaitingSeconds: number
}

/** need_info -> awaiting_owner, with the ticket to poll with. The caller holds the owner's queue lock. */
export async function holdFamily(tx: Tx, request: PendingRequest): Promise<boolean> {
  const done = await sql`
    UPDATE families SET state = 'awaiting_owner', kind = ${request.kind}, handle = ${request.handle},
      operator = ${request.operator}, attested = ${request.attested}, params_key = ${request.paramsKey},
      held = ${JSON.stringify(request.held)}, item = ${JSON.stringify(request.item)}, requested_at = now(),
      ticket_hash = ${request.ticketHash}, ticket_issued_at = now(), ticket_previous_at = NULL,
      ticket_expires_at = least(now() + ${request.awaitingSeconds} * interval '1 second', negotiation_expires_at)
    WHERE owner = ${request.owner} AND family = ${request.family} AND state = 'need_info'
      AND ticket_hash IS NULL`.execute(tx)
  return done.numAffectedRows === 1n
}

/**
 * The agent whose answer was lost negotiated again: its new negotiation ends and the waiting item continues,
 * under a fresh ticket. The caller holds the owner's queue lock.
 * @returns false if the item stopped waiting meanwhile.
 */
export async function joinFamily(
  tx: Tx,
  join: { owner: Owner; family: Family; waiting: string; ticketHash: Buffer; awaitingSeconds: number },
): Promise<boolean> {
  const done = await sql`
    UPDATE families SET ticket_hash = ${join.ticketHash}, ticket_previous_at = NULL,
      ticket_issued_at = now(),
      ticket_expires_at = least(now() + ${join.awaitingSeconds} * interval '1 second', negotiation_expires_at)
    WHERE owner = ${join.owner} AND family = ${join.waiting} AND state = 'awaiting_owner'`.execute(tx)
  if (done.numAffectedRows !== 1n) return false
  await endFamily(tx, join.owner, join.family, 'ended')
  return true
}
