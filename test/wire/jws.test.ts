import * as fc from 'fast-check'
import { compactVerify, CompactSign, importJWK } from 'jose'
import { describe, expect, it } from 'vitest'
import { encodeBase64url } from '../../src/wire/encoding.ts'
import {
  checkClaims,
  findByKid,
  parseJws,
  signJws,
  timeClaim,
  verifyJws,
  type ClaimExpectation,
} from '../../src/wire/signatures/jws.ts'
import {
  generatePrivateJwk,
  importPrivateJwk,
  parseJwks,
  publicJwk,
  signEd25519,
} from '../../src/wire/signatures/keys.ts'
import { refusalOf, refusalOrValue } from '../support/refusals.ts'
import { describeVectors } from '../support/vectors.ts'

const privateJwk = generatePrivateJwk()
const key = importPrivateJwk(privateJwk)
const other = importPrivateJwk(generatePrivateJwk())
const expected = { typ: 'myterms-receipt+jws' }
const payload = { iss: 'https://as.example.com', n: 1 }

/** A compact JWS over exactly these texts, signed by `key` whatever they say. */
function signTexts(header: string, content: string): string {
  const input = `${encodeBase64url(header)}.${encodeBase64url(content)}`
  return `${input}.${signEd25519(Buffer.from(input), key).toString('base64url')}`
}

