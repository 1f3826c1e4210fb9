/**
 * Batches what is asked of Postgres at the same time. Contract: "Grant (RPT) liveness": nothing is
 * remembered, and no request joins a statement that was sent earlier, so each sees everything that was
 * committed before it. Owns, too, how statements are written that find a few rows among many.
 */
import { CompiledQuery } from 'kysely'
import { type Db, inTransaction, isOutage, sqlState, type Tx } from './database.ts'
import { halfOf, shareOf, wholeOf } from './shares.ts'

export interface GatheringOptions<Key> {
  /** The owner of the request. At most half of the statements at once are one owner's. */
  owner: (key: Key) => string
  /**
   * Those of one group alone share a statement. No statement crosses owners, so it names the owner; the owner
   * herself when left out.
   */
  group?: (key: Key) => string
  /** Most of them in one statement. */
  together: number
  /** Most statements of one group at once; as many as an owner has when left out. */
  ofGroupAtOnce?: number
  /** Most statements at once; what comes meanwhile waits for one to end and goes with the next. */
  atOnce: number
  /**
   * Longest wait for one to end, in milliseconds; 5,000 when left out, as long as for a connection of the
   * pool.
   */
  waitMs?: number
}

const WAIT_MS = 5_000

interface BatchQuestion<Key, Answer> {
  key: Key
  group: string
  /** When it began to wait, by `performance.now()`. */
  since: number
  resolve: (answer: Answer) => void
  reject: (error: unknown) => void
}

/** The failure of one request must not fail the others that share its statement. */
function isRefusedByPostgres(error: unknown): boolean {
  return sqlState(error) !== undefined && !isOutage(error)
}

/** An outage to `isOutage`. */
function waitedTooLong(): Error {
  return Object.assign(new Error('the statements before this one did not end in time'), { code: 'ETIMEDOUT' })
}

/** So many places, of which one owner, or one group, has at most `each`. */
function placesOf(
  atOnce: number,
  each: number,
): {
  has: (name: string) => boolean
  take: (name: string) => void
  give: (name: string) => void
} {
  const counts = new Map<string, number>()
  let all = 0
  const change = (name: string, by: 1 | -1): void => {
    all += by
    const now = (counts.get(name) ?? 0) + by
    if (now === 0) counts.delete(name)
    else counts.set(name, now)
  }
  return {
    has: name => all < atOnce && (counts.get(name) ?? 0) < each,
    take: name => change(name, 1),
    give: name => change(name, -1),
  }
}

async function sendOneByOne<Key, Answer>(
  lookUp: (keys: Key[]) => Promise<Answer[]>,
  questions: readonly BatchQuestion<Key, Answer>[],
): Promise<void> {
  let lost: unknown
  for (const { key, resolve, reject } of questions) {
    // A server that is lost would let each of them wait in turn.
    if (lost !== undefined) reject(lost)
    else
      await lookUp([key]).then(
        ([answer]) => resolve(answer!),
        (error: unknown) => {
          if (isOutage(error)) lost = error
          reject(error)
        },
      )
  }
}

/**
 * A look-up of one, or a write of one, made of one of many that answers in the order of its keys. If Postgres
 * refuses a statement, nothing of it was done, and each request is sent again by itself. If the statement is
 * lost, it is lost for all requests in it, and for no other. A request that waited longer than `waitMs` is
 * never sent; it fails as an outage. So a silent database fails every caller quickly, and requests that
 * callers gave up long ago do not delay others when it is back.
 */
