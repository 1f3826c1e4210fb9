/**
 * Holders' answers to a negotiation, and who must be asked next. Every change to an answer locks the row of
 * its negotiation. Contract: "Tally for a jointly held resource".
 */
import { sql, type Selectable } from 'kysely'
import { nextStep, questionAt, type NextStep } from '../../rules/joint/collection.ts'
import type { Family, Owner } from '../../wire/identifiers.ts'
import { inTransaction } from '../core/database.ts'
import { notify } from '../core/notify.ts'
import type { Db, Tx } from './database.ts'
import { ACCOUNTS_CHANNEL } from './negotiations.ts'
import type { AnswersTable } from './tables.ts'

export type AnswerRow = Selectable<AnswersTable>
/** A holder to ask; `final`: to sign now. */
export type HolderQuestion = AnswerRow & { final: boolean }

type HolderDecision = 'approved' | 'denied' | null
type Key = { account: Owner; family: Family }
/** The result of one question. */
export type QuestionResult = Pick<AnswerRow, 'holder' | 'issuer' | 'state'> &
  Partial<Pick<AnswerRow, 'verdict' | 'verdict_exp' | 'allowed_until'>>

/** Within this time nobody else asks her: longer than we wait for an answer and the keys that it is by. */
export const LEASE_SECONDS = 5
const PAUSE_SECONDS_MIN = 2
const PAUSE_SECONDS_MAX = 15
/** The pause for a holder who gives no answer at all. */
const SILENCE_SECONDS_MAX = 60

/**
 * Stores an answer, if there is one, and returns the next step, only once: the holders to ask are leased to
 * this caller. A decision is written, and announced, by this call.
 */
export function advance(
  db: Db,
  { account, family }: Key,
  { threshold, answered }: { threshold: number; answered?: QuestionResult | undefined },
): Promise<{ step: NextStep; questions: HolderQuestion[] } | undefined> {
  return inTransaction(db, async tx => {
    const waiting = await lockWaiting(tx, { account, family })
    if (waiting === undefined) return undefined
    // One that comes late is kept, for one that it was approved by may run out before the agent collects.
    if (answered !== undefined) await keep(tx, { account, family }, answered)
    if (waiting.decision !== null) return undefined
    const { now } = waiting
    const answers = await readAnswers(tx, { account, family })
    const step = nextStep(answers, threshold, now)
    if (step === 'approved' || step === 'denied') {
      await decide(tx, { account, family }, step)
      return { step, questions: [] }
    }
    const questions = answers.flatMap(answer => {
      const question = questionAt(step, answer, now)
      return question === undefined ? [] : [{ ...answer, ...question }]
    })
    return { step, questions: await lease(tx, { account, family }, questions) }
  })
}

/** Ends the collecting of answers, because no result could be granted any more. */
export async function denyWaiting(db: Db, key: Key): Promise<void> {
  await inTransaction(db, async tx => {
    if ((await lockWaiting(tx, key))?.decision === null) await decide(tx, key, 'denied')
  })
}

/**
 * Counts an approved negotiation again, because what approved it ran out before it was collected. @returns
 * whether it may still be granted: if not by those who allow it now, others are asked from the next poll on.
 */
export function countAgain(db: Db, { account, family }: Key, threshold: number): Promise<boolean> {
  return inTransaction(db, async tx => {
    const waiting = await lockWaiting(tx, { account, family })
    if (waiting === undefined) return false
    const step = nextStep(await readAnswers(tx, { account, family }), threshold, waiting.now)
    if (step === 'ask' || step === 'final') await decide(tx, { account, family }, null)
    return step !== 'denied'
  })
}

/** All answers to a negotiation, by holder. */
export function readAnswers(db: Db, { account, family }: Key): Promise<AnswerRow[]> {
  return db
    .selectFrom('answers')
    .selectAll()
    .where('account', '=', account)
    .where('family', '=', family)
    .orderBy('holder')
    .orderBy('issuer')
    .execute()
}

/** The database's time in seconds, and what was decided; undefined if nothing is waited for. */
async function lockWaiting(
  tx: Tx,
  { account, family }: Key,
): Promise<{ now: number; decision: HolderDecision } | undefined> {
  const { rows } = await sql<{ now: number; decision: HolderDecision }>`
    SELECT extract(epoch FROM clock_timestamp())::float8 AS now, decision FROM negotiations
    WHERE account = ${account} AND family = ${family} AND state = 'awaiting_holders'
    FOR UPDATE`.execute(tx)
  return rows[0]
}

async function decide(tx: Tx, { account, family }: Key, decision: HolderDecision): Promise<void> {
  await sql`
    UPDATE negotiations SET decision = ${decision} WHERE account = ${account} AND family = ${family}`.execute(
    tx,
  )
  await notify(tx, ACCOUNTS_CHANNEL, account)
}

/** A refusal is final, and so is an allowance that counts; a withdrawn holder is not asked again. */
async function keep(tx: Tx, { account, family }: Key, answered: QuestionResult): Promise<void> {
  const { holder, issuer, state, verdict = null, verdict_exp = null, allowed_until = null } = answered
  await sql`
    UPDATE answers SET state = ${state}, verdict = ${verdict}, verdict_exp = ${verdict_exp},
      allowed_until = ${allowed_until},
      due_at = now() + CASE WHEN ${state} = 'ready' THEN 0
        ELSE least(${PAUSE_SECONDS_MIN} * power(2, least(greatest(asked - 1, 0), 10)), ${PAUSE_SECONDS_MAX}) END
        * interval '1 second'
    WHERE account = ${account} AND family = ${family} AND holder = ${holder} AND issuer = ${issuer}
      AND NOT withdrawn AND state <> 'refused'
      AND (state <> 'allowed' OR verdict_exp <= extract(epoch FROM clock_timestamp()))`.execute(tx)
}

/**
 * Pauses before asking again a holder who gave no answer: twice as long after each time, up to a minute. An
 * answer that she gave to another caller meanwhile stays.
 */
export async function letRest(
  db: Db,
  { account, family }: Key,
  { holder, issuer, asked }: Pick<AnswerRow, 'holder' | 'issuer' | 'asked'>,
): Promise<void> {
  await sql`
    UPDATE answers SET due_at = clock_timestamp()
      + least(${LEASE_SECONDS} * power(2, least(asked - 1, 10)), ${SILENCE_SECONDS_MAX}) * interval '1 second'
    WHERE account = ${account} AND family = ${family} AND holder = ${holder} AND issuer = ${issuer}
      AND asked = ${asked} AND NOT withdrawn AND state IN ('pending', 'ready')`.execute(db)
}

async function lease(
  tx: Tx,
  { account, family }: Key,
  questions: readonly HolderQuestion[],
): Promise<HolderQuestion[]> {
  const leased: HolderQuestion[] = []
  for (const { holder, issuer, final } of questions) {
    const { rows } = await sql<AnswerRow>`
      UPDATE answers SET asked = asked + 1, due_at = clock_timestamp() + ${LEASE_SECONDS} * interval '1 second'
      WHERE account = ${account} AND family = ${family} AND holder = ${holder} AND issuer = ${issuer}
        AND due_at <= clock_timestamp()
      RETURNING *`.execute(tx)
    leased.push(...rows.map(row => ({ ...row, final })))
  }
  return leased
}
