/**
 * The official SDK's own clients, of both revisions, through a real Envoy as shipped (envoy/envoy.yaml,
 * envoy/envoy-http.yaml), to the demo's MCP server and to one that keeps sessions. contract, "Authorized
 * call"; MCP 2025-11-25 and 2026-07-28.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { LoggingMessageNotificationSchema } from '@modelcontextprotocol/sdk/types.js'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { startChild, untilReady, type Child } from '../../src/dev/stack/child-process.ts'
import type { Envoy } from '../../src/dev/stack/envoy-binary.ts'
import { envoyConfig } from '../../src/dev/stack/envoy-config.ts'
import { accepts, freePorts } from '../../src/dev/stack/ports.ts'
import { startToolServer, type ToolServer } from '../../src/dev/stack/tool-server.ts'
import type { Sidecar } from '../../src/enforcement/main.ts'
import { parseChallenge } from '../../src/wire/negotiation/challenge.ts'
import { s256Json } from '../../src/wire/encoding.ts'
import { newKey, PUBLIC_URL } from '../enforcement/calls.ts'
import { singleUseGrant, standingGrant } from '../support/embedded.ts'
import { envoy } from '../support/envoy.ts'
import {
  connect1,
  connect2,
  newWallet,
  signingFetch,
  type Connected,
  type Wallet,
} from '../support/mcp-clients.ts'
import { describeWith } from '../support/requirement.ts'
import { startScriptedAuthority, type ScriptedAuthority } from '../support/scripted-authority.ts'
import { createSessionTools, type SessionTools } from '../support/session-tools.ts'
import { startTestSidecar } from '../support/sidecar.ts'
import { until } from '../support/until.ts'

const agent = newKey()
const RESOURCE = `${PUBLIC_URL}/mcp/alice`
const TRADE = { symbol: 'VTI', qty: 2 }
/** Ways to ask, by what they are called. */
const DOORS = [
  ['asks by gRPC', false],
  ['asks by HTTP', true],
] as const

