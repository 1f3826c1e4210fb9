/**
 * The limits on the way of a large body through a real Envoy, and what `usher doctor` says of them. contract,
 * "Limits", "Authentication" (a truncated body).
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startToolServer, type ToolServer } from '../../src/dev/stack/tool-server.ts'
import { checkBodies } from '../../src/doctor/checks.ts'
import type { Sidecar } from '../../src/enforcement/main.ts'
import { createOutbound, type Outbound } from '../../src/http/outbound/outbound.ts'
import { envoy } from '../support/envoy.ts'
import { startProxy, type Proxy } from '../support/proxy.ts'
import { describeWith } from '../support/requirement.ts'
import { startScriptedAuthority } from '../support/scripted-authority.ts'
import { startTestSidecar } from '../support/sidecar.ts'
import { startedOnce } from '../support/started.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const CAP = 2 * 1024 * 1024
/** Of the gateway's filter, and of its listener. */
const GATEWAYS = {
  'raised all': { cap: CAP, bufferBytes: 2 * CAP },
  'left the buffer': { cap: CAP, bufferBytes: CAP / 2 },
  'left the cap': { cap: CAP / 2, bufferBytes: 2 * CAP },
}

describeWith(await envoy(), 'usher doctor, of a gateway that has', found => {
  const directory = temporaryFolder('body-limits')
  const authority = startedOnce(startScriptedAuthority)
  let tool: ToolServer
  let sidecar: Sidecar
  let proxy: Proxy
  let outbound: Outbound

  beforeAll(async () => {
    tool = await startToolServer(0)
    sidecar = await startTestSidecar({ directory, authority, settings: { body_bytes_max: CAP } })
    const check = Number(sidecar.checkAddress.split(':').at(-1))
    const listeners = Object.entries(GATEWAYS).map(([name, { cap, bufferBytes }]) => {
      const with_request_body = { max_request_bytes: cap, allow_partial_message: true, pack_as_bytes: true }
      return [name, { authorization: { with_request_body }, context: { owner: 'alice' }, check, bufferBytes }]
    })
    proxy = await startProxy({
      envoy: found,
      directory,
      tool: tool.port,
      listeners: Object.fromEntries(listeners),
    })
    outbound = createOutbound({ devLoopback: true })
  })
  afterAll(async () => {
    await outbound?.close()
    await proxy?.stop()
    await sidecar?.close()
    await tool?.stop()
  })

  test.each<[keyof typeof GATEWAYS, RegExp]>([
    ['raised all', /^one of 2097151 bytes is passed on/],
    [
      'left the buffer',
      /^the gateway itself refuses one of 2097151 bytes.*per_connection_buffer_limit_bytes/,
    ],
    ['left the cap', /^the gateway passes on less than the body_bytes_max.*max_request_bytes/],
  ])('%s, says what a body as large as the sidecar takes meets', async (name, says) => {
    const resource = `http://127.0.0.1:${proxy.port(name)}/mcp/alice`
    const said = await checkBodies(outbound, { resource, bytesMax: CAP }).catch(
      (error: unknown) => (error as Error).message,
    )
    expect(said).toMatch(says)
  })
})
