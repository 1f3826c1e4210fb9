/**
 * Wakes the callers in this process that wait for an owner, when something happened to her on any replica.
 * There is one LISTEN per process, fanned out by owner. It carries no facts, so waiters read the store again.
 * Contract: "Events".
 */
import { DUE_CHANNEL, type DueKind } from '../../../storage/authority/due.ts'
import { EVENTS_CHANNEL } from '../../../storage/authority/ledger/events.ts'
import { LEASES_CHANNEL } from '../../../storage/authority/grants/leases.ts'
import { listen, type Listener, type ListenOptions } from '../../../storage/core/listen.ts'
import type { Owner } from '../../../wire/identifiers.ts'

export interface Announcements {
  /**
   * Resolves true when something happened to the owner after the call, or may have happened while the
   * database was unreachable; false when `ms` have passed.
   */
  next(owner: Owner, ms: number): Promise<boolean>
  /**
   * Calls `wake` whenever something happened, or may have happened, until the returned function is called.
   */
  watch(owner: Owner, wake: () => void): () => void
  /** The same, of sidecars that hold leases and must let go: of nothing else, for that is often. */
  watchLeases(owner: Owner, wake: () => void): () => void
  /** The same, of work that was made due for any owner. */
  watchDue(kind: DueKind, wake: () => void): () => void
  close(): Promise<void>
}

/** Starts listening; rejects if Postgres cannot be reached. */
export async function startAnnouncements(
  options: Pick<ListenOptions, 'url' | 'onError' | 'onClock' | 'polls'>,
): Promise<Announcements> {
  const events = createWaiters()
  const leases = createWaiters()
  const due = createWaiters()
  const wakeAll = () => {
    for (const waiters of [events, leases, due]) waiters.wakeAll()
  }
  const listener: Listener = await listen({
    ...options,
    channel: EVENTS_CHANNEL,
    onNotify: owner => events.wake(owner),
    others: { [LEASES_CHANNEL]: owner => leases.wake(owner), [DUE_CHANNEL]: kind => due.wake(kind) },
    onConnect: wakeAll,
  })
  const { watch } = events
  return {
    watch,
    watchLeases: leases.watch,
    watchDue: due.watch,
    next: (owner, ms) =>
      new Promise(resolve => {
        const settle = (happened: boolean) => {
          clearTimeout(timer)
          unwatch()
          resolve(happened)
        }
        const timer = setTimeout(() => settle(false), ms)
        const unwatch = watch(owner, () => settle(true))
      }),
    async close() {
      wakeAll()
      await listener.close()
    },
  }
}

interface Waiters {
  watch: (name: string, wake: () => void) => () => void
  wake(name: string): void
  wakeAll(): void
}

function createWaiters(): Waiters {
  const waiters = new Map<string, Set<() => void>>()
  const wake = (owner: string): void => {
    for (const waiter of waiters.get(owner) ?? []) waiter()
  }
  return {
    wake,
    wakeAll: () => {
      for (const owner of waiters.keys()) wake(owner)
    },
    watch: (owner, waiter) => {
      const set = waiters.get(owner) ?? new Set()
      waiters.set(owner, set.add(waiter))
      return () => {
        set.delete(waiter)
        if (set.size === 0 && waiters.get(owner) === set) waiters.delete(owner)
      }
    },
  }
}
