import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { escapeHtml } from '../../src/wire/html.ts'
import { DEFAULT_SPEC_NS } from '../../src/wire/names.ts'
import {
  offerTemplate,
  parseTemplateId,
  parseTermsTemplate,
  templateId,
  termsDocument,
  termsHtml,
  termsOdrl,
  termsRoster,
  termsUri,
  type TermsVersion,
} from '../../src/wire/negotiation/terms.ts'
import { ISSUER, TEMPLATE, TERMS } from '../support/wire-samples.ts'
import { asFamily, asOwner } from '../../src/wire/identifiers.ts'

const asked: TermsVersion = { ...TERMS, tier_id: 'trading', per_operation: true }
const where = { issuer: ISSUER, specNs: DEFAULT_SPEC_NS }

const hostileText = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc
    .array(
      fc.constantFrom(
        '<',
        '>',
        '"',
        "'",
        '&',
        '`',
        '=',
        '<script>',
        '</p>',
        '<!--',
        ']]>',
        '\u202e',
        '\u0000',
        '\u001b[2J',
        '\n',
        'a',
        '&#60;',
        '\u2066',
        '\ud800',
        '\u{e0041}',
      ),
      { maxLength: 12 },
    )
    .map(parts => parts.join('')),
)

describe('a template id', () => {
  it('is <owner>/<tier>/v<n>, and reads back', () => {
    expect(templateId(asOwner('bea'), 'reading', 3)).toBe('bea/reading/v3')
    expect(parseTemplateId('bea/reading/v3')).toEqual({ owner: 'bea', tier_id: 'reading', version: 3 })
  })

  it.each([
    '',
    'bea',
    'bea/reading',
    'bea/reading/3',
    'bea/reading/v0',
    'bea/reading/v03',
    'bea//v1',
    '/reading/v1',
    'bea/reading/v1/x',
    'bea/reading/v1\n',
    'bea/a/b/v1',
    'bea/reading/v12345678901',
  ])('is not what %j is', text => {
    expect(parseTemplateId(text)).toBeUndefined()
  })

  it('has a URL under the issuer that nothing in a name can leave', () => {
    expect(termsUri(ISSUER, 'bea/reading/v3')).toBe('https://as.example.com/terms/bea/reading/v3')
    expect(termsUri(ISSUER, templateId(asOwner('b a'), '?x#y', 1))).toBe(
      'https://as.example.com/terms/b%20a/%3Fx%23y/v1',
    )
  })
})

describe('an offer', () => {
  it('is the version of the terms in one negotiation', () => {
    expect(TEMPLATE).toEqual({
      template_id: 'bea/reading/v3',
      terms_uri: 'https://as.example.com/terms/bea/reading/v3',
      proffered_by: 'https://as.example.com',
      purpose: 'Tell Bea how her savings are doing',
      scope: ['read'],
      expires_in: 3600,
      prohibited: ['training', 'resale'],
      resource_id: 'bea/portfolio',
      family: 'fam_AAAAAAAAAAA',
      nonce: 'AAAAAAAAAAAAAAAA',
    })
    expect(
      offerTemplate(asked, { ...where, resource_id: 'r', family: asFamily('f'), nonce: 'n' }).per_operation,
    ).toBe(true)
  })

  it('reads back, without members that nobody knows', () => {
    expect(parseTermsTemplate({ ...TEMPLATE, extra: 1 })).toEqual(TEMPLATE)
    expect(parseTermsTemplate({ ...TEMPLATE, per_operation: false })).toEqual(TEMPLATE)
    expect(parseTermsTemplate({ ...TEMPLATE, per_operation: true }).per_operation).toBe(true)
  })
})

