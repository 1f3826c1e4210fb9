/**
 * Owns the bridge spoken to in text, over standard input or HTTP: no SDK has parsed what is written to it, or
 * what it writes.
 */
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { until } from './until.ts'
import { usherProgram } from './usher-program.ts'

export type Over = 'standard input' | 'HTTP'
export type Revision = '2025-11-25' | '2026-07-28'

export interface RawBridge {
  /** Sends one message of a client that is initialized; what comes back contains `containing`, as text. */
  ask: (message: string, containing: string) => Promise<string>
  /** The text of a request in its revision; `params` is the text of an object, without `_meta`. */
  request: (id: string, method: string, params: string, meta?: string) => string
  /** All that it wrote, one message each. */
  lines: readonly string[]
  close: () => Promise<void>
}

const INITIALIZE = JSON.stringify({
  jsonrpc: '2.0',
  id: 'greeting',
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'raw', version: '1' } },
})

/** What a client of 2026-07-28 says of itself in each request. */
const ENVELOPE = [
  '"io.modelcontextprotocol/protocolVersion":"2026-07-28"',
  '"io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"}',
  '"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}',
]

/** Starts it for one resource, with its state in that folder. */
export async function rawBridge(
  over: Over,
  revision: Revision,
  resource: string,
  folder: string,
): Promise<RawBridge> {
  const env = { PATH: process.env['PATH'], HOME: folder, UMA_DEV_LOOPBACK: 'true', UMA_BRIDGE_STATE: folder }
  const listen = over === 'HTTP' ? ['--listen', '127.0.0.1:0', '--client-name', 'raw'] : []
  const child = spawn(process.execPath, [usherProgram(), 'agent', 'bridge', resource, ...listen], { env })
  const ended = new Promise(resolve => child.once('close', resolve))
  const lines: string[] = []
  let said = ''
  child.stderr.on('data', chunk => (said += String(chunk)))
  createInterface({ input: child.stdout }).on('line', line => lines.push(line))
  let send = async (message: string): Promise<unknown> => child.stdin.write(`${message}\n`)
  if (over === 'HTTP') {
    await until(() => /listening on \S+\s/.test(said) && /Authorization: Bearer [\w-]{43}/.test(said))
    send = sendingTo(said, revision, lines)
  }
  const ask: RawBridge['ask'] = async (message, containing) => {
    const before = lines.length
    await send(message)
    const found = (): string | undefined => lines.slice(before).find(line => line.includes(containing))
    await until(() => found() !== undefined)
    return found()!
  }
  if (revision === '2025-11-25') {
    await ask(INITIALIZE, '"greeting"')
    await send('{"jsonrpc":"2.0","method":"notifications/initialized"}')
  }
  const request: RawBridge['request'] = (id, method, params, meta) => {
    const said = [...(revision === '2026-07-28' ? ENVELOPE : []), ...(meta === undefined ? [] : [meta])]
    const members = [params.slice(1, -1), ...(said.length === 0 ? [] : [`"_meta":{${said.join()}}`])]
    return `{"jsonrpc":"2.0","id":${id},"method":"${method}","params":{${members.filter(one => one !== '').join()}}}`
  }
  const close = async (): Promise<void> => {
    child.kill('SIGKILL')
    await ended
  }
  return { ask, request, lines, close }
}

/** Posts messages in the session that the first one began, and keeps each that it is answered with. */
function sendingTo(said: string, revision: Revision, lines: string[]): (message: string) => Promise<void> {
  const url = /listening on (\S+)/.exec(said)![1]!
  const token = /Authorization: Bearer ([\w-]{43})/.exec(said)![1]!
  let session: string | undefined
  return async body => {
    const name = /"(?:name|taskId)":"(read|t)"/.exec(body)?.[1]
    const headers = {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...(session === undefined ? {} : { 'mcp-session-id': session }),
      ...(session === undefined && revision === '2025-11-25' ? {} : { 'mcp-protocol-version': revision }),
      ...(revision === '2026-07-28' ? { 'mcp-method': /"method":"([^"]+)"/.exec(body)![1]! } : {}),
      ...(name === undefined ? {} : { 'mcp-name': name }),
    }
    const response = await fetch(url, { method: 'POST', headers, body })
    session ??= response.headers.get('mcp-session-id') ?? undefined
    for (const line of (await response.text()).split('\n'))
      if (line.includes('{')) lines.push(line.replace(/^data: /, ''))
  }
}
