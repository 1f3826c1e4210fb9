/**
 * Holds a request for the owner's tap: under the lock of her queue the facts are read again, a repeat joins
 * its waiting item, the caps are counted, and the item is announced to her.
 * Contract: "Permission ticket" (awaiting-owner), "Limits" (pending queue), "Events" (row 1).
 */
import { reasonOf } from '../../rules/agreement.ts'
import { stateWithin } from '../../rules/connection.ts'
import { connectionFacts, standsOn, type KnownConnection } from '../../rules/grant.ts'
import { jointAccountOf } from '../../rules/joint/joint.ts'
import { queueAnswer } from '../../rules/pending-queue.ts'
import { enforcedProhibitions } from '../../rules/prohibition.ts'
import { mayWait } from '../../rules/quiet-hours.ts'
import { readConnection } from '../../storage/authority/connections/connections.ts'
import { inTransaction } from '../../storage/core/database.ts'
import type { Db, Tx } from '../../storage/authority/database.ts'
import { appendEvent } from '../../storage/authority/ledger/events.ts'
import type { ShownItem } from '../../storage/authority/negotiations/shown-item.ts'
import { isAnyBlocked } from '../../storage/authority/connections/operators.ts'
import { notify } from '../../storage/authority/notifications/notifications.ts'
import { lockQueue } from '../../storage/authority/owners/owners.ts'
import {
  countWaiting,
  findWaiting,
  reopenCollected,
  type WaitingItem,
} from '../../storage/authority/negotiations/pending.ts'
import { readTerms } from '../../storage/authority/policies/tiers.ts'
import {
  endFamily,
  holdFamily,
  joinFamily,
  readFamily,
} from '../../storage/authority/negotiations/tickets.ts'
import { s256Json } from '../../wire/encoding.ts'
import { termsDocument } from '../../wire/negotiation/terms.ts'
import type { Decision } from '../../surface/token/negotiation.ts'
import type { LimitSettings, Limits, Store } from '../context.ts'
import { refuseAgreement, shownMission, type Assessment } from './presentation.ts'
import { basisOf, recordPromise } from './grant.ts'
import { BLOCKED } from './evaluation.ts'
import { readGrounds } from './grant-facts.ts'
import { tellWithdrawn } from './withdrawals.ts'
import { admitIntroduced, introductionStands } from '../agents/introductions.ts'
import type { Handle } from '../../wire/identifiers.ts'

type HoldOutcome =
  | { kind: 'held'; as: 'connection' | 'operation'; reasonShown: boolean }
  | { kind: 'full'; reason: string }
  | { kind: 'blocked'; what: 'agent' | 'operator' }
  | { kind: 'facts-moved' }

/** Holds a weighed request that asks: it waits, or is refused, with 429 if the queue is full. */
export async function holdForOwner(
  authority: Store & Limits,
  assessment: Assessment,
): Promise<Decision | 'facts-moved'> {
  const { owner } = assessment.family
  const db = authority.database.of(owner)
  const full = await strangersLaneIsFull(db, assessment)
  const outcome: HoldOutcome =
    full === undefined
      ? await inTransaction(db, tx => holdLocked(tx, authority.limits, assessment))
      : { kind: 'full', reason: full }
  switch (outcome.kind) {
    case 'held':
      return { kind: 'waiting', as: outcome.as, reasonShown: outcome.reasonShown }
    case 'facts-moved':
      return 'facts-moved'
    case 'blocked':
      return refuseAgreement(authority, assessment.family, assessment.agent, BLOCKED[outcome.what])
    case 'full':
      authority.quotas.reached('waiting')
      await endFamily(db, owner, assessment.family.family, 'denied')
      await authority.refusals.count(owner, assessment.family.family, { reason: 'queue_full' })
      return { kind: 'refused', sentence: outcome.reason, status: 429 }
  }
}

/**
 * Turns a stranger away before it takes the queue's lock: a flood of strangers must not wait for it in front
 * of an attested newcomer or an agent that the owner knows. A request that passes here is counted again under
 * the lock.
 */
async function strangersLaneIsFull(db: Db, assessment: Assessment): Promise<string | undefined> {
  const { answer, agent, family } = assessment
  if (answer.kind !== 'ask' || answer.of !== 'connection' || agent.attested) return undefined
  const { owner } = family
  const { handle } = agent
  const counts = await countWaiting(db, owner, { handle, operator: null })
  const repeats = (await findWaiting(db, owner, sameRequest(assessment))) !== undefined
  const admitted = queueAnswer(counts, { kind: 'connection', attested: false, repeats })
  return admitted.admit ? undefined : admitted.reason
}

