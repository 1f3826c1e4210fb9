/**
 * The questions that tallies ask about owners, each is fixed when it is first asked, and gets one final
 * answer; and the items that wait for her because of a question. Contract: "Tally for a jointly held
 * resource" (`/joint/verdict`).
 */
import { sql, type Selectable } from 'kysely'
import { jointServer } from '../../../rules/joint/joint.ts'
import type { Family, Handle, Owner } from '../../../wire/identifiers.ts'
import type { TermsTemplate } from '../../../wire/negotiation/terms.ts'
import { inTransaction } from '../../core/database.ts'
import type { Db, Tx } from '../database.ts'
import type { GrantBasis } from '../../../rules/grant.ts'
import type { ShownItem } from '../negotiations/shown-item.ts'
import type { JointQuestionsTable } from './joint-tables.ts'
import { lockQueue } from '../owners/owners.ts'
import type { PendingKind } from '../../../rules/connection.ts'

export type JointQuestion = Selectable<JointQuestionsTable> & {
  /** There is an answer, and it may still be collected. */
  isCollectable: boolean
}

const NO_LONGER_GIVEN = sql`(collect_until <= clock_timestamp() OR (effect = 'allow' AND withdrawn_at IS NOT NULL))`

type QuestionKey = Pick<JointQuestion, 'owner' | 'tally' | 'account' | 'negotiation'>

/**
 * How many questions of one tally about one owner are open. Concurrent questions may exceed it a little: it
 * limits what a tally can have under way, and is no exact count. Answered ones are kept uncounted, so that
 * what is asked again gets the same answer.
 */
export const QUESTIONS_PER_TALLY_MAX = 5_000

/**
 * Whether a question without an answer is under way: she is asked about it, or said yes; or nobody must be
 * asked, and it is not a day old: one that waits so long for others does not keep out new ones.
 */
const IS_OPEN = sql`q.effect IS NULL AND coalesce(
  (SELECT f.state = 'awaiting_owner' AND (f.ticket_expires_at > now() OR f.decision IS NOT DISTINCT FROM 'approved')
    FROM families f WHERE f.owner = q.owner AND f.family = q.family),
  q.asked_at > now() - interval '1 day')`

/**
 * Stores a question under that family, if it is new. @returns the question as it was first asked; undefined
 * if it is new but exceeds the limit, or if she is no longer served here.
 */
export async function fixQuestion(
  db: Db,
  question: QuestionKey & Pick<JointQuestion, 'family' | 'resource_id' | 'contract'>,
): Promise<JointQuestion | undefined> {
  const { owner, tally, account, negotiation, family, resource_id, contract } = question
  const known = await readQuestion(db, question)
  if (known !== undefined) return known
  await sql`
    INSERT INTO joint_questions (owner, tally, account, negotiation, family, resource_id, contract)
    SELECT o.owner, ${tally}::text, ${account}::text, ${negotiation}::text, ${family}::text, ${resource_id}::text,
      ${contract}::text
    FROM owners o WHERE o.owner = ${owner} AND (
      SELECT count(*) FROM (SELECT FROM joint_questions q WHERE q.owner = ${owner} AND q.tally = ${tally}
        AND ${IS_OPEN} LIMIT ${QUESTIONS_PER_TALLY_MAX}) open) < ${QUESTIONS_PER_TALLY_MAX}
    -- Whoever removes her waits for this, and then removes it, too.
    FOR KEY SHARE OF o
    ON CONFLICT DO NOTHING`.execute(db)
  return readQuestion(db, question)
}

/** Nothing was signed, she decided nothing, and she is not asked. */
const CAME_TO_NOTHING = sql`q.effect IS NULL AND NOT EXISTS (SELECT FROM families f
  WHERE f.owner = q.owner AND f.family = q.family AND (f.state = 'awaiting_owner' OR f.decision IS NOT NULL))`

/**
 * Forgets a question if it came to nothing: whoever counts the open ones looks at all that are unanswered.
 * The caller holds the queue's lock, because whoever asks her does.
 */
export async function forgetQuestion(
  tx: Tx,
  { owner, tally, account, negotiation, family }: QuestionKey & Pick<JointQuestion, 'family'>,
): Promise<void> {
  await sql`
    DELETE FROM joint_questions q
    WHERE owner = ${owner} AND tally = ${tally} AND account = ${account} AND negotiation = ${negotiation}
      AND family = ${family} AND ${CAME_TO_NOTHING}`.execute(tx)
}

/** The same for those whose items wait no more, as far as they are questions of tallies. */
export function forgetExpired(db: Db, owner: Owner, families: readonly Family[]): Promise<void> {
  return inTransaction(db, async tx => {
    await lockQueue(tx, owner)
    await sql`
      DELETE FROM joint_questions q
      WHERE owner = ${owner} AND family = ANY(${[...families]}::text[]) AND ${CAME_TO_NOTHING}`.execute(tx)
  })
}

