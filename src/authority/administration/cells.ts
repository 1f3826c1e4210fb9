/**
 * Opens the database that a command is about: of a cell, or of the cell where an owner is; and moves her to
 * another one. Contract: "Parties" (owner's authorization server).
 */
import type { OwnersConfig } from '../../config.ts'
import { placedBy, placedElsewhere } from '../../storage/authority/owners/cell-directory.ts'
import { AUTHORITY_DATABASE, standbySetting, type Database } from '../../storage/authority/database.ts'
import { moveOwner, type MoveOutcome, type MoveStep } from '../../storage/authority/owners/moving.ts'
import { processTerminal, UsageError } from '../../terminal/command.ts'
import type { Owner } from '../../wire/identifiers.ts'
import { HOME_CELL } from '../../wire/names.ts'
import { Refusal } from '../../wire/refusal.ts'

interface At {
  database: Database
  config: OwnersConfig
  /** The database of all cells, if that is another one; undefined if it is this one. */
  directory: Database | undefined
  /** The rows of a list whose owner is in this cell. */
  placed: <T>(all: readonly T[], ownerOf: (one: T) => string) => Promise<T[]>
}

type Work<T> = (at: At) => Promise<T>

/** Opens one cell for one command. A refusal is printed as its sentence. */
export async function atDatabase<T>(config: OwnersConfig, cell: string, work: Work<T>): Promise<T> {
  return opened(config, async open => {
    const directory = await open(HOME_CELL)
    return run(work, { config, cell, directory, database: cell === HOME_CELL ? directory : await open(cell) })
  })
}

/**
 * Opens the cell where the owner is. If the directory knows no such owner, it opens the directory's own cell.
 */
export async function atOwner<T>(config: OwnersConfig, owner: Owner, work: Work<T>): Promise<T> {
  return opened(config, async open => {
    const directory = await open(HOME_CELL)
    const placed = config.cells === undefined ? undefined : await placedBy(directory.db, 'name', owner)
    const cell = placed?.owner === owner ? (placed.cell ?? HOME_CELL) : HOME_CELL
    return run(work, { config, cell, directory, database: cell === HOME_CELL ? directory : await open(cell) })
  })
}

/** Opens one cell after the other. */
export async function atEachDatabase<T>(config: OwnersConfig, work: Work<T>): Promise<T[]> {
  return opened(config, async open => {
    const directory = await open(HOME_CELL)
    const done: T[] = []
    for (const cell of [HOME_CELL, ...(config.cells ?? []).map(({ name }) => name)]) {
      const database = cell === HOME_CELL ? directory : await open(cell)
      done.push(await run(work, { config, cell, directory, database }))
    }
    return done
  })
}

/** The result of a move, as it is printed. */
export interface OwnerMove {
  owner: string
  from: string
  to: string
  rows: number
  down_ms: number
}

const REFUSED: Readonly<Record<Extract<MoveOutcome, { refused: string }>['refused'], string>> = {
  unknown: 'No owner of this name is served here.',
  removed: 'She was removed, or is being removed: nothing of hers is moved.',
  busy: 'Another is moving her just now.',
  unprivileged:
    'The log-ins of DATABASE_URL and UMA_AS_CELLS may not delete receipts: run this with those that migrate.',
  resting: 'She left that cell less than a minute ago: wait a minute, then run this again.',
}

const SAID: Partial<Record<MoveStep, string>> = {
  left: 'Her requests are answered 503 from now on.',
  opened: 'She is served where she is now.',
}

/** Moves an owner, and prints each step that is reached. */
export async function moveTo(
  config: OwnersConfig,
  { owner, to }: { owner: Owner; to: string },
  say: (line: string) => void,
): Promise<OwnerMove> {
  const cells = urlsOf(config)
  if (!cells.has(to)) throw unknownCell(to, cells)
  for (const url of cells.values()) await (await openOne(config, url, say)).close()
  const onStep = (step: MoveStep): void => {
    const text = SAID[step]
    if (text !== undefined) say(text)
  }
  const outcome = await moveOwner({ owner, cells, home: HOME_CELL, to, onStep })
  if ('refused' in outcome)
    throw outcome.refused === 'unknown'
      ? new UsageError(REFUSED.unknown)
      : new Error(REFUSED[outcome.refused])
  const { from, rows, downMs } = outcome
  return { owner, from, to, rows, down_ms: downMs }
}

async function run<T>(
  work: Work<T>,
  of: { config: OwnersConfig; cell: string; directory: Database; database: Database },
): Promise<T> {
  const { config, cell, directory, database } = of
  const placed: At['placed'] = async (all, ownerOf) => {
    if (config.cells === undefined) return [...all]
    const elsewhere = await placedElsewhere(directory.db, all.map(ownerOf))
    return all.filter(one => (elsewhere.get(ownerOf(one)) ?? HOME_CELL) === cell)
  }
  try {
    return await work({ database, config, placed, directory: directory === database ? undefined : directory })
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    const sentence = error.detail ?? error.code
    throw error.code === 'not_found' ? new UsageError(sentence) : new Error(sentence, { cause: error })
  }
}

function urlsOf({ databaseUrl, cells = [] }: OwnersConfig): Map<string, string> {
  return new Map([[HOME_CELL, databaseUrl], ...cells.map(({ name, url }) => [name, url] as const)])
}

function unknownCell(cell: string, cells: ReadonlyMap<string, string>): UsageError {
  return new UsageError(
    `There is no cell ${cell}: name one of ${[...cells.keys()].join(', ')} (UMA_AS_CELLS).`,
  )
}

/** Closes whatever was opened. */
async function opened<T>(
  config: OwnersConfig,
  work: (open: (cell: string) => Promise<Database>) => Promise<T>,
): Promise<T> {
  const cells = urlsOf(config)
  const databases: Database[] = []
  const open = async (cell: string): Promise<Database> => {
    const url = cells.get(cell)
    if (url === undefined) throw unknownCell(cell, cells)
    const database = await openOne(config, url, line => processTerminal.err(`${line}\n`))
    databases.push(database)
    return database
  }
  try {
    return await work(open)
  } finally {
    for (const database of databases) await database.close()
  }
}

/** What a command acknowledges needs a standby where what a server acknowledges does. */
function openOne(
  { databaseWaitSeconds, requireSyncStandby }: OwnersConfig,
  url: string,
  tell: (line: string) => void,
): Promise<Database> {
  const requireStandby = standbySetting(requireSyncStandby)
  return AUTHORITY_DATABASE.openOnce({ databaseUrl: url, databaseWaitSeconds, requireStandby }, tell)
}
