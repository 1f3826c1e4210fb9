/**
 * Owns how much of a pool one owner may hold: at most half. Further requests wait before a connection is
 * taken, not with one in hand. Contract: "What the service does" (many owners at one authority): load on one
 * owner must not slow another.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import type { Pool, PoolClient, QueryConfig, QueryResult, QueryResultRow } from 'pg'

const acting = new AsyncLocalStorage<string | undefined>()

/** Runs `work`, and whatever it awaits, on behalf of an owner: the connections it takes count as hers. */
export function onBehalfOf<T>(owner: string, work: () => T): T {
  return acting.run(owner, work)
}

/**
 * The owner on whose behalf this runs; undefined if on nobody's.
 * @internal
 */
export function actingOwner(): string | undefined {
  return acting.getStore()
}

/** A pool in which nobody has more than a share. Work on behalf of no owner is not counted. */
export interface SharedPool {
  /** The options of the pool. */
  readonly options: object
  connect(): Promise<PoolClient>
  /** Runs one statement, which is a transaction by itself. */
  query<Row extends QueryResultRow>(statement: QueryConfig): Promise<QueryResult<Row>>
  end(): Promise<void>
}

export interface ShareOptions {
  /** Longest wait for a connection of the owner's own to come free, in milliseconds. */
  waitMs: number
  /** Whether a connection may be used again after a statement of it failed so. */
  survives: (error: unknown) => boolean
  /** Why nothing may be begun now; undefined if it may. Left out: nothing ever keeps anybody. */
  fault?: () => Error | undefined
}

/** How many of so many places one owner may have; one at least. */
export function halfOf(places: number): number {
  return Math.max(1, Math.floor(places / 2))
}

/** Gives each owner at most half of the connections that the pool may have. */
export function sharePool(pool: Pool, { waitMs, survives, fault }: ShareOptions): SharedPool {
  const lanes = createLanes(halfOf(pool.options.max), waitMs)
  const connect = async (): Promise<PoolClient> => {
    const because = fault?.()
    if (because !== undefined) throw because
    const owner = acting.getStore()
    if (owner === undefined) return pool.connect()
    await lanes.enter(owner)
    try {
      return releasing(await pool.connect(), () => lanes.leave(owner))
    } catch (error) {
      lanes.leave(owner)
      throw error
    }
  }
  return {
    options: pool.options,
    connect,
    query: async <Row extends QueryResultRow>(statement: QueryConfig) => {
      const client = await connect()
      try {
        const result = await client.query<Row>(statement)
        client.release()
        return result
      } catch (error) {
        client.release(!survives(error))
        throw error
      }
    },
    end: () => pool.end(),
  }
}

/** The pool gives a connection a new `release` each time it hands it out. */
function releasing(client: PoolClient, then: () => void): PoolClient {
  const release = client.release.bind(client)
  client.release = destroy => {
    client.release = release
    release(destroy)
    then()
  }
  return client
}

interface Lane {
  count: number
  /** In the order in which they came. */
  waiting: Set<() => void>
}

/** So many at a time of each owner; the rest wait their turn, and not for ever. */
function createLanes(
  width: number,
  waitMs: number,
): { enter(owner: string): Promise<void>; leave(owner: string): void } {
  const lanes = new Map<string, Lane>()
  return {
    enter: async owner => {
      const lane = lanes.get(owner) ?? { count: 0, waiting: new Set() }
      lanes.set(owner, lane)
      if (lane.count >= width) await turnIn(lane, waitMs)
      else lane.count++
    },
    leave: owner => {
      const lane = lanes.get(owner)!
      const [next] = lane.waiting
      // The next in line takes the place over.
      if (next !== undefined) return next()
      if (--lane.count === 0) lanes.delete(owner)
    },
  }
}

function turnIn({ waiting }: Lane, waitMs: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const take = (): void => {
      waiting.delete(take)
      clearTimeout(timer)
      resolve()
    }
    const timer = setTimeout(() => {
      waiting.delete(take)
      // An outage to `isOutage`.
      reject(Object.assign(new Error('too much is under way for this owner'), { code: 'ETIMEDOUT' }))
    }, waitMs)
    waiting.add(take)
  })
}
