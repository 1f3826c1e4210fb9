/**
 * Resource servers in a network that the operator trusts. Contract, "Resource server establishment: POST
 * `/rs/register`" and "Registry materialization". `localhost` and the names below it are this machine
 * (RFC 6761), so that `UMA_DEV_LOOPBACK` lets a test trust it.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createLogger } from '../../src/http/telemetry/log.ts'
import { freePorts } from '../../src/dev/stack/ports.ts'
import { openPublishers, type Publishers } from '../../src/authority/registry/publishers.ts'
import { generatePrivateJwk, importPrivateJwk } from '../../src/wire/signatures/keys.ts'
import { ISSUER, startTestAuthority, type TestAuthority } from '../support/authority.ts'
import { issueCertificate, makeCa, trust } from '../support/local-ca.ts'
import { A, startNameServer } from '../support/name-server.ts'
import { registryOf, sourcesOf } from '../support/registry.ts'
import { decideServer, startResourceServer, type TestResourceServer } from '../support/resource-server.ts'
import { until } from '../support/until.ts'

const HOST = 'tools.localhost'
const SENTENCE = /^Nothing at this address establishes the resource/
let untrust: () => void
let authority: TestAuthority
let tools: TestResourceServer
/** Shows a certificate of another name. */
let misnamed: TestResourceServer
const closers: (() => Promise<unknown>)[] = []

beforeAll(async () => {
  const ca = await makeCa()
  untrust = trust(ca.cert)
  const key = () => importPrivateJwk(generatePrivateJwk())
  const purpose = { serverAuth: true, clientAuth: false }
  const pair = await issueCertificate(ca, 'tools', purpose, [HOST, 'other.localhost'])
  const other = await issueCertificate(ca, 'other', purpose, ['elsewhere.localhost'])
  tools = await startResourceServer(ISSUER, key(), { ...pair, host: HOST })
  misnamed = await startResourceServer(ISSUER, key(), { ...other, host: HOST })
  authority = await startTestAuthority({
    environment: {
      UMA_DEV_LOOPBACK: 'true',
      UMA_AS_TRUSTED_NETWORKS: '127.0.0.0/8',
      UMA_AS_TRUSTED_HOSTS: HOST,
    },
  })
  closers.push(
    () => authority.close(),
    () => tools.close(),
    () => misnamed.close(),
  )
})
afterAll(async () => {
  for (const close of closers) await close()
  untrust()
})

const timed = async (ask: () => ReturnType<TestResourceServer['register']>) => {
  const since = performance.now()
  const { status, body } = await ask()
  return { status, body, ms: performance.now() - since }
}

describe('A resource server in a trusted network', () => {
  it('registers, is approved, has its listing pulled and gets a PAT, like any other', async () => {
    tools.listings['inside'] = [{ _id: 'alice/inside', name: 'Inside', resource_scopes: ['read'] }]
    expect((await tools.register(authority, 'inside')).status).toBe(202)
    await decideServer(authority, tools.resource('inside'), 'approved')
    await until(async () => (await registryOf(authority, tools.resource('inside')))?.landed_at != null)
    expect(await tools.pat(authority, 'inside')).toEqual(expect.any(String))
  })

  it('that fails is told one sentence after one delay, whatever failed', async () => {
    const [closed] = await freePorts(1)
    const at = (host: string, port: string | number) => ({
      claim: { resource_uri: `https://${host}:${port}/mcp/x` },
    })
    const { port } = new URL(tools.origin)
    tools.twists['foreign'] = {
      document: plain => ({ ...plain, authorization_servers: ['https://x.example'] }),
    }
    tools.server.script(tools.documentPath('html'), {
      body: '<html>',
      headers: { 'content-type': 'text/html' },
    })
    tools.server.script(tools.documentPath('slow'), { write: () => undefined })
    const replies = await Promise.all([
      timed(() => tools.register(authority, 'x', at(HOST, closed))),
      timed(() => misnamed.register(authority, 'certificate')),
      timed(() => tools.register(authority, 'none', { claim: { resource_uri: `${tools.origin}/none` } })),
      timed(() => tools.register(authority, 'html')),
      timed(() => tools.register(authority, 'foreign')),
      timed(() => tools.register(authority, 'slow')),
      timed(() => tools.register(authority, 'unsigned', { sign: false })),
      // A host that is not listed, and a name that nobody has.
      timed(() => tools.register(authority, 'x', at('other.localhost', port))),
      timed(() => tools.register(authority, 'x', at('nobody.invalid', port))),
    ])
    for (const { status, body, ms } of replies) {
      expect([status, body]).toEqual([replies[0].status, replies[0].body])
      // How much later is for publisher-times.test.ts: this machine may be busy.
      expect(ms).toBeGreaterThan(2_980)
    }
    expect(replies[0]).toMatchObject({
      status: 400,
      body: { error: 'invalid_request', reason: 'not_established' },
    })
    expect(replies[0].body.error_description).toMatch(SENTENCE)
  })

  it('is refused, 429, from where ten have failed in a minute', async () => {
    const again = () => tools.register(authority, 'unsigned', { sign: false })
    // Twice as many as may fail, because those that failed before may be forgiven by now.
    const replies = await Promise.all(Array.from({ length: 20 }, again))
    const refused = replies.filter(({ status }) => status === 429)
    expect(refused.length).toBeGreaterThanOrEqual(2)
    expect(refused[0]!.body).toMatchObject({ error: 'request_denied', reason: 'too_many_failed' })
  })

  it('has the pull that fails counted under one word, for anybody who asks', async () => {
    tools.twists['inside'] = { listing: () => ({ owner: 'bea', resources: [] }) }
    await sourcesOf(authority, tools).pullAgain('inside')
    await until(async () => (await registryOf(authority, tools.resource('inside')))?.fault != null)
    expect((await registryOf(authority, tools.resource('inside')))?.fault).toBe('not_established')
    const sources = async () => (await authority.request('GET', '/health/registry')).body.sources as object[]
    await until(async () => (await sources()).length > 0)
    await expect.poll(sources).toContainEqual(expect.objectContaining({ reason: 'not_established' }))
  })
})

