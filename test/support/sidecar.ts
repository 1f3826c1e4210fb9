/**
 * Owns a sidecar in this process, as its main starts it from a file, in front of a scripted authority:
 * alice's two tools.
 */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { readSidecarConfig } from '../../src/config.ts'
import { startSidecar, type Sidecar } from '../../src/enforcement/main.ts'
import { createLogger } from '../../src/http/telemetry/log.ts'
import { generatePrivateJwk } from '../../src/wire/signatures/keys.ts'
import { PUBLIC_URL } from '../enforcement/calls.ts'

export interface TestSidecarOptions {
  /** Where its files go. */
  directory: string
  authority: { issuer: string }
  /** Further members of its file. */
  settings?: Record<string, unknown>
}

/** The members of its file that it cannot do without. */
export function sidecarSettings(
  { directory, authority }: Pick<TestSidecarOptions, 'directory' | 'authority'>,
  listen = { check: '127.0.0.1:0', http: '127.0.0.1:0' },
): Record<string, unknown> {
  const tool = (name: string, resource: string, scope: string, consequence: string) => ({
    tool: name,
    resource_id: `alice/${resource}`,
    scopes: [scope],
    consequence,
  })
  return {
    public_url: PUBLIC_URL,
    listen,
    keys_file: join(directory, 'keys.json'),
    realm: 'tools',
    challenges_per_minute: 1_000_000,
    owners: [
      {
        owner: 'alice',
        authority: authority.issuer,
        client_id: 'demo',
        client_secret: 'shh',
        tools: [
          tool('portfolio_read', 'portfolio', 'read', 'reversible'),
          tool('place_trade', 'trades', 'trade', 'irreversible'),
        ],
      },
    ],
  }
}

/** Writes its key file and its file, and answers the path of the latter. */
export async function writeSidecarFiles(
  directory: string,
  settings: Record<string, unknown>,
): Promise<string> {
  await writeFile(join(directory, 'keys.json'), JSON.stringify({ keys: [generatePrivateJwk()] }), {
    mode: 0o600,
  })
  const file = join(directory, 'sidecar.yaml')
  await writeFile(file, stringify(settings))
  return file
}

/** Starts it. */
export async function startTestSidecar(options: TestSidecarOptions): Promise<Sidecar> {
  const file = await writeSidecarFiles(options.directory, {
    ...sidecarSettings(options),
    ...options.settings,
  })
  return startSidecar(readSidecarConfig(file, { UMA_DEV_LOOPBACK: 'true' }), {
    logger: createLogger({ name: 'test', level: 'fatal' }),
  })
}