async function holdLocked(
  tx: Tx,
  { awaitingSeconds }: LimitSettings,
  assessment: Assessment,
): Promise<HoldOutcome> {
  const { family, agent, answer, introducer, nextHash: ticketHash } = assessment
  const { owner } = family
  if (answer.kind !== 'ask') throw new Error('only a request that asks is held')
  await lockQueue(tx, owner)
  const operator = agent.operator ?? null
  // A block takes the queue's lock too, so reading is enough.
  const what = await isAnyBlocked(tx, owner, { handle: agent.handle, jkt: agent.jkt, operator })
  if (what !== false) return { kind: 'blocked', what }
  if (await factsMoved(tx, assessment)) return { kind: 'facts-moved' }

  const { handle } = agent
  const same = sameRequest(assessment)
  const waiting = (await findWaiting(tx, owner, same, 'locked')) ?? (await findLost(tx, assessment, same))
  if (waiting !== undefined) {
    const join = { owner, family: family.family, waiting: waiting.family, ticketHash, awaitingSeconds }
    if (comesToTheSame(waiting, assessment) && (await joinFamily(tx, join)))
      return { kind: 'held', as: waiting.kind, reasonShown: hasReasonOf(waiting, assessment) }
    // Other scopes, another lifetime or a newly attesting operator: the question that the owner was asked no
    // longer matches, so the new request replaces it.
    if (await endFamily(tx, owner, waiting.family, 'ended'))
      await tellWithdrawn(tx, owner, [{ family: waiting.family, handle }], 'replaced')
  }
  const counts = await countWaiting(tx, owner, { handle, operator })
  const admitted = queueAnswer(counts, { kind: answer.of, attested: agent.attested, repeats: false })
  if (!admitted.admit) return { kind: 'full', reason: admitted.reason }
  if (introducer !== undefined) await admitIntroduced(tx, assessment)
  const basis = basisOf(assessment)
  const item = { ...itemOf(assessment), terms_s256: await publishedTerms(tx, assessment) }
  const done = await holdFamily(tx, {
    owner,
    family: family.family,
    kind: answer.of,
    handle,
    operator,
    attested: agent.attested,
    paramsKey: same.paramsKey,
    held: basis,
    item,
    ticketHash,
    awaitingSeconds,
  })
  if (!done) throw new Error('a negotiation whose ticket was just spent has moved by itself')
  await recordPromise(tx, assessment)
  const { requested_at } = (await readFamily(tx, owner, family.family))!
  await appendEvent(tx, owner, 'pending', {
    family: family.family,
    kind: answer.of,
    handle,
    requested_at,
    ...item,
  })
  await notify(tx, owner, { family: family.family, mayWait: mayWait(basis.consequence) })
  return { kind: 'held', as: answer.of, reasonShown: true }
}

/**
 * If she has approved already, the agent says that its answer was lost (claim `answer_lost`), and the
 * single-use grant was never spent: that grant ends here, and she is not asked again.
 */
async function findLost(
  tx: Tx,
  { family: { owner }, agreement }: Assessment,
  same: ReturnType<typeof sameRequest>,
): Promise<WaitingItem | undefined> {
  if (agreement.claims['answer_lost'] !== true) return undefined
  return (await reopenCollected(tx, owner, same)) ? findWaiting(tx, owner, same) : undefined
}

/**
 * Whether the record changed since it was weighed; the caller holds the queue's lock, which all that changes
 * it take, and has looked whether the operator is blocked.
 */
export async function factsMoved(tx: Tx, assessment: Assessment): Promise<boolean> {
  const { family, governed, standing } = assessment
  const basis = { ...basisOf(assessment), connection: standing }
  const grounds = await readGrounds(tx, basis, family.identity)
  if (grounds.attesting?.org_epoch !== governed.attesting?.org_epoch) return true
  const connection = await connectionNow(tx, assessment)
  if (connection === undefined) return true
  return standsOn(basis, { ...grounds, connection, operatorBlocked: false }) !== undefined
}

/** Undefined if it would come from an introduction that is no longer valid. */
async function connectionNow(tx: Tx, assessment: Assessment): Promise<KnownConnection | undefined> {
  const { family, agent, governed, standing } = assessment
  if (assessment.introducer !== undefined)
    return (await introductionStands(tx, assessment)) ? standing : undefined
  const connection = await readConnection(tx, family.owner, agent.handle)
  const facts = connectionFacts(connection)
  if (connection === undefined) return { status: 'none', generation: null, ...facts }
  const isShared = governed.organization !== undefined
  const status = stateWithin(connection, isShared, jointAccountOf(family.client_id))
  return { status, generation: connection.generation, ...facts }
}

