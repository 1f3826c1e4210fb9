/**
 * contract, "What the service does" and "Connection": the bridge for clients that speak HTTP, on this machine
 * alone, to those that know its secret, each client known by its own name.
 */
import { execFile } from 'node:child_process'
import { chmod, readFile, stat, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Client } from '@modelcontextprotocol/client'
import { describe, expect, it } from 'vitest'
import { openClients } from '../../../src/agent/bridge/clients.ts'
import { clientSecret } from '../../../src/agent/bridge/listen-token.ts'
import { answerIn, bridgeFolder, pendingOf, type ToolAnswer } from '../../support/bridge.ts'
import { useBridges } from '../../support/bridge-stand.ts'
import { clientOver, listeningBridge, type ListeningBridge } from '../../support/listening-bridge.ts'
import { usherProgram } from '../../support/usher-program.ts'

const stand = useBridges({ stack: { authorityEnvironment: { UMA_AS_POLL_SECONDS: '1' } } })
const { unique, waiting } = stand

const called = async (client: Client, tool = 'portfolio_read', args: object = {}): Promise<ToolAnswer> =>
  answerIn(await client.callTool({ name: tool, arguments: { ...args } }))

/** One request, such as every program of this machine may send. */
function posted(
  url: URL,
  headers: Record<string, string>,
  body: object = {},
): Promise<{ status: number | undefined; text: string; session: unknown }> {
  const sent = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }
  return new Promise((resolve, reject) => {
    const asked = request(url, { method: 'POST', headers: { ...sent, ...headers } }, response => {
      let text = ''
      response.on('data', chunk => (text += String(chunk)))
      const { statusCode: status, headers } = response
      response.on('end', () => resolve({ status, text, session: headers['mcp-session-id'] }))
    })
    asked.on('error', reject).end(JSON.stringify(body))
  })
}
const bearer = ({ token }: ListeningBridge) => ({ authorization: `Bearer ${token}` })
const initialize = (name: string) => ({
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name, version: '1' } },
})

describe('The bridge on the loopback', () => {
  it('serves whoever knows its secret, and no page of somebody else by a name or an origin of its own', async () => {
    const bridge = await listeningBridge(stand, '--hold', '1')
    for (const headers of [{ host: 'evil.example' }, { origin: 'https://evil.example' }, { origin: 'null' }])
      expect((await posted(bridge.url, { ...bearer(bridge), ...headers })).status).toBe(403)
    const wrong = `Bearer ${'A'.repeat(43)}`
    for (const headers of [{}, { authorization: wrong }, { authorization: `Basic ${bridge.token}` }]) {
      const { status, text } = await posted(bridge.url, headers, initialize('a program'))
      expect(status).toBe(401)
      expect(text).toContain('--listen-token-file')
    }
    const { client } = await clientOver(stand, bridge, { name: `knows ${unique()}`, mode: '2026-07-28' })
    const { reason, family } = await called(client)
    expect(reason).toBe('waiting')
    expect((await pendingOf(stand.owner)).map(item => item.family)).toEqual([family])
  })

  it('keeps its secret in a file that is private, through each start, and tells only where that is', async () => {
    const file = join(stand.folder, 'listen-token')
    const first = await listeningBridge(stand, '--listen-token-file', file)
    const token = (await readFile(file, 'utf8')).trim()
    expect([(await stat(file)).mode & 0o777, first.said().includes(token)]).toEqual([0o600, false])
    expect(first.said()).toContain(file)
    await first.kill()
    const second = await listeningBridge(stand, '--listen-token-file', file)
    const { client } = await clientOver(stand, { ...second, token }, { name: `file ${unique()}` })
    expect((await client.listTools()).tools).not.toEqual([])
  })

  it.each([
    ['open to others', 0o644, 'A'.repeat(43)],
    ['too short', 0o600, 'secret'],
  ])('is not started with a secret that is none: %s', async (what, mode, text) => {
    const file = join(stand.folder, what.replaceAll(' ', '-'))
    await writeFile(file, text)
    await chmod(file, mode)
    expect(await refusedStart('--listen', '127.0.0.1:0', '--listen-token-file', file)).toContain(file)
  })

  it('goes on after requests that are none, and after clients that leave in the middle of one', async () => {
    const bridge = await listeningBridge(stand)
    const { port, host } = bridge.url
    const fields = `host: ${host}\r\nauthorization: Bearer ${bridge.token}\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\n`
    const sent = (text: string, leave: boolean): Promise<string> =>
      new Promise(resolve => {
        let heard = ''
        const socket = connect(Number(port), '127.0.0.1', () =>
          socket.write(text, () => leave && setImmediate(() => socket.resetAndDestroy())),
        )
        socket.on('data', chunk => (heard += String(chunk)))
        socket.on('error', () => undefined)
        socket.on('close', () => resolve(heard))
      })
    const closing = `${fields}connection: close\r\n`
    for (const target of ['http://[', 'http://evil.example/', '*'])
      expect(await sent(`OPTIONS ${target} HTTP/1.1\r\n${closing}\r\n`, false)).toContain(' 400 ')
    expect(await sent(`POST / HTTP/1.1\r\n${closing}content-length: 1\r\n\r\n{`, false)).toContain(' 400 ')
    await sent(`POST / HTTP/1.1\r\n${fields}content-length: 1000\r\n\r\n{`, true)
    const body = JSON.stringify(initialize('leaving'))
    for (let count = 0; count < 20; count++)
      await sent(`POST / HTTP/1.1\r\n${fields}content-length: ${body.length}\r\n\r\n${body}`, true)
    const { client } = await clientOver(stand, bridge, { name: `after ${unique()}` })
    expect((await client.listTools()).tools).not.toEqual([])
    expect(bridge.said()).not.toMatch(/unhandled|TypeError|\n\s+at /i)
  })

  it('listens nowhere else', async () => {
    expect(await refusedStart('--listen', '0.0.0.0:0')).toContain('loopback')
  })
})