describe('the terms document', () => {
  it('in JSON has the template fields of a version, its name, tier and date, and what is enforced', () => {
    expect(termsDocument(TERMS, ISSUER)).toEqual({
      template_id: 'bea/reading/v3',
      terms_uri: 'https://as.example.com/terms/bea/reading/v3',
      proffered_by: 'https://as.example.com',
      purpose: 'Tell Bea how her savings are doing',
      scope: ['read'],
      expires_in: 3600,
      prohibited: ['training', 'resale'],
      name: 'Reading',
      tier: 'reading',
      published_at: '2026-11-21T09:00:00.000Z',
      enforced: {
        scope: ['read'],
        expires_in: 3600,
        single_use: false,
        operation_bound: false,
        prohibited: [
          { prohibition: 'training', by: 'promise' },
          { prohibition: 'resale', by: 'promise' },
        ],
      },
    })
    expect(termsDocument(asked, ISSUER)).toMatchObject({
      per_operation: true,
      enforced: { single_use: true, operation_bound: true },
    })
  })

  it('stands in the roster of its owner', () => {
    expect(termsRoster(asOwner('bea'), ISSUER, [TERMS, asked])).toEqual({
      owner: 'bea',
      proffered_by: ISSUER,
      terms: [termsDocument(TERMS, ISSUER), termsDocument(asked, ISSUER)],
    })
  })

  it('in JSON-LD is an ODRL 2.2 Offer: one permission per scope, one prohibition per item, a duration', () => {
    const { permission, prohibition, ...offer } = termsOdrl({ ...TERMS, scope: ['read', 'list'] }, where)
    expect(offer).toMatchObject({
      '@type': 'Offer',
      uid: 'https://as.example.com/terms/bea/reading/v3',
      profile: 'https://u4a.ai/spec/terms/1.0',
      conflict: 'prohibit',
      assigner: 'https://as.example.com/terms?owner=bea',
    })
    expect((offer['@context'] as string[])[0]).toBe('http://www.w3.org/ns/odrl.jsonld')
    expect(permission).toHaveLength(2)
    expect((permission as object[])[0]).toEqual({
      target: 'https://as.example.com/terms/bea/reading/v3#resources',
      action: 'https://u4a.ai/spec/terms/1.0#scope:read',
      description: 'read',
      constraint: [
        { leftOperand: 'purpose', operator: 'eq', rightOperand: 'Tell Bea how her savings are doing' },
        {
          leftOperand: 'elapsedTime',
          operator: 'lteq',
          rightOperand: { '@value': 'PT3600S', '@type': 'xsd:duration' },
        },
      ],
    })
    expect((prohibition as { action: string }[]).map(one => one.action)).toEqual([
      'https://u4a.ai/spec/terms/1.0#prohibited:training',
      'https://u4a.ai/spec/terms/1.0#prohibited:resale',
    ])
  })

  it('in JSON-LD makes consent a duty if each operation is asked about', () => {
    const [permission] = termsOdrl(asked, where)['permission'] as { duty?: unknown }[]
    expect(permission?.duty).toEqual([{ action: 'obtainConsent' }])
  })

  it('in JSON-LD names every action by an IRI, whatever the words', () => {
    fc.assert(
      fc.property(hostileText, word => {
        const { permission, prohibition } = termsOdrl({ ...TERMS, scope: [word], prohibited: [word] }, where)
        for (const rule of [
          ...(permission as { action: string }[]),
          ...(prohibition as { action: string }[]),
        ]) {
          expect(rule.action).toMatch(/^https:\/\/u4a\.ai\/spec\/terms\/1\.0#[\x21-\x7e]+$/)
        }
      }),
    )
  })

  it.each([
    [1, '1 second'],
    [90, '90 seconds'],
    [60, '1 minute'],
    [5400, '90 minutes'],
    [7200, '2 hours'],
    [2_592_000, '30 days'],
  ])('in HTML says %i s as %s', (expires_in, words) => {
    expect(termsHtml({ ...TERMS, expires_in }, ISSUER)).toContain(`ends after ${words} at the latest`)
  })
})

describe('the terms document in HTML', () => {
  it('says purpose, scopes, prohibitions and version in plain words', () => {
    const html = termsHtml(TERMS, ISSUER)
    for (const words of [
      'Tell Bea how her savings are doing',
      '<li>read</li>',
      '<li>training</li>',
      'bea/reading/v3',
    ]) {
      expect(html).toContain(words)
    }
    expect(termsHtml(asked, ISSUER)).toContain('before every single use')
    expect(termsHtml({ ...TERMS, prohibited: [] }, ISSUER)).toContain('Nothing is prohibited beyond')
  })

  it('has the same markup whatever the values: nothing in them is markup, and nothing runs', () => {
    const markupOf = (html: string) => html.match(/<[^>]*>/g)
    const plain = { ...TERMS, scope: ['x'], prohibited: ['x'] }
    const skeleton = markupOf(termsHtml(plain, ISSUER))
    fc.assert(
      fc.property(hostileText, text => {
        const hostile = {
          ...plain,
          owner: asOwner(text),
          tier_id: text,
          name: text,
          purpose: text,
          scope: [text],
          prohibited: [text],
          published_at: text,
        }
        const html = termsHtml(hostile, ISSUER)
        expect(markupOf(html)).toEqual(skeleton)
        expect(html.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Co}]/u)
      }),
      { numRuns: 500 },
    )
  })

  it.each([
    ['<b>', '&#60;b&#62;'],
    ['"\'`=&', '&#34;&#39;&#96;&#61;&#38;'],
    ['\u202etxt', '\\u{202e}txt'],
    ['\u001b[31m', '\\u{1b}[31m'],
    ['a\u0000b\nc', 'a\\u{0}b\\u{a}c'],
    ['\u200b\u2067\ufeff', '\\u{200b}\\u{2067}\\u{feff}'],
    ['pay\u034fpal\u{e0100}\ufe0f\u2800', 'pay\\u{34f}pal\\u{e0100}\\u{fe0f}\\u{2800}'],
    ['Zoë 日本', 'Zoë 日本'],
  ])('writes %j as %s', (text, escaped) => {
    expect(escapeHtml(text)).toBe(escaped)
  })
})
