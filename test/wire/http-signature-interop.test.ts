import * as fc from 'fast-check'
import { createSignatureSync, verifySignature, type RequestDescriptor } from 'http-message-sig'
import { describe, expect, it } from 'vitest'
import { contentDigest } from '../../src/wire/encoding.ts'
import { signEd25519, verifyEd25519 } from '../../src/wire/signatures/keys.ts'
import {
  agentKey,
  CALL_COMPONENTS,
  callMessage,
  signed,
  SIGNED_AT,
  verifyCall,
  withFields,
  type TestMessage,
} from '../support/signed-messages.ts'

/** The message as the other implementation takes it. */
function described(message: TestMessage): RequestDescriptor {
  const query = message.query === undefined ? '' : `?${message.query}`
  return {
    kind: 'request',
    method: message.method,
    targetUri: `${message.scheme}://${message.authority}${message.path}${query}`,
    requestTarget: `${message.path}${query}`,
    fields: [...message.headers].flatMap(([name, lines]) => lines.map(value => ({ name, value }))),
  }
}

const signer = { algorithm: 'ed25519', sign: (data: Uint8Array) => signEd25519(data, agentKey) }
const verifier = {
  algorithm: 'ed25519',
  verify: (data: Uint8Array, signature: Uint8Array) => verifyEd25519(data, signature, agentKey),
}

const requests = fc
  .record({
    method: fc.constantFrom('GET', 'POST', 'DELETE'),
    path: fc.constantFrom('/', '/mcp/alice', '/a/b%2Fc', '/a//b', '/%7Eme'),
    query: fc.constantFrom(undefined, 'a=1', 'a=1&b=%20', 'x'),
    authority: fc.constantFrom('tools.example.com', 'localhost:8443'),
    body: fc.constantFrom(undefined, Buffer.from('{"a":1}'), Buffer.from('é')),
    accept: fc.constantFrom<string[][]>(['application/json'], ['application/json', ' text/event-stream ']),
  })
  .map(({ accept, ...rest }) => {
    const message = callMessage(rest)
    message.headers.set('accept', accept)
    const components = [...CALL_COMPONENTS, '@query', '@target-uri', '@scheme', 'accept']
    if (rest.body) {
      message.headers.set('content-digest', [contentDigest(rest.body)])
      components.push('content-digest')
    }
    return { message, components }
  })

describe('another implementation of RFC 9421 (http-message-sig)', () => {
  it('verifies what we sign', async () => {
    await fc.assert(
      fc.asyncProperty(requests, async ({ message, components }) => {
        const verified = await verifySignature(
          described(signed(message, { components, nonce: 'n', tag: 't' })),
          {
            policy: {
              algorithms: ['ed25519'],
              requiredComponents: components,
              requiredParameters: ['created', 'keyid'],
              maxAge: 60,
              now: SIGNED_AT,
            },
            resolveVerifier: () => verifier,
          },
        )
        expect(verified.parameters.keyid).toBe(agentKey.kid)
      }),
    )
  })

  it('signs what we verify', () => {
    fc.assert(
      fc.property(requests, ({ message, components }) => {
        const parameters = {
          created: SIGNED_AT,
          expires: SIGNED_AT + 30,
          keyid: agentKey.kid,
          alg: 'ed25519',
          tag: 't',
        }
        const fields = createSignatureSync(described(message), { label: 'x', components, parameters, signer })
        const verified = verifyCall(withFields(message, fields.signatureInput, fields.signature), {
          mustCoverDigest: true,
        })
        expect(verified.covered).toEqual(components)
      }),
    )
  })

  it('makes the very signature we make', () => {
    fc.assert(
      fc.property(requests, ({ message, components }) => {
        const parameters = { created: SIGNED_AT, keyid: agentKey.kid }
        const theirs = createSignatureSync(described(message), {
          label: 'sig1',
          components,
          parameters,
          signer,
        })
        const ours = signed(message, { components }).headers
        expect([theirs.signatureInput, theirs.signature]).toEqual([
          ours.get('signature-input')![0],
          ours.get('signature')![0],
        ])
      }),
    )
  })
})
