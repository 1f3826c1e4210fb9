/**
 * Owns the states of a permission ticket's negotiation and the moves between them.
 * Contract: "Permission ticket" (States and transitions).
 */

/** The state of one negotiation (one family). `issued` is the sealed ticket that has no row yet. */
export const TICKET_STATES = [
  'issued',
  'need_info',
  'awaiting_owner',
  'granted',
  'denied',
  'ended',
  'expired',
] as const
export type TicketState = (typeof TICKET_STATES)[number]

/**
 * The events that move a negotiation. `presented`: the ticket came without an agreement that could be judged,
 * so the terms are (again) the answer. `agreed`: agreement verified and let through. `held`: it waits for the
 * owner. `refused`: no tier, a failed check, a refusing rule, a full queue, or a re-check that failed when an
 * approval was collected. `polled`: the agent asks again while the owner has not decided. `declined`: the
 * agent sent `decline=true`. `terms_changed`: she edited or deleted the tier it waits under, so it must agree
 * again.
 */
export const TICKET_TRIGGERS = [
  'presented',
  'agreed',
  'held',
  'refused',
  'polled',
  'owner_approved',
  'owner_denied',
  'declined',
  'terms_changed',
  'expired',
] as const
export type TicketTrigger = (typeof TICKET_TRIGGERS)[number]

type Moves = Partial<Record<TicketTrigger, TicketState>>

const MOVES: Record<TicketState, Moves> = {
  issued: { presented: 'need_info', refused: 'denied', declined: 'ended', expired: 'expired' },
  need_info: {
    presented: 'need_info',
    agreed: 'granted',
    held: 'awaiting_owner',
    refused: 'denied',
    declined: 'ended',
    expired: 'expired',
  },
  awaiting_owner: {
    polled: 'awaiting_owner',
    owner_approved: 'granted',
    owner_denied: 'denied',
    terms_changed: 'need_info',
    refused: 'denied',
    declined: 'ended',
    expired: 'expired',
  },
  granted: {},
  denied: {},
  ended: {},
  expired: {},
}

/**
 * The state after `trigger`, or undefined if the contract's "Permission ticket" table has no such move.
 */
export function nextTicketState(from: TicketState, trigger: TicketTrigger): TicketState | undefined {
  return MOVES[from][trigger]
}
