import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { verifyAgentToken, type AgentIdentity } from '../../src/wire/agents/agent-identity.ts'
import {
  agreementHash,
  openClaimToken,
  signAgreement,
  verifyAgreement,
  type AgreementContent,
} from '../../src/wire/negotiation/agreement.ts'
import { decodeBase64url, encodeBase64url, s256 } from '../../src/wire/encoding.ts'
import { signJws } from '../../src/wire/signatures/jws.ts'
import { TYP } from '../../src/wire/names.ts'
import { refusalOf, refusalOrValue } from '../support/refusals.ts'
import {
  AGENT_ISSUER,
  agentToken,
  agreementContent,
  ISSUER,
  newKey,
  NOW,
  TEMPLATE,
} from '../support/wire-samples.ts'

const key = newKey()
const other = newKey()
const issuer = newKey()
const claimToken = signAgreement(agreementContent(), key)

function identified(token: string): AgentIdentity {
  return { kind: 'agent_token', agent: verifyAgentToken(token, [issuer], NOW) }
}

/** A claim_token of the payload of the sample under any header. */
function claimTokenWith(header: object, typ: string | undefined = TYP.agreement, signer = key): string {
  const { payload } = openClaimToken(claimToken)
  return encodeBase64url(
    signJws({ ...(typ === undefined ? {} : { typ }), kid: false, header, payload }, signer),
  )
}

describe('a claim_token', () => {
  it('is the base64url of the whole compact JWS, and its hash is the s256 of those bytes', () => {
    const compact = decodeBase64url(claimToken).toString()
    expect(compact.split('.')).toHaveLength(3)
    const agreement = verifyAgreement(claimToken)
    expect(agreement.compact).toBe(compact)
    expect(agreement.hash).toBe(s256(compact))
    expect(agreementHash(claimToken)).toBe(agreement.hash)
    expect(agreement.hash).toMatch(/^s256:[A-Za-z0-9_-]{43}$/)
  })

  it('repeats every field of the terms, and names signer, authority and time', () => {
    const { claims } = verifyAgreement(claimToken)
    expect(claims).toEqual({ ...TEMPLATE, iss: `agent:${key.thumbprint}`, aud: ISSUER, iat: NOW })
  })

  it('has a header of alg, typ and the bare key', () => {
    expect(openClaimToken(claimToken).header).toEqual({ alg: 'EdDSA', typ: TYP.agreement, jwk: key.jwk })
  })

  it('gives back, verified, whatever was signed', () => {
    const contents = fc.record(
      {
        reason: fc.string({ unit: 'grapheme' }),
        mission: fc.record({ approver: fc.webUrl(), s256: fc.string({ unit: 'grapheme' }) }),
        operation: fc.oneof(
          fc.string({ unit: 'grapheme' }),
          fc.record({
            tool: fc.string({ unit: 'grapheme' }),
            params: fc.dictionary(fc.string({ unit: 'grapheme' }), fc.integer()),
          }),
        ),
        introduction: fc.string({ unit: 'grapheme' }),
        client_id: fc.constant('https://bots.example/client.json'),
        signature_agent: fc.constant('https://bots.example'),
      },
      { requiredKeys: [] },
    ) as fc.Arbitrary<Partial<AgreementContent>>
    fc.assert(
      fc.property(contents, given => {
        const agreement = verifyAgreement(signAgreement(agreementContent(given), key))
        const { client_id, signature_agent, ...claims } = given
        expect(agreement.claims).toMatchObject(JSON.parse(JSON.stringify({ ...TEMPLATE, ...claims })))
        expect(agreement).toMatchObject({ client_id, signature_agent })
        expect(agreement.key.thumbprint).toBe(key.thumbprint)
        expect(agreement.identity.kind).toBe('key')
      }),
    )
  })

  it('is refused with any character of it changed', () => {
    const change = fc.record({
      at: fc.nat(claimToken.length - 1),
      by: fc.constantFrom(...'AQgw09_-'.split('')),
    })
    fc.assert(
      fc.property(change, ({ at, by }) => {
        fc.pre(claimToken[at] !== by)
        const changed = claimToken.slice(0, at) + by + claimToken.slice(at + 1)
        expect(refusalOf(() => verifyAgreement(changed)).code).toBe('invalid_request')
      }),
      { numRuns: 500 },
    )
  })

  it.each([
    ['nothing', ''],
    ['the compact JWS itself', decodeBase64url(claimToken).toString()],
    ['padding', `${claimToken}=`],
    ['a line feed behind', `${claimToken}\n`],
    ['more than 32 KiB', 'A'.repeat(32 * 1024 + 1)],
    ['bytes that are no JWS', encodeBase64url('hello')],
    ['a JWS of two parts', encodeBase64url('e30.e30')],
    ['bytes beyond ASCII', encodeBase64url('é.é.é')],
  ])('is refused where it is %s', (_what, text) => {
    expect(refusalOf(() => verifyAgreement(text)).code).toBe('invalid_request')
  })

  it('makes no text an error', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.uint8Array().map(encodeBase64url)), text => {
        expect('refusal' in refusalOrValue(() => verifyAgreement(text))).toBe(true)
      }),
    )
  })
})

