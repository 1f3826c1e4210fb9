/**
 * contract, "Single-use grant" and "Permission ticket", for clients of the bridge over HTTP whose connection
 * is closed while the answer is on its way: it is kept until it has been written, so that it arrives once.
 */
import { request } from 'node:http'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { expect, it } from 'vitest'
import { answerIn, filesIn, pendingOf } from '../../support/bridge.ts'
import { useBridges } from '../../support/bridge-stand.ts'
import { TASKS, withTasks } from '../../support/bridge-tasks.ts'
import { clientOver, listeningBridge, type ListeningBridge } from '../../support/listening-bridge.ts'
import { LONG, oldTools } from '../../support/old-tools.ts'

const stand = useBridges({
  stack: { toolServer: oldTools().start, authorityEnvironment: { UMA_AS_POLL_SECONDS: '1' } },
})
const { executions, unique, waiting } = stand

/** What is kept of requests, as it is written. */
const kept = async (name: string): Promise<string[]> =>
  (await filesIn(stand.folder))
    .filter(({ path }) => path.includes(`/${name}-`) && path.includes('/families/'))
    .map(({ text }) => (JSON.parse(text) as { phase: { name: string } }).phase.name)

/** Sends a request, and reads nothing of its answer. */
function unread({ url, token }: ListeningBridge, headers: Record<string, string>, body: object) {
  const sent = {
    authorization: `Bearer ${token}`,
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
  }
  const asked = request(url, { method: 'POST', headers: { ...sent, ...headers } })
  const begun = new Promise<void>((resolve, reject) => {
    asked.on('error', reject)
    asked.on('response', response => {
      response.on('error', () => undefined)
      response.once('readable', resolve)
    })
  })
  begun.catch(() => undefined)
  asked.end(JSON.stringify(body))
  return { begun, close: () => void asked.destroy() }
}

it('An answer that was not written whole when the connection closed is had by the repeat, and the call runs once', async () => {
  const bridge = await listeningBridge(stand, '--hold', '40')
  const name = `cut-${unique()}`
  const trade = { symbol: LONG, qty: unique() }
  const { client, transport } = await clientOver(stand, bridge, { name })
  // The person agrees to the terms by way of a call that is withdrawn.
  const terms = client.callTool({ name: 'place_trade', arguments: { symbol: 'VTI', qty: unique() } })
  terms.catch(() => undefined)
  await stand.owner.decide((await waiting()).family, 'approved')
  await terms
  await expect.poll(() => kept(name)).toEqual([])
  const call = { jsonrpc: '2.0', id: 'raw', method: 'tools/call' }
  const { begun, close } = unread(
    bridge,
    { 'mcp-session-id': transport.sessionId!, 'mcp-protocol-version': '2025-11-25' },
    { ...call, params: { name: 'place_trade', arguments: trade } },
  )
  await stand.owner.decide((await waiting()).family, 'approved')
  await expect.poll(() => kept(name)).toEqual(['answered'])
  await begun
  close()
  const answer = answerIn(await client.callTool({ name: 'place_trade', arguments: trade }))
  expect(answer.text.trimEnd()).toBe(`Bought ${trade.qty} LONG`)
  expect(executions('place_trade', trade)).toBe(1)
  expect(await pendingOf(stand.owner)).toEqual([])
  await expect.poll(() => kept(name)).toEqual([])
})

it('A task whose answer was not written whole is completed for whoever asks again, also after a start', async () => {
  const name = `task-${unique()}`
  const trade = { symbol: LONG, qty: unique() }
  const connected = async ({ url, token }: ListeningBridge) => {
    const capabilities = { elicitation: {}, ...TASKS }
    const versionNegotiation = { mode: { pin: '2026-07-28' } }
    const client = new Client({ name, version: '1' }, { capabilities, versionNegotiation })
    client.setRequestHandler('elicitation/create', async () => ({ action: 'accept' as const, content: {} }))
    const requestInit = { headers: { authorization: `Bearer ${token}` } }
    await client.connect(new StreamableHTTPClientTransport(url, { requestInit }))
    stand.ending(client)
    return { client, ...withTasks(client) }
  }
  const first = await listeningBridge(stand)
  const { client, made, latest } = await connected(first)
  client.callTool({ name: 'place_trade', arguments: trade }).catch(() => undefined)
  await expect.poll(made).toBe(1)
  const taskId = latest()!
  await stand.owner.decide((await waiting()).family, 'approved')
  await expect.poll(() => kept(name)).toEqual(['answered'])
  const envelope = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientInfo': { name, version: '1' },
    'io.modelcontextprotocol/clientCapabilities': { elicitation: {}, ...TASKS },
  }
  const { begun, close } = unread(
    first,
    { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tasks/get', 'mcp-name': taskId },
    { jsonrpc: '2.0', id: 1, method: 'tasks/get', params: { taskId, _meta: envelope } },
  )
  await begun
  close()
  await first.kill()
  expect(await kept(name)).toEqual(['answered'])
  const again = await connected(await listeningBridge(stand))
  await expect.poll(async () => (await again.ask(taskId))['status']).toBe('completed')
  expect(executions('place_trade', trade)).toBe(1)
  await expect.poll(() => kept(name)).toEqual([])
})
