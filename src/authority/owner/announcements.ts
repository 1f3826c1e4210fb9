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
   * away; false when `ms` have passed or the signal aborted.
   */
  next(owner: Owner, ms: number, signal?: AbortSignal): Promise<boolean>
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

  return {
    next(owner, ms, signal) {
      return new Promise(resolve => {
        if (signal?.aborted === true) return resolve(false)
        const set = waiters.get(owner) ?? new Set()
        waiters.set(owner, set)
        const settle = (happened: boolean) => {
          clearTimeout(timer)
          set.delete(happen)
          if (set.size === 0) waiters.delete(owner)
          signal?.removeEventListener('abort', abort)
          resolve(happened)
        }
        const happen = () => settle(true)
        const abort = () => settle(false)
        const timer = setTimeout(() => settle(false), ms)
        set.add(happen)
        signal?.addEventListener('abort', abort, { once: true })
      })
    },
    async close() {
      wakeAll()
      await listener.close()
    },
  }
}
