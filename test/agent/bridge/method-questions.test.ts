/**
 * contract, "Agreement (claim_token, beat 3)" (what strangers write is shown, never obeyed), for servers of
 * both revisions that ask before they answer `resources/read` and `prompts/get`: the question reaches the
 * person at the client as the server's, escaped, and her word reaches the server.
 */
import { inputRequired, Server as Server2 } from '@modelcontextprotocol/server'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { ElicitResultSchema } from '@modelcontextprotocol/sdk/types.js'
import { describe, expect, it } from 'vitest'
import { parse, stringify } from 'yaml'
import type { ToolServer } from '../../../src/dev/stack/tool-server.ts'
import { useAskingServers, type Revision } from '../../support/asking-servers.ts'
import type { ClientKind } from '../../support/bridge.ts'
import { useBridges } from '../../support/bridge-stand.ts'
import { rowsOfLayer } from '../../support/layer.ts'
import { answerInSessions } from '../../support/session-servers.ts'
import { listenAsTools } from '../../support/tool-listener.ts'

const URI = 'demo://statement/1'
const MESSAGE = '\u001b]0;x\u0007 \u202eWhich <img src=x>?\nAccept the terms of usher?'
const LIVE = /[\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}]|<img|\]\(/u
const FIELD = { type: 'string' as const, enum: ['march', 'april'] }
const FORM = {
  message: MESSAGE,
  requestedSchema: { type: 'object' as const, properties: { month: FIELD }, required: ['month'] },
}
const PAGE = { ttlMs: 0, cacheScope: 'private' as const }
const said = (action: string, content: unknown): string => `${action} ${JSON.stringify(content ?? {})}`
const contents = (words: string) => ({ contents: [{ uri: URI, text: words }] })
const messages = (words: string) => ({
  messages: [{ role: 'user' as const, content: { type: 'text' as const, text: words } }],
})

function earlier(): McpServer {
  const server = new McpServer({ name: 'asking', version: '1' }, { enforceStrictCapabilities: false })
  const request = { method: 'elicitation/create' as const, params: { mode: 'form' as const, ...FORM } }
  server.registerResource('statement', URI, {}, async (_uri, { sendRequest }) => {
    const { action, content } = await sendRequest(request, ElicitResultSchema)
    return contents(said(action, content))
  })
  server.registerPrompt('sum', {}, async ({ sendRequest }) => {
    const { action, content } = await sendRequest(request, ElicitResultSchema)
    return messages(said(action, content))
  })
  return server
}

interface Brought {
  inputResponses?: unknown
  requestState: () => unknown
}
/** Answers by what it is brought, or asks. */
function later(): Server2 {
  const server = new Server2(
    { name: 'asking', version: '2' },
    { capabilities: { resources: {}, prompts: {} } },
  )
  const answered = (mcpReq: Brought): string | undefined => {
    const { which } = (mcpReq.inputResponses ?? {}) as { which?: { action: string; content?: object } }
    if (which === undefined || mcpReq.requestState() !== 'asked once') return undefined
    return said(which.action, which.content)
  }
  const question = () =>
    inputRequired({ inputRequests: { which: inputRequired.elicit(FORM) }, requestState: 'asked once' })
  const resources = [{ uri: URI, name: 'statement' }]
  server.setRequestHandler('resources/list', () => ({ resources, ...PAGE }))
  server.setRequestHandler('prompts/list', () => ({ prompts: [{ name: 'sum' }], ...PAGE }))
  server.setRequestHandler('resources/read', (_request, { mcpReq }) => {
    const words = answered(mcpReq)
    return words === undefined ? question() : { ...contents(words), ...PAGE }
  })
  server.setRequestHandler('prompts/get', (_request, { mcpReq }) => {
    const words = answered(mcpReq)
    return words === undefined ? question() : messages(words)
  })
  return server
}

const servers = useAskingServers({ earlier, later })

/** The part that clients of both SDKs share. */
interface Objects {
  readResource(params: { uri: string }): Promise<{ contents: { text: string }[] }>
  getPrompt(params: { name: string }): Promise<{ messages: { content: { text: string } }[] }>
}
/** The two requests, as a client makes them, by the words of their answers. */
const REQUESTS: Record<string, (client: Objects) => Promise<string>> = {
  'resources/read': async client => (await client.readResource({ uri: URI })).contents[0]!.text,
  'prompts/get': async client => (await client.getPrompt({ name: 'sum' })).messages[0]!.content.text,
}

interface Way {
  kind: ClientKind
  revision: Revision
  method: string
}
const KINDS: ClientKind[] = ['1.x 2025-11-25', '2.x 2026-07-28']
const REVISIONS: Revision[] = ['earlier', 'later']
const allWays: Way[] = KINDS.flatMap(kind =>
  REVISIONS.flatMap(revision => Object.keys(REQUESTS).map(method => ({ kind, revision, method }))),
)
/** Of `make test`: each client, revision and method once. */
const QUICK = ['1.x 2025-11-25 earlier resources/read', '2.x 2026-07-28 later prompts/get']
const WAYS = rowsOfLayer(allWays, ({ kind, revision, method }) =>
  QUICK.includes(`${kind} ${revision} ${method}`),
)

async function clientOf({ kind, revision }: Way, capabilities: object, word?: 'decline') {
  const bridged = await servers.bridge(revision, {
    kind,
    capabilities,
    ...(word !== undefined && { word: () => word }),
  })
  return { ...bridged, objects: bridged.client as unknown as Objects }
}
const FORMS = { elicitation: { form: {} } }

describe.each(WAYS)('$method of a server of the $revision revision, by the client $kind', way => {
  const request = REQUESTS[way.method]!

  it("shows its question as the server's, escaped, and gets what the person filled in", async () => {
    const { objects, elicited, resource } = await clientOf(way, FORMS)
    expect(await request(objects)).toBe('accept {"month":"march"}')
    expect(elicited).toHaveLength(1)
    const [{ message, requestedSchema }] = elicited as [(typeof elicited)[number]]
    expect(message.split('\n')[0]).toBe(
      `The tool's server asks this (${way.method} at ${resource}), not usher and not the owner. Its words:`,
    )
    expect(message).toContain('Which')
    expect(message.replaceAll('\n', ' ')).not.toMatch(LIVE)
    expect(requestedSchema).toMatchObject({ properties: { month: FIELD } })
  })

  it('gets her decline', async () => {
    const { objects } = await clientOf(way, FORMS, 'decline')
    expect(await request(objects)).toBe('decline {}')
  })

  it('fails in words that say so where the client shows no forms', async () => {
    const { objects, elicited } = await clientOf(way, {})
    await expect(request(objects)).rejects.toThrow(/Method not found|not support|capabilit/i)
    expect(elicited).toEqual([])
  })
})

describe('A server behind an enforcement point, where the owner is asked about each read', () => {
  const stand = useBridges({
    stack: {
      authorityEnvironment: { UMA_AS_POLL_SECONDS: '1' },
      toolServer: (port, protect = handler => handler) => {
        const record: ToolServer['record'] = { arrivals: [], executions: [] }
        return listenAsTools({ port, protect }, record, answerInSessions(earlier))
      },
      changeSidecar: yaml => {
        const settings = parse(yaml) as { owners: object[] }
        const methods = { 'resources/read': { tool: 'place_trade' } }
        return Promise.resolve(
          stringify({ ...settings, owners: settings.owners.map(one => ({ ...one, methods })) }),
        )
      },
    },
    args: ['--hold', '20'],
  })

  it('has its question put to the person in the read that was approved, which is made once', async () => {
    const { client, elicited } = await stand.bridge({ capabilities: FORMS })
    const answer = REQUESTS['resources/read']!(client as unknown as Objects)
    answer.catch(() => undefined)
    await stand.owner.decide((await stand.waiting()).family, 'approved')
    expect(await answer).toBe('accept {"month":"march"}')
    expect(elicited.map(({ message }) => message.split('\n', 1)[0])).toEqual([
      expect.stringContaining('may be used on these terms'),
      expect.stringContaining("The tool's server asks this (resources/read at"),
    ])
    const { arrivals } = stand.stack.toolServer.record
    expect(arrivals.filter(({ body }) => body.includes('"resources/read"'))).toHaveLength(1)
  })
})
