/**
 * Owns the client that the conformance suite starts for its scenarios: the official SDK's client, whose calls
 * go through a bridge over standard input and output, or by the agent's `fetch`. Arguments: the way (`bridge`
 * or `fetch`), the words of the bridge's command, and at the end the address of the suite's server.
 */
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { createAgent } from '../../src/agent/index.ts'
import { generatePrivateJwk } from '../../src/wire/signatures/keys.ts'

const [, , way, program, address] = process.argv as [string, string, string, string, string]
// The suite writes `localhost`; without TLS, only a literal address of the loopback is taken.
const url = new URL(address.replace('//localhost', '//127.0.0.1'))
const state = process.env['HOME']!

function transportOf(): Transport {
  if (way === 'fetch') {
    const agent = createAgent({ key: generatePrivateJwk(), reason: 'Conformance', allowLoopback: true })
    return new StreamableHTTPClientTransport(url, { fetch: agent.fetchFor(url.href) })
  }
  return new StdioClientTransport({
    command: process.execPath,
    args: [program, 'agent', 'bridge', url.href],
    env: { PATH: process.env['PATH']!, HOME: state, UMA_DEV_LOOPBACK: 'true', UMA_BRIDGE_STATE: state },
  })
}

const client = new Client(
  { name: 'conformance', version: '1' },
  { capabilities: { elicitation: { form: { applyDefaults: true } } } },
)
client.setRequestHandler(ElicitRequestSchema, () => ({ action: 'accept', content: {} }))
await client.connect(transportOf())
const { tools } = await client.listTools()
for (const { name, inputSchema } of tools) {
  const numbers = Object.keys(inputSchema.properties ?? {}).map((field, at) => [field, at + 1] as const)
  await client.callTool({ name, arguments: Object.fromEntries(numbers) })
}
await client.close()
