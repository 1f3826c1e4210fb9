/**
 * Tells whoever waits in this process that something happened to an owner, on whichever replica it did:
 * one LISTEN per process, fanned out by owner. It carries no facts, so waiters read the store again.
 * Contract: "Events".
 */
import { EVENTS_CHANNEL } from '../../storage/authority/events.ts'
import { listen, type Listener, type ListenOptions } from '../../storage/core/listen.ts'
import type { Owner } from '../../wire/identifiers.ts'

export interface Announcements {
  /**
   * Resolves true when something happened to the owner after the call, or may have while the database was
   * away; false when `ms` have passed.
   */
  next(owner: Owner, ms: number): Promise<boolean>
  /** Has `wake` called whenever it did, or may have, until what is returned is called. */
  watch(owner: Owner, wake: () => void): () => void
  close(): Promise<void>
}

/** Starts listening; rejects where Postgres cannot be reached. */
export async function startAnnouncements(
  around: Pick<ListenOptions, 'url' | 'onError' | 'onClock'>,
): Promise<Announcements> {
  const waiters = new Map<string, Set<() => void>>()
  const wake = (owner: string) => {
    for (const waiter of waiters.get(owner) ?? []) waiter()
  }
  const wakeAll = () => {
    for (const owner of waiters.keys()) wake(owner)
  }
  const listener: Listener = await listen({
    ...around,
    channel: EVENTS_CHANNEL,
    onNotify: wake,
    onConnect: wakeAll,
  })

  const watch = (owner: Owner, waiter: () => void): (() => void) => {
    const set = waiters.get(owner) ?? new Set()
    waiters.set(owner, set.add(waiter))
    return () => {
      set.delete(waiter)
      if (set.size === 0 && waiters.get(owner) === set) waiters.delete(owner)
    }
  }
  return {
    watch,
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
