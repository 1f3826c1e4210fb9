import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, test } from 'vitest'
import { s256Json } from '../../src/wire/encoding.ts'
import type { Denied } from '../../src/enforcement/call.ts'
import { startScriptedAuthority, type Scripted } from '../support/scripted-authority.ts'
import { sentTo, toldReports } from '../support/told-reports.ts'
import { callOf, nowSeconds, PUBLIC_URL, startCore, verdict, type CallParts } from './calls.ts'
import { coreStand } from './core.ts'

const { agent, authority, core, restart, singleUse } = coreStand()

/** A signed call of a trade with a single-use grant; `lie` changes what introspection tells of it. */
function trade(lie: Record<string, unknown> = {}, parts: CallParts = {}) {
  const operation = { tool: 'place_trade', params_s256: s256Json({}) }
  const token = singleUse({ operation }, lie)
  return callOf({ tool: 'place_trade', token, signer: agent, ...parts })
}

/** Long if the authority answers, and as short as possible if it never does. */
const deadlineFor = (scripted: Scripted) => Date.now() + (scripted === 'hang' ? 1_000 : 10_000)

const faults: [string, Scripted][] = [
  ['answers 500', { status: 500, body: { error: 'server_error' } }],
  ['answers 403', { status: 403, body: { error: 'access_denied' } }],
  ['answers 302', { status: 302, body: {} }],
  ['answers no JSON', { status: 200, body: 'active: true' }],
  ['answers JSON with a member twice', { status: 200, body: '{"active":false,"active":true}' }],
  ['answers another document', { status: 200, body: { ok: true } }],
  ['answers a list', { status: 200, body: [] }],
  ['answers nothing', { status: 200, body: '' }],
  ['answers too much', { status: 200, body: `{"x":"${'x'.repeat(70_000)}"}` }],
  ['cuts every connection', 'cut'],
  ['never answers', 'hang'],
]