describe('a JWS', () => {
  it('verifies with the key that signed it and with no other', () => {
    const compact = signJws({ ...expected, payload }, key)
    expect(verifyJws(compact, key, expected)).toMatchObject({ compact, payload, key: { x: key.x } })
    refusalOf(() => verifyJws(compact, other, expected))
  })

  it('says EdDSA, then its kind, then the kid, then the rest', () => {
    const compact = signJws({ ...expected, header: { client_id: 'https://op.example' }, payload }, key)
    expect(Buffer.from(compact.split('.')[0]!, 'base64url').toString()).toBe(
      `{"alg":"EdDSA","typ":"myterms-receipt+jws","kid":"${key.kid}","client_id":"https://op.example"}`,
    )
  })

  it('may leave out kid and typ, or name another kid', () => {
    expect(parseJws(signJws({ kid: false, payload }, key)).header).toEqual({ alg: 'EdDSA' })
    expect(parseJws(signJws({ kid: 'k', payload }, key)).header).toEqual({ alg: 'EdDSA', kid: 'k' })
  })

  it('is verified by jose, and verifies what jose signs, under both names of the algorithm', async () => {
    const compact = signJws({ ...expected, payload }, key)
    await compactVerify(compact, await importJWK(publicJwk(key)))
    for (const alg of ['EdDSA', 'Ed25519']) {
      const signed = await new CompactSign(Buffer.from(JSON.stringify(payload)))
        .setProtectedHeader({ alg, ...expected })
        .sign(await importJWK({ ...privateJwk, alg }, alg))
      expect(verifyJws(signed, key, expected).payload).toEqual(payload)
    }
  })

  it('says the newer name with a key that was told to, and verifies alike', () => {
    const newer = importPrivateJwk(privateJwk, { alg: 'Ed25519' })
    const compact = signJws({ ...expected, payload }, newer)
    expect(parseJws(compact).header).toMatchObject({ alg: 'Ed25519', kid: key.kid })
    expect(verifyJws(compact, key, expected).payload).toEqual(payload)
  })

  it.each(['MyTerms-Receipt+JWS', 'application/myterms-receipt+jws', 'Application/MYTERMS-receipt+jws'])(
    'of typ %s is of the kind asked for (RFC 7515 section 4.1.9)',
    typ => {
      expect(() => verifyJws(signJws({ typ, payload }, key), key, expected)).not.toThrow()
    },
  )

  it.each([
    'at+jwt',
    'jwt',
    '',
    'receipt+jws',
    'application/application/myterms-receipt+jws',
    'text/myterms-receipt+jws',
  ])('of typ %j is never taken for another kind', typ => {
    expect(refusalOf(() => verifyJws(signJws({ typ, payload }, key), key, expected)).code).toBe(
      'invalid_request',
    )
    refusalOf(() => verifyJws(signJws({ typ, payload }, key), key, { ...expected, typOptional: true }))
  })

  it('may lack its typ only where that is allowed', () => {
    const compact = signJws({ payload }, key)
    refusalOf(() => verifyJws(compact, key, expected))
    verifyJws(compact, key, { ...expected, typOptional: true })
  })

  it('is verified by the published key its kid names', () => {
    const keys = parseJwks({ keys: [publicJwk(other, 'old'), publicJwk(key, 'new')] })
    const find = findByKid(keys)
    expect(verifyJws(signJws({ ...expected, kid: 'new', payload }, key), find, expected).key.x).toBe(key.x)
    refusalOf(() => verifyJws(signJws({ ...expected, kid: 'old', payload }, key), find, expected))
    refusalOf(() => verifyJws(signJws({ ...expected, kid: 'unknown', payload }, key), find, expected))
    refusalOf(() => verifyJws(signJws({ ...expected, kid: false, payload }, key), find, expected))
    verifyJws(signJws({ ...expected, kid: false, payload }, key), findByKid(keys.slice(1)), expected)
  })

  it('is not verified by either of two keys published under one kid', () => {
    const keys = parseJwks({ keys: [publicJwk(key, 'k'), publicJwk(other, 'k')] })
    refusalOf(() => verifyJws(signJws({ ...expected, kid: 'k', payload }, key), findByKid(keys), expected))
  })

  const header = '{"alg":"Ed25519","typ":"myterms-receipt+jws"}'
  it('of plain texts verifies, so that the refusals below are for their reason', () => {
    expect(() => verifyJws(signTexts(header, '{}'), key, expected)).not.toThrow()
  })

  it.each([
    ['alg none', header.replace('Ed25519', 'none')],
    ['alg HS256', header.replace('Ed25519', 'HS256')],
    ['alg in other case', header.replace('Ed25519', 'ed25519')],
    ['no alg', '{"typ":"myterms-receipt+jws"}'],
    ['a second alg', header.replace('{', '{"alg":"none",')],
    ['crit', header.replace('}', ',"crit":["exp"]}')],
    ['an empty crit', header.replace('}', ',"crit":[]}')],
    ['b64', header.replace('}', ',"b64":true}')],
    ['a typ that is no string', '{"alg":"Ed25519","typ":["myterms-receipt+jws"]}'],
    ['a kid that is no string', header.replace('}', ',"kid":1}')],
    ['text after the header', `${header} {}`],
    ['an array', `[${header}]`],
    ['null', 'null'],
    ['nothing', ''],
  ])('is refused with the header %s', (_, text) => {
    expect(refusalOf(() => verifyJws(signTexts(text, '{}'), key, expected)).code).toBe('invalid_request')
  })

  it.each(['', '[]', 'null', '"text"', '{"a":1,"a":2}', '{}{}', '\ufeff{}'])(
    'is refused with the payload %j',
    text => {
      expect(refusalOf(() => verifyJws(signTexts(header, text), key, expected)).code).toBe('invalid_request')
    },
  )

  const [first, second, third] = signTexts(header, '{}').split('.') as [string, string, string]
  it.each([
    ['two parts', `${first}.${second}`],
    ['four parts', `${first}.${second}.${third}.`],
    ['five parts', `${first}.${second}.${third}.${third}.${third}`],
    ['a padded signature', `${first}.${second}.${third}==`],
    ['a padded header', `${first}=.${second}.${third}`],
    ['a leading blank', ` ${first}.${second}.${third}`],
    ['a trailing newline', `${first}.${second}.${third}\n`],
    ['no signature', `${first}.${second}.`],
    ['a signature of 63 bytes', `${first}.${second}.${Buffer.alloc(63).toString('base64url')}`],
    ['a signature of 65 bytes', `${first}.${second}.${Buffer.alloc(65).toString('base64url')}`],
    ['the JSON serialisation', JSON.stringify({ protected: first, payload: second, signature: third })],
  ])('is refused with %s', (_, compact) => {
    expect(refusalOf(() => verifyJws(compact, key, expected)).code).toBe('invalid_request')
  })

  it('is refused with any one bit of its text flipped', () => {
    const compact = signJws({ ...expected, payload }, key)
    fc.assert(
      fc.property(fc.nat(compact.length * 7 - 1), bit => {
        const text = Buffer.from(compact)
        text[Math.floor(bit / 7)]! ^= 1 << (bit % 7)
        refusalOf(() => verifyJws(text.toString('latin1'), key, expected))
      }),
      { numRuns: 500 },
    )
  })

  it('is refused beyond its size, before it is decoded', () => {
    refusalOf(() => parseJws('a'.repeat(32 * 1024 + 1)))
    refusalOf(() => verifyJws(signJws({ ...expected, payload }, key), key, { ...expected, maxBytes: 100 }))
  })

  it('throws nothing but a refusal, whatever the text', () => {
    const part = fc.oneof(
      fc.string(),
      fc.json().map(encodeBase64url),
      fc.constant(first),
      fc.constant(second),
      fc.constant(third),
    )
    fc.assert(
      fc.property(fc.array(part, { maxLength: 4 }), parts => {
        refusalOrValue(() => verifyJws(parts.join('.'), other, expected))
      }),
      { numRuns: 1000 },
    )
  })
})

