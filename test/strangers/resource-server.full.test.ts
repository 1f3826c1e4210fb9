/**
 * The resource server of docs/examples, written from the contract alone, and unchanged: a separate process,
 * between a real authority and our agent. contract, "Resource server enforcement point", "Protection API" and
 * "Authorized call".
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createAgent } from '../../src/agent/index.ts'
import { freePorts } from '../../src/dev/stack/ports.ts'
import { generatePrivateJwk, importPrivateJwk } from '../../src/wire/signatures/keys.ts'
import { CLIENT_ID, startTestAuthority, type TestAuthority } from '../support/authority.ts'
import { ROOT } from '../support/repository.ts'
import { until } from '../support/until.ts'

let authority: TestAuthority
let server: ChildProcess
let resource: string
beforeAll(async () => {
  const [authorityPort, port] = (await freePorts(2)) as [number, number]
  resource = `http://127.0.0.1:${port}/mcp/alice`
  authority = await startTestAuthority({
    environment: {
      UMA_AS_ISSUER: `http://127.0.0.1:${authorityPort}`,
      UMA_AS_LISTEN: `127.0.0.1:${authorityPort}`,
      UMA_AS_POLL_SECONDS: '1',
      UMA_DEV_LOOPBACK: 'true',
    },
    provision: document => {
      for (const server of document.owners.flatMap(owner => owner.resource_servers))
        server.resource_uri = resource
    },
  })
  server = spawn(process.execPath, [join(ROOT, 'docs', 'examples', 'resource-server.mjs')], {
    env: {
      PATH: process.env['PATH'],
      AS: authority.issuer,
      RESOURCE: resource,
      OWNER: 'alice',
      CLIENT_ID,
      CLIENT_SECRET: authority.alice.clientSecret,
      PORT: String(port),
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await once(server.stdout!, 'data')
})
afterAll(async () => {
  server.kill()
  await authority.close()
})

const items = async () =>
  (await authority.call(authority.alice, { target: '/owner/pending' })).body as {
    family: string
    operation: unknown
  }[]

it('challenges our agent, and executes once the very operation that the owner approved', async () => {
  const agent = createAgent({ key: importPrivateJwk(generatePrivateJwk()), allowLoopback: true })
  const trade = { symbol: 'VTI', qty: 2 }
  const asked = agent.call({ resource, tool: 'place_trade', arguments: trade })
  asked.catch(() => undefined)
  await until(async () => (await items()).length === 1)
  const [item] = await items()
  expect(item!.operation).toEqual({ tool: 'place_trade', params: trade })
  await authority.alice.client.decide(item!.family, 'approved')
  const { result, grant } = await asked
  expect(result).toEqual({ content: [{ type: 'text', text: 'Bought 2 VTI' }] })

  const touched = await authority.call(authority.alice, { target: '/owner/ledger?kind=touched' })
  expect(touched.body.entries).toEqual([
    expect.objectContaining({ family: grant!.family, tool: 'place_trade' }),
  ])
})

it('challenges a call whose grant nobody issued', async () => {
  const body = JSON.stringify({
    jsonrpc: '2.0',
    id: 1,
    method: 'tools/call',
    params: { name: 'place_trade' },
  })
  const headers = { authorization: 'PoP nobody' }
  const answer = await fetch(resource, { method: 'POST', headers, body })
  expect(answer.status).toBe(401)
  expect(answer.headers.get('www-authenticate')).toMatch(
    /^UMA realm="tools", error="insufficient_authorization"/,
  )
})
