import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { request } from 'undici'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { stringify } from 'yaml'
import { readSidecarConfig } from '../../src/config.ts'
import { freePorts } from '../../src/dev/stack/ports.ts'
import { startSidecar, type Sidecar } from '../../src/enforcement/main.ts'
import { createLogger } from '../../src/http/telemetry/log.ts'
import { signRequest } from '../../src/wire/signatures/http-signature.ts'
import { generatePrivateJwk, parseJwks, type PrivateKey } from '../../src/wire/signatures/keys.ts'
import {
  parseResourceMetadata,
  resourceMetadataUrl,
  verifySignedMetadata,
} from '../../src/wire/resources/resource-metadata.ts'
import { readRptClaims } from '../../src/wire/negotiation/tokens.ts'
import { checkBytes, connect, denialIn, type CheckClient } from '../support/check-client.ts'
import { startScriptedAuthority, type ScriptedAuthority } from '../support/scripted-authority.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'
import { callOf, newKey, nowSeconds, PUBLIC_URL } from './calls.ts'

const agent = newKey()
const resourceKeys = [generatePrivateJwk(), generatePrivateJwk()]
const lines: string[] = []
const folder = temporaryFolder('sidecar')
let alices: ScriptedAuthority
let beas: ScriptedAuthority
let sidecar: Sidecar
let envoy: CheckClient
let documents: string

beforeAll(async () => {
  alices = await startScriptedAuthority()
  beas = await startScriptedAuthority()
  writeFileSync(join(folder, 'keys.json'), JSON.stringify({ keys: resourceKeys }), { mode: 0o600 })
  const tool = (owner: string, name: string, scope: string, consequence?: string) => ({
    tool: name,
    resource_id: `${owner}/${scope === 'read' ? 'portfolio' : 'trades'}`,
    scopes: [scope],
    ...(consequence === undefined ? {} : { consequence }),
  })
  const owner = (name: string, authority: string, tools: object[]) => ({
    owner: name,
    authority,
    client_id: 'demo',
    client_secret: 'shh',
    tools,
  })
  const file = join(folder, 'sidecar.yaml')
  writeFileSync(
    file,
    stringify({
      public_url: PUBLIC_URL,
      listen: { check: '127.0.0.1:0', http: '127.0.0.1:0' },
      keys_file: join(folder, 'keys.json'),
      realm: 'tools',
      owners: [
        owner('alice', alices.issuer, [
          tool('alice', 'portfolio_read', 'read', 'reversible'),
          tool('alice', 'place_trade', 'trade', 'irreversible'),
          tool('alice', 'cancel_trade', 'trade', 'compensatable'),
        ]),
        owner('bea', beas.issuer, [tool('bea', 'portfolio_read', 'read')]),
        owner('carl', beas.issuer, [tool('carl', 'portfolio_read', 'read')]),
        {
          ...owner('dora', beas.issuer, [tool('dora', 'portfolio_read', 'read')]),
          api: [{ method: 'GET', path: '/accounts/{account}', tool: 'portfolio_read' }],
        },
      ],
    }),
  )
  const config = readSidecarConfig(file, { UMA_DEV_LOOPBACK: 'true' })
  sidecar = await startSidecar(config, {
    logger: createLogger({ name: 'test', level: 'info', write: line => lines.push(line) }),
  })
  envoy = connect(sidecar.checkAddress)
  documents = `http://${sidecar.httpAddress}`
})
afterAll(async () => {
  envoy.close()
  await sidecar.close()
  await alices.close()
  await beas.close()
})
beforeEach(() => {
  alices.reset()
  beas.reset()
})

async function get(path: string, headers: Record<string, string> = {}) {
  const answer = await request(documents + path, { headers })
  const isPublic = /^\/(?:jwks|\.well-known)/.test(path) && answer.statusCode === 200
  // Whatever is everybody's, a page of any origin may read.
  if (isPublic) expect(answer.headers['access-control-allow-origin']).toBe('*')
  return { status: answer.statusCode, body: (await answer.body.json()) as Record<string, unknown> }
}

