/**
 * contract, "Authorized call": who is challenged, who is let through, and what the authority's words about a
 * grant come to.
 */
import { describe, expect, test } from 'vitest'
import type { Allowed, Denied } from '../../src/enforcement/call.ts'
import { parseChallenge } from '../../src/wire/negotiation/challenge.ts'
import { s256Json } from '../../src/wire/encoding.ts'
import { toldReports } from '../support/told-reports.ts'
import { until } from '../support/until.ts'
import { PUBLIC_URL, verdict, type CallParts } from './calls.ts'
import { coreStand, TRADE_PARAMS } from './core.ts'

const { agent, authority, core, decide, restart, singleUse, standing } = coreStand()

const trade = (token: string, parts: CallParts = {}): CallParts => ({
  tool: 'place_trade',
  args: TRADE_PARAMS,
  token,
  signer: agent,
  ...parts,
})

describe('A call without a sufficient grant is refused with a challenge', () => {
  test('the challenge names the realm, the authority, a ticket, the metadata URL, the scopes and what to ask for', async () => {
    const outcome = (await decide({})) as Denied
    expect(verdict(outcome)).toBe('401 insufficient_authorization')
    const challenge = parseChallenge(
      outcome.headers.filter(([name]) => name === 'www-authenticate').map(([, value]) => value),
    )
    expect(challenge).toMatchObject({
      realm: 'tools',
      as_uri: authority.issuer,
      resource_metadata: `${PUBLIC_URL}/.well-known/oauth-protected-resource/mcp/alice`,
      scope: 'read',
      authorization_remediation: {
        authorization_server: authority.issuer,
        ticket: challenge.ticket,
        authorization_details: [
          { locations: [`${PUBLIC_URL}/mcp/alice`], identifier: 'alice/portfolio_read', datatypes: ['read'] },
        ],
      },
    })
    expect(authority.received.find(({ path }) => path === '/perm')?.body).toBe(
      '{"resource_id":"alice/portfolio","resource_scopes":["read"]}',
    )
  })

  test.each([
    ['no credential', {}],
    ['another scheme', { authorization: 'Bearer abc' }],
    ['a scheme that only begins alike', { authorization: 'PoPular abc' }],
    ['the scheme without a token', { authorization: 'PoP' }],
    ['a token that the authority does not know', { token: 'never.issued.here', signer: agent }],
  ])('%s counts as no grant', async (_what, parts: CallParts) => {
    expect(verdict(await decide(parts))).toBe('401 insufficient_authorization')
  })

  test.each(['a b', 'a,b', 'a"b', 'é', 'x'.repeat(9000)])(
    'a credential that no authority issued is 400: %.20s',
    async token => {
      expect(verdict(await decide({ token }))).toBe('400 invalid_request')
      expect(authority.received).toEqual([])
    },
  )

  test('challenges are bounded per source, with Retry-After; other sources are not touched', async () => {
    await restart({ perMinute: 2 })
    await decide({})
    await decide({ token: 'invented' })
    const third = (await decide({})) as Denied
    expect(verdict(third)).toBe('429 temporarily_unavailable')
    expect(Number(new Map(third.headers).get('retry-after'))).toBeGreaterThan(0)
    expect(verdict(await decide({ token: 'invented-too' }))).toBe('429 temporarily_unavailable')
    expect(verdict(await decide({ peer: '203.0.113.8' }))).toBe('401 insufficient_authorization')
  })

  test('a call with a token that was seen active is never limited, also when it must be challenged', async () => {
    await restart({ perMinute: 1 })
    const live = standing()
    expect(verdict(await decide({ token: live, signer: agent }))).toBe('allow')
    await decide({})
    expect(verdict(await decide({ token: live, signer: agent }))).toBe('allow')
    expect(verdict(await decide(trade(live)))).toBe('401 insufficient_authorization')
    authority.end(live, 'expired')
    expect(verdict(await decide({ token: live, signer: agent }))).toBe('401 insufficient_authorization')
    // Once it is known to have ended it costs its source what any other token does.
    expect(verdict(await decide({ token: live, signer: agent }))).toBe('429 temporarily_unavailable')
  })
})

