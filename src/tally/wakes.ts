/**
 * Wakes waiting callers in this process when something happened to an account, on any replica. It carries no
 * facts, so waiters read the store again. Contract: "Permission ticket" (polls that are held).
 */
import type { Owner } from '../wire/identifiers.ts'

export interface Wakes {
  /** Resolves when something happened to the account after the call, or after so many ms. */
  next(account: Owner, ms: number): Promise<void>
  /** Wakes the callers that wait for an account; all callers, if none is named. */
  wake(account?: string): void
}

/** Nobody waits yet. */
export function createWakes(): Wakes {
  const waiters = new Map<string, Set<() => void>>()
  return {
    next: (account, ms) =>
      new Promise(resolve => {
        const set = waiters.get(account) ?? new Set()
        const settle = (): void => {
          clearTimeout(timer)
          set.delete(settle)
          if (set.size === 0 && waiters.get(account) === set) waiters.delete(account)
          resolve()
        }
        const timer = setTimeout(settle, ms)
        waiters.set(account, set.add(settle))
      }),
    wake: account => {
      const woken = account === undefined ? [...waiters.values()] : [waiters.get(account) ?? new Set()]
      for (const settle of woken.flatMap(set => [...set])) settle()
    },
  }
}
