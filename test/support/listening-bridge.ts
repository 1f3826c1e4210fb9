/**
 * Owns the bridge over HTTP as its clients meet it: a separate process (`--listen`), its secret, and the
 * official SDK's clients of both revisions that speak to it.
 */
import { spawn } from 'node:child_process'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { expect } from 'vitest'
import type { BridgeStand } from './bridge-stand.ts'
import { usherProgram } from './usher-program.ts'

export interface ListeningBridge {
  url: URL
  /** What it told of its secret; undefined if that lies in a file. */
  token: string | undefined
  said: () => string
  /** Ends the process as a crash would. */
  kill: () => Promise<void>
}

/** Starts it, and waits until it listens. */
export async function listeningBridge(stand: BridgeStand, ...args: string[]): Promise<ListeningBridge> {
  const given = ['agent', 'bridge', stand.stack.resource, '--listen', '127.0.0.1:0', ...args]
  const child = spawn(process.execPath, [usherProgram(), ...given], {
    env: {
      PATH: process.env['PATH'],
      HOME: stand.folder,
      UMA_DEV_LOOPBACK: 'true',
      UMA_BRIDGE_STATE: stand.folder,
    },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const ended = new Promise<void>(resolve => child.once('close', () => resolve()))
  const kill = async (): Promise<void> => {
    child.kill('SIGKILL')
    await ended
  }
  stand.ending({ close: kill })
  let said = ''
  child.stderr.on('data', chunk => (said += String(chunk)))
  await expect.poll(() => /listening on (\S+)/.exec(said)?.[1]).toBeDefined()
  const url = new URL(/listening on (\S+)/.exec(said)![1]!)
  return { url, token: /Authorization: Bearer ([\w-]{43})/.exec(said)?.[1], said: () => said, kill }
}

/** A client of that name; it accepts whatever terms it is shown. */
export async function clientOver(
  stand: BridgeStand,
  { url, token }: { url: URL; token: string | undefined },
  options: { name: string; mode?: 'legacy' | '2026-07-28'; capabilities?: object },
): Promise<{ client: Client; transport: StreamableHTTPClientTransport }> {
  const { name, mode = 'legacy', capabilities = { elicitation: {} } } = options
  const client = new Client(
    { name, version: '1' },
    { capabilities, versionNegotiation: { mode: mode === 'legacy' ? mode : { pin: mode } } },
  )
  if ('elicitation' in capabilities)
    client.setRequestHandler('elicitation/create', async () => ({ action: 'accept' as const, content: {} }))
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
  const transport = new StreamableHTTPClientTransport(url, { requestInit: { headers } })
  await client.connect(transport)
  stand.ending(client)
  return { client, transport }
}