describe('An authorized call is let through', () => {
  test('with who called for whom, the credential taken off, and the decision for access logs, never the token', async () => {
    const token = standing()
    const outcome = (await decide({ token, signer: agent })) as Allowed
    expect(outcome).toEqual({
      kind: 'allow',
      headers: {
        'x-uma-owner': 'alice',
        'x-uma-agent': `jkt:${agent.thumbprint}`,
        'x-uma-family': 'fam_test',
        'x-uma-contract': 's256:T6xGGcoR3hDoRSt3TxuyHPcUh8qQTJBgCSnp0toH0B8',
        'x-uma-tool': 'portfolio_read',
      },
      remove: ['authorization', 'signature', 'signature-input'],
      metadata: {
        decision: 'allow',
        reason: 'granted',
        family: 'fam_test',
        handle: `jkt:${agent.thumbprint}`,
      },
      waitedMs: expect.any(Number) as number,
    })
    expect(JSON.stringify([outcome, core.lines])).not.toContain(token.split('.')[2])
  })

  test('the scheme is compared without regard to case, and a query is covered', async () => {
    const token = standing()
    expect(verdict(await decide({ authorization: `pop ${token}`, signer: agent, query: 'a=b' }))).toBe(
      'allow',
    )
  })

  test('a standing grant is never consumed and serves again', async () => {
    const token = standing()
    for (const _ of [1, 2, 3]) expect(verdict(await decide({ token, signer: agent }))).toBe('allow')
    expect([authority.count('/introspect'), authority.count('/consume')]).toEqual([3, 0])
  })

  test('a single-use grant is consumed once, and then challenged', async () => {
    const token = singleUse()
    expect(verdict(await decide(trade(token)))).toBe('allow')
    expect(verdict(await decide(trade(token)))).toBe('401 insufficient_authorization')
    expect(authority.count('/consume')).toBe(1)
  })

  test('a call with no arguments has the parameters {}', async () => {
    const token = singleUse({
      operation: { tool: 'place_trade', params_s256: 's256:RBNvo1WzZ4oRRq0W9-hknpT7T8If536DEMBg9hyq_4o' },
    })
    expect(verdict(await decide({ tool: 'place_trade', token, signer: agent }))).toBe('allow')
  })

  test('an allowed call is reported to the ledger, after the fact, with the hash of its parameters', async () => {
    await decide(trade(singleUse()))
    await until(() => authority.count('/audit/access') === 1)
    expect(toldReports(authority.received)).toEqual([
      {
        id: expect.any(String),
        family: 'fam_test',
        jti: expect.stringMatching(/^rpt_/),
        tool: 'place_trade',
        summary: s256Json(TRADE_PARAMS),
        at: expect.any(Number),
        at_ms: expect.any(Number),
        instance: expect.any(String),
        n: 1,
      },
    ])
  })

  test('if configuration says so, with the parameters themselves, cut to what the authority takes', async () => {
    await restart({ reportArguments: true })
    await decide({ token: standing(), signer: agent, args: { a: '😀'.repeat(300) } })
    await until(() => authority.count('/audit/access') === 1)
    const { summary } = toldReports(authority.received)[0]!
    expect(summary).toMatch(/^\{"a":"😀/)
    expect(summary.isWellFormed()).toBe(true)
    expect(Buffer.byteLength(summary)).toBeLessThanOrEqual(1024)
  })

  test('credentials are kept if configuration says so', async () => {
    await restart({ keepCredentials: true })
    expect(((await decide({ token: standing(), signer: agent })) as Allowed).remove).toEqual([])
  })
})

describe('Which resource a call is for comes from configuration', () => {
  test.each(['/', '/mcp', '/mcp/', '/mcp/alice/', '/mcp/alice/x', '/mcp/bea', '/MCP/alice', '/mcp/%61lice'])(
    '%s is nobody here: 404',
    async path => {
      expect(verdict(await decide({ path }))).toBe('404 not_found')
      expect(authority.received).toEqual([])
    },
  )

  test('what the proxy was configured with must agree with the path', async () => {
    expect(verdict(await decide({ context: { owner: 'alice' } }))).toBe('401 insufficient_authorization')
    expect(verdict(await decide({ context: { owner: 'bea' } }))).toBe('404 not_found')
    expect(verdict(await decide({ context: { owner: 'alice' }, path: '/mcp/bea' }))).toBe('404 not_found')
  })

  test('a tool that nobody configured is 403 unknown_tool', async () => {
    expect(verdict(await decide({ tool: 'close_account', token: standing(), signer: agent }))).toBe(
      '403 unknown_tool',
    )
  })
})

describe('Methods that are no tool', () => {
  const message = (method: string) => JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: {} })

  test('the handshake passes without a grant and without asking anybody', async () => {
    const outcome = (await decide({ body: message('tools/list') })) as Allowed
    expect(outcome).toMatchObject({ kind: 'allow', headers: {}, remove: [] })
    expect(authority.received).toEqual([])
  })

  test('a credential never travels on, even with a method that needs none', async () => {
    const outcome = (await decide({ body: message('tools/list'), authorization: 'PoP abc' })) as Allowed
    expect(outcome.remove).toContain('authorization')
  })

  test('an opened method needs a live grant and a signature', async () => {
    await restart({ openMethods: ['resources/read'] })
    const body = message('resources/read')
    expect(verdict(await decide({ body }))).toBe('401 invalid_token')
    expect(verdict(await decide({ body, token: standing() }))).toBe('401 invalid_token')
    expect(verdict(await decide({ body, token: standing(), signer: agent }))).toBe('allow')
    expect(verdict(await decide({ body, token: singleUse(), signer: agent }))).toBe('403 operation_mismatch')
    const revoked = standing()
    authority.end(revoked, 'connection_revoked')
    expect(verdict(await decide({ body, token: revoked, signer: agent }))).toBe('403 access_revoked')
    expect(authority.count('/consume')).toBe(0)
  })
})

