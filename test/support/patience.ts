/** Owns how patient a test is, and how patient a server is that it started. */

/**
 * How long its statements wait for a row that another holds, in milliseconds: below the 10 s that a
 * statement may take at all. With the product's 1.2 s, of 32 callers who want one row on a busy machine the
 * last are told of an outage, which is honest, and nothing that a race is about. Tests of that outage set it
 * themselves.
 */
export const LOCK_TIMEOUT_MS = 9_000

/**
 * A busy machine is not a fault: this is how long, in milliseconds, nothing that works takes, however much
 * else runs. Only where a test is to fail (test/faults) is it shorter, by `TEST_PATIENCE_MS`.
 */
export const PATIENCE_MS = Number(process.env['TEST_PATIENCE_MS'] ?? 60_000)
