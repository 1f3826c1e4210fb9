/**
 * The official MCP SDK's client at a resource that usher protects: the agent library's `fetch` negotiates,
 * waits for the owner and signs. Run it as
 * `node sdk-client.ts <resource> <tool>`, with `@usher-authz/usher` and `@modelcontextprotocol/client`
 * installed; the key is made at its first start. `--loopback` admits http on this machine.
 */
import { generateKeyPairSync } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { AgentError, createAgent, fileStore, type AgentOptions } from '@usher-authz/usher/agent'

const [resource, tool] = process.argv.slice(2)
if (resource === undefined || tool === undefined) throw new Error('Give the resource and the tool.')

const agent = createAgent({
  key: ownKey('agent-key.json'),
  reason: 'Try the example',
  store: fileStore('agent-state'),
  confirmTerms: ({ purpose, scope, prohibited }) => {
    console.error('terms:', JSON.stringify({ purpose, scope, prohibited }))
    return true
  },
  allowLoopback: process.argv.includes('--loopback'),
})

const client = new Client({ name: 'example', version: '1.0' }, { versionNegotiation: { mode: 'auto' } })
await client.connect(
  new StreamableHTTPClientTransport(new URL(resource), { fetch: agent.fetchFor(resource) }),
)
try {
  // As long as the owner may think.
  const { content } = await client.callTool({ name: tool, arguments: {} }, { timeout: 600_000 })
  console.log(JSON.stringify(content))
} catch (error) {
  if (!(error instanceof AgentError)) throw error
  console.error(`${error.code}: ${JSON.stringify(error.detail)}`)
  process.exitCode = 1
} finally {
  await client.close()
}

/** The agent is this key: whoever has it may use what the owner granted. */
function ownKey(file: string): AgentOptions['key'] {
  if (!existsSync(file)) {
    const jwk = generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' })
    writeFileSync(file, JSON.stringify(jwk), { mode: 0o600, flag: 'wx' })
  }
  return JSON.parse(readFileSync(file, 'utf8')) as Exclude<AgentOptions['key'], undefined>
}
