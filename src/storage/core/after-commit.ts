/**
 * Tells, once a transaction has committed, of which owners it wrote something that others read in order.
 * Knows no table. Contract: "Events".
 */
import type { Owner } from '../../wire/identifiers.ts'

type Listener = (owner: Owner) => void

const listeners = new WeakMap<object, Listener>()
/** Of transactions that are open. */
const written = new WeakMap<object, Set<Owner>>()

/**
 * Has `listener` called after each commit through `db` of something that was `noted`, once for each owner.
 * One listener per database.
 */
export function afterCommit(db: object, listener: Listener): void {
  listeners.set(db, listener)
}

/**
 * Notes what was just written to an owner; told when its transaction commits, at once where it was a
 * statement by itself.
 */
export function note(db: object, owner: Owner): void {
  const open = written.get(db)
  if (open === undefined) listeners.get(db)?.(owner)
  else open.add(owner)
}

/** Runs what is done in a transaction of `db` and returns once that has committed; then tells of it. */
export async function tellingAfter<Tx extends object, T>(
  db: object,
  run: (work: (tx: Tx) => Promise<T>) => Promise<T>,
  work: (tx: Tx) => Promise<T>,
): Promise<T> {
  const owners = new Set<Owner>()
  const done = await run(tx => {
    owners.clear()
    written.set(tx, owners)
    return work(tx)
  })
  for (const owner of owners) listeners.get(db)?.(owner)
  return done
}
