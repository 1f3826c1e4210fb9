/**
 * contract, "Errors" and "Authorized call": what a tool answered reaches the client as it was written, digit
 * by digit, and a request is answered under the id that it was sent with, whatever a double makes of them.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  asQuestion,
  asWritten,
  messageAsWritten,
  parseMarked,
  writingLines,
} from '../../../src/agent/bridge/answers/as-written.ts'
import { plainElicitation } from '../../../src/agent/bridge/questions/asked-back.ts'
import { withoutOurMarks } from '../../../src/agent/bridge/answers/answers.ts'
import { bridgeFolder } from '../../support/bridge.ts'
import { rawBridge, type Over, type RawBridge, type Revision } from '../../support/raw-bridge.ts'
import { document, resultOf, startScriptedTools, type ScriptedTools } from '../../support/scripted-tools.ts'

const CLIENTS: [Over, Revision][] = [
  ['standard input', '2025-11-25'],
  ['standard input', '2026-07-28'],
  ['HTTP', '2025-11-25'],
  ['HTTP', '2026-07-28'],
]
/** What a tool's result has in it, as text. */
const RESULTS: [string, string][] = [
  ['an integer past 2^53', '"structuredContent":{"balance":9007199254740993}'],
  ['one deep in a list', '"structuredContent":{"rows":[{"ids":[1,12345678901234567890]}]}'],
  ['a fraction of many digits', '"structuredContent":{"price":-0.1234567890123456789}'],
  ['a number past every double', '"structuredContent":{"n":1e400,"tiny":1e-400}'],
  ['one in its _meta', '"_meta":{"bank/id":9007199254740993}'],
  ['structured content with __proto__', '"structuredContent":{"__proto__":{"n":1},"b":[{"__proto__":2}]}'],
  ['text that looks as if it were marked', '"structuredContent":{"usher:as-written:1":"usher:as-written:5"}'],
]
/** What a tool of the list has in it, as text, and as the client is shown it. */
const LISTED: [string, string, string?][] = [
  ['a title that looks as if it were marked', '"title":"usher:as-written:1"'],
  [
    'a description that does',
    '"description":"usher:as-written:2"',
    '"description":"usher:as-written:2\\nMay',
  ],
  ['a label that does', '"annotations":{"title":"usher:as-written:3"}', '"title":"usher:as-written:3"'],
  [
    'values that no double carries, and one that looks so',
    '"inputSchema":{"type":"object","properties":{"n":{"maximum":9223372036854775807,"enum":[9007199254740993,"usher:as-written:4"],"default":0.1234567890123456789}}}',
  ],
  [
    'names that are dropped, or look as if they were marked',
    '"outputSchema":{"type":"object","properties":{"__proto__":{"const":-12345678901234567890},"usher:as-written:5":{}}}',
  ],
]
const CONTENT = '"content":[{"type":"text","text":"9007199254740993"}]'

