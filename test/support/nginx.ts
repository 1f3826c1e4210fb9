/**
 * Owns whether this machine has an nginx for the end-to-end tests, and the start of one on the configuration
 * that we ship.
 */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { runGateway } from './gateway-process.ts'
import type { ForwardAuthGateway, GatewayPorts } from './plain-api-stand.ts'
import type { Requirement } from './requirement.ts'

const run = promisify(execFile)
const PLACES = ['nginx', '/usr/sbin/nginx', '/usr/local/sbin/nginx', '/usr/local/nginx/sbin/nginx']

/** The path of a real nginx with auth_request, or the line that says how to get one. */
export async function nginx(): Promise<Requirement<string>> {
  for (const path of PLACES) {
    const built = await run(path, ['-V']).then(
      ({ stderr }) => stderr,
      () => '',
    )
    if (built.includes('--with-http_auth_request_module')) return { found: path }
  }
  return { missing: 'nginx with auth_request (Debian: apt-get install nginx-light).' }
}

const CONFIGURATION = new URL('../../envoy/nginx.conf', import.meta.url)

/** Runs envoy/nginx.conf as it is, with the ports put in. */
export function nginxOf(path: string): ForwardAuthGateway {
  return { configuration: CONFIGURATION, start: ports => startNginx(path, ports) }
}

function startNginx(path: string, ports: GatewayPorts): Promise<{ stop: () => Promise<void> }> {
  return runGateway({ name: 'nginx', ports }, async ({ directory, place }) => {
    const file = await place(CONFIGURATION, 'nginx.conf')
    return { command: [path, '-p', directory, '-c', file, '-g', 'daemon off; master_process off;'] }
  })
}
