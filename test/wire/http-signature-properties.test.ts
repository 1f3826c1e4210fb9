import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { contentDigest } from '../../src/wire/encoding.ts'
import { refusalOf, refusalOrValue } from '../support/refusals.ts'
import {
  CALL_COMPONENTS,
  callMessage,
  signed,
  SIGNED_AT,
  verifyCall,
  withFields,
  type TestMessage,
} from '../support/signed-messages.ts'

const visible = (characters: string) =>
  fc.string({ unit: fc.constantFrom(...characters.split('')), maxLength: 20 })
const name = fc
  .stringMatching(/^[a-z][a-z0-9-]{0,12}$/)
  .filter(text => !/^(signature|signature-input|authorization|content-digest)$/.test(text))
const line = fc.string({ unit: fc.integer({ min: 0x20, max: 0x7e }).map(code => String.fromCharCode(code)) })

/** Any request we could be sent, and the components a careful signer covers of it. */
const anyRequest = fc
  .record({
    method: fc.constantFrom('GET', 'POST', 'PUT', 'PATCH', 'get', 'X-Y'),
    path: visible('/abc.%2Ff~').map(text => `/${text}`),
    query: fc.option(visible('a=b&%20?/'), { nil: undefined }),
    authority: fc.constantFrom('tools.example.com', 'Tools.Example.COM:443', 'localhost:8443', '[::1]:1'),
    fields: fc.dictionary(name, fc.array(line, { minLength: 1, maxLength: 3 }), { maxKeys: 4 }),
    body: fc.option(fc.uint8Array({ maxLength: 64 }), { nil: undefined }),
  })
  .map(({ fields, body, ...rest }) => {
    const message = callMessage({ ...rest, body })
    for (const [field, lines] of Object.entries(fields)) message.headers.set(field, lines)
    const components = [...CALL_COMPONENTS, '@query', ...Object.keys(fields)]
    if (body) {
      message.headers.set('content-digest', [contentDigest(body)])
      components.push('content-digest')
    }
    return { message, components }
  })

describe('request signatures', () => {
  it('verify whatever is signed, and nothing else of it is needed', () => {
    fc.assert(
      fc.property(anyRequest, fc.integer({ min: -60, max: 60 }), ({ message, components }, age) => {
        const verified = verifyCall(signed(message, { components }), {
          now: SIGNED_AT + age,
          mustCoverDigest: true,
        })
        expect(verified.covered).toEqual(components)
      }),
    )
  })

  it('do not verify once any one bit of what was covered has flipped', () => {
    const plain = anyRequest.map(({ message, components }) => ({
      message: { ...message, authority: 'tools.example.com' },
      components,
    }))
    fc.assert(
      fc.property(plain, fc.nat(), fc.nat(), ({ message, components }, which, bit) => {
        const original = signed(message, { components })
        const flipped = flip(original, which, bit)
        if (flipped && normal(flipped) !== normal(original))
          refusalOf(() => verifyCall(flipped, { mustCoverDigest: true }))
      }),
      { numRuns: 1000 },
    )
  })

  it('end in a refusal or a verified signature, whatever the headers hold', () => {
    const soup = fc.string({
      unit: fc.constantFrom(...'sig1=("@path");,:created7 x\\?-.%\t\n'.split(''), 'é', '\0'),
    })
    const text = fc.oneof(fc.string({ unit: 'binary' }), soup)
    fc.assert(
      fc.property(text, text, fc.array(text, { maxLength: 2 }), (input, signature, authorization) => {
        const message = withFields(callMessage(), input, signature)
        message.headers.set('authorization', authorization)
        expect('value' in refusalOrValue(() => verifyCall(message))).toBe(false)
      }),
      { numRuns: 2000 },
    )
  })

  it('end in a refusal or a verified signature, whatever part of the text is replaced', () => {
    const { headers } = signed(callMessage())
    const created = headers.get('signature-input')![0]!.indexOf('created=') + 'created='.length
    const plain = (text: string) => text.replaceAll(' ', '').replaceAll(/=0+(?=\d)/g, '=')
    const splice = fc.record({
      field: fc.constantFrom('signature', 'signature-input'),
      start: fc.nat(120),
      removed: fc.nat(4),
      inserted: fc.oneof(
        fc.constant(''),
        fc.string({ maxLength: 3 }),
        fc.constantFrom('"', ';', ',', '=', '(', ')', ':', ' ', ';a'),
      ),
    })
    fc.assert(
      fc.property(splice, ({ field, start, removed, inserted }) => {
        const text = headers.get(field)![0]!
        const changed = text.slice(0, start) + inserted + text.slice(start + removed)
        const message = callMessage()
        for (const [key, lines] of headers) message.headers.set(key, key === field ? [changed] : lines)
        const result = refusalOrValue(() => verifyCall(message))
        // What still verifies can differ only in blanks, and in zeros before a number (RFC 8941, 3.3.1).
        if ('value' in result) expect(plain(changed)).toBe(plain(text))
      }),
      {
        numRuns: 2000,
        examples: [[{ field: 'signature-input', start: created, removed: 0, inserted: '0' }]],
      },
    )
  })
})

/** The places a bit can flip in: the parts of the target, the lines of every field, the body. */
function flip(message: TestMessage, which: number, bit: number): TestMessage | undefined {
  const fields = [...message.headers].flatMap(([field, lines]) => lines.map((_, index) => ({ field, index })))
  const parts = ['method', 'authority', 'path', 'query'] as const
  const place = which % (parts.length + fields.length + 1)
  if (place < parts.length) {
    const text = message[parts[place]!]
    return text ? { ...message, [parts[place]!]: flipBit(text, bit) } : undefined
  }
  const entry = fields[place - parts.length]
  if (!entry) {
    if (!message.body || message.body.length === 0) return undefined
    return {
      ...message,
      body: Buffer.from(flipBit(Buffer.from(message.body).toString('latin1'), bit), 'latin1'),
    }
  }
  const lines = [...message.headers.get(entry.field)!]
  if (lines[entry.index] === '') return undefined
  lines[entry.index] = flipBit(lines[entry.index]!, bit)
  return { ...message, headers: new Map(message.headers).set(entry.field, lines) }
}

function flipBit(text: string, bit: number): string {
  const bytes = Buffer.from(text, 'latin1')
  bytes[(bit >> 3) % bytes.length]! ^= 1 << (bit & 7)
  return bytes.toString('latin1')
}

/** Blanks around a field line and the case of the authority mean nothing (RFC 9421 sections 2.1, 2.2.3). */
function normal(message: TestMessage): string {
  const headers = [...message.headers].map(([field, lines]) => [
    field,
    lines.map(text => text.replace(/^[ \t]+|[ \t]+$/g, '')),
  ])
  const body = message.body && Buffer.from(message.body).toString('hex')
  return JSON.stringify([
    message.method,
    message.authority.toLowerCase(),
    message.path,
    message.query,
    headers,
    body,
  ])
}