describe('claims', () => {
  const now = 1_000_000
  const check = (claims: object, more: Partial<ClaimExpectation> = {}) =>
    checkClaims({ iss: 'i', aud: 'a', ...claims }, { iss: 'i', aud: 'a', now, ...more })

  it.each<[string, object, Partial<ClaimExpectation>]>([
    ['one second before exp', { exp: now + 1 }, {}],
    ['without exp, unless it is needed', {}, {}],
    ['with nbf and iat within the skew', { nbf: now + 60, iat: now + 60 }, {}],
    ['long after iat', { iat: 0 }, {}],
    ['for several audiences', { aud: ['b', 'a'] }, {}],
    ['with a fractional time', { exp: now + 0.5 }, {}],
  ])('pass %s', (_, claims, more) => {
    expect(() => check(claims, more)).not.toThrow()
  })

  it.each<[string, object, Partial<ClaimExpectation>]>([
    ['at exp', { exp: now }, {}],
    ['after exp', { exp: now - 1 }, {}],
    ['without the exp that is needed', {}, { requireExp: true }],
    ['before nbf', { nbf: now + 61 }, {}],
    ['before iat', { iat: now + 61 }, {}],
    ['before iat, with no skew allowed', { iat: now + 1 }, { skewSeconds: 0 }],
    ['with exp as text', { exp: String(now + 1) }, {}],
    ['with exp null', { exp: null }, {}],
    ['from another issuer', { iss: 'I' }, {}],
    ['from no issuer', { iss: undefined }, {}],
    ['for another audience', { aud: 'aa' }, {}],
    ['for an audience within another', { aud: [['a']] }, {}],
    ['for audiences that are not all text', { aud: ['a', 1] }, {}],
    ['for no audience', { aud: [] }, {}],
  ])('are refused %s', (_, claims, more) => {
    expect(refusalOf(() => check(claims, more)).code).toBe('invalid_request')
  })

  it('do not come from a prototype', () => {
    expect(timeClaim({}, 'constructor')).toBeUndefined()
  })
})

interface Rfc8037 {
  jws: { signing_input: string; compact: string }
}

describeVectors<Rfc8037>('rfc8037.json', 'RFC 8037 A.4', data => {
  it('is no document of ours: its payload is not JSON', () => {
    expect(refusalOf(() => parseJws(data.jws.compact)).code).toBe('invalid_request')
  })
})

interface SignatureAliases {
  signature_aliases: { canonical: string; reject: string[] }
}

describeVectors<SignatureAliases>('negative-ed25519-keys.json', 'signature spellings', data => {
  it.each(data.signature_aliases.reject)('%j is refused', alias => {
    const [head, body] = signTexts('{"alg":"EdDSA"}', '{}').split('.')
    expect(parseJws(`${head}.${body}.${data.signature_aliases.canonical}`).signature).toHaveLength(64)
    expect(refusalOf(() => parseJws(`${head}.${body}.${alias}`)).code).toBe('invalid_request')
  })
})
