/**
 * contract, "Agreement (claim_token, beat 3)": every form that is put to a person can be sent by her client:
 * it has a required field. What she chooses in it is her word, and no tool gets a field that it did not ask
 * for.
 */
import { beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { sendable } from '../../../src/agent/bridge/answer-field.ts'
import { plainElicitation } from '../../../src/agent/bridge/asked-back.ts'
import { replyIn } from '../../../src/agent/bridge/questions.ts'
import type { ToolServer } from '../../../src/dev/tool-server.ts'
import { askingTools } from '../../support/asking-tools.ts'
import { filledIn, type Elicited } from '../../support/bridge.ts'
import { rowsOfLayer } from '../../support/layer.ts'
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
