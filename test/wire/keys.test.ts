import { createHash } from 'node:crypto'
import * as fc from 'fast-check'
import { calculateJwkThumbprint } from 'jose'
import { describe, expect, it } from 'vitest'
import { canonicalize, type Json } from '../../src/wire/json.ts'
import { thumbprintHandle } from '../../src/wire/agents/handles.ts'
import {
  generatePrivateJwk,
  importPrivateJwk,
  importPublicJwk,
  parseJwks,
  publicJwk,
  signEd25519,
  verifyEd25519,
} from '../../src/wire/signatures/keys.ts'
import { refusalOf } from '../support/refusals.ts'
import { describeVectors } from '../support/vectors.ts'

const RFC8037 = {
  kty: 'OKP',
  crv: 'Ed25519',
  d: 'nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A',
  x: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo',
}
const { d: _, ...RFC8037_PUBLIC } = RFC8037
const allowTestKeys = true

const privateJwk = generatePrivateJwk()
const { d, ...sentJwk } = privateJwk

describe('a key', () => {
  it('has the thumbprint of RFC 8037 A.3 and the handle made from it', () => {
    const key = importPublicJwk(RFC8037_PUBLIC, { allowTestKeys })
    expect(key.thumbprint).toBe('kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k')
    expect(thumbprintHandle(key)).toBe('jkt:kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k')
  })

  it('has the thumbprint that jose calculates', async () => {
    expect(importPublicJwk(sentJwk).thumbprint).toBe(await calculateJwkThumbprint(sentJwk))
  })

  it('signs and verifies RFC 8037 A.4', () => {
    const key = importPrivateJwk(RFC8037, { allowTestKeys })
    const input = Buffer.from('eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc')
    const signature = signEd25519(input, key)
    expect(signature.toString('base64url')).toBe(
      'hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg',
    )
    expect(verifyEd25519(input, signature, key)).toBe(true)
  })

  it('is published with alg, use and kid, and without its private half', () => {
    const key = importPrivateJwk(privateJwk)
    expect(publicJwk(key)).toEqual({
      kty: 'OKP',
      crv: 'Ed25519',
      x: key.x,
      kid: key.thumbprint,
      alg: 'EdDSA',
      use: 'sig',
    })
    expect(publicJwk(key, 'k1').kid).toBe('k1')
    expect(publicJwk(importPrivateJwk({ ...privateJwk, kid: 'k2' })).kid).toBe('k2')
    expect(importPublicJwk(publicJwk(key)).x).toBe(key.x)
    expect(key.jwk).toEqual({ kty: 'OKP', crv: 'Ed25519', x: key.x, alg: 'EdDSA' })
  })

  it('is published under the newer name where it is told to, and not because its file says so', () => {
    const newer = importPrivateJwk(privateJwk, { alg: 'Ed25519' })
    expect([newer.jwk.alg, publicJwk(newer).alg]).toEqual(['Ed25519', 'Ed25519'])
    expect(publicJwk(importPrivateJwk({ ...privateJwk, alg: 'Ed25519' })).alg).toBe('EdDSA')
  })

  it('is the same object however often it arrives', () => {
    expect(importPublicJwk(sentJwk)).toBe(
      importPublicJwk({ kty: 'OKP', crv: 'Ed25519', x: sentJwk.x, alg: 'EdDSA', kid: 'other' }),
    )
  })

  it('is remembered while it is in use, and forgotten after 4096 others', () => {
    const jwk = (n: number) => {
      const bytes = Buffer.alloc(32, 9)
      bytes.writeUInt32LE(n)
      return { kty: 'OKP', crv: 'Ed25519', x: bytes.toString('base64url') }
    }
    const used = importPublicJwk(jwk(0))
    const unused = importPublicJwk(jwk(1))
    for (let n = 2; n < 4200; n++) {
      importPublicJwk(jwk(n))
      if (n % 1000 === 0) importPublicJwk(jwk(0))
    }
    expect(importPublicJwk(jwk(0))).toBe(used)
    expect(importPublicJwk(jwk(1))).not.toBe(unused)
  })

  it('verifies nothing but its own 64 bytes', () => {
    const key = importPrivateJwk(privateJwk)
    const other = importPrivateJwk(generatePrivateJwk())
    fc.assert(
      fc.property(fc.uint8Array(), fc.nat(511), (bytes, bit) => {
        const signature = signEd25519(bytes, key)
        expect(verifyEd25519(bytes, signature, key)).toBe(true)
        expect(verifyEd25519(bytes, signature, other)).toBe(false)
        expect(verifyEd25519(bytes, signature.subarray(0, 63), key)).toBe(false)
        expect(verifyEd25519(bytes, Buffer.concat([signature, Buffer.alloc(1)]), key)).toBe(false)
        signature[bit >> 3]! ^= 1 << (bit & 7)
        expect(verifyEd25519(bytes, signature, key)).toBe(false)
      }),
    )
  })
})