describe.each(CLIENTS)('Over %s, to a client of %s,', (over, revision) => {
  let tools: ScriptedTools
  let folder: Awaited<ReturnType<typeof bridgeFolder>>
  let bridge: RawBridge
  beforeAll(async () => {
    tools = await startScriptedTools()
    folder = await bridgeFolder()
    const of = LISTED.map(([, member]) => member)
    tools.script('tools/list', ({ id }, response) =>
      document(
        response,
        `{"jsonrpc":"2.0","id":${id},"result":{"tools":[{"name":"read","inputSchema":{}},{"name":"odd",${of.join()}}]}}`,
      ),
    )
    bridge = await rawBridge(over, revision, tools.url.href, folder.folder)
  }, 30_000)
  afterAll(async () => {
    await bridge?.close()
    await tools.close()
    await folder.remove()
  })
  const READ = '{"name":"read","arguments":{}}'

  it.each(LISTED)('a tool reaches the client with %s', async (_what, member, shown = member) => {
    const list = await bridge.ask(bridge.request('"tools"', 'tools/list', '{}'), '"id":"tools"')
    expect(list).toContain(shown)
  })

  it.each(RESULTS)('a result reaches the client with %s', async (_what, member) => {
    tools.script('tools/call', ({ id }, response) =>
      document(response, `{"jsonrpc":"2.0","id":${id},"result":{${CONTENT},${member}}}`),
    )
    expect(await bridge.ask(bridge.request('"a"', 'tools/call', READ), '"id":"a"')).toContain(
      member.slice(0, -1),
    )
  })

  it('a result that comes in a stream does so too', async () => {
    tools.script('tools/call', ({ id }, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.end(
        `data: {"jsonrpc":"2.0","id":${id},"result":{${CONTENT},"structuredContent":{"n":9007199254740993}}}\n\n`,
      )
    })
    expect(await bridge.ask(bridge.request('"s"', 'tools/call', READ), '"id":"s"')).toContain(
      '{"n":9007199254740993}',
    )
  })

  it('structured content that is a list is shown as text with its digits', async () => {
    tools.script('tools/call', ({ id }, response) =>
      document(
        response,
        `{"jsonrpc":"2.0","id":${id},"result":{"content":[],"structuredContent":[9007199254740993]}}`,
      ),
    )
    const line = await bridge.ask(bridge.request('"l"', 'tools/call', READ), '"id":"l"')
    expect(line).toContain('"text":"[9007199254740993]"')
    const list = revision === '2025-11-25' ? '{"result":[9007199254740993]}' : '[9007199254740993]'
    expect(line).toContain(`"structuredContent":${list}`)
  })

  it('a part that is told in words is quoted with its digits', async () => {
    tools.script('tools/call', ({ id }, response) =>
      document(
        response,
        `{"jsonrpc":"2.0","id":${id},"result":{"content":[{"type":"sum","of":9007199254740993}]}}`,
      ),
    )
    expect(await bridge.ask(bridge.request('"w"', 'tools/call', READ), '"id":"w"')).toContain(
      "'of':9007199254740993",
    )
  })

  it('a part stays a part whose annotations have many digits', async () => {
    const annotations = '"annotations":{"priority":0.12345678901234567890}'
    tools.script('tools/call', ({ id }, response) =>
      document(
        response,
        `{"jsonrpc":"2.0","id":${id},"result":{"content":[{"type":"text","text":"t",${annotations}}]}}`,
      ),
    )
    expect(await bridge.ask(bridge.request('"p"', 'tools/call', READ), '"id":"p"')).toContain(
      '"priority":0.1234567890123456',
    )
  })

  it.each([
    ['past 2^53', '9007199254740993'],
    ['of 20 digits', '-12345678901234567890'],
    ['past every double', '1e400'],
    ['that is text and looks as if it were marked', '"usher:as-written:12345678901234567890"'],
  ])('a request is answered under its own id: %s', async (_what, id) => {
    tools.script('tools/call', resultOf({ content: [] }))
    const list = await bridge.ask(bridge.request(id, 'tools/list', '{}'), `"id":${id}`)
    expect(list).toContain('"name":"read"')
    expect(await bridge.ask(bridge.request(id, 'tools/call', READ), `"id":${id}`)).toContain('"content":[]')
    expect(await bridge.ask(bridge.request(id, 'none', '{}'), `"id":${id}`)).toContain('-32601')
  })

  it("an answer to a task's question is refused where it would arrive as another", async () => {
    const answers = (n: string): string =>
      `{"taskId":"t","inputResponses":{"q":{"action":"accept","content":{"n":${n}}}}}`
    const update = (n: string) => bridge.ask(bridge.request('"u"', 'tasks/update', answers(n)), '"id":"u"')
    const words = revision === '2025-11-25' ? 'Method not found' : 'Send numbers that a double carries'
    expect(await update('9007199254740993')).toContain(words)
    expect(await update('9007199254740992')).toContain(words === 'Method not found' ? words : 'no such task')
  })

  it('progress is told under the token that the client sent', async () => {
    tools.script('tools/call', ({ id, params }, response) => {
      const { progressToken } = params!['_meta'] as { progressToken: unknown }
      const told = {
        jsonrpc: '2.0',
        method: 'notifications/progress',
        params: { progressToken, progress: 1 },
      }
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(`data: ${JSON.stringify(told)}\n\n`)
      response.end(`data: ${JSON.stringify({ jsonrpc: '2.0', id, result: { content: [] } })}\n\n`)
    })
    await bridge.ask(
      bridge.request('"t"', 'tools/call', READ, '"progressToken":9007199254740993'),
      '"id":"t"',
    )
    const told = bridge.lines.find(line => line.includes('notifications/progress'))
    expect(told).toContain('"progressToken":9007199254740993')
  })
})

