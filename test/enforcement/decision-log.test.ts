/**
 * One line of the log for each call, whole at every ending. contract, "Events" and "Authentication";
 * docs/operating.md.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { stringify } from 'yaml'
import { readSidecarConfig } from '../../src/config.ts'
import { startSidecar, type Sidecar } from '../../src/enforcement/main.ts'
import { createLogger } from '../../src/http/telemetry/log.ts'
import { generatePrivateJwk } from '../../src/wire/signatures/keys.ts'
import { checkBytes, connect, denialIn, type CheckClient } from '../support/check-client.ts'
import { startScriptedAuthority, type ScriptedAuthority } from '../support/scripted-authority.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'
import { callOf, newKey, nowSeconds, PUBLIC_URL, type CallParts } from './calls.ts'

const MEMBERS = ['decision', 'reason', 'status', 'step', 'owner', 'tool', 'family', 'handle', 'ms', 'peer']
const agent = newKey()
let authority: ScriptedAuthority
let sidecar: Sidecar
let envoy: CheckClient
const folder = temporaryFolder('log')
let lines: Record<string, unknown>[]

beforeAll(async () => {
  authority = await startScriptedAuthority()
  writeFileSync(join(folder, 'keys.json'), JSON.stringify({ keys: [generatePrivateJwk()] }), { mode: 0o600 })
  const tools = [{ tool: 'portfolio_read', resource_id: 'alice/portfolio', scopes: ['read'] }]
  const owner = {
    owner: 'alice',
    authority: authority.issuer,
    client_id: 'demo',
    client_secret: 'shh',
    tools,
  }
  const settings = {
    public_url: PUBLIC_URL,
    listen: { check: '127.0.0.1:0', http: '127.0.0.1:0' },
    keys_file: join(folder, 'keys.json'),
    realm: 'tools',
    body_bytes_max: 2_000,
    deadline_ms: 20_000,
    deadline_margin_ms: 9_000,
    owners: [owner],
  }
  writeFileSync(join(folder, 'sidecar.yaml'), stringify(settings))
  const config = readSidecarConfig(join(folder, 'sidecar.yaml'), { UMA_DEV_LOOPBACK: 'true' })
  const write = (line: string) => {
    const read = JSON.parse(line) as Record<string, unknown>
    if (read['msg'] === 'decided') lines.push(read)
  }
  sidecar = await startSidecar(config, { logger: createLogger({ name: 'test', level: 'info', write }) })
  envoy = connect(sidecar.checkAddress)
})
afterAll(async () => {
  envoy.close()
  await sidecar.close()
  await authority.close()
})
beforeEach(() => {
  authority.reset()
  lines = []
})

function bytesOf(parts: CallParts = {}): Buffer {
  const call = callOf(parts)
  return checkBytes({
    path: call.path,
    method: call.method,
    headers: Object.fromEntries([...call.headers].map(([name, values]) => [name, values[0]!])),
    raw_body: call.body.state === 'complete' ? call.body.bytes : Buffer.alloc(0),
  })
}
const issue = () => {
  const permissions = [{ resource_id: 'alice/portfolio', resource_scopes: ['read'], exp: nowSeconds() + 600 }]
  return authority.issue({ owner: 'alice', resource: `${PUBLIC_URL}/mcp/alice`, key: agent, permissions })
}
const soon = (ms: number) => ({ deadline: Date.now() + ms })

/** The one line there is, once there is one and no second came with the next call's. */
async function oneLine(): Promise<Record<string, unknown>> {
  await until(() => lines.length > 0)
  // A line that came late would stand before that of a later call.
  await envoy.check(bytesOf({ path: '/nobody-at-all' }))
  await until(() => lines.some(({ reason }) => reason === 'not_found'))
  const [line, ...more] = lines.filter(({ reason }) => reason !== 'not_found')
  expect(more).toEqual([])
  return line!
}

