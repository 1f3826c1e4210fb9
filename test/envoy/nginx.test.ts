/** A plain HTTP API behind a real nginx on the configuration that we ship. contract, "What the service does" and "Errors". */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { stringify } from 'yaml'
import { createAgent, type Agent, type AgentEvent, type Grant } from '../../src/agent/index.ts'
import { readSidecarConfig } from '../../src/config.ts'
import { until } from '../../src/dev/child-process.ts'
import { freePorts } from '../../src/dev/ports.ts'
import { startSidecar, type Sidecar } from '../../src/enforcement/main.ts'
import { createLogger } from '../../src/http/log.ts'
import { readAll } from '../../src/owner/index.ts'
import { parseChallenge } from '../../src/wire/challenge.ts'
import { generatePrivateJwk, importPrivateJwk } from '../../src/wire/keys.ts'
import {
  CLIENT_ID,
  startTestAuthority,
  WORLD,
  type ProvisionDocument,
  type TestAuthority,
} from '../support/authority.ts'
import { callApiByHand, type HandCall } from '../support/hand-call.ts'
import { nginx, startNginx, type NginxPorts } from '../support/nginx.ts'
import { describeWith } from '../support/requirement.ts'

const API = [
  { method: 'GET', path: '/accounts/{account}', tool: 'portfolio_read' },
  { method: 'GET', path: '/statements/{month}', tool: 'statement_read' },
  { method: 'POST', path: '/orders', tool: 'place_trade' },
  { method: 'DELETE', path: '/orders/{order}', tool: 'place_trade' },
  { method: 'POST', path: '/close', tool: 'close_account' },
]

interface Arrival {
  method: string
  target: string
  headers: Record<string, string | string[] | undefined>
  body: string
}

