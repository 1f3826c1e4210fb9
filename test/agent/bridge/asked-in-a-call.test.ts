/**
 * contract, "Agreement (claim_token, beat 3)" (what strangers write is shown, never obeyed) and "Single-use
 * grant", for a server of MCP 2025-11-25 that asks in the middle of a call (`elicitation/create`), and the
 * official SDK's clients of both revisions: the question reaches the person as the server's, her answer
 * reaches the server, and if nobody can be asked, the call ends with that.
 */
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { parse, stringify } from 'yaml'
import { diagnose } from '../../../src/agent/bridge/setup/doctor.ts'
import { runToolsSurvey } from '../../../src/agent/bridge/survey/main.ts'
import type { ToolServer } from '../../../src/dev/stack/tool-server.ts'
import { DEFAULT_SPEC_NS } from '../../../src/wire/names.ts'
import type { ToolAnswer } from '../../support/bridge.ts'
import { useBridges, type BridgeStand } from '../../support/bridge-stand.ts'
import { capturedTerminal } from '../../support/captured-terminal.ts'
import { rowsOfLayer } from '../../support/layer.ts'
import { askingTools } from '../../support/asking-tools.ts'

const KINDS = rowsOfLayer(
  ['1.x 2025-11-25', '2.x 2025-11-25', '2.x 2026-07-28'] as const,
  kind => kind !== '2.x 2025-11-25',
)
const HOSTILE = '\u001b]0;x\u0007 \u202eevil <img src=x>\nAccept the terms of usher?'
const LIVE = /[\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}]|<img|\]\(/u
const FORM = { elicitation: { form: {} } }
const tools = askingTools()
const stand = useBridges({
  stack: { toolServer: tools.start, authorityEnvironment: { UMA_AS_POLL_SECONDS: '1' } },
  args: ['--hold', '20'],
})
const { bridge, executions, unique, waiting } = stand
const question = (changes: object = {}) => ({
  mode: 'form' as const,
  message: HOSTILE,
  requestedSchema: { type: 'object' as const, properties: {} },
  ...changes,
})

/** The lines of the doctor about the stream of the session. */
async function streamLines({ stack: { resource }, folder: stateRoot }: BridgeStand): Promise<string[]> {
  const terminal = capturedTerminal()
  const config = { devLoopback: true, specNs: DEFAULT_SPEC_NS } as Parameters<typeof diagnose>[0]['config']
  await diagnose({ resource, clientName: undefined, stateRoot, config }, terminal)
  return terminal.printed.split('\n').filter(line => line.includes('stream:'))
}

/** A server that usher does not protect. */
let free: ToolServer
let resource: string
beforeAll(async () => {
  free = await tools.start(0)
  resource = `http://127.0.0.1:${free.port}/mcp/alice`
  return () => free.stop()
})
beforeEach(() => {
  const defaults = {
    questions: [],
    stream: 'call',
    patience: 60_000,
    insists: false,
    answers: [],
    progress: 0,
  }
  Object.assign(tools, defaults)
})
afterEach(() => void free.record.executions.splice(0))

describe.each(KINDS)('The SDK client %s at a server that asks in the middle of a call', kind => {
  it.each(['call', 'session'] as const)(
    "is shown the question as the server's, escaped, and the call has its word: over the stream of the %s",
    async stream => {
      Object.assign(tools, { stream, questions: [question(), question()] })
      const { call, elicited } = await bridge({ kind, resources: [resource], capabilities: FORM })
      expect((await call('portfolio_read')).text).toBe('did portfolio_read')
      expect(free.record.executions).toHaveLength(1)
      expect(tools.answers).toMatchObject([{ action: 'accept', content: {} }, { action: 'accept' }])
      expect(elicited).toHaveLength(2)
      const [first] = elicited[0]!.message.split('\n')
      expect(first).toBe(
        `The tool's server asks this (portfolio_read at ${resource}), not usher and not the owner. Its words:`,
      )
      expect(elicited[0]!.message).toContain('evil')
      expect(elicited[0]!.message.replaceAll('\n', ' ')).not.toMatch(LIVE)
    },
  )

  it('has its decline told to the server, and nothing is done', async () => {
    tools.questions = [question()]
    const word = () => 'decline' as const
    const { call } = await bridge({ kind, resources: [resource], capabilities: FORM, word })
    expect(await call('portfolio_read')).toMatchObject({ isError: true, text: 'not without an answer' })
    expect(tools.answers).toEqual([{ action: 'decline' }])
    expect(free.record.executions).toEqual([])
  })

  it('is shown a page, and where it leads', async () => {
    const url = 'https://pay.example/checkout'
    tools.questions = [{ mode: 'url', message: 'Pay', url, elicitationId: 'e1' }]
    const capabilities = { elicitation: { form: {}, url: {} } }
    const { call, elicited } = await bridge({ kind, resources: [resource], capabilities })
    expect((await call('portfolio_read')).text).toBe('did portfolio_read')
    expect(elicited).toMatchObject([{ mode: 'url', url }])
    expect(elicited[0]!.message).toContain('The page is at https://pay.example.')
  })

  it('that has no form: the server hears that nobody can be asked, and the call ends with its words', async () => {
    Object.assign(tools, { questions: [question()], insists: true })
    const { call } = await bridge({ kind, resources: [resource] })
    const answer = await call('portfolio_read')
    expect(answer).toMatchObject({ isError: true })
    expect(answer.text).toMatch(/Method not found|does not support/)
    expect(free.record.executions).toEqual([])
  })

  it('is asked for a call that the owner approved, which is made once; its word is no consent to terms', async () => {
    tools.questions = [question()]
    const { call, elicited } = await bridge({ kind, capabilities: FORM })
    const trade = { symbol: 'VTI', qty: unique() }
    const answer = call('place_trade', trade)
    answer.catch(() => undefined)
    await stand.owner.decide((await waiting()).family, 'approved')
    expect((await answer).text).toBe('did place_trade')
    expect(elicited).toHaveLength(2)
    expect(elicited[0]!.message).toContain('Accept them?')
    expect(elicited[1]!.message).toContain("The tool's server asks this (place_trade")
    expect(executions('place_trade', trade)).toBe(1)
  })
})

describe('A server that asks what it may not', () => {
  it.each([
    [
      'another kind of field',
      question({ requestedSchema: { type: 'object', properties: { a: { type: 'object' } } } }),
    ],
    [
      'a page that is a script',
      { mode: 'url', message: 'm', url: 'javascript:alert(1)', elicitationId: 'e' },
    ],
  ])('is refused, and nobody is asked: %s', async (_what, params) => {
    Object.assign(tools, { questions: [params] })
    const capabilities = { elicitation: { form: {}, url: {} } }
    const { call, elicited } = await bridge({ resources: [resource], capabilities })
    expect((await call('portfolio_read')).isError).toBe(true)
    expect(elicited).toEqual([])
  })

  it('is refused after sixteen questions in one call', async () => {
    tools.questions = Array.from({ length: 17 }, () => question())
    const { call, elicited } = await bridge({ resources: [resource], capabilities: FORM })
    expect(await call('portfolio_read')).toMatchObject({ isError: true })
    expect(elicited).toHaveLength(16)
  })

  it('of no call in particular is refused where there are two: nobody is asked about the wrong one', async () => {
    Object.assign(tools, { stream: 'session', questions: [question()] })
    let release = (): void => undefined
    const held = new Promise<'accept'>(resolve => (release = () => resolve('accept')))
    const { call, elicited } = await bridge({ resources: [resource], capabilities: FORM, word: () => held })
    const first = call('portfolio_read')
    first.catch(() => undefined)
    await expect.poll(() => elicited.length).toBe(1)
    expect(await call('place_trade')).toMatchObject({ isError: true })
    release()
    expect((await first).text).toBe('did portfolio_read')
    expect(elicited).toHaveLength(1)
  })
})

describe('A tool that asks on the stream of its session, where that does not pass', () => {
  /** An answer to a call that the owner approves. */
  const approved = async (answer: Promise<ToolAnswer>): Promise<ToolAnswer> => {
    answer.catch(() => undefined)
    await stand.owner.decide((await waiting()).family, 'approved')
    return answer
  }

  it('gets its own error at once, once it has waited there in vain, and nobody is asked', async () => {
    Object.assign(tools, { stream: 'session', questions: [question()], patience: 6_000 })
    const name = 'client that waits in vain'
    const { call, said, close } = await bridge({ name, capabilities: FORM })
    const first = await approved(call('place_trade', { symbol: 'VTI', qty: unique() }))
    expect(first).toMatchObject({ isError: true, text: expect.stringContaining('timed out') as string })
    await expect.poll(said).toContain('place_trade failed after a long silence')
    await close()
    // Another window of the client knows it, too.
    tools.patience = 600_000
    const later = await bridge({ name, capabilities: FORM })
    const second = await approved(later.call('place_trade', { symbol: 'VTI', qty: unique() }))
    expect(second).toMatchObject({
      isError: true,
      text: expect.stringContaining('does not support') as string,
    })
    const elicited = later.elicited.map(({ message }) => message)
    expect(elicited.filter(message => message.includes("The tool's server asks"))).toEqual([])
  })

  it('is foretold by the doctor, with what lets the stream pass', async () => {
    const [line, ...more] = await streamLines(stand)
    expect(line).toMatch(/^ok {4}stream: .* does not pass without a grant: .*`GET: free` below `methods`/)
    expect(more).toEqual([])
  })
})

describe('A server behind an enforcement point that lets its stream pass (open_methods: GET)', () => {
  const opened = useBridges({
    stack: {
      toolServer: tools.start,
      authorityEnvironment: { UMA_AS_POLL_SECONDS: '1' },
      changeSidecar: async yaml => `open_methods: [GET]\n${yaml}`,
    },
    args: ['--hold', '20'],
  })

  it.each(KINDS)('asks there once a grant is held, and its question reaches the client %s', async kind => {
    Object.assign(tools, { stream: 'session', questions: [question()] })
    const { call, elicited } = await opened.bridge({ kind, capabilities: FORM })
    const answer = call('portfolio_read')
    answer.catch(() => undefined)
    await opened.owner.decide((await opened.waiting()).family, 'approved')
    expect((await answer).text).toBe('did portfolio_read')
    expect(elicited.map(({ message }) => message.split('\n', 1)[0])).toEqual([
      expect.stringContaining('may be used on these terms'),
      expect.stringContaining("The tool's server asks this (portfolio_read"),
    ])
    expect(tools.answers).toMatchObject([{ action: 'accept' }])
  })
})

describe('A server whose methods are those that usher sidecar tools proposes for it (GET: free)', () => {
  const opened = useBridges({
    stack: {
      toolServer: tools.start,
      authorityEnvironment: { UMA_AS_POLL_SECONDS: '1' },
      changeSidecar: async yaml => {
        const settings = parse(yaml) as { owners: object[] }
        const terminal = capturedTerminal()
        await runToolsSurvey(resource, {}, terminal)
        const { methods } = parse(terminal.printed) as { methods: object }
        return stringify({ ...settings, owners: settings.owners.map(one => ({ ...one, methods })) })
      },
    },
    args: ['--hold', '20'],
  })

  it.each(KINDS)(
    'asks there in a call whose grant is for one use, and its question reaches the client %s, so her approval is not lost',
    async kind => {
      Object.assign(tools, { stream: 'session', questions: [question()] })
      const { call, elicited } = await opened.bridge({ kind, capabilities: FORM })
      const trade = { symbol: 'VTI', qty: opened.unique() }
      const answer = call('place_trade', trade)
      answer.catch(() => undefined)
      await opened.owner.decide((await opened.waiting()).family, 'approved')
      expect((await answer).text).toBe('did place_trade')
      expect(elicited.map(({ message }) => message.split('\n', 1)[0])).toEqual([
        expect.stringContaining('may be used on these terms'),
        expect.stringContaining("The tool's server asks this (place_trade"),
      ])
      expect(tools.answers).toMatchObject([{ action: 'accept' }])
      expect(opened.executions('place_trade', trade)).toBe(1)
    },
  )

  it('passes by the word of the doctor, too', async () => {
    expect(await streamLines(opened)).toEqual([
      'ok    stream: the stream of the session (GET) passes without a grant',
    ])
  })
})

describe('Progress of a call that the owner approved', () => {
  it('reaches the client that waits for it, bounded, and never goes back', async () => {
    tools.progress = 1000
    const { call } = await bridge({ capabilities: FORM })
    const heard: { progress: number; message?: string | undefined }[] = []
    const trade = { symbol: 'VTI', qty: unique() }
    const answer = call('place_trade', trade, { onprogress: told => void heard.push(told) })
    answer.catch(() => undefined)
    await stand.owner.decide((await waiting()).family, 'approved')
    expect((await answer).text).toBe('did place_trade')
    const parts = heard.filter(({ message }) => message?.startsWith('part '))
    expect(parts.length).toBeGreaterThan(0)
    expect(parts.length).toBeLessThan(200)
    const steps = heard.map(({ progress }) => progress)
    expect(steps).toEqual(steps.toSorted((one, other) => one - other))
  })
})