/** One question, or undefined. */
export async function readQuestion(
  db: Db,
  { owner, tally, account, negotiation }: QuestionKey,
): Promise<JointQuestion | undefined> {
  const { rows } = await sql<JointQuestion>`
    SELECT *, coalesce(collect_until > clock_timestamp(), false) AS "isCollectable" FROM joint_questions
    WHERE owner = ${owner} AND tally = ${tally} AND account = ${account} AND negotiation = ${negotiation}`.execute(
    db,
  )
  return rows[0]
}

/** A final answer: what was signed, for whom, and how long it is valid. */
export interface FinalAnswer {
  effect: 'allow' | 'deny'
  verdict: string
  handle: Handle | null
  operator: string | null
  tier_id: string | null
  /** The seconds for which it may be collected, and for which a grant may rest on it. */
  collectSeconds: number
  reliedSeconds: number
}

/**
 * Answers a question, once: one of several signers gets true. `overdue`: replaces an answer that may no
 * longer be collected, or an allowance that she took back. The record of who decided stays, because a grant
 * may still rest on it.
 */
export async function answerQuestion(
  db: Db,
  { owner, tally, account, negotiation }: QuestionKey,
  answered: FinalAnswer,
  overdue = false,
): Promise<boolean> {
  const { effect, verdict, handle, operator, tier_id, collectSeconds, reliedSeconds } = answered
  const done = await sql`
    UPDATE joint_questions SET effect = ${effect}, verdict = ${verdict}, handle = coalesce(${handle}::text, handle),
      operator = coalesce(${operator}::text, operator), tier_id = coalesce(${tier_id}::text, tier_id), signed_at = clock_timestamp(),
      collect_until = clock_timestamp() + ${collectSeconds} * interval '1 second',
      relied_until = greatest(relied_until, clock_timestamp() + ${reliedSeconds} * interval '1 second')
    WHERE owner = ${owner} AND tally = ${tally} AND account = ${account} AND negotiation = ${negotiation}
      AND ${overdue ? NO_LONGER_GIVEN : sql`verdict IS NULL`}`.execute(db)
  return done.numAffectedRows === 1n
}

/** The item that should wait for her. */
export interface PendingQuestion {
  owner: Owner
  account: Owner
  family: Family
  resource_id: string
  resource_scopes: string[]
  tier_id: string
  template: TermsTemplate
  kind: PendingKind
  handle: Handle
  operator: string | null
  attested: boolean
  held: GrantBasis
  item: ShownItem
  awaitingSeconds: number
  negotiationSeconds: number
}

/**
 * Makes it wait for her: as an item of her queue without a ticket, so that it is decided, ended and reported
 * like any other. The caller holds the queue's lock. @returns false if it waits already, or was decided.
 */
export async function holdQuestion(tx: Tx, of: PendingQuestion): Promise<boolean> {
  const done = await sql`
    INSERT INTO families AS f (owner, family, state, client_id, resource_id, resource_scopes, tier_id, template,
      sealed_expires_at, negotiation_expires_at, ticket_expires_at, kind, handle, operator, attested, params_key,
      requested_at, held, item)
    VALUES (${of.owner}, ${of.family}, 'awaiting_owner', ${jointServer(of.account)}, ${of.resource_id},
      ${of.resource_scopes}::text[], ${of.tier_id}, ${JSON.stringify(of.template)}, now(),
      now() + ${of.negotiationSeconds} * interval '1 second', now() + ${of.awaitingSeconds} * interval '1 second',
      ${of.kind}, ${of.handle}, ${of.operator}, ${of.attested}, ${of.family}, now(), ${JSON.stringify(of.held)},
      ${JSON.stringify(of.item)})
    ON CONFLICT (owner, family) DO UPDATE SET state = 'awaiting_owner', tier_id = excluded.tier_id,
      template = excluded.template, ticket_expires_at = least(excluded.ticket_expires_at, f.negotiation_expires_at),
      kind = excluded.kind, handle = excluded.handle, operator = excluded.operator, attested = excluded.attested,
      requested_at = excluded.requested_at, held = excluded.held, item = excluded.item, decision = NULL,
      decided_by = NULL, decided_actor = NULL, decided_at = NULL, generation = NULL,
      denial_reason = NULL, owner_decision = NULL
    WHERE f.state IN ('need_info', 'ended') OR (f.state = 'awaiting_owner' AND f.decision IS NULL
      AND f.ticket_expires_at <= now() AND f.negotiation_expires_at > now())`.execute(tx)
  return done.numAffectedRows === 1n
}

/**
 * The tally still asks about it, so it continues to wait. @returns false if it waits no more: one that
 * expired is not in her queue, and must find a place in it again.
 */
export async function keepWaiting(
  db: Db,
  { owner, family, awaitingSeconds }: { owner: Owner; family: Family; awaitingSeconds: number },
): Promise<boolean> {
  const done = await sql`
    UPDATE families SET ticket_expires_at = least(now() + ${awaitingSeconds} * interval '1 second', negotiation_expires_at)
    WHERE owner = ${owner} AND family = ${family} AND state = 'awaiting_owner'
      AND (ticket_expires_at > now() OR decision IS NOT NULL)`.execute(db)
  return done.numAffectedRows === 1n
}
