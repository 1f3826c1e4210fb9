/**
 * Tools of a server of MCP 2025-11-25 that ask on the stream of the session (GET), where that does not pass.
 * contract, "Authorized call", enforcement order, 4: under a grant for one use it does not. What shows such a
 * tool is the silence before its error, in whatever words that is.
 */
import { text } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { AgentError } from '../../../src/agent/agent-error.ts'
import {
  createAsides,
  isUnheard,
  type AsideMemory,
  type QuestionStream,
} from '../../../src/agent/bridge/upstream/asides.ts'
import type { UpstreamConnection } from '../../../src/agent/bridge/upstream/connections.ts'
import type { Upstream } from '../../../src/agent/bridge/upstream/upstream.ts'
import type { ToolServer } from '../../../src/dev/stack/tool-server.ts'
import type { Json } from '../../../src/wire/json.ts'
import { askingTools } from '../../support/asking-tools.ts'
import { upstreamTo } from '../../support/opened-upstream.ts'

const QUESTION = {
  mode: 'form' as const,
  message: 'Which?',
  requestedSchema: { type: 'object' as const, properties: {} },
}
/** How long a call is silent at least before it counts as one that waited in vain, milliseconds. */
const VAIN = 200
const ABILITIES = { elicitation: { form: {} } }

describe('A tool that asks where nobody hears it', () => {
  const tools = askingTools()
  let server: ToolServer
  let open: Upstream[]
  /** What is kept beyond one process. */
  let notes: Map<string, QuestionStream>
  let found: string[]
  let asked: number
  /** Whether the stream of the session passes, and after how many milliseconds. */
  let passes: boolean
  let pause: number
  /** The sessions in which a level of log messages was asked for, one for each request. */
  let levelled: unknown[]
  /** What happens when a call of a tool is at its server. */
  let reached: () => void
  const memory: AsideMemory = {
    read: tool => Promise.resolve(notes.get(tool)),
    keep: (tool, stream) => {
      if (stream === undefined) notes.delete(tool)
      else notes.set(tool, stream)
      return Promise.resolve()
    },
  }
  beforeEach(async () => {
    Object.assign(tools, { questions: [QUESTION], stream: 'session', patience: VAIN * 2, answers: [] })
    Object.assign(tools, { progress: 0, pace: 0, fails: undefined })
    notes = new Map()
    open = []
    found = []
    asked = 0
    passes = false
    pause = 0
    levelled = []
    reached = () => undefined
    server = await tools.start(0, handler => async (request, response) => {
      if (request.method === 'GET' && !passes) return void response.writeHead(405).end()
      if (request.method === 'GET') await delay(pause)
      const parsed: unknown = request.method === 'POST' ? JSON.parse(await text(request)) : undefined
      const { id, method } = (parsed ?? {}) as { id?: number; method?: string }
      if (method === 'tools/call') reached()
      if (method !== 'logging/setLevel') return void (await handler(request, response, parsed))
      levelled.push(request.headers['mcp-session-id'])
      await delay(VAIN * 2)
      const error = { code: -32_603, message: 'Not now.' }
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ jsonrpc: '2.0', id, error }))
    })
  })
  afterEach(async () => {
    for (const one of open) await one.close()
    await server.stop()
  })

  const started = (capabilities: object = ABILITIES, vainMillisecondsMin: number | undefined = VAIN) => {
    const upstream = upstreamTo(`http://127.0.0.1:${server.port}/mcp/alice`, {
      capabilities: () => capabilities,
      asides: memory,
      onAside: tool => void found.push(tool),
      vainMillisecondsMin,
    })
    open.push(upstream)
    return upstream
  }
  /** The words of the answer to a call of it. */
  const wordsOf = async (upstream: Upstream, tool = 'place_trade', signal?: AbortSignal): Promise<string> => {
    const ask = () => {
      asked++
      return Promise.resolve({ action: 'accept', content: {} })
    }
    const answer = await upstream.send({ call: { tool, arguments: {} }, ask, signal })
    return JSON.stringify(answer)
  }

  it('is called from then on where its server knows that nobody can be asked, and ends at once', async () => {
    const upstream = started()
    expect(await wordsOf(upstream)).toContain('timed out')
    tools.patience = 600_000
    expect(await wordsOf(upstream)).toContain('does not support')
    expect(await wordsOf(upstream)).toContain('does not support')
    expect([found, asked]).toEqual([['place_trade'], 0])
  })

  it('is known to the next process, which does not wait once', async () => {
    await wordsOf(started())
    tools.patience = 600_000
    expect(await wordsOf(started())).toContain('does not support')
  })

  it('is heard in the first call of a process where the stream passes by now', async () => {
    await wordsOf(started())
    passes = true
    expect(await wordsOf(started())).toContain('did place_trade')
    expect(asked).toBe(1)
  })

  it('is heard in the first call of a session whose stream opens only while that call is made', async () => {
    passes = true
    pause = VAIN
    expect(await wordsOf(started())).toContain('did place_trade')
    expect(asked).toBe(1)
  })

  it('is not taken for one where its call failed soon', async () => {
    const upstream = started(ABILITIES, 600_000)
    expect(await wordsOf(upstream)).toContain('timed out')
    expect(await wordsOf(upstream)).toContain('timed out')
    expect([found, [...notes]]).toEqual([[], []])
  })

  it('is not taken for one where it told of its progress until it failed', async () => {
    Object.assign(tools, { questions: [], progress: 8, pace: VAIN / 4, fails: 'The market is closed.' })
    const upstream = started()
    expect(await wordsOf(upstream)).toContain('The market is closed.')
    expect([found, [...notes]]).toEqual([[], []])
  })

  it('is taken for one where it told of its progress before it waited', async () => {
    tools.progress = 1
    await wordsOf(started())
    expect(found).toEqual(['place_trade'])
  })

  it('is not taken for one where its client left: a person stops a slow call, too', async () => {
    tools.patience = 600_000
    const client = new AbortController()
    reached = () => client.abort()
    // However short its silence was, so that it does not matter how long the call was on its way.
    await expect(wordsOf(started(ABILITIES, 0), 'place_trade', client.signal)).rejects.toThrow()
    expect([found, [...notes]]).toEqual([[], []])
  })

  it('leaves what changes its session in that session, however late that was refused', async () => {
    const upstream = started()
    const setLevel = (): Promise<unknown> => {
      const method = 'logging/setLevel'
      return upstream.send({ call: { tool: method, method, params: { level: 'info' } } })
    }
    await expect(setLevel()).rejects.toThrow()
    await expect(setLevel()).rejects.toThrow()
    expect(levelled).toHaveLength(2)
    expect(levelled[1]).toBe(levelled[0])
    expect([found, [...notes]]).toEqual([[], []])
  })

  it('leaves other tools of the server, which ask on the stream of the call, their questions', async () => {
    const upstream = started()
    await wordsOf(upstream)
    tools.stream = 'call'
    expect(await wordsOf(upstream, 'portfolio_read')).toContain('did portfolio_read')
    expect(asked).toBe(1)
  })

  it('is heard on the stream of the call all the same, and is called as before from then on', async () => {
    const upstream = started()
    await wordsOf(upstream)
    tools.stream = 'call'
    expect(await wordsOf(upstream)).toContain('did place_trade')
    expect(asked).toBe(1)
    expect(notes.get('place_trade')).toBe('call')
    // A long silence of such a tool has another cause.
    tools.stream = 'session'
    expect(await wordsOf(upstream)).toContain('timed out')
    expect(notes.get('place_trade')).toBe('call')
  })

  it('is called as before once it succeeded without a question', async () => {
    const upstream = started()
    await wordsOf(upstream)
    tools.questions = []
    expect(await wordsOf(upstream)).toContain('did place_trade')
    expect([...notes]).toEqual([])
    tools.questions = [QUESTION]
    expect(await wordsOf(upstream)).toContain('timed out')
  })
})