describeWith(await envoy(), "The official SDK's clients", found => {
  let authority: ScriptedAuthority
  let directory: string
  let tools: ToolServer
  let sessionTools: SessionTools
  let open: (() => Promise<unknown>)[]

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'usher-clients-'))
    authority = await startScriptedAuthority()
    sessionTools = createSessionTools()
    // One upstream of Envoy; a field that no client of the world sends says which of the two servers is
    // meant.
    tools = await startToolServer(
      0,
      handler => (request, response) =>
        request.headers['x-which-server'] === 'sessions'
          ? sessionTools.handle(request, response)
          : handler(request, response),
    )
  })
  afterAll(async () => {
    await sessionTools?.close()
    await tools?.stop()
    await authority?.close()
    await rm(directory, { recursive: true })
  })
  beforeEach(() => {
    authority.reset()
    open = []
    for (const heard of [tools.record.arrivals, tools.record.executions]) heard.length = 0
    for (const heard of [sessionTools.arrivals, sessionTools.executions]) heard.length = 0
  })
  afterEach(async () => {
    for (const close of open.reverse()) await close()
  })

  const single = (): string =>
    singleUseGrant(authority, agent, { tool: 'place_trade', params_s256: s256Json(TRADE) })
  const standing = (): string => standingGrant(authority, agent)
  /** What the authority was asked; reports of earlier calls come when they come. */
  const asked = (): string[] =>
    authority.received.map(({ path }) => path).filter(path => path !== '/audit/access')

  describe.each(DOORS)('through an Envoy that %s', (_how, byHttp) => {
    let gateway: Gateway
    let opened: Gateway

    beforeAll(async () => {
      const place = { envoy: found, directory, authority, tool: tools.port, byHttp }
      gateway = await startGateway(place)
      opened = await startGateway({ ...place, openMethods: ['GET', 'DELETE', 'tasks/*', 'logging/setLevel'] })
    })
    afterAll(async () => {
      await gateway?.stop()
      await opened?.stop()
    })

    /** A client before one of the two servers, with the wallet it calls from. */
    const enter = async <C extends Connected>(
      start: (url: URL, fetch: typeof globalThis.fetch) => Promise<C>,
      { token, sessions = false }: { token?: string; sessions?: boolean } = {},
    ): Promise<C & { wallet: Wallet }> => {
      const wallet: Wallet = {
        ...newWallet(agent),
        token,
        ...(sessions && { headers: { 'x-which-server': 'sessions' } }),
      }
      const url = new URL(`http://127.0.0.1:${(sessions ? opened : gateway).port}/mcp/alice`)
      const connected = await start(url, signingFetch(wallet, RESOURCE))
      open.push(() => connected.client.close())
      return { ...connected, wallet }
    }

    describe.each([
      ['1.x (2025-11-25)', '2025-11-25', connect1],
      ['2.x (2025-11-25)', '2025-11-25', legacy],
      ['2.x (2026-07-28)', '2026-07-28', pinned],
      ['2.x, which finds out (2026-07-28)', '2026-07-28', finding],
    ] as const)('of the SDK %s', (_what, version, start) => {
      test('connects, pings and lists tools without a grant', async () => {
        const { client, wallet } = await enter<Connected>(start)
        const listed = await client.listTools()
        expect(listed.tools.map(({ name }) => name)).toContain('place_trade')
        if (version === '2025-11-25') await client.ping()
        expect([asked(), wallet.denied]).toEqual([[], []])
        expect(wallet.versions).toContain(version)
      })

      test('is challenged, then let through under a standing grant, which the tool never sees', async () => {
        const { client, wallet } = await enter<Connected>(start)
        await expect(client.callTool({ name: 'portfolio_read' })).rejects.toThrow()
        const [refused] = wallet.denied
        expect(refused!.status).toBe(401)
        expect(parseChallenge([refused!.headers.get('www-authenticate')!]).as_uri).toBe(authority.issuer)
        wallet.token = standing()
        expect(await client.callTool({ name: 'portfolio_read' })).toMatchObject({
          content: [{ text: '12 VTI, 40 BND' }],
        })
        expect(tools.record.executions).toEqual([{ tool: 'portfolio_read', arguments: {} }])
        const { headers } = tools.record.arrivals.at(-1)!
        expect(headers).toMatchObject({ 'x-uma-owner': 'alice', 'x-uma-tool': 'portfolio_read' })
        for (const name of ['authorization', 'signature', 'signature-input'])
          expect(headers).not.toHaveProperty(name)
      })

      test('executes a single-use call once, with the approved parameters', async () => {
        const { client, wallet } = await enter<Connected>(start, { token: single() })
        const trade = (args: Record<string, unknown>) =>
          client.callTool({ name: 'place_trade', arguments: args })
        await expect(trade({ ...TRADE, qty: 3 })).rejects.toThrow()
        await trade(TRADE)
        await expect(trade(TRADE)).rejects.toThrow()
        expect(wallet.denied.map(({ status }) => status)).toEqual([403, 401])
        expect(tools.record.executions).toEqual([{ tool: 'place_trade', arguments: TRADE }])
      })

      test('has twenty calls under way at once', async () => {
        const { client } = await enter<Connected>(start, { token: standing() })
        const calls = Array.from({ length: 20 }, () => client.callTool({ name: 'portfolio_read' }))
        expect(new Set((await Promise.all(calls)).map(answer => JSON.stringify(answer.content))).size).toBe(1)
        expect(tools.record.executions).toHaveLength(20)
      })
    })

    test('a batch is refused, whatever is in it', async () => {
      const ping = { jsonrpc: '2.0', id: 1, method: 'ping' }
      const wallet = { ...newWallet(agent), token: standing() }
      const answer = await signingFetch(wallet, RESOURCE)(`http://127.0.0.1:${gateway.port}/mcp/alice`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
        body: JSON.stringify([ping, ping]),
      })
      expect([answer.status, await answer.json()]).toMatchObject([400, { error: 'invalid_request' }])
      expect(tools.record.arrivals).toEqual([])
    })

    describe.each([
      ['1.x', connect1],
      ['2.x', legacy],
    ] as const)('to a server that keeps sessions, with the SDK %s', (_what, start) => {
      test('stays in one session, and has many calls in it at once', async () => {
        const { client, transport } = await enter<Connected>(start, { token: standing(), sessions: true })
        const { sessionId } = transport
        expect(sessionTools.sessions.has(sessionId!)).toBe(true)
        await Promise.all(Array.from({ length: 20 }, () => client.callTool({ name: 'portfolio_read' })))
        const later = sessionTools.arrivals.filter(({ headers }) => headers['mcp-session-id'] !== undefined)
        expect(new Set(later.map(({ headers }) => headers['mcp-session-id']))).toEqual(new Set([sessionId]))
        expect(sessionTools.executions).toHaveLength(20)
      })

      test('hears what the server says by itself on the stream that GET opens', async () => {
        const { client, transport, wallet } = await enter<Connected>(start, {
          token: standing(),
          sessions: true,
        })
        const heard: unknown[] = []
        listen(client, params => heard.push(params))
        await until(() => sessionTools.arrivals.some(({ method }) => method === 'GET'))
        const { server } = sessionTools.sessions.get(transport.sessionId!)!
        await server.sendLoggingMessage({ level: 'info', data: 'by itself' })
        await until(() => heard.length > 0)
        expect([heard, wallet.denied]).toEqual([[{ level: 'info', data: 'by itself' }], []])
      })

      test('ends its session by DELETE, after which the server knows it no more', async () => {
        const { client, transport, wallet } = await enter<Connected>(start, {
          token: standing(),
          sessions: true,
        })
        const { sessionId } = transport
        await transport.terminateSession()
        expect(sessionTools.sessions.has(sessionId!)).toBe(false)
        wallet.headers = { ...wallet.headers, 'mcp-session-id': sessionId! }
        await expect(client.callTool({ name: 'portfolio_read' })).rejects.toThrow()
        // Its stream, which ended with the session, may have asked too.
        expect(new Set(wallet.denied.map(({ status }) => status))).toEqual(new Set([404]))
      })

      test('works without stream and DELETE if there is no grant: they alone are refused', async () => {
        const { client, transport, wallet } = await enter<Connected>(start, { sessions: true })
        expect((await client.listTools()).tools).toHaveLength(2)
        await until(() => wallet.denied.length === 1)
        await expect(transport.terminateSession()).rejects.toThrow()
        expect(wallet.denied.map(({ status }) => status)).toEqual([401, 401])
        expect(sessionTools.arrivals.every(({ method }) => method === 'POST')).toBe(true)
      })

      test('gets a long answer piece by piece as it is made, and whole', async () => {
        const { client } = await enter<Connected>(start, { token: standing(), sessions: true })
        const progress: number[] = []
        const parts = 300
        const call = callWithProgress(client, { parts, characters: 10_000, hold: true }, at =>
          progress.push(at),
        )
        await until(() => progress.length === 1)
        expect(sessionTools.executions).toEqual([])
        sessionTools.release()
        expect(await call).toMatchObject({ content: [{ text: `after ${parts} parts` }] })
        expect(progress).toEqual(Array.from({ length: parts }, (_, at) => at + 1))
      })

      test('may set the level of logging and ping', async () => {
        const { client } = await enter<Connected>(start, { token: standing(), sessions: true })
        expect(await client.setLoggingLevel('info')).toEqual({})
        expect(await client.ping()).toEqual({})
      })
    })

    test('a single-use call as a task is executed once; its result needs a grant that is not single-use', async () => {
      const { client, wallet } = await enter(connect1, { token: single(), sessions: true })
      const stream = client.experimental.tasks.callToolStream(
        { name: 'place_trade', arguments: TRADE },
        undefined,
        {
          task: { ttl: 60_000 },
        },
      )
      const kinds: string[] = []
      let result: unknown
      for await (const message of stream) {
        kinds.push(message.type)
        // The trade's own grant is spent: what asks for its result is another grant of the same agent.
        if (message.type === 'taskCreated') wallet.token = standing()
        if (message.type === 'result') ({ result } = message)
      }
      expect(kinds).toContain('taskCreated')
      expect(result).toMatchObject({ content: [{ text: 'Bought 2 VTI' }] })
      expect(sessionTools.executions).toEqual([['place_trade', TRADE]])
    })
  })
})

