/**
 * Owns `usher owner ledger`. Contract: "Events" (row 5), "Owner API": the owner reads what was promised,
 * decided, done and refused.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { Command } from 'commander'
import { UsageError } from '../../terminal/command.ts'
import { momentOf } from '../../terminal/moment.ts'
import { printable, printableLine } from '../../terminal/printable.ts'
import { readAll } from '../../client/exchange.ts'
import { wholeNumber } from '../../client/program.ts'
import { type LedgerQuery } from '../client.ts'
import { ApiError } from '../../client/api-error.ts'
import { untilInterrupted } from '../interrupt.ts'
import { tell, type OwnerAction, type OwnerSession } from '../session.ts'
import { handleOf, namesOf, type DisplayNames } from '../display/labels.ts'
import { ledgerLine, ledgerTable } from '../display/show-ledger.ts'
import type { LedgerEntry } from '../../wire/owner/owner-api.ts'
import { addLedgerExport } from './ledger-export.ts'

interface LedgerOptions {
  handle?: string
  kind?: string
  after?: number
  limit?: number
  last?: number
  since?: Date
  until?: Date
  search?: string
  follow?: boolean
  every?: number
}

/** How often `--follow` asks for what is new, if `--every` does not say. */
const FOLLOW_INTERVAL_SECONDS = 2
/** How seldom it asks while the authority is unavailable. */
const FOLLOW_MS_MAX = 30_000

/** Adds the command. */
export function addLedger(program: Command, action: OwnerAction): void {
  const command = program
    .command('ledger')
    .option(
      '--handle <handle>',
      'of this agent only; the beginning of its handle, or your name for it, will do',
    )
    .option('--kind <kind>', 'of this kind only (promised, approved, touched, revoked, …)')
    .option('--after <seq>', 'entries after this one', wholeNumber)
    .option('--limit <count>', 'the oldest entries, at most this number', wholeNumber)
    .option('--last <count>', 'the newest entries, at most this number', wholeNumber)
    .option(
      '--since <time>',
      'entries since then: 30m, 2h or 7d ago, or a time such as 2026-11-21T09:00Z',
      momentOf,
    )
    .option('--until <time>', 'entries before then, written in the same ways', momentOf)
    .option('--search <words>', 'entries that have all these words in their texts')
    .option('--follow', 'continue with new entries as they come; ends with Ctrl-C')
    .option(
      '--every <seconds>',
      `how often --follow asks for them; ${FOLLOW_INTERVAL_SECONDS} if left out`,
      pauseOf,
    )
    .description('what was promised, decided, done and refused, oldest first')
    .action(action((session, options: LedgerOptions) => ledger(session, options)))
  addLedgerExport(command, action)
}

async function ledger(session: OwnerSession, options: LedgerOptions): Promise<void> {
  const { last, since, until, search, follow, every, limit, after, kind } = options
  if (limit !== undefined && (last !== undefined || since !== undefined))
    throw new UsageError(
      'Give --limit for the oldest entries, or --last and --since for the newest, not both.',
    )
  if (until !== undefined && follow === true)
    throw new UsageError('Give --until for what has happened, or --follow for what comes, not both.')
  if (every !== undefined && follow !== true)
    throw new UsageError('Give --every together with --follow, which it is about.')
  // An agent without a connection has entries, too, so an unlisted handle is used as it was given.
  const handle =
    options.handle === undefined ? undefined : ((await handleOf(session, options.handle)) ?? options.handle)
  const bounds = { until: secondsOf(until), q: search }
  // What the authority searches it also ends at that time; an older one knows neither.
  const isSearched = until !== undefined || search !== undefined
  const filter = { handle, kind, after, ...bounds, ...(isSearched ? { since: secondsOf(since) } : {}) }
  const isNewest = last !== undefined || since !== undefined
  const entries = isNewest
    ? await newest(session, { ...filter, limit: last }, since)
    : await readAll(session.client.ledger({ ...filter, limit }))
  const names = await namesOf(session)
  if (follow !== true) return tell(session, entries, (all, columns) => ledgerTable(all, columns, names))
  for (const entry of entries) printEntry(session, entry, names)
  const from = entries.at(-1)?.seq ?? after ?? (await lastSeq(session))
  await followOn(session, { handle, kind, q: search, after: from }, names, every ?? FOLLOW_INTERVAL_SECONDS)
}

/** A pause in seconds: a tenth of one at least, so that nobody asks without end. */
function pauseOf(value: string): number {
  const seconds = Number(value)
  if (!(seconds >= 0.1 && seconds <= 3_600))
    throw new UsageError('Give --every a number of seconds from 0.1 to 3600.')
  return seconds
}

function secondsOf(at: Date | undefined): number | undefined {
  return at === undefined ? undefined : Math.floor(at.getTime() / 1_000)
}

/** The newest entries, printed in the order in which they happened. */
async function newest(
  { client }: OwnerSession,
  query: LedgerQuery,
  since: Date | undefined,
): Promise<LedgerEntry[]> {
  const entries: LedgerEntry[] = []
  for await (const entry of client.ledger({ ...query, first: 'newest' })) {
    if (since !== undefined && Date.parse(entry.ts) < since.getTime()) break
    entries.push(entry)
  }
  return entries.toReversed()
}

/** The position of the newest entry of all; 0 in an empty ledger. */
async function lastSeq({ client }: OwnerSession): Promise<number> {
  const [entry] = await readAll(client.ledger({ first: 'newest', limit: 1 }))
  return entry?.seq ?? 0
}

/**
 * Prints what is new until Ctrl-C. While the authority is unavailable, it retries less and less often, and
 * says so once.
 */
async function followOn(
  session: OwnerSession,
  from: LedgerQuery & { after: number },
  names: DisplayNames,
  everySeconds: number,
): Promise<void> {
  const everyMs = everySeconds * 1_000
  await untilInterrupted(async signal => {
    let { after } = from
    let wait = everyMs
    while (!signal.aborted) {
      try {
        for await (const entry of session.client.ledger({ ...from, after })) {
          printEntry(session, entry, names)
          after = entry.seq
          await session.terminal.ready?.(signal)
          if (signal.aborted) return
        }
        wait = everyMs
      } catch (error) {
        if (!(error instanceof ApiError) || !error.temporary) throw error
        if (wait === everyMs) session.terminal.err(`${printable(error.detail)} Trying again.\n`)
        wait = Math.min(wait * 2, Math.max(everyMs, FOLLOW_MS_MAX))
      }
      await delay(wait, undefined, { signal }).catch(() => undefined)
    }
  })
}

function printEntry(
  { terminal, json, columns }: OwnerSession,
  entry: LedgerEntry,
  names: DisplayNames,
): void {
  terminal.out(json ? `${printableLine(entry)}\n` : ledgerLine(entry, columns, names))
}
