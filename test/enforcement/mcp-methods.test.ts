/**
 * What MCP methods other than `tools/call` need: the configuration maps each to the tool whose grant it
 * needs, or lets it pass. contract, "Authorized call"; docs/choices.md, "Authorized call".
 */
import { describe, expect, test } from 'vitest'
import type { SidecarOwner } from '../../src/config.ts'
import { methodRules } from '../../src/enforcement/request/mcp-methods.ts'
import type { CallRequest } from '../../src/enforcement/request/call-request.ts'
import { s256Json } from '../../src/wire/encoding.ts'
import { message, NOTHING_OPEN, opening, read, toolCall } from '../support/mcp-calls.ts'
import { refusalOf } from '../support/refusals.ts'

const MAPPED: SidecarOwner['methods'] = {
  'resources/read': {
    tool: 'read_any',
    uris: { 'file:///secret/{name}': 'read_secret', 'file:///{+path}': 'read_file' },
  },
  'prompts/get': { tool: 'use_prompt', names: { payroll: 'use_payroll' } },
  'completion/complete': {
    tool: 'complete',
    uris: { 'file:///secret/{name}': 'read_secret' },
    names: { payroll: 'use_payroll' },
  },
  'resources/subscribe': { tool: 'read_any' },
  'logging/setLevel': 'free',
}
const settings = { ...NOTHING_OPEN, methods: methodRules(MAPPED) }
const ask = (method: string, params?: object): CallRequest => read(message({ method, params }), {}, settings)
const toolOf = (method: string, params: object): string => {
  const request = ask(method, params)
  if (request.kind !== 'tool') throw new Error(`${method} is ${request.kind}`)
  return request.tool
}
const readOf = (uri: unknown): string => toolOf('resources/read', { uri })
const refused = (method: string, params: object): string => refusalOf(() => ask(method, params)).code

describe('A mapped method is a call of the tool whose grant it needs', () => {
  test('its parameters are the method and everything that it was sent with, so that they are approved with it', () => {
    const params = { 'usher/method': 'resources/read', uri: 'http://x/1', more: { a: 1 } }
    expect(ask('resources/read', { uri: 'http://x/1', more: { a: 1 }, _meta: { progressToken: 1 } })).toEqual(
      {
        kind: 'tool',
        tool: 'read_any',
        method: 'resources/read',
        params,
        params_s256: s256Json(params),
      },
    )
  })

  test('no call of the tool has the same parameters: no argument may have the name under which a method is approved', () => {
    const params = { name: 'read_any', arguments: { 'usher/method': 'resources/read', uri: 'http://x/1' } }
    expect(refusalOf(() => read(toolCall(params), {}, settings)).code).toBe('invalid_request')
  })

  test.each(['usher/method', 'usher/inputResponses', 'usher/requestState'])(
    'nor may a member of its params be called %s',
    name => {
      expect(refused('resources/read', { uri: 'http://x/1', [name]: 'resources/subscribe' })).toBe(
        'invalid_request',
      )
    },
  )

  test('two methods never have the same parameters', () => {
    const [one, other] = ['resources/read', 'resources/subscribe'].map(method =>
      ask(method, { uri: 'http://x/1' }),
    )
    expect(one).not.toEqual(other)
    expect((one as { params_s256: string }).params_s256).not.toBe(
      (other as { params_s256: string }).params_s256,
    )
  })

  test('the answers to a question that it asked back are approved with it', () => {
    expect(ask('prompts/get', { name: 'p', inputResponses: { a: 1 }, requestState: 's' })).toMatchObject({
      params: {
        'usher/method': 'prompts/get',
        name: 'p',
        'usher/inputResponses': { a: 1 },
        'usher/requestState': 's',
      },
    })
  })

  test('a number that no double carries is named, so that a single-use request can be refused for it', () => {
    const text = '{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"p","n":9007199254740993}}'
    expect(read(text, {}, settings)).toMatchObject({ inexactNumber: '9007199254740993' })
  })

  test('a batch of it, and a member that comes twice, are refused as those of tools/call are', () => {
    const one = message({ method: 'resources/read', params: { uri: 'http://x/1' } })
    expect(refusalOf(() => read(`[${one}]`, {}, settings)).code).toBe('invalid_request')
    const twice =
      '{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"http://x/1","uri":"http://x/2"}}'
    expect(refusalOf(() => read(twice, {}, settings)).code).toBe('invalid_request')
  })

  test.each([{ URI: 'http://x/2' }, { Uri: 'http://x/2' }, { Ref: {} }])(
    'a member that a reader which folds case takes for another is refused: %j',
    more => {
      expect(refused('resources/read', { uri: 'http://x/1', ...more })).toBe('invalid_request')
    },
  )
})

