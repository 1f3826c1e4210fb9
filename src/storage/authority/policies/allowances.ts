/**
 * Owners' allowances: one row for each, which is edited and never deleted. Contract: "Policy vocabulary and
 * tiers"; an addition (docs/details/owner-api.md).
 */
import { sql, type Selectable } from 'kysely'
import { ALLOWANCES_MAX } from '../../../rules/allowance/allowance.ts'
import { BoundedMap } from '../../../limits/bounded-map.ts'
import { OWNER_ALLOWANCE, type OwnerAllowance } from '../../../wire/documents/allowance.ts'
import type { Owner } from '../../../wire/identifiers.ts'
import type { Db, Tx } from '../database.ts'
import { lockQueue } from '../owners/owners.ts'
import type { AllowancesTable } from '../tables.ts'

const COLUMNS = ['id', 'version', 'zone', 'among', 'until', 'hold_s', 'content'] as const

/** The allowance of a row, unchecked. */
export function allowanceOf({
  content,
  ...row
}: Pick<Selectable<AllowancesTable>, (typeof COLUMNS)[number]>): OwnerAllowance {
  return { ...row, ...content }
}

/** An allowance as Postgres writes JSON, but for its content, which is text. */
export type AllowanceJson = Pick<OwnerAllowance, 'id' | 'version' | 'zone' | 'among' | 'until' | 'hold_s'> & {
  content: string
}

/**
 * How many texts are remembered, and how long one may be: what values it lists takes many times as much
 * memory as its text.
 */
const TEXTS_MAX = 1_000
const TEXT_LENGTH_MAX = 2_000

const allowanceByText = new BoundedMap<string, OwnerAllowance | undefined>(TEXTS_MAX)

/**
 * The allowance of a row, checked; undefined if it is none. No answer rests on what is remembered here: each
 * agreement reads the row, and only what a text says is kept, under the whole of that text, because to check
 * a text takes longer than to read it.
 */
export function parseAllowance(json: AllowanceJson): OwnerAllowance | undefined {
  const text = JSON.stringify(json)
  if (allowanceByText.has(text)) return allowanceByText.get(text)
  const { content, until, ...members } = json
  const isoUntil = until && new Date(until).toISOString()
  const stored = { ...members, until: isoUntil, ...(JSON.parse(content) as object) }
  const allowance = OWNER_ALLOWANCE.safeParse(stored).data
  deepFreeze(allowance)
  if (text.length <= TEXT_LENGTH_MAX) allowanceByText.set(text, allowance)
  return allowance
}

/** Owners whose allowances have the same text share what it says, so nobody changes it. */
function deepFreeze(value: unknown): void {
  if (typeof value !== 'object' || value === null) return
  Object.freeze(value)
  for (const member of Object.values(value)) deepFreeze(member)
}

/** Her allowances after the given id, by id. */
export async function listAllowances(
  db: Db,
  owner: Owner,
  { after = '', limit }: { after?: string | undefined; limit: number },
): Promise<OwnerAllowance[]> {
  const rows = await db
    .selectFrom('allowances')
    .select(COLUMNS)
    .where('owner', '=', owner)
    .where('id', '>', after)
    .orderBy('id')
    .limit(limit)
    .execute()
  return rows.map(allowanceOf)
}

/** One allowance of hers, or undefined. */
export async function readAllowance(db: Db, owner: Owner, id: string): Promise<OwnerAllowance | undefined> {
  const row = await db
    .selectFrom('allowances')
    .select(COLUMNS)
    .where('owner', '=', owner)
    .where('id', '=', id)
    .executeTakeFirst()
  return row && allowanceOf(row)
}

/** Whether Postgres knows a time zone of this name: an abbreviation or an offset is none. */
export async function isZoneName(db: Db, name: string): Promise<boolean> {
  const { rows } = await sql`SELECT 1 FROM pg_timezone_names WHERE name = ${name} LIMIT 1`.execute(db)
  return rows.length === 1
}

/**
 * Stores the allowance under its `version`: 1 makes it, and any other takes the place of the version before.
 * Takes the owner's queue lock, so that edits of her allowances and of the tiers that name them are serial.
 * @returns `moved` if another version is stored than the one before, `full` if she has as many as she may.
 */
export async function storeAllowance(
  tx: Tx,
  owner: Owner,
  allowance: OwnerAllowance,
): Promise<'stored' | 'moved' | 'full'> {
  await lockQueue(tx, owner)
  const { id, version, zone, among, until, hold_s, amounts, windows, tiers } = allowance
  const content = JSON.stringify({ amounts, windows, tiers })
  const { numAffectedRows: stored } =
    version === 1
      ? await sql`
          INSERT INTO allowances (owner, id, version, zone, among, until, hold_s, content)
          SELECT ${owner}, ${id}, 1, ${zone}, ${among}, ${until}::timestamptz, ${hold_s}::int, ${content}::json
          WHERE (SELECT count(*) FROM allowances WHERE owner = ${owner}) < ${ALLOWANCES_MAX}
          ON CONFLICT (owner, id) DO NOTHING`.execute(tx)
      : await sql`
          UPDATE allowances
          SET version = ${version}, until = ${until}::timestamptz, hold_s = ${hold_s}, content = ${content}::json
          WHERE owner = ${owner} AND id = ${id} AND version = ${version - 1}`.execute(tx)
  if (stored === 1n) return 'stored'
  return version > 1 || (await readAllowance(tx, owner, id)) !== undefined ? 'moved' : 'full'
}
