/**
 * Owns where reports wait: in memory, or in the files of `reports.state_dir`. Contract: "Events", 2. In
 * files, a kill loses no report, and a call whose report cannot be written is not let through. In memory, a
 * call never waits for its report; if there is no room, a report is lost, and the loss is reported.
 */
import { randomBytes } from 'node:crypto'
import type { AuthorityClient } from '../authorities/authority-client.ts'
import { outage } from '../outage.ts'
import type { Delivery, Mail } from './delivery.ts'
import type { Journal } from './journal.ts'
import { createMemoryOutbox, type AccessReport, type MemoryOutbox, type ReportsOf } from './outbox.ts'
import { openStateDirectory, type Takeover } from './state-directory.ts'

export interface ReportStore {
  /** Throws 503 if a report could not be stored now. Call this before a grant is spent. */
  ready(client: AuthorityClient): void
  /**
   * Stores a report, to be sent. Throws 503 if it cannot be stored; its call must then not be let through.
   */
  add(client: AuthorityClient, report: AccessReport): void
  /** The bytes of reports in files. */
  bytes(): number
  /** Journals that nobody here can send. */
  left(): number
  close(): void
}

export interface MemoryStoreOptions {
  delivery: Delivery
  /**
   * How many reports may wait for all owners together. Above this, reports of the longest queue are dropped
   * and counted.
   */
  queueMax: number
  onDropped: (count: number, why: string) => void
}

const FULL = 'the queue of access reports is full'

export function createMemoryStore({ delivery, queueMax, onDropped }: MemoryStoreOptions): ReportStore {
  const instance = randomBytes(12).toString('hex')
  const outboxes = new Map<AuthorityClient, { outbox: MemoryOutbox; mail: Mail }>()
  let waiting = 0
  const of = (client: AuthorityClient) => {
    const known = outboxes.get(client)
    if (known !== undefined) return known
    const outbox = createMemoryOutbox(instance, change => (waiting += change))
    const made = { outbox, mail: { client, outbox, isDurable: false } }
    outboxes.set(client, made)
    return made
  }
  /** An unreachable authority must not use up the room of the others. */
  const loseOne = (asking: MemoryOutbox): void => {
    let longest = asking
    for (const { outbox } of outboxes.values()) if (outbox.waiting() > longest.waiting()) longest = outbox
    if (!longest.lose()) asking.lose()
    onDropped(1, FULL)
  }
  return {
    ready: () => undefined,
    add: (client, report) => {
      const { outbox, mail } = of(client)
      const isFull = waiting >= queueMax
      outbox.put(report)
      if (isFull) loseOne(outbox)
      delivery.send(mail)
    },
    bytes: () => 0,
    left: () => 0,
    close: () => undefined,
  }
}

export interface FileStoreOptions {
  delivery: Delivery
  path: string
  /** How many bytes may wait, for all owners together. */
  bytesMax: number
  /** All owners who are served here. */
  clients: readonly AuthorityClient[]
  /** Milliseconds since the epoch. */
  clock: () => number
  lifeMs?: number | undefined
  onDropped: (count: number, why: string) => void
  /** Called if a call was not let through. */
  onUnkept: () => void
  onLeft: (path: string, why: string) => void
  onFault: (error: unknown) => void
}

/** The time between two counts of the waiting bytes of all owners. */
const COUNT_INTERVAL_MS = 100
const UNKEPT = "The owner's record of this call cannot be kept now: try again."

/** The waiting reports of one owner, and how they are sent. */
interface OwnerReports {
  journal: Journal
  mail: Mail
}
type TakeoverMail = Mail & { bytes(): number }

export function openFileStore(options: FileStoreOptions): ReportStore {
  const { delivery, onUnkept, onFault } = options
  const clients = new Map(options.clients.map(client => [keyOf(client.of), client]))
  /** The reports of this run; those that were taken over are in `takeovers`. */
  const journals = new Map<AuthorityClient, OwnerReports>()
  const takeovers = new Set<TakeoverMail>()
  const directory = openStateDirectory({
    ...options,
    serves: of => clients.has(keyOf(of)),
    onTakeover: one => takeOver(one, clients.get(keyOf(one.of))!, { ...options, takeovers }),
    onDisplaced: () => {
      onFault(new Error('this process was taken for dead: another sends the reports that it had'))
      for (const { journal } of journals.values()) journal.close()
      for (const mail of [...[...journals.values()].map(({ mail }) => mail), ...takeovers])
        delivery.forget(mail)
      takeovers.clear()
      journals.clear()
    },
  })
  const journalOf = (client: AuthorityClient): OwnerReports => {
    const known = journals.get(client)
    if (known !== undefined) return known
    const journal = directory.journal(client.of)
    const onDelivered = (): void => {
      journal.close()
      journal.remove()
    }
    const made = { journal, mail: { client, outbox: journal, isDurable: true, onDelivered } }
    journals.set(client, made)
    return made
  }
  const bytes = (): number => {
    let sum = 0
    for (const { journal } of journals.values()) sum += journal.bytes()
    for (const mail of takeovers) sum += mail.bytes()
    return sum
  }
  const checkRoom = roomOf(options, { bytes, journals })
  const withJournal = (client: AuthorityClient, work: (of: OwnerReports) => void): void => {
    try {
      directory.live()
      work(journalOf(client))
    } catch (error) {
      onUnkept()
      throw outage(UNKEPT, error)
    }
  }
  return {
    ready: client =>
      withJournal(client, ({ journal }) => {
        checkRoom(journal.bytes())
        journal.ready()
      }),
    add: (client, report) =>
      withJournal(client, ({ journal, mail }) => {
        journal.put(report)
        delivery.send(mail)
      }),
    bytes,
    left: () => directory.left(),
    close: () => {
      for (const { journal } of journals.values()) journal.close()
      directory.close()
    },
  }
}

/** Sends what another process left. */
function takeOver(
  { journal, whole, damaged }: Takeover,
  client: AuthorityClient,
  { delivery, onDropped, takeovers }: FileStoreOptions & { takeovers: Set<TakeoverMail> },
): void {
  const mail: TakeoverMail = {
    client,
    outbox: journal,
    isDurable: true,
    lastWord: { ended: whole },
    bytes: () => journal.bytes(),
    onDelivered: () => {
      takeovers.delete(mail)
      journal.remove()
    },
  }
  if (damaged > 0) onDropped(damaged, 'they were damaged in the directory of reports')
  takeovers.add(mail)
  delivery.send(mail)
}

/**
 * Throws if there is no room for another report of an owner who has so many bytes waiting. An authority that
 * accepts no reports stops the calls of its own owner; it stops the calls of others only if twice the room is
 * used up.
 */
function roomOf(
  { bytesMax, clock }: FileStoreOptions,
  { bytes, journals }: { bytes: () => number; journals: ReadonlyMap<unknown, OwnerReports> },
): (mine: number) => void {
  let used = 0
  let usedAt = -Infinity
  return mine => {
    if (Math.abs(clock() - usedAt) >= COUNT_INTERVAL_MS) [used, usedAt] = [bytes(), clock()]
    if (used < bytesMax) return
    let owners = 1
    for (const { journal } of journals.values()) if (journal.waiting() > 0) owners++
    if (mine >= bytesMax / owners || used >= 2 * bytesMax)
      throw new Error(
        `${used} bytes of reports wait in the directory of reports, and no more than ${bytesMax} may`,
      )
  }
}

const keyOf = ({ authority, client_id, owner }: ReportsOf): string =>
  JSON.stringify([authority, client_id, owner])
