/**
 * Owns whether this machine has a Traefik for the end-to-end tests, and the start of one on the configuration
 * that we ship.
 */
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { startChild, untilReady } from '../../src/dev/stack/child-process.ts'
import { accepts, freePorts } from '../../src/dev/stack/ports.ts'
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

async function startTraefik(path: string, ports: GatewayPorts): Promise<{ stop: () => Promise<void> }> {
  const directory = await mkdtemp(join(tmpdir(), 'usher-traefik-'))
  const [ask] = await freePorts(1)
  const values: Record<string, string | number | undefined> = {
    TRAEFIK_PORT: ports.gateway,
    ASK_PORT: ask,
    CHECK_PORT: ports.check,
    DOCUMENTS_PORT: ports.documents,
    API_PORT: ports.api,
    DIRECTORY: directory,
  }
  const place = async (from: URL, name: string): Promise<string> => {
    const text = await readFile(from, 'utf8')
    const file = join(directory, name)
    await writeFile(
      file,
      text.replace(/\$\{(\w+)\}/g, (whole, variable: string) => String(values[variable] ?? whole)),
    )
    return file
  }
  await place(DYNAMIC, 'traefik.yaml')
  const child = startChild({
    name: 'Traefik',
    command: [path, `--configfile=${await place(STATIC, 'static.yaml')}`],
    logFile: join(directory, 'traefik.log'),
  })
  // It listens before it has its routers: a document that comes through shows that it has.
  await untilReady(child, async () => {
    if (!(await accepts(ports.gateway))) return false
    return (await fetch(`http://127.0.0.1:${ports.gateway}/jwks`)).status === 200
  })
  return {
    stop: async () => {
      await child.stop()
      await rm(directory, { recursive: true, force: true })
    },
  }
}
