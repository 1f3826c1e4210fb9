import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseAuthChallenges } from '../../src/wire/negotiation/auth-challenges.ts'
import { decodeBase64url, encodeBase64url, s256Json } from '../../src/wire/encoding.ts'
import { parseJson, type Json, type JsonObject } from '../../src/wire/json.ts'
import { DEFAULT_SPEC_NS } from '../../src/wire/names.ts'
import { challengeData, encodeChallenge } from '../../src/wire/negotiation/challenge.ts'
import {
  isChallengeData,
  parseChallenge,
  parseChallengeData,
} from '../../src/wire/negotiation/negotiation.ts'
import { refusalOf } from '../support/refusals.ts'
import { challenge } from '../support/wire-samples.ts'
import { asOwner } from '../../src/wire/identifiers.ts'

const sample = challenge()

/**
 * Own printable ASCII without what JSON or headers would need to escape to tell apart; the escapes have their
 * own tests.
 */
const names = fc.stringMatching(/^[A-Za-z0-9._-]{1,30}$/)
const anyChallenge = fc
  .record({
    realm: fc.stringMatching(/^[ -~]{1,40}$/),
    tool: fc.string({ unit: 'grapheme', minLength: 1, maxLength: 30 }),
    owner: names.map(asOwner),
    scopes: fc.array(fc.stringMatching(/^[!#-[\]-~]{1,20}$/), { minLength: 1, maxLength: 5 }),
    ticket: fc.stringMatching(/^[A-Za-z0-9_~.-]{1,200}$/),
    path: names,
  })
  .map(({ realm, path, ...call }) => ({
    ...challenge({ ...call, resourceUrl: `https://tools.example.com/mcp/${path}` }),
    realm,
  }))

describe('a challenge', () => {
  it('says the same in both encodings, and reads back as it was', () => {
    fc.assert(
      fc.property(anyChallenge, given => {
        expect(parseChallenge([encodeChallenge(given)])).toEqual(given)
        expect(parseChallengeData(JSON.parse(JSON.stringify(challengeData(given))))).toEqual(given)
      }),
    )
  })

  it('carries the parameters of the contract and nothing else', () => {
    const [{ scheme, parameters }] = parseAuthChallenges([encodeChallenge(sample)]) as [
      ReturnType<typeof parseAuthChallenges>[number],
    ]
    expect(scheme).toBe('uma')
    expect([...parameters.keys()]).toEqual([
      'realm',
      'error',
      'as_uri',
      'ticket',
      'resource_metadata',
      'scope',
      'authorization_remediation',
    ])
    expect(parameters.get('error')).toBe('insufficient_authorization')
    expect(encodeChallenge(sample)).toMatch(
      /^UMA realm="tools", error="insufficient_authorization", as_uri="/,
    )
  })

  it('has a remediation that is base64url of JSON: details, their s256, the server, the ticket', () => {
    const [uma] = parseAuthChallenges([encodeChallenge(sample)])
    const remediation = parseJson(decodeBase64url(uma!.parameters.get('authorization_remediation')!))
    expect(remediation).toEqual({
      authorization_details: [
        {
          type: `${DEFAULT_SPEC_NS}/core/1.0#tool-call`,
          locations: ['https://tools.example.com/mcp/bea'],
          identifier: 'bea/portfolio_read',
          actions: ['call'],
          datatypes: ['read'],
        },
      ],
      authorization_reference: s256Json(sample.authorization_remediation.authorization_details),
      authorization_server: 'https://as.example.com',
      ticket: 'tag~tkt_abc',
    })
    expect(challengeData(sample)['authorization_remediation']).toEqual(remediation)
  })

  it('is found among challenges of other schemes, in any order and line', () => {
    const header = encodeChallenge(sample)
    for (const lines of [
      [`Bearer realm="x", ${header}`],
      [`${header}, Basic`],
      ['Negotiate abc==', header],
    ]) {
      expect(parseChallenge(lines)).toEqual(sample)
    }
  })

  it.each([
    ['none', ['Bearer realm="x"']],
    ['no header', []],
    ['two', [encodeChallenge(sample), encodeChallenge(sample)]],
    ['two in a line', [`${encodeChallenge(sample)}, ${encodeChallenge(sample)}`]],
    ['one with a parameter twice', [`${encodeChallenge(sample)}, ticket="other"`]],
    ['one beside a malformed line', [encodeChallenge(sample), 'Bearer realm="x']],
  ])('is refused where there is %s', (_what, lines) => {
    expect(refusalOf(() => parseChallenge(lines)).code).toBe('invalid_request')
  })

  it('does not leave our side unless it can be written within 8 KiB', () => {
    const long = { ...sample, ticket: 'x'.repeat(8000) }
    expect(refusalOf(() => encodeChallenge(long)).code).toBe('temporarily_unavailable')
    expect(refusalOf(() => encodeChallenge({ ...sample, scope: '' })).code).toBe('temporarily_unavailable')
    expect(refusalOf(() => encodeChallenge({ ...sample, ticket: 'a\r\nb' })).code).toBe(
      'temporarily_unavailable',
    )
  })
})

describe('a received challenge', () => {
  const data = challengeData(sample)
  const remediation = data['authorization_remediation'] as JsonObject
  const [detail] = remediation['authorization_details'] as [JsonObject]

  function withDetail(changes: JsonObject): JsonObject {
    const details: Json[] = [{ ...detail, ...changes }]
    return withRemediation({ authorization_details: details, authorization_reference: s256Json(details) })
  }
  function withRemediation(changes: JsonObject): JsonObject {
    return { ...data, authorization_remediation: { ...remediation, ...changes } }
  }
  function without(object: JsonObject, name: string): JsonObject {
    return Object.fromEntries(Object.entries(object).filter(([key]) => key !== name))
  }

  it.each(Object.keys(data))('is refused without %s', name => {
    expect(refusalOf(() => parseChallengeData(without(data, name))).code).toBe('invalid_request')
  })

  it.each(Object.keys(remediation))('is refused without %s in its remediation', name => {
    const broken = { ...data, authorization_remediation: without(remediation, name) }
    expect(refusalOf(() => parseChallengeData(broken)).code).toBe('invalid_request')
  })

  it.each(Object.keys(detail))('is refused without %s in authorization_details', name => {
    const details = [without(detail, name)]
    const broken = withRemediation({
      authorization_details: details,
      authorization_reference: s256Json(details),
    })
    expect(refusalOf(() => parseChallengeData(broken)).code).toBe('invalid_request')
  })

  it.each<[string, Json]>([
    ['another error', { ...data, error: 'invalid_token' }],
    ['a ticket of another type', { ...data, ticket: 7 }],
    ['an empty ticket', { ...data, ticket: '' }],
    ['an as_uri that is no URL', { ...data, as_uri: 'as.example.com' }],
    ['an as_uri on plain http', { ...data, as_uri: 'http://as.example.com' }],
    ['an as_uri with user information', { ...data, as_uri: 'https://as.example.com@evil.example' }],
    ['a scope that is a list', { ...data, scope: ['read'] }],
    ['a scope with two spaces', { ...data, scope: 'a  b' }],
    ['a remediation in base64url', { ...data, authorization_remediation: encodeBase64url('{}') }],
    ['another ticket inside', withRemediation({ ticket: 'tag~tkt_other' })],
    ['another server inside', withRemediation({ authorization_server: 'https://evil.example' })],
    [
      'details changed under their reference',
      withRemediation({ authorization_details: [{ ...detail, actions: ['all'] }] }),
    ],
    ['no details', withRemediation({ authorization_details: [], authorization_reference: s256Json([]) })],
    [
      'details that are an object',
      withRemediation({ authorization_details: detail, authorization_reference: s256Json(detail) }),
    ],
    ['an unknown member in details (RFC 9396)', withDetail({ privileges: ['admin'] })],
    ['another type in details', withDetail({ type: `${DEFAULT_SPEC_NS}/core/1.0#other` })],
    ['locations that are text', withDetail({ locations: 'https://tools.example.com' })],
    ['an identifier that is a list', withDetail({ identifier: ['bea/x'] })],
    ['datatypes that hold a number', withDetail({ datatypes: [1] })],
    ['nothing', null],
    ['a list', []],
    ['text', 'x'],
  ])('is refused with %s', (_what, broken) => {
    expect(refusalOf(() => parseChallengeData(broken)).code).toBe('invalid_request')
  })

  it('may carry members that nobody knows, outside authorization_details', () => {
    expect(parseChallengeData({ ...withRemediation({ hint: 'x' }), trace: 'y' })).toEqual(sample)
  })

  it('is of the expected namespace if one is expected', () => {
    expect(parseChallengeData(data, { specNs: DEFAULT_SPEC_NS })).toEqual(sample)
    expect(refusalOf(() => parseChallengeData(data, { specNs: 'https://other.example' })).code).toBe(
      'invalid_request',
    )
  })

  it('is known by its shape, never by the code of the error around it', () => {
    expect(isChallengeData(data)).toBe(true)
    for (const other of [undefined, null, 'timeout', {}, [], { ticket: 't', as_uri: 'https://as.example' }]) {
      expect(isChallengeData(other)).toBe(false)
    }
  })
})
