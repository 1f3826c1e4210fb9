/**
 * Owns what follows once a transaction has committed. Listeners are told of the owners for whom it wrote what
 * others read in order. Holders of leases are waited for if it ended a grant. What the transaction asked for
 * itself is run. Knows no table.
 * Contract: "Events", "What the service does" (revocation is immediate).
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import type { ClientId, Owner } from '../../wire/identifiers.ts'
import { Refusal } from '../../wire/refusal.ts'
import { tellAs } from './notify.ts'
import { wholeOf } from './shares.ts'

type CommitListener = (owner: Owner) => void
type Follow = (db: object) => void
/** Counts, as the last of a transaction, the act that ended something of an owner's. */
type CountEnd = (tx: never, owner: Owner) => Promise<unknown>

/**
 * Waits until nobody uses any more what ended for an owner with a commit. Never fails, because what was
 * committed is done. @param db what it was committed through. @param committedAt when the commit had been
 * answered, by `performance.now()`.
 */
export type AwaitLeases = (db: never, owner: Owner, committedAt: number) => Promise<LeaseWait | undefined>

/** Who was waited for, and how long. */
export interface LeaseWait {
  holders: number
  /** Those of them that let go in time; the others have nothing left, since as much time has passed. */
  acknowledged: number
  waited_ms: number
  /** The resource servers of those others, each as often as it had one. */
  silent: readonly ClientId[]
}

const listeners = new WeakMap<object, CommitListener>()
const settlers = new WeakMap<object, AwaitLeases>()
const counters = new WeakMap<object, CountEnd>()
/** What open transactions asked for. */
const following = new WeakMap<object, Follow[]>()
const written = new WeakMap<object, Set<Owner>>()
const ended = new WeakMap<object, Set<Owner>>()
const watching = new AsyncLocalStorage<LeaseWait[]>()

/**
 * Has `listener` called after each commit through `db` of something that was `noted`, once for each owner.
 * One listener per database.
 */
export function afterCommit(db: object, listener: CommitListener): void {
  listeners.set(db, listener)
}

/**
 * Has `settle` awaited after each commit through `db` that ended something, once for each owner, before the
 * transaction returns. One per database.
 */
export function settleAfterCommit(db: object, settle: AwaitLeases): void {
  settlers.set(db, settle)
}

/**
 * Has `count` awaited at the end of each transaction through `db` that ended something, once for each owner.
 * One per database.
 */
export function countBeforeCommit(db: object, count: CountEnd): void {
  counters.set(db, count)
}

/**
 * Has `follow` called once this transaction has committed, with the database that it was made through, in
 * the order of these calls. `follow` may not throw.
 */
export function onceCommitted(tx: object, follow: Follow): void {
  const open = following.get(tx)
  if (open === undefined) throw new Error('Only what is done in a transaction is followed by something.')
  open.push(follow)
}

/**
 * Notes what was just written for an owner; it is announced when its transaction commits, or at once if it
 * was a statement by itself.
 */
export function announceOwner(db: object, owner: Owner): void {
  const open = written.get(db)
  if (open === undefined) listeners.get(wholeOf(db))?.(owner)
  else open.add(owner)
}

/**
 * Notes that a grant of an owner's ends, or may end, with this transaction. Call it even if nothing was left
 * to end: the process that ended it may have died before it waited.
 */
export function endsLeases(tx: object, owner: Owner): void {
  const open = ended.get(tx)
  if (open === undefined) throw new Error('A grant ends in a transaction, so that it can be waited for.')
  open.add(owner)
}

/**
 * Runs an act.
 * @returns its result, and the wait for leases that its commits caused; undefined if nobody was waited for.
 */
export async function withLeaseWait<T>(act: () => Promise<T>): Promise<[T, LeaseWait | undefined]> {
  const settled: LeaseWait[] = []
  const done = await watching.run(settled, act)
  const [first] = settled
  if (first === undefined) return [done, undefined]
  return [done, settled.slice(1).reduce(together, first)]
}

/** Adds up transactions that ran one after the other and waited for the same holders. */
function together(before: LeaseWait, after: LeaseWait): LeaseWait {
  return {
    holders: Math.max(before.holders, after.holders),
    acknowledged: Math.min(before.acknowledged, after.acknowledged),
    waited_ms: before.waited_ms + after.waited_ms,
    silent: before.acknowledged <= after.acknowledged ? before.silent : after.silent,
  }
}

/**
 * Runs work in a transaction of `db`, waits once that has committed for what ended with it, and announces the
 * rest meanwhile. @param run may run it several times, until one commits.
 */
export async function tellAfterCommit<Tx extends object, T>(
  db: object,
  run: (work: (tx: Tx) => Promise<T>) => Promise<T>,
  work: (tx: Tx) => Promise<T>,
): Promise<T> {
  const [owners, ending] = [new Set<Owner>(), new Set<Owner>()]
  const whole = wholeOf(db)
  let follows: Follow[] = []
  const done = await run(async tx => {
    owners.clear()
    ending.clear()
    follows = []
    following.set(tx, follows)
    tellAs(db, tx)
    written.set(tx, owners)
    ended.set(tx, ending)
    const done = await work(tx)
    for (const owner of ending) await counters.get(whole)?.(tx as never, owner)
    return done
  }).catch(async (error: unknown) => {
    // Perhaps nothing was left to end, because it ended before and nobody was waited for then.
    if (error instanceof Refusal) await settle(db, ending)
    throw error
  })
  const settled = settle(db, ending)
  for (const owner of owners) listeners.get(whole)?.(owner)
  for (const follow of follows) follow(whole)
  await settled
  return done
}

async function settle(db: object, owners: ReadonlySet<Owner>): Promise<void> {
  if (owners.size === 0) return
  const committedAt = performance.now()
  const settler = settlers.get(wholeOf(db))
  const each = [...owners].map(async owner => settler?.(db as never, owner, committedAt))
  for (const settled of await Promise.all(each)) if (settled !== undefined) watching.getStore()?.push(settled)
}
