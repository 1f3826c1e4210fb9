import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  nextRegistrationState,
  PENDING_OF_STRANGE_ORIGIN_MAX,
  PENDING_SERVERS_MAX,
  protectionRefusal,
  REGISTRATION_STATES,
  REGISTRATION_TRIGGERS,
  registrationAnswer,
  registrationFault,
  sameOrigin,
  type RegistrationFacts,
  type RegistrationState,
  type RegistrationTrigger,
} from '../../src/rules/registration.ts'

type From = 'none' | RegistrationState
const MOVES: [From, RegistrationTrigger, RegistrationState, string][] = [
  ['none', 'registered', 'pending', 'POST /rs/register succeeds'],
  ['pending', 'registered', 'pending', 'asking again changes nothing'],
  ['pending', 'owner_approves', 'active', 'the owner approves'],
  ['pending', 'owner_withdraws', 'revoked', 'the owner withdraws before approving'],
  ['active', 'registered', 'active', 'already active'],
  ['active', 'owner_withdraws', 'revoked', 'the owner withdraws'],
  ['revoked', 'registered', 'pending', 'a revoked server that registers again is pending again'],
]

describe('resource server registration', () => {
  it.each(MOVES)('%s, %s -> %s: %s', (from, trigger, to) => {
    expect(nextRegistrationState(from, trigger)).toBe(to)
  })

  it('has no other move', () => {
    const froms: From[] = ['none', ...REGISTRATION_STATES]
    const found = froms.flatMap(from =>
      REGISTRATION_TRIGGERS.filter(trigger => nextRegistrationState(from, trigger) !== undefined).map(
        trigger => `${from} ${trigger}`,
      ),
    )
    expect(found.sort()).toEqual(MOVES.map(([from, trigger]) => `${from} ${trigger}`).sort())
  })

  it('only the owner makes a server active', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...REGISTRATION_TRIGGERS), { maxLength: 20 }), triggers => {
        let state: From = 'none'
        for (const trigger of triggers) {
          const next: RegistrationState | undefined = nextRegistrationState(state, trigger)
          if (next === 'active' && state !== 'active') expect(trigger).toBe('owner_approves')
          state = next ?? state
        }
      }),
    )
  })

  it.each([
    ['pending', 'authorization_pending'],
    ['revoked', 'access_denied'],
    ['active', undefined],
  ] as const)('client_credentials while %s: %s', (state, code) => {
    expect(protectionRefusal(state)).toBe(code)
  })
})

describe('what a registration comes to', () => {
  const known = { status: 'revoked', provisioned: false, decidedSecondsAgo: 86_400 } as const
  const plain: RegistrationFacts = {
    known: undefined,
    pending: 0,
    origin: { banned: false, approved: false, pending: 0 },
  }
  const strange = (pending: number) => ({ banned: false, approved: false, pending })

  it.each<[string, Partial<RegistrationFacts>, string]>([
    ['one of which nothing is known waits', {}, 'registered'],
    ['the second of a strange origin waits', { pending: 1, origin: strange(1) }, 'registered'],
    ['the third does not', { pending: 2, origin: strange(2) }, 'origin_full'],
    [
      'it does if she has approved something of the origin',
      { pending: 19, origin: { banned: false, approved: true, pending: 19 } },
      'registered',
    ],
    [
      'but no more than 20 do in all',
      { pending: 20, origin: { banned: false, approved: true, pending: 20 } },
      'full',
    ],
    ['nor of an origin that nobody knows', { pending: 20 }, 'full'],
    ['none of a banned origin does', { origin: { ...plain.origin, banned: true } }, 'banned'],
    [
      'not even one of which she approved a neighbour',
      { origin: { banned: true, approved: true, pending: 0 } },
      'banned',
    ],
    [
      'what waits already waits, whoever waits beside it',
      { known: { ...known, status: 'pending' }, pending: 20, origin: strange(2) },
      'waiting',
    ],
    [
      'what she approved stays so, though she banned its origin since',
      { known: { ...known, status: 'active' }, origin: { banned: true, approved: true, pending: 0 } },
      'active',
    ],
    ['one that is provisioned is none', { known: { ...known, provisioned: true } }, 'provisioned'],
    ['one that was withdrawn a day ago waits again', { known }, 'registered'],
    [
      'one that was withdrawn and is banned is told of the ban',
      { known: { ...known, decidedSecondsAgo: 0 }, origin: { ...plain.origin, banned: true } },
      'banned',
    ],
  ])('%s', (_what, facts, outcome) => {
    expect(registrationAnswer({ ...plain, ...facts })).toEqual({ outcome })
  })

  it.each([
    [0, 86_400],
    [86_399.5, 1],
    [-1, 86_401],
  ])('one that was withdrawn %d s ago is told that %d s are left', (decidedSecondsAgo, secondsLeft) => {
    expect(registrationAnswer({ ...plain, known: { ...known, decidedSecondsAgo } })).toEqual({
      outcome: 'paused',
      secondsLeft,
    })
  })

  it('origins that she has approved nothing of never hold more than their places, whatever they ask in whatever order', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 15 }), { maxLength: 80 }), asking => {
        const waiting = new Map<number, number>()
        const inAll = () => [...waiting.values()].reduce((sum, n) => sum + n, 0)
        for (const origin of asking) {
          const here = waiting.get(origin) ?? 0
          const { outcome } = registrationAnswer({ ...plain, pending: inAll(), origin: strange(here) })
          if (outcome === 'registered') waiting.set(origin, here + 1)
        }
        expect(inAll()).toBeLessThanOrEqual(PENDING_SERVERS_MAX)
        expect(Math.max(0, ...waiting.values())).toBeLessThanOrEqual(PENDING_OF_STRANGE_ORIGIN_MAX)
      }),
    )
  })
})

describe('the document at the claimed resource', () => {
  const claim = { resource_uri: 'https://tools.example.com/mcp/bea', issuer: 'https://as.example.com' }
  const document = {
    resource: claim.resource_uri,
    authorization_servers: ['https://other.example.com', claim.issuer],
    jwks_uri: 'https://tools.example.com/jwks',
  }

  it('establishes who is asking', () => {
    expect(registrationFault(document, claim)).toBeUndefined()
  })

  it.each([
    ['claims another resource', { resource: 'https://tools.example.com/mcp/eve' }, /another resource/],
    [
      'names another authorization server',
      { authorization_servers: ['https://x.example'] },
      /authorization_servers/,
    ],
    ['names no authorization server', { authorization_servers: undefined }, /authorization_servers/],
    ['names no keys', { jwks_uri: undefined }, /jwks_uri/],
    ['has its keys at another origin', { jwks_uri: 'https://keys.example.com/jwks' }, /another origin/],
    ['has its keys at another port', { jwks_uri: 'https://tools.example.com:8443/jwks' }, /another origin/],
    ['has its keys under another scheme', { jwks_uri: 'http://tools.example.com/jwks' }, /another origin/],
  ])('is refused where it %s', (_why, changed, sentence) => {
    expect(registrationFault({ ...document, ...changed }, claim)).toMatch(sentence)
  })

  it.each([
    ['https://a.example/x', 'https://A.example:443/y', true],
    ['https://a.example', 'https://a.example.evil.example', false],
    ['data:x', 'data:x', false],
    ['nonsense', 'nonsense', false],
    ['https://a.example', 'nonsense', false],
  ])('%s and %s have one origin: %s', (one, other, same) => {
    expect(sameOrigin(one, other)).toBe(same)
  })
})