export function gathering<Key, Answer>(
  lookUp: (keys: Key[]) => Promise<Answer[]>,
  { owner, group = owner, together, atOnce, ofGroupAtOnce = atOnce, waitMs = WAIT_MS }: GatheringOptions<Key>,
): (key: Key) => Promise<Answer> {
  const places = placesOf(atOnce, halfOf(atOnce))
  const placesInGroup = placesOf(atOnce, ofGroupAtOnce)
  let waiting: BatchQuestion<Key, Answer>[] = []
  let scheduled: NodeJS.Immediate | undefined
  let giveUpTimer: NodeJS.Timeout | undefined

  const send = (): void => {
    scheduled = undefined
    for (let first = nextInTurn(); first !== undefined; first = nextInTurn())
      void sendTogether(takeGroupOf(first))
    if (waiting.length > 0) giveUpTimer ??= setTimeout(giveUp, waitMs).unref()
  }
  /** The request that has waited longest, among owners and groups that may have one more statement. */
  const nextInTurn = (): BatchQuestion<Key, Answer> | undefined =>
    waiting.find(({ key, group: name }) => places.has(owner(key)) && placesInGroup.has(name))
  /** That request, and those of the same group behind it, up to the bound; the others keep their order. */
  const takeGroupOf = (first: BatchQuestion<Key, Answer>): BatchQuestion<Key, Answer>[] => {
    const batch: BatchQuestion<Key, Answer>[] = []
    const left: BatchQuestion<Key, Answer>[] = []
    for (const question of waiting) {
      const joins = batch.length < together && question.group === first.group
      ;(joins ? batch : left).push(question)
    }
    waiting = left
    return batch
  }
  const schedule = (): void => {
    scheduled ??= setImmediate(send)
  }
  /** Those who wait are in the order in which they came. */
  const giveUp = (): void => {
    giveUpTimer = undefined
    const now = performance.now()
    const inTime = waiting.findIndex(({ since }) => now - since < waitMs)
    const late = waiting.splice(0, inTime < 0 ? waiting.length : inTime)
    for (const { reject } of late) reject(waitedTooLong())
    if (waiting.length > 0) giveUpTimer = setTimeout(giveUp, waitMs - (now - waiting[0]!.since)).unref()
  }
  const sendTogether = async (questions: BatchQuestion<Key, Answer>[]): Promise<void> => {
    const { key, group: name } = questions[0]!
    places.take(owner(key))
    placesInGroup.take(name)
    try {
      const answers = await lookUp(questions.map(({ key }) => key))
      questions.forEach(({ resolve }, place) => resolve(answers[place]!))
    } catch (error) {
      if (questions.length > 1 && isRefusedByPostgres(error)) await sendOneByOne(lookUp, questions)
      else for (const { reject } of questions) reject(error)
    } finally {
      places.give(owner(key))
      placesInGroup.give(name)
      if (waiting.length > 0) schedule()
    }
  }
  return key =>
    new Promise((resolve, reject) => {
      waiting.push({ key, group: group(key), since: performance.now(), resolve, reject })
      schedule()
    })
}

/**
 * Like `gathering`, for any database or transaction: only requests to the same one are batched together. In a
 * database, the look-up takes the share of the owner whom it is about, whoever asks.
 */
export function gatheringOf<Source extends object, Key, Answer>(
  lookUp: (source: Source, keys: Key[]) => Promise<Answer[]>,
  options: GatheringOptions<Key>,
): (source: Source, key: Key) => Promise<Answer> {
  const gatherings = new WeakMap<Source, (key: Key) => Promise<Answer>>()
  return (source, key) => {
    const whole = wholeOf(source)
    let ask = gatherings.get(whole)
    if (ask === undefined) {
      ask = gathering(keys => lookUp(shareOf(whole, options.owner(keys[0]!)), keys), options)
      gatherings.set(whole, ask)
    }
    return ask(key)
  }
}

/**
 * Like `lookUp`; if several ask for the same thing, it is asked once. They share the answer, so nobody
 * changes it.
 */
export function onceEach<Source, Key, Answer>(
  lookUp: (source: Source, keys: Key[]) => Promise<Answer[]>,
  nameOf: (key: Key) => string,
): (source: Source, keys: Key[]) => Promise<Answer[]> {
  return async (source, keys) => {
    const names = keys.map(nameOf)
    const different = new Map(keys.map((key, n) => [names[n]!, key]))
    const answers = await lookUp(source, [...different.values()])
    const byName = new Map([...different.keys()].map((name, n) => [name, answers[n]!]))
    return names.map(name => byName.get(name)!)
  }
}

/** Most questions, or rows, of one statement. */
export const TOGETHER_MAX = 100
/** Most statements of one kind that one process has under way, of which one owner has half. */
export const READS_AT_ONCE = 8
export const WRITES_AT_ONCE = 8

/** More rows than any statement has. */
const ROWS_MAX = 1_000

