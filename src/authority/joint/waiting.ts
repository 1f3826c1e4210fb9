/**
 * Makes a question wait for her: an item in the lanes of her queue, which says what she holds with whom.
 * Contract: "Tally for a jointly held resource" (pending while she is asked), "Limits" (pending queue).
 */
import { queueAnswer } from '../../rules/pending-queue.ts'
import { mayWait } from '../../rules/quiet-hours.ts'
import { appendEvent } from '../../storage/authority/ledger/events.ts'
import { readJointAccount } from '../../storage/authority/joint/joint-accounts.ts'
import {
  holdQuestion,
  readQuestion,
  type JointQuestion,
} from '../../storage/authority/joint/joint-questions.ts'
import { notify } from '../../storage/authority/notifications/notifications.ts'
import { isAnyBlocked } from '../../storage/authority/connections/operators.ts'
import { lockQueue } from '../../storage/authority/owners/owners.ts'
import { countWaiting } from '../../storage/authority/negotiations/pending.ts'
import { readFamily } from '../../storage/authority/negotiations/tickets.ts'
import { inTransaction } from '../../storage/core/database.ts'
import { refuse } from '../../wire/refusal.ts'
import type { Limits, Store } from '../context.ts'
import { basisOf, recordPromise } from '../negotiation/grant.ts'
import { factsMoved, itemOf } from '../negotiation/pending-request.ts'
import type { Assessment } from '../negotiation/presentation.ts'
import { shown } from './holding.ts'

/**
 * Holds it. 'facts-moved' if her record changed since it was weighed. Refuses 429 if her queue is full:
 * the tally asks again.
 */
export function addPendingItem(
  { database, limits, quotas }: Store & Limits,
  question: JointQuestion,
  assessment: Assessment,
): Promise<'facts-moved' | undefined> {
  const { owner, account, family } = question
  const { agent, answer, governed, template } = assessment
  if (answer.kind !== 'ask') throw new Error('only a question that she is asked about is held')
  const { handle, jkt, attested } = agent
  const operator = agent.operator ?? null
  return inTransaction(database.of(owner), async tx => {
    await lockQueue(tx, owner)
    // It may have been forgotten meanwhile, and then nobody would be told what she decides.
    if ((await readQuestion(tx, question)) === undefined) return 'facts-moved'
    const joint = await readJointAccount(tx, owner, account)
    if (joint === undefined || (await isAnyBlocked(tx, owner, { handle, jkt, operator })))
      return 'facts-moved'
    if (await factsMoved(tx, assessment)) return 'facts-moved'
    const counts = await countWaiting(tx, owner, { handle, operator })
    const admitted = queueAnswer(counts, { kind: answer.of, attested, repeats: false })
    if (!admitted.admit) {
      quotas.reached('waiting')
      refuse('temporarily_unavailable', admitted.reason, { status: 429 })
    }
    const { rule, holders } = shown(joint.mandate)
    const basis = basisOf(assessment)
    const item = { ...itemOf(assessment), account, rule, holders }
    const done = await holdQuestion(tx, {
      owner,
      account,
      family,
      resource_id: assessment.family.resource_id,
      resource_scopes: assessment.family.resource_scopes,
      tier_id: governed.tier.tier_id,
      template,
      kind: answer.of,
      handle,
      operator,
      attested,
      held: basis,
      item,
      awaitingSeconds: limits.awaitingSeconds,
      negotiationSeconds: limits.negotiationSeconds,
    })
    if (!done) return undefined
    await recordPromise(tx, assessment)
    const { requested_at } = (await readFamily(tx, owner, family))!
    await appendEvent(tx, owner, 'pending', { family, kind: 'joint', handle, requested_at, ...item })
    await notify(tx, owner, { family, mayWait: mayWait(basis.consequence) })
    return undefined
  })
}
