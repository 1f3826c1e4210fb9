/**
 * Owns whether this machine has an nginx for the end-to-end tests, and the start of one on the configuration
 * that we ship.
 */
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { startChild, untilReady } from '../../src/dev/stack/child-process.ts'
import { accepts } from '../../src/dev/stack/ports.ts'
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

async function startNginx(path: string, ports: GatewayPorts): Promise<{ stop: () => Promise<void> }> {
  const directory = await mkdtemp(join(tmpdir(), 'usher-nginx-'))
  const values: Record<string, string | number> = {
    NGINX_PORT: ports.gateway,
    CHECK_PORT: ports.check,
    DOCUMENTS_PORT: ports.documents,
    API_PORT: ports.api,
    DIRECTORY: directory,
  }
  const text = await readFile(CONFIGURATION, 'utf8')
  const file = join(directory, 'nginx.conf')
  await writeFile(
    file,
    text.replace(/\$\{(\w+)\}/g, (whole, name: string) => String(values[name] ?? whole)),
  )
  const child = startChild({
    name: 'nginx',
    command: [path, '-p', directory, '-c', file, '-g', 'daemon off; master_process off;'],
    logFile: join(directory, 'nginx.log'),
  })
  await untilReady(child, () => accepts(ports.gateway))
  return {
    stop: async () => {
      await child.stop()
      await rm(directory, { recursive: true, force: true })
    },
  }
}
