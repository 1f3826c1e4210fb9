/**
 * How much of an owner's allowances is used: windows of her calendar, and the places of the grants that hold
 * a share. Only reads, without a lock. Contract: "Policy vocabulary and tiers"; an addition
 * (docs/details/owner-api.md).
 */
import type { AllowancePeriod, OwnerAllowance } from '../../../wire/documents/allowance.ts'
import type { Handle, Owner } from '../../../wire/identifiers.ts'
import { ownedBy } from '../../core/batch.ts'
import { prepared, sqlState } from '../../core/database.ts'
import type { Db } from '../database.ts'
import { parseAllowance, type AllowanceJson } from './allowances.ts'

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
  /** Frozen, because whoever reads the same text shares it. */
  allowance: OwnerAllowance
  /** What its version says, as it is stored. */
  content: string
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

/** The same as `allowanceUse` answers it. */
export type AllowanceUseJson = Omit<AllowanceUse, 'allowance'> & AllowanceJson

/**
 * SQL: the present windows of the allowance `a` at the instant `at`, as rows with `of`, `per`, `max`, `start`
 * and `ends`. A day that begins twice, because the clock is set back across midnight, ends when the next
 * begins for the first time: no later instant is known to Postgres by that name, so those before it are
 * tried. Each value is made once, in a subquery that is not merged with the one around it; joins would cost
 * more.
 */
export const presentWindows = (at: string): string => `(
        SELECT of, per, max, start, CASE WHEN per <> 'all' THEN coalesce((
            SELECT min(bounded.latest - earlier) FROM unnest('{0 min,30 min,1 hour,2 hours}'::interval[]) AS earlier
            WHERE bounded.latest - earlier > ${at} AND date_trunc(per, bounded.latest - earlier, a.zone) <> start),
          ${at}) END AS ends
        FROM (SELECT of, per, max, start, CASE per WHEN 'all' THEN NULL
            WHEN 'hour' THEN start + interval '1 hour'
            ELSE (date_trunc(per, ${at} AT TIME ZONE a.zone) + ('1 ' || per)::interval) AT TIME ZONE a.zone
            END AS latest
          FROM (SELECT of, per, max, CASE per WHEN 'all' THEN a.made_at
              ELSE date_trunc(per, ${at}, a.zone) END AS start
            FROM json_to_recordset(CASE json_typeof(a.content->'windows') WHEN 'array' THEN a.content->'windows'
              ELSE '[]' END) AS listed(of text, per text, max text)
            WHERE per IN ('hour', 'day', 'week', 'month', 'all') OFFSET 0) begun
          OFFSET 0) bounded
        OFFSET 0)`

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

/**
 * SQL: the allowance that `asked` names, and its present windows, for the agent of `asked`, as JSON; null if
 * she has none of this id. `own` is the agent's connection, if it has one; `at` is the instant. `asked` has
 * `allowance`, `handle`, `introduced_by` and `resource_id`; `$1` is the owner. Each look-up is a subquery,
 * which is planned by itself, with the whole key.
 */
export const allowanceUse = (at: string): string => `(
      SELECT json_build_object('id', a.id, 'version', a.version, 'zone', a.zone, 'among', a.among, 'until', a.until,
        'hold_s', a.hold_s, 'content', a.content::text, 'whose', a.whose, 'now', extract(epoch FROM a.at)::float8,
        'unspent', (SELECT count(*) FROM (${unspentPlaces('asked.handle', 'a.id')}) unspent),
        'signedOnly', coalesce((SELECT r.approval = 'signed' FROM resources r
          WHERE ${ownedBy('r.owner', '$1')} AND r.resource_id = asked.resource_id), false),
        'windows', coalesce((SELECT json_agg(json_build_object('of', v.of, 'per', v.per, 'max', v.max,
            'start', v.start::text, 'ends', v.ends::text, 'endsAt', extract(epoch FROM v.ends)::float8,
            'used', coalesce((SELECT w.used FROM allowance_windows w
              WHERE w.owner = $1 AND w.allowance = a.id AND w.whose = a.whose AND w.of = v.of AND w.per = v.per
                AND w.start = v.start), 0)::text))
          FROM ${presentWindows('a.at')} v), '[]'))
      FROM (SELECT *, ${at} AS at, CASE among WHEN 'all' THEN '' ELSE coalesce(own.lineage, own.introduced_by,
          own.handle, ${lineageOf('asked.introduced_by')}, asked.introduced_by, asked.handle) END AS whose
        FROM allowances WHERE owner = $1 AND id = asked.allowance OFFSET 0) a)`

const READ = prepared<{ use: AllowanceUseJson | null }>(
  'read-allowance-use',
  `SELECT ${allowanceUse('coalesce($6::timestamptz, clock_timestamp())')} AS use
    FROM (SELECT $2::text AS allowance, $3::text AS handle, $4::text AS introduced_by, $5::text AS resource_id) asked
    LEFT JOIN LATERAL (SELECT * FROM connections WHERE owner = $1 AND handle = asked.handle OFFSET 0) own ON true`,
)

/**
 * Reads an allowance of hers and its present windows alone; an agreement reads them with the agent's standing
 * (`readStanding`). `introducedBy`: an agent without a connection is read as if that agent had just brought
 * it in. `at`: the present is that instant and not the clock's. @returns undefined if she has no such
 * allowance, or if it cannot be read.
 * @internal
 */
export async function readAllowanceUse(
  db: Db,
  owner: Owner,
  of: { id: string; handle: Handle; introducedBy?: Handle | undefined; resource_id: string; at?: string },
): Promise<AllowanceUse | undefined> {
  const { id, handle, introducedBy = null, resource_id, at = null } = of
  try {
    const { rows } = await READ(db, [owner, id, handle, introducedBy, resource_id, at])
    return useFrom(rows[0]!.use)
  } catch (error) {
    if (isUnreadable(error)) return undefined
    throw error
  }
}

/** What `allowanceUse` answered; undefined if there is no such allowance, or if it cannot be read. */
export function useFrom(json: AllowanceUseJson | null): AllowanceUse | undefined {
  if (json === null) return undefined
  const { whose, now, unspent, windows, signedOnly, ...stored } = json
  const allowance = parseAllowance(stored)
  return allowance && { allowance, content: stored.content, whose, now, unspent, windows, signedOnly }
}

/**
 * An unknown zone is an `invalid_parameter_value` to Postgres, as is a list of windows that is none. NUL
 * anywhere in JSON is an `untranslatable_character` as soon as a member of it is read.
 */
const UNREADABLE: readonly string[] = ['22023', '22P05']

/**
 * Whether Postgres could not read an allowance: another server than the one where it was saved may not know
 * its zone. Each statement that goes by a zone may fail so.
 */
export function isUnreadable(error: unknown): boolean {
  return UNREADABLE.includes(sqlState(error) ?? '')
}
