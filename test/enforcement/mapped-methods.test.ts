/**
 * A method that the configuration maps to a tool goes through the same order as a call of the tool. contract,
 * "Authorized call" and "Single-use grant"; docs/choices.md, "Authorized call".
 */
import { describe, expect, test } from 'vitest'
import type { Allowed, Denied } from '../../src/enforcement/call.ts'
import { parseChallenge } from '../../src/wire/negotiation/challenge.ts'
import { s256Json } from '../../src/wire/encoding.ts'
import { toldReports } from '../support/told-reports.ts'
import { until } from '../support/until.ts'
import { verdict, type CallParts } from './calls.ts'
import { coreStand, permissionOf } from './core.ts'

const { agent, authority, core, decide, singleUse, standing } = coreStand({
  methods: {
    'resources/read': { tool: 'portfolio_read' },
    'prompts/get': { tool: 'place_trade' },
    'logging/setLevel': 'free',
  },
})

const URI = 'demo://portfolio/1'
const message = (method: string, params: object): string =>
  JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
const reading = (parts: CallParts = {}): CallParts => ({
  body: message('resources/read', { uri: URI }),
  ...parts,
})
const READ_PARAMS = { 'usher/method': 'resources/read', uri: URI }
const PROMPT_PARAMS = { 'usher/method': 'prompts/get', name: 'buy', arguments: { symbol: 'VTI' } }
const prompt = (parts: CallParts = {}): CallParts => ({
  body: message('prompts/get', { name: 'buy', arguments: { symbol: 'VTI' } }),
  signer: agent,
  ...parts,
})

describe('A mapped method', () => {
  test('without a grant is challenged for the tool whose grant it needs', async () => {
    const outcome = (await decide(reading())) as Denied
    expect(verdict(outcome)).toBe('401 insufficient_authorization')
    const challenge = parseChallenge(
      outcome.headers.filter(([name]) => name === 'www-authenticate').map(([, value]) => value),
    )
    expect(challenge.scope).toBe('read')
    expect(challenge.authorization_remediation.authorization_details).toMatchObject([
      { identifier: 'alice/portfolio_read' },
    ])
  })

  test('passes under a standing grant of the tool, and is named in the ledger', async () => {
    const outcome = (await decide(reading({ token: standing(), signer: agent }))) as Allowed
    expect(outcome).toMatchObject({ kind: 'allow', headers: { 'x-uma-tool': 'portfolio_read' } })
    await until(() => authority.count('/audit/access') === 1)
    expect(toldReports(authority.received)).toMatchObject([
      { tool: 'portfolio_read', summary: `resources/read ${s256Json(READ_PARAMS)}` },
    ])
  })

  test('needs the signature, and the permission of this very tool', async () => {
    expect(verdict(await decide(reading({ token: standing() })))).toBe('401 invalid_token')
    const trades = standing({ permissions: permissionOf('trades', 'trade') })
    expect(verdict(await decide(reading({ token: trades, signer: agent })))).toBe(
      '401 insufficient_authorization',
    )
  })

  test('is spent once under an approval of exactly this request', async () => {
    const token = singleUse({ operation: { tool: 'place_trade', params_s256: s256Json(PROMPT_PARAMS) } })
    expect(verdict(await decide(prompt({ token })))).toBe('allow')
    expect(verdict(await decide(prompt({ token })))).toBe('401 insufficient_authorization')
    expect(authority.count('/consume')).toBe(1)
  })

  test.each([
    ['another method', { 'usher/method': 'resources/read', name: 'buy', arguments: { symbol: 'VTI' } }],
    ['a call of the tool with the same content', { name: 'buy', arguments: { symbol: 'VTI' } }],
    ['another prompt', { ...PROMPT_PARAMS, name: 'sell' }],
  ])('does not pass under an approval of %s, which stays unspent', async (_what, params) => {
    const token = singleUse({ operation: { tool: 'place_trade', params_s256: s256Json(params) } })
    expect(verdict(await decide(prompt({ token })))).toBe('403 operation_mismatch')
    expect(authority.count('/consume')).toBe(0)
  })

  test('a call of the tool does not pass under the approval of a method', async () => {
    const token = singleUse({ operation: { tool: 'place_trade', params_s256: s256Json(PROMPT_PARAMS) } })
    const { 'usher/method': _method, ...args } = PROMPT_PARAMS
    const call = { tool: 'place_trade', args, token, signer: agent }
    expect(verdict(await decide(call))).toBe('403 operation_mismatch')
    expect(verdict(await decide({ ...call, args: PROMPT_PARAMS }))).toBe('400 invalid_request')
    expect(authority.count('/consume')).toBe(0)
  })

  test('that is free passes without a grant and without asking anybody', async () => {
    const free = { body: message('logging/setLevel', { level: 'info' }) }
    expect(await decide(free)).toMatchObject({ kind: 'allow', headers: {} })
    expect(verdict(await decide({ body: message('resources/list', {}) }))).toBe('allow')
    expect(authority.received).toEqual([])
  })
})

describe('A method that is not opened', () => {
  test('is logged as the denial that it is, whatever status the caller sees', async () => {
    const outcome = (await decide({ body: message('tasks/list', {}) })) as Denied
    expect(outcome).toMatchObject({ kind: 'deny', status: 403, rpc: { id: 1, status: 200 } })
    expect(core.lines.at(-1)).toMatchObject({ decision: 'deny', reason: 'unknown_method', status: 403 })
  })
})
