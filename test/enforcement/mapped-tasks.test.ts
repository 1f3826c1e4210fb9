/**
 * A map that names methods of tasks (MCP 2025-11-25): `tasks/get` for the tool whose grant it needs, and
 * `tasks/*` for whoever holds a live standing grant. contract, "Authorized call" and "Single-use grant".
 */
import { describe, expect, test } from 'vitest'
import type { Allowed, Denied } from '../../src/enforcement/call.ts'
import { parseChallenge } from '../../src/wire/negotiation/challenge.ts'
import { s256Json } from '../../src/wire/encoding.ts'
import { toldReports } from '../support/told-reports.ts'
import { until } from '../support/until.ts'
import { verdict, type CallParts } from './calls.ts'
import { coreStand, permissionOf } from './core.ts'

const { agent, authority, decide, singleUse, standing } = coreStand({
  methods: { 'tasks/get': { tool: 'place_trade' } },
  openMethods: ['tasks/*'],
})

const TASK = { taskId: 'task-1' }
const GET_PARAMS = { 'usher/method': 'tasks/get', ...TASK }
const about = (method: string, parts: CallParts = {}): CallParts => ({
  body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: TASK }),
  ...(parts.token !== undefined && { signer: agent }),
  ...parts,
})
/** A standing grant of trades, as for a call that makes such a task. */
const ofTrades = (): string =>
  standing({ permissions: permissionOf('trades', 'trade'), consequence: 'irreversible' })

describe('tasks/get, which the map names', () => {
  test('is challenged without a grant for the tool that the map says', async () => {
    const outcome = (await decide(about('tasks/get'))) as Denied
    expect(verdict(outcome)).toBe('401 insufficient_authorization')
    const challenge = parseChallenge(
      outcome.headers.filter(([name]) => name === 'www-authenticate').map(([, value]) => value),
    )
    expect(challenge.authorization_remediation.authorization_details).toMatchObject([
      { identifier: 'alice/place_trade' },
    ])
  })

  test('passes as often as it is asked under a standing grant of that tool, each time in the ledger', async () => {
    const token = ofTrades()
    for (let polls = 0; polls < 2; polls++) {
      const outcome = (await decide(about('tasks/get', { token }))) as Allowed
      expect(outcome).toMatchObject({ kind: 'allow', headers: { 'x-uma-tool': 'place_trade' } })
    }
    await until(() => toldReports(authority.received).length === 2)
    const reported = { tool: 'place_trade', summary: `tasks/get ${s256Json(GET_PARAMS)}` }
    expect(toldReports(authority.received)).toMatchObject([reported, reported])
    expect(authority.count('/consume')).toBe(0)
  })

  test('is not opened to the grant of another tool by the star of its family', async () => {
    expect(verdict(await decide(about('tasks/get', { token: standing() })))).toBe(
      '401 insufficient_authorization',
    )
  })

  test('is not let through under the approval of the call that made the task, which stays unspent', async () => {
    expect(verdict(await decide(about('tasks/get', { token: singleUse() })))).toBe('403 operation_mismatch')
    expect(authority.count('/consume')).toBe(0)
  })

  test('spends an approval of this very question about this very task, once', async () => {
    const operation = { tool: 'place_trade', params_s256: s256Json(GET_PARAMS) }
    const token = singleUse({ operation })
    const other = { body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tasks/get', params: {} }) }
    expect(verdict(await decide(about('tasks/get', { token, ...other })))).toBe('403 operation_mismatch')
    expect(verdict(await decide(about('tasks/get', { token })))).toBe('allow')
    expect(verdict(await decide(about('tasks/get', { token })))).toBe('401 insufficient_authorization')
    expect(authority.count('/consume')).toBe(1)
  })
})

describe.each(['tasks/result', 'tasks/list', 'tasks/cancel'])('%s, which tasks/* opens', method => {
  test('passes under any live standing grant, and asks for no tool', async () => {
    const outcome = (await decide(about(method, { token: standing() }))) as Allowed
    expect(outcome.kind).toBe('allow')
    expect(outcome.headers).not.toHaveProperty('x-uma-tool')
  })

  test('needs a grant and its signature, and none for one use is spent on it', async () => {
    expect(verdict(await decide(about(method)))).toBe('401 invalid_token')
    const { signer: _agent, ...unsigned } = about(method, { token: standing() })
    expect(verdict(await decide(unsigned))).toBe('401 invalid_token')
    expect(verdict(await decide(about(method, { token: singleUse() })))).toBe('403 operation_mismatch')
    expect(authority.count('/consume')).toBe(0)
  })
})