const legacy = (url: URL, fetch: typeof globalThis.fetch) => connect2(url, fetch, 'legacy')
const pinned = (url: URL, fetch: typeof globalThis.fetch) => connect2(url, fetch, { pin: '2026-07-28' })
const finding = (url: URL, fetch: typeof globalThis.fetch) => connect2(url, fetch, 'auto')

function listen(client: Connected['client'], hear: (params: unknown) => void): void {
  if ('experimental' in client) {
    client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => hear(params))
  } else client.setNotificationHandler('notifications/message', ({ params }) => hear(params))
}

function callWithProgress(
  client: Connected['client'],
  args: Record<string, unknown>,
  onProgress: (progress: number) => void,
): Promise<unknown> {
  const params = { name: 'portfolio_read', arguments: args }
  const onprogress = ({ progress }: { progress: number }): void => onProgress(progress)
  return 'experimental' in client
    ? client.callTool(params, undefined, { onprogress })
    : client.callTool(params, { onprogress })
}

interface Gateway {
  port: number
  stop(): Promise<void>
}

/** A sidecar, and an Envoy as it is shipped that asks it. */
async function startGateway(place: {
  envoy: Envoy
  directory: string
  authority: ScriptedAuthority
  tool: number
  byHttp: boolean
  openMethods?: string[]
}): Promise<Gateway> {
  const { byHttp, openMethods = [] } = place
  const directory = await mkdtemp(join(place.directory, 'gateway-'))
  const sidecar: Sidecar = await startTestSidecar({
    directory,
    authority: place.authority,
    settings: {
      listen: { check: '127.0.0.1:0', http: '127.0.0.1:0', ...(byHttp && { check_http: '127.0.0.1:0' }) },
      ...(byHttp && {
        check_http: { length_header: 'x-usher-length', peer_header: 'x-usher-peer', outage_status: 424 },
      }),
      open_methods: openMethods,
    },
  })
  const [port] = (await freePorts(1)) as [number]
  const portOf = (address: string | undefined): number => Number(address!.split(':').at(-1))
  const ports = {
    envoy: port,
    checks: [portOf(byHttp ? sidecar.httpCheckAddress : sidecar.checkAddress)],
    documents: [portOf(sidecar.httpAddress)],
    tool: place.tool,
  }
  const file = join(directory, 'envoy.yaml')
  await writeFile(file, await envoyConfig(ports, undefined, { byHttp }))
  const child: Child = startChild({
    name: 'Envoy',
    command: [...place.envoy.command(file, directory), '--concurrency', '1', '--disable-hot-restart'],
    logFile: join(directory, 'envoy.log'),
  })
  await untilReady(child, () => accepts(port))
  return {
    port,
    stop: async () => {
      await child.stop()
      await sidecar.close()
    },
  }
}
