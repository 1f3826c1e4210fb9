/**
 * What an owner's records say against an emergency of her organization, and what became of those that her
 * authority said yes to. Contract: "Organization membership,
 * on the member's authorization server" (`/org/notice`), "Connection" (revoked), "Owner API" (blocked).
 */
import { sql, type RawBuilder } from 'kysely'
import type { EmergencyRecord } from '../../../rules/organization/emergency.ts'
import type { ClientId, Family, Handle, Owner } from '../../../wire/identifiers.ts'
import { announceOwner } from '../../core/after-commit.ts'
import type { Db, Tx } from '../database.ts'
import { sweepWithin } from '../due.ts'

/** How long after the end of an emergency what was told of it is compared. */
export const COMPARISON_SECONDS = 900

/** The agent that an emergency is for: `cnf_jkt` is the thumbprint of its key. */
export interface EmergencySubject {
  readonly resource_id: string
  readonly cnf_jkt: string
  /** The origin of the invoker, or the name of an administrator, which no operator can have. */
  readonly authorised_by: string
}

/** The caller holds the queue's lock, as a revocation and a block do. */
export async function readEmergencyRecord(
  tx: Tx,
  owner: Owner,
  { resource_id, cnf_jkt, authorised_by }: EmergencySubject,
): Promise<Omit<EmergencyRecord, 'now'>> {
  const { rows } = await sql<Omit<EmergencyRecord, 'now'>>`
    WITH of_key AS (SELECT handle, status FROM connections WHERE owner = ${owner} AND jkt = ${cnf_jkt})
    SELECT
      EXISTS (SELECT 1 FROM resources
        WHERE owner = ${owner} AND resource_id = ${resource_id} AND source <> 'joint') AS "isHers",
      EXISTS (SELECT 1 FROM of_key WHERE status = 'revoked') AS "isRevoked",
      COALESCE((SELECT resource_scopes FROM resources
        WHERE owner = ${owner} AND resource_id = ${resource_id}), '{}') AS scopes,
      EXISTS (SELECT 1 FROM operators WHERE owner = ${owner} AND blocked_at IS NOT NULL AND (origin = ${authorised_by}
        OR origin IN (SELECT origin FROM connection_operators
          WHERE owner = ${owner} AND handle IN (SELECT handle FROM of_key)))) AS "isBlocked"`.execute(tx)
  return rows[0]!
}

/** A grant of an emergency that her authority says yes to. */
export interface Acceptance {
  readonly jti: string
  readonly issuer: string
  readonly resource_id: string
  readonly handle: Handle
  /** Seconds since the epoch. */
  readonly exp: number
}

/** Records it. @returns whether it was new: another organization may have named a grant alike. */
export async function insertAccepted(tx: Tx, owner: Owner, accepted: Acceptance): Promise<boolean> {
  const { jti, issuer, resource_id, handle, exp } = accepted
  const { rows } = await sql`
    INSERT INTO accepted_emergencies (owner, jti, issuer, resource_id, client_id, handle, expires_at)
    SELECT ${owner}, ${jti}, ${issuer}, resource_id, client_id, ${handle}, to_timestamp(${exp})
    FROM resources WHERE owner = ${owner} AND resource_id = ${resource_id}
    ON CONFLICT DO NOTHING RETURNING 1`.execute(tx)
  await sweepWithin(tx, owner, COMPARISON_SECONDS)
  return rows.length === 1
}

/**
 * Records that the organization says how it ended. @returns whether that is news: nothing is told of a grant
 * that was never accepted, nor twice.
 */
export async function endAccepted(
  tx: Tx,
  owner: Owner,
  { issuer, jti, what }: { issuer: string; jti: string; what: 'used' | 'void' },
): Promise<boolean> {
  const isNews =
    what === 'used'
      ? sql`used_at = clock_timestamp() WHERE used_at IS NULL`
      : sql`void_at = clock_timestamp() WHERE used_at IS NULL AND void_at IS NULL`
  const { rows } = await sql`
    UPDATE accepted_emergencies SET ${isNews} AND owner = ${owner} AND jti = ${jti} AND issuer = ${issuer}
    RETURNING 1`.execute(tx)
  return rows.length === 1
}

/**
 * Counts one more notice that tells of an emergency, or asks for a yes. @returns how many of its kind came in
 * the present hour, this one among them. The caller holds the queue's lock.
 */