describe('a received JWK is refused', () => {
  const { x } = sentJwk
  it.each<[string, unknown]>([
    ['with its private half', privateJwk],
    ['with a null private half', { ...sentJwk, d: null }],
    ['as text', JSON.stringify(sentJwk)],
    ['as null', null],
    ['as an array', [sentJwk]],
    ['with another kty', { ...sentJwk, kty: 'EC' }],
    ['with another curve', { ...sentJwk, crv: 'X25519' }],
    ['without a curve', { kty: 'OKP', x }],
    ['with another alg', { ...sentJwk, alg: 'ES256' }],
    ['with alg none', { ...sentJwk, alg: 'none' }],
    ['for encryption', { ...sentJwk, use: 'enc' }],
    ['without x', { kty: 'OKP', crv: 'Ed25519' }],
    ['with x as a number', { ...sentJwk, x: 1 }],
    ['with x padded', { ...sentJwk, x: `${x}=` }],
    ['with x followed by a newline', { ...sentJwk, x: `${x}\n` }],
    ['with x of 31 bytes', { ...sentJwk, x: Buffer.alloc(31, 9).toString('base64url') }],
    ['with x of 33 bytes', { ...sentJwk, x: Buffer.alloc(33, 9).toString('base64url') }],
    [
      'with x at the field prime',
      { ...sentJwk, x: Buffer.from(`ed${'ff'.repeat(30)}7f`, 'hex').toString('base64url') },
    ],
    ['with x at zero', { ...sentJwk, x: 'A'.repeat(43) }],
    ['printed in an RFC', RFC8037_PUBLIC],
    ['printed in RFC 9421', { ...RFC8037_PUBLIC, x: 'JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs' }],
  ])('%s', (_, jwk) => {
    expect(refusalOf(() => importPublicJwk(jwk)).code).toBe('invalid_request')
  })

  it('with any spelling of x but one', () => {
    fc.assert(
      fc.property(fc.nat(42), fc.constantFrom('+', '/', '=', ' ', '\n', '.', ''), (place, junk) => {
        const spelling = x.slice(0, place) + junk + x.slice(place + 1)
        refusalOf(() => importPublicJwk({ ...sentJwk, x: spelling }))
      }),
    )
  })

  it('even when an allowed import of a test key was cached before', () => {
    importPublicJwk(RFC8037_PUBLIC, { allowTestKeys })
    refusalOf(() => importPublicJwk(RFC8037_PUBLIC))
  })
})

describe('a private JWK is refused', () => {
  it.each<[string, unknown]>([
    ['without d', sentJwk],
    ['with another key’s x', { ...privateJwk, x: generatePrivateJwk().x }],
    ['with d padded', { ...privateJwk, d: `${d}=` }],
    ['printed in an RFC', RFC8037],
  ])('%s', (_, jwk) => {
    expect(refusalOf(() => importPrivateJwk(jwk)).code).toBe('invalid_request')
  })
})

