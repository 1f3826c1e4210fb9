/**
 * Owns whether this machine has a Traefik for the end-to-end tests, and the start of one on the configuration
 * that we ship.
 */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { freePorts } from '../../src/dev/stack/ports.ts'
import { runGateway } from './gateway-process.ts'
import type { ForwardAuthGateway, GatewayPorts } from './plain-api-stand.ts'
import type { Requirement } from './requirement.ts'

const run = promisify(execFile)
const STATIC = new URL('../../envoy/traefik-static.yaml', import.meta.url)
const DYNAMIC = new URL('../../envoy/traefik.yaml', import.meta.url)

/** The path of a real Traefik, or the line that says how to get one. */
export async function traefik(): Promise<Requirement<string>> {
  const path = process.env['TRAEFIK_BIN'] ?? 'traefik'
  const version = await run(path, ['version']).then(
    ({ stdout }) => stdout,
    () => '',
  )
  if (/Version:\s+v?3\./.test(version)) return { found: path }
  return { missing: 'Traefik 3, on the path or named by TRAEFIK_BIN; CI has none.', inCi: false }
}

/** Runs envoy/traefik-static.yaml and envoy/traefik.yaml as they are, with the ports put in. */
export function traefikOf(path: string): ForwardAuthGateway {
  return { configuration: DYNAMIC, start: ports => startTraefik(path, ports) }
}

function startTraefik(path: string, ports: GatewayPorts): Promise<{ stop: () => Promise<void> }> {
  // It listens before it has its routers: a document that comes through shows that it has.
  const isServed = async () => (await fetch(`http://127.0.0.1:${ports.gateway}/jwks`)).status === 200
  return runGateway(
    { name: 'Traefik', ports },
    async ({ place }) => {
      const more = { ASK_PORT: String((await freePorts(1))[0]) }
      await place(DYNAMIC, 'traefik.yaml', more)
      return { command: [path, `--configfile=${await place(STATIC, 'static.yaml', more)}`] }
    },
    isServed,
  )
}
