import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  consumeError as consumeErrorOf,
  consumeRefusal,
  grantEnd,
  INACTIVE_REASONS,
  livenessReason as livenessReasonOf,
  inactiveReaction,
  type InactiveReason,
  type GrantHold,
  type LivenessFacts,
} from '../../src/rules/grant-end.ts'

/** Of a grant that an authority issued. */
type Facts = Omit<LivenessFacts, 'ended'> & GrantHold
const livenessReason = (facts: Facts) => livenessReasonOf({ ...facts, ended: grantEnd(facts) })
const consumeError = (facts: Facts, singleUse: boolean) =>
  consumeErrorOf({ ...facts, ended: grantEnd(facts) }, singleUse)

const LIVE: Facts = {
  signatureValid: true,
  known: true,
  connected: true,
  organizationEnded: false,
  current: true,
  governed: true,
  consumed: false,
  expired: false,
}

/** In the authority's order: each is hidden by every fault above it. */
const FAULTS: [Partial<Facts>, InactiveReason][] = [
  [{ signatureValid: false }, 'invalid_signature'],
  [{ known: false }, 'unknown_token'],
  [{ connected: false }, 'connection_revoked'],
  [{ organizationEnded: true }, 'organization_revoked'],
  [{ current: false }, 'revoked'],
  [{ governed: false }, 'revoked'],
  [{ consumed: true }, 'already_consumed'],
  [{ expired: true }, 'expired'],
]

const KNOWN = new Set<string>([...INACTIVE_REASONS, 'not_single_use'])
const unknownWord = fc
  .oneof(
    fc.string(),
    fc.constantFrom('constructor', 'toString', '__proto__', 'EXPIRED', ' expired', 'expired '),
  )
  .filter(word => !KNOWN.has(word))

describe('why a grant is not live', () => {
  it('is nothing when every fact is in its favour', () => {
    expect(livenessReason(LIVE)).toBeUndefined()
  })

  it.each(FAULTS)('%o -> %s', (fault, reason) => {
    expect(livenessReason({ ...LIVE, ...fault })).toBe(reason)
  })

  it('is the first reason in order if several apply', () => {
    fc.assert(
      fc.property(fc.subarray(FAULTS, { minLength: 1 }), faults => {
        const facts: Facts = Object.assign({ ...LIVE }, ...faults.map(([fault]) => fault))
        expect(livenessReason(facts)).toBe(faults[0]![1])
      }),
    )
  })

  it('an unknown token says nothing more about itself', () => {
    fc.assert(
      fc.property(
        fc.record({ connected: fc.boolean(), consumed: fc.boolean(), expired: fc.boolean() }),
        facts => {
          expect(livenessReason({ ...LIVE, ...facts, known: false })).toBe('unknown_token')
        },
      ),
    )
  })

  it.each(['connected', 'current', 'governed', 'consumed', 'expired'] as const)(
    'a known grant is not live where %s was left out',
    fact => {
      const { [fact]: _left, ...facts } = LIVE
      expect(livenessReason(facts)).toBeDefined()
    },
  )

  it('a known grant is not live if its party does not say that nothing ended it', () => {
    expect(livenessReasonOf(LIVE)).toBe('connection_revoked')
  })

  it('no organization above the owner is no reason', () => {
    const { organizationEnded: _left, ...facts } = LIVE
    expect(livenessReason(facts)).toBeUndefined()
  })
})

describe('the error of a consume that spent nothing', () => {
  it.each(FAULTS)('is the reason introspection would now give: %o -> %s', (fault, reason) => {
    expect(consumeError({ ...LIVE, ...fault }, true)).toBe(reason)
    expect(consumeError({ ...LIVE, ...fault }, false)).toBe(reason)
  })

  it('is not_single_use for a live standing grant', () => {
    expect(consumeError(LIVE, false)).toBe('not_single_use')
  })

  it('is already_consumed if a racing caller won', () => {
    expect(consumeError({ ...LIVE, consumed: true }, true)).toBe('already_consumed')
  })

  it('is none, so that the caller asks again, if the grant came to stand between the two looks', () => {
    expect(consumeError(LIVE, true)).toBeUndefined()
  })
})

describe('the enforcement point reacts to an inactive grant', () => {
  const challenge = (because: string) => ({ kind: 'challenge', because })
  const UNKNOWN = 'No grant for this resource is known by that text.'
  it.each([
    ['connection_revoked', 'terminal'],
    ['organization_revoked', 'terminal'],
    ['already_consumed', challenge('The grant was for one call, and it is spent.')],
    ['revoked', challenge('The owner has ended the grant.')],
    ['expired', challenge('The grant has expired.')],
    ['unknown_token', challenge(UNKNOWN)],
    ['invalid_signature', challenge(UNKNOWN)],
  ])('%s', (reason, reaction) => {
    expect(inactiveReaction(reason)).toEqual(reaction)
  })

  it('any other value is terminal', () => {
    fc.assert(
      fc.property(fc.oneof(unknownWord, fc.anything()), reason => {
        fc.pre(typeof reason !== 'string' || !KNOWN.has(reason))
        expect(inactiveReaction(reason)).toBe('terminal')
      }),
    )
    expect(inactiveReaction('not_single_use')).toBe('terminal')
    expect(inactiveReaction(undefined)).toBe('terminal')
    expect(inactiveReaction(['expired'])).toBe('terminal')
  })
})

describe('the enforcement point reacts to a refused consume', () => {
  it.each([
    ['connection_revoked', 'access_revoked'],
    ['organization_revoked', 'access_revoked'],
    ['already_consumed', 'already_consumed'],
    ['not_single_use', 'not_single_use'],
    ['revoked', 'revoked'],
    ['expired', 'expired'],
    ['unknown_token', 'unknown_token'],
    ['invalid_signature', 'invalid_signature'],
  ])('%s: 403 %s', (reason, code) => {
    expect(consumeRefusal(reason)).toBe(code)
  })

  it('any other value is access_revoked', () => {
    fc.assert(
      fc.property(unknownWord, reason => {
        expect(consumeRefusal(reason)).toBe('access_revoked')
      }),
    )
    expect(consumeRefusal(undefined)).toBe('access_revoked')
  })
})
