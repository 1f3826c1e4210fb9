/**
 * Owns what the containers of envoy/compose.yaml run besides usher itself: the files of alice's world,
 * written once, and the sample server. Contract: "Parties". Run from the image's build stage, which has the
 * sources: `usher dev --files /household` and `usher dev --tools`.
 */
import { access, chown, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parse, stringify } from 'yaml'
import { envoyConfig } from './envoy-config.ts'
import { writeHousehold, writeSidecarFile } from './household.ts'
import { startToolServer, type ToolServer } from './tool-server.ts'

/**
 * All containers share one loopback, like those of a pod. If ports are published, it is also that of this
 * machine.
 */
const PORTS = { envoy: 10000, authority: 9100, check: 9191, documents: 9192, tool: 9300 }
/** The user that the image runs as. */
const USER = 1000

/**
 * Writes keys, provisioning file, sidecar file and Envoy's configuration into `directory`, if they are not
 * there yet.
 */
export async function writeComposeFiles(directory: string): Promise<void> {
  const envoyFile = join(directory, 'envoy.yaml')
  const there = await access(envoyFile).then(
    () => true,
    () => false,
  )
  if (there) return
  const loopback = (port: number): string => `127.0.0.1:${port}`
  const urls = {
    issuer: `http://${loopback(PORTS.authority)}`,
    publicUrl: `http://${loopback(PORTS.envoy)}`,
  }
  const household = await writeHousehold(directory, urls)
  await writeSidecarFile(household, {
    ...urls,
    name: 'sidecar',
    check: loopback(PORTS.check),
    http: loopback(PORTS.documents),
    tls: undefined,
    challengesPerMinute: 600,
    drainMs: 2_000,
  })
  // Last: where it stands, all stand.
  await writeFile(envoyFile, await publishedEnvoy(), { mode: 0o600 })
  if (process.getuid?.() !== 0) return
  await chown(directory, USER, USER)
  for (const file of await readdir(directory)) await chown(join(directory, file), USER, USER)
}

/** envoy/envoy.yaml, listening where a published port reaches it. */
async function publishedEnvoy(): Promise<string> {
  const { envoy, check, documents, tool } = PORTS
  const config = parse(await envoyConfig({ envoy, checks: [check], documents: [documents], tool })) as {
    static_resources: { listeners: [{ address: { socket_address: { address: string } } }] }
  }
  config.static_resources.listeners[0].address.socket_address.address = '0.0.0.0'
  return stringify(config)
}

/** The sample server, where Envoy of these files looks for it. */
export function startComposeTools(): Promise<ToolServer> {
  return startToolServer(PORTS.tool)
}
