/**
 * Owns the two doors of a gateway, gRPC and HTTP, before the same cores and a scripted authority: what one
 * decides, both must tell.
 */
import type { ApiOperation } from '../../src/enforcement/request/api-table.ts'
import { startCheckServer } from '../../src/enforcement/doors/grpc/check-server.ts'
import { startHttpCheckServer } from '../../src/enforcement/doors/http/check-server.ts'
import { createHealth } from '../../src/enforcement/telemetry/health.ts'
import { connect, type CheckClient } from '../support/check-client.ts'
import { httpCheckClient, type HttpCheckClient } from '../support/http-check-client.ts'
import { startScriptedAuthority, type ScriptedAuthority } from '../support/scripted-authority.ts'
import { startCore, type Core } from './calls.ts'

export interface BothDoors {
  authority: ScriptedAuthority
  grpc: CheckClient
  http: HttpCheckClient
  close: () => Promise<void>
}

/** Starts them: an MCP server of alice, and her plain API below `/api/`. */
export async function startBothDoors({
  api,
  bodyBytesMax,
  deadlineMarginMs,
}: {
  api: ApiOperation[]
  bodyBytesMax: number
  deadlineMarginMs: number
}): Promise<BothDoors> {
  const authority = await startScriptedAuthority()
  const cores = { mcp: startCore(authority.issuer), api: startCore(authority.issuer, { api }) }
  const health = createHealth()
  health.set(true)
  const door = {
    health,
    bodyBytesMax,
    deadlineMarginMs,
    decide: (call: Parameters<Core['decide']>[0]) =>
      (call.path.startsWith('/api/') ? cores.api : cores.mcp).decide(call),
  }
  const servers = {
    grpc: await startCheckServer({ ...door, address: '127.0.0.1:0' }),
    http: await startHttpCheckServer({
      ...door,
      address: { host: '127.0.0.1', port: 0 },
      gateway: { length: 'x-length' },
      deadlineMs: 5_000,
      outageStatus: 503,
    }),
  }
  const grpc = connect(servers.grpc.address)
  const http = httpCheckClient(servers.http.address)
  const close = async (): Promise<void> => {
    grpc.close()
    http.close()
    await Promise.all([servers.grpc.stop(100), servers.http.stop(100)])
    await Promise.all([cores.mcp.close(), cores.api.close(), authority.close()])
  }
  return { authority, grpc, http, close }
}
