/**
 * Signs her answer to a question, once. An allow is signed in the transaction that finds everything it rests
 * on unchanged; a refusal is signed in any case. Contract: "Tally for a jointly held resource" (a verdict is
 * bound to one negotiation and to the exact agreement digest).
 */
import { readConnection } from '../../storage/authority/connections/connections.ts'
import { readJointAccount } from '../../storage/authority/joint/joint-accounts.ts'
import {
  answerQuestion,
  readQuestion,
  type JointQuestion,
} from '../../storage/authority/joint/joint-questions.ts'
import type { Tx } from '../../storage/authority/database.ts'
import { appendLedger, countRefusal } from '../../storage/authority/ledger/ledger.ts'
import { isAnyBlocked } from '../../storage/authority/connections/operators.ts'
import { isOpen, lockQueue } from '../../storage/authority/owners/owners.ts'
import { endFamily, readFamily } from '../../storage/authority/negotiations/tickets.ts'
import { inTransaction } from '../../storage/core/database.ts'
import type { Signer } from '../../surface/issuer.ts'
import type { Handle } from '../../wire/identifiers.ts'
import type { VerdictAnswer, Withheld } from '../../wire/documents/quote.ts'
import { refuse } from '../../wire/refusal.ts'
import { signVerdict, type VerdictBinding } from '../../wire/joint/verdict.ts'
import type { Store } from '../context.ts'
import { basisOf } from '../negotiation/grant.ts'
import { factsMoved } from '../negotiation/pending-request.ts'
import type { Assessment } from '../negotiation/presentation.ts'
import { tellWithdrawn } from '../negotiation/withdrawals.ts'

/** How long a verdict may be collected. */
const COLLECTION_SECONDS = 300

/**
 * Her refusal. If an answer was signed before, that one counts. An answer that may no longer be collected is
 * replaced.
 */
export async function signRefusal(
  authority: Signer & Store,
  question: JointQuestion,
  because: Withheld,
  handle?: Handle,
): Promise<VerdictAnswer> {
  const { owner, account, negotiation, family, tally, resource_id } = question
  const db = authority.database.of(owner)
  const binding = bindingOf(authority, question)
  const verdict = signVerdict({ ...binding, effect: 'deny', because }, authority.keys[0])
  const answered = {
    effect: 'deny' as const,
    verdict,
    handle: handle ?? null,
    operator: null,
    tier_id: null,
    collectSeconds: COLLECTION_SECONDS,
    reliedSeconds: 0,
  }
  const done = await inTransaction(db, async tx => {
    await lockQueue(tx, owner)
    if (!(await answerQuestion(tx, question, answered, question.verdict !== null))) return false
    await endItem(tx, question)
    const kind = 'joint_refused'
    const data = { account, tally, negotiation, resource_id, reason: because }
    // Keys cost strangers nothing, and a tally may ask about anything, so neither may fill her ledger.
    const isKnown = handle !== undefined && (await readConnection(tx, owner, handle)) !== undefined
    if (isKnown) await appendLedger(tx, owner, { kind, family, handle, data })
    else await countRefusal(tx, owner, { kind, reason: because }, { times: 1, families: [family] })
    return true
  })
  if (done) return { verdict }
  const current = await readQuestion(db, question)
  if (current === undefined || current.verdict === null)
    return refuse('temporarily_unavailable', 'Ask again: this question was closed meanwhile.')
  // Another was signed meanwhile, and it may have been taken back since.
  return collectableAnswer(current) ?? signRefusal(authority, current, 'expired')
}

/** What was signed, if it may still be collected and she did not take it back. */
export function collectableAnswer({
  verdict,
  effect,
  isCollectable,
  withdrawn_at,
}: JointQuestion): VerdictAnswer | undefined {
  const isAvailable = verdict !== null && isCollectable && (effect === 'deny' || withdrawn_at === null)
  return isAvailable ? { verdict } : undefined
}

/** Signs that she allows it; 'facts-moved' if something that it rests on has changed. */
export async function signAllow(
  authority: Signer & Store,
  question: JointQuestion,
  assessment: Assessment,
): Promise<VerdictAnswer | 'facts-moved'> {
  const { owner, account, family, tally, negotiation, resource_id } = question
  const { agent, governed, tierAnswer } = assessment
  const { handle } = agent
  const { scopes, expires_in, operation, jkt } = basisOf(assessment)
  const { tier_id } = governed.tier
  const db = authority.database.of(owner)
  const binding = bindingOf(authority, question)
  return inTransaction(db, async (tx): Promise<VerdictAnswer | 'facts-moved'> => {
    await lockQueue(tx, owner)
    const known = await readQuestion(tx, question)
    if (known === undefined) return 'facts-moved'
    if (known.verdict !== null) return collectableAnswer(known) ?? 'facts-moved'
    // Her removal, or a suspension, may have been under way while this was weighed.
    if (!(await isOpen(tx, owner))) return 'facts-moved'
    const joint = await readJointAccount(tx, owner, account)
    if (joint === undefined || joint.tally !== tally || joint.changed_s256 !== null) return 'facts-moved'
    if (await isAnyBlocked(tx, owner, { handle, jkt: agent.jkt, operator: agent.operator ?? null }))
      return 'facts-moved'
    const item = await readFamily(tx, owner, family)
    if (item?.state === 'awaiting_owner' && item.decision === 'denied') return 'facts-moved'
    const isApproved = item?.state === 'awaiting_owner' && item.decision === 'approved'
    if (assessment.answer.kind !== 'grant' && !isApproved) return 'facts-moved'
    if (await factsMoved(tx, assessment)) return 'facts-moved'
    const { mandate_s256 } = joint
    const allowance = { mandate_s256, cnf_jkt: jkt, scope: scopes, expires_in }
    const bound = operation === null ? {} : { operation }
    const signed = { ...binding, effect: 'allow' as const, ...allowance, ...bound }
    const verdict = signVerdict(signed, authority.keys[0])
    const by = { handle, operator: agent.operator ?? null, tier_id }
    const lives = { collectSeconds: COLLECTION_SECONDS, reliedSeconds: expires_in }
    await answerQuestion(tx, question, { effect: 'allow', verdict, ...by, ...lives })
    await endItem(tx, question)
    const data = { account, tally, negotiation, resource_id, tier: tier_id, because: tierAnswer.because }
    const entry = { ...data, ...allowance, ...bound, contract: question.contract }
    await appendLedger(tx, owner, { kind: 'joint_allowed', family, handle, data: entry })
    return { verdict }
  })
}

function bindingOf({ issuer, now }: Signer & Store, question: JointQuestion): VerdictBinding {
  const { owner: holder, tally: aud, account, negotiation, resource_id, contract } = question
  const iat = now()
  const times = { iat, exp: iat + COLLECTION_SECONDS }
  return { iss: issuer, aud, ...times, holder, account, negotiation, resource_id, contract }
}

/**
 * Items that waited because of an answered question wait no more; if she did not decide them herself, she is
 * notified.
 */
async function endItem(tx: Tx, { owner, family }: JointQuestion): Promise<void> {
  const item = await readFamily(tx, owner, family)
  if (item?.state !== 'awaiting_owner' || item.handle === null) return
  await endFamily(tx, owner, family, item.decision === 'approved' ? 'granted' : 'denied', ['awaiting_owner'])
  if (item.decision === null) await tellWithdrawn(tx, owner, [{ family, handle: item.handle }], 'closed')
}
