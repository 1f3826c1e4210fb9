/**
 * Wakes waiting callers on other replicas, by NOTIFY of Postgres; wakes none if replicas look by themselves.
 * Knows no table. Contract: "Events".
 */
import { CompiledQuery } from 'kysely'
import { wholeOf } from './shares.ts'

/** A connection or a transaction. */
interface Sender {
  executeQuery(query: CompiledQuery): Promise<unknown>
}

const silent = new WeakSet<object>()

/** Turns notifications about `db` off: every replica looks by itself, once a second. */
export function tellNobody(db: object): void {
  silent.add(db)
}

/** A transaction notifies the same replicas as its database. */
export function tellAs(db: object, tx: object): void {
  if (silent.has(wholeOf(db))) silent.add(tx)
}

/** Sends a name to all that listen, once the transaction commits. */
export async function notify(db: Sender, channel: string, name: string): Promise<void> {
  if (silent.has(wholeOf(db))) return
  await db.executeQuery(CompiledQuery.raw('SELECT pg_notify($1, $2)', [channel, name]))
}
