/** Owns transactions of tests that nobody runs again: if two of them deadlock, the test must see it. */
import type { Db, Tx } from '../../src/storage/authority/database.ts'
import { tellAfterCommit } from '../../src/storage/core/after-commit.ts'

/** As `inTransaction`, and what follows the commit too, but without a second attempt. */
export function onlyOnce<T>(db: Db, work: (tx: Tx) => Promise<T>): Promise<T> {
  return tellAfterCommit<Tx, T>(db, once => db.transaction().execute(once), work)
}
