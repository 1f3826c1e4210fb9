/**
 * What MCP 2026-07-28 repeats in header fields, and adds beside the arguments. contract, "Authorized call".
 */
import { describe, expect, test } from 'vitest'
import { DocumentRefusal } from '../../src/enforcement/denial.ts'
import { checkOperation } from '../../src/enforcement/operation.ts'
import { s256Json } from '../../src/wire/encoding.ts'
import type { Json } from '../../src/wire/json.ts'
import { message, read, toolCall, TRADE } from '../support/mcp-calls.ts'
import { refusalOf } from '../support/refusals.ts'

const VERSION = '2026-07-28'
const META = { 'io.modelcontextprotocol/protocolVersion': VERSION }
const MODERN = { 'mcp-protocol-version': VERSION, 'mcp-method': 'tools/call', 'mcp-name': 'place_trade' }
const refused = (headers: Record<string, string | string[]>, params: object = TRADE) => {
  const refusal = refusalOf(() => read(toolCall(params), headers))
  const code = refusal instanceof DocumentRefusal ? refusal.document.error : undefined
  return [refusal.code, refusal.status, (code as { code?: number } | undefined)?.code]
}
const MISMATCH = ['header_body_mismatch', 400, -32020]

describe('A caller that says in its header that it speaks MCP 2026-07-28', () => {
  test('is read with all mirrors, and refused -32020 without one of them, before a grant could be spent', () => {
    expect(read(toolCall(TRADE), MODERN).kind).toBe('tool')
    const { 'mcp-method': _, ...noMethod } = MODERN
    const { 'mcp-name': __, ...noName } = MODERN
    expect([refused(noMethod), refused(noName)]).toEqual([MISMATCH, MISMATCH])
    expect(read(message({ method: 'tools/list' }), { ...noName, 'mcp-method': 'tools/list' }).kind).toBe(
      'pass',
    )
  })

  test('may leave the mirrors out of a notification', () => {
    const notification = message({ id: undefined, method: 'notifications/cancelled' })
    expect(read(notification, { 'mcp-protocol-version': VERSION }).kind).toBe('pass')
  })

  test('must not name another version in the body', () => {
    expect(read(toolCall({ ...TRADE, _meta: META }), MODERN).kind).toBe('tool')
    const other = { 'io.modelcontextprotocol/protocolVersion': '2026-12-01' }
    expect(refused(MODERN, { ...TRADE, _meta: other })).toEqual(MISMATCH)
  })

  test.each([
    ['mcp-param-symbol', 'VTI', true],
    ['mcp-param-symbol', '=?base64?VlRJ?=', true],
    ['mcp-param-qty', '2', true],
    ['mcp-param-qty', '2.0', true],
    ['mcp-param-symbol', 'BND', false],
    ['mcp-param-qty', '3', false],
    ['mcp-param-qty', '', false],
    ['mcp-param-symbol', ['VTI', 'VTI'], false],
    ['mcp-param-symbol', '=?base64?VlRJ', false],
  ])('repeats parameters truly: %s: %s', (name, value, agrees) => {
    const headers = { ...MODERN, [name]: value }
    if (agrees) expect(read(toolCall(TRADE), headers).kind).toBe('tool')
    else expect(refused(headers)).toEqual(MISMATCH)
  })
})

test('a caller of an earlier revision needs no mirrors', () => {
  expect(read(toolCall(TRADE), { 'mcp-protocol-version': '2025-11-25' }).kind).toBe('tool')
  expect(read(toolCall(TRADE)).kind).toBe('tool')
})

describe('Input that a tool asked back for', () => {
  const RESPONSES = { a: { action: 'accept', content: { account: 'savings' } } }
  const judge = (params: object, approved: Json): void => {
    const request = read(toolCall(params))
    if (request.kind !== 'tool') throw new Error('no tool')
    const grant = { operation: { tool: 'place_trade', params_s256: s256Json(approved) } }
    checkOperation(grant, request, { body: { state: 'absent' }, digestCovered: true })
  }

  test.each([{ inputResponses: RESPONSES }, { requestState: 'opaque' }, { inputResponses: null }])(
    'is not covered by the approval of the arguments alone: %j',
    further => {
      expect(() => judge(TRADE, TRADE.arguments)).not.toThrow()
      expect(refusalOf(() => judge({ ...TRADE, ...further }, TRADE.arguments))).toMatchObject({
        code: 'operation_mismatch',
        status: 403,
      })
    },
  )

  test('is approved with the arguments, and then none may be changed, left out or put elsewhere', () => {
    const approved = {
      ...TRADE.arguments,
      'usher/inputResponses': RESPONSES,
      'usher/requestState': 'opaque',
    }
    const whole = { ...TRADE, inputResponses: RESPONSES, requestState: 'opaque' }
    expect(() => judge(whole, approved)).not.toThrow()
    const others = [
      { ...whole, requestState: 'another' },
      { ...whole, inputResponses: { a: { action: 'accept', content: { account: 'checking' } } } },
      { ...TRADE, inputResponses: RESPONSES },
      TRADE,
    ]
    for (const other of others)
      expect(refusalOf(() => judge(other, approved)).code).toBe('operation_mismatch')
    expect(refusalOf(() => judge({ ...TRADE, arguments: approved }, approved)).code).toBe('invalid_request')
  })

  test.each(['InputResponses', 'requeststate', 'REQUESTSTATE'])(
    'spelt %s is refused: a reader that folds case would take it for what was not approved',
    spelling => {
      expect(refusalOf(() => read(toolCall({ ...TRADE, [spelling]: 'x' }))).code).toBe('invalid_request')
    },
  )

  test('is a new call under a standing grant like any other', () => {
    expect(read(toolCall({ ...TRADE, inputResponses: {}, requestState: 's' }))).toMatchObject({
      kind: 'tool',
      tool: 'place_trade',
    })
  })
})
