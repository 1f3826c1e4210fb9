/**
 * Moves an owner from one cell to another. She is served by one cell at a time, and by none while her rows
 * are copied; each step is one commit, so that an interrupted move is either continued or undone.
 * docs/decisions/0020-cells.md. Contract: "What the service does" (what was acknowledged holds).
 */
import { randomUUID } from 'node:crypto'
import type { Client } from 'pg'
import { openConnection, type DedicatedConnection } from '../../core/connection.ts'
import { tryLock } from '../../core/lock.ts'
import type { Owner } from '../../../wire/identifiers.ts'
import { copyOwner, NOT_COPIED, type CredentialKey } from './copying.ts'
import { openDatabase, type Database } from '../database.ts'
import { letGo } from '../grants/leases.ts'
import { deleteOf, ownedTables } from './owned-tables.ts'
import { number } from '../ledger/positions.ts'
import type { MovesTable } from '../tables.ts'

const STATEMENT_MS_MAX = 60_000
/**
 * This is longer than any transaction of a request lasts, so that no transaction from before she left still
 * runs when she comes back.
 */
const RETURN_PAUSE_SECONDS = 60

/** The step that was committed last. `reached` is called at each step, and awaited. */
export type MoveStep =
  | 'named'
  | 'awaited'
  | 'emptied'
  | 'left'
  | 'copied'
  | 'placed'
  | 'opened'
  | 'closed'
  | 'deleted'

export interface MoveOptions {
  owner: Owner
  /** Every cell by name, with its URL. */
  cells: ReadonlyMap<string, string>
  /** The name of the cell that has the directory. */
  home: string
  to: string
  onStep?: (step: MoveStep) => void | Promise<void>
  /** How many seconds a cell must have been without her before she may come back to it; 60 if left out. */
  restSeconds?: number
}

/** Why she was not moved; or where she was and how many rows were copied, which may be none. */
export type MoveOutcome =
  | { refused: 'unknown' | 'removed' | 'busy' | 'unprivileged' | 'resting' }
  | { from: string; to: string; rows: number; downMs: number }

/**
 * Moves her to `to`. If she is there already, it cleans up after an interrupted move: forwards if the
 * directory says that she was moved, otherwise backwards. @throws Error if a database is lost on the way; run
 * it again then.
 */
export async function moveOwner(options: MoveOptions): Promise<MoveOutcome> {
  const { owner, cells, home, to } = options
  const opened = new Map<string, DedicatedConnection>()
  const at = async (cell: string): Promise<Client> => {
    const url = cells.get(cell)
    if (url === undefined) throw new Error(`The directory names the cell ${cell}: add it to UMA_AS_CELLS.`)
    const connection =
      opened.get(cell) ??
      (await openConnection({
        url,
        name: 'usher-move',
        statementMs: STATEMENT_MS_MAX,
        waitsForStandby: true,
      }))
    opened.set(cell, connection)
    return connection.client
  }
  const lock = await tryLock(cells.get(home)!, `move of ${owner}`)
  if (lock === undefined) return { refused: 'busy' }
  try {
    const directory = await at(home)
    const { rows } = await directory.query<{ cell: string | null }>(
      `SELECT cell FROM directory WHERE kind = 'name' AND key = $1 AND owner = $1`,
      [owner],
    )
    if (rows[0] === undefined) return { refused: 'unknown' }
    const from = rows[0].cell ?? home
    for (const cell of [from, to]) if (!(await mayDelete(await at(cell)))) return { refused: 'unprivileged' }
    const move = { ...options, directory, at, from }
    if (from === to) return await settle(move)
    const { rowCount: served } = await (await at(from)).query('SELECT FROM owners WHERE owner = $1', [owner])
    if (served === 0) return { refused: 'removed' }
    return await begin(move)
  } finally {
    for (const connection of opened.values()) await connection.close()
    await lock.release()
  }
}

interface Moving extends MoveOptions {
  directory: Client
  at: (cell: string) => Promise<Client>
  /** The cell where the directory has her. */
  from: string
}

const DISAGREE =
  'The cells and the directory do not agree on where she is, as after one of them was restored: nothing of hers was changed.'

type MoveRow = Pick<MovesTable, 'move' | 'state' | 'cell'>

