/**
 * What enforces a prohibition, besides the agent's promise: contract, "Agreement (claim_token, beat 3)" and
 * "Authorized call".
 */
import { describe, expect, it } from 'vitest'
import { enforcedProhibitions, type ProhibitionFacts } from '../../src/rules/prohibition.ts'

const resource = {
  resource_scopes: ['read', 'trade', 'withdraw'],
  tools: { place_trade: 'irreversible', cancel_trade: null },
}
const keptBy = (prohibition: string, more: Partial<ProhibitionFacts> = {}): string =>
  enforcedProhibitions({
    terms: { scope: ['read', 'trade'], prohibited: [prohibition] },
    resource,
    boundTo: 'place_trade',
    ...more,
  })[0]!.by

describe('`enforced` tells, by prohibition, what enforces it', () => {
  it('one entry each, in the order of the terms', () => {
    const prohibited = ['leverage', 'withdraw', 'cancel_trade', 'leverage']
    const terms = { scope: ['trade'], prohibited }
    expect(enforcedProhibitions({ terms, resource, boundTo: 'place_trade' })).toEqual([
      { prohibition: 'leverage', by: 'promise' },
      { prohibition: 'withdraw', by: 'scope' },
      { prohibition: 'cancel_trade', by: 'operation' },
      { prohibition: 'leverage', by: 'promise' },
    ])
  })

  it.each([
    ['words that name nothing the service checks', 'training models on it'],
    ['a scope of the resource that the terms offer all the same', 'trade'],
    ['a scope but for case', 'Withdraw'],
    ['a scope within words', 'withdraw money'],
    ['the very tool that the grant is for', 'place_trade'],
    ['the name of a member that every object has', 'constructor'],
  ])('nothing but the promise keeps %s', (_what, prohibition) => {
    expect(keptBy(prohibition)).toBe('promise')
  })

  it('a tool is withheld only by a grant that is bound to another, at a resource that tells its tools apart', () => {
    expect(keptBy('cancel_trade')).toBe('operation')
    expect(keptBy('cancel_trade', { boundTo: undefined })).toBe('promise')
    expect(keptBy('cancel_trade', { resource: { ...resource, tools: null } })).toBe('promise')
  })

  it('a scope that the terms do not offer is withheld by a standing grant, too', () => {
    expect(keptBy('withdraw', { boundTo: undefined })).toBe('scope')
  })
})