describe('A name that leads now here and now there', () => {
  it('is never reached inside by the client whose failures are told', async () => {
    let nth = 0
    const names = await startNameServer(name =>
      name === 'turns.example' ? { [A]: [nth++ < 2 ? '8.8.8.8' : '127.0.0.1'] } : undefined,
    )
    const lines: string[] = []
    const log = createLogger({ name: 'test', level: 'warn', write: line => lines.push(line) })
    const config = {
      issuer: ISSUER,
      devLoopback: true,
      trustedNetworks: ['127.0.0.0/8'],
      trustedHosts: undefined,
    }
    const publishers: Publishers = openPublishers(config, log, [names.address])
    const { port } = new URL(tools.origin)
    const resource = `https://turns.example:${port}/mcp/alice`
    const read = () =>
      publishers.at(resource, { deadline: Date.now() + 3_000, favoured: false }, ({ published }, patience) =>
        published.document(resource, patience),
      )
    const before = tools.server.received.length
    await expect(read()).rejects.toMatchObject({ reason: 'document_forbidden_address' })
    // Now it leads inside from the start: asked there, and told alike; the reason is in the log.
    await expect(read()).rejects.toMatchObject({ reason: 'not_established', passing: true })
    expect(tools.server.received).toHaveLength(before)
    expect(lines.join('')).toContain('"resource":"https://turns.example')
    await publishers.close()
    names.close()
  })
})

describe('A host that is not reached', () => {
  const readAt = async (host: string, trustedNetworks: string[] | undefined, times: number) => {
    const names = await startNameServer(name => (name === 'mcp.example' ? { [A]: ['10.1.2.3'] } : undefined))
    const lines: string[] = []
    const log = createLogger({ name: 'test', level: 'warn', write: line => lines.push(line) })
    const config = { issuer: ISSUER, devLoopback: false, trustedNetworks, trustedHosts: undefined }
    const publishers = openPublishers(config, log, [names.address])
    const asking = { deadline: Date.now() + 10_000, favoured: false, source: '192.0.2.1' }
    const resource = `https://${host}/mcp/alice`
    const answers: unknown[] = []
    for (let nth = 0; nth < times; nth++)
      await publishers
        .at(resource, asking, ({ published }, patience) => published.document(resource, patience))
        .catch((error: unknown) => answers.push((error as Error).message))
    await publishers.close()
    names.close()
    return { lines, answers }
  }
  const UNKNOWN = '"cause":"no name server knows it (ENOTFOUND); /etc/hosts is not read"'

  it('has the cause in the log, ten times a minute from one source at most, and not in the answer', async () => {
    const { lines, answers } = await readAt('mcp.test', undefined, 12)
    expect(lines).toHaveLength(10)
    expect(lines[0]).toContain(UNKNOWN)
    expect(answers).toHaveLength(12)
    expect(answers[0]).toMatch(/^The document at https:\/\/mcp\.test\S+ could not be reached\.$/)
  })

  it('for its private address has the address and the setting in the log alone', async () => {
    const { lines, answers } = await readAt('mcp.example', undefined, 1)
    expect(lines).toHaveLength(1)
    expect(lines[0]).toMatch(
      /mcp\.example is at 10\.1\.2\.3, which is no public address: UMA_AS_TRUSTED_NETWORKS/,
    )
    expect(answers[0]).toMatch(/stands at no public address\.$/)
  })

  it('has the cause in the one line of a failure inside', async () => {
    const { lines, answers } = await readAt('mcp.test', ['10.0.0.0/8'], 1)
    expect(lines).toHaveLength(1)
    expect(lines[0]).toContain(UNKNOWN)
    expect(answers[0]).toMatch(SENTENCE)
  })
})
