/**
 * When the registry is pulled: at the start, on approval, when `/perm` names something unknown, and now and
 * then. One replica pulls at a time, at most every ten seconds per source. Only `/perm` waits for it, a
 * second at most. Contract: "Registry materialization", "Protection API" (`/perm`).
 */
import type { FastifyBaseLogger } from 'fastify'
import { waitAtMost } from '../../limits/patience.ts'
import { isOutage } from '../../storage/core/database.ts'
import type { Db, Pools } from '../../storage/authority/database.ts'
import { takeDue } from '../../storage/authority/due.ts'
import {
  claimPull,
  failPull,
  isPulling,
  landListing,
  pullAgain,
  type PullAttempt,
  type ServerSource,
} from '../../storage/authority/registry/registry.ts'
import { warmReachWith, applyMembership } from '../organization/membership-effect.ts'
import type { Announcements } from '../owner/events/announcements.ts'
import { PublicationFault } from './published-resources.ts'
import { fetchListing, type PullTools } from './registry-pull.ts'

export interface Registry {
  /**
   * Pulls what is due, and continues to. Call this when our keys can be fetched, because the servers check
   * who asks.
   */
  start(): void
  /** Pulls from a source soon, in the background: the owner has just approved it. */
  pullSoon(source: ServerSource): void
  /** Waits for a pull that may bring what `/perm` does not know: our own, or one that already runs. */
  lookAgain(source: ServerSource): Promise<void>
  /** Starts no more pulls; running ones write nothing any more. */
  stop(): Promise<void>
}

export interface RegistryOptions extends PullTools {
  database: Pools
  announcements: Announcements
  log: FastifyBaseLogger
  /** How long a listing is used before it is pulled again. */
  keepSeconds: number
}

/** The least time between two pulls from one source, by any replica. */
const PAUSE_SECONDS = 10
const FAILED_PAUSE_SECONDS = 30
/** The time limit for everything that one pull fetches: it ends before another may begin. */
const PULL_MS_MAX = 9_000
/** How long one replica has a due source to itself: longer than a pull may take. */
const CLAIM_SECONDS = 15
const LOOK_MS_MAX = 1_000
const LOOK_STEP_MS = 200
const PULLS_AT_ONCE = 4

/** `superseded`: she decided about the server meanwhile, so the result was dropped. */
type PullOutcome = 'pulled' | 'superseded' | 'running' | 'recent'

/** A registry that pulls nothing by itself until `start`. */
export function createRegistry(options: RegistryOptions): Registry {
  const { database } = options
  const underWay = new Map<string, Promise<PullOutcome>>()
  const pause = Math.min(options.keepSeconds, FAILED_PAUSE_SECONDS)
  let stopped = false
  let round = Promise.resolve()
  let timer: NodeJS.Timeout | undefined

  const pull = (db: Db, source: ServerSource): Promise<PullOutcome> => {
    if (stopped) return Promise.resolve('recent')
    const key = JSON.stringify([source.owner, source.client_id])
    const running = underWay.get(key)
    if (running !== undefined) return running
    const once = (): Promise<PullOutcome> => pullOnce({ ...options, db }, source, () => stopped)
    const started = once()
      // Callers that asked meanwhile need what the server lists under her latest decision.
      .then(outcome => (outcome === 'superseded' && !stopped ? once() : outcome))
      .catch((error: unknown) => {
        const level = isOutage(error) ? 'warn' : 'error'
        const { owner, client_id } = source
        options.log[level]({ err: error, owner, client_id }, 'a pull was broken off')
        return 'recent' as const
      })
      .finally(() => underWay.delete(key))
    underWay.set(key, started)
    return started
  }
  const later = (ms: number): void => {
    timer = setTimeout(() => {
      round = pullDue(options, pull, () => stopped)
        .catch((error: unknown) => {
          const level = isOutage(error) ? 'warn' : 'error'
          options.log[level]({ err: error }, 'pulling what is due was broken off')
        })
        .then(() => (stopped ? undefined : later(pause * 1_000)))
    }, ms)
    timer.unref()
  }
  return {
    start: () => later(0),
    pullSoon: source => void pull(database.of(source.owner), source),
    lookAgain: async source => {
      const until = performance.now() + LOOK_MS_MAX
      const db = database.of(source.owner)
      if ((await waitAtMost(LOOK_MS_MAX, pull(db, source))) !== 'running') return
      // Another replica pulls: it says when it has landed, but may have said so already.
      while (performance.now() < until && (await isPulling(db, source, PAUSE_SECONDS))) {
        const step = Math.min(LOOK_STEP_MS, until - performance.now())
        await options.announcements.next(source.owner, step)
      }
    },
    async stop() {
      stopped = true
      clearTimeout(timer)
      await Promise.all([round, ...underWay.values()])
    },
  }
}

