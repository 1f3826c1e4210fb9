/**
 * How much of an owner's allowances is used: windows of her calendar, and the places of the grants that hold
 * a share. Only reads, without a lock. Contract: "Policy vocabulary and tiers"; an addition
 * (docs/details/owner-api.md).
 */
import type { Selectable } from 'kysely'
import type { AllowancePeriod, OwnerAllowance } from '../../../wire/documents/allowance.ts'
import type { Handle, Owner } from '../../../wire/identifiers.ts'
import { ownedBy } from '../../core/batch.ts'
import { prepared, sqlState } from '../../core/database.ts'
import type { Db } from '../database.ts'
import type { AllowancesTable } from '../tables.ts'
import { allowanceOf } from './allowances.ts'

/** How many unspent grants of one allowance an agent may have; the table of places has as many of each. */
export const UNSPENT_MAX = 5

/** The present window of an `of` and a `per`. */
export interface AllowanceWindow {
  of: string
  per: AllowancePeriod
  /** At most so much is used in it. */
  max: string
  /** The instant at which it begins, exactly as Postgres writes it. */
  start: string
  /** When the next begins, in the same form; null for `all`, which has no end. */
  ends: string | null
  /** The same in seconds since the epoch. */
  endsAt: number | null
  used: string
}

/** An allowance of hers and what is used of it, for one agent. */
export interface AllowanceUse {
  /** As it is stored: whether it can be read is the caller's check. */
  allowance: OwnerAllowance
  /** Whose windows they are: the lineage of the agent, or empty if all share one set. */
  whose: string
  /** Seconds since the epoch, by the clock of the database, by which the windows are the present ones. */
  now: number
  /** How many unspent grants of it the agent has. */
  unspent: number
  windows: AllowanceWindow[]
  /** The resource takes only what she signs. */
  signedOnly: boolean
}

type UseRow = Omit<AllowanceUse, 'allowance'> &
  Pick<Selectable<AllowancesTable>, 'id' | 'version' | 'zone' | 'among' | 'until' | 'hold_s' | 'content'>

/**
 * SQL: the present window of `v` (`per`) of the allowance `a`, at the instant `clock.at`. A day that begins
 * twice, because the clock is set back across midnight, ends when the next begins for the first time: no
 * later instant is known to Postgres by that name, so those before it are tried.
 */
export const PRESENT = `
      CROSS JOIN LATERAL (SELECT CASE v.per WHEN 'all' THEN a.made_at
        ELSE date_trunc(v.per, clock.at, a.zone) END AS start OFFSET 0) present
      CROSS JOIN LATERAL (SELECT CASE v.per WHEN 'all' THEN NULL
        WHEN 'hour' THEN present.start + interval '1 hour'
        ELSE (date_trunc(v.per, clock.at AT TIME ZONE a.zone) + ('1 ' || v.per)::interval) AT TIME ZONE a.zone
        END AS ends OFFSET 0) latest
      CROSS JOIN LATERAL (SELECT CASE WHEN v.per <> 'all' THEN coalesce((
          SELECT min(latest.ends - earlier) FROM unnest('{0 min,30 min,1 hour,2 hours}'::interval[]) AS earlier
          WHERE latest.ends - earlier > clock.at AND date_trunc(v.per, latest.ends - earlier, a.zone) <> present.start),
        clock.at) END AS ends OFFSET 0) next`

/** SQL: which places of an agent an unspent grant has, as rows; `$1` is the owner. */
export const unspentPlaces = (handle: string, allowance: string): string => `
      SELECT h.place FROM allowance_held h
      LEFT JOIN LATERAL (SELECT consumed_at, returned_at FROM grants
        WHERE ${ownedBy('owner', '$1')} AND rpt_sha256 = h.rpt_sha256 OFFSET 0) g ON true
      WHERE ${ownedBy('h.owner', '$1')} AND h.allowance = ${allowance} AND h.handle = ${handle}
        AND g.consumed_at IS NULL AND g.returned_at IS NULL`

