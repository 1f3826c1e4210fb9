import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  createAuthorityClient,
  type AuthorityClient,
} from '../../src/enforcement/authorities/authority-client.ts'
import { deadlineAt, type Deadline } from '../../src/enforcement/deadline.ts'
import type { PatCredential } from '../../src/enforcement/authorities/pat.ts'
import { createJwksCache } from '../../src/http/outbound/jwks-cache.ts'
import { createOutbound, type Outbound } from '../../src/http/outbound/outbound.ts'
import { contentDigest } from '../../src/wire/encoding.ts'
import { verifyRequest } from '../../src/wire/signatures/http-signature.ts'
import { startScriptedAuthority, type Script } from '../support/scripted-authority.ts'
import { startedOnce } from '../support/started.ts'
import { until } from '../support/until.ts'
import { newKey } from './calls.ts'
import { asClientId, asOwner } from '../../src/wire/identifiers.ts'

let pools: { challenges: Outbound; grants: Outbound }
let jumped = 0
const clock = () => Date.now() + jumped
const wanted = { resource_id: 'alice/portfolio', resource_scopes: ['read'] }

const authority = startedOnce(startScriptedAuthority)
beforeEach(() => {
  authority.reset()
  jumped = 0
  pools = { challenges: createOutbound({ devLoopback: true }), grants: createOutbound({ devLoopback: true }) }
})
afterEach(() => Promise.all([pools.challenges.close(), pools.grants.close()]))

function client(credential: PatCredential = { kind: 'secret', secret: 'shh & more' }): AuthorityClient {
  const resource = 'https://tools.example.com/mcp/alice'
  return createAuthorityClient({
    authority: authority.issuer,
    owner: asOwner('alice'),
    resource,
    client_id: asClientId('demo-tools'),
    credential,
    pools,
    keys: createJwksCache({ outbound: pools.challenges, clock }),
    clock,
  })
}

const soon = (ms = 10_000): Deadline => deadlineAt(clock() + ms, clock)
const pat = (value: string, expires_in = 3600): Script => ({
  status: 200,
  body: { access_token: value, token_type: 'Bearer', expires_in },
})
const refused = async (promise: Promise<unknown>) =>
  promise.then(
    () => 'answered',
    (error: { code?: string; detail?: string }) => `${error.code}: ${error.detail}`,
  )
const used = () =>
  authority.received.filter(({ path }) => path === '/perm').map(({ authorization }) => authorization)

describe('A PAT is fetched by client_credentials for the one owner', () => {
  test('with the client secret in the form, and then used as a Bearer', async () => {
    authority.script('/token', pat('P1'))
    await client().requestTicket(wanted, soon())
    const form = new URLSearchParams(authority.received.find(({ path }) => path === '/token')!.body)
    expect(Object.fromEntries(form)).toEqual({
      grant_type: 'client_credentials',
      scope: 'uma_protection',
      owner: 'alice',
      client_id: 'demo-tools',
      client_secret: 'shh & more',
    })
    expect(used()).toEqual(['Bearer P1'])
  })

  test('or with an RFC 9421 signature that covers the body, and no secret', async () => {
    const key = newKey()
    await client({ kind: 'signature', key }).requestTicket(wanted, soon())
    const { headers, body } = authority.received.find(({ path }) => path === '/token')!
    expect(body).not.toContain('client_secret')
    expect(headers['content-digest']).toBe(contentDigest(body))
    const lines = new Map(Object.entries(headers).map(([name, value]) => [name, [String(value)]]))
    const verified = verifyRequest(
      {
        method: 'POST',
        scheme: 'http',
        authority: new URL(authority.issuer).host,
        path: '/token',
        headers: lines,
        body: Buffer.from(body),
      },
      {
        // Sent empty and covered: the verifier has no reading of its own for an absent one.
        requiredComponents: ['@method', '@authority', '@path', 'authorization'],
        now: Math.floor(clock() / 1000),
        keyidRequired: true,
        mustCoverDigest: true,
        findKey: keyid => (keyid === key.kid ? key : undefined),
      },
    )
    expect(verified.key.x).toBe(key.x)
  })

  test('once for all callers at once, and once for an hour', async () => {
    const one = client()
    await Promise.all(Array.from({ length: 10 }, () => one.requestTicket(wanted, soon())))
    await one.requestTicket(wanted, soon())
    expect(authority.count('/token')).toBe(1)
  })

  test('renewed 60 seconds early, without any caller waiting for it', async () => {
    authority.script('/token', (_received, nth) => (nth === 1 ? pat('P1') : nth === 2 ? 'hang' : pat('P3')))
    const one = client()
    await one.requestTicket(wanted, soon())
    jumped = 3_541_000
    await one.requestTicket(wanted, soon())
    await until(() => authority.count('/token') === 2)
    expect(used()).toEqual(['Bearer P1', 'Bearer P1'])
  })

  test('an expired one is never used', async () => {
    authority.script('/token', (_received, nth) => pat(`P${nth}`))
    const one = client()
    await one.requestTicket(wanted, soon())
    jumped = 3_601_000
    await one.requestTicket(wanted, soon())
    expect(used()).toEqual(['Bearer P1', 'Bearer P2'])
  })

  test('one of less than two minutes is renewed half-way', async () => {
    authority.script('/token', pat('P1', 10))
    const one = client()
    await one.requestTicket(wanted, soon())
    jumped = 4_000
    await one.requestTicket(wanted, soon())
    expect(authority.count('/token')).toBe(1)
    jumped = 6_000
    await one.requestTicket(wanted, soon())
    await until(() => authority.count('/token') === 2)
  })
})

