/** What holders' servers answer to a tally, read strictly. */
import { describe, expect, it } from 'vitest'
import { asOwner } from '../../src/wire/identifiers.ts'
import { parseHolderMetadata } from '../../src/wire/resources/authorization-server-metadata.ts'
import { parseQuote, parseVerdictAnswer } from '../../src/wire/documents/quote.ts'

const of = { owner: asOwner('bea'), resource_id: 'family-1/savings' }
const tier = {
  name: 'Savings',
  resources: [of.resource_id],
  ask_me: false,
  terms: { expires_in: 600, scope: ['read'], prohibited: ['resale'], per_operation: false },
}
const quote = { owner: 'bea', tier_id: 'savings', tier }
const invalid = expect.objectContaining({ code: 'invalid_request' })

describe('joint-quote: her terms over one jointly held resource', () => {
  it('is read with every member of its type, and without any other', () => {
    expect(parseQuote({ ...quote, rules: ['secret'] }, of)).toStrictEqual(quote)
    expect(parseQuote({ owner: 'bea', tier: null, because: 'no_tier' }, of)).toStrictEqual({
      owner: 'bea',
      tier: null,
      because: 'no_tier',
    })
  })

  it.each([
    ['of another holder', { ...quote, owner: 'carl' }],
    ['for another resource', { ...quote, tier: { ...tier, resources: ['family-1/other'] } }],
    ['for more than was asked', { ...quote, tier: { ...tier, resources: [of.resource_id, 'family-1/b'] } }],
    ['without terms', { ...quote, tier: { ...tier, terms: undefined } }],
    ['that lives for no time', { ...quote, tier: { ...tier, terms: { ...tier.terms, expires_in: 0 } } }],
    ['with a reason that is none of ours', { owner: 'bea', tier: null, because: 'standing' }],
    ['that is no object', 'yes'],
  ])('is refused %s', (_name, json) => {
    expect(() => parseQuote(json, of)).toThrow(invalid)
  })
})

describe('joint-verdict: her signed answer, or pending', () => {
  it.each([
    [{ verdict: 'e30.e30.e30' }],
    [{ pending: true, family: 'fam_1', ready: false }],
    [{ pending: true, family: 'fam_1', ready: true }],
    [{ closed: true }],
  ])('%j is read as it is', json => {
    expect(parseVerdictAnswer(json)).toStrictEqual(json)
  })

  it.each([
    [{}],
    [{ pending: false }],
    [{ pending: true, family: 'fam_1' }],
    [{ verdict: 'yes' }],
    [{ verdict: 1 }],
  ])('%j is none', json => {
    expect(() => parseVerdictAnswer(json)).toThrow(invalid)
  })
})

describe('the metadata of a holder’s server', () => {
  const metadata = {
    issuer: 'https://as.bea.test',
    token_endpoint: 'https://as.bea.test/token',
    jwks_uri: 'https://as.bea.test/jwks',
    joint_quote_endpoint: 'https://as.bea.test/joint/quote',
    joint_verdict_endpoint: 'https://as.bea.test/joint/verdict',
  }

  it('names where a tally asks; one that no tally may ask names neither', () => {
    const { token_endpoint: _other, ...told } = metadata
    expect(parseHolderMetadata(metadata, metadata.issuer)).toStrictEqual(told)
    const { joint_verdict_endpoint: _verdict, ...without } = metadata
    expect(() => parseHolderMetadata(without, metadata.issuer)).toThrow(invalid)
    expect(() => parseHolderMetadata(metadata, 'https://as.carl.test')).toThrow(invalid)
  })
})