describe('a JWKS', () => {
  it('yields its usable keys in order and passes over the others', () => {
    const other = publicJwk(importPrivateJwk(generatePrivateJwk()), 'second')
    const keys = parseJwks({
      keys: [
        sentJwk,
        { kty: 'RSA' },
        null,
        'x',
        privateJwk,
        { ...other, alg: 'RS256' },
        other,
        { ...other, kid: 7 },
      ],
    })
    expect(keys.map(key => [key.x, key.kid])).toEqual([
      [sentJwk.x, privateJwk.kid],
      [other.x, 'second'],
      [other.x, undefined],
    ])
  })

  it.each<[unknown]>([[null], [[]], [{}], [{ keys: {} }], ['{}']])('is not %j', json => {
    expect(refusalOf(() => parseJwks(json)).code).toBe('invalid_request')
  })
})

interface Rfc8032 {
  vectors: { name: string; secret_key: string; public_key: string; message: string; signature: string }[]
}

describeVectors<Rfc8032>('rfc8032-ed25519.json', 'RFC 8032 section 7.1', data => {
  it.each(data.vectors)('TEST $name is signed and verified', vector => {
    const text = (hex: string) => Buffer.from(hex, 'hex').toString('base64url')
    const jwk = { kty: 'OKP', crv: 'Ed25519', d: text(vector.secret_key), x: text(vector.public_key) }
    const key = importPrivateJwk(jwk, { allowTestKeys })
    const message = Buffer.from(vector.message, 'hex')
    expect(signEd25519(message, key).toString('hex')).toBe(vector.signature)
    expect(verifyEd25519(message, Buffer.from(vector.signature, 'hex'), key)).toBe(true)
    refusalOf(() => importPrivateJwk(jwk)) // its private half is public
  })
})

interface Rfc7638 {
  jwk: { e: string; kty: string; n: string }
  hash_input: string
  thumbprint: string
}

describeVectors<Rfc7638>('rfc7638.json', 'RFC 7638 section 3.1', data => {
  it('hashes the required members as canonical JSON, which is what we do for OKP keys', () => {
    const { e, kty, n } = data.jwk
    expect(canonicalize({ n, kty, e })).toBe(data.hash_input)
    expect(createHash('sha256').update(data.hash_input).digest('base64url')).toBe(data.thumbprint)
    const key = importPublicJwk(sentJwk)
    const required: Json = { x: key.x, kty: 'OKP', crv: 'Ed25519' }
    expect(createHash('sha256').update(canonicalize(required)).digest('base64url')).toBe(key.thumbprint)
  })
})

interface Wycheproof {
  testGroups: {
    publicKeyJwk: object
    tests: { tcId: number; comment: string; msg: string; sig: string; result: string }[]
  }[]
}

describeVectors<Wycheproof>('wycheproof/ed25519_test.json', 'Wycheproof Ed25519', data => {
  const cases = data.testGroups.flatMap(group =>
    group.tests.map(test => ({ ...test, jwk: group.publicKeyJwk })),
  )
  it.each(cases)('test $tcId is $result: $comment', ({ jwk, msg, sig, result }) => {
    const key = importPublicJwk(jwk, { allowTestKeys })
    expect(verifyEd25519(Buffer.from(msg, 'hex'), Buffer.from(sig, 'hex'), key)).toBe(result === 'valid')
  })
})

interface NegativeKeys {
  must_reject_keys: { name: string; jwk: object }[]
  jwk_x_aliases: { canonical: string; reject: string[] }
}

describeVectors<NegativeKeys>('negative-ed25519-keys.json', 'keys that must not be imported', data => {
  it.each(data.must_reject_keys)('$name, under which anybody can sign', ({ jwk }) => {
    expect(refusalOf(() => importPublicJwk(jwk)).code).toBe('invalid_request')
  })

  it.each(data.jwk_x_aliases.reject)('the other spelling %j of a key', x => {
    refusalOf(() => importPublicJwk({ kty: 'OKP', crv: 'Ed25519', x }, { allowTestKeys }))
    importPublicJwk({ kty: 'OKP', crv: 'Ed25519', x: data.jwk_x_aliases.canonical }, { allowTestKeys })
  })
})