async function begin(moving: Moving): Promise<MoveOutcome> {
  const { owner, from, to, home, cells, directory, at, restSeconds = RETURN_PAUSE_SECONDS } = moving
  const tell = async (step: MoveStep): Promise<void> => moving.onStep?.(step)
  const [source, target, move] = [await at(from), await at(to), randomUUID()]
  const { rowCount: rests } = await target.query(
    `SELECT FROM moves WHERE owner = $1 AND state = 'gone'
      AND since > clock_timestamp() - $2::float8 * interval '1 second'`,
    [owner, restSeconds],
  )
  if (rests !== 0) return { refused: 'resting' }
  // 1. Only this move may change the directory from now on.
  await mustChange(
    directory,
    `UPDATE directory SET move = $2 WHERE kind = 'name' AND key = $1 AND owner = $1 AND cell IS NOT DISTINCT FROM $3`,
    [owner, move, cellOf(from, home)],
  )
  await tell('named')
  // 2. The target has nothing of hers, and serves her only when it is opened.
  await mustChange(
    target,
    `INSERT INTO moves (owner, move, state, cell) VALUES ($1, $2, 'arriving', $3)
      ON CONFLICT (owner) DO UPDATE SET move = $2, state = 'arriving', cell = $3, since = clock_timestamp()
      WHERE moves.state IN ('gone', 'arriving')`,
    [owner, move, from],
  )
  await tell('awaited')
  await empty({ client: target, owner, move, state: 'arriving', isHome: to === home })
  await tell('emptied')
  // 3. The source no longer serves her: everything that is acknowledged was committed before this.
  const since = performance.now()
  await mustChange(
    source,
    `INSERT INTO moves (owner, move, state, cell) VALUES ($1, $2, 'leaving', $3)
      ON CONFLICT (owner) DO UPDATE SET move = $2, state = 'leaving', cell = $3, since = clock_timestamp()
      WHERE moves.state IN ('here', 'leaving')`,
    [owner, move, to],
  )
  const leftAt = performance.now()
  await tell('left')
  // What the source said of her grants is used no more, before another can end one.
  await settled(cells.get(from)!, owner, leftAt)
  // 4. The order of what is committed is that of the source.
  await numbered(cells.get(from)!, owner)
  const guarded = guard(target, { owner, move, state: 'arriving' })
  const copied = await copyOwner({ source, target, owner, credentials: to !== home, batch: guarded })
  await tell('copied')
  // 5. From here on, the move can no longer be undone.
  if (!(await place(moving, move, copied.credentials))) {
    await source.query(
      `UPDATE moves SET state = 'here' WHERE owner = $1 AND move = $2 AND state = 'leaving'`,
      [owner, move],
    )
    throw new Error(`The move of ${owner} was taken back by another.`)
  }
  await tell('placed')
  await open(target, { owner, move })
  await tell('opened')
  const downMs = performance.now() - since
  await clear(moving, { source, cell: from, move })
  return { from, to, rows: copied.rows, downMs: Math.round(downMs) }
}

/** Ends an interrupted move, at the cell where the directory has her. */
async function settle(moving: Moving): Promise<MoveOutcome> {
  const { owner, to, home, cells, directory, at } = moving
  const here = await at(to)
  const row = await rowAt(here, owner)
  const done = (from: string): MoveOutcome => ({ from, to, rows: 0, downMs: 0 })
  if (row?.state === 'arriving') {
    await open(here, { owner, move: row.move })
    await moving.onStep?.('opened')
  } else {
    // Ends a move that was begun from here: first no other move can change the directory, and then she is
    // served again.
    await directory.query(`UPDATE directory SET move = NULL WHERE kind = 'name' AND key = $1`, [owner])
    await here.query(
      `UPDATE moves SET state = 'here', move = $2, since = clock_timestamp() WHERE owner = $1 AND state = 'leaving'`,
      [owner, randomUUID()],
    )
  }
  for (const cell of cells.keys()) {
    if (cell === to) continue
    const other = await at(cell)
    const left = await rowAt(other, owner)
    if (left === undefined) continue
    if (left.state === 'arriving') {
      await empty({ client: other, owner, move: left.move, state: 'arriving', isHome: cell === home })
      // She was never served there, so she may come at once.
      await other.query(`UPDATE moves SET state = 'gone', since = 'epoch' WHERE owner = $1 AND move = $2`, [
        owner,
        left.move,
      ])
    } else if (left.state === 'here') throw new Error(DISAGREE)
    else await clear(moving, { source: other, cell, move: left.move })
  }
  return done(row?.cell ?? to)
}

/** Records at the source that she has gone, and deletes what was copied. */
async function clear(
  { owner, home, onStep }: Moving,
  { source, cell, move }: { source: Client; cell: string; move: string },
): Promise<void> {
  await source.query(
    `UPDATE moves SET state = 'gone', since = clock_timestamp() WHERE owner = $1 AND move = $2 AND state <> 'gone'`,
    [owner, move],
  )
  await onStep?.('closed')
  await empty({ client: source, owner, move, state: 'gone', isHome: cell === home })
  await onStep?.('deleted')
}

