/**
 * Owns which answers about grants may be used again, and for how long. Contract: "Introspection and consume
 * answers" (leases, docs/choices.md, ADR 0021). Asks nobody: what is used is decided by two clocks, by what
 * was dropped, and by when the authority was last heard of.
 */
import { BoundedMap } from '../../limits/bounded-map.ts'
import { sha256Text } from '../../wire/encoding.ts'
import { LEASE_MS } from '../../wire/resources/leases.ts'
import type { LiveGrant } from '../introspection.ts'

/** Milliseconds: one clock that only goes forward, and one since the epoch. */
export interface LeaseClocks {
  forward: () => number
  wall: () => number
}

/** A time by both clocks. */
export interface Moment {
  forward: number
  wall: number
}

/** What must be known of a question before it is sent. */
export interface CacheQuestion {
  at: Moment
  /** How often everything had been dropped until then. */
  drops: number
}

export interface LeasedAnswers {
  now(): Moment
  /** Call this before a question is sent, because its answer is as old as that. */
  asking(): CacheQuestion
  /**
   * Keeps the answer to a question, for `leaseMs` from when it was asked; not if everything was dropped
   * since, for then it may be older than what ended the grant.
   */
  keep(question: CacheQuestion, token: string, answer: { grant: LiveGrant; leaseMs: number }): void
  /** The grant, if what was answered of it may be used for a call that begins now. */
  find(token: string): LiveGrant | undefined
  /** A registration or renewal that was sent then was answered: the authority still waits for us. */
  renewed(at: Moment): void
  /** Forgets every answer to a question that was asked until now. */
  drop(): void
  /** The same, and uses nothing at all until the next `renewed`. */
  lose(): void
  /** Frees what is too old to be used. */
  sweep(): void
}

interface LeasedAnswer {
  grant: LiveGrant
  at: Moment
  leaseMs: number
}

/** How many grants may be called within two seconds; beyond, the oldest are asked about again. */
const ANSWERS_MAX = 10_000

/** Holds nothing yet, and uses nothing before the first `renewed`. */
export function createLeasedAnswers({ forward, wall }: LeaseClocks): LeasedAnswers {
  const answers = new BoundedMap<string, LeasedAnswer>(ANSWERS_MAX)
  let drops = 0
  let renewedAt: Moment | undefined
  const now = (): Moment => ({ forward: forward(), wall: wall() })
  const drop = (): void => {
    drops++
    answers.clear()
  }
  return {
    now,
    asking: () => ({ at: now(), drops }),
    keep: (question, token, { grant, leaseMs }) => {
      if (question.drops !== drops || renewedAt === undefined || grant.exp === undefined) return
      answers.set(sha256Text(token), { grant, at: question.at, leaseMs: Math.min(leaseMs, LEASE_MS) })
    },
    find: token => {
      if (renewedAt === undefined) return undefined
      const at = now()
      if (between(renewedAt, at) >= LEASE_MS) return undefined
      const entry = answers.get(sha256Text(token))
      return entry !== undefined && isUsable(entry, at) ? entry.grant : undefined
    },
    renewed: at => {
      // A lease begins: what was asked before named none, or one that nobody waits for any more.
      if (renewedAt === undefined) drop()
      if (renewedAt === undefined || at.forward > renewedAt.forward) renewedAt = at
    },
    drop,
    lose: () => {
      renewedAt = undefined
      drop()
    },
    sweep: () => {
      const at = now()
      for (const [name, entry] of answers) if (!isUsable(entry, at)) answers.delete(name)
    },
  }
}

/** Whether the answer is young enough and its grant has not expired. Permissions are judged for each call. */
function isUsable({ grant, at, leaseMs }: LeasedAnswer, now: Moment): boolean {
  return between(at, now) < leaseMs && Math.floor(now.wall / 1_000) < grant.exp!
}

/**
 * The larger of the differences by both clocks: the monotonic clock stands still while a machine sleeps, and
 * the wall clock may be set.
 */
function between(earlier: Moment, later: Moment): number {
  return Math.max(later.forward - earlier.forward, later.wall - earlier.wall)
}
