/**
 * What a session must be so that its commits are acknowledged only once a synchronous standby has them.
 * Contract: "What the service does" (what was acknowledged holds), "Errors": a commit of which nobody knows
 * whether a standby has it is an outage.
 */
import type { Client } from 'pg'

/**
 * Makes commits of this session wait until a standby flushed them, whatever the server is set to. A session
 * that waits for more, until they are applied there, keeps doing so.
 */
export const WAITS_FOR_STANDBY = `SELECT set_config('synchronous_commit',
  CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false)`

/** The routine of Postgres that ends a wait for the standby, and leaves the commit on the primary alone. */
const WAIT_CANCELLED = 'SyncRepWaitForLSN'

/** Whether a standby is heard from: undefined if it is, otherwise the outage that every answer is. */
interface StandbyState {
  fault: () => Error | undefined
}

/** An error that `isOutage` takes for an outage. */
export function noStandby(because: string): Error {
  const message = `no synchronous standby has what would be acknowledged: ${because}`
  return Object.assign(new Error(message), { code: 'ENOSTANDBY' })
}

/** A commit whose wait Postgres gave up. An outage to `isOutage`. */
export class Unreplicated extends Error {
  readonly code = 'ENOSTANDBY'
  constructor() {
    super('no synchronous standby has what would be acknowledged: it did not answer a commit in time')
  }
}

/**
 * Connections of this class give an answer out only while the standby is heard from, and no commit that it
 * does not have: one whose wait was ended (a statement timeout, `pg_cancel_backend`) succeeds to Postgres,
 * with a warning. The caller gets an outage, after which nobody knows whether it was done.
 */
export function withStandby(Base: typeof Client, standby: StandbyState): typeof Client {
  return class extends Base {
    #unreplicated = false
    constructor(...args: ConstructorParameters<typeof Client>) {
      super(...args)
      this.on('notice', ({ routine }: { routine?: string | undefined }) => {
        if (routine === WAIT_CANCELLED) this.#unreplicated = true
      })
    }
    override query(...args: never): never {
      const answer: unknown = super.query(...(args as [never]))
      if (!(answer instanceof Promise)) return answer as never
      return answer.then((result: unknown) => {
        const fault = this.#unreplicated ? new Unreplicated() : standby.fault()
        this.#unreplicated = false
        if (fault !== undefined) throw fault
        return result
      }) as never
    }
  }
}
