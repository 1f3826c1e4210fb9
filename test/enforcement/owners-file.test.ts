/**
 * Owners and tools of a sidecar that runs: contract, "Resource server enforcement point" (documents, per
 * owner), "Authorized call". Through its real listener and its real file.
 */
import { appendFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, afterEach, expect, it, onTestFinished } from 'vitest'
import { readSidecarConfig } from '../../src/config.ts'
import { freePorts } from '../../src/dev/stack/ports.ts'
import { startSidecar, type Sidecar } from '../../src/enforcement/main.ts'
import { createLogger } from '../../src/http/telemetry/log.ts'
import { generatePrivateJwk } from '../../src/wire/signatures/keys.ts'
import { checkBytes, connect, denialIn, type CheckClient } from '../support/check-client.ts'
import { startScriptedAuthority } from '../support/scripted-authority.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'

const directory = temporaryFolder('owners-file')
const file = join(directory, 'sidecar.yaml')
const keys_file = join(directory, 'keys.json')
writeFileSync(keys_file, JSON.stringify({ keys: [generatePrivateJwk()] }), { mode: 0o600 })

let sidecar: Sidecar
let gateway: CheckClient
let publicUrl: string
/** Nobody answers there: whoever is asked for a ticket is away. */
let authority: string
let lines: string[]
/** What somebody does to the file after it was looked at. */
let beforeReread: () => void

const owner = (name: string, tools: string[] = ['read'], more: object = {}) => ({
  owner: name,
  authority,
  client_id: 'tools',
  client_secret: 'a secret of sixteen',
  tools: tools.map(tool => ({ tool, resource_id: `${name}/x`, scopes: ['read'] })),
  ...more,
})
const say = (owners: object[], more: object = {}) =>
  writeFileSync(
    file,
    JSON.stringify({
      public_url: publicUrl,
      listen: { check: '127.0.0.1:0', http: new URL(publicUrl).host },
      realm: 'tools',
      keys_file,
      owners,
      ...more,
    }),
  )
const told = (text: string) => lines.filter(line => line.includes(text)).length

beforeEach(async () => {
  const [port, away] = await freePorts(2)
  publicUrl = `http://127.0.0.1:${port}`
  authority = `http://127.0.0.1:${away}`
  lines = []
  say([owner('alice')])
  beforeReread = () => undefined
  const read = (bytes?: Buffer) => readSidecarConfig(file, { UMA_DEV_LOOPBACK: 'true' }, bytes)
  sidecar = await startSidecar(read(), {
    reread: bytes => {
      beforeReread()
      return read(bytes)
    },
    lookSeconds: 0.02,
    logger: createLogger({ name: 'test', level: 'info', write: line => lines.push(line) }),
  })
  gateway = connect(sidecar.checkAddress)
})
afterEach(async () => {
  gateway.close()
  await sidecar.close()
})

const document = (name: string) => fetch(`${publicUrl}/.well-known/oauth-protected-resource/mcp/${name}`)
const tools = async (name: string) =>
  ((await (await document(name)).json()) as { tool_surfaces: { tool: string }[] }).tool_surfaces.map(
    ({ tool }) => tool,
  )
/** What a call of a tool is refused with. */
const refusal = async (name: string, tool: string) => {
  const body = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: tool, arguments: {} } }
  const answer = await gateway.check(
    checkBytes({
      path: `/mcp/${name}`,
      headers: { 'content-type': 'application/json' },
      raw_body: Buffer.from(JSON.stringify(body)),
    }),
  )
  return denialIn(answer)['error']
}

it('an owner who was added to the file is served, and one who was taken out of it is not', async () => {
  expect([(await document('alice')).status, (await document('bea')).status]).toEqual([200, 404])
  expect(await refusal('bea', 'read')).toBe('not_found')
  say([owner('bea')])
  await until(async () => (await document('bea')).status === 200)
  expect((await document('alice')).status).toBe(404)
  expect(await refusal('alice', 'read')).toBe('not_found')
  // Her authority is away, which is found out on the way to a ticket.
  expect(await refusal('bea', 'read')).toBe('temporarily_unavailable')
})

it('a tool that the file names from now on is known, in the documents and to calls', async () => {
  expect(await refusal('alice', 'write')).toBe('unknown_tool')
  say([owner('alice', ['read', 'write'])])
  await until(async () => (await tools('alice')).includes('write'))
  expect(await refusal('alice', 'write')).toBe('temporarily_unavailable')
})

it('what two looks found is what is taken over, whatever is written to the file meanwhile', async () => {
  beforeReread = () => {
    beforeReread = () => undefined
    writeFileSync(file, 'owners: [')
  }
  say([owner('bea')])
  await until(async () => (await document('bea')).status === 200)
  // That is looked at in its turn, and told.
  await until(() => told('the configuration file has a fault') === 1)
  expect((await document('bea')).status).toBe(200)
})

it('a file with a fault is refused, told once, and what was served goes on', async () => {
  say([owner('alice', ['read', 'read']), owner('bea')])
  await until(() => told('the configuration file has a fault') > 0)
  expect((await document('bea')).status).toBe(404)
  expect(await tools('alice')).toEqual(['read'])
  expect(lines.find(line => line.includes('has a fault'))).toContain('read is listed twice')
  say([owner('alice'), owner('bea')])
  await until(async () => (await document('bea')).status === 200)
  expect(told('the configuration file has a fault')).toBe(1)
})

