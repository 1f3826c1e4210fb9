/**
 * Owns where heads of ledgers are kept: in files of `reports.state_dir`, one for each day, or in memory.
 * docs/choices.md, "Heads that others keep". Contract: "Events" (row 5).
 */
import { readFileSync } from 'node:fs'
import { appendFile, mkdir, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Logger } from '../../http/telemetry/log.ts'
import { BoundedMap } from '../../limits/bounded-map.ts'
import { asOwner } from '../../wire/identifiers.ts'
import { isJsonObject, parseJson } from '../../wire/json.ts'
import { readLedgerHead } from '../../wire/ledger/ledger-head.ts'
import {
  createLedgerHeads,
  DAY_MS,
  KEPT_DAYS,
  nameOfHead,
  type HeadStore,
  type HeadRecord,
  type LedgerHeads,
} from './heads.ts'

const FOLDER = 'ledger_heads'
const FILE = /^(\d{4}-\d{2}-\d{2})\.jsonl$/
/** In memory: the heads of an hour of a hundred owners for seven days. */
const REMEMBERED_MAX = 20_000
/** What cannot be written now waits, at most so many lines. */
const WAITING_MAX = 10_000

/**
 * The memory of a sidecar: in this directory, or in the process if there is none. `clock` is in milliseconds
 * since the epoch.
 */
export function openLedgerHeads(
  stateDirectory: string | undefined,
  { clock, logger }: { clock: () => number; logger: Pick<Logger, 'warn' | 'error'> },
): LedgerHeads {
  const onFault = (error: unknown): void => logger.error({ err: error }, 'heads of ledgers are not kept')
  const store =
    stateDirectory === undefined
      ? createMemoryHeads({ clock })
      : openHeadFiles(stateDirectory, { clock, onFault })
  return createLedgerHeads({ store, clock, onFault: sentence => logger.warn(sentence) })
}

export function createMemoryHeads({ clock }: { clock: () => number }): HeadStore {
  const heads = new BoundedMap<string, { head: HeadRecord; last: number }>(REMEMBERED_MAX)
  return {
    add: head => {
      const name = nameOfHead(head)
      heads.set(name, { head: heads.get(name)?.head ?? head, last: head.received_at })
    },
    list: () => {
      const since = clock() / 1_000 - (KEPT_DAYS * DAY_MS) / 1_000
      return [...heads.values()].filter(({ last }) => last >= since).map(({ head }) => head)
    },
    close: async () => undefined,
  }
}

/**
 * In a folder of the directory, which replicas may share: each appends whole lines. A head that cannot be
 * written waits for the next one, and holds no call.
 */
export function openHeadFiles(
  stateDirectory: string,
  { clock, onFault }: { clock: () => number; onFault: (error: unknown) => void },
): HeadStore {
  const folder = join(stateDirectory, FOLDER)
  let waiting: string[] = []
  let writing: Promise<void> | undefined
  let sweptOn = ''

  const sweep = async (): Promise<void> => {
    const last = dateOf(clock() - (KEPT_DAYS + 1) * DAY_MS)
    for (const name of await readdir(folder)) {
      const date = FILE.exec(name)?.[1]
      if (date !== undefined && date <= last) await rm(join(folder, name), { force: true })
    }
  }
  const write = async (): Promise<void> => {
    while (waiting.length > 0) {
      const lines = waiting
      const today = dateOf(clock())
      if (sweptOn === '') await mkdir(folder, { recursive: true, mode: 0o700 })
      await appendFile(join(folder, `${today}.jsonl`), lines.join(''), { mode: 0o600 })
      waiting = waiting.slice(lines.length)
      if (sweptOn !== today) await sweep()
      sweptOn = today
    }
  }
  const begin = (): Promise<void> =>
    (writing ??= write()
      .catch(onFault)
      .finally(() => (writing = undefined)))
  return {
    add: head => {
      if (waiting.length >= WAITING_MAX) return
      waiting = [...waiting, `${JSON.stringify(head)}\n`]
      void begin()
    },
    list: () => readHeads(stateDirectory, clock()),
    close: async () => {
      if (waiting.length > 0) await begin()
    },
  }
}

/**
 * The heads that were received in the last seven days, oldest first, each once. Lines that are none are left
 * out: the process may have been killed while it wrote. `now` in milliseconds since the epoch.
 */
export function readHeads(stateDirectory: string, now: number): HeadRecord[] {
  const heads = new Map<string, HeadRecord>()
  for (let ago = KEPT_DAYS; ago >= 0; ago--)
    for (const line of linesOf(join(stateDirectory, FOLDER, `${dateOf(now - ago * DAY_MS)}.jsonl`))) {
      const head = headIn(line)
      if (head === undefined) continue
      const name = nameOfHead(head)
      if (!heads.has(name)) heads.set(name, head)
    }
  return [...heads.values()].sort((one, other) => one.received_at - other.received_at)
}

function linesOf(path: string): string[] {
  try {
    return readFileSync(path, 'utf8').split('\n')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  }
}

function headIn(line: string): HeadRecord | undefined {
  try {
    const value = parseJson(line)
    if (!isJsonObject(value)) return undefined
    const { owner, authority, received_at, ledger_head } = value
    if (typeof owner !== 'string' || typeof authority !== 'string' || typeof received_at !== 'number')
      return undefined
    return { owner: asOwner(owner), authority, received_at, ledger_head: readLedgerHead(ledger_head) }
  } catch {
    return undefined
  }
}

const dateOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10)
