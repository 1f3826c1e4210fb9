/**
 * `usher doctor` and the limits on the way of a body: contract, "Limits". What answers stands for the gateway
 * and whatever is before it.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { stringify } from 'yaml'
import { resourceMetadataUrl } from '../../src/wire/resources/resource-metadata.ts'
import { generatePrivateJwk } from '../../src/wire/signatures/keys.ts'
import { doctor } from '../support/doctor.ts'
import { startScriptedServer, type Reply, type ScriptedServer } from '../support/scripted-http.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const CAP = 2 * 1024 * 1024
const folder = temporaryFolder('bodies')
let gateway: ScriptedServer
let config: string

beforeAll(async () => {
  gateway = await startScriptedServer(() => ({ status: 404 }))
  const authority = 'http://127.0.0.1:1'
  const resource = `${gateway.origin}/mcp/alice`
  gateway.script(new URL(resourceMetadataUrl(resource)).pathname, {
    body: { resource, authorization_servers: [authority] },
  })
  const file = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text, { mode: 0o600 })
    return join(folder, name)
  }
  const tools = [{ tool: 'read', resource_id: 'alice/book', scopes: ['read'] }]
  config = file(
    'sidecar.yaml',
    stringify({
      public_url: gateway.origin,
      listen: { check: '127.0.0.1:0', http: '127.0.0.1:0' },
      keys_file: file('keys.json', JSON.stringify({ keys: [generatePrivateJwk()] })),
      realm: 'tools',
      body_bytes_max: CAP,
      owners: [
        {
          owner: 'alice',
          authority,
          client_id: 'tools',
          client_secret: 'x'.repeat(32),
          path: '/mcp/alice',
          tools,
        },
      ],
    }),
  )
})
afterEach(() => gateway.received.splice(0))
afterAll(() => gateway.close())

const line = async (): Promise<string> => {
  const { lines } = await doctor({ UMA_DEV_LOOPBACK: 'true', UMA_PEP_CONFIG: config })
  return lines.find(one => one.includes('bodies of alice')) ?? lines.join('\n')
}

describe('A body as large as the sidecar takes', () => {
  it.each<[string, Reply, RegExp]>([
    ['that is challenged has come through', { status: 401 }, /^ok .*2097151 bytes is passed on/],
    [
      'that the gateway itself refuses meets a limit of its listener, which is named',
      { status: 413, body: 'Payload Too Large' },
      /^FAIL .*gateway itself.*per_connection_buffer_limit_bytes.*max_request_bytes/,
    ],
    [
      'that the sidecar refuses was cut by the gateway, whose setting is named',
      { status: 413, body: { error: 'request_body_too_large' } },
      /^FAIL .*max_request_bytes.*or lower body_bytes_max/,
    ],
  ])('%s', async (_, reply, says) => {
    gateway.script('/mcp/alice', reply)
    expect(await line()).toMatch(says)
    const [sent] = gateway.to('/mcp/alice')
    expect(sent?.body.length).toBe(CAP - 1)
    expect(sent?.headers.authorization).toBeUndefined()
    expect(JSON.parse(sent!.body.toString())).toMatchObject({ method: 'tools/call' })
  })
})
