/**
 * How much of an owner's allowances is used, as she reads it: of each present window what was taken, and the
 * part of it that unspent grants hold. Only reads, without a lock, and a bounded number of rows, whatever she
 * has. Contract: "Owner API", "Policy vocabulary and tiers"; an addition (docs/details/owner-api.md).
 */
import type { Selectable } from 'kysely'
import type { AllowancePeriod, OwnerAllowance } from '../../../wire/documents/allowance.ts'
import type { Owner } from '../../../wire/identifiers.ts'
import { inIndexOrder, ownedBy } from '../../core/batch.ts'
import type { KeyPage } from '../../core/columns.ts'
import { prepared } from '../../core/database.ts'
import type { Db } from '../database.ts'
import type { AllowancesTable } from '../tables.ts'
import { isUnreadable, presentWindows } from './allowance-windows.ts'
import { allowanceOf, listAllowances, readAllowance } from './allowances.ts'

/** How many lineages of one allowance are read. */
const LINEAGES_MAX = 100
/** How many places of one allowance are read: all that a hundred agents have. */
const PLACES_MAX = 500
/** How many windows an allowance may have. */
const WINDOWS_MAX = 8

/** The present window of an `of` and a `per`; times are ISO 8601. */
interface PresentWindow {
  of: string
  per: AllowancePeriod
  max: string
  starts: string
  /** When the next begins; null for `all`, which has no end. */
  ends: string | null
}

/** What is used of a present window, as decimal text. */
interface WindowReading extends PresentWindow {
  used: string
  /** The part of it that unspent grants hold; of the places that were read. */
  unspent: string
}

/** An allowance of hers and what is used of its present windows. */
export interface AllowanceReading {
  /** As it is stored. */
  allowance: OwnerAllowance
  /**
   * One entry, whose `whose` is empty, if all her agents share one set of windows; otherwise one for each
   * lineage that used something in one of them, the most recent first. None if it cannot be read here.
   */
  use: { whose: string; windows: WindowReading[] }[]
  /** There are more lineages than were read. */
  moreLineages: boolean
  /** There are more places of unspent grants than were read. */
  moreUnspent: boolean
}

interface WindowAmount {
  whose: string
  of: string
  per: string
  amount: string
}

type UsesRow = Pick<
  Selectable<AllowancesTable>,
  'id' | 'version' | 'zone' | 'among' | 'until' | 'hold_s' | 'content'
> & {
  present: PresentWindow[]
  lineages: string[]
  used: WindowAmount[]
  places: number
  unspent: WindowAmount[]
}

/** SQL: the present windows of `p` as rows `s`. */
const WINDOW_ROWS = 'json_to_recordset(p.present) AS s(of text, per text, starts timestamptz)'

/**
 * SQL: how long before it begins a window may have been taken of. A day whose midnight comes twice begins
 * with the second one, and is taken of from the first one on; the time of a use is that of its minute.
 */
const BEFORE_IT_BEGINS = `interval '3 hours'`

/**
 * SQL: rows of present windows of `a`, the one that was taken of last first. A lineage has one for each
 * window, so these are enough for the lineages that are read. `which` bounds the part of the index that is
 * read.
 */
const usedWindows = (which: string): string => `
          SELECT w.whose, w.used_at FROM allowance_windows w
          WHERE w.owner = $1 AND w.allowance = a.id AND w.whose <> '' AND w.used > 0 AND ${which}
            AND (SELECT true FROM ${WINDOW_ROWS}
              WHERE s.of = w.of AND s.per = w.per AND s.starts = w.start LIMIT 1)
          ORDER BY w.used_at DESC NULLS LAST LIMIT ${(LINEAGES_MAX + 1) * WINDOWS_MAX}`

/**
 * SQL: the lineages that took of a present window of `a` lately, as an array. A window stays for a day after
 * its end, so what was taken of last before the first of the present ones began is not read. A window that a
 * program from before migration 45 took of last has no time, and there are few of them.
 */
const LINEAGES = `ARRAY(
        SELECT recent.whose FROM (
          (${usedWindows(`w.used_at >= (SELECT min(s.starts) - ${BEFORE_IT_BEGINS} FROM ${WINDOW_ROWS})`)})
          UNION ALL
          (${usedWindows('w.used_at IS NULL')})) recent
        GROUP BY recent.whose ORDER BY max(recent.used_at) DESC NULLS LAST, recent.whose LIMIT ${LINEAGES_MAX + 1})`

/**
 * SQL: what the unspent grants hold that have a place of `a`, until each is spent or its share went back. The
 * order is that of the key, so that no other index is read.
 */
const UNSPENT = `
      WITH places AS MATERIALIZED (
        SELECT h.whose, h.rpt_sha256, h.shares FROM allowance_held h WHERE h.owner = $1 AND h.allowance = a.id
        ORDER BY h.handle, h.place LIMIT ${PLACES_MAX + 1})
      SELECT (SELECT count(*) FROM places)::int AS places,
        coalesce((SELECT json_agg(json_build_object('whose', one.whose, 'of', one.of, 'per', one.per,
            'amount', trim_scale(one.amount)::text))
          FROM (SELECT h.whose, s.of, s.per, sum(taken.amount) AS amount
            FROM places h
            JOIN LATERAL (SELECT FROM grants WHERE ${ownedBy('owner', '$1')} AND rpt_sha256 = h.rpt_sha256
              AND consumed_at IS NULL AND returned_at IS NULL OFFSET 0) g ON true
            CROSS JOIN LATERAL json_to_recordset(h.shares)
              AS taken(of text, per text, start timestamptz, amount numeric)
            JOIN ${WINDOW_ROWS} ON s.of = taken.of AND s.per = taken.per AND s.starts = taken.start
            GROUP BY h.whose, s.of, s.per) one), '[]') AS unspent`

