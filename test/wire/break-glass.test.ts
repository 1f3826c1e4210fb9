/** A yes to a grant of an emergency window: contract, "The organization's authority" (`/break-glass`). */
import { describe, expect, it } from 'vitest'
import { acceptsGrant, type PresentedBreakGlass } from '../../src/rules/organization/break-glass.ts'
import {
  signBreakGlassAcceptance,
  verifyBreakGlassAcceptance,
  type BreakGlassAcceptance,
} from '../../src/wire/organization/break-glass.ts'
import { asOwner } from '../../src/wire/identifiers.ts'
import { refusalOf } from '../support/refusals.ts'
import { ISSUER, newKey, NOW } from '../support/wire-samples.ts'

const key = newKey()
const ORGANIZATION = 'https://org.example'
const CLAIMS: BreakGlassAcceptance = {
  iss: ISSUER,
  aud: ORGANIZATION,
  owner: asOwner('bea'),
  jti: 'rpt_1',
  resource_id: 'bea/vault',
  scopes: ['read', 'open'],
  cnf_jkt: key.thumbprint,
  operation: { tool: 'open', params_s256: 's256:x' },
  exp: NOW + 300,
}
const verify = (jwt: string, changes: object = {}, keys = [key]) =>
  verifyBreakGlassAcceptance(jwt, keys, {
    authority: ISSUER,
    organization: ORGANIZATION,
    now: NOW,
    ...changes,
  })

describe('An acceptance', () => {
  const jwt = signBreakGlassAcceptance(CLAIMS, key)

  it('says what it was signed with', () => expect(verify(jwt)).toEqual(CLAIMS))

  it.each<[string, () => unknown]>([
    ['by another key', () => verify(jwt, {}, [newKey()])],
    ['of another authority', () => verify(jwt, { authority: 'https://other.example' })],
    ['for another organization', () => verify(jwt, { organization: 'https://other.example' })],
    ['at its end', () => verify(jwt, { now: NOW + 300 })],
    ...(['owner', 'jti', 'resource_id', 'scopes', 'cnf_jkt', 'operation', 'exp'] as const).map(
      (name): [string, () => unknown] => [
        `without ${name}`,
        () => verify(signBreakGlassAcceptance({ ...CLAIMS, [name]: undefined }, key)),
      ],
    ),
  ])('%s is none', (_what, verified) => {
    expect(refusalOf(verified).code).toBe('invalid_request')
  })
})

describe('An acceptance is of a grant', () => {
  const grant: PresentedBreakGlass = {
    owner: 'bea',
    jti: 'rpt_1',
    permissions: [{ resource_id: 'bea/vault', resource_scopes: ['open'], exp: NOW + 300 }],
    cnf_jkt: key.thumbprint,
    operation: { tool: 'open', params_s256: 's256:x' },
    single_use: true,
  }
  const [permission] = grant.permissions

  it('that gives no more than was accepted', () => expect(acceptsGrant(CLAIMS, grant)).toBe(true))

  it.each<[string, Partial<PresentedBreakGlass>]>([
    ['another owner', { owner: 'bob' }],
    ['another name', { jti: 'rpt_2' }],
    ['no name', { jti: undefined }],
    ['another key', { cnf_jkt: newKey().thumbprint }],
    ['more calls', { single_use: false }],
    ['no operation', { operation: undefined }],
    ['another tool', { operation: { tool: 'shut', params_s256: 's256:x' } }],
    ['other parameters', { operation: { tool: 'open', params_s256: 's256:y' } }],
    ['another resource', { permissions: [{ ...permission!, resource_id: 'bea/mail' }] }],
    ['a scope more', { permissions: [{ ...permission!, resource_scopes: ['open', 'burn'] }] }],
    ['a second more', { permissions: [{ ...permission!, exp: NOW + 301 }] }],
    ['a permission more', { permissions: [permission!, { ...permission!, resource_id: 'bea/mail' }] }],
  ])('and not of one with %s', (_what, changes) => {
    expect(acceptsGrant(CLAIMS, { ...grant, ...changes })).toBe(false)
  })
})
