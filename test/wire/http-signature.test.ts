import { describe, expect, it } from 'vitest'
import { contentDigest } from '../../src/wire/encoding.ts'
import {
  concludeVerification,
  prepareVerification,
  verifyRequest,
  verifyRequestApart,
} from '../../src/wire/signatures/http-signature.ts'
import { verifyEd25519 } from '../../src/wire/signatures/keys.ts'
import { refusalOf } from '../support/refusals.ts'
import {
  agentKey,
  CALL_COMPONENTS,
  CALL_LINES,
  callMessage,
  signed,
  SIGNED_AT,
  signedOver,
  strangerKey,
  verifyCall,
  withFields,
  type TestMessage,
} from '../support/signed-messages.ts'

describe('a signed call', () => {
  it('verifies, and says what was covered, when, by which key', () => {
    const verified = verifyCall(signed(callMessage()))
    expect(verified).toMatchObject({ keyid: agentKey.kid, created: SIGNED_AT, covered: CALL_COMPONENTS })
    expect(verified.key.x).toBe(agentKey.x)
    expect(verified.signature).toHaveLength(64)
  })

  it('is signed with created and keyid, and alg left to the key', () => {
    const { headers } = signed(callMessage())
    expect(headers.get('signature-input')).toEqual([
      `sig1=("@method" "@authority" "@path" "authorization");created=${SIGNED_AT};keyid="${agentKey.kid}"`,
    ])
  })

  it('carries nonce, tag and expires in any order', () => {
    const message = signed(callMessage(), {
      nonce: 'n;created=1.0',
      tag: 't',
      expires: SIGNED_AT + 10,
      label: 'other',
    })
    expect(verifyCall(message).keyid).toBe(agentKey.kid)
  })

  it('verifies in two halves, so that another thread may do the arithmetic', () => {
    const message = signed(callMessage())
    const options = {
      requiredComponents: CALL_COMPONENTS,
      now: SIGNED_AT,
      keyidRequired: false,
      findKey: () => agentKey,
    }
    const prepared = prepareVerification(message, options)
    const valid = verifyEd25519(prepared.base, prepared.signature, prepared.key)
    expect(concludeVerification(message, prepared, valid)).toEqual(verifyRequest(message, options))
    refusalOf(() => concludeVerification(message, prepared, false))
  })

  it('verifies alike with the arithmetic in a thread of its own', async () => {
    const message = signed(callMessage())
    const options = {
      requiredComponents: CALL_COMPONENTS,
      now: SIGNED_AT,
      keyidRequired: false,
      findKey: () => agentKey,
    }
    await expect(verifyRequestApart(message, options)).resolves.toEqual(verifyRequest(message, options))
    const stolen = { ...options, findKey: () => strangerKey }
    await expect(verifyRequestApart(message, stolen)).rejects.toMatchObject({ code: 'invalid_token' })
    await expect(verifyRequestApart({ ...message, path: '/other' }, options)).rejects.toMatchObject({
      code: 'invalid_token',
    })
    await expect(verifyRequestApart(message, { ...options, now: SIGNED_AT + 61 })).rejects.toMatchObject({
      code: 'invalid_token',
    })
  })

  it('may cover more, as long as it can be rebuilt', () => {
    const message = callMessage({ query: 'a=1&b=2' })
    message.headers.set('mcp-method', ['tools/call'])
    message.headers.set('x-dictionary', ['a=1, b=2'])
    const components = [
      ...CALL_COMPONENTS,
      '@query',
      '@target-uri',
      '@scheme',
      '@request-target',
      'mcp-method',
      'x-dictionary',
    ]
    expect(verifyCall(signed(message, { components })).covered).toEqual(components)
  })
})

describe('the time of a signature', () => {
  it.each([-60, -59, 0, 59, 60])('lets it count %i s after it was made', age => {
    expect(() => verifyCall(signed(callMessage()), { now: SIGNED_AT + age })).not.toThrow()
  })

  it.each([-61, 61, 3600])('refuses it %i s after it was made', age => {
    expect(refusalOf(() => verifyCall(signed(callMessage()), { now: SIGNED_AT + age })).detail).toContain(
      '60 s',
    )
  })

  it('has the window that is asked for', () => {
    expect(() => verifyCall(signed(callMessage()), { now: SIGNED_AT + 5, windowSeconds: 5 })).not.toThrow()
    refusalOf(() => verifyCall(signed(callMessage()), { now: SIGNED_AT + 6, windowSeconds: 5 }))
  })

  it('ends after the second of expires, with no allowance', () => {
    const message = signed(callMessage(), { expires: SIGNED_AT + 10 })
    verifyCall(message, { now: SIGNED_AT + 10 })
    refusalOf(() => verifyCall(message, { now: SIGNED_AT + 11 }))
  })

  it.each([0, -1])('is refused where expires is created + %i', offset => {
    refusalOf(() => verifyCall(signed(callMessage(), { expires: SIGNED_AT + offset })))
  })
})