/** `$1` is the owner; `which` is the SQL that chooses among her allowances. */
const usesStatement = (name: string, which: string) =>
  prepared<UsesRow>(
    name,
    `SELECT a.id, a.version, a.zone, a.among, a.until, a.hold_s, a.content, p.present, l.lineages, u.used,
      h.places, h.unspent
    FROM (SELECT clock_timestamp() AS at OFFSET 0) clock
    JOIN LATERAL (SELECT * FROM allowances WHERE owner = $1 AND ${which} OFFSET 0) a ON true
    CROSS JOIN LATERAL (
      SELECT coalesce(json_agg(json_build_object('of', v.of, 'per', v.per, 'max', v.max, 'starts', v.start,
        'ends', v.ends)), '[]') AS present
      FROM ${presentWindows('clock.at')} v OFFSET 0) p
    CROSS JOIN LATERAL (
      SELECT CASE a.among WHEN 'all' THEN ARRAY[''] ELSE ${LINEAGES} END AS lineages OFFSET 0) l
    CROSS JOIN LATERAL (
      SELECT coalesce(json_agg(json_build_object('whose', one.whose, 'of', s.of, 'per', s.per,
        'amount', trim_scale(w.used)::text)), '[]') AS used
      FROM unnest(l.lineages) AS one(whose) CROSS JOIN ${WINDOW_ROWS}
      JOIN LATERAL (SELECT used FROM allowance_windows
        WHERE owner = $1 AND allowance = a.id AND whose = one.whose AND of = s.of AND per = s.per
          AND start = s.starts OFFSET 0) w ON true OFFSET 0) u
    CROSS JOIN LATERAL (${UNSPENT}) h
    ORDER BY a.id`,
  )

const READ_ONE = usesStatement('read-allowance-uses', 'id = $2')
const READ_PAGE = usesStatement('list-allowance-uses', 'id > $2 ORDER BY id LIMIT $3')

/** Her allowances after the given id, by id, with what is used of each. */
export async function listUses(db: Db, owner: Owner, page: KeyPage): Promise<AllowanceReading[]> {
  const { after = '', limit } = page
  const { rows } = await inIndexOrder(db, tx => READ_PAGE(tx, [owner, after, limit])).catch(unlessUnreadable)
  if (rows !== undefined) return rows.map(readingOf)
  // One of them cannot be read, which must not hide the others.
  const readings: AllowanceReading[] = []
  for (const { id } of await listAllowances(db, owner, page)) {
    const reading = await readUses(db, owner, id)
    if (reading !== undefined) readings.push(reading)
  }
  return readings
}

/** One allowance of hers with what is used of it, or undefined. */
export async function readUses(db: Db, owner: Owner, id: string): Promise<AllowanceReading | undefined> {
  const { rows } = await inIndexOrder(db, tx => READ_ONE(tx, [owner, id])).catch(unlessUnreadable)
  if (rows !== undefined) return rows[0] && readingOf(rows[0])
  const allowance = await readAllowance(db, owner, id)
  return allowance && { allowance, use: [], moreLineages: false, moreUnspent: false }
}

function unlessUnreadable(error: unknown): { rows: undefined } {
  if (isUnreadable(error)) return { rows: undefined }
  throw error
}

function readingOf({ present, lineages, used, places, unspent, ...stored }: UsesRow): AllowanceReading {
  const [usedIn, unspentIn] = [amountsOf(used), amountsOf(unspent)]
  const windows = present.map(({ starts, ends, ...window }) => ({
    ...window,
    starts: isoTime(starts),
    ends: ends === null ? null : isoTime(ends),
  }))
  return {
    allowance: allowanceOf(stored),
    use: lineages.slice(0, LINEAGES_MAX).map(whose => ({
      whose,
      windows: windows.map(window => ({
        ...window,
        used: usedIn(whose, window),
        unspent: unspentIn(whose, window),
      })),
    })),
    moreLineages: lineages.length > LINEAGES_MAX,
    moreUnspent: places > PLACES_MAX,
  }
}

/** A window without a row has used nothing. */
function amountsOf(
  amounts: readonly WindowAmount[],
): (whose: string, window: Pick<WindowAmount, 'of' | 'per'>) => string {
  // Neither the name of an amount nor a span has a blank.
  const keyOf = (whose: string, { of, per }: Pick<WindowAmount, 'of' | 'per'>): string =>
    `${of} ${per} ${whose}`
  const known = new Map(amounts.map(one => [keyOf(one.whose, one), one.amount]))
  return (whose, window) => known.get(keyOf(whose, window)) ?? '0'
}

function isoTime(text: string): string {
  return new Date(text).toISOString()
}