describe('Introspection of an inactive token carries a reason, and the enforcement point reacts', () => {
  test.each([
    ['connection_revoked', '403 access_revoked'],
    ['organization_revoked', '403 access_revoked'],
    ['already_consumed', '401 insufficient_authorization'],
    ['revoked', '401 insufficient_authorization'],
    ['expired', '401 insufficient_authorization'],
    ['unknown_token', '401 insufficient_authorization'],
    ['invalid_signature', '401 insufficient_authorization'],
    ['a word nobody knows', '403 access_revoked'],
    [undefined, '403 access_revoked'],
    [null, '403 access_revoked'],
    [7, '403 access_revoked'],
    [['expired'], '403 access_revoked'],
  ])('%s -> %s', async (reason, wanted) => {
    const token = singleUse()
    authority.end(token, reason)
    const outcome = await decide(trade(token))
    expect(verdict(outcome)).toBe(wanted)
    if (wanted.startsWith('403')) expect(authority.count('/perm')).toBe(0)
    if (typeof reason === 'string' && /^[a-z_]+$/.test(reason)) expect(outcome.metadata.reason).toBe(reason)
    expect(authority.count('/consume')).toBe(0)
  })
})

describe('Consume refused', () => {
  test.each([
    ['already_consumed', '403 already_consumed'],
    ['not_single_use', '403 not_single_use'],
    ['expired', '403 expired'],
    ['revoked', '403 revoked'],
    ['unknown_token', '403 unknown_token'],
    ['connection_revoked', '403 access_revoked'],
    ['organization_revoked', '403 access_revoked'],
    ['something_new', '403 access_revoked'],
    [undefined, '403 access_revoked'],
  ])('%s -> %s', async (error, wanted) => {
    authority.script('/consume', { status: 200, body: { consumed: false, error } })
    expect(verdict(await decide(trade(singleUse())))).toBe(wanted)
  })
})

describe('Each decision leaves one log line', () => {
  test('with decision, reason, step, owner, tool and family', async () => {
    await decide(trade(singleUse({ consequence: 'reversible' })))
    expect(core.lines).toHaveLength(1)
    expect(core.lines[0]).toMatchObject({
      decision: 'deny',
      reason: 'consequence_changed',
      status: 403,
      step: 'signature',
      owner: 'alice',
      tool: 'place_trade',
      family: 'fam_test',
      handle: `jkt:${agent.thumbprint}`,
    })
  })
})
