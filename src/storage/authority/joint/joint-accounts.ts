/**
 * The accounts that an owner holds jointly, and which of their resources are in her registry. Every change to
 * one holds the lock of her queue. Contract: "Tally for a jointly held resource" (on each holder's
 * authorization server).
 */
import { sql, type RawBuilder, type Selectable } from 'kysely'
import { jointServer } from '../../../rules/joint/joint.ts'
import type { CountedMandate } from '../../../rules/joint/mandate.ts'
import { CONSEQUENCES } from '../../../rules/permission.ts'
import type { Owner } from '../../../wire/identifiers.ts'
import type { OwnerResource } from '../../../wire/resources/owner-resources.ts'
import type { Db, Tx } from '../database.ts'
import type { JointAccountsTable } from './joint-tables.ts'

export type JointAccount = Selectable<JointAccountsTable>

/** What she agreed to about one account, or undefined. */
export function readJointAccount(db: Db, owner: Owner, account: Owner): Promise<JointAccount | undefined> {
  return db
    .selectFrom('joint_accounts')
    .selectAll()
    .where('owner', '=', owner)
    .where('account', '=', account)
    .executeTakeFirst()
}

/** All accounts that she holds jointly, by name. */
export function listJointAccounts(db: Db, owner: Owner): Promise<JointAccount[]> {
  return db.selectFrom('joint_accounts').selectAll().where('owner', '=', owner).orderBy('account').execute()
}

/** Writes what she agreed to, in place of what she agreed to before. */
export async function writeJointAccount(tx: Tx, owner: Owner, mandate: CountedMandate): Promise<void> {
  const { mandate_s256, ...agreed } = mandate
  const text = JSON.stringify(agreed)
  await sql`
    INSERT INTO joint_accounts (owner, account, tally, mandate, mandate_s256)
    VALUES (${owner}, ${mandate.account}, ${mandate.tally}, ${text}, ${mandate_s256})
    ON CONFLICT (owner, account) DO UPDATE SET mandate = excluded.mandate, mandate_s256 = excluded.mandate_s256,
      agreed_at = now(), changed_s256 = NULL, changed_told_at = NULL`.execute(tx)
}

/** Even a tally that alternates between two mandates cannot notify her more often. */
const NOTICE_INTERVAL_SECONDS = 3_600

/**
 * Records which mandate its tally serves instead; null means the one that she agreed to. @returns `isFirst`:
 * this is the first change from what she agreed to, not a later one; `isNews`: she should be notified, at
 * most once an hour, however often the mandate changes back and forth.
 */
export async function noteChangedMandate(
  tx: Tx,
  { owner, account, mandate_s256 }: Pick<JointAccount, 'owner' | 'account' | 'mandate_s256'>,
  changed_s256: string | null,
): Promise<{ isFirst: boolean; isNews: boolean }> {
  const isFirst = sql<boolean>`(was.before IS NULL AND ${changed_s256}::text IS NOT NULL)`
  const isNews = sql<boolean>`(${isFirst} AND was.was_due)`
  const { rows } = await sql<{ isFirst: boolean; isNews: boolean }>`
    UPDATE joint_accounts a SET changed_s256 = ${changed_s256},
      changed_told_at = CASE WHEN ${isNews} THEN clock_timestamp() ELSE a.changed_told_at END
    FROM (SELECT changed_s256 AS before, coalesce(changed_told_at, '-infinity')
        < clock_timestamp() - ${NOTICE_INTERVAL_SECONDS} * interval '1 second' AS was_due
      FROM joint_accounts WHERE owner = ${owner} AND account = ${account} FOR UPDATE) was
    WHERE a.owner = ${owner} AND a.account = ${account} AND a.mandate_s256 = ${mandate_s256}
      AND a.changed_s256 IS DISTINCT FROM ${changed_s256}
    RETURNING ${isFirst} AS "isFirst", ${isNews} AS "isNews"`.execute(tx)
  return rows[0] ?? { isFirst: false, isNews: false }
}

