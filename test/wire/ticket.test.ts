import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { sha256 } from '../../src/wire/encoding.ts'
import {
  newFamily,
  newJti,
  newNonce,
  newTicket,
  openTicket,
  sealTicket,
  ticketHash,
  ticketKeys,
  ticketTag,
  type SealedTicket,
  type TicketKey,
} from '../../src/wire/negotiation/ticket.ts'
import { ISSUER, newKey, NOW } from '../support/wire-samples.ts'
import { asClientId, asFamily, asOwner } from '../../src/wire/identifiers.ts'

const signingKeys = [newKey(), newKey()] as const
const [first, second] = ticketKeys([signingKeys[0], signingKeys[1]]) as [TicketKey, TicketKey]
const fields: SealedTicket = {
  tag: 'q7Rk2',
  issuer: ISSUER,
  owner: asOwner('bea'),
  family: asFamily('fam_AAAAAAAAAAA'),
  resource_id: 'bea/portfolio',
  resource_scopes: ['read', 'list'],
  client_id: asClientId('demo-tools'),
  expires_at: NOW + 300,
}

describe('a sealed ticket', () => {
  it('opens to what was sealed, for any fields', () => {
    const texts = fc.string({ unit: 'grapheme' })
    const anyFields = fc.record({
      tag: fc.stringMatching(/^[A-Za-z0-9_-]{1,64}$/),
      issuer: texts,
      owner: texts.map(asOwner),
      family: texts.map(asFamily),
      resource_id: texts,
      resource_scopes: fc.array(texts, { maxLength: 8 }),
      client_id: texts.map(asClientId),
      expires_at: fc.integer({ min: NOW + 1 }),
    })
    fc.assert(
      fc.property(anyFields, given => {
        expect(openTicket(sealTicket(given, first), [first], NOW)).toEqual(given)
      }),
    )
  })

  it('has the form <tag>~tkt_<opaque>, and its tag says where to look', () => {
    const ticket = sealTicket(fields, first)
    expect(ticket).toMatch(/^q7Rk2~tkt_[A-Za-z0-9_.-]+$/)
    expect(ticketTag(ticket)).toBe('q7Rk2')
  })

  it('is worth nothing with any character changed', () => {
    const ticket = sealTicket(fields, first)
    const change = fc.record({
      at: fc.nat(ticket.length - 1),
      by: fc.constantFrom(...'ABCxyz019_-.~ \n'.split('')),
    })
    fc.assert(
      fc.property(change, ({ at, by }) => {
        fc.pre(ticket[at] !== by)
        const changed = ticket.slice(0, at) + by + ticket.slice(at + 1)
        expect(openTicket(changed, [first, second], NOW)).toBeUndefined()
      }),
      { numRuns: 500 },
    )
  })

  it('is worth nothing with a character added or left out at any place', () => {
    const ticket = sealTicket(fields, first)
    for (let at = 0; at <= ticket.length; at++) {
      expect(openTicket(`${ticket.slice(0, at)}A${ticket.slice(at)}`, [first], NOW)).toBeUndefined()
      const shorter = ticket.slice(0, at) + ticket.slice(at + 1)
      if (shorter !== ticket) expect(openTicket(shorter, [first], NOW)).toBeUndefined()
    }
  })

  it('is worth nothing under another key', () => {
    expect(openTicket(sealTicket(fields, first), [second], NOW)).toBeUndefined()
    expect(openTicket(sealTicket(fields, first), [], NOW)).toBeUndefined()
    expect(openTicket(sealTicket(fields, first), ticketKeys([newKey()]), NOW)).toBeUndefined()
  })

  it('is worth nothing from the second of its expiry on', () => {
    const ticket = sealTicket(fields, first)
    expect(openTicket(ticket, [first], fields.expires_at - 1)).toEqual(fields)
    expect(openTicket(ticket, [first], fields.expires_at)).toBeUndefined()
  })

  it('opens under the previous key as long as that is listed, on every replica with the same key file', () => {
    const elsewhere = ticketKeys([signingKeys[1], signingKeys[0]])
    expect(openTicket(sealTicket(fields, first), elsewhere, NOW)).toEqual(fields)
    expect(openTicket(sealTicket(fields, second), elsewhere, NOW)).toEqual(fields)
  })

  it.each(['', 'x', '~tkt_', 'a~tkt_b', 'a~tkt_b.c', `a~tkt_b.${'c'.repeat(43)}`, 'a'.repeat(9000)])(
    'is not what %j is',
    text => {
      expect(openTicket(text, [first, second], NOW)).toBeUndefined()
    },
  )

  it('never makes any text an error', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.string({ unit: 'binary' })), text => {
        expect(openTicket(text, [first], NOW)).toBeUndefined()
      }),
    )
  })
})

describe('a later ticket', () => {
  it('is 32 random bytes behind the tag, stored as its SHA-256', () => {
    const { ticket, hash } = newTicket('q7Rk2')
    expect(ticket).toMatch(/^q7Rk2~tkt_[A-Za-z0-9_-]{43}$/)
    expect(hash).toEqual(sha256(ticket))
    expect(hash).toEqual(ticketHash(ticket))
    expect(newTicket('q7Rk2').ticket).not.toBe(ticket)
    expect(openTicket(ticket, [first], NOW)).toBeUndefined()
    expect(ticketTag(ticket)).toBe('q7Rk2')
  })

  it.each(['', 'tkt_abc', 'a b~tkt_abc', 'a~tkt_', 'a~tkt_abc=', `${'t'.repeat(65)}~tkt_abc`])(
    'has no tag when it is %j',
    text => {
      expect(ticketTag(text)).toBeUndefined()
    },
  )
})

describe('random names', () => {
  it.each([
    ['a family', newFamily, /^fam_[A-Za-z0-9_-]{11}$/],
    ['a nonce', newNonce, /^[A-Za-z0-9_-]{16}$/],
    ['a token id', () => newJti('rpt_'), /^rpt_[A-Za-z0-9_-]{22}$/],
  ])('make %s of its own length, and never the same', (_name, make, form) => {
    expect(make()).toMatch(form)
    expect(new Set(Array.from({ length: 100 }, make)).size).toBe(100)
  })
})