describe('A refused PAT is not asked for again at once', () => {
  test.each([
    ['pending', 403, 'authorization_pending'],
    ['withdrawn', 403, 'access_denied'],
    ['unknown', 401, 'invalid_client'],
  ])('%s: 503 with the reason, backing off twice as long each time', async (_what, status, error) => {
    authority.script('/token', { status, body: { error } })
    const one = client()
    for (let i = 0; i < 5; i++) expect(await refused(one.requestTicket(wanted, soon()))).toContain(error)
    expect(authority.count('/token')).toBe(1)
    jumped += 1_100
    await refused(one.introspect('t', soon()))
    expect(authority.count('/token')).toBe(2)
    jumped += 1_100
    await refused(one.introspect('t', soon()))
    expect(authority.count('/token')).toBe(2)
    jumped += 1_000
    await refused(one.introspect('t', soon()))
    expect(authority.count('/token')).toBe(3)
  })

  test('once the owner approves, calls go on', async () => {
    authority.script('/token', { status: 403, body: { error: 'authorization_pending' } })
    const one = client()
    await refused(one.requestTicket(wanted, soon()))
    authority.script('/token', undefined)
    jumped = 61_000
    expect((await one.requestTicket(wanted, soon())).ticket).toMatch(/^tag~tkt_/)
  })
})

test('an authority that refuses the PATs it gives is not asked for one at every call', async () => {
  authority.script('/introspect', { status: 401, body: { error: 'invalid_token' } })
  const one = client()
  for (let i = 0; i < 20; i++) {
    expect(await refused(one.introspect('t', soon()))).toMatch(/^temporarily_unavailable/)
  }
  expect(authority.count('/token')).toBe(3) // the first, and two in its place, as around a change of keys
  jumped += 1_100
  authority.script('/introspect', undefined)
  expect(await one.introspect('t', soon())).toEqual({ active: false, reason: 'unknown_token' })
  expect(authority.count('/token')).toBe(4)
})

describe('Waits are bounded by the deadline of the caller', () => {
  test('a slow token endpoint holds a caller no longer than his own deadline, and serves the next', async () => {
    authority.script('/token', { ...(pat('P1') as object), delayMs: 150 } as Script)
    const one = client()
    expect(await refused(one.requestTicket(wanted, soon(50)))).toContain('no time left')
    expect(await one.requestTicket(wanted, soon())).toBeTruthy()
    expect(authority.count('/token')).toBe(1)
  })

  test.each([
    ['a ticket that would break out of its header', 201, { ticket: 'a"b' }],
    ['no ticket', 201, {}],
    ['another status', 200, { ticket: 't' }],
    ['a resource it does not know', 400, { error: 'invalid_resource_id' }],
  ])('/perm with %s gives no ticket', async (_what, status, body) => {
    authority.script('/perm', { status, body })
    expect(await refused(client().requestTicket(wanted, soon()))).toMatch(/^temporarily_unavailable/)
  })
})

test('a flood of challenges leaves introspection its connections', async () => {
  authority.script('/perm', 'hang')
  const one = client()
  const flood = Array.from({ length: 200 }, () => refused(one.requestTicket(wanted, soon(6_000))))
  await until(() => authority.count('/perm') > 5)
  // Sooner than the flood ends.
  expect(await one.introspect('t', soon(5_000))).toEqual({ active: false, reason: 'unknown_token' })
  await Promise.all(flood)
})
