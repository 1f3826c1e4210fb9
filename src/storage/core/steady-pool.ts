/**
 * Owns that a pool outlives what its URL names: a file that is gone is an outage of those who wait for a
 * connection. Contract: "Errors" (503).
 */
import { Pool, type PoolConfig } from 'pg'

/** One who waits for a connection, and is called back once. */
interface ConnectionWaiter {
  callback: (error: unknown, client: undefined, done: () => void) => void
}
interface PoolParts {
  newClient: (waiter: ConnectionWaiter) => void
  _pulseQueue: () => void
}
const PgPool = Pool as unknown as new (options: PoolConfig) => Pool & PoolParts

/**
 * A client reads the files that the URL names while it is made, and throws where one is gone. The pool of pg
 * makes clients in callbacks of its own, too: there that would end the process, and whoever waits would wait
 * for ever.
 */
export class SteadyPool extends PgPool {
  override newClient = (waiter: ConnectionWaiter): void => {
    try {
      PgPool.prototype.newClient.call(this, waiter)
    } catch (error) {
      process.nextTick(() => {
        waiter.callback(error, undefined, () => undefined)
        this._pulseQueue()
      })
    }
  }
}
