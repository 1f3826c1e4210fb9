/**
 * Connections between Envoy and a sidecar do not live for ever, so that load spreads over replicas; renewing
 * them must lose no call. contract, "Resource server enforcement point".
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startCheckServer, type CheckServer } from '../../src/enforcement/doors/grpc/check-server.ts'
import { createHealth } from '../../src/enforcement/telemetry/health.ts'
import { ALLOW, BODY_BYTES_MAX } from '../support/check-door.ts'
import { envoy } from '../support/envoy.ts'
import { askProxy, startProxy, type Proxy } from '../support/proxy.ts'
import { describeWith } from '../support/requirement.ts'

describeWith(await envoy(), 'connections of a sidecar at their age', found => {
  let directory: string
  let check: CheckServer
  let tool: Server
  let proxy: Proxy

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'usher-age-'))
    check = await startCheckServer({
      address: '127.0.0.1:0',
      health: createHealth(),
      bodyBytesMax: BODY_BYTES_MAX,
      deadlineMarginMs: 100,
      connectionAgeSeconds: 3,
      decide: async () => ALLOW,
    })
    tool = createServer((_incoming, response) => response.end('served'))
    await new Promise<void>(resolve => tool.listen(0, '127.0.0.1', resolve))
    proxy = await startProxy({
      envoy: found,
      directory,
      checkConnections: { max_connection_duration: '0.5s' },
      tool: (tool.address() as AddressInfo).port,
      listeners: {
        closed: {
          authorization: { failure_mode_allow: false, status_on_error: { code: 'ServiceUnavailable' } },
          check: Number(check.address.split(':').at(-1)),
        },
      },
    })
  })
  afterAll(async () => {
    await proxy?.stop()
    tool?.close()
    tool?.closeAllConnections()
    await check?.stop(100)
    await rm(directory, { recursive: true })
  })

  /**
   * A server's goodbye crosses with what Envoy sends meanwhile, and that is lost: so Envoy ends them first,
   * as envoy/envoy.yaml has it.
   */
  test('no call is lost if Envoy renews them before the sidecar would', async () => {
    const until = Date.now() + 6_000
    const statuses = new Map<number | undefined, number>()
    const caller = async () => {
      while (Date.now() < until) {
        const { status } = await askProxy(proxy.port('closed'))
        statuses.set(status, (statuses.get(status) ?? 0) + 1)
      }
    }
    await Promise.all(Array.from({ length: 16 }, caller))
    expect(Object.fromEntries(statuses)).toEqual({ 200: expect.any(Number) })
  })
})
