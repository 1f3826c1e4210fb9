import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Json } from '../../src/wire/json.ts'
import { DEFAULT_SPEC_NS } from '../../src/wire/names.ts'
import {
  grantAnswer,
  needInfo,
  offeredTerms,
  parseGrantAnswer,
  parseNeedInfo,
  parseRequestSubmitted,
  requestSubmitted,
} from '../../src/wire/negotiation/negotiation.ts'
import { refusalOf, refusalOrValue } from '../support/refusals.ts'
import { describeVectors } from '../support/vectors.ts'
import { TEMPLATE } from '../support/wire-samples.ts'

const sample = needInfo({ specNs: DEFAULT_SPEC_NS, ticket: 't', template: TEMPLATE })
const [claim] = sample.required_claims as [(typeof sample.required_claims)[number]]
const submitted = requestSubmitted('operation', 't', 3)
const granted = grantAnswer({ access_token: 'a.b.c', expires_in: 60, receipt: 'd.e.f' })

function sent(value: unknown): Json {
  return JSON.parse(JSON.stringify(value)) as Json
}

describe('need_info', () => {
  it('names the claim, the format and the terms as the contract does', () => {
    expect(sample).toEqual({
      error: 'need_info',
      ticket: 't',
      required_claims: [
        {
          claim_type: 'https://u4a.ai/spec/terms/1.0#myterms-agreement',
          claim_token_format: ['https://u4a.ai/spec/terms/1.0#myterms-agreement-v1+jws'],
          friendly_name: expect.any(String),
          terms_template: TEMPLATE,
        },
      ],
    })
  })

  it('reads back as it was sent', () => {
    expect(parseNeedInfo(sent(sample))).toEqual(sample)
    const perOperation = { ...TEMPLATE, per_operation: true as const }
    const asked = needInfo({ specNs: DEFAULT_SPEC_NS, ticket: 't', template: perOperation })
    expect(offeredTerms(parseNeedInfo(sent(asked)), DEFAULT_SPEC_NS)).toEqual(perOperation)
  })

  it('offers no terms in another format', () => {
    expect(offeredTerms(sample, 'https://other.example')).toBeUndefined()
  })

  it.each(Object.keys(TEMPLATE))('is refused without %s in its terms', name => {
    const { [name]: _left, ...rest } = TEMPLATE as Record<string, unknown>
    const broken = { ...sample, required_claims: [{ ...claim, terms_template: rest }] }
    expect(refusalOf(() => parseNeedInfo(sent(broken))).code).toBe('invalid_request')
  })

  it.each(Object.keys(TEMPLATE))('is refused with %s of another type in its terms', name => {
    for (const wrong of [null, 7.5, true, {}, [7], [''], '', [[]]]) {
      const broken = {
        ...sample,
        required_claims: [{ ...claim, terms_template: { ...TEMPLATE, [name]: wrong } }],
      }
      expect(refusalOf(() => parseNeedInfo(sent(broken))).code).toBe('invalid_request')
    }
  })

  it.each<[string, unknown]>([
    ['another error', { ...sample, error: 'request_denied' }],
    ['no ticket', { ...sample, ticket: undefined }],
    ['a ticket of another type', { ...sample, ticket: ['t'] }],
    ['no claims', { ...sample, required_claims: [] }],
    ['claims that are an object', { ...sample, required_claims: claim }],
    ['a claim that is text', { ...sample, required_claims: ['x'] }],
    ['a claim_type of another type', { ...sample, required_claims: [{ ...claim, claim_type: 1 }] }],
    ['a format that is text', { ...sample, required_claims: [{ ...claim, claim_token_format: 'x' }] }],
    ['terms that are text', { ...sample, required_claims: [{ ...claim, terms_template: 'x' }] }],
    ['terms that are null', { ...sample, required_claims: [{ ...claim, terms_template: null }] }],
    [
      'expires_in of 0',
      { ...sample, required_claims: [{ ...claim, terms_template: { ...TEMPLATE, expires_in: 0 } }] },
    ],
    [
      'no scope offered',
      { ...sample, required_claims: [{ ...claim, terms_template: { ...TEMPLATE, scope: [] } }] },
    ],
    [
      'per_operation as text',
      { ...sample, required_claims: [{ ...claim, terms_template: { ...TEMPLATE, per_operation: 'no' } }] },
    ],
    ['nothing', null],
    ['a list', [sample]],
  ])('is refused with %s', (_what, broken) => {
    expect(refusalOf(() => parseNeedInfo(sent(broken) ?? null)).code).toBe('invalid_request')
  })
})