it('a file that is still being written is not taken over', async () => {
  let written = 0
  // All that stands there by now is a good file, without her.
  say([owner('bea')])
  const writer = setInterval(() => {
    written++
    appendFileSync(file, '\n')
  }, 1)
  try {
    await until(() => written > 100)
    expect([(await document('alice')).status, (await document('bea')).status]).toEqual([200, 404])
  } finally {
    clearInterval(writer)
  }
  await until(async () => (await document('bea')).status === 200)
})

it('the secret that the file of an owner holds by now is used when the configuration changes, without a start', async () => {
  const peer = await startScriptedAuthority()
  onTestFinished(() => peer.close())
  const client_secret_file = join(directory, 'alice-secret')
  const keep = (secret: string) => writeFileSync(client_secret_file, `${secret}\n`, { mode: 0o600 })
  const shown = () => peer.received.map(({ body }) => new URLSearchParams(body).get('client_secret'))
  keep('the-former-secret')
  say([owner('alice', ['read'], { authority: peer.issuer, client_secret: undefined, client_secret_file })])
  await expect.poll(shown).toContain('the-former-secret')
  keep('the-secret-that-replaces-it')
  // As a comment would, it changes the file and nothing that it says.
  appendFileSync(file, '\n')
  await expect.poll(shown).toContain('the-secret-that-replaces-it')
})

it('a file that is away changes nothing', async () => {
  rmSync(file)
  await until(() => told('the configuration file cannot be read') > 0)
  expect((await document('alice')).status).toBe(200)
})

it('what else changes is left to the next start, and said', async () => {
  say([owner('alice'), owner('bea')], { challenges_per_minute: 7 })
  await until(async () => (await document('bea')).status === 200)
  expect(told('the rest needs a start')).toBe(1)
})

it('another public_url is refused whole', async () => {
  say([owner('bea')], { public_url: 'https://tools.example' })
  await until(() => told('another public_url needs a start') > 0)
  expect([(await document('alice')).status, (await document('bea')).status]).toEqual([200, 404])
})

it('a second resource that the file lists for her is served beside the first, each by its own documents', async () => {
  const listed = async (path: string) => {
    const answer = await fetch(`${publicUrl}/.well-known/oauth-protected-resource${path}`)
    return answer.status === 200
      ? ((await answer.json()) as { resource: string; owner_resources_endpoint: string })
      : undefined
  }
  expect((await listed('/mcp/alice'))!.owner_resources_endpoint).toBe(`${publicUrl}/owner-resources/alice`)
  const { tools: its, client_id, ...rest } = owner('alice')
  const account = [{ tool: 'balance', resource_id: 'alice/account', scopes: ['read'] }]
  const api = [{ method: 'GET', path: '/balance', tool: 'balance' }]
  say([
    {
      ...rest,
      resources: [
        { client_id, tools: its },
        { client_id: 'bank', tools: account, api },
      ],
    },
  ])
  await until(async () => (await listed('/api/alice')) !== undefined)
  expect(await listed('/api/alice')).toMatchObject({
    resource: `${publicUrl}/api/alice`,
    owner_resources_endpoint: `${publicUrl}/owner-resources/alice/api/alice`,
    tool_surfaces: [{ tool: 'balance' }],
  })
  expect(await listed('/mcp/alice')).toMatchObject({
    resource: `${publicUrl}/mcp/alice`,
    owner_resources_endpoint: `${publicUrl}/owner-resources/alice/mcp/alice`,
    tool_surfaces: [{ tool: 'read' }],
  })
  // Both are asked about at her authority, which is away; a tool of the one is none of the other.
  expect(await refusal('alice', 'read')).toBe('temporarily_unavailable')
  expect(await refusal('alice', 'balance')).toBe('unknown_tool')
  const answer = await gateway.check(checkBytes({ method: 'GET', path: '/api/alice/balance' }))
  expect(denialIn(answer)['error']).toBe('temporarily_unavailable')
  expect(told('the configuration file has a fault')).toBe(0)
})

it('an owner who is one more entry has the resources that the file has for everybody', async () => {
  const resources = [{ tools: [{ tool: 'read', resource_id: '{owner}/x', scopes: ['read'] }] }]
  const { tools: _tools, ...plain } = owner('alice')
  say([plain, { ...plain, owner: 'bea' }], { resources })
  await until(async () => (await document('bea')).status === 200)
  expect(await tools('bea')).toEqual(['read'])
  expect(await refusal('bea', 'read')).toBe('temporarily_unavailable')
})

it('resources of the file that no owner gets are told of when it is taken over, and at a start', async () => {
  const resources = [{ tools: [{ tool: 'read', resource_id: '{owner}/x', scopes: ['read'] }] }]
  say([owner('alice'), owner('bea')], { resources })
  await until(async () => (await document('bea')).status === 200)
  expect(told('resources: no owner gets them')).toBe(1)
  // They are a matter of owners, which need no start.
  expect(told('the rest needs a start')).toBe(0)
  await sidecar.close()
  lines = []
  const logger = createLogger({ name: 'test', level: 'info', write: line => lines.push(line) })
  sidecar = await startSidecar(readSidecarConfig(file, { UMA_DEV_LOOPBACK: 'true' }), { logger })
  expect(told('resources: no owner gets them')).toBe(1)
})

it('nothing is told of a file that was not changed, and a change is told once', async () => {
  // What is no matter of owners is judged after the file was found as it was at the start.
  say([owner('alice')], { challenges_per_minute: 7 })
  await until(() => told('the rest needs a start') === 1)
  expect(told('as the configuration file says now')).toBe(0)
  say([owner('alice'), owner('bea')], { challenges_per_minute: 7 })
  await until(async () => (await document('bea')).status === 200)
  await expect.poll(() => told('as the configuration file says now')).toBe(1)
})