describe('The resource metadata (RFC 9728)', () => {
  const wellKnown = '/.well-known/oauth-protected-resource'

  test('is per owner at /mcp/<owner>, structural only, and signed with the resource key', async () => {
    const resource = `${PUBLIC_URL}/mcp/alice`
    const { body } = await get(new URL(resourceMetadataUrl(resource)).pathname)
    const document = parseResourceMetadata(body, resource)
    expect(document).toMatchObject({
      authorization_servers: [alices.issuer],
      scopes_supported: ['read', 'trade'],
      jwks_uri: `${PUBLIC_URL}/jwks`,
      bearer_methods_supported: ['header'],
      owner_resources_endpoint: `${PUBLIC_URL}/owner-resources/alice`,
      tool_surfaces: [
        { tool: 'portfolio_read', resource_scopes: ['read'], consequence: 'reversible' },
        { tool: 'place_trade', resource_scopes: ['trade'], consequence: 'irreversible' },
        { tool: 'cancel_trade', resource_scopes: ['trade'], consequence: 'compensatable' },
      ],
    })
    const keys = parseJwks((await get('/jwks')).body)
    const { signed_metadata, ...plain } = document
    expect(verifySignedMetadata(signed_metadata!, keys, resource)).toEqual(plain)
    expect(JSON.stringify(body)).not.toContain('alice/portfolio')
  })

  test('of a plain API stands at its base, and says which method and path each tool is', async () => {
    const resource = `${PUBLIC_URL}/api/dora`
    const { body } = await get(new URL(resourceMetadataUrl(resource)).pathname)
    const { signed_metadata, ...plain } = parseResourceMetadata(body, resource)
    expect(plain.tool_surfaces).toEqual([
      {
        tool: 'portfolio_read',
        resource_scopes: ['read'],
        http: [{ method: 'GET', path: '/accounts/{account}' }],
      },
    ])
    const keys = parseJwks((await get('/jwks')).body)
    expect(verifySignedMetadata(signed_metadata!, keys, resource)).toEqual(plain)
    expect(await get(`${wellKnown}/api/dora/accounts/7`)).toMatchObject({ status: 404 })
    expect(await get(`${wellKnown}/mcp/dora`)).toMatchObject({ status: 404 })
  })

  test('a call below the base is judged, one below an MCP resource is 404', async () => {
    const answer = await envoy.check(checkBytes({ method: 'GET', path: '/api/dora/accounts/7' }))
    expect(denialIn(answer)).toMatchObject({ status: 401, error: 'insufficient_authorization' })
    const below = await envoy.check(checkBytes({ method: 'GET', path: '/mcp/alice/accounts/7' }))
    expect(denialIn(below)).toMatchObject({ status: 404, error: 'not_found' })
  })

  test.each(['', '/mcp'])('%s describes /mcp itself, never an owner', async variant => {
    const { status, body } = await get(wellKnown + variant)
    expect([status, body.resource]).toEqual([200, `${PUBLIC_URL}/mcp`])
    expect(body).not.toHaveProperty('authorization_servers')
    expect(JSON.stringify(body)).not.toMatch(/alice|carl|mcp\//)
  })

  test.each(['/mcp/mallory', '/mcp/alice/', '/mcp/alice/x', '/MCP/alice', '/mcp/%61lice', '/'])(
    '%s is unknown: 404',
    async path => {
      expect(await get(wellKnown + path)).toMatchObject({ status: 404, body: { error: 'not_found' } })
    },
  )

  test('all keys of the file are published, the first signs', async () => {
    const { body } = await get('/jwks')
    expect(
      (body.keys as { x: string; alg: string; d?: string }[]).map(({ x, alg, d }) => [x, alg, d]),
    ).toEqual(resourceKeys.map(({ x }) => [x, 'EdDSA', undefined]))
  })
})

describe('The owner-bound listing is served only to the authority that proves possession of its key', () => {
  const signed = (
    path: string,
    key: PrivateKey,
    changes: { authority?: string; created?: number; components?: string[] } = {},
  ) => {
    const [pathname, query] = path.split('?') as [string, string?]
    const message = {
      method: 'GET',
      scheme: 'https' as const,
      authority: changes.authority ?? 'tools.example.com',
      path: pathname,
      query,
      headers: new Map(),
    }
    return {
      ...signRequest(message, key, {
        components: changes.components ?? ['@method', '@authority', '@path'],
        created: changes.created ?? nowSeconds(),
      }),
    }
  }

  test("alice's authority is told her resources, each with its tools and the gravest class that they declare", async () => {
    expect(await get('/owner-resources/alice', signed('/owner-resources/alice', alices.key))).toEqual({
      status: 200,
      body: {
        owner: 'alice',
        resources: [
          {
            _id: 'alice/portfolio',
            name: 'portfolio',
            type: 'tool',
            resource_scopes: ['read'],
            consequence: 'reversible',
            tools: [{ tool: 'portfolio_read', consequence: 'reversible' }],
          },
          {
            _id: 'alice/trades',
            name: 'trades',
            type: 'tool',
            resource_scopes: ['trade'],
            consequence: 'irreversible',
            tools: [
              { tool: 'place_trade', consequence: 'irreversible' },
              { tool: 'cancel_trade', consequence: 'compensatable' },
            ],
          },
        ],
      },
    })
  })

  test('the bare path serves the only owner of that authority here', async () => {
    expect((await get('/owner-resources', signed('/owner-resources', alices.key))).body.owner).toBe('alice')
  })

  test('if it governs several, the paths are named', async () => {
    const { status, body } = await get('/owner-resources', signed('/owner-resources', beas.key))
    expect([status, body.error]).toEqual([400, 'invalid_request'])
    expect(body.error_description).toContain(
      `${PUBLIC_URL}/owner-resources/bea or ${PUBLIC_URL}/owner-resources/carl`,
    )
  })

  test("another authority's owner and an unknown one look alike: 404", async () => {
    const foreign = await get('/owner-resources/bea', signed('/owner-resources/bea', alices.key))
    const unknown = await get('/owner-resources/mallory', signed('/owner-resources/mallory', alices.key))
    expect(foreign.status).toBe(404)
    expect(foreign).toEqual(unknown)
  })

  test.each([
    ['no signature', {}],
    ['a key nobody published', signed('/owner-resources/alice', newKey())],
    ['another path', signed('/owner-resources/bea', agent)],
  ])('%s: 401', async (_what, headers) => {
    expect(await get('/owner-resources/alice', headers)).toMatchObject({
      status: 401,
      body: { error: 'invalid_token' },
    })
  })

  test.each([
    ['a signature for another authority', { authority: 'evil.example' }],
    ['an old one', { created: nowSeconds() - 70 }],
    ['one that does not cover the path', { components: ['@method', '@authority'] }],
  ])('%s: 401', async (_what, changes) => {
    const answer = await get('/owner-resources/alice', signed('/owner-resources/alice', alices.key, changes))
    expect(answer).toMatchObject({ status: 401, body: { error: 'invalid_token' } })
  })

  test('if the keys of an authority cannot be had, 503', async () => {
    const lone = await startScriptedAuthority()
    lone.script('/jwks', { status: 500, body: {} })
    const config = readSidecarConfig(join(folder, 'sidecar.yaml'), { UMA_DEV_LOOPBACK: 'true' })
    const other = await startSidecar(
      { ...config, owners: [{ ...config.owners[0]!, authority: lone.issuer }] },
      { logger: createLogger({ name: 'test', level: 'silent' }) },
    )
    const answer = await request(`http://${other.httpAddress}/owner-resources`, {
      headers: signed('/owner-resources', lone.key),
    })
    expect([answer.statusCode, await answer.body.json()]).toMatchObject([
      503,
      { error: 'temporarily_unavailable' },
    ])
    await other.close()
    await lone.close()
  })
})

const permissions = [{ resource_id: 'alice/portfolio', resource_scopes: ['read'], exp: nowSeconds() + 600 }]
const issue = () =>
  alices.issue({ owner: 'alice', resource: `${PUBLIC_URL}/mcp/alice`, key: agent, permissions })
const bytes = (call: ReturnType<typeof callOf>) =>
  checkBytes({
    path: call.path,
    headers: Object.fromEntries([...call.headers].map(([name, values]) => [name, values[0]!])),
    raw_body: call.body.state === 'complete' ? call.body.bytes : Buffer.alloc(0),
    host: 'evil.example',
  })

describe('A call through the gRPC door', () => {
  test('is challenged, let through with a grant, and ended when revoked', async () => {
    expect(denialIn(await envoy.check(bytes(callOf())))).toMatchObject({
      status: 401,
      error: 'insufficient_authorization',
      as_uri: alices.issuer,
    })
    const token = issue()
    const call = bytes(callOf({ token, signer: agent }))
    expect((await envoy.check(call)).status).toEqual({ code: 0 })
    alices.end(token, 'connection_revoked')
    expect(denialIn(await envoy.check(call))).toMatchObject({ status: 403, error: 'access_revoked' })
  })

  test("alice's grant opens nothing of bea's: her authority is asked, and does not know it", async () => {
    const token = issue()
    expect(
      denialIn(await envoy.check(bytes(callOf({ path: '/mcp/bea', token, signer: agent })))),
    ).toMatchObject({ status: 401, as_uri: beas.issuer })
    expect(alices.count('/introspect')).toBe(0)
  })

  test("an authority that answers for another's grants is not believed", async () => {
    const token = beas.issue({ owner: 'alice', resource: `${PUBLIC_URL}/mcp/alice`, key: agent, permissions })
    expect(
      denialIn(await envoy.check(bytes(callOf({ path: '/mcp/bea', token, signer: agent })))),
    ).toMatchObject({ status: 503 })
  })

  test('the decision is counted, and what it took beside waiting for the authority', async () => {
    const text = await (await request(`${documents}/metrics`)).body.text()
    expect(text).toMatch(/usher_decisions_total\{outcome="allow",reason="granted",step="allow"\} \d/)
    expect(text).toMatch(/usher_own_seconds_count [1-9]/)
  })

  test('no log line holds a token or a ticket', () => {
    expect(lines.join('')).toContain('"decision":"allow"')
    expect(lines.join('')).not.toMatch(/~tkt_|eyJ/)
  })
})

describe('A start that cannot be whole', () => {
  test('leaves nothing running: the door to the gateway is closed again if the documents cannot be served', async () => {
    const config = readSidecarConfig(join(folder, 'sidecar.yaml'), { UMA_DEV_LOOPBACK: 'true' })
    const [check] = (await freePorts(1)) as [number]
    const port = Number(new URL(documents).port)
    const started = startSidecar(
      {
        ...config,
        listen: { check: { host: '127.0.0.1', port: check }, http: { host: '127.0.0.1', port } },
      },
      { logger: createLogger({ name: 'test', level: 'silent' }) },
    )
    await expect(started).rejects.toThrow(/EADDRINUSE/)
    const again = createServer().listen(check, '127.0.0.1')
    await once(again, 'listening')
    again.close()
  })
})

describe('Draining', () => {
  test('health says NOT_SERVING while calls are still answered', async () => {
    const config = readSidecarConfig(join(folder, 'sidecar.yaml'), { UMA_DEV_LOOPBACK: 'true' })
    const other = await startSidecar(config, { logger: createLogger({ name: 'test', level: 'silent' }) })
    const client = connect(other.checkAddress)
    expect(await client.health('')).toBe(1)
    other.drain()
    await until(async () => (await client.health('')) === 2)
    expect((await request(`http://${other.httpAddress}/health`)).statusCode).toBe(503)
    expect(denialIn(await client.check(checkBytes({ path: '/nobody' })))).toMatchObject({ status: 404 })
    client.close()
    await other.close()
  })
})

describe('At the end', () => {
  test('a call that is being judged is answered first, and its report is sent', async () => {
    const config = readSidecarConfig(join(folder, 'sidecar.yaml'), { UMA_DEV_LOOPBACK: 'true' })
    const other = await startSidecar(config, { logger: createLogger({ name: 'test', level: 'silent' }) })
    const client = connect(other.checkAddress)
    const { promise: judged, resolve: judge } = Promise.withResolvers<void>()
    alices.reset()
    const token = issue()
    const call = bytes(callOf({ token, signer: agent }))
    alices.script('/introspect', { after: judged })
    const answer = client.start(call).done
    await until(() => alices.count('/introspect') === 1)
    const closed = other.close()
    // It takes no new connection any more.
    const late = connect(other.checkAddress)
    await until(async () => (await late.health('').catch(() => 'gone')) === 'gone')
    judge()
    expect((await answer).ok_response).toBeDefined()
    await closed
    // Others of this file may still report calls of theirs.
    const { jti } = readRptClaims(token)
    const reports = alices.received.filter(({ path }) => path === '/audit/access')
    expect(reports.filter(({ body }) => body.includes(jti))).toHaveLength(1)
    late.close()
    client.close()
  })
})
