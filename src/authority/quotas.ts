/**
 * Counts what was refused because an owner had reached a limit. Contract: "Limits", "Health": no number names
 * an owner.
 */

/** The things that an owner may have only a limited number of. */
export type Quota =
  | 'grants'
  | 'streams'
  | 'waiting'
  | 'resource_servers'
  | 'questions'
  | 'subscriptions'
  | 'passkeys'

export interface Quotas {
  /** Counts one more refusal. */
  reached(quota: Quota): void
  /** From now on, `tell` is called for each refusal, too. */
  listen(tell: (quota: Quota) => void): void
}

/** Reports to nobody until a listener is set. */
export function createQuotas(): Quotas {
  const listeners: ((quota: Quota) => void)[] = []
  return {
    reached: quota => {
      for (const tell of listeners) tell(quota)
    },
    listen: tell => void listeners.push(tell),
  }
}