/** What a bridge says that does not start. */
async function refusedStart(...args: string[]): Promise<string> {
  const cli = [usherProgram(), 'agent', 'bridge', stand.stack.resource, ...args]
  const env = { PATH: process.env['PATH'], UMA_DEV_LOOPBACK: 'true', UMA_BRIDGE_STATE: stand.folder }
  const refused = promisify(execFile)(process.execPath, cli, { env })
  const { code, stderr } = (await refused.catch((error: unknown) => error)) as {
    code: number
    stderr: string
  }
  expect(code).toBe(2)
  return stderr
}

describe('Clients of one bridge', () => {
  it('of 2025-11-25 are each known by its own name: another agent, another consent, other capabilities', async () => {
    const bridge = await listeningBridge(stand, '--hold', '20')
    const [one, two] = await Promise.all([
      clientOver(stand, bridge, { name: `one ${unique()}` }),
      clientOver(stand, bridge, { name: `two ${unique()}`, capabilities: {} }),
    ])
    const answer = called(one.client)
    answer.catch(() => undefined)
    const { family, handle } = await waiting()
    await stand.owner.decide(family, 'approved')
    expect((await answer).isError).toBe(false)
    // Nobody can be asked about terms at the other one, and what the first agreed to is not its own.
    expect(await called(two.client)).toMatchObject({ isError: true, reason: 'terms_unanswered' })
    const third = await clientOver(stand, bridge, { name: `three ${unique()}` })
    const other = called(third.client)
    other.catch(() => undefined)
    const item = await waiting()
    expect(item.handle).not.toBe(handle)
    await stand.owner.decide(item.family, 'approved')
    expect((await other).isError).toBe(false)
  })

  it('are one agent where they are two windows of one name', async () => {
    const bridge = await listeningBridge(stand, '--hold', '20')
    const name = `windows ${unique()}`
    const [one, two] = await Promise.all([
      clientOver(stand, bridge, { name }),
      clientOver(stand, bridge, { name, capabilities: {} }),
    ])
    const answer = called(one.client)
    answer.catch(() => undefined)
    await stand.owner.decide((await waiting()).family, 'approved')
    expect((await answer).isError).toBe(false)
    expect((await called(two.client)).isError).toBe(false)
  })

  it('that do not say who they are, are told so and served nothing', async () => {
    const bridge = await listeningBridge(stand)
    const listing = { jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} }
    const bare = await posted(bridge.url, bearer(bridge), listing)
    expect([bare.status, bare.text]).toEqual([400, expect.stringContaining('names no client')])
    const nameless = await posted(bridge.url, bearer(bridge), initialize(''))
    const session = { ...bearer(bridge), 'mcp-session-id': String(nameless.session) }
    expect((await posted(bridge.url, session, listing)).text).toContain('names no client')
    const modern = {
      ...listing,
      params: {
        _meta: {
          'io.modelcontextprotocol/protocolVersion': '2026-07-28',
          'io.modelcontextprotocol/clientCapabilities': {},
        },
      },
    }
    const headers = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/list' }
    const answer = await posted(bridge.url, { ...bearer(bridge), ...headers }, modern)
    expect(answer.text).toMatch(/names no client|clientInfo/)
  })

  it('have so many sessions at most: the one that was used least goes', async () => {
    const bridge = await listeningBridge(stand)
    const by = (count: number) => ({
      authorization: `Bearer ${clientSecret(bridge.token!, `of-16-${Math.floor(count / 16)}`)}`,
    })
    const sessions: string[] = []
    for (let count = 0; count < 65; count++)
      sessions.push(String((await posted(bridge.url, by(count), initialize('many'))).session))
    const ping = { jsonrpc: '2.0', id: 2, method: 'ping' }
    const at = (count: number) =>
      posted(bridge.url, { ...by(count), 'mcp-session-id': sessions[count]! }, ping)
    expect([(await at(0)).status, (await at(1)).status]).toEqual([404, 200])
  })

  it('are so many at most, and one bridge each where what they can do is the same', async () => {
    const { folder, remove } = await bridgeFolder()
    const clients = openClients({
      resources: [],
      stateRoot: folder,
      accepted: { has: () => false } as never,
      holdSeconds: 1,
      lingerSeconds: 1,
      allowLoopback: true,
      specNs: 'https://spec.example',
      say: () => undefined,
    })
    try {
      const form = clients.open('a', { elicitation: {} })
      expect(clients.open('a', { elicitation: { form: {} } })).toBe(form)
      expect(clients.open('a', {})).not.toBe(form)
      for (let count = 2; count < 32; count++) clients.open(`client ${count}`, {})
      expect(() => clients.open('one more', {})).toThrow('serves 32 clients already')
      expect(clients.open('a', {}).bridge).toBeDefined()
    } finally {
      await clients.close()
      await remove()
    }
  })
})