function sameRequest(assessment: Assessment): { handle: Handle; resource_id: string; paramsKey: string } {
  const { agent, family } = assessment
  return { handle: agent.handle, resource_id: family.resource_id, paramsKey: paramsKeyOf(assessment) }
}

/**
 * Whether both agreements lead to the same grant. Otherwise she would see one, and the other would be issued.
 */
function comesToTheSame(waiting: WaitingItem, assessment: Assessment): boolean {
  const { family, agent, template, scopes, expiresIn } = assessment
  // Otherwise a block of the operator that attests the repeat would miss the waiting item.
  const attestsAnew = agent.attested && !(waiting.attested && waiting.operator === agent.operator)
  return (
    !attestsAnew &&
    waiting.template.template_id === template.template_id &&
    waiting.held.expires_in === expiresIn &&
    sameSet(waiting.resource_scopes, family.resource_scopes) &&
    sameSet(waiting.held.scopes, scopes)
  )
}

/** Whether the owner reads of the waiting item what this agreement gives as its reason, or it gives none. */
function hasReasonOf({ item }: WaitingItem, { agreement }: Assessment): boolean {
  const reason = reasonOf(agreement.claims)
  return reason === undefined || item.reason === reason
}

function sameSet(some: readonly string[], others: readonly string[]): boolean {
  const [a, b] = [new Set(some), new Set(others)]
  return a.size === b.size && [...a].every(one => b.has(one))
}

/**
 * What distinguishes requests of one agent for one resource: the exact operation, if the tier is per
 * operation; and the key, because the item will be bound to it (an issuer may vouch for several keys under
 * one handle).
 */
function paramsKeyOf(assessment: Assessment): string {
  const { operation, governed, agent } = assessment
  if (!governed.tier.ask_me || operation === undefined) return agent.jkt
  return `${agent.jkt} ${s256Json({ tool: operation.tool, params: operation.params })}`
}

/** The digest of the terms as they are published, after any cut by an organization's ceiling. */
async function publishedTerms(tx: Tx, { family, governed, template }: Assessment): Promise<string | null> {
  const { tier_id, version } = governed.tier
  const terms = await readTerms(tx, family.owner, tier_id, version)
  return terms === undefined ? null : s256Json(termsDocument(terms, template.proffered_by))
}

/** What the owner is shown; family, kind, handle and requested_at are columns of the row. */
export function itemOf(assessment: Assessment): ShownItem {
  const { family, governed, agreement, agent, tierAnswer, operation, scopes, expiresIn, answer } = assessment
  const { tier } = governed
  const single_use = answer.kind !== 'deny' && answer.singleUse
  const isFirst = answer.kind === 'ask' && answer.of === 'connection'
  return {
    tier: tier.tier_id,
    tier_name: tier.name,
    resource_id: family.resource_id,
    purpose: tier.terms.purpose,
    operation: operation === undefined ? null : { tool: operation.tool, params: operation.params },
    reason: reasonOf(agreement.claims) ?? null,
    mission: shownMission(agreement),
    prohibited: tier.terms.prohibited,
    enforced: {
      scope: scopes,
      expires_in: expiresIn,
      single_use,
      operation_bound: single_use,
      prohibited: enforcedProhibitions({
        terms: tier.terms,
        resource: governed.resource,
        boundTo: single_use ? operation?.tool : undefined,
      }),
    },
    expires_in: expiresIn,
    identity: {
      kind: agent.identity,
      client_id: agent.client_id ?? null,
      signature_agent: agent.signature_agent ?? null,
      operator: agent.operator ?? null,
      operator_name: agent.operatorName ?? null,
      introduced_by: assessment.introducer?.handle ?? assessment.standing.introduced_by,
    },
    assurance: agent.assurance,
    assurance_notes: assessment.notes,
    because: [...(isFirst ? whyFirst(assessment) : []), ...tierAnswer.because],
    organization: organizationShown(assessment),
  }
}

/** She must not mistake an agent whose access she ended for one that she never met. */
function whyFirst({ standing }: Assessment): string[] {
  return standing.revocations > 0 ? ['first_contact', 'revoked_before'] : ['first_contact']
}

/** Which organization has a say, and what it said. */
function organizationShown({ governed, consulted: { ruling } }: Assessment): ShownItem['organization'] {
  if (governed.organization === undefined || ruling === undefined) return null
  const { issuer, org, name } = governed.organization.view
  return { issuer, org, name, effect: ruling.effect, because: [...ruling.because] }
}
