/**
 * `usher sidecar tools`: contract, "Authorized call" (the tool maps to a resource), "Resource metadata". Of
 * real servers on both revisions of the official SDK.
 */
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { runToolsSurvey, type SurveyOptions } from '../../../src/agent/bridge/survey/main.ts'
import { toolsBlock } from '../../../src/agent/bridge/survey/block.ts'
import { SIDECAR_FILE } from '../../../src/config/sidecar/sidecar-file.ts'
import { freePorts } from '../../../src/dev/stack/ports.ts'
import { startToolServer, type ToolServer } from '../../../src/dev/stack/tool-server.ts'
import { askingTools } from '../../support/asking-tools.ts'
import { capturedTerminal } from '../../support/captured-terminal.ts'
import { configFolder } from '../../support/config-files.ts'
import { oldTools } from '../../support/old-tools.ts'

const { folder } = configFolder()
let server: ToolServer
let old: ToolServer
/** One that keeps sessions, and may serve their streams. */
let asking: ToolServer
let isStreamServed: boolean
let odd: ReturnType<typeof createServer>
/** What the odd one answers with, and what it was sent. */
const answers = {
  status: 500,
  headers: {} as Record<string, string>,
  sent: {} as NodeJS.Dict<string | string[]>,
}
beforeAll(async () => {
  ;[server, old, asking] = await Promise.all([
    startToolServer(0),
    oldTools().start(0),
    askingTools().start(
      0,
      handler => (request, response) =>
        request.method === 'GET' && !isStreamServed
          ? void response.writeHead(405).end()
          : handler(request, response),
    ),
  ])
  odd = createServer((request, response) => {
    answers.sent = request.headers
    request.resume()
    response.writeHead(answers.status, answers.headers).end('no')
  })
  await new Promise<void>(resolve => odd.listen(0, '127.0.0.1', resolve))
})
afterAll(async () => {
  odd.close()
  odd.closeAllConnections()
  await Promise.all([server.stop(), old.stop(), asking.stop()])
})
beforeEach(() => void (isStreamServed = true))

const at = (port: number) => `http://127.0.0.1:${port}/mcp`
const survey = async (url: string, options: SurveyOptions = {}) => {
  const terminal = capturedTerminal()
  await runToolsSurvey(url, options, terminal)
  return terminal.printed
}
const methodsIn = (text: string): unknown => (parse(text) as { methods?: unknown }).methods
/** As the sidecar's file would have it. */
const toolsIn = (text: string) => {
  const { tools } = parse(text) as { tools: object[] }
  const file = { owners: [{ owner: 'alice', authority: 'https://as.example', tools }] }
  return SIDECAR_FILE.shape.owners.parse(file.owners)[0]!.tools
}