/** SQL: the lineage of the agent whose connection has this name in the statement. */
export const lineageIn = (as: string): string => `coalesce(${as}.lineage, ${as}.introduced_by, ${as}.handle)`

/** SQL: the lineage of an agent that has a connection, as a row with `whose`; `$1` is the owner. */
const lineageOf = (handle: string): string =>
  `(SELECT ${lineageIn('connections')} AS whose FROM connections
      WHERE owner = $1 AND handle = ${handle} OFFSET 0)`

const READ = prepared<UseRow>(
  'read-allowance-use',
  `SELECT a.id, a.version, a.zone, a.among, a.until, a.hold_s, a.content, lineage.whose,
      extract(epoch FROM clock.at)::float8 AS now,
      (SELECT count(*) FROM (${unspentPlaces('$3', '$2')}) unspent)::int AS unspent,
      EXISTS (SELECT FROM resources r WHERE ${ownedBy('r.owner', '$1')} AND r.resource_id = $5
        AND r.approval = 'signed') AS "signedOnly",
      coalesce((SELECT json_agg(json_build_object('of', v.of, 'per', v.per, 'max', v.max,
          'start', present.start::text, 'ends', next.ends::text, 'endsAt', extract(epoch FROM next.ends)::float8,
          'used', coalesce(w.used, 0)::text))
        FROM json_to_recordset(CASE json_typeof(a.content->'windows') WHEN 'array' THEN a.content->'windows'
          ELSE '[]' END) AS v(of text, per text, max text)${PRESENT}
      LEFT JOIN LATERAL (SELECT used FROM allowance_windows
        WHERE owner = $1 AND allowance = a.id AND whose = lineage.whose AND of = v.of AND per = v.per
          AND start = present.start OFFSET 0) w ON true
        WHERE v.per IN ('hour', 'day', 'week', 'month', 'all')), '[]') AS windows
    FROM (SELECT coalesce($6::timestamptz, clock_timestamp()) AS at OFFSET 0) clock
    JOIN LATERAL (SELECT * FROM allowances WHERE owner = $1 AND id = $2 OFFSET 0) a ON true
    LEFT JOIN LATERAL ${lineageOf('$3')} own ON true
    LEFT JOIN LATERAL ${lineageOf('$4')} introducer ON true
    CROSS JOIN LATERAL (SELECT CASE a.among WHEN 'all' THEN ''
      ELSE coalesce(own.whose, introducer.whose, $4, $3) END AS whose) lineage`,
)

/**
 * Reads an allowance of hers and its present windows, in one statement that takes no lock. `introducedBy`: an
 * agent without a connection is read as if that agent had just brought it in. `at`: the present is that
 * instant and not the clock's. @returns undefined if she has no such allowance, or if Postgres cannot read
 * it: another server than the one where it was saved may not know its zone.
 */
export async function readAllowanceUse(
  db: Db,
  owner: Owner,
  of: { id: string; handle: Handle; introducedBy?: Handle | undefined; resource_id: string; at?: string },
): Promise<AllowanceUse | undefined> {
  const { id, handle, introducedBy = null, resource_id, at = null } = of
  const { rows } = await READ(db, [owner, id, handle, introducedBy, resource_id, at]).catch(noneIfUnreadable)
  const [row] = rows
  if (row === undefined) return undefined
  const { whose, now, unspent, windows, signedOnly, ...stored } = row
  return { allowance: allowanceOf(stored), whose, now, unspent, windows, signedOnly }
}

/**
 * An unknown zone is an `invalid_parameter_value` to Postgres, as is a list of windows that is none. NUL
 * anywhere in JSON is an `untranslatable_character` as soon as a member of it is read.
 */
const UNREADABLE: readonly string[] = ['22023', '22P05']

/** Whether Postgres could not read an allowance. Each statement that goes by a zone may fail so. */
export function isUnreadable(error: unknown): boolean {
  return UNREADABLE.includes(sqlState(error) ?? '')
}

function noneIfUnreadable(error: unknown): { rows: UseRow[] } {
  if (isUnreadable(error)) return { rows: [] }
  throw error
}