/**
 * SQL: `column = value`, for a look-up by a whole key of which the column is the first. For the column alone,
 * Postgres then expects two rows at least. Where it expects one, because most owners have one or it knows
 * none yet, every index that begins with the column seems as good as that of the key, and it may take one
 * that leads through all of an owner's rows.
 */
export const ownedBy = (column: string, value: string): string => `${column} = ANY(ARRAY[${value}, ${value}])`

/**
 * For the WHERE of a statement over `unnest(…) WITH ORDINALITY AS asked(…, place)`: true of every row.
 * Postgres cannot tell how many there will be and assumes one. So it plans to find each row by its key,
 * however small a table is when the plan is made, because the plan outlives that size. Each table is joined
 * as a LATERAL subquery with OFFSET 0, which is planned by itself, with the whole key: in a plain join, a
 * plan made while an owner has one row reads all of hers for each that is asked for.
 */
export const ASKED_FEW = `asked.place BETWEEN 1 AND ${ROWS_MAX}`

/**
 * SQL: takes the rows of `t` that have been due for longest, and makes them due again in so many seconds;
 * only one replica gets each. It answers the columns of `key`, which begins with the owner, those of `more`,
 * and when the row is due again, as text, as `until`. The time of the statement is compared, because an index
 * finds nothing by `clock_timestamp()`, which may differ from row to row: each time, all rows that will ever
 * be due would be read. The rows are numbered for `ASKED_FEW`; without OFFSET 0, Postgres would apply that
 * where they are numbered, and expect many.
 */
export function takeOldest({
  table,
  key,
  more = [],
  due,
  where = 'true',
  limit,
  seconds,
}: Record<'table' | 'due' | 'limit' | 'seconds', string> & {
  key: readonly ['owner', ...string[]]
  more?: readonly string[]
  where?: string
}): string {
  const [owner, ...others] = key
  const same = [ownedBy(`t.${owner}`, `asked.${owner}`), ...others.map(name => `t.${name} = asked.${name}`)]
  return `WITH next AS MATERIALIZED (
      SELECT ${key.join(', ')} FROM ${table} t WHERE ${due} <= statement_timestamp() AND ${where}
      ORDER BY ${due} LIMIT ${limit} FOR UPDATE SKIP LOCKED)
    UPDATE ${table} t SET ${due} = clock_timestamp() + ${seconds}::float8 * interval '1 second'
    FROM (SELECT * FROM (SELECT *, row_number() OVER () AS place FROM next) numbered OFFSET 0) asked
    WHERE ${ASKED_FEW} AND ${same.join(' AND ')}
    RETURNING ${[...key, ...more].map(name => `t.${name}`).join(', ')}, t.${due}::text AS until`
}

// Before Postgres 18, a sort that cannot be avoided then counts as dear enough to be compiled, which takes
// longer than the statement.
const WITHOUT_SORT = CompiledQuery.raw(
  "SELECT set_config('enable_sort', 'off', true), set_config('jit', 'off', true)",
)
const AS_BEFORE = CompiledQuery.raw(`SELECT set_config(name, reset_val, true) FROM pg_settings
  WHERE name IN ('enable_sort', 'jit')`)

/**
 * Reads the first rows, in the order of an index, of an owner who has any number of them. Postgres expects as
 * many of her as owners have on average. If that is less than a page, it may find all that she has, by any
 * index that begins with the owner, and sort them; when it does so depends on when the table was last
 * analyzed. So this plans as if a sort were dearer than anything: where an index has the order, it is read by
 * that index, and no further than the page. It takes a transaction, of four trips to Postgres. A statement
 * that is `prepared` must be sent nowhere else, because its plan stays. Within a transaction, the two
 * settings are afterwards those that its session began with.
 */
export async function inIndexOrder<Tables, T>(
  db: Db<Tables>,
  read: (tx: Tx<Tables>) => Promise<T>,
): Promise<T> {
  if (!db.isTransaction)
    return inTransaction(db, async tx => {
      await tx.executeQuery(WITHOUT_SORT)
      return read(tx)
    })
  await db.executeQuery(WITHOUT_SORT)
  const answer = await read(db as Tx<Tables>)
  await db.executeQuery(AS_BEFORE)
  return answer
}