describeWith(await nginx(), 'a plain HTTP API behind nginx', path => {
  const agentKey = importPrivateJwk(generatePrivateJwk())
  const arrivals: Arrival[] = []
  const events: AgentEvent[] = []
  let directory: string
  let ports: NginxPorts
  let origin: string
  let authority: TestAuthority
  let authorityStands = true
  let sidecar: Sidecar
  let proxy: { stop(): Promise<void> }
  let api: Server
  let agent: Agent

  beforeAll(async () => {
    const [nginxPort, check, documents, apiPort, authorityPort] = (await freePorts(5)) as [
      number,
      number,
      number,
      number,
      number,
    ]
    ports = { nginx: nginxPort, check, documents, api: apiPort }
    origin = `http://127.0.0.1:${nginxPort}`
    const address = `127.0.0.1:${authorityPort}`
    authority = await startTestAuthority({
      environment: { UMA_AS_ISSUER: `http://${address}`, UMA_AS_LISTEN: address, UMA_DEV_LOOPBACK: 'true' },
      provision: (document: ProvisionDocument) => {
        document.owners[0]!.resource_servers[0]!.resource_uri = `${origin}/api/alice`
        return document
      },
    })
    directory = mkdtempSync(join(tmpdir(), 'usher-behind-nginx-'))
    sidecar = await startSidecar(readSidecarConfig(writeFile(), { UMA_DEV_LOOPBACK: 'true' }), {
      logger: createLogger({ name: 'test', level: 'fatal' }),
    })
    api = createServer((received, answer) => {
      const chunks: Buffer[] = []
      received.on('data', (chunk: Buffer) => chunks.push(chunk))
      received.on('end', () => {
        const { method = '', url = '', headers } = received
        arrivals.push({ method, target: url, headers, body: Buffer.concat(chunks).toString() })
        const status = headers['x-status'] === undefined ? 200 : Number(headers['x-status'])
        answer.writeHead(status, { 'content-type': 'application/json' }).end('{"balance":7}')
      })
    })
    await new Promise<void>(resolve => api.listen(apiPort, '127.0.0.1', resolve))
    proxy = await startNginx(path, ports)
    agent = createAgent({ key: agentKey, allowLoopback: true, onEvent: event => events.push(event) })
  })
  afterAll(async () => {
    await proxy?.stop()
    await sidecar?.close()
    if (authorityStands) await authority?.close()
    api?.closeAllConnections()
    api?.close()
    if (directory !== undefined) rmSync(directory, { recursive: true })
  })
  beforeEach(() => {
    arrivals.length = 0
    events.length = 0
  })

  function writeFile(): string {
    const keysFile = join(directory, 'keys.json')
    writeFileSync(keysFile, JSON.stringify({ keys: [generatePrivateJwk()] }))
    const file = join(directory, 'sidecar.yaml')
    const settings = {
      public_url: origin,
      listen: {
        check: '127.0.0.1:0',
        check_http: `127.0.0.1:${ports.check}`,
        http: `127.0.0.1:${ports.documents}`,
      },
      // As envoy/nginx.conf says.
      check_http: {
        method_header: 'x-original-method',
        uri_header: 'x-original-uri',
        length_header: 'x-original-length',
        peer_header: 'x-original-peer',
        body_header: 'x-usher-refusal',
      },
      keys_file: keysFile,
      realm: 'api',
      owners: [
        {
          owner: 'alice',
          authority: authority.issuer,
          client_id: CLIENT_ID,
          client_secret: authority.alice.clientSecret,
          tools: WORLD.map(({ tool, resource, scope, consequence }) => ({
            tool,
            resource_id: `alice/${resource}`,
            scopes: [scope],
            consequence,
          })),
          api: API,
        },
      ],
    }
    writeFileSync(file, stringify(settings))
    return file
  }

  const byHand = (call: HandCall) => callApiByHand(origin, agentKey, call)
  const approveNext = async (): Promise<void> => {
    const { client } = authority.alice
    const item = await until('something waits for her', async () => (await readAll(client.pending())).at(0))
    await client.decide(item.family, 'approved')
  }
  const granted = (): Grant => events.findLast(event => event.type === 'granted')!.grant
  const read = {
    resource: '',
    tool: 'portfolio_read',
    arguments: { path: { account: '7' } },
    http: 'published' as const,
  }
  let standing: Grant
  let once: Grant

  test('a call without a grant is refused with one challenge, which names the base as the resource', async () => {
    const { status, challenges, json } = await byHand({ path: '/api/alice/accounts/7' })
    expect(status).toBe(401)
    const challenge = parseChallenge(challenges)
    expect(challenge).toMatchObject({
      as_uri: authority.issuer,
      resource_metadata: `${origin}/.well-known/oauth-protected-resource/api/alice`,
    })
    expect(json).toMatchObject({ error: 'insufficient_authorization', ticket: challenge.ticket })
    expect(arrivals).toEqual([])
  })

  test('the agent learns from the metadata how to call, signs the terms, is approved, and the call goes through', async () => {
    const calling = agent.call({ ...read, resource: `${origin}/api/alice` })
    await approveNext()
    const { result } = await calling
    expect(result).toMatchObject({ status: 200, body: { balance: 7 } })
    standing = granted()
    expect(arrivals).toMatchObject([
      {
        method: 'GET',
        target: '/api/alice/accounts/7',
        headers: {
          'x-uma-owner': 'alice',
          'x-uma-agent': `jkt:${agentKey.thumbprint}`,
          'x-uma-tool': 'portfolio_read',
        },
      },
    ])
    const { headers } = arrivals[0]!
    expect(Object.keys(headers).filter(name => /authorization|signature|usher|original/.test(name))).toEqual(
      [],
    )
  })

  test('the next one needs nobody: the same grant, another account', async () => {
    const { status } = await byHand({
      path: '/api/alice/accounts/8',
      query: 'full=1',
      token: standing.access_token,
    })
    expect(status).toBe(200)
    expect(arrivals).toMatchObject([{ target: '/api/alice/accounts/8?full=1' }])
    const refused = await byHand({ path: '/api/alice/statements/1', token: standing.access_token })
    expect([refused.status, refused.error]).toEqual([401, 'insufficient_authorization'])
  })

  test('the status of the API itself is its own', async () => {
    for (const status of [401, 403, 500]) {
      const headers = { 'x-status': String(status) }
      const answer = await byHand({ path: '/api/alice/accounts/8', token: standing.access_token, headers })
      expect([answer.status, answer.json]).toEqual([status, { balance: 7 }])
    }
  })

  test('cancelling an order is asked about, and passes once', async () => {
    const calling = agent.call({
      resource: `${origin}/api/alice`,
      tool: 'place_trade',
      arguments: { path: { order: 'o 1' }, query: { why: 'too dear' } },
      http: { method: 'DELETE', path: '/orders/{order}' },
    })
    await approveNext()
    expect((await calling).result).toMatchObject({ status: 200 })
    expect(arrivals).toMatchObject([{ method: 'DELETE', target: '/api/alice/orders/o%201?why=too%20dear' }])
    once = granted()
    const again = {
      method: 'DELETE',
      path: '/api/alice/orders/o%201',
      query: 'why=too%20dear',
      token: once.access_token,
    }
    expect(await byHand(again)).toMatchObject({ status: 401, error: 'insufficient_authorization' })
    expect(arrivals).toHaveLength(1)
  })

  test.each<[string, HandCall, number, string | undefined]>([
    ['a path that nobody listed', { path: '/api/alice/nothing' }, 403, 'unknown_tool'],
    [
      'another method',
      { method: 'PUT', path: '/api/alice/accounts/7', headers: { 'content-length': '0' } },
      405,
      'method_not_allowed',
    ],
    ["another owner's base", { path: '/api/bea/accounts/7' }, 404, 'not_found'],
    ['dot segments', { path: '/api/alice/accounts/../accounts/7' }, 400, 'invalid_request'],
    ['dot segments that stay below', { path: '/api/x/../alice/accounts/7' }, 400, 'invalid_request'],
    ['encoded dot segments', { path: '/api/alice/accounts/%2e%2e/7' }, 400, 'invalid_request'],
    ['a path parameter', { path: '/api/alice/accounts/..;/7' }, 400, 'invalid_request'],
    ['an encoded slash', { path: '/api/alice/accounts/a%2f7' }, 400, 'invalid_request'],
    ['two slashes', { path: '/api/alice//accounts/7' }, 400, 'invalid_request'],
    ['an encoded literal', { path: '/api/alice/%61ccounts/7' }, 403, 'unknown_tool'],
    [
      'a method to be overridden',
      { path: '/api/alice/accounts/7', headers: { 'X-HTTP-Method-Override': 'DELETE' } },
      400,
      'invalid_request',
    ],
    [
      'a path to be overridden',
      { path: '/api/alice/accounts/7', headers: { 'X-Rewrite-URL': '/x' } },
      400,
      'invalid_request',
    ],
    [
      'a forged identity',
      { path: '/api/alice/accounts/7', headers: { 'X-Uma-Owner': 'mallory' } },
      400,
      'invalid_request',
    ],
    ['a body', { method: 'POST', path: '/api/alice/orders', body: '{"qty":2}' }, 400, 'request_body_missing'],
    [
      'a body that announces no length',
      { method: 'POST', path: '/api/alice/orders', body: 'x', headers: { 'transfer-encoding': 'chunked' } },
      400,
      'request_body_missing',
    ],
    ['an MCP call', { method: 'POST', path: '/api/alice', body: '{"jsonrpc":"2.0"}' }, 403, 'unknown_tool'],
  ])('with %s a call is refused as what it is, and does not arrive', async (_what, call, status, error) => {
    const answer = await byHand({ ...call, token: standing.access_token })
    expect([answer.status, answer.error]).toEqual([status, error])
    if (status === 405) expect(answer.allow).toBe('GET')
    expect(arrivals).toEqual([])
  })

  test('what a client writes into the fields of the gateway counts for nothing', async () => {
    const headers = {
      'X-Original-Uri': '/api/alice/accounts/7',
      'X-Original-Method': 'GET',
      'X-Original-Length': '0',
      'X-Original-Peer': '6.6.6.6',
    }
    const token = standing.access_token
    // An API may heed them as it heeds X-Original-URL, and usher sees what the gateway writes in their place.
    expect((await byHand({ path: '/api/alice/accounts/8', headers, token })).status).toBe(200)
    expect(Object.keys(arrivals.pop()!.headers).filter(name => name.startsWith('x-original'))).toEqual([])
    const elsewhere = await byHand({ method: 'DELETE', path: '/api/alice/orders/7', headers, token })
    expect([elsewhere.status, elsewhere.error]).toEqual([401, 'insufficient_authorization'])
    const body = await byHand({
      method: 'POST',
      path: '/api/alice/orders',
      body: 'x',
      headers: { ...headers, 'transfer-encoding': 'chunked' },
      token,
    })
    expect([body.status, body.error]).toEqual([400, 'request_body_missing'])
    expect(arrivals).toEqual([])
  })

  test('a body beside a call that needs none is not passed on, because nobody judged it', async () => {
    const token = standing.access_token
    const chunked = { 'transfer-encoding': 'chunked' }
    expect((await byHand({ path: '/api/alice/accounts/7', token, headers: chunked, body: 'x' })).status).toBe(
      200,
    )
    expect(arrivals).toMatchObject([{ body: '', target: '/api/alice/accounts/7' }])
    const announced = await byHand({
      path: '/api/alice/accounts/7',
      token,
      body: 'x',
      headers: { 'content-length': '1' },
    })
    expect([announced.status, announced.error]).toEqual([400, 'request_body_missing'])
  })

  test('a target in absolute form is the path in it', async () => {
    const heard = await new Promise<string>(resolve => {
      const socket = connect(ports.nginx, '127.0.0.1', () =>
        socket.write(
          `GET http://evil.example/api/alice/nothing HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`,
        ),
      )
      let text = ''
      socket.on('data', data => (text += data.toString())).on('close', () => resolve(text))
    })
    expect(heard).toMatch(/^HTTP\/1\.1 403 [^]*unknown_tool/)
    expect(arrivals).toEqual([])
  })

  test('a tool that no tier governs is denied', async () => {
    const http = { method: 'POST', path: '/close' }
    const calling = agent.call({
      resource: `${origin}/api/alice`,
      tool: 'close_account',
      arguments: {},
      http,
    })
    await expect(calling).rejects.toMatchObject({ code: 'request_denied' })
    expect(arrivals).toEqual([])
  })

  test('once she revokes, the very next call is refused for good, without a challenge', async () => {
    await authority.alice.client.revoke(`jkt:${agentKey.thumbprint}`)
    const { status, error, challenges } = await byHand({
      path: '/api/alice/accounts/7',
      token: standing.access_token,
    })
    expect([status, error, challenges]).toEqual([403, 'access_revoked', []])
    expect(arrivals).toEqual([])
  })

  describe('an outage is 503, neither a denial nor a pass', () => {
    const outage = { status: 503, error: 'temporarily_unavailable', challenges: [] }
    const calls = () => [
      byHand({ path: '/api/alice/accounts/7' }),
      byHand({ path: '/api/alice/accounts/7', token: standing.access_token }),
    ]
    test('with the authority down', async () => {
      await authority.close()
      authorityStands = false
      for (const answer of await Promise.all(calls())) expect(answer).toMatchObject(outage)
      expect(arrivals).toEqual([])
    })
    test('with the sidecar down', async () => {
      await sidecar.close()
      for (const answer of await Promise.all(calls())) expect(answer).toMatchObject(outage)
      expect(arrivals).toEqual([])
    })
  })
})
