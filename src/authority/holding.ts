/**
 * Holds a request for the owner's tap: under the lock of her queue the facts are read again, a repeat joins
 * its waiting item, the caps are counted, and the item is announced to her.
 * Contract: "Permission ticket" (awaiting-owner), "Limits" (pending queue), "Events" (row 1).
 */
import { queueAnswer } from '../rules/pending.ts'
import { lockOperator, readConnection } from '../storage/connections.ts'
import { inTransaction, type Tx } from '../storage/database.ts'
import { appendEvent } from '../storage/events.ts'
import { countRefusal } from '../storage/ledger.ts'
import { lockQueue, readOwner } from '../storage/owners.ts'
import { countWaiting, findWaiting } from '../storage/pending.ts'
import { endFamily, holdFamily, joinFamily, readFamily } from '../storage/tickets.ts'
import { s256Json } from '../wire/encoding.ts'
import { requestSubmitted } from '../wire/negotiation.ts'
import { newTicket } from '../wire/ticket.ts'
import { refuseAgreement, shownMission, type Weighed } from './weighed.ts'
import { tooMany, type Answer } from './answers.ts'
import type { Authority } from './context.ts'
import { basisOf, recordPromise } from './grant.ts'

type Held =
  | { kind: 'held'; as: 'connection' | 'operation' }
  | { kind: 'full'; reason: string }
  | { kind: 'blocked' }
  | { kind: 'facts-moved' }

/** Holds a weighed request that asks; answers `request_submitted`, 429 where the queue is full, or a refusal. */
export async function holdForOwner(authority: Authority, weighed: Weighed): Promise<Answer | 'facts-moved'> {
  const { owner } = weighed.family
  const { db } = authority.database
  const tag = (await readOwner(db, owner))!.tag
  const next = newTicket(tag)
  const held = await inTransaction(db, tx => holdLocked(tx, authority, weighed, next.hash))
  switch (held.kind) {
    case 'held': {
      const interval = authority.limits.pollSeconds
      return { status: 403, body: requestSubmitted(held.as, next.ticket, interval) }
    }
    case 'facts-moved':
      return 'facts-moved'
    case 'blocked':
      return refuseAgreement(authority, weighed.family, weighed.agent, {
        code: 'operator_blocked',
        sentence: 'The owner has blocked the operator of this agent.',
      })
    case 'full':
      await endFamily(db, owner, weighed.family.family, 'denied')
      await countRefusal(db, owner, 'queue_full')
      return tooMany(held.reason)
  }
}

async function holdLocked(tx: Tx, authority: Authority, weighed: Weighed, ticketHash: Buffer): Promise<Held> {
  const { family, agent, standing, answer } = weighed
  const { owner } = family
  if (answer.kind !== 'ask') throw new Error('only a request that asks is held')
  await lockQueue(tx, owner)
  if (agent.operator !== undefined && (await lockOperator(tx, owner, agent.operator)).blocked)
    return { kind: 'blocked' }
  const connection = await readConnection(tx, owner, agent.handle)
  const moved =
    (connection?.status ?? 'none') !== standing.status ||
    (connection?.generation ?? null) !== standing.generation
  if (moved) return { kind: 'facts-moved' }

  const paramsKey = paramsKeyOf(weighed)
  const { awaitingSeconds } = authority.limits
  const { handle } = agent
  const waiting = await findWaiting(tx, owner, { handle, resource_id: family.resource_id, paramsKey })
  if (waiting !== undefined) {
    const join = { owner, family: family.family, waiting: waiting.family, ticketHash, awaitingSeconds }
    if (sameOffer(waiting, weighed) && (await joinFamily(tx, join))) return { kind: 'held', as: waiting.kind }
    // Other scopes or edited terms: what she was asked no longer matches, so the new request takes its place.
    await endFamily(tx, owner, waiting.family, 'ended')
  }
  const counts = await countWaiting(tx, owner, { handle, operator: agent.operator ?? null })
  const admitted = queueAnswer(counts, {
    kind: answer.of,
    attested: agent.attested,
    repeats: false,
  })
  if (!admitted.admit) return { kind: 'full', reason: admitted.reason }
  const item = itemOf(weighed)
  const done = await holdFamily(tx, {
    owner,
    family: family.family,
    kind: answer.of,
    handle,
    operator: agent.operator ?? null,
    attested: agent.attested,
    paramsKey,
    held: basisOf(weighed),
    item,
    ticketHash,
    awaitingSeconds,
  })
  if (!done) return { kind: 'facts-moved' }
  await recordPromise(tx, weighed)
  const { requested_at } = (await readFamily(tx, owner, family.family))!
  await appendEvent(tx, owner, 'pending', {
    family: family.family,
    kind: answer.of,
    handle,
    requested_at,
    ...item,
  })
  return { kind: 'held', as: answer.of }
}

function sameOffer(waiting: { template_id: string; resource_scopes: string[] }, weighed: Weighed): boolean {
  const template = weighed.family.template as { template_id: string }
  const asked = weighed.family.resource_scopes
  return (
    waiting.template_id === template.template_id &&
    waiting.resource_scopes.length === asked.length &&
    asked.every(scope => waiting.resource_scopes.includes(scope))
  )
}

/** Where the tier is per operation, the exact operation; elsewhere the resource alone tells requests apart. */
function paramsKeyOf(weighed: Weighed): string {
  const { operation, governed } = weighed
  if (!governed.tier.ask_me || operation === undefined) return ''
  return s256Json({ tool: operation.tool, params: operation.params })
}

/** What the owner is shown; family, kind, handle and requested_at stand in the row. */
function itemOf(weighed: Weighed): Record<string, unknown> {
  const { family, governed, agreement, agent, tierAnswer, operation, scopes, expiresIn, answer } = weighed
  const { tier } = governed
  const single_use = answer.kind !== 'deny' && answer.singleUse
  return {
    tier: tier.tier_id,
    tier_name: tier.name,
    resource_id: family.resource_id,
    purpose: tier.terms.purpose,
    operation: operation === undefined ? null : { tool: operation.tool, params: operation.params },
    reason: agreement.claims.reason ?? null,
    mission: shownMission(agreement),
    prohibited: tier.terms.prohibited,
    enforced: { scope: scopes, expires_in: expiresIn, single_use, operation_bound: single_use },
    expires_in: expiresIn,
    identity: {
      kind: agent.identity,
      client_id: agent.client_id ?? null,
      signature_agent: agent.signature_agent ?? null,
      operator: agent.operator ?? null,
    },
    assurance: agent.assurance,
    assurance_notes: agent.notes,
    because: tierAnswer.because,
    organization: null,
  }
}
