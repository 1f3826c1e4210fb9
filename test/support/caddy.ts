/**
 * Owns whether this machine has a Caddy for the end-to-end tests, and the start of one on the configuration
 * that we ship.
 */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { runGateway } from './gateway-process.ts'
import type { ForwardAuthGateway, GatewayPorts } from './plain-api-stand.ts'
import type { Requirement } from './requirement.ts'

const run = promisify(execFile)
const CONFIGURATION = new URL('../../envoy/Caddyfile', import.meta.url)

/** The path of a real Caddy with forward_auth, or the line that says how to get one. */
export async function caddy(): Promise<Requirement<string>> {
  const path = process.env['CADDY_BIN'] ?? 'caddy'
  const modules = await run(path, ['list-modules']).then(
    ({ stdout }) => stdout,
    () => '',
  )
  if (modules.includes('http.handlers.reverse_proxy')) return { found: path }
  return {
    missing: 'Caddy 2.6.2 or later, on the path or named by CADDY_BIN (Debian: apt-get install caddy).',
  }
}

/** Runs envoy/Caddyfile as it is. */
export function caddyOf(path: string): ForwardAuthGateway {
  return { configuration: CONFIGURATION, start: ports => startCaddy(path, ports) }
}

function startCaddy(path: string, ports: GatewayPorts): Promise<{ stop: () => Promise<void> }> {
  return runGateway({ name: 'Caddy', ports }, ({ directory, values }) =>
    Promise.resolve({
      command: [path, 'run', '--config', fileURLToPath(CONFIGURATION), '--adapter', 'caddyfile'],
      environment: { HOME: directory, ...values },
    }),
  )
}
