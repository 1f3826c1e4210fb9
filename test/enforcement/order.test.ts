/** contract, "Authorized call": the checks have one order, and nothing is spent before the last of them. */
import { describe, expect, test } from 'vitest'
import type { Denied } from '../../src/enforcement/call.ts'
import { s256Json } from '../../src/wire/encoding.ts'
import { newKey, nowSeconds, verdict, type CallParts } from './calls.ts'
import type { IssuedGrant } from '../support/scripted-authority.ts'
import { coreStand, permissionOf, TRADE_PARAMS } from './core.ts'

const { agent, authority, decide, restart, singleUse, standing } = coreStand()

describe('The enforcement order', () => {
  const stranger = newKey()
  type Changes = {
    grant?: Partial<IssuedGrant>
    lie?: Record<string, unknown>
    call?: CallParts
    ended?: string
    args?: string
  }
  interface Fault extends Changes {
    what: string
    wanted: string
  }
  const argsText = JSON.stringify(TRADE_PARAMS)
  const permission = (changes: object) => permissionOf('trades', 'trade', changes)

  /** In the order in which they are found; of several in one row, any one. */
  const order: Fault[][] = [
    [
      { what: 'the grant has expired', ended: 'expired', wanted: '401 insufficient_authorization' },
      { what: 'the connection is revoked', ended: 'connection_revoked', wanted: '403 access_revoked' },
    ],
    [
      {
        what: 'another resource',
        grant: { permissions: permission({ resource_id: 'alice/portfolio' }) },
        wanted: '401 insufficient_authorization',
      },
      {
        what: 'a missing scope',
        grant: { permissions: permission({ resource_scopes: ['read'] }) },
        wanted: '401 insufficient_authorization',
      },
      {
        what: 'a permission not open yet',
        grant: { permissions: permission({ nbf: nowSeconds() + 300 }) },
        wanted: '401 insufficient_authorization',
      },
      {
        what: 'a permission that is over',
        grant: { permissions: permission({ exp: nowSeconds() - 1 }) },
        wanted: '401 insufficient_authorization',
      },
    ],
    [
      { what: 'no signature', call: { signer: undefined as never }, wanted: '401 invalid_token' },
      { what: "another key's signature", call: { signer: stranger }, wanted: '401 invalid_token' },
      { what: 'an old signature', call: { created: nowSeconds() - 70 }, wanted: '401 invalid_token' },
      {
        what: 'a signature from the future',
        call: { created: nowSeconds() + 600 },
        wanted: '401 invalid_token',
      },
      {
        what: 'an expired signature',
        call: { created: nowSeconds() - 30, expires: nowSeconds() - 5 },
        wanted: '401 invalid_token',
      },
      {
        what: 'a signature for another authority',
        call: { signedAuthority: 'evil.example' },
        wanted: '401 invalid_token',
      },
      { what: 'a signature for another path', call: { signedPath: '/mcp/bea' }, wanted: '401 invalid_token' },
      {
        what: 'a signature without the credential',
        call: { components: ['@method', '@authority', '@path'] },
        wanted: '401 invalid_token',
      },
    ],
    [{ what: 'a milder grant', grant: { consequence: 'reversible' }, wanted: '403 consequence_changed' }],
    [
      {
        what: 'other parameters',
        grant: { operation: { tool: 'place_trade', params_s256: s256Json({ qty: 3 }) } },
        wanted: '403 operation_mismatch',
      },
      {
        what: 'another tool',
        grant: { operation: { tool: 'portfolio_read', params_s256: s256Json(TRADE_PARAMS) } },
        wanted: '403 operation_mismatch',
      },
      { what: 'no operation', grant: { claims: { operation: undefined } }, wanted: '403 operation_required' },
    ],
    [
      {
        what: 'a number that a double changes',
        args: '{"qty":9007199254740993}',
        wanted: '400 invalid_request',
      },
    ],
    [{ what: 'a body that may have lost bytes', call: { body: 'lossy' }, wanted: '400 invalid_request' }],
    [
      {
        what: 'a caller who has gone away',
        call: { isCancelled: () => true },
        wanted: '503 temporarily_unavailable',
      },
    ],
  ]

  async function judge(faults: Fault[]): Promise<string> {
    authority.reset()
    const merged = faults.reduce<Required<Changes>>(
      (all, fault) => ({
        grant: { ...all.grant, ...fault.grant },
        lie: { ...all.lie, ...fault.lie },
        call: { ...all.call, ...fault.call },
        ended: fault.ended ?? all.ended,
        args: fault.args ?? all.args,
      }),
      { grant: {}, lie: {}, call: {}, ended: '', args: argsText },
    )
    const operation = { tool: 'place_trade', params_s256: s256Json(JSON.parse(merged.args)) }
    const token = singleUse({ operation, ...merged.grant }, merged.lie)
    if (merged.ended !== '') authority.end(token, merged.ended)
    const text = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"place_trade","arguments":${merged.args}}}`
    const lossyText = merged.call.body === 'lossy'
    const body = { state: 'complete' as const, bytes: Buffer.from(text), lossyText }
    return verdict(await decide({ token, signer: agent, ...merged.call, body }))
  }

  test('without any fault the call is let through, and the grant spent', async () => {
    expect([await judge([]), authority.count('/consume')]).toEqual(['allow', 1])
  })

  test.each(order.flat().map(fault => [fault.what, fault] as const))(
    '%s is refused, the grant unspent',
    async (_what, fault) => {
      expect([await judge([fault]), authority.count('/consume')]).toEqual([fault.wanted, 0])
    },
  )

  test('if several steps would fail, the earliest one answers, and nothing is spent', async () => {
    const combinations = 2 ** order.length
    for (let chosen = 1; chosen < combinations; chosen++) {
      const faults = order
        .filter((_row, i) => (chosen & (1 << i)) !== 0)
        .map(row => row[chosen % row.length]!)
      const seen = [await judge(faults), authority.count('/consume')]
      expect([faults.map(({ what }) => what), ...seen]).toEqual([
        faults.map(({ what }) => what),
        faults[0]!.wanted,
        0,
      ])
    }
  })

  const NEGOTIATE = "Present the ticket at the owner's authorization server for a grant."
  test.each<[string, () => CallParts, string]>([
    ['no credential', () => ({}), ''],
    [
      'a bearer token',
      () => ({ headers: { authorization: [`Bearer ${standing()}`] } }),
      'The Authorization header has no grant: a grant is sent as "PoP <grant>". ',
    ],
    [
      'a grant of another resource',
      () => ({ token: standing(), signer: agent, tool: 'place_trade', args: TRADE_PARAMS }),
      'The grant does not permit this call now. ',
    ],
    [
      'a spent grant',
      () => {
        const token = singleUse()
        authority.end(token, 'already_consumed')
        return { token, signer: agent }
      },
      'The grant was for one call, and it is spent. ',
    ],
  ])('a challenge says what is missing: %s', async (_what, parts, because) => {
    const { body } = (await decide(parts())) as Denied
    expect(body).toMatchObject({
      error: 'insufficient_authorization',
      error_description: `${because}${NEGOTIATE}`,
    })
  })

  test('consequence is compared only where both sides declare a class', async () => {
    const token = standing({ consequence: 'reversible' })
    expect(verdict(await decide({ tool: 'undescribed', token, signer: agent }))).toBe('allow')
    expect(verdict(await decide({ token: standing({ consequence: 'catastrophic' }), signer: agent }))).toBe(
      'allow',
    )
  })

  test('a standing grant keeps its numbers, and its text body', async () => {
    const token = standing()
    const body = {
      state: 'complete' as const,
      lossyText: true,
      bytes: Buffer.from(
        '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"portfolio_read","arguments":{"n":9007199254740993,"t":"!"}}}',
      ),
    }
    expect(verdict(await decide({ token, signer: agent, body }))).toBe('allow')
  })

  test('a covered content-digest proves a text body whole', async () => {
    const text = JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name: 'place_trade', arguments: { note: 'now!' } },
    })
    const body = { state: 'complete' as const, lossyText: true, bytes: Buffer.from(text) }
    const operation = { tool: 'place_trade', params_s256: s256Json({ note: 'now!' }) }
    const refused = (await decide({ token: singleUse({ operation }), signer: agent, body })) as Denied
    expect((refused.body as { error_description: string }).error_description).toContain('pack_as_bytes')
    expect(
      verdict(await decide({ token: singleUse({ operation }), signer: agent, body, digest: true })),
    ).toBe('allow')
  })

  test('a covered digest is always checked, and can be made mandatory', async () => {
    const headers = { 'content-digest': ['sha-256=:RBNvo1WzZ4oRRq0W9+hknpT7T8If536DEMBg9hyq/4o=:'] }
    const components = ['@method', '@authority', '@path', 'authorization', 'content-digest']
    expect(verdict(await decide({ token: standing(), signer: agent, headers, components }))).toBe(
      '401 invalid_token',
    )
    await restart({ requireContentDigest: true })
    expect(verdict(await decide({ token: standing(), signer: agent }))).toBe('401 invalid_token')
    expect(verdict(await decide({ token: standing(), signer: agent, digest: true }))).toBe('allow')
  })
})
