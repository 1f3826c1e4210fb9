/**
 * Folded terms as they were offered; each version is kept for ever. Contract: "Terms document".
 */
import { sql } from 'kysely'
import { s256Json } from '../../wire/encoding.ts'
import type { Owner } from '../../wire/identifiers.ts'
import type { TermsVersion } from '../../wire/negotiation/terms.ts'
import type { Db } from './database.ts'

/** The content of terms, without the number that they get. */
export type UnnumberedTerms = Omit<TermsVersion, 'version' | 'published_at'>

/**
 * The version of these terms: their existing one if they were offered before, otherwise the next. Concurrent
 * callers get different numbers: the one that loses a number tries again.
 */
export async function publishTerms(db: Db, terms: UnnumberedTerms): Promise<TermsVersion> {
  const { owner: account } = terms
  const s256 = s256Json(terms as never)
  for (let attempt = 1; ; attempt++) {
    const known = await db
      .selectFrom('terms_versions')
      .select(['version', 'terms', 'published_at'])
      .where('account', '=', account)
      .where('s256', '=', s256)
      .executeTakeFirst()
    if (known !== undefined) return versionOf(known)
    await sql`
      INSERT INTO terms_versions (account, version, s256, terms)
      SELECT ${account}, coalesce(max(version), 0) + 1, ${s256}, ${JSON.stringify(terms)}
      FROM terms_versions WHERE account = ${account}
      ON CONFLICT DO NOTHING`.execute(db)
    if (attempt > ATTEMPTS_MAX) throw new Error(`terms of ${account} could not be given a number`)
  }
}

const ATTEMPTS_MAX = 20

/** A version that was ever offered, or undefined. */
export async function readTerms(db: Db, account: Owner, version: number): Promise<TermsVersion | undefined> {
  const row = await db
    .selectFrom('terms_versions')
    .select(['version', 'terms', 'published_at'])
    .where('account', '=', account)
    .where('version', '=', version)
    .executeTakeFirst()
  return row && versionOf(row)
}

/** The terms of the last offer, or undefined. */
export async function readLatestTerms(db: Db, account: Owner): Promise<TermsVersion | undefined> {
  const row = await db
    .selectFrom('terms_versions')
    .select(['version', 'terms', 'published_at'])
    .where('account', '=', account)
    .orderBy('version', 'desc')
    .limit(1)
    .executeTakeFirst()
  return row && versionOf(row)
}

function versionOf(row: { version: number; terms: UnnumberedTerms; published_at: string }): TermsVersion {
  return { ...row.terms, version: row.version, published_at: row.published_at }
}