describe('request_submitted', () => {
  it('reads back as it was sent, of either kind', () => {
    fc.assert(
      fc.property(
        fc.constantFrom('connection', 'operation'),
        fc.integer({ min: 1, max: 3600 }),
        fc.boolean(),
        (kind, interval, reasonShown) => {
          const answer = requestSubmitted(kind, 't', interval, { reasonShown })
          expect(answer.reason_shown).toBe(reasonShown ? undefined : false)
          expect(parseRequestSubmitted(sent(answer))).toEqual(answer)
        },
      ),
    )
  })

  it('is polled after 5 s if no interval is named', () => {
    expect(
      parseRequestSubmitted({ error: 'request_submitted', kind: 'connection', ticket: 't' }).interval,
    ).toBe(5)
  })

  it.each<[string, unknown]>([
    ['another kind', { ...submitted, kind: 'tier' }],
    ['a kind that is null', { ...submitted, kind: null }],
    ['no ticket', { ...submitted, ticket: undefined }],
    ['an interval of 0', { ...submitted, interval: 0 }],
    ['an interval as text', { ...submitted, interval: '3' }],
    ['an interval that is null', { ...submitted, interval: null }],
    ['an interval of days', { ...submitted, interval: 1e9 }],
    ['a fraction of a second', { ...submitted, interval: 0.5 }],
    ['another error', { ...submitted, error: 'need_info' }],
  ])('is refused with %s', (_what, broken) => {
    expect(refusalOf(() => parseRequestSubmitted(sent(broken))).code).toBe('invalid_request')
  })
})

describe('a grant answer', () => {
  it('is of type PoP, compared without regard to case, and reads back as it was sent', () => {
    expect(granted).toEqual({ access_token: 'a.b.c', token_type: 'PoP', expires_in: 60, receipt: 'd.e.f' })
    expect(parseGrantAnswer(sent(granted))).toEqual(granted)
    expect(parseGrantAnswer({ ...granted, token_type: 'pop' })).toEqual(granted)
  })

  it.each<[string, unknown]>([
    ['a bearer token', { ...granted, token_type: 'Bearer' }],
    ['no token type', { ...granted, token_type: undefined }],
    ['a token that is no JWS', { ...granted, access_token: 'opaque' }],
    ['a token that would end a header line', { ...granted, access_token: 'a.b.c\r\nx: y' }],
    ['no receipt', { ...granted, receipt: undefined }],
    ['a lifetime as text', { ...granted, expires_in: '60' }],
    ['no lifetime', { ...granted, expires_in: undefined }],
  ])('is refused with %s', (_what, broken) => {
    expect(refusalOf(() => parseGrantAnswer(sent(broken))).code).toBe('invalid_request')
  })
})

describe('answers of strangers', () => {
  it('are read or refused, whatever they are', () => {
    fc.assert(
      fc.property(fc.jsonValue(), given => {
        for (const parse of [parseNeedInfo, parseRequestSubmitted, parseGrantAnswer]) {
          refusalOrValue(() => parse(given))
        }
      }),
    )
  })
})

describeVectors<{ responses: { body: { error: string } & Record<string, Json> }[] }>(
  'uma2-examples.json',
  'the token endpoint answers of UMA 2.0 Grant §3.3.6',
  ({ responses }) => {
    const body = (error: string) => responses.find(one => one.body.error === error)!.body

    it('need_info is read, with the claims it asks for', () => {
      const answer = parseNeedInfo(body('need_info'))
      expect(answer.ticket).toBe('ZXJyb3JfZGV0YWlscw==')
      expect(answer.required_claims[0]?.friendly_name).toBe('email')
      expect(offeredTerms(answer, DEFAULT_SPEC_NS)).toBeUndefined()
    })

    it('request_submitted is read, even if it does not say, as this profile asks, what the owner is asked', () => {
      const stock = body('request_submitted')
      expect(parseRequestSubmitted(stock)).toMatchObject({ kind: undefined, interval: 5 })
      expect(parseRequestSubmitted({ ...stock, kind: 'connection' })).toMatchObject({ kind: 'connection' })
    })
  },
)
