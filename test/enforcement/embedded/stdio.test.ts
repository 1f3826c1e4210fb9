/**
 * A resource over stdio, as a process of its own. MCP, stdio: "The server MUST NOT write anything to its
 * stdout that is not a valid MCP message". contract, "Resource metadata (RFC 9728)": its documents are served
 * over HTTP all the same.
 */
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { freePorts } from '../../../src/dev/stack/ports.ts'
import type { JsonObject } from '../../../src/wire/json.ts'
import { configFolder } from '../../support/config-files.ts'
import { embeddedSettings } from '../../support/embedded.ts'
import { until } from '../../support/until.ts'

const { folder, keysFile } = configFolder()

test('writes messages alone to standard output and its log to standard error, and serves its documents over HTTP', async () => {
  const [http, nobody] = await freePorts(2)
  const file = join(folder, 'usher.yaml')
  const public_url = `http://127.0.0.1:${http}`
  const settings = embeddedSettings(`http://127.0.0.1:${nobody}`, keysFile, { public_url })
  writeFileSync(file, JSON.stringify(settings))
  const script = join(import.meta.dirname, '../../support/stdio-resource.ts')
  const server = spawn(process.execPath, [script, file, String(http)], {
    env: { PATH: process.env['PATH'], UMA_DEV_LOOPBACK: 'true' },
  })
  const log = text(server.stderr)
  const ended = new Promise<void>(resolve => server.once('close', () => resolve()))
  const lines: string[] = []
  createInterface(server.stdout).on('line', line => lines.push(line))
  const send = (message: object): void =>
    void server.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
  try {
    const clientInfo = { name: 'test', version: '1' }
    const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo }
    send({ id: 1, method: 'initialize', params })
    send({ method: 'notifications/initialized' })
    send({ id: 2, method: 'tools/list' })
    // Nobody answers for alice, which is logged.
    send({ id: 3, method: 'tools/call', params: { name: 'portfolio_read' } })
    await until(() => lines.length >= 3)
    const answers = lines.map(line => JSON.parse(line) as JsonObject)
    expect(answers.map(({ id }) => id).sort()).toEqual([1, 2, 3])
    for (const answer of answers) expect(answer).toMatchObject({ jsonrpc: '2.0' })
    expect(answers.find(({ id }) => id === 3)).toMatchObject({ error: { code: -32002 } })

    const metadata = await fetch(`${public_url}/.well-known/oauth-protected-resource/mcp/alice`)
    expect(await metadata.json()).toMatchObject({ resource: `${public_url}/mcp/alice` })
    expect((await fetch(`${public_url}/jwks`)).status).toBe(200)
    expect((await fetch(`${public_url}/mcp/alice`)).status).toBe(404)
  } finally {
    server.kill()
    await ended
  }
  expect(lines).toHaveLength(3)
  const logged = (await log).split('\n').filter(line => line.startsWith('{'))
  expect(logged.map(line => (JSON.parse(line) as { msg: string }).msg)).toContain('serving')
})
