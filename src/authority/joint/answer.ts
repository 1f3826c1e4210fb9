/**
 * Her answer to one question. The checks run in this order, which decides which fault is reported: an answer
 * that is final already, the mandate, an earlier decision, her terms, the agreement, the agent, her rules,
 * her own decision. Contract: "Tally for a jointly held resource" (`/joint/verdict`).
 */
import { jointServer } from '../../rules/joint/joint.ts'
import type { Db } from '../../storage/authority/database.ts'
import {
  fixQuestion,
  forgetQuestion,
  keepWaiting,
  readQuestion,
  type JointQuestion,
} from '../../storage/authority/joint/joint-questions.ts'
import { lockQueue } from '../../storage/authority/owners/owners.ts'
import { endFamily, readFamily, type FamilyRow } from '../../storage/authority/negotiations/tickets.ts'
import { inTransaction } from '../../storage/core/database.ts'
import { REMOTE_MS_MAX } from '../../surface/agents/identity.ts'
import type { Handle } from '../../wire/identifiers.ts'
import type { VerdictAnswer, Withheld } from '../../wire/documents/quote.ts'
import { refuse } from '../../wire/refusal.ts'
import { newFamily } from '../../wire/negotiation/ticket.ts'
import type { VerdictRequest } from '../../wire/joint/verdict.ts'
import type { DecisionContext } from '../context.ts'
import { readRecord, weigh } from '../negotiation/evaluation.ts'
import { readGoverned } from '../negotiation/governance.ts'
import { askOrganization } from '../negotiation/organization.ts'
import type { Assessment } from '../negotiation/presentation.ts'
import { tellWithdrawn } from '../negotiation/withdrawals.ts'
import { presentedOf } from './presented.ts'
import type { HolderAccount } from './requests.ts'
import { signAllow, collectableAnswer, signRefusal } from './signing.ts'
import { addPendingItem } from './waiting.ts'

const ATTEMPTS_MAX = 3
const TOO_MANY =
  'Too many questions about her are open: close those that you no longer ask, and ask again later.'

/**
 * Her answer. Refuses 409 another question under the same negotiation, 429 if her queue is full or if that
 * tally has asked too much about her.
 */
export async function answerQuestion(
  authority: DecisionContext,
  request: VerdictRequest,
  joint: HolderAccount,
): Promise<VerdictAnswer> {
  const { iss: tally, owner, account, negotiation, resource_id, contract } = request
  const db = authority.database.of(owner)
  const draft = { owner, tally, account, negotiation, family: newFamily(), resource_id, contract }
  const question = await fixQuestion(db, draft)
  if (question === undefined) {
    authority.quotas.reached('questions')
    return refuse('temporarily_unavailable', TOO_MANY, {
      status: 429,
      headers: { 'retry-after': '3600' },
      extra: { reason: 'too_many_questions' },
    })
  }
  checkSame(question, request)
  if (question.verdict !== null)
    return collectableAnswer(question) ?? signRefusal(authority, question, 'expired')
  if (!joint.isUnchanged) return signRefusal(authority, question, 'mandate_changed')
  try {
    return await answerNow(authority, request, question)
  } catch (error) {
    // If her queue was full, so that she was not even asked, a stranger takes no place here, either.
    if (question.family === draft.family) await forget(db, question)
    throw error
  }
}

/** The tally asks nothing more about it; it is told so, also where there is nothing to close. */
export async function closeQuestion(
  { database }: DecisionContext,
  request: VerdictRequest,
): Promise<VerdictAnswer> {
  const { iss: tally, owner, account, negotiation } = request
  const db = database.of(owner)
  const question = await readQuestion(db, { owner, tally, account, negotiation })
  if (question === undefined) return { closed: true }
  checkSame(question, request)
  return close(db, question)
}

function checkSame(question: JointQuestion, { resource_id, contract }: VerdictRequest): void {
  if (question.resource_id !== resource_id || question.contract !== contract)
    refuse('conflict', 'Ask about the agreement that was asked about first under this negotiation.')
}