describe('usher sidecar tools', () => {
  const port = () => (odd.address() as AddressInfo).port

  test('writes the tools of a server, with the consequences that its annotations say', async () => {
    const text = await survey(at(server.port), { owner: 'alice' })
    expect(text).toContain('(MCP 2026-07-28)')
    expect(text).toContain('# Buys at the market; it cannot be undone.')
    expect(toolsIn(text)).toEqual([
      entry('portfolio_read', 'read', 'reversible'),
      entry('statement_read', 'read', 'reversible'),
      entry('place_trade', 'write', 'irreversible'),
      entry('close_account', 'write', 'irreversible'),
    ])
  })

  test('of a server of MCP 2025-11-25, too; what says nothing of itself stays undescribed', async () => {
    const text = await survey(at(old.port))
    expect(text).toContain('(MCP 2025-11-25)')
    expect(toolsIn(text)).toMatchObject([
      { tool: 'portfolio_read', resource_id: '{owner}/portfolio_read' },
      { tool: 'place_trade' },
    ])
    expect(text).toContain('# consequence: the server says nothing of it.')
    expect(text).not.toMatch(/^ +consequence:/m)
  })

  test('lets the stream of a session pass where a server serves one, and says what that gives away', async () => {
    const text = await survey(at(asking.port))
    expect(methodsIn(text)).toEqual({ 'logging/setLevel': 'free', GET: 'free' })
    expect(text).toMatch(
      /# .*whoever\n +# knows the id of a session hears there .*[^]*`open_methods: \[GET\]`/,
    )
    expect(toolsIn(text)).toHaveLength(2)
    isStreamServed = false
    expect(methodsIn(await survey(at(asking.port)))).toEqual({ 'logging/setLevel': 'free' })
    for (const { port: other } of [server, old]) expect(await survey(at(other))).not.toContain('GET')
  })

  test.each<[string, string, boolean]>([
    ['is closed', '', true],
    ['is free', '  GET: free\n', false],
    ['is left out on purpose', '  # left out: GET\n', false],
  ])('compares the stream of a session with the file, too, where it %s', async (_what, line, isNew) => {
    const diff = join(folder, 'block.yaml')
    const block = (await survey(at(asking.port))).replace(/( +#.*\n)+ +GET: free\n$/, line)
    writeFileSync(diff, block)
    const found = await survey(at(asking.port), { diff })
    expect(/^new method "GET": the stream of its sessions is closed/m.test(found)).toBe(isNew)
    expect(found.includes('says what')).toBe(!isNew)
  })

  test.each<[string, object | undefined, string, string | undefined]>([
    ['reads alone', { readOnlyHint: true }, 'read', 'reversible'],
    [
      'says that it reads and destroys',
      { readOnlyHint: true, destructiveHint: true },
      'write',
      'irreversible',
    ],
    ['destroys', { destructiveHint: true }, 'write', 'irreversible'],
    ['only adds', { readOnlyHint: false, destructiveHint: false }, 'write', 'compensatable'],
    ['changes something', { readOnlyHint: false }, 'write', 'irreversible'],
    ['says nothing', undefined, 'write', undefined],
    ['says it in words', { readOnlyHint: 'true' }, 'write', undefined],
    ['says it in a list', [], 'write', undefined],
  ])('a tool that %s', (_what, annotations, scope, consequence) => {
    const text = toolsBlock([{ name: 'it', annotations }], {
      url: 'http://x/',
      owner: 'alice',
      revision: undefined,
    })
    expect(toolsIn(text)).toEqual([entry('it', scope, consequence)])
  })

  test('nothing that a server writes leaves its comment or its quotes', () => {
    const hostile = [
      { name: 'a"\n  - tool: b', description: 'x' },
      { name: 'c', description: 'words\n  - tool: injected\u2028tools: []\u001b[2J' },
      { name: 'd: #\'"\\{owner}', description: 7 },
      { name: 'c' },
      { name: '../../etc' },
    ]
    const text = toolsBlock(hostile, { url: 'http://x/\n#', owner: 'alice', revision: 'x\ntools: 1' })
    expect(toolsIn(text)!.map(({ tool, resource_id }) => [tool, resource_id])).toEqual([
      ['c', 'alice/c'],
      ['../../etc', 'alice/..-..-etc'],
    ])
    expect(text).not.toContain('\u001b')
    expect(text).toContain('is listed twice')
  })

  test('sends the header fields that it is told to send', async () => {
    await expect(survey(at(port()), { header: ['x-uma-owner: alice'] })).rejects.toThrow()
    expect(answers.sent['x-uma-owner']).toBe('alice')
  })

  test.each<[number, RegExp]>([
    [401, /it asks who calls\. Give the address of the server itself/],
    [302, /a redirect, which is not followed/],
    [404, /no MCP server is at this path/],
    [500, /it answered 500\. See its log/],
    [200, /does not speak MCP over Streamable HTTP there.*Correct the path/],
  ])('an answer of %i is told with the remedy', async (status, says) => {
    answers.status = status
    answers.headers = status === 302 ? { location: at(server.port) } : { 'content-type': 'text/html' }
    await expect(survey(at(port()))).rejects.toThrow(says)
  })

  test('a server that is not there is told with the remedy', async () => {
    const [away] = await freePorts(1)
    await expect(survey(at(away))).rejects.toThrow(
      /could not be read: nothing listens there \(ECONNREFUSED\)\. Start it/,
    )
    await expect(survey(`https://127.0.0.1:${server.port}/mcp`)).rejects.toThrow(/does not speak TLS there/)
  })

  test.each<[string, string, SurveyOptions]>([
    ['an address that is none', 'tools', {}],
    ['another scheme', 'file:///etc/passwd', {}],
    ['a password in the address', 'http://a:b@127.0.0.1/', {}],
    ['no name of an owner', 'http://127.0.0.1:1/', { owner: '../bob' }],
    ['a header without a value', 'http://127.0.0.1:1/', { header: ['x-uma-owner'] }],
  ])('%s is refused before anything is sent', async (_what, url, options) => {
    await expect(survey(url, options)).rejects.toMatchObject({ name: 'UsageError' })
  })
})

function entry(tool: string, scope: string, consequence: string | undefined) {
  return {
    tool,
    resource_id: `alice/${tool}`,
    scopes: [scope],
    ...(consequence === undefined ? {} : { consequence }),
  }
}
