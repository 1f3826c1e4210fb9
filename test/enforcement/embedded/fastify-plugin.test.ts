/**
 * contract, "What the service does", 1: inside Fastify, too, a call without a sufficient grant reaches no
 * handler, however it ends.
 */
import Fastify from 'fastify'
import type { AddressInfo } from 'node:net'
import { connect } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { standEmbedded } from '../../support/embedded.ts'
import { startScriptedAuthority } from '../../support/scripted-authority.ts'
import { TOOLS } from '../calls.ts'

test('a denied call reaches no handler when its sender goes away before the denial is sent', async () => {
  const authority = await startScriptedAuthority()
  const { issuer } = authority
  const tools = TOOLS.slice(0, 1)
  const api = [{ method: 'GET', path: '', tool: tools[0]!.tool }]
  const stand = await standEmbedded(issuer, {
    owners: [{ owner: 'alice', authority: issuer, client_id: 'demo', client_secret: 'shh', tools, api }],
  })
  const [denying, sent, closed] = [
    Promise.withResolvers<void>(),
    Promise.withResolvers<void>(),
    Promise.withResolvers<void>(),
  ]
  const ran: string[] = []
  const app = Fastify()
  app.addHook('onSend', async (_request, reply) => {
    reply.raw.once('close', closed.resolve)
    denying.resolve()
    await sent.promise
  })
  await app.register(async scope => {
    await scope.register(stand.point.fastify)
    scope.get('/api/alice', async ({ url }) => ran.push(url))
  })
  await app.listen({ host: '127.0.0.1', port: 0 })

  const caller = connect((app.server.address() as AddressInfo).port, '127.0.0.1')
  caller.write('GET /api/alice HTTP/1.1\r\nhost: tools.example.com\r\n\r\n')
  await denying.promise
  caller.resetAndDestroy()
  await closed.promise
  for (let turn = 0; turn < 10; turn++) await setImmediate()
  expect(ran).toEqual([])

  sent.resolve()
  await app.close()
  await stand.close()
  await authority.close()
})

test('a request that was injected, without a wire, is judged like any other', async () => {
  const authority = await startScriptedAuthority()
  const stand = await standEmbedded(authority.issuer)
  const app = Fastify()
  const seen: unknown[] = []
  await app.register(async scope => {
    await scope.register(stand.point.fastify)
    scope.post('/mcp/alice', async ({ body, headers }) => seen.push([body, headers['x-uma-owner']]))
  })
  const post = (method: string) =>
    app.inject({
      method: 'POST',
      url: '/mcp/alice',
      headers: { 'x-uma-owner': 'forged' },
      payload: { jsonrpc: '2.0', id: 1, method, params: { name: 'portfolio_read' } },
    })
  expect([(await post('tools/call')).statusCode, seen]).toEqual([401, []])
  expect((await post('tools/list')).statusCode).toBe(200)
  expect(seen).toMatchObject([[{ method: 'tools/list' }, undefined]])
  await app.close()
  await stand.close()
  await authority.close()
})