describe('A server of its own requests', () => {
  it.each(['9007199254740993', '-12345678901234567890', '"usher:as-written:7"'])(
    'is answered under the id that it sent: %s',
    async asks => {
      const tools = await startScriptedTools()
      const answered = Promise.withResolvers<string>()
      const ping = `{"jsonrpc":"2.0","id":${asks},"method":"ping"}`
      tools.onText(text => text.includes('"result":{}') && answered.resolve(text))
      tools.script('tools/call', ({ id }, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.write(`data: ${ping}\n\n`)
        void answered.promise.then(() =>
          response.end(`data: ${JSON.stringify({ jsonrpc: '2.0', id, result: { content: [] } })}\n\n`),
        )
      })
      try {
        await tools.upstream().send({ call: { tool: 'read' } })
        expect(await answered.promise).toContain(`"id":${asks}`)
      } finally {
        await tools.close()
      }
    },
  )
})

describe('A form', () => {
  const asker = { resource: 'https://r.example', tool: 'read' }
  it('shows no number that it would show as another, and loses nothing else', () => {
    const fields =
      '{"n":{"type":"integer","default":9007199254740993,"maximum":9223372036854775807,"minimum":1}}'
    const { exact } = parseMarked(`{"message":"m","requestedSchema":{"properties":${fields}}}`)
    const { requestedSchema } = plainElicitation(exact, asker)
    expect(requestedSchema).toEqual({ type: 'object', properties: { n: { type: 'integer', minimum: 1 } } })
  })
})

describe('What is marked', () => {
  it("is never taken for a mark of the bridge's own", () => {
    const { exact } = parseMarked('{"_meta":{"usher:as-written:text:usher/reason":"x","usher/reason":"y"}}')
    const written = JSON.stringify(asWritten(withoutOurMarks(exact)))
    expect(written).toBe('{"_meta":{"usher:as-written:text:usher/reason":"x"}}')
  })

  it.each([
    ['a call', { resultType: 'input_required' }],
    ['a task', { status: 'input_required' }],
  ])('is nothing in the questions of %s: they look as their server wrote them', (_what, of) => {
    const { plain, exact } = parseMarked('{"ask":{"title":"usher:as-written:5","usher:as-written:6":"x"}}')
    expect(messageAsWritten({ id: 1, result: { ...of, inputRequests: asQuestion(exact) } })).toEqual({
      id: 1,
      result: { ...of, inputRequests: plain },
    })
  })

  it('is written as it was wherever a stream is cut', async () => {
    const text = '{"id":"usher:as-written:12345678901234567890","result":{"é":"usher:as-written:0.1e-999"}}'
    const bytes = Buffer.from(`event: message\ndata: ${text}\n\n${text}`)
    for (let cut = 1; cut < bytes.length; cut += 7) {
      const cutting = new ReadableStream<Uint8Array>({
        start: controller => {
          controller.enqueue(bytes.subarray(0, cut))
          controller.enqueue(bytes.subarray(cut))
          controller.close()
        },
      }).pipeThrough(writingLines())
      const whole = '{"id":12345678901234567890,"result":{"é":0.1e-999}}'
      expect(await new Response(cutting).text()).toBe(`event: message\ndata: ${whole}\n\n${whole}`)
    }
  })
})
