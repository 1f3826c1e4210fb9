/**
 * contract, "What the service does" and "Errors": one odd member of a list, or of an answer, spoils nothing
 * beside it. Null is absent where something is optional; a tool that is really wrong loses its own place and
 * is named.
 */
import { describe, expect, it } from 'vitest'
import { listedTools } from '../../../src/agent/bridge/listing/tools.ts'
import { document, INITIALIZED, READ, resultOf, startScriptedTools } from '../../support/scripted-tools.ts'
import { startedForEach } from '../../support/started.ts'

const tools = startedForEach(startScriptedTools)

const odd = (changes: object): object => ({ name: 'odd', inputSchema: { type: 'object' }, ...changes })
const input = (schema: unknown): object => odd({ inputSchema: schema })

async function listed(list: unknown): Promise<{ names: string[]; spoilt: object[] }> {
  tools.script('tools/list', resultOf(list))
  const answer = await tools.upstream().listTools()
  return { names: answer.tools.map(({ name }) => name), spoilt: answer.spoilt }
}

describe('A tool beside good ones', () => {
  it.each<[string, object]>([
    ['a hint', odd({ annotations: { readOnlyHint: null } })],
    [
      'every hint, and its title',
      odd({ annotations: { title: null, destructiveHint: null, openWorldHint: null } }),
    ],
    ['its annotations', odd({ annotations: null })],
    ['its title and its description', odd({ title: null, description: null })],
    ['its outputSchema', odd({ outputSchema: null })],
    ['the type of its outputSchema', odd({ outputSchema: { type: null } })],
    ['its icons, _meta and execution', odd({ icons: null, _meta: null, execution: null })],
    ['required and properties of its schema', input({ type: 'object', properties: null, required: null })],
    ['$schema and type of its schema', input({ $schema: null, type: null })],
  ])('is listed where null is %s', async (_what, tool) => {
    expect(await listed({ tools: [READ, tool] })).toEqual({ names: ['read', 'odd'], spoilt: [] })
  })

  it.each<[string, object | string, string]>([
    ['it is text', 'odd', 'tool 2'],
    ['it has no name', { inputSchema: { type: 'object' } }, 'tool 2'],
    ['its name is a number', odd({ name: 7 }), 'tool 2'],
    ['its description is a number', odd({ description: 7 }), 'odd'],
    ['a hint is text', odd({ annotations: { readOnlyHint: 'true' } }), 'odd'],
    ['its annotations are a list', odd({ annotations: [] }), 'odd'],
    ['it has no schema', odd({ inputSchema: null }), 'odd'],
    ['its schema is of an array', input({ type: 'array' }), 'odd'],
    ['required is no list', input({ type: 'object', required: 'symbol' }), 'odd'],
    ['a property has no schema', input({ type: 'object', properties: { symbol: null } }), 'odd'],
    ['its outputSchema is a list', odd({ outputSchema: [] }), 'odd'],
  ])('loses its own place, and is named, where %s', async (_what, tool, name) => {
    expect(await listed({ tools: [READ, tool] })).toEqual({
      names: ['read'],
      spoilt: [{ name, why: expect.stringMatching(/^\S.*\S$/) }],
    })
  })

  it('of 2025-11-25 is listed without an outputSchema that is of no object', async () => {
    const { names } = await listed({ tools: [READ, odd({ outputSchema: { type: 'array' } })] })
    expect(names).toEqual(['read', 'odd'])
  })

  it('is shown with what it has besides: the schema and the hints that are not null', async () => {
    const schema = { type: 'object', properties: { a: true, b: { default: null } }, default: null }
    const tool = odd({ inputSchema: schema, annotations: { readOnlyHint: null, idempotentHint: true } })
    tools.script('tools/list', resultOf({ tools: [tool] }))
    expect((await tools.upstream().listTools()).tools).toEqual([
      {
        name: 'odd',
        // Clients of 2025-11-25 take no boolean for a schema.
        inputSchema: { type: 'object', properties: { a: {}, b: { default: null } }, default: null },
        annotations: { idempotentHint: true },
      },
    ])
  })
})

