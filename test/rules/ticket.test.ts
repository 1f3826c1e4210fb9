import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  nextTicketState,
  TICKET_STATES,
  TICKET_TRIGGERS,
  type TicketState,
  type TicketTrigger,
} from '../../src/rules/ticket.ts'

const MOVES: [TicketState, TicketTrigger, TicketState, string][] = [
  ['issued', 'presented', 'need_info', 'the first presentation is answered with the terms'],
  ['issued', 'refused', 'denied', 'no tier governs the resource'],
  ['issued', 'declined', 'ended', 'any negotiation ends on decline=true'],
  ['issued', 'expired', 'expired', 'a ticket that nobody presented runs out'],
  ['need_info', 'presented', 'need_info', 'no agreement, or terms edited since: the terms again'],
  ['need_info', 'agreed', 'granted', 'verified, known connection, non-ask-me tier'],
  ['need_info', 'held', 'awaiting_owner', 'a new agent, or an ask-me tier'],
  ['need_info', 'refused', 'denied', 'weakened echo, bad signature or policy failure'],
  ['need_info', 'declined', 'ended', 'any negotiation ends on decline=true'],
  ['need_info', 'expired', 'expired', 'terms that nobody signed run out'],
  ['awaiting_owner', 'polled', 'awaiting_owner', 'each poll while still waiting'],
  ['awaiting_owner', 'owner_approved', 'granted', 'the owner approves'],
  ['awaiting_owner', 'owner_denied', 'denied', 'the owner denies'],
  ['awaiting_owner', 'terms_changed', 'need_info', 'the owner edits the tier: the terms again'],
  ['awaiting_owner', 'refused', 'denied', 'an approval that no longer holds when it is collected'],
  ['awaiting_owner', 'declined', 'ended', 'any negotiation ends on decline=true'],
  ['awaiting_owner', 'expired', 'expired', 'the awaiting-owner ticket expires'],
]

const isTerminal = (state: TicketState): boolean =>
  TICKET_TRIGGERS.every(trigger => nextTicketState(state, trigger) === undefined)

describe('permission ticket', () => {
  it.each(MOVES)('%s, %s -> %s: %s', (from, trigger, to) => {
    expect(nextTicketState(from, trigger)).toBe(to)
  })

  it('has no other move', () => {
    const listed = new Set(MOVES.map(([from, trigger]) => `${from} ${trigger}`))
    const found = TICKET_STATES.flatMap(from => TICKET_TRIGGERS.map(trigger => ({ from, trigger }))).filter(
      ({ from, trigger }) => nextTicketState(from, trigger) !== undefined,
    )
    expect(found.map(({ from, trigger }) => `${from} ${trigger}`).sort()).toEqual([...listed].sort())
  })

  it.each(['granted', 'denied', 'ended', 'expired'] as const)('%s is terminal', state => {
    expect(isTerminal(state)).toBe(true)
  })

  it.each(['issued', 'need_info', 'awaiting_owner'] as const)('%s is not terminal', state => {
    expect(isTerminal(state)).toBe(false)
  })

  it('no path leaves a terminal state, none returns to issued, and every grant passed an agreement or the owner', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...TICKET_TRIGGERS), { maxLength: 30 }), triggers => {
        let state: TicketState = 'issued'
        for (const trigger of triggers) {
          const next = nextTicketState(state, trigger)
          if (isTerminal(state)) expect(next).toBeUndefined()
          if (next === 'granted') expect(['agreed', 'owner_approved']).toContain(trigger)
          expect(next).not.toBe('issued')
          state = next ?? state
        }
      }),
    )
  })
})
