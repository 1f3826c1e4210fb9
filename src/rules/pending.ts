/**
 * Owns the caps of the owner's queue, its lanes, and what is checked again when an approval is collected.
 * Contract: "Permission ticket" (the row of the pending queue), "Limits" (pending queue), "Connection".
 */
import type { ConnectionState, PendingKind } from './connection.ts'

/** Depths, in waiting items. */
export interface QueueCaps {
  /** First contacts per owner whose operator has not published the agent's key. */
  readonly unattested: number
  /** First contacts per owner whose operator has published it. */
  readonly attested: number
  /** First contacts of one operator, per owner. */
  readonly perOperator: number
  /** Operations of one connection. */
  readonly operationsPerConnection: number
}

export const QUEUE_CAPS: QueueCaps = {
  unattested: 5,
  attested: 40,
  perOperator: 5,
  operationsPerConnection: 20,
}

/**
 * The items that wait for this owner now, counted under the lock of her queue row; items whose ticket expired
 * do not count.
 */
export interface QueueCounts {
  /** First contacts whose operator has not published the agent's key. */
  readonly unattested: number
  /** First contacts whose operator has. */
  readonly attested: number
  /** Attested first contacts of the request's operator. */
  readonly ofOperator: number
  /** Operations waiting on the request's connection. */
  readonly operationsOfHandle: number
}

export interface QueueRequest {
  readonly kind: PendingKind
  /** The named operator's directory lists the signing key. */
  readonly attested: boolean
  /** An item for the same handle, resource and parameters waits already. */
  readonly repeats: boolean
}

export type QueueAnswer = { admit: true } | { admit: false; reason: string }

/**
 * Whether the request may wait. A repeat joins the item that waits already and is never refused. Otherwise a
 * first contact needs room in its lane (an attested one also under its operator's cap), and an operation
 * needs room on its connection. The operator's cap counts attested items only: anybody can name an operator,
 * and must not fill its places by that. `reason` is the error_description of the 429 `request_denied`.
 */
export function queueAnswer(
  counts: QueueCounts,
  request: QueueRequest,
  caps: QueueCaps = QUEUE_CAPS,
): QueueAnswer {
  const reason = request.repeats ? undefined : queueFull(counts, request, caps)
  return reason === undefined ? { admit: true } : { admit: false, reason }
}

function queueFull(counts: QueueCounts, request: QueueRequest, caps: QueueCaps): string | undefined {
  if (request.kind === 'operation')
    return counts.operationsOfHandle < caps.operationsPerConnection
      ? undefined
      : 'Too many operations of this agent wait for the owner; try again when she has decided some of them.'
  if (!request.attested)
    return counts.unattested < caps.unattested
      ? undefined
      : "Too many unknown agents wait for the owner; try again later, or have your operator publish this agent's key."
  if (counts.ofOperator >= caps.perOperator)
    return 'Too many agents of this operator wait for the owner; try again when she has decided some of them.'
  return counts.attested < caps.attested
    ? undefined
    : 'Too many new agents wait for the owner; try again when she has decided some of them.'
}

/** Facts that may have changed between the owner's approval and the poll that collects it. */
export interface CollectionFacts {
  readonly operatorBlocked: boolean
  readonly connection: ConnectionState
  /** The connection's generation is the one the approval was given for. */
  readonly sameGeneration: boolean
  readonly tierGoverns: boolean
  readonly resourceServerActive: boolean
  readonly resourceRegistered: boolean
  /** The terms, the resource's class and scopes are as they were agreed to. */
  readonly unchanged: boolean
  /** An organization governs the resource, and did not when the agreement was held. */
  readonly governedSince: boolean
  /** What the organization that governs the resource has taken away since, as its word for the agent. */
  readonly organizationTook: string | undefined
  /** If an organization governs the resource: it lets this agent act for the owner. */
  readonly delegated: boolean
  /** Everything that the tier requires to be attested is attested. */
  readonly clearanceMet: boolean
  /** A rule of the tier refuses the request by the present facts. */
  readonly refusedByRule: boolean
}

/** A sentence for the agent; `reason` is the word of the organization, where it is one. */
export interface CollectionFault {
  readonly sentence: string
  readonly reason?: string
}

/**
 * Why an approved request is still refused when it is collected (403 `request_denied`), or undefined: no
 * approval survives a block, a revocation, or the end of what it was about.
 */
export function collectionFault(facts: CollectionFacts): CollectionFault | undefined {
  if (facts.operatorBlocked) return { sentence: 'The owner has since blocked the operator of this agent.' }
  if (facts.connection !== 'active' || !facts.sameGeneration)
    return {
      sentence: 'The owner has since revoked this connection; a new request starts from first contact.',
    }
  if (!facts.resourceServerActive)
    return { sentence: 'The resource server no longer has protection access for this owner.' }
  if (!facts.resourceRegistered) return { sentence: 'The resource is no longer registered.' }
  if (!facts.tierGoverns) return { sentence: 'No tier governs this resource any more.' }
  if (facts.governedSince)
    return {
      sentence: 'An organization has come to govern this resource since the agreement; make the call again.',
    }
  if (facts.organizationTook !== undefined)
    return {
      sentence: 'The organization that governs this resource no longer shares it.',
      reason: facts.organizationTook,
    }
  if (!facts.delegated) return NOT_DELEGATED
  if (!facts.clearanceMet)
    return {
      sentence: 'The owner has since asked for a clearance that no authority known to her attests.',
      reason: 'clearance_unmet',
    }
  if (facts.refusedByRule)
    return { sentence: "The owner's policy refuses this request by what she knows now." }
  if (!facts.unchanged)
    return { sentence: 'The resource or its terms changed since the agreement; make the call again.' }
  return undefined
}

/** Also where the agreement is presented. */
export const NOT_DELEGATED: Required<CollectionFault> = {
  sentence: 'The organization that governs this resource lets only the owner’s own agents use it.',
  reason: 'not_delegated',
}
