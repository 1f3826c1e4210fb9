/**
 * Owns the caps of the owner's queue, and its lanes. Contract: "Permission ticket" (the row of the pending
 * queue), "Limits" (pending queue).
 */
import type { PendingKind } from './connection.ts'

/** Depths, in waiting items. */
export interface QueueCaps {
  /** First contacts per owner whose operator has not published the agent's key. */
  readonly unattested: number
  /** First contacts per owner whose operator has published it. */
  readonly attested: number
  /** First contacts of one operator, per owner. */
  readonly perOperator: number
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
