/**
 * Owns how much of a pool one owner may hold: at most half. Further requests wait before a connection is
 * taken, not with one in hand. Contract: "What the service does" (many owners at one authority): load on one
 * owner must not slow another.
 */
import type { Pool, PoolClient, QueryConfig, QueryResult, QueryResultRow } from 'pg'
import { BoundedMap } from '../../limits/bounded-map.ts'

/** The ways to one pool: on behalf of an owner, or of nobody. */
interface Ways<Way> {
  of: (owner: string) => Way
  ofNobody: Way
}
const waysOf = new WeakMap<object, Ways<object>>()
/** A way of an owner who is forgotten is made anew. */
const REMEMBERED_MAX = 1_000

/** Makes the ways to a pool, over `shareFor` of each owner. Each of them leads to the others. */
export function waysTo<Way extends object>(
  shareFor: (owner?: string) => SharedPool,
  make: (share: SharedPool) => Way,
): Ways<Way> {
  const hers = new BoundedMap<string, Way>(REMEMBERED_MAX)
  const of = (owner: string): Way => {
    const way = hers.get(owner) ?? make(shareFor(owner))
    hers.set(owner, way)
    waysOf.set(way, ways)
    return way
  }
  const ways = { of, ofNobody: make(shareFor()) }
  waysOf.set(ways.ofNobody, ways)
  return ways
}

/** The same database on behalf of nobody, by which it is known, whoever's it is; a transaction is itself. */
export function wholeOf<Way extends object>(db: Way): Way {
  return (waysOf.get(db)?.ofNobody as Way | undefined) ?? db
}

/** The same database on behalf of an owner; a transaction has its connection already, and is itself. */
export function shareOf<Way extends object>(db: Way, owner: string): Way {
  return (waysOf.get(db)?.of(owner) as Way | undefined) ?? db
}

const holders = new WeakMap<object, string>()

/** The owner on whose behalf this connection is taken now; undefined if on nobody's. */
export function holderOf(client: object): string | undefined {
  return holders.get(client)
}

/** A pool, on behalf of one owner, who has no more than her share; or of nobody, which is not counted. */
export interface SharedPool {
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
export function sharePool(
  pool: Pool,
  { waitMs, survives, fault }: ShareOptions,
): (owner?: string) => SharedPool {
  const lanes = createLanes(halfOf(pool.options.max), waitMs)
  const connectFor = async (owner: string | undefined): Promise<PoolClient> => {
    const because = fault?.()
    if (because !== undefined) throw because
    if (owner === undefined) return pool.connect()
    await lanes.enter(owner)
    try {
      return lend(owner, await pool.connect(), () => lanes.leave(owner))
    } catch (error) {
      lanes.leave(owner)
      throw error
    }
  }
  return owner => ({
    options: pool.options,
    connect: () => connectFor(owner),
    query: async <Row extends QueryResultRow>(statement: QueryConfig) => {
      const client = await connectFor(owner)
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
  })
}

/** The pool gives a connection a new `release` each time it hands it out. */
function lend(owner: string, client: PoolClient, then: () => void): PoolClient {
  const release = client.release.bind(client)
  holders.set(client, owner)
  client.release = destroy => {
    holders.delete(client)
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