describe('A free method passes without a grant', () => {
  test('as tools/list does', () => {
    expect(ask('logging/setLevel', { level: 'info' })).toEqual({ kind: 'pass', method: 'logging/setLevel' })
  })

  test.each(['resources/list', 'resources/templates/list', 'prompts/list'])(
    '%s passes where its objects can be used',
    method => {
      expect(ask(method)).toEqual({ kind: 'pass', method })
    },
  )

  test('a list whose objects nobody can use is not opened', () => {
    const prompts = { ...NOTHING_OPEN, methods: methodRules({ 'prompts/get': 'free' }) }
    expect(read(message({ method: 'prompts/list' }), {}, prompts).kind).toBe('pass')
    expect(refusalOf(() => read(message({ method: 'resources/list' }), {}, prompts)).code).toBe(
      'unknown_method',
    )
  })

  test('a list that is mapped itself needs what the mapping says', () => {
    const mapped = methodRules({ 'prompts/get': 'free', 'prompts/list': { tool: 'list_prompts' } })
    expect(read(message({ method: 'prompts/list' }), {}, { ...NOTHING_OPEN, methods: mapped })).toMatchObject(
      {
        kind: 'tool',
        tool: 'list_prompts',
      },
    )
  })

  test('what is mapped is not also opened by the star of its family', () => {
    const both = { ...opening('resources/*'), methods: settings.methods }
    expect(read(message({ method: 'resources/read', params: { uri: 'http://x/1' } }), {}, both).kind).toBe(
      'tool',
    )
    expect(read(message({ method: 'resources/unsubscribe' }), {}, both).kind).toBe('open')
  })

  test.each(['tasks/get', 'RESOURCES/READ', 'resources/read ', 'constructor', '__proto__'])(
    'what is not mapped is refused: %j',
    method => {
      expect(refused(method, {})).toBe('unknown_method')
    },
  )
})

describe('A resource template or a prompt can name a tool of its own', () => {
  test.each([
    ['file:///secret/pay', 'read_secret'],
    ['file:///reports/2026/q1', 'read_file'],
    ['demo://text/1', 'read_any'],
  ])('%s is read under %s', (uri, tool) => {
    expect(readOf(uri)).toBe(tool)
  })

  test.each([
    'file:///secret/./pay',
    'file:///reports/../secret/pay',
    'file:///%73ecret/pay',
    'file:///secret%2fpay',
    'file:////secret/pay',
    'file:///x//secret/pay',
    'file:///SECRET/pay',
    'FILE:///secret/pay',
    'file:///secret/pay/',
    String.raw`file:///x\..\secret\pay`,
    'file:///ſecret/pay',
    ' file:///secret/pay',
    'file:///secret/pay\n',
    'secret/pay',
    '',
    7,
    null,
    ['file:///secret/pay'],
  ])('a URI that a server could read as one of another tool is refused: %j', uri => {
    expect(refused('resources/read', { uri })).toBe('invalid_request')
  })

  test.each(['file:/secret/pay', 'file://localhost/secret/pay', 'file:///secret/pay#x', 'file:secret/pay'])(
    'a URI of a listed scheme that fits no template is refused: %s',
    uri => {
      expect(refused('resources/read', { uri })).toBe('unknown_tool')
    },
  )

  test('a URI that takes long to compare is refused, and a long one is not', () => {
    const uri = 'file:///'.padEnd(2_048, 'x')
    expect(readOf(uri)).toBe('read_file')
    expect(refused('resources/read', { uri: `${uri}x` })).toBe('invalid_request')
  })

  test('a request without a URI is refused', () => {
    expect(refused('resources/read', {})).toBe('invalid_request')
  })

  test('a prompt by its name', () => {
    expect(toolOf('prompts/get', { name: 'payroll' })).toBe('use_payroll')
    expect(toolOf('prompts/get', { name: 'poem' })).toBe('use_prompt')
    for (const name of ['Payroll', 'PAYROLL', 'ｐayroll', 7, undefined]) {
      expect(refused('prompts/get', { name })).toBe('invalid_request')
    }
  })

  test('a completion by what it refers to', () => {
    const complete = (ref: unknown): string =>
      toolOf('completion/complete', { ref, argument: { name: 'a', value: '' } })
    expect(complete({ type: 'ref/prompt', name: 'payroll' })).toBe('use_payroll')
    expect(complete({ type: 'ref/prompt', name: 'poem' })).toBe('complete')
    expect(complete({ type: 'ref/resource', uri: 'file:///secret/{name}' })).toBe('read_secret')
    for (const ref of [
      undefined,
      'payroll',
      { name: 'payroll' },
      { type: 'ref/prompt', name: 'poem', uri: 'file:///secret/pay' },
      { type: 'ref/prompt', name: 'poem', Name: 'payroll' },
      { type: 'ref/other', name: 'payroll' },
    ]) {
      expect(refused('completion/complete', { ref })).toBe('invalid_request')
    }
  })
})
