/**
 * contract, "Authorized call", for a plain HTTP API: what is decided about a call, from the challenge to a
 * grant that is spent.
 */
import { describe, expect, test } from 'vitest'
import type { CallBody } from '../../src/enforcement/call.ts'
import { s256Json } from '../../src/wire/encoding.ts'
import { PUBLIC_URL, verdict, type CallParts } from './calls.ts'
import { coreStand } from './core.ts'

const ABSENT: CallBody = { state: 'absent' }
const { agent, authority, decide, singleUse, standing } = coreStand({
  api: [
    { method: 'GET', path: '/accounts/{account}', tool: 'portfolio_read' },
    { method: 'POST', path: '/orders', tool: 'place_trade' },
    { method: 'DELETE', path: '/orders/{order}', tool: 'place_trade' },
  ],
})

describe('The decision about a call of a plain API', () => {
  const resource = `${PUBLIC_URL}/api/alice`
  const once = (params: object) => {
    const operation = { tool: 'place_trade', params_s256: s256Json(params as never) }
    return singleUse({ operation })
  }
  const at = (parts: CallParts) =>
    decide({ method: 'GET', path: '/api/alice/accounts/7', body: ABSENT, ...parts })

  test('without a grant: a challenge for the resource at the base', async () => {
    const outcome = await at({})
    expect(verdict(outcome)).toBe('401 insufficient_authorization')
    expect(outcome).toHaveProperty(
      'body.resource_metadata',
      `${PUBLIC_URL}/.well-known/oauth-protected-resource/api/alice`,
    )
    expect(outcome).toHaveProperty('body.authorization_remediation.authorization_details.0.locations', [
      resource,
    ])
  })

  test('with one: let through, and only for the path that was signed', async () => {
    expect(await at({ token: standing(), signer: agent })).toMatchObject({
      kind: 'allow',
      headers: { 'x-uma-tool': 'portfolio_read' },
    })
    const moved = { token: standing(), signer: agent, signedPath: '/api/alice/accounts/8' }
    expect(verdict(await at(moved))).toBe('401 invalid_token')
  })

  const order = { method: 'POST', path: '/api/alice/orders', query: 'dry=0' }
  const body = '{"qty":2,"symbol":"VTI"}'
  const params = { path: {}, query: { dry: ['0'] }, body: { symbol: 'VTI', qty: 2 } }

  test('a single-use grant is for exactly these parameters, and spent by them alone', async () => {
    const token = once(params)
    const call = { ...order, body, token, signer: agent }
    for (const other of [
      { ...call, body: '{"qty":3,"symbol":"VTI"}' },
      { ...call, query: 'dry=1' },
      { ...call, query: 'dry=0&dry=0' },
      { ...call, method: 'DELETE', path: '/api/alice/orders/7', body: ABSENT },
      { ...call, headers: { 'content-type': ['text/plain'] } },
    ]) {
      expect(verdict(await at(other))).toBe('403 operation_mismatch')
    }
    expect(authority.count('/consume')).toBe(0)
    expect(verdict(await at(call))).toBe('allow')
    expect(verdict(await at(call))).toBe('401 insufficient_authorization')
  })

  test.each<[string, object, CallParts]>([
    ['a plus in the query', { ...params, query: { q: ['a b'] } }, { query: 'q=a+b' }],
    ['a semicolon in the query', { ...params, query: { q: ['a;b'] } }, { query: 'q=a;b' }],
    ['a name without a value', { ...params, query: { q: [''] } }, { query: 'q' }],
    [
      'a body like the digest of another',
      { ...params, body: { content_type: 'a/b', s256: 's256:x' } },
      { body: '{"content_type":"a/b","s256":"s256:x"}' },
    ],
    ['a number no double carries', { ...params, body: 9007199254740992 }, { body: '9007199254740993' }],
  ])(
    'of which two readers could make two, with %s, it is 400 and the grant unspent',
    async (_what, approved, call) => {
      const outcome = await at({ ...order, body, token: once(approved), signer: agent, ...call })
      expect(verdict(outcome)).toBe('400 invalid_request')
      expect(authority.count('/consume')).toBe(0)
    },
  )
})