describe('the query', () => {
  const withQuery = [...CALL_COMPONENTS, '@query']
  it.each(['', 'a=1'])('?%s must be covered', query => {
    expect(refusalOf(() => verifyCall(signed(callMessage({ query })))).detail).toContain('@query')
    verifyCall(signed(callMessage({ query }), { components: withQuery }))
  })

  it('need not be covered when there is none, and may', () => {
    expect(() => verifyCall(signed(callMessage(), { components: withQuery }))).not.toThrow()
  })

  it('cannot be changed, added or taken away', () => {
    const message = signed(callMessage({ query: 'a=1' }), { components: withQuery })
    refusalOf(() => verifyCall({ ...message, query: 'a=2' }))
    refusalOf(() => verifyCall({ ...message, query: undefined }))
    refusalOf(() => verifyCall({ ...signed(callMessage()), query: 'a=1' }))
  })
})

describe('the body', () => {
  const body = Buffer.from('{"jsonrpc":"2.0"}')
  const components = [...CALL_COMPONENTS, 'content-digest']

  function withDigest(value = contentDigest(body)): TestMessage {
    const message = callMessage({ body })
    message.headers.set('content-digest', [value])
    return message
  }

  it('is checked against a covered digest, asked for or not', () => {
    const message = signed(withDigest(), { components })
    verifyCall(message)
    verifyCall(message, { mustCoverDigest: true })
    const other = Buffer.from('{"jsonrpc":"2.1"}')
    expect(refusalOf(() => verifyCall({ ...message, body: other }))).toMatchObject({
      code: 'invalid_token',
      status: 401,
    })
    refusalOf(() => verifyCall({ ...message, body: undefined }))
  })

  it('is checked against a digest of which only one member is covered', () => {
    const item = '"content-digest";key="sha-256"'
    const line = `${item}: ${contentDigest(body).slice('sha-256='.length)}`
    const member = `(${CALL_COMPONENTS.map(name => `"${name}"`).join(' ')} ${item});created=${SIGNED_AT}`
    const message = signedOver(withDigest(), member, [...CALL_LINES, line])
    verifyCall(message)
    refusalOf(() => verifyCall({ ...message, body: Buffer.from('{}') }))
    refusalOf(() => verifyCall(message, { mustCoverDigest: true }))
  })

  it('need not be covered unless asked, but then must be', () => {
    verifyCall(signed(withDigest()))
    expect(refusalOf(() => verifyCall(signed(withDigest()), { mustCoverDigest: true })).detail).toContain(
      'content-digest',
    )
    refusalOf(() => verifyCall(signed(callMessage({ body })), { mustCoverDigest: true }))
  })

  it('needs no digest if it is empty', () => {
    expect(() => verifyCall(signed(callMessage()), { mustCoverDigest: true })).not.toThrow()
    expect(() =>
      verifyCall(signed(callMessage({ body: Buffer.alloc(0) })), { mustCoverDigest: true }),
    ).not.toThrow()
  })

  it.each(['md5=:AAAA:', 'sha-256', '', 'sha-256=:AAAA:'])(
    'is not vouched for by the covered digest %j',
    value => {
      refusalOf(() => verifyCall(signed(withDigest(value), { components })))
    },
  )
})

