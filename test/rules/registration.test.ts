import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  nextRegistrationState,
  protectionRefusal,
  REGISTRATION_STATES,
  REGISTRATION_TRIGGERS,
  registrationFault,
  sameOrigin,
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