describe('the header of an agreement', () => {
  const token = agentToken(issuer, key)

  it('may leave out typ, and may not name another kind', () => {
    expect(verifyAgreement(claimTokenWith({ jwk: key.jwk }, undefined)).hash).toMatch(/^s256:/)
    expect(
      verifyAgreement(claimTokenWith({ jwk: key.jwk }, 'application/MyTerms-Agreement-v1+JWS')).hash,
    ).toMatch(/^s256:/)
    for (const typ of Object.values(TYP).filter(one => one !== TYP.agreement)) {
      expect(refusalOf(() => verifyAgreement(claimTokenWith({ jwk: key.jwk }, typ))).code).toBe(
        'invalid_request',
      )
    }
  })

  it('takes the algorithm from the key: EdDSA and Ed25519 are one', () => {
    expect(verifyAgreement(claimTokenWith({ alg: 'EdDSA', jwk: key.jwk })).key.x).toBe(key.x)
    for (const alg of ['none', 'HS256', 'RS256', '', null]) {
      expect(refusalOf(() => verifyAgreement(claimTokenWith({ alg, jwk: key.jwk }))).code).toBe(
        'invalid_request',
      )
    }
  })

  it.each<[string, object]>([
    ['both identities', { jwk: key.jwk, agent_token: token }],
    ['neither identity', {}],
    ['the key of another', { jwk: other.jwk }],
    ['a private key', { jwk: { ...key.jwk, d: 'x' } }],
    ['a key whose alg is another', { jwk: { ...key.jwk, alg: 'ES256' } }],
    ['a key padded', { jwk: { ...key.jwk, x: `${key.x}=` } }],
    ['crit', { jwk: key.jwk, crit: ['exp'] }],
    ['a client_id of another type', { jwk: key.jwk, client_id: 7 }],
    ['a client_id on http', { jwk: key.jwk, client_id: 'http://bots.example/x' }],
    ['a client_id without path', { jwk: key.jwk, client_id: 'https://bots.example' }],
    ['a signature_agent that is no URL', { jwk: key.jwk, signature_agent: 'bots' }],
  ])('with %s is refused', (_what, header) => {
    expect(refusalOf(() => verifyAgreement(claimTokenWith(header))).code).toBe('invalid_request')
  })

  it('with an agent token needs that token verified, and the key in it', () => {
    const signed = signAgreement(agreementContent({ agent_token: token }), key)
    const agreement = verifyAgreement(signed, identified(token))
    expect(agreement.identity).toMatchObject({ kind: 'agent_token', agent: { iss: AGENT_ISSUER } })
    expect(agreement.key.thumbprint).toBe(key.thumbprint)
    expect(openClaimToken(signed).header).not.toHaveProperty('jwk')

    const others = agentToken(issuer, other)
    expect(refusalOf(() => verifyAgreement(signed)).code).toBe('invalid_request')
    expect(refusalOf(() => verifyAgreement(signed, { kind: 'key', key })).code).toBe('invalid_request')
    expect(refusalOf(() => verifyAgreement(signed, identified(others))).code).toBe('invalid_request')
    const stolen = signAgreement(agreementContent({ agent_token: others }), key)
    expect(refusalOf(() => verifyAgreement(stolen, identified(others))).code).toBe('invalid_request')
  })

  it('with a bare key is no identified agent, and no other key', () => {
    expect(refusalOf(() => verifyAgreement(claimToken, identified(token))).code).toBe('invalid_request')
    expect(refusalOf(() => verifyAgreement(claimToken, { kind: 'key', key: other })).code).toBe(
      'invalid_request',
    )
    expect(verifyAgreement(claimToken, { kind: 'key', key }).key.x).toBe(key.x)
  })
})
