/**
 * Owns one lease from its registration to its end: the stream on which the authority asks for what is held to
 * be dropped, the renewals, and our word that it was dropped. Contract: "Introspection and consume answers"
 * (leases, docs/choices.md, ADR 0021).
 */
import { EventStreamReader } from '../../wire/event-stream.ts'
import {
  LEASE_RENEW_MS,
  parseLeaseMessage,
  type Lease,
  type LeaseMessage,
} from '../../wire/resources/leases.ts'
import type { LeaseDoor } from '../authorities/lease-calls.ts'
import type { LeasedAnswers, Moment } from './leased-answers.ts'

export interface LeaseOptions {
  door: LeaseDoor
  answers: LeasedAnswers
  /** The lease that was held before: nothing of it is used any more. */
  replaces: string | undefined
  /** Told once it is held, by what name. */
  onLease: (id: string) => void
  /** Told of each time that everything was dropped because the authority asked for it. */
  onInvalidated: () => void
  /** Called at each renewal: whether to keep the lease. */
  isInUse: () => boolean
  signal: AbortSignal
}

/** How a lease ended: why, and its name if it had been held at all. */
export interface LeaseEnd {
  id: string | undefined
  why: string
}

/** The time for the first event, once the stream is open. */
const FIRST_EVENT_TIMEOUT_MS = 5_000
/** We renew no more often than this, whatever an authority asks for. */
const RENEW_MS_MIN = 10
/** No event of an authority has more characters. */
const EVENT_LENGTH_MAX = 65_536

/** Registers, and resolves when the lease has ended, by whatever: nothing that was kept under it is used. */
export async function holdLease(options: LeaseOptions): Promise<LeaseEnd> {
  const { door, answers, replaces, signal } = options
  const { promise: ending, resolve: end } = Promise.withResolvers<string>()
  const at = answers.now()
  let lease: LiveLease | undefined
  const take = (message: LeaseMessage): void => {
    if (message.type === 'lease') lease ??= startRenewing(message.lease, at, { ...options, end })
    else lease?.invalidated(message.asked)
  }
  const onData = readingEvents(take, () => end('the authority told what cannot be read'))
  const stream = await door.open(replaces === undefined ? {} : { replaces }, onData)
  if (stream.status !== 200) end(`the authority answered ${stream.status}`)
  void stream.ended.then(() => end('the stream of the authority ended'))
  const why = await untilEnded(ending, end, { signal, hasLease: () => lease !== undefined })
  lease?.stop()
  answers.lose()
  // This comes last, because it is our word that nothing is used any more.
  if (lease !== undefined && SAID.has(why)) await door.say(lease.id, { end: true }).catch(() => undefined)
  stream.close()
  return { id: lease?.id, why }
}

async function untilEnded(
  ending: Promise<string>,
  end: (why: string) => void,
  { signal, hasLease }: { signal: AbortSignal; hasLease: () => boolean },
): Promise<string> {
  const unnamed = setTimeout(() => {
    if (!hasLease()) end('the authority gave no lease')
  }, FIRST_EVENT_TIMEOUT_MS)
  const onAbort = (): void => end(STOPPED)
  if (signal.aborted) onAbort()
  signal.addEventListener('abort', onAbort, { once: true })
  const why = await ending
  signal.removeEventListener('abort', onAbort)
  clearTimeout(unnamed)
  return why
}

const STOPPED = 'this enforcement point ends'
const UNUSED = 'nobody calls'
/** The authority may also refuse to renew it: we end it, so that nobody waits until it counts as silent. */
const UNKNOWN = 'the authority knows the lease no more'
const SAID: ReadonlySet<string> = new Set([STOPPED, UNUSED, UNKNOWN])

/** Reads the stream as it comes; calls `onUnreadable` for what no authority sends. */
function readingEvents(
  take: (message: LeaseMessage) => void,
  onUnreadable: () => void,
): (chunk: Buffer) => void {
  const reader = new EventStreamReader('', EVENT_LENGTH_MAX)
  return chunk => {
    try {
      for (const event of reader.read(chunk)) {
        const message = parseLeaseMessage(event)
        if (message !== undefined) take(message)
      }
    } catch {
      onUnreadable()
    }
  }
}

interface LiveLease {
  id: string
  /** The authority asks for all to be dropped, for the so-many-th time. */
  invalidated(count: number): void
  stop(): void
}

/** Renews until it is stopped. `at`: when the registration was sent. */
function startRenewing(
  { id, renew_ms, asked: count }: Lease,
  at: Moment,
  options: LeaseOptions & { end: (why: string) => void },
): LiveLease {
  const { door, answers, end, isInUse, onLease, onInvalidated } = options
  let acknowledged = count
  let stopped = false
  const invalidated = (number: number): void => {
    if (stopped) return
    answers.drop()
    onInvalidated()
    acknowledged = Math.max(acknowledged, number)
    acknowledging()
  }
  const say = async (): Promise<void> => {
    const sentAt = answers.now()
    const acknowledgement = acknowledged
    const answered = await door.say(id, { acknowledged: acknowledgement })
    if (stopped) return
    if (answered === undefined) return end(UNKNOWN)
    // Its database is as it was before: by its numbers we would have let go of what it asks for next.
    if (answered < acknowledgement) return end('the authority has forgotten what it asked for')
    if (answered > acknowledged) invalidated(answered)
    answers.renewed(sentAt)
  }
  const renewing = oneAtATime(say)
  // Runs beside a renewal that is under way, because that one acknowledges less.
  const acknowledging = oneAtATime(async () => {
    for (let acknowledgement = -1; acknowledgement < acknowledged;) {
      acknowledgement = acknowledged
      await say()
      if (stopped) return
    }
  })
  const timer = setInterval(
    () => {
      answers.sweep()
      if (isInUse()) renewing()
      else end(UNUSED)
    },
    Math.min(LEASE_RENEW_MS, Math.max(RENEW_MS_MIN, renew_ms)),
  )
  timer.unref()
  answers.renewed(at)
  onLease(id)
  return {
    id,
    invalidated,
    stop: () => {
      stopped = true
      clearInterval(timer)
    },
  }
}

/** Begins the work if it is not under way. What fails is tried again with the next renewal. */
function oneAtATime(work: () => Promise<void>): () => void {
  let isUnderWay = false
  return () => {
    if (isUnderWay) return
    isUnderWay = true
    void work()
      .catch(() => undefined)
      .finally(() => (isUnderWay = false))
  }
}