/**
 * Ends the holding: the account no longer registers anything, and her tiers stay. @returns whether there was
 * one.
 */
export async function endJointAccount(tx: Tx, owner: Owner, account: Owner): Promise<boolean> {
  await writeJointResources(tx, { owner, account }, [], 'never lower')
  const done = await sql`
    DELETE FROM joint_accounts WHERE owner = ${owner} AND account = ${account}`.execute(tx)
  return done.numAffectedRows === 1n
}

/** Whether an account has the name of an owner here, or of an owner's namespace. */
export async function isNameInUse(db: Db, name: string): Promise<boolean> {
  const row = await db
    .selectFrom('directory')
    .select('owner')
    .where('kind', '=', 'name')
    .where('key', '=', name)
    .executeTakeFirst()
  return row !== undefined
}

/** The first of these ids that belongs to another of her servers, or undefined. */
export async function knownElsewhere(
  db: Db,
  owner: Owner,
  account: Owner,
  ids: readonly string[],
): Promise<string | undefined> {
  const { rows } = await sql<{ resource_id: string }>`
    SELECT resource_id FROM resources
    WHERE owner = ${owner} AND resource_id = ANY(${[...ids]}::text[]) AND client_id <> ${jointServer(account)}
    ORDER BY resource_id LIMIT 1`.execute(db)
  return rows[0]?.resource_id
}

/**
 * Writes what an account registers: only what is listed. An unlisted resource that one of her tiers governs
 * stays, but without scopes, so that nobody gets access to it. A resource of another server is never
 * replaced. `never lower`: a consequence class may get graver, and a described resource never loses its
 * class, because her rules rest on it. Only she can accept a lower class, by agreeing to the mandate.
 */
export async function writeJointResources(
  tx: Tx,
  { owner, account }: { owner: Owner; account: Owner },
  listed: readonly OwnerResource[],
  classes: 'as served' | 'never lower',
): Promise<void> {
  const client_id = jointServer(account)
  const ids = listed.map(({ _id }) => _id)
  const rank = (of: string): RawBuilder<number> =>
    sql`coalesce(array_position(${[...CONSEQUENCES]}::text[], ${sql.ref(of)}), 0)`
  const consequence =
    classes === 'as served'
      ? sql`excluded.consequence`
      : sql`CASE WHEN ${rank('excluded.consequence')} < ${rank('r.consequence')} THEN r.consequence ELSE excluded.consequence END`
  await sql`
    DELETE FROM resources r
    WHERE r.owner = ${owner} AND r.client_id = ${client_id} AND r.resource_id <> ALL(${ids}::text[])
      AND NOT EXISTS (SELECT 1 FROM tier_resources tr
        WHERE tr.owner = r.owner AND tr.resource_id = r.resource_id)`.execute(tx)
  await sql`
    UPDATE resources SET resource_scopes = '{}', tools = NULL
    WHERE owner = ${owner} AND client_id = ${client_id} AND resource_id <> ALL(${ids}::text[])
      AND resource_scopes <> '{}'`.execute(tx)
  await sql`
    INSERT INTO resources AS r (owner, resource_id, client_id, name, type, resource_scopes, consequence, tools, source)
    SELECT ${owner}, l._id, ${client_id}, l.name, l.type,
      ARRAY(SELECT json_array_elements_text(l.resource_scopes)), l.consequence, NULL, 'joint'
    FROM json_to_recordset(${JSON.stringify(listed)}::json)
      AS l (_id text, name text, type text, resource_scopes json, consequence text)
    ON CONFLICT (owner, resource_id) DO UPDATE SET name = excluded.name, type = excluded.type,
      resource_scopes = excluded.resource_scopes, consequence = ${consequence}
    WHERE r.client_id = excluded.client_id
      AND (r.name, r.type, r.resource_scopes, r.consequence)
        IS DISTINCT FROM (excluded.name, excluded.type, excluded.resource_scopes, ${consequence})`.execute(tx)
}