describe('A call shows that its tool asks where nobody hears it', () => {
  const unheard = { transport: { sessionId: 's' }, stream: { isOpen: false } } as UpstreamConnection
  const result = (members: Json) => ({ value: { kind: 'result' as const, result: members } })
  const error = (code: string, more: object = {}) => ({
    error: new AgentError(code, { detail: 'It failed.', local: true, ...more }),
  })
  const FAILED = result({ isError: true, content: [{ type: 'text', text: 'Délai dépassé.' }] })
  const isKnown = async (
    answer: ReturnType<typeof result> | ReturnType<typeof error>,
    change: { connection?: UpstreamConnection; questionCount?: number; abilities?: object } = {},
  ): Promise<boolean> => {
    const { connection = unheard, questionCount = 0, abilities = ABILITIES } = change
    const asides = createAsides({ capabilities: () => abilities })
    const end = { answer, milliseconds: 60_000, wasUnheard: isUnheard(connection) }
    asides.noteEnd({ tool: 'read', questionCount }, end)
    return asides.has('read')
  }

  it.each([
    ['a failure in any language', FAILED],
    ['an error of its own', error('rpc_error', { rpc: { code: -32_603, message: 'x' } })],
    ['no answer at all', error('outcome_unknown')],
  ])('by %s after a long silence', async (_what, answer) => {
    expect(await isKnown(answer)).toBe(true)
  })

  it.each([
    ['a success', result({ content: [] })],
    ['a challenge', { value: { kind: 'challenge' as const, challenge: {} as never } }],
    ['a refusal of its enforcement point', error('temporarily_unavailable')],
    ['an outage before it was sent', error('unreachable')],
  ])('not by %s', async (_what, answer) => {
    expect(await isKnown(answer as ReturnType<typeof result>)).toBe(false)
  })

  it('not where it asked in that call, where the stream was open, without sessions, or of a client that nobody can ask', async () => {
    const heard = { ...unheard, stream: { isOpen: true } } as UpstreamConnection
    const stateless = { ...unheard, transport: {} } as UpstreamConnection
    expect(await isKnown(FAILED, { questionCount: 1 })).toBe(false)
    expect(await isKnown(FAILED, { connection: heard })).toBe(false)
    expect(await isKnown(FAILED, { connection: stateless })).toBe(false)
    expect(await isKnown(FAILED, { abilities: {} })).toBe(false)
  })
})
