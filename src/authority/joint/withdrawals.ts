/**
 * Tells tallies what owners withdrew, and retries until the tally acknowledges it. The replica that wrote the
 * withdrawal sends it at once; after a failure, any replica that finds it due sends it. Contract: "Tally for
 * a jointly held resource" (on each holder's authorization server).
 */
import { z } from 'zod'
import { waitAtMost } from '../../limits/patience.ts'
import type { Repetition } from '../../limits/repetition.ts'
import type { Db } from '../../storage/authority/database.ts'
import { dueAgainIn, dueNoMore, type DueClaim } from '../../storage/authority/due.ts'
import {
  countWithdrawalAttempt,
  endOverdue,
  endWithdrawal,
  listWithdrawals,
  type WaitingWithdrawal,
} from '../../storage/authority/joint/joint-withdrawals.ts'
import type { Owner } from '../../wire/identifiers.ts'
import type { StillWaiting } from '../../wire/owner/owner-api.ts'
import { signWithdrawal, WITHDRAWAL_SECONDS } from '../../wire/joint/verdict.ts'
import type { Signer } from '../../surface/issuer.ts'
import type { Documents, Wakeups } from '../context.ts'
import { startDueRounds } from '../due-rounds.ts'
import { LEASES_AWAITED, runAndAwaitLeases } from '../protection/lease-wait.ts'
import { TallyFault, TallyOutage } from './tallies.ts'

/** What telling takes. */
export type WithdrawalContext = Signer & Wakeups & Documents

/** The members of an answer about leases, and about withdrawals that no tally has accepted yet. */
export const STILL_WAITING = { joint_withdrawals_waiting: z.int().min(1).optional(), ...LEASES_AWAITED }

/** How long one replica keeps its turn: longer than telling one tally takes. */
const CLAIM_SECONDS = 60
/** The pause between two attempts, which gets longer each time. */
const RETRY_SECONDS = { first: 2, max: 300 }
/** How long her own call waits for the tallies. */
const WITHDRAWAL_WAIT_MS = 2_000
/** How many are sent in one turn, so that the turn ends within its lease. */
const TOLD_AT_ONCE_MAX = 100

/** Starts telling, if a tally is listed. */
export function startWithdrawals(authority: WithdrawalContext): Repetition | undefined {
  if (authority.tallies.issuers.length === 0) return undefined
  const lines = { round: 'telling tallies was broken off', one: 'a tally was not told' }
  return startDueRounds(authority, { kind: 'withdraw', claimSeconds: CLAIM_SECONDS, lines }, claim =>
    tellOne(authority, claim),
  )
}

/** A failure at one tally stops no others; that tally becomes due again by itself. */
async function tellOne(authority: WithdrawalContext, claim: DueClaim): Promise<void> {
  const { owner, client_id: tally } = claim
  const db = authority.database.ofNobody
  const overdue = await endOverdue(db, owner, tally)
  if (overdue > 0) authority.log.error({ owner, tally, overdue }, 'a tally never acknowledged a withdrawal')
  const waiting = await listWithdrawals(db, owner, tally)
  await tell({ ...authority, db }, owner, waiting.slice(0, TOLD_AT_ONCE_MAX))
  const left = await listWithdrawals(db, owner, tally)
  const [first] = left
  if (first === undefined) return dueNoMore(db, claim)
  const pause = RETRY_SECONDS.first * 2 ** Math.min(first.attempts - 1, 20)
  await dueAgainIn(db, claim, first.attempts === 0 ? 0 : Math.min(pause, RETRY_SECONDS.max))
}

/**
 * Sends in order. A withdrawal that is not accepted is sent again later, and does not hold up the next ones
 * unless the tally is silent.
 */
async function tell(
  authority: WithdrawalContext & { db: Db },
  owner: Owner,
  waiting: readonly WaitingWithdrawal[],
): Promise<void> {
  const { db } = authority
  for (const one of waiting) {
    const answered = await send(authority, owner, one)
    if (answered === 'acknowledged') await endWithdrawal(db, owner, one.id)
    else await countWithdrawalAttempt(db, owner, one.id)
    if (answered === 'silent') return
  }
}

async function send(
  { tallies, issuer: iss, keys, now, log }: WithdrawalContext,
  owner: Owner,
  { id: jti, tally, account, negotiations }: WaitingWithdrawal,
): Promise<'acknowledged' | 'refused' | 'silent'> {
  const iat = now()
  const times = { iat, exp: iat + WITHDRAWAL_SECONDS }
  const extent = negotiations === null ? { all: true as const } : { negotiations }
  const withdrawal = { iss, aud: tally, holder: owner, account, ...times, jti, ...extent }
  try {
    const status = await tallies.withdraw(tally, signWithdrawal(withdrawal, keys[0]))
    // 409 means that the tally had it before, and only the acknowledgement was lost.
    if (status === 200 || status === 409) return 'acknowledged'
    log.warn({ owner, tally, account, status }, 'a tally did not accept a withdrawal')
    return status >= 400 && status < 500 && status !== 429 ? 'refused' : 'silent'
  } catch (error) {
    if (!(error instanceof TallyOutage || error instanceof TallyFault)) throw error
    log.warn({ err: error, owner, tally, account }, 'a withdrawal did not reach a tally')
    return 'silent'
  }
}

/**
 * Runs her act and waits until no sidecar lets a call through by what it ended. Then it tells her tallies of
 * the withdrawals that the act caused, for 2 s at most. The answer has the number of those that still wait;
 * they are sent until they are accepted.
 */
export async function runAndTellTallies<T extends object>(
  authority: WithdrawalContext,
  owner: Owner,
  act: () => Promise<T>,
): Promise<T & StillWaiting> {
  const done = await runAndAwaitLeases(act)
  const { database, tallies, log } = authority
  if (tallies.issuers.length === 0) return done
  const db = database.of(owner)
  const waiting = await listWithdrawals(db, owner)
  if (waiting.length === 0) return done
  const onError = (err: unknown): void => log.error({ err, owner }, 'a tally was not told')
  const each = [...Map.groupBy(waiting, ({ tally }) => tally).values()].map(of =>
    tell({ ...authority, db }, owner, of).catch(onError),
  )
  await waitAtMost(WITHDRAWAL_WAIT_MS, Promise.all(each))
  const left = (await listWithdrawals(db, owner)).length
  return left === 0 ? done : { ...done, joint_withdrawals_waiting: left }
}