async function answerNow(
  authority: DecisionContext,
  request: VerdictRequest,
  question: JointQuestion,
): Promise<VerdictAnswer> {
  const db = authority.database.of(question.owner)
  for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
    const answered = await weighAndAnswer(authority, request, question)
    if (answered !== 'facts-moved') return answered
    // It may have been answered meanwhile, and what she answered may have been taken back.
    const current = await readQuestion(db, question)
    if (current !== undefined && current.verdict !== null)
      return collectableAnswer(current) ?? signRefusal(authority, current, 'expired')
  }
  return refuse('temporarily_unavailable', 'Ask again: the facts behind this answer kept changing.')
}

function forget(db: Db, question: JointQuestion): Promise<void> {
  return inTransaction(db, async tx => {
    await lockQueue(tx, question.owner)
    await forgetQuestion(tx, question)
  })
}

async function weighAndAnswer(
  authority: DecisionContext,
  request: VerdictRequest,
  question: JointQuestion,
): Promise<VerdictAnswer | 'facts-moved'> {
  const { owner, account, resource_id, final = true } = request
  const db = authority.database.of(owner)
  const decided = await readFamily(db, owner, question.family)
  const no = (because: Withheld, handle?: Handle): Promise<VerdictAnswer> =>
    signRefusal(authority, question, because, handle)
  // This holds even if the tally closed the question before it heard her: nobody asks her again what she
  // denied.
  if (decided?.decision === 'denied') return no('denied', decided.handle ?? undefined)
  const of = { owner, client_id: jointServer(account), resource_id, resource_scopes: [] }
  const governed = await readGoverned(db, of)
  if (governed.fault !== undefined) return no(governed.code === 'clearance_unmet' ? 'clearance' : 'no_tier')
  const deadline = Date.now() + REMOTE_MS_MAX
  const presented = await presentedOf(authority, { request, question, governed, deadline })
  if ('because' in presented) return no(presented.because)
  const recorded = await readRecord(authority, presented)
  const { standing, facts } = recorded
  const asking = {
    resource_id,
    scopes: recorded.scopes,
    expires_in: recorded.expiresIn,
    facts,
    standing,
    firstParty: facts.standing.firstParty === true,
    operation: null,
  }
  const consulted = await askOrganization(authority, governed, asking, { before: undefined, deadline })
  const assessment = weigh(recorded, consulted)
  if ('refused' in assessment) return no(withheldOf(assessment.refused.code), presented.agent.handle)
  return settle(authority, { question, assessment, decided, final })
}

/** Allows it, or asks her; what is weighed is the tier that would allow it. */
async function settle(
  authority: DecisionContext,
  of: { question: JointQuestion; assessment: Assessment; decided: FamilyRow | undefined; final: boolean },
): Promise<VerdictAnswer | 'facts-moved'> {
  const { question, assessment, decided, final } = of
  const { family, owner } = question
  const pending = (ready: boolean): VerdictAnswer => ({ pending: true, family, ready })
  const isWaiting = decided?.state === 'awaiting_owner'
  const isApproved = isWaiting && decided.decision === 'approved'
  // Her yes was to the agent as it was connected then.
  if (isApproved && decided.generation !== assessment.standing.generation)
    return signRefusal(authority, question, 'denied', assessment.agent.handle)
  if (assessment.answer.kind === 'grant' || isApproved)
    return final ? signAllow(authority, question, assessment) : pending(true)
  const { awaitingSeconds } = authority.limits
  if (isWaiting && (await keepWaiting(authority.database.of(owner), { owner, family, awaitingSeconds })))
    return pending(false)
  return (await addPendingItem(authority, question, assessment)) ?? pending(false)
}

/** The tally asks nothing more about it, so nothing waits for her; what came to nothing is forgotten. */
async function close(db: Db, question: JointQuestion): Promise<VerdictAnswer> {
  const { owner, family } = question
  await inTransaction(db, async tx => {
    await lockQueue(tx, owner)
    const waiting = await readFamily(tx, owner, family)
    const ended = waiting !== undefined && (await endFamily(tx, owner, family, 'ended', ['awaiting_owner']))
    if (ended && waiting.decision === null && waiting.handle !== null)
      await tellWithdrawn(tx, owner, [{ family, handle: waiting.handle }], 'closed')
    await forgetQuestion(tx, question)
  })
  return { closed: true }
}

function withheldOf(code: string): Withheld {
  if (code === 'agent_blocked' || code === 'operator_blocked' || code === 'too_many_operators')
    return 'operator'
  if (code === 'clearance_unmet') return 'clearance'
  return code === 'no_scope' ? 'terms' : 'policy'
}