describe('One line, with every member, for a call', () => {
  test('that is let through, with the family to find it by', async () => {
    const token = issue()
    await envoy.check(bytesOf({ token, signer: agent }))
    const line = await oneLine()
    expect(Object.keys(line)).toEqual(expect.arrayContaining(MEMBERS))
    expect(line).toMatchObject({
      decision: 'allow',
      reason: 'granted',
      status: 200,
      step: 'allow',
      owner: 'alice',
      issuer: authority.issuer,
    })
    expect(line['family']).toMatch(/^fam_/)
    expect(JSON.stringify(line)).not.toContain(token)
  })

  test('that is challenged, without an issuer: nobody judged a grant', async () => {
    await envoy.check(bytesOf())
    const line = await oneLine()
    expect(line).toMatchObject({
      decision: 'deny',
      reason: 'insufficient_authorization',
      status: 401,
      tool: 'portfolio_read',
    })
    expect(line).not.toHaveProperty('issuer')
  })

  test('that is challenged, with the family of the negotiation that the challenge begins', async () => {
    authority.script('/perm', { status: 201, body: { ticket: 'tag~tkt_one', family: 'fam_begun' } })
    await envoy.check(bytesOf())
    expect(await oneLine()).toMatchObject({ family: 'fam_begun', handle: null })
  })

  test('that is challenged, without a family that is none', async () => {
    authority.script('/perm', { status: 201, body: { ticket: 'tag~tkt_one', family: 'two\nlines' } })
    await envoy.check(bytesOf())
    expect(await oneLine()).toMatchObject({ reason: 'insufficient_authorization', family: null })
  })

  test.each([
    ['connection_revoked', 'fam_test'],
    ['expired', 'fam_test'],
    ['unknown_token', null],
    ['invalid_signature', null],
  ])('whose grant is not live (%s), with the family that the authority knows', async (reason, family) => {
    const token = issue()
    authority.end(token, reason)
    await envoy.check(bytesOf({ token, signer: agent }))
    const handle = family === null ? null : `jkt:${agent.thumbprint}`
    expect(await oneLine()).toMatchObject({ reason, family, handle })
  })

  test.each(['/introspect', '/perm'])('that ends at its deadline, waiting for %s', async path => {
    authority.script(path, 'hang')
    const parts = path === '/introspect' ? { token: issue(), signer: agent } : {}
    // It waits for a second, and the proxy for as long as the margin beyond that.
    const answer = await envoy.check(bytesOf(parts), soon(10_000))
    expect(denialIn(answer)).toMatchObject({ status: 503 })
    const line = await oneLine()
    expect(Object.keys(line)).toEqual(expect.arrayContaining(MEMBERS))
    expect(line).toMatchObject({
      decision: 'deny',
      reason: 'temporarily_unavailable',
      status: 503,
      owner: 'alice',
    })
    expect(line['detail']).toEqual(expect.any(String))
  })

  test('that comes with no time left', async () => {
    const late = bytesOf()
    const answer = await envoy.check(late, soon(45)).catch(() => undefined)
    if (answer !== undefined) expect(denialIn(answer)).toMatchObject({ status: 503 })
    expect(Object.keys(await oneLine())).toEqual(expect.arrayContaining(MEMBERS))
  })

  test.each<[string, () => Buffer, number]>([
    ['that cannot be decoded', () => Buffer.from([0xff, 0xff, 0xff]), 400],
    [
      'whose body was cut',
      () => checkBytes({ headers: { 'x-envoy-auth-partial-body': 'true' }, raw_body: Buffer.from('{') }),
      413,
    ],
    ['whose path could be read in two ways', () => bytesOf({ path: '/mcp/alice%2fx' }), 400],
    ['whose body is too long for the message', () => checkBytes({ raw_body: Buffer.alloc(1_200_000) }), 413],
  ])('%s', async (_what, bytes, status) => {
    expect(denialIn(await envoy.check(bytes()))).toMatchObject({ status })
    const line = await oneLine()
    expect(Object.keys(line)).toEqual(expect.arrayContaining(MEMBERS))
    expect(line).toMatchObject({ decision: 'deny', status })
  })

  test('whose caller has gone away while it was judged', async () => {
    authority.script('/introspect', { status: 200, body: { active: false, reason: 'expired' }, delayMs: 150 })
    const call = envoy.start(bytesOf({ token: issue(), signer: agent }))
    call.done.catch(() => undefined)
    await until(() => authority.count('/introspect') === 1)
    call.cancel()
    const line = await oneLine()
    expect(Object.keys(line)).toEqual(expect.arrayContaining(MEMBERS))
  })
})
