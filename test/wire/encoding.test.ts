import { createHash } from 'node:crypto'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  checkContentDigest,
  contentDigest,
  decodeBase64url,
  encodeBase64url,
  s256,
  s256Json,
  sha256,
  writeSha256,
} from '../../src/wire/encoding.ts'
import { refusalOf, refusalOrValue } from '../support/refusals.ts'
import { describeVectors } from '../support/vectors.ts'

describe('base64url', () => {
  it('decodes what it encodes', () => {
    fc.assert(
      fc.property(fc.uint8Array(), bytes => {
        expect([...decodeBase64url(encodeBase64url(bytes))]).toEqual([...bytes])
      }),
    )
  })

  it('has one spelling for each run of bytes: any text is refused or is its own re-encoding', () => {
    const text = fc.oneof(fc.string(), fc.string({ unit: fc.constantFrom(...'AQgwBZ01-_+/= \n'.split('')) }))
    fc.assert(
      fc.property(text, given => {
        const result = refusalOrValue(() => decodeBase64url(given))
        if ('value' in result) expect(encodeBase64url(result.value)).toBe(given)
        else expect(result.refusal.code).toBe('invalid_request')
      }),
    )
  })

  it.each(['QQ==', 'QR', 'Q', '-_+/', 'QQ\n', ' QQ', 'Q Q', 'QQ.', 'é', 'ŁQ'])(
    'refuses the spelling %j',
    text => {
      expect(refusalOf(() => decodeBase64url(text)).code).toBe('invalid_request')
    },
  )

  it('encodes text as its UTF-8 bytes', () => {
    expect(encodeBase64url('é')).toBe('w6k')
  })
})

describe('s256', () => {
  it.each([
    [{}, 's256:RBNvo1WzZ4oRRq0W9-hknpT7T8If536DEMBg9hyq_4o'],
    [{ symbol: 'VTI', qty: 2 }, 's256:T6xGGcoR3hDoRSt3TxuyHPcUh8qQTJBgCSnp0toH0B8'],
    [{ note: 'é', qty: 2 }, 's256:wWnnAElmxHz-uZkkoNqLgdNIsNXOrBhGE8ZlibT1FIo'],
  ])('of the canonical JSON %j is %s', (json, expected) => {
    expect(s256Json(json)).toBe(expected)
  })

  it('of bytes and of the text they spell is the same', () => {
    expect(s256('é')).toBe(s256(Buffer.from('é')))
    expect(s256('')).toBe(`s256:${sha256('').toString('base64url')}`)
  })

  it('is the digest of node:crypto, also where it is written into a buffer', () => {
    fc.assert(
      fc.property(fc.oneof(fc.uint8Array(), fc.string({ unit: 'binary' })), fc.nat(9), (content, at) => {
        const digest = createHash('sha256').update(content).digest()
        expect(sha256(content)).toEqual(digest)
        const into = Buffer.alloc(50, 7)
        writeSha256(content, into, at)
        expect(into).toEqual(Buffer.concat([Buffer.alloc(at, 7), digest, Buffer.alloc(18 - at, 7)]))
      }),
    )
  })
})

describe('Content-Digest', () => {
  const body = Buffer.from('{"hello": "world"}')

  it('accepts the digest it makes (RFC 9530 appendix D value)', () => {
    expect(contentDigest(body)).toBe('sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:')
    checkContentDigest(contentDigest(body), body)
  })

  it('passes over deprecated algorithms beside an active one', () => {
    expect(() =>
      checkContentDigest(`md5=:Sd/dVLAcvNLSq16eXua5uQ==:, ${contentDigest(body)}`, body),
    ).not.toThrow()
  })

  it.each([
    ['another body', contentDigest('{"hello": "World"}')],
    ['one of two digests wrong', `${contentDigest(body)}, sha-512=:AAAA:`],
    ['only a deprecated algorithm', 'md5=:Sd/dVLAcvNLSq16eXua5uQ==:'],
    ['nothing', ''],
    ['no dictionary', '"sha-256"'],
    ['a string for the bytes', 'sha-256="X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE="'],
    ['an algorithm in capitals', contentDigest(body).replace('sha', 'SHA')],
    [
      'bytes without padding',
      contentDigest(body).replace('=:X', '=:X').replace('=:', '=:').slice(0, -2) + ':',
    ],
    ['a bare key', 'sha-256'],
    ['one algorithm twice', `sha-256=:AAAA:, ${contentDigest(body)}`],
  ])('refuses %s', (_, value) => {
    expect(refusalOf(() => checkContentDigest(value, body)).code).toBe('invalid_request')
  })

  it('refuses any one flipped bit of the body', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 1 }), fc.nat(), (bytes, position) => {
        const digest = contentDigest(bytes)
        const flipped = Uint8Array.from(bytes)
        flipped[(position >> 3) % bytes.length]! ^= 1 << (position & 7)
        checkContentDigest(digest, bytes)
        refusalOf(() => checkContentDigest(digest, flipped))
      }),
    )
  })

  it('throws nothing but a refusal, whatever the field holds', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'binary' }),
        value => void refusalOrValue(() => checkContentDigest(value, body)),
      ),
    )
  })
})

interface DigestCases {
  cases: { content: string; 'sha-256'?: string; 'sha-512'?: string }[]
  deprecated_reject: string[]
}

describeVectors<DigestCases>('rfc9530.json', 'RFC 9530 digests', data => {
  it.each(data.cases)('match $content', example => {
    const body = Buffer.from(example.content)
    if (example['sha-256']) expect(contentDigest(body)).toBe(`sha-256=:${example['sha-256']}:`)
    for (const algorithm of ['sha-256', 'sha-512'] as const) {
      const digest = example[algorithm]
      if (digest) expect(() => checkContentDigest(`${algorithm}=:${digest}:`, body)).not.toThrow()
    }
  })

  it.each(data.deprecated_reject)('of %s alone prove nothing', algorithm => {
    expect(refusalOf(() => checkContentDigest(`${algorithm}=:AAAA:`, new Uint8Array())).code).toBe(
      'invalid_request',
    )
  })
})