export async function countEmergencyNotice(tx: Tx, owner: Owner, kind: 'told' | 'asked'): Promise<number> {
  const isPresent = sql`emergencies_since > clock_timestamp() - interval '1 hour'`
  const count = (of: typeof kind): RawBuilder<unknown> =>
    sql`CASE WHEN ${isPresent} THEN ${sql.ref(`emergencies_${of}`)} ELSE 0 END + ${of === kind ? 1 : 0}`
  const { rows } = await sql<{ count: number }>`
    UPDATE memberships SET emergencies_told = ${count('told')}, emergencies_asked = ${count('asked')},
      emergencies_since = CASE WHEN ${isPresent} THEN emergencies_since ELSE clock_timestamp() END
    WHERE owner = ${owner} RETURNING ${sql.ref(`emergencies_${kind}`)} AS count`.execute(tx)
  return rows[0]!.count
}

/** A call under one of them, as an enforcement point reports it. */
export interface ReportedEmergency {
  /** See `ReportedCall`. */
  readonly key: string | null
  readonly jti: string
  readonly family: Family
  readonly data: Record<string, unknown>
}

/**
 * Records a call that is under no grant of hers, if it is under an accepted emergency.
 * @returns `unknown` if it is not; otherwise whether it is a call that was not reported before, and how many
 * were by now.
 */
export async function recordEmergencyCall(
  tx: Tx,
  { owner, client_id }: { owner: Owner; client_id: ClientId },
  { key, jti, family, data }: ReportedEmergency,
): Promise<
  'unknown' | { isNew: boolean; reports: number; accepted: Pick<Acceptance, 'issuer' | 'resource_id'> }
> {
  const { rows } = await sql<{ issuer: string; resource_id: string; handle: Handle; reports: number }>`
    SELECT issuer, resource_id, handle, reports FROM accepted_emergencies
    WHERE owner = ${owner} AND jti = ${jti} AND client_id = ${client_id} FOR UPDATE`.execute(tx)
  const [accepted] = rows
  if (accepted === undefined) return 'unknown'
  const { rows: made } = await sql`
    INSERT INTO ledger (owner, kind, family, handle, data, once_key, resource_id)
    SELECT ${owner}, 'touched', ${family}, ${accepted.handle}, ${JSON.stringify({ break_glass: true, ...data })}::json, ${key},
      (SELECT resource_id FROM resources WHERE owner = ${owner} AND resource_id = ${accepted.resource_id} AND org IS NOT NULL)
    ON CONFLICT (owner, once_key) WHERE once_key IS NOT NULL DO NOTHING RETURNING 1`.execute(tx)
  if (made.length === 0) return { isNew: false, reports: accepted.reports, accepted }
  await sql`
    UPDATE accepted_emergencies SET reports = reports + 1 WHERE owner = ${owner} AND jti = ${jti}`.execute(tx)
  announceOwner(tx, owner)
  return { isNew: true, reports: accepted.reports + 1, accepted }
}

/** An accepted emergency of which one side told and the other did not. */
export interface Unmet extends Pick<Acceptance, 'jti' | 'issuer' | 'resource_id'> {
  readonly what: 'unreported' | 'unannounced'
}

/** Those that ended so long ago that what was told of them is compared. */
function toCompare(owner: Owner): RawBuilder<unknown> {
  return sql`SELECT jti FROM accepted_emergencies WHERE owner = ${owner} AND compared_at IS NULL
    AND expires_at < clock_timestamp() - ${COMPARISON_SECONDS} * interval '1 second'`
}

/** Whether there are any. */
export async function hasEmergenciesToCompare(db: Db, owner: Owner): Promise<boolean> {
  const { rows } = await sql<{ any: boolean }>`SELECT EXISTS (${toCompare(owner)}) AS any`.execute(db)
  return rows[0]!.any
}

/** Compares, once each, what was told of those that ended some time ago; both sides try again for so long. */
export async function compareEmergencies(tx: Tx, owner: Owner, limit: number): Promise<Unmet[]> {
  const { rows } = await sql<Unmet>`
    UPDATE accepted_emergencies SET compared_at = clock_timestamp()
    WHERE owner = ${owner} AND jti = ANY(ARRAY(
      ${toCompare(owner)}
      ORDER BY expires_at LIMIT ${limit} FOR UPDATE))
    RETURNING jti, issuer, resource_id,
      CASE WHEN used_at IS NOT NULL AND reports = 0 THEN 'unreported' WHEN used_at IS NULL AND reports > 0 THEN 'unannounced' END
        AS what`.execute(tx)
  return rows.filter(({ what }) => (what as string | null) !== null)
}