describe('An outage of the authority is a denied 503, never an allow, and never already_consumed', () => {
  test.each(faults)('/introspect %s', async (_what, scripted) => {
    authority.script('/introspect', scripted)
    const call = trade({}, { deadlineAt: deadlineFor(scripted) })
    const outcome = await core.decide(call)
    expect(verdict(outcome)).toBe('503 temporarily_unavailable')
    expect(authority.count('/consume')).toBe(0)
    expect((outcome as Denied).body).toHaveProperty('grant_unspent', true)
  })

  test.each(faults)('/consume %s: it is sent once, whatever happens', async (_what, scripted) => {
    authority.script('/consume', scripted)
    // Long enough to come as far as this.
    const call = trade({}, { deadlineAt: Math.max(deadlineFor(scripted), Date.now() + 5_000) })
    const outcome = await core.decide(call)
    expect(verdict(outcome)).toBe('503 temporarily_unavailable')
    expect(authority.count('/consume')).toBe(1)
    // Nobody can say whether it is.
    expect((outcome as Denied).body).not.toHaveProperty('grant_unspent')
  })

  test.each(faults)('/perm %s', async (_what, scripted) => {
    authority.script('/perm', scripted)
    const outcome = await core.decide(callOf({ deadlineAt: deadlineFor(scripted) }))
    expect(verdict(outcome)).toBe('503 temporarily_unavailable')
    expect((outcome as Denied).body).not.toHaveProperty('grant_unspent')
  })

  test.each(faults)('/token %s', async (_what, scripted) => {
    authority.script('/token', scripted)
    const call = trade({}, { deadlineAt: deadlineFor(scripted) })
    expect(verdict(await core.decide(call))).toBe('503 temporarily_unavailable')
    expect(authority.count('/introspect')).toBe(0)
  })

  test('the authority is down', async () => {
    const gone = createServer()
    await new Promise<void>(resolve => gone.listen(0, '127.0.0.1', resolve))
    const { port } = gone.address() as AddressInfo
    await new Promise(resolve => gone.close(resolve))
    const other = startCore(`http://127.0.0.1:${port}`)
    expect(verdict(await other.decide(trade()))).toBe('503 temporarily_unavailable')
    expect(verdict(await other.decide(callOf()))).toBe('503 temporarily_unavailable')
    await other.close()
  })

  test('says when to come again, and tells a stranger no word of the operating system: that is for the log', async () => {
    const gone = await startScriptedAuthority()
    await gone.close()
    const other = startCore(gone.issuer)
    for (const call of [trade(), callOf()]) {
      const outcome = (await other.decide(call)) as Denied
      expect(outcome.headers).toContainEqual(['retry-after', '1'])
      expect(JSON.stringify(outcome)).toContain('it cannot be reached')
      expect(JSON.stringify(outcome)).not.toMatch(/ECONN|refused/i)
    }
    const details = other.lines.filter(({ msg }) => msg === 'decided').map(({ detail }) => String(detail))
    expect(details).toEqual([
      expect.stringContaining('ECONNREFUSED'),
      expect.stringContaining('ECONNREFUSED'),
    ])
    // The log says once that nobody answered, in its exact words.
    expect(details.map(detail => detail.split('cannot be reached').length - 1)).toEqual([1, 1])
    await other.close()
  })

  test.each([
    ['another issuer', { iss: 'https://as.evil.example' }],
    ['another audience', { aud: 'https://tools.example.com/mcp/bea' }],
    ['several audiences', { aud: ['https://tools.example.com/mcp/alice', 'x'] }],
    ['another owner', { owner: 'bea' }],
    ['no key', { cnf: undefined }],
    ['a key that is none', { cnf: { jwk: { kty: 'OKP', crv: 'Ed25519', x: 'AQ' } } }],
    [
      'a small-order key',
      { cnf: { jwk: { kty: 'OKP', crv: 'Ed25519', x: 'AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA' } } },
    ],
    ['no permissions', { permissions: undefined }],
    ['single_use as a text', { single_use: 'false' }],
    ['active as a text', { active: 'true' }],
    ['no word on whether it is live', { active: undefined }],
    ['a handle that would forge a header', { sub: 'a\r\nx-uma-owner: bea' }],
  ])('the answer tells of a grant with %s', async (_what, lie) => {
    expect(verdict(await core.decide(trade(lie)))).toBe('503 temporarily_unavailable')
    expect(authority.count('/consume')).toBe(0)
  })

  test.each([
    ['no owner', { owner: undefined }],
    ['an operation without single_use', { single_use: undefined }],
  ])('answer and RPT alike tell of a grant with %s', async (_what, claims) => {
    const operation = { tool: 'place_trade', params_s256: s256Json({}) }
    const token = singleUse({ operation, claims })
    const call = callOf({ tool: 'place_trade', token, signer: agent })
    expect(verdict(await core.decide(call))).toBe('503 temporarily_unavailable')
    expect(authority.count('/consume')).toBe(0)
  })

  test('the reason is told in error_description, without what the authority said in free text', async () => {
    authority.script('/token', {
      status: 403,
      body: { error: 'authorization_pending', error_description: 'hunter2' },
    })
    const outcome = await core.decide(trade())
    expect(JSON.stringify(outcome)).toContain('authorization_pending')
    expect(JSON.stringify(outcome)).not.toContain('hunter2')
  })
})

describe('What may be sent again', () => {
  const brokenFirst =
    (path: string): Scripted =>
    (_received, nth) =>
      nth === 1
        ? 'cut'
        : path === '/perm'
          ? { status: 201, body: { ticket: 't' } }
          : { status: 200, body: { active: false, reason: 'expired' } }

  test.each(['/introspect', '/perm'])('%s is sent once more after a broken connection', async path => {
    authority.script(path, brokenFirst(path))
    expect(verdict(await core.decide(trade({ permissions: [] })))).toBe('401 insufficient_authorization')
    expect(authority.count(path)).toBe(2)
  })

  test('a PAT that is no longer accepted is fetched anew, once', async () => {
    authority.script('/introspect', (_received, nth) =>
      nth === 1
        ? { status: 401, body: { error: 'invalid_token' } }
        : { status: 200, body: { active: false, reason: 'expired' } },
    )
    expect(verdict(await core.decide(trade()))).toBe('401 insufficient_authorization')
    expect([authority.count('/token'), authority.count('/introspect')]).toEqual([2, 2])
    authority.script('/introspect', { status: 401, body: {} })
    expect(verdict(await core.decide(trade()))).toBe('503 temporarily_unavailable')
    expect(authority.count('/introspect')).toBe(4)
  })

  test('a consume that met a PAT no longer accepted is not sent again', async () => {
    authority.script('/consume', { status: 401, body: { error: 'invalid_token' } })
    expect(verdict(await core.decide(trade()))).toBe('503 temporarily_unavailable')
    expect(authority.count('/consume')).toBe(1)
  })
})

