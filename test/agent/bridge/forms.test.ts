/**
 * contract, "Agreement (claim_token, beat 3)": every form that is put to a person can be sent by her client:
 * it has a required field. What she chooses in it is her word, and no tool gets a field that it did not ask
 * for.
 */
import { beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { sendable } from '../../../src/agent/bridge/questions/answer-field.ts'
import { plainElicitation, withPlainQuestions } from '../../../src/agent/bridge/questions/asked-back.ts'
import { replyIn } from '../../../src/agent/bridge/questions/questions.ts'
import type { ToolServer } from '../../../src/dev/stack/tool-server.ts'
import { askingTools } from '../../support/asking-tools.ts'
import { filledIn, type Elicited } from '../../support/bridge.ts'
import { rowsOfLayer } from '../../support/layer.ts'
import { resultOf, startScriptedTools } from '../../support/scripted-tools.ts'
import { useBridges } from '../../support/bridge-stand.ts'

const KINDS = rowsOfLayer(
  ['1.x 2025-11-25', '2.x 2025-11-25', '2.x 2026-07-28'] as const,
  kind => kind !== '2.x 2025-11-25',
)
const FORM = { elicitation: { form: {} } }
const tools = askingTools()
const stand = useBridges({ stack: { toolServer: tools.start }, args: ['--hold', '20'] })
/** A server that usher does not protect. */
let free: ToolServer
let resource: string
beforeAll(async () => {
  free = await tools.start(0)
  resource = `http://127.0.0.1:${free.port}/mcp/alice`
  return () => free.stop()
})
beforeEach(() => {
  Object.assign(tools, { questions: [], stream: 'call', insists: false, answers: [], progress: 0 })
})

/** A client that cannot send a form without a required field. */
const requires = (asked: Elicited): object => {
  expect(asked.requestedSchema?.required, 'a required field').not.toEqual([])
  expect(Object.keys(filledIn(asked)).length, 'a required field').toBeGreaterThan(0)
  return filledIn(asked)
}
const declines = (asked: Elicited): object =>
  Object.fromEntries(Object.keys(filledIn(asked)).map(name => [name, 'decline']))
const question = (requestedSchema: object) => ({ mode: 'form', message: 'Go on?', requestedSchema })

describe.each(KINDS)('The SDK client %s', kind => {
  it('can send the form of the terms, and accepts them by it', async () => {
    const { call, elicited } = await stand.bridge({ kind, capabilities: FORM, fills: requires })
    const answer = call('portfolio_read')
    answer.catch(() => undefined)
    await stand.owner.decide((await stand.waiting()).family, 'approved')
    expect((await answer).isError).toBe(false)
    expect(elicited).toHaveLength(1)
  })

  it('declines the terms where the form that it sends says so', async () => {
    const { call } = await stand.bridge({ kind, capabilities: FORM, fills: declines })
    expect(await call('portfolio_read')).toMatchObject({ isError: true, reason: 'terms_declined' })
  })

  it('accepts the terms where it sends the form without any field, as one that knows only the action', async () => {
    const { call } = await stand.bridge({ kind, capabilities: FORM, fills: () => undefined })
    const answer = call('portfolio_read')
    answer.catch(() => undefined)
    await stand.owner.decide((await stand.waiting()).family, 'approved')
    expect((await answer).isError).toBe(false)
  })

  it.each([
    ['no fields', { type: 'object', properties: {} }],
    ['no properties', { type: 'object', properties: {}, required: [] }],
  ])("can send a tool's form that has %s, and the tool gets none", async (_what, form) => {
    tools.questions = [question(form) as never]
    const { call } = await stand.bridge({ kind, resources: [resource], capabilities: FORM, fills: requires })
    expect((await call('portfolio_read')).text).toBe('did portfolio_read')
    expect(tools.answers).toEqual([{ action: 'accept', content: {} }])
  })

  it("declines a tool's question where the empty form that it sends says so", async () => {
    tools.questions = [question({ type: 'object', properties: {} }) as never]
    const { call } = await stand.bridge({ kind, resources: [resource], capabilities: FORM, fills: declines })
    await call('portfolio_read')
    expect(tools.answers).toEqual([{ action: 'decline' }])
  })
})

describe('A form', () => {
  it.each<[string, object]>([
    ['an empty form', { properties: {} }],
    ['a form without properties', {}],
    ['a form that requires nothing of nothing', { properties: {}, required: [] }],
  ])('of a tool gets one required field: %s', (_what, requestedSchema) => {
    const asker = { resource: 'https://r.example', tool: 'read' }
    const { requestedSchema: form } = plainElicitation({ message: 'm', requestedSchema } as never, asker)
    expect(form).toMatchObject({ type: 'object', required: ['usher_answer'] })
  })

  it.each([
    [['account', 'gone'], ['account']],
    [['gone'], []],
    [null, undefined],
  ])('of a tool that requires %j requires what has a field: %j', (required, wanted) => {
    const requestedSchema = { properties: { account: { type: 'string' } }, required }
    const asker = { resource: 'https://r.example', tool: 'read' }
    const { requestedSchema: form } = plainElicitation({ message: 'm', requestedSchema }, asker)
    expect((form as { required?: string[] }).required).toEqual(wanted)
  })

  const asker = { resource: 'https://r.example', tool: 'read' }
  const formOf = (requestedSchema: unknown) =>
    plainElicitation({ message: 'm', requestedSchema } as never, asker)['requestedSchema']
  const TEXT = { type: 'string', title: 'Account' }

  it.each<[string, object]>([
    ['its type and its title', { type: null, title: null, properties: { a: TEXT }, required: ['a'] }],
    ['its description', { description: null, properties: { a: TEXT }, required: ['a'] }],
    ...['description', 'default', 'format', 'minLength', 'enum', 'enumNames', 'oneOf', 'anyOf', 'items'].map(
      (name): [string, object] => [
        `${name} of a field`,
        { properties: { a: { ...TEXT, [name]: null } }, required: ['a'] },
      ],
    ),
  ])('of a tool is shown where null is %s', (_what, schema) => {
    expect(formOf(schema)).toEqual({ type: 'object', properties: { a: TEXT }, required: ['a'] })
  })

  it('of a tool is shown where null is what its choices and items could have', () => {
    const oneOf = [{ const: 'x', title: 'X', description: null }]
    const items = { type: 'string', enum: ['x'], anyOf: null, title: null }
    expect(
      formOf({ properties: { a: { ...TEXT, oneOf }, b: { type: 'array', items } }, required: null }),
    ).toEqual({
      type: 'object',
      properties: {
        a: { ...TEXT, oneOf: [{ const: 'x', title: 'X' }] },
        b: { type: 'array', items: { type: 'string', enum: ['x'] } },
      },
    })
  })

  it('of a tool is shown where null is its mode, its properties, and the id of a page', () => {
    expect(
      plainElicitation({ mode: null, message: 'm', requestedSchema: { properties: null } }, asker),
    ).toEqual({
      message: expect.any(String),
      requestedSchema: expect.objectContaining({ required: ['usher_answer'] }),
    })
    const page = { mode: 'url', message: 'm', url: 'https://pay.example/', elicitationId: null }
    expect(plainElicitation(page, asker)).not.toHaveProperty('elicitationId')
  })

  it('of a tool comes back with a state that is null as if there were none', () => {
    const asked = { resultType: 'input_required', inputRequests: null, requestState: null }
    expect(withPlainQuestions(asked, asker)).toEqual({ resultType: 'input_required' })
  })

  const NULLS = {
    mode: null,
    message: 'm',
    elicitationId: null,
    requestedSchema: {
      type: 'object',
      title: null,
      properties: { a: { type: 'string', title: null, description: null, default: null, format: null } },
      required: ['a'],
    },
  }
  const SHOWN = { type: 'object', properties: { a: { type: 'string' } }, required: ['a'] }

  it('of a server of 2025-11-25 reaches the person with null for all that is optional', async () => {
    const server = await startScriptedTools()
    const replied = Promise.withResolvers<void>()
    server.onText(text => text.includes('"id":"q"') && replied.resolve())
    server.script('tools/call', ({ id }, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      const asks = { jsonrpc: '2.0', id: 'q', method: 'elicitation/create', params: NULLS }
      response.write(`data: ${JSON.stringify(asks)}\n\n`)
      void replied.promise.then(() =>
        response.end(`data: ${JSON.stringify({ jsonrpc: '2.0', id, result: { content: [] } })}\n\n`),
      )
    })
    const asked: unknown[] = []
    const upstream = server.upstream({ capabilities: () => ({ elicitation: { form: {} } }) })
    const ask = async (question: object) => {
      const { params } = question as { params: { requestedSchema: unknown } }
      asked.push(params.requestedSchema)
      return { action: 'accept' as const, content: { a: 'x' } }
    }
    try {
      await upstream.send({ call: { tool: 'read' }, ask })
      expect(asked).toEqual([SHOWN])
    } finally {
      await server.close()
    }
  })

  it('of a server of 2026-07-28 comes back with null for all that is optional', async () => {
    const server = await startScriptedTools()
    const supportedVersions = ['2026-07-28']
    const serverInfo = { name: 's', version: '1' }
    server.script(
      'server/discover',
      resultOf({ supportedVersions, capabilities: { tools: {} }, serverInfo, resultType: 'complete' }),
    )
    const inputRequests = { q: { method: 'elicitation/create', params: NULLS } }
    server.script('tools/call', resultOf({ resultType: 'input_required', inputRequests, requestState: null }))
    try {
      const answer = await server.upstream().send({ call: { tool: 'read' } })
      expect(answer).toMatchObject({
        result: { inputRequests: { q: { params: { requestedSchema: SHOWN } } } },
      })
    } finally {
      await server.close()
    }
  })

  it.each<[string, object]>([
    ['no choice', { type: 'string', enum: [] }],
    ['no titled choice', { type: 'string', oneOf: [] }],
    ['a list of no choice', { type: 'array', minItems: 1, items: { type: 'string', enum: [] } }],
    ['a list of fewer choices', { type: 'array', minItems: 2, items: { anyOf: [{ const: 'x' }] } }],
    ['a list of none', { type: 'array', minItems: 1, maxItems: 0, items: { enum: ['x'] } }],
    ['a minimum over its maximum', { type: 'number', minimum: 2, maximum: 1 }],
    ['no length', { type: 'string', minLength: 3, maxLength: 2 }],
  ])('that nobody could send is told to its server, and shown to nobody: %s', (_what, field) => {
    const asks = () => formOf({ properties: { account: field }, required: ['account'] })
    expect(asks).toThrow('a form that nobody could send: "account" is required')
    expect(formOf({ properties: { account: field, b: TEXT }, required: ['b'] })).toEqual({
      type: 'object',
      properties: { b: TEXT },
      required: ['b'],
    })
  })

  it.each<object>([
    { type: 'array', items: { type: 'string', enum: [] } },
    { type: 'array', minItems: 1, maxItems: 1, items: { type: 'string', enum: ['x'] } },
    { type: 'number', minimum: 1, maximum: 1 },
    { type: 'string', enum: ['x'], minLength: 1 },
    { type: 'boolean', default: false },
  ])('that can just be sent is shown as it is: %j', field => {
    const form = { type: 'object', properties: { account: field }, required: ['account'] }
    expect(formOf(form)).toEqual(form)
  })

  it('that has fields of its own is left as it is, also if none is required', () => {
    const form = { type: 'object', properties: { account: { type: 'string' } } }
    expect(sendable(form)).toBe(form)
  })

  it.each([
    [
      { action: 'accept', content: { usher_answer: 'accept' } },
      { action: 'accept', content: {} },
    ],
    [{ action: 'accept', content: { usher_answer: 'decline' } }, { action: 'decline' }],
    [{ action: 'accept', content: { usher_answer: 7 } }, { action: 'cancel' }],
    [
      { action: 'accept', content: { account: 'a' } },
      { action: 'accept', content: { account: 'a' } },
    ],
    [{ action: 'accept' }, { action: 'accept' }],
    [{ action: 'decline', content: { usher_answer: 'accept' } }, { action: 'decline' }],
  ])('that is sent as %j is the word %j', (reply, word) => {
    expect(replyIn(reply)).toEqual(word)
  })
})