/** Changes the directory, if this move still may. */
async function place(
  { directory, owner, to, home }: Moving,
  move: string,
  credentials: readonly CredentialKey[],
): Promise<boolean> {
  await directory.query('BEGIN')
  try {
    const { rowCount } = await directory.query(
      `UPDATE directory SET cell = $3, move = NULL WHERE kind = 'name' AND key = $1 AND move = $2`,
      [owner, move, cellOf(to, home)],
    )
    // If she gave something up in a cell and the directory could not be told, it must not become hers again.
    if (rowCount === 1 && to === home)
      await directory.query(
        `DELETE FROM directory d WHERE owner = $1 AND kind IN ('device_key', 'passkey', 'login') AND NOT EXISTS (
          SELECT FROM unnest($2::text[], $3::text[]) AS r(kind, key) WHERE r.kind = d.kind AND r.key = d.key)`,
        [owner, credentials.map(({ kind }) => kind), credentials.map(({ key }) => key)],
      )
    await directory.query('COMMIT')
    return rowCount === 1
  } catch (error) {
    await directory.query('ROLLBACK').catch(() => undefined)
    throw error
  }
}

async function open(client: Client, { owner, move }: { owner: Owner; move: string }): Promise<void> {
  await client.query(
    `UPDATE moves SET state = 'here', since = clock_timestamp() WHERE owner = $1 AND move = $2 AND state = 'arriving'`,
    [owner, move],
  )
}

/**
 * Deletes in passes, until one finds nothing, so that rows that a request was still writing are deleted, too.
 */
async function empty(of: MoveStanding & { client: Client; isHome: boolean }): Promise<void> {
  const { client, owner, isHome } = of
  const guarded = guard(client, of)
  const tables = await ownedTables(client, NOT_COPIED)
  for (let count = -1; count !== 0;) {
    count = 0
    for (const table of tables) count += await deleteOf(client, table, owner, guarded)
  }
  if (!isHome) await guarded(() => client.query('DELETE FROM directory WHERE owner = $1', [owner]))
}

/** The state that she must have in a cell for a write there. */
interface MoveStanding {
  owner: Owner
  move: string
  state: MovesTable['state']
}

/**
 * Runs each write in a transaction that locks this state, so that a delayed mover writes nothing afterwards.
 */
function guard(
  client: Client,
  { owner, move, state }: MoveStanding,
): <T>(run: () => Promise<T>) => Promise<T> {
  return async run => {
    await client.query('BEGIN')
    try {
      const { rowCount } = await client.query(
        'SELECT FROM moves WHERE owner = $1 AND move = $2 AND state = $3 FOR SHARE',
        [owner, move, state],
      )
      if (rowCount === 0) throw new Error(`The move of ${owner} was gone on with, or taken back, by another.`)
      const done = await run()
      await client.query('COMMIT')
      return done
    } catch (error) {
      await client.query('ROLLBACK').catch(() => undefined)
      throw error
    }
  }
}

async function rowAt(client: Client, owner: Owner): Promise<MoveRow | undefined> {
  const { rows } = await client.query<MoveRow>('SELECT move, state, cell FROM moves WHERE owner = $1', [
    owner,
  ])
  return rows[0]
}

async function mustChange(client: Client, text: string, values: unknown[]): Promise<void> {
  const { rowCount } = await client.query(text, values)
  if (rowCount !== 1) throw new Error(DISAGREE)
}

/** The place as the directory has it. */
function cellOf(cell: string, home: string): string | null {
  return cell === home ? null : cell
}

async function numbered(url: string, owner: Owner): Promise<void> {
  await opening(url, ({ db }) => number(db, owner))
}

async function settled(url: string, owner: Owner, leftAt: number): Promise<void> {
  await opening(url, ({ db }) => letGo(db, owner, leftAt))
}

async function opening(url: string, work: (database: Database) => Promise<unknown>): Promise<void> {
  const database = openDatabase({ url, poolMax: 2 })
  try {
    await work(database)
  } finally {
    await database.close()
  }
}

async function mayDelete(client: Client): Promise<boolean> {
  const { rows } = await client.query<{ may: boolean }>(
    `SELECT has_table_privilege('receipts', 'DELETE') AND has_table_privilege('terms_versions', 'DELETE') AS may`,
  )
  return rows[0]?.may === true
}
