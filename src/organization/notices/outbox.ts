/**
 * Tells members' authorization servers what waits for them: at least once, in order for each membership, by
 * the first replica that gets to it. Contract: "Events" (organization notice).
 */
import { OutboundFault, plainWords } from '../../http/outbound/outbound.ts'
import { startRepeating, type WakeableRepetition } from '../../limits/repetition.ts'
import { noticeOutcome, noticePause, type NoticeOutcome } from '../../rules/organization/notice.ts'
import { isOutage } from '../../storage/core/database.ts'
import {
  closeEmptyLine,
  endNotice,
  firstNotice,
  stopNotice,
  takeLines,
  tellNoticeAgain,
  type FirstNotice,
  type NoticeQueueClaim,
} from '../../storage/organization/notices.ts'
import type { Clock } from '../../surface/clock.ts'
import type { OrganizationStore } from '../context.ts'
import type { NoticeSender } from './sender.ts'

const LINES_AT_ONCE = 20
/**
 * How long a replica has a queue: longer than a delivery takes. A queue is taken again if its replica has
 * ended meanwhile.
 */
const LEASE_SECONDS = 30
const PAUSE_SECONDS = 1

interface Teller extends OrganizationStore {
  readonly clock: Clock
  readonly notices: NoticeSender
  /** Called with the result of each attempt. */
  readonly observe: (outcome: NoticeOutcome) => void
}

/** The metric of delivery attempts and their results: its name and its help text. */
export const NOTICES_TOLD = {
  name: 'usher_notices_told_total',
  help: 'Notices told to servers of members: ended, to be told again, or stopped, as nobody took them.',
  labelNames: ['outcome'],
}

/**
 * Looks for due notices when it is woken, and each second, until it is stopped.
 */
export function startOutbox(teller: Teller): WakeableRepetition {
  const { log, clock } = teller
  const work = async (stopped: () => boolean): Promise<void> => {
    while (!stopped() && clock.fault() === undefined) {
      const bounds = { limit: LINES_AT_ONCE, seconds: LEASE_SECONDS }
      const lines = await takeLines(teller.database.ofNobody, bounds)
      if (lines.length === 0) return
      const results = await Promise.allSettled(lines.map(line => tellFirst(teller, line)))
      const failed = results.find(one => one.status === 'rejected')
      if (failed !== undefined) throw failed.reason
    }
  }
  const onError = (error: unknown): void =>
    log[isOutage(error) ? 'warn' : 'error']({ err: error }, 'telling notices was broken off')
  return startRepeating(work, { pauseSeconds: PAUSE_SECONDS, onError })
}

/** Sends the first notice of a queue, and sets when the queue is due again. */
async function tellFirst(teller: Teller, line: NoticeQueueClaim): Promise<void> {
  const db = teller.database.ofNobody
  const first = await firstNotice(db, line)
  if (first === undefined) return closeEmptyLine(db, line)
  const { jti, notice, late } = first
  const status = await tell(teller, line, first)
  const answered = noticeOutcome(status)
  const outcome = answered === 'again' && late ? 'stopped' : answered
  teller.observe(outcome)
  if (outcome === 'ended') return endNotice(db, line, jti)
  if (outcome === 'again') {
    const seconds = noticePause(line.attempts, Math.random())
    return tellNoticeAgain(db, line, { jti, status, seconds })
  }
  const { as_uri } = line
  teller.log.error({ as_uri, jti, kind: notice.kind, status }, 'a notice was given up: nobody took it')
  return stopNotice(db, line, { jti, status })
}

/** @returns the status of the answer; undefined if there was none. */
async function tell(
  { notices, log }: Teller,
  { owner, membership, as_uri }: NoticeQueueClaim,
  { jti, notice }: FirstNotice,
): Promise<number | undefined> {
  const { kind } = notice
  try {
    const { status } = await notices.send({ sub: owner, membership, jti, as_uri, notice })
    log.debug({ as_uri, jti, kind, status }, 'a notice was told')
    return status
  } catch (error) {
    if (!(error instanceof OutboundFault)) throw error
    log.debug({ err: error, as_uri, jti, kind }, `a notice could not be told: ${plainWords(error)}`)
    return undefined
  }
}