describe("Every wait ends at the caller's deadline minus a margin", () => {
  test.each(['/introspect', '/consume', '/token'])('a slow %s', async path => {
    authority.script(path, 'hang')
    // The caller gives up then. Timers of one process end in their order, however busy the machine is.
    let isLate = false
    const caller = setTimeout(() => (isLate = true), 5_000)
    const call = trade({}, { deadlineAt: Date.now() + 5_000, marginMs: 4_500 })
    const outcome = await core.decide(call)
    expect(isLate).toBe(false)
    clearTimeout(caller)
    expect(verdict(outcome)).toBe('503 temporarily_unavailable')
  })

  test('and leaves its line in the decision log, with the step that it waited in', async () => {
    authority.script('/introspect', 'hang')
    await core.decide(trade({}, { deadlineAt: Date.now() + 5_000 }))
    expect(core.lines).toMatchObject([
      {
        decision: 'deny',
        reason: 'temporarily_unavailable',
        status: 503,
        step: 'introspect',
        owner: 'alice',
        tool: 'place_trade',
      },
    ])
  })

  test('with less time left than the margin nothing is asked', async () => {
    const call = trade({}, { deadlineAt: Date.now() + 20 })
    expect(verdict(await core.decide(call))).toBe('503 temporarily_unavailable')
    expect(authority.count('/introspect')).toBe(0)
  })

  test('time that runs out just before consume leaves the grant unspent', async () => {
    // Ten seconds pass while the authority answers: a clock that jumps simulates a process that was delayed.
    let jumped = 0
    await restart({ clock: () => Date.now() + jumped })
    const told = { iss: authority.issuer, aud: `${PUBLIC_URL}/mcp/alice`, owner: 'alice' }
    const call = trade()
    authority.script('/introspect', () => {
      jumped = 10_000
      return {
        status: 200,
        body: {
          active: true,
          ...told,
          sub: 'jkt:x',
          family: 'fam_x',
          permissions: [{ resource_id: 'alice/trades', resource_scopes: ['trade'], exp: nowSeconds() + 600 }],
          cnf: { jwk: agent.jwk },
          contract: 's256:x',
          single_use: true,
          operation: { tool: 'place_trade', params_s256: s256Json({}) },
        },
      }
    })
    const outcome = await core.decide(call)
    expect(verdict(outcome)).toBe('503 temporarily_unavailable')
    expect(JSON.stringify(outcome)).toContain('unspent')
    expect(authority.count('/consume')).toBe(0)
  })
})

describe('Access reports never stand in the way', () => {
  test('and tell of allowed calls alone: not of one whose caller was told 503, as it was judged too late', async () => {
    let jumped = 0
    const clock = () => Date.now() + jumped
    await restart({ clock })
    const call = trade({}, { deadlineAt: Date.now() + 10_000, clock })
    authority.script('/consume', () => {
      jumped = 20_000
      return { status: 200, body: { consumed: true } }
    })
    expect(verdict(await core.decide(call))).toBe('503 temporarily_unavailable')
    authority.script('/consume', undefined)
    jumped = 0
    expect(verdict(await core.decide(trade()))).toBe('allow')
    await core.close()
    expect(sentTo(authority.received)).toEqual([
      expect.objectContaining({ tool: 'place_trade', n: 1 }),
      { instance: expect.any(String), n: 1, ended: true },
    ])
  })

  test('with /audit/access broken the call is let through, and the report is tried again', async () => {
    authority.script('/audit/access', (_received, nth) =>
      nth === 1 ? { status: 500, body: {} } : { status: 200, body: { recorded: 1 } },
    )
    expect(verdict(await core.decide(trade()))).toBe('allow')
    await core.close()
    const ids = toldReports(authority.received).map(({ id, n }) => `${id} ${n}`)
    expect(ids.length).toBeGreaterThan(1)
    expect(new Set(ids).size).toBe(1) // the same id and number, so that it is recorded once
    expect(core.dropped).toEqual([])
  })

  test('what cannot be sent before the end is dropped and counted', async () => {
    authority.script('/audit/access', 'hang')
    expect(verdict(await core.decide(trade()))).toBe('allow')
    await core.close()
    expect(core.dropped).toEqual([1])
  })
})