describe('A number that no double carries', () => {
  const list = (more: string, schema: string): string =>
    `{"tools":[{"name":"read","inputSchema":{}},{"name":"odd","inputSchema":${schema}}]${more}}`
  const listing = async (result: string) => {
    tools.script('tools/list', ({ id, params }, response) =>
      document(
        response,
        `{"jsonrpc":"2.0","id":${id},"result":${params?.['cursor'] === undefined ? result : '{"tools":[]}'}}`,
      ),
    )
    return tools.upstream().listTools()
  }

  it.each<[string, object]>([
    ['{"properties":{"n":{"type":"integer","minimum":-1e999,"maximum":1e400}}}', { type: 'integer' }],
    ['{"properties":{"n":{"enum":[1,1e999],"default":-1e400}}}', { enum: [1] }],
  ])('and is past every double costs no tool its place: %s', async (schema, kept) => {
    const { tools: read, spoilt } = await listing(list('', schema))
    expect([read.map(({ name }) => name), spoilt]).toEqual([['read', 'odd'], []])
    expect(read[1]!.inputSchema.properties).toEqual({ n: kept })
    expect(listedTools(tools.url.href, '', read)).toHaveLength(2)
  })

  it.each([
    '"name":9007199254740993',
    '"title":9007199254740993',
    '"annotations":{"title":9007199254740993}',
  ])('stands for no text of a tool: %s', async member => {
    const tool = `{"name":"odd","inputSchema":{},${member}}`
    const { tools: read, spoilt } = await listing(`{"tools":[{"name":"read","inputSchema":{}},${tool}]}`)
    expect([read.map(({ name }) => name), spoilt]).toEqual([['read'], [expect.anything()]])
  })

  it.each(['{"required":[9007199254740993]}', '{"$schema":9007199254740993}'])(
    'stands for no text of a schema: %s',
    async schema => {
      const { spoilt } = await listing(list('', schema))
      expect(spoilt).toEqual([{ name: 'odd', why: expect.stringContaining('inputSchema') }])
    },
  )

  it('is asked for digit by digit where it names the next page', async () => {
    const asked: unknown[] = []
    tools.onText(text => asked.push(/"cursor":("[^"]*")/.exec(text)?.[1]))
    await listing(list(',"nextCursor":12345678901234567890', '{}'))
    expect(asked).toContain('"12345678901234567890"')
  })
})

describe('A list', () => {
  it.each<[string, object]>([
    ['nextCursor', { tools: [READ], nextCursor: null }],
    ['an empty nextCursor', { tools: [READ], nextCursor: '' }],
    ['ttlMs and cacheScope', { tools: [READ], ttlMs: null, cacheScope: null }],
    ['_meta', { tools: [READ], _meta: null }],
  ])('is read where null is %s', async (_what, list) => {
    expect(await listed(list)).toEqual({ names: ['read'], spoilt: [] })
  })

  it('of more than 2000 tools says which are left out', async () => {
    const named = (_one: unknown, at: number): object => ({ name: `t${at}`, inputSchema: { type: 'object' } })
    const { names, spoilt } = await listed({ tools: Array.from({ length: 2002 }, named) })
    expect(names).toHaveLength(2000)
    expect(spoilt).toEqual(['t2000', 't2001'].map(name => ({ name, why: expect.stringContaining('2000') })))
  })

  it('that is null has no tools', async () => {
    expect(await listed({ tools: null })).toEqual({ names: [], spoilt: [] })
  })
})

describe('A server that says of itself', () => {
  it.each<[string, object]>([
    ['instructions', { ...INITIALIZED, instructions: null }],
    [
      'its title and its icons',
      { ...INITIALIZED, serverInfo: { name: 's', version: '1', title: null, icons: null } },
    ],
    [
      'what it can do',
      { ...INITIALIZED, capabilities: { tools: { listChanged: null }, prompts: null, logging: null } },
    ],
    ['_meta', { ...INITIALIZED, _meta: null }],
  ])('null for %s is connected to', async (_what, initialized) => {
    tools.script('initialize', resultOf(initialized))
    expect((await tools.upstream().listTools()).tools.map(({ name }) => name)).toEqual(['read'])
  })

  it.each<[string, object]>([
    ['a list for an empty capability', { capabilities: { tools: {}, logging: [] } }],
    ['a list for its tools', { capabilities: { tools: [] } }],
    ['yes for a capability', { capabilities: { tools: true, prompts: true } }],
    ['text for a hint of one', { capabilities: { tools: { listChanged: 'true' } } }],
    ['no version', { serverInfo: { name: 's' } }],
    ['a version that is a number', { serverInfo: { name: 's', version: 1 } }],
    ['nothing', { serverInfo: null }],
    ['icons without an address', { serverInfo: { name: 's', version: '1', icons: [{}] } }],
    ['instructions in a list', { instructions: ['Use it.'] }],
    ['a list for _meta', { _meta: [] }],
  ])('%s is connected to', async (_what, odd) => {
    tools.script('initialize', resultOf({ ...INITIALIZED, ...odd }))
    expect((await tools.upstream().listTools()).tools.map(({ name }) => name)).toEqual(['read'])
  })

  it.each<[string, object]>([
    ['null for each member that it has none for', { method: null, params: null, error: null }],
    ['false for the error', { error: false }],
  ])('%s, beside each result, is connected to, listed and called', async (_what, beside) => {
    for (const [method, result] of [
      ['initialize', INITIALIZED],
      ['tools/list', { tools: [READ] }],
      ['tools/call', { content: [] }],
    ] as const)
      tools.script(method, ({ id }, response) => {
        response.writeHead(200, { 'content-type': 'application/json' })
        response.end(JSON.stringify({ jsonrpc: '2.0', id, result, ...beside }))
      })
    const upstream = tools.upstream()
    expect((await upstream.listTools()).tools).toHaveLength(1)
    expect(await upstream.send({ call: { tool: 'read' } })).toEqual({
      kind: 'result',
      result: { content: [] },
    })
  })

  it('a number for the next page is asked for that page', async () => {
    const seen: unknown[] = []
    tools.script('tools/list', (came, response) => {
      seen.push(came.params?.['cursor'])
      const page = seen.length === 1 ? { tools: [READ], nextCursor: 2 } : { tools: [odd({})] }
      resultOf(page)(came, response)
    })
    const { tools: all } = await tools.upstream().listTools()
    expect([all.map(({ name }) => name), seen]).toEqual([
      ['read', 'odd'],
      [undefined, '2'],
    ])
  })

  it('null for the error beside each result is connected to, listed and called', async () => {
    for (const [method, result] of [
      ['initialize', INITIALIZED],
      ['tools/list', { tools: [READ] }],
      ['tools/call', { content: [], isError: null }],
    ] as const)
      tools.script(method, ({ id }, response) => {
        response.writeHead(200, { 'content-type': 'application/json' })
        response.end(JSON.stringify({ jsonrpc: '2.0', id, result, error: null, time: 3 }))
      })
    const upstream = tools.upstream()
    expect((await upstream.listTools()).tools).toHaveLength(1)
    expect(await upstream.send({ call: { tool: 'read' } })).toEqual({
      kind: 'result',
      result: { content: [] },
    })
  })
})
