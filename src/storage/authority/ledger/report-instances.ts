/**
 * The runs of enforcement points that number their reports: how far each has come, what is missing, and which
 * of them fell silent. Contract: "Events" (row 2), "Protection API" (/audit/access).
 */
import { sql } from 'kysely'
import { announceOwner } from '../../core/after-commit.ts'
import { prepared } from '../../core/database.ts'
import { appendLedgerAll } from './ledger.ts'
import type { Db, Tx } from '../database.ts'
import type { Gap } from '../../../rules/report-numbers.ts'
import type { ClientId, Owner } from '../../../wire/identifiers.ts'

/** How far a run has come: its highest number now, and whether it ends there. */
export interface InstanceWord {
  instance: string
  /** The highest number that it has used. */
  n: number
  ended: boolean
}

/**
 * If a run did not report its end and has been silent for this long, nobody knows whether it let more calls
 * through.
 */
export const REPORT_SILENCE_SECONDS = 600

/**
 * Takes note of each run's word and holds its row until the transaction ends, so that words of one run are
 * settled one after another. A goodbye stands until a higher number comes: what was under way when it was
 * said does not take it back.
 * @returns by instance up to where its numbers were settled before this.
 */
export async function hearInstances(
  tx: Tx,
  { owner, client_id }: { owner: Owner; client_id: ClientId },
  words: readonly InstanceWord[],
): Promise<Map<string, number>> {
  const { rows } = await HEAR(tx, [
    owner,
    client_id,
    words.map(({ instance }) => instance),
    words.map(({ n }) => n),
    words.map(({ ended }) => ended),
  ])
  return new Map(rows.map(({ instance, previous }) => [instance, previous]))
}

const HEAR = prepared<{ instance: string; previous: number }>(
  'hear-instances',
  `INSERT INTO report_instances AS known (owner, client_id, instance, n, ended)
    SELECT $1, $2, instance, n, ended FROM unnest($3::text[], $4::bigint[], $5::bool[]) AS said(instance, n, ended) ORDER BY instance
    ON CONFLICT (owner, client_id, instance) DO UPDATE SET
      previous = known.n, n = greatest(known.n, excluded.n), heard_at = now(), unknown_at = NULL,
      ended = CASE WHEN excluded.n < known.n THEN known.ended WHEN excluded.n = known.n THEN known.ended OR excluded.ended
        ELSE excluded.ended END
    RETURNING instance, previous`,
)

/** Writes to the ledger which numbers of a run never came. */
export async function tellMissing(
  tx: Tx,
  { owner, client_id }: { owner: Owner; client_id: ClientId },
  gaps: readonly (Gap & { instance: string })[],
): Promise<void> {
  await appendLedgerAll(
    tx,
    owner,
    gaps.map(({ instance, from, to }) => ({
      kind: 'reports_missing',
      data: { client_id, instance, from, to },
    })),
  )
}

/**
 * Tells the ledger, once for each silence, which of an owner's runs said nothing for ten minutes and no
 * goodbye: `after` is the last number that is known of it. Any number of replicas may ask at once.
 * @returns how many were told.
 */
export async function tellSilent(db: Db, owner: Owner): Promise<number> {
  const { numAffectedRows } = await sql`
    WITH silent AS (
      UPDATE report_instances SET unknown_at = now()
      WHERE owner = ${owner} AND NOT ended AND unknown_at IS NULL
        AND heard_at < now() - ${REPORT_SILENCE_SECONDS} * interval '1 second'
      RETURNING client_id, instance, n)
    INSERT INTO ledger (owner, kind, data)
    SELECT ${owner}, 'reports_unknown', json_build_object('client_id', client_id, 'instance', instance, 'after', n)
    FROM silent ORDER BY client_id, instance`.execute(db)
  const count = Number(numAffectedRows ?? 0n)
  if (count > 0) announceOwner(db, owner)
  return count
}
