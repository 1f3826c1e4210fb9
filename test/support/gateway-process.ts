/** Owns a gateway that asks by forward-auth, as a process on a configuration that we ship. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startChild, untilReady, type ChildOptions } from '../../src/dev/stack/child-process.ts'
import { accepts } from '../../src/dev/stack/ports.ts'
import type { GatewayPorts } from './plain-api-stand.ts'

export interface GatewayFolder {
  directory: string
  /** What the configuration leaves open. */
  values: Record<string, string>
  /** Writes a configuration into the folder, with its `${…}` filled in; answers its path. */
  place: (from: URL, name: string, more?: Record<string, string>) => Promise<string>
}

/** Starts it, and answers when it is ready: when it accepts connections, unless `isReady` says more. */
export async function runGateway(
  { name, ports }: { name: string; ports: GatewayPorts },
  configure: (folder: GatewayFolder) => Promise<Pick<ChildOptions, 'command' | 'environment'>>,
  isReady = () => Promise.resolve(true),
): Promise<{ stop: () => Promise<void> }> {
  const directory = await mkdtemp(join(tmpdir(), `usher-${name.toLowerCase()}-`))
  const values = {
    [`${name.toUpperCase()}_PORT`]: String(ports.gateway),
    CHECK_PORT: String(ports.check),
    DOCUMENTS_PORT: String(ports.documents),
    API_PORT: String(ports.api),
    DIRECTORY: directory,
  }
  const place: GatewayFolder['place'] = async (from, file, more = {}) => {
    const all: Record<string, string> = { ...values, ...more }
    const text = await readFile(from, 'utf8')
    const path = join(directory, file)
    await writeFile(
      path,
      text.replace(/\$\{(\w+)\}/g, (whole, variable: string) => all[variable] ?? whole),
    )
    return path
  }
  const started = await configure({ directory, values, place })
  const child = startChild({ name, ...started, logFile: join(directory, `${name.toLowerCase()}.log`) })
  await untilReady(child, async () => (await accepts(ports.gateway)) && isReady())
  return {
    stop: async () => {
      await child.stop()
      await rm(directory, { recursive: true, force: true })
    },
  }
}