describe('the key', () => {
  const registered = {
    keyidRequired: true,
    findKey: (keyid: string | undefined) => (keyid === 'device-1' ? agentKey : undefined),
  }

  it('of an agent’s call is the bound one, whatever the keyid, and without one', () => {
    verifyCall(signed(callMessage(), { keyid: 'anything' }))
    expect(verifyCall(signed(callMessage(), { keyid: false })).keyid).toBeUndefined()
    refusalOf(() => verifyCall(signed(callMessage(), { keyid: agentKey.thumbprint }, strangerKey)))
  })

  it('of any other request is the one its keyid names', () => {
    expect(verifyCall(signed(callMessage(), { keyid: 'device-1' }), registered).keyid).toBe('device-1')
    refusalOf(() => verifyCall(signed(callMessage(), { keyid: 'device-2' }), registered))
    refusalOf(() => verifyCall(signed(callMessage(), { keyid: false }), registered))
  })

  it('may be missing altogether', () => {
    refusalOf(() => verifyCall(signed(callMessage()), { findKey: () => undefined }))
  })
})

describe('several signatures', () => {
  /** The message with the signatures of several signed copies. */
  function together(...messages: TestMessage[]): TestMessage {
    const join = (name: string) => messages.map(({ headers }) => headers.get(name)![0]!).join(', ')
    return withFields(messages[0]!, join('signature-input'), join('signature'))
  }
  const ours = signed(callMessage(), { label: 'ours' })
  const theirs = signed(callMessage(), { label: 'theirs' }, strangerKey)
  const unnamed = signed(callMessage(), { label: 'unnamed', keyid: false })

  it('are told apart by the keyid that names the bound key, in any order', () => {
    expect(verifyCall(together(ours, theirs)).key.x).toBe(agentKey.x)
    expect(verifyCall(together(theirs, ours)).key.x).toBe(agentKey.x)
    expect(verifyCall(together(theirs, unnamed, ours)).keyid).toBe(agentKey.kid)
  })

  it('may come on lines of their own', () => {
    const message = together(ours, theirs)
    for (const name of ['signature', 'signature-input'])
      message.headers.set(
        name,
        message.headers.get(name)!.flatMap(line => line.split(', ')),
      )
    expect(() => verifyCall(message)).not.toThrow()
  })

  it('may be of other algorithms, as long as ours is there', () => {
    const input = `${ours.headers.get('signature-input')![0]}, cdn=("@authority");created=1.5;alg="rsa-pss-sha512";keyid="cdn"`
    const message = withFields(
      ours,
      input,
      `${ours.headers.get('signature')![0]}, cdn=:${Buffer.alloc(256).toString('base64')}:`,
    )
    expect(() => verifyCall(message)).not.toThrow()
  })

  it('are refused if none names the bound key', () => {
    refusalOf(() => verifyCall(together(theirs, unnamed)))
  })

  it('are refused if the one that names the bound key is not by it, though another is', () => {
    const liar = signed(callMessage(), { label: 'liar', keyid: agentKey.thumbprint }, strangerKey)
    refusalOf(() => verifyCall(together(liar, unnamed)))
    refusalOf(() => verifyCall(together(liar, ours)))
  })

  it('by the bound key: the one that covers what is asked for', () => {
    const bot = signed(callMessage(), { label: 'bot', components: ['@authority'], tag: 'web-bot-auth' })
    expect(verifyCall(together(bot, ours)).covered).toEqual(CALL_COMPONENTS)
    refusalOf(() =>
      verifyCall(together(bot, signed(callMessage(), { label: 'bot2', components: ['@authority'] }))),
    )
    refusalOf(() => verifyCall(together(ours, signed(callMessage(), { label: 'twin', nonce: 'x' }))))
  })

  it('are refused beyond four', () => {
    const others = [1, 2, 3, 4].map(n => signed(callMessage(), { label: `s${n}` }, strangerKey))
    verifyCall(together(ours, ...others.slice(0, 3)))
    refusalOf(() => verifyCall(together(ours, ...others)))
  })

  it('are refused under one label', () => {
    refusalOf(() => verifyCall(together(ours, ours)))
    refusalOf(() =>
      verifyCall(
        withFields(
          ours,
          ours.headers.get('signature-input')![0]!,
          together(ours, ours).headers.get('signature')![0]!,
        ),
      ),
    )
  })
})

describe('owner, resource-server and AS-to-RS requests', () => {
  it('may cover an absent authorization, which counts as empty', () => {
    const message = callMessage()
    message.headers.delete('authorization')
    const request = signed(message, { absentAuthorizationIsEmpty: true })
    verifyCall(request, { absentAuthorizationIsEmpty: true })
    refusalOf(() => verifyCall(request))
    request.headers.set('authorization', ['Bearer x'])
    refusalOf(() => verifyCall(request, { absentAuthorizationIsEmpty: true }))
  })
})