/**
 * Works off the queue of due sources, a few at a time, until nothing is due. A failure of one source stops no
 * other.
 */
async function pullDue(
  options: RegistryOptions,
  pull: (db: Db, source: ServerSource) => Promise<PullOutcome>,
  stopped: () => boolean,
): Promise<void> {
  const db = options.database.ofNobody
  const pauses = { landedSeconds: options.keepSeconds, failedSeconds: FAILED_PAUSE_SECONDS }
  const work = async (): Promise<void> => {
    while (!stopped()) {
      const [claim] = await takeDue(db, 'pull', { limit: 1, seconds: CLAIM_SECONDS })
      if (claim === undefined) return
      await pull(db, claim)
      if (!stopped()) await pullAgain(db, claim, pauses)
    }
  }
  const done = await Promise.allSettled(Array.from({ length: PULLS_AT_ONCE }, work))
  const failed = done.find(one => one.status === 'rejected')
  if (failed !== undefined) throw failed.reason
}

/** `db` is of her who asked for the pull, or of nobody, if its time came. */
async function pullOnce(
  options: RegistryOptions & { db: Db },
  source: ServerSource,
  stopped: () => boolean,
): Promise<PullOutcome> {
  const { db } = options
  const claim = await claimPull(db, source, PAUSE_SECONDS)
  if (claim.claimed === undefined) return claim.because
  const attempt = claim.claimed
  try {
    const patience = { deadline: Date.now() + PULL_MS_MAX, favoured: true }
    const listed = await fetchListing(options, attempt, patience)
    await warmReachWith(
      db,
      attempt.owner,
      listed.map(({ resource_id }) => resource_id),
    )
    if (stopped()) return 'recent'
    const landing = await landListing(db, attempt, listed, tx =>
      applyMembership(tx, attempt.owner, { by: 'organization' }),
    )
    say(options, attempt, landing)
    return landing === 'superseded' ? 'superseded' : 'pulled'
  } catch (error) {
    if (!(error instanceof PublicationFault)) throw error
    if (stopped()) return 'recent'
    if (!(await failPull(db, attempt, error.reason))) return 'superseded'
    const { owner, client_id } = source
    options.log.warn({ owner, client_id, reason: error.reason, why: error.message }, 'a pull brought nothing')
    return 'pulled'
  }
}

function say(
  options: RegistryOptions,
  attempt: PullAttempt,
  landing: Awaited<ReturnType<typeof landListing>>,
): void {
  const { owner, client_id } = attempt
  if (landing === 'superseded') {
    options.log.info({ owner, client_id }, 'a pull was superseded, and dropped')
    return
  }
  const { landed, conflicts } = landing
  options.log.info({ owner, client_id, landed }, 'a listing landed')
  if (conflicts.length > 0)
    options.log.warn(
      { owner, client_id, conflicts: conflicts.slice(0, 20), count: conflicts.length },
      'some listed resources are those of another resource server, and were not taken',
    )
}
