/**
 * contract, "What the service does": the bridge for clients that speak HTTP, on this machine alone; and what
 * tells a person what is wrong.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { request } from 'node:http'
import { join } from 'node:path'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Stack } from '../../../src/dev/stack.ts'
import { answerIn, bridgeFolder, ownerOf, pendingOf } from '../../support/bridge.ts'
import { ROOT } from '../../support/repository.ts'
import { startScriptedServer } from '../../support/scripted-http.ts'
import { startStack } from '../../support/stack.ts'

let stack: Stack
let folder: Awaited<ReturnType<typeof bridgeFolder>>
const children: ChildProcess[] = []

beforeAll(async () => {
  stack = await startStack({})
  folder = await bridgeFolder()
}, 120_000)
afterAll(async () => {
  for (const child of children) child.kill('SIGKILL')
  await stack?.stop()
  await folder?.remove()
})

/** `usher agent bridge …`, with what it wrote so far. */
function run(...args: string[]) {
  const env = {
    PATH: process.env['PATH'],
    HOME: folder.folder,
    UMA_DEV_LOOPBACK: 'true',
    UMA_BRIDGE_STATE: folder.folder,
  }
  const child = spawn(process.execPath, [join(ROOT, 'src', 'cli.ts'), 'agent', 'bridge', ...args], {
    env,
    stdio: 'pipe',
  })
  children.push(child)
  const wrote = { out: '', err: '' }
  child.stdout.on('data', chunk => (wrote.out += String(chunk)))
  child.stderr.on('data', chunk => (wrote.err += String(chunk)))
  const ended = new Promise<number | null>(resolve => child.once('close', resolve))
  return { wrote, ended }
}

const statusOf = (url: URL, headers: Record<string, string>): Promise<number | undefined> =>
  new Promise((resolve, reject) => {
    const asked = request(url, { method: 'POST', headers }, response => {
      response.resume()
      resolve(response.statusCode)
    })
    asked.on('error', reject).end('{}')
  })

describe('The bridge on the loopback', () => {
  it('serves a client, and no page of somebody else by a name or an origin of its own', async () => {
    const { wrote } = run(stack.resource, '--listen', '127.0.0.1:0', '--hold', '5', '--client-name', 'http')
    await expect.poll(() => /listening on (\S+)/.exec(wrote.err)?.[1], { timeout: 60_000 }).toBeDefined()
    const url = new URL(/listening on (\S+)/.exec(wrote.err)![1]!)
    for (const headers of [{ host: 'evil.example' }, { origin: 'https://evil.example' }])
      expect(await statusOf(url, headers)).toBe(403)
    const capabilities = { elicitation: {} }
    const client = new Client(
      { name: 'http', version: '1' },
      { capabilities, versionNegotiation: { mode: 'auto' } },
    )
    client.setRequestHandler('elicitation/create', async () => ({ action: 'accept' as const, content: {} }))
    await client.connect(new StreamableHTTPClientTransport(url))
    try {
      const answer = answerIn(await client.callTool({ name: 'portfolio_read', arguments: {} }))
      expect(answer.reason).toBe('waiting')
      expect((await pendingOf(ownerOf(stack))).map(({ family }) => family)).toEqual([answer.family])
    } finally {
      await client.close()
    }
  })

  it('listens nowhere else', async () => {
    const { wrote, ended } = run(stack.resource, '--listen', '0.0.0.0:0')
    expect(await ended).toBe(2)
    expect(wrote.err).toContain('loopback')
  })
})

describe('The doctor', () => {
  it('finds nothing wrong with a resource that is as it should be', async () => {
    const { wrote, ended } = run('doctor', stack.resource, '--client-name', 'new')
    expect(await ended).toBe(0)
    for (const what of ['address', 'metadata', 'clock', 'authority', 'key', 'tools'])
      expect(wrote.out).toContain(`ok    ${what}:`)
  })

  it.each([
    [-3600, 'ahead of'],
    [3600, 'behind'],
  ])('says that the clocks are %i s apart', async (seconds, which) => {
    const server = await startScriptedServer(({ path }) => ({
      headers: { date: new Date(Date.now() + seconds * 1000).toUTCString() },
      status: path.startsWith('/.well-known/oauth-protected-resource') ? 200 : 404,
      body: { resource: `${server.origin}/mcp/alice`, authorization_servers: [stack.issuer] },
    }))
    try {
      const { wrote, ended } = run('doctor', `${server.origin}/mcp/alice`)
      expect(await ended).toBe(1)
      expect(wrote.out).toContain('ok    metadata:')
      expect(wrote.out).toMatch(new RegExp(`FAIL  clock: This clock is 3(600|599|601) s ${which} that of`))
    } finally {
      await server.close()
    }
  })

  it('says what is wrong, with an exit code, where nothing is there', async () => {
    const { wrote, ended } = run('doctor', `${new URL(stack.resource).origin}/mcp/nobody`)
    expect(await ended).toBe(1)
    expect(wrote.out).toContain('FAIL  metadata:')
  })
})
