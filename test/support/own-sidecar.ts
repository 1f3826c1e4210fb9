/**
 * Owns a sidecar that registers itself for alice at a real authority and publishes where agents call it; it
 * can be started again with other tools.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { readSidecarConfig } from '../../src/config.ts'
import { startSidecar, type Sidecar } from '../../src/enforcement/main.ts'
import { createLogger } from '../../src/http/telemetry/log.ts'
import { generatePrivateJwk } from '../../src/wire/signatures/keys.ts'
import { callOf, type CallParts } from '../enforcement/calls.ts'
import { checkBytes, connect, type Answer, type CheckClient } from './check-client.ts'

export interface OwnSidecar {
  /** Its resource_uri and its client_id. */
  resource: string
  lines: string[]
  envoy(): CheckClient
  /** Starts it, or ends it and starts it again, with these tools. */
  start(tools: object[]): Promise<void>
  /** A call as a gateway shows it. */
  check(parts?: CallParts): Promise<Answer>
  close(): Promise<void>
}

/** One that is not started yet; `port` is where its documents are served. */
export function ownSidecar({ issuer, port }: { issuer: string; port: number }): OwnSidecar {
  const folder = mkdtempSync(join(tmpdir(), 'usher-self-'))
  const publicUrl = `http://127.0.0.1:${port}`
  const lines: string[] = []
  writeFileSync(join(folder, 'keys.json'), JSON.stringify({ keys: [generatePrivateJwk()] }), { mode: 0o600 })
  let running: { sidecar: Sidecar; envoy: CheckClient } | undefined
  const end = async (): Promise<void> => {
    running?.envoy.close()
    await running?.sidecar.close()
    running = undefined
  }
  return {
    resource: `${publicUrl}/mcp/alice`,
    lines,
    envoy: () => running!.envoy,
    start: async tools => {
      await end()
      const file = join(folder, 'sidecar.yaml')
      writeFileSync(file, stringify(settingsOf(publicUrl, issuer, join(folder, 'keys.json'), tools)))
      const sidecar = await startSidecar(readSidecarConfig(file, { UMA_DEV_LOOPBACK: 'true' }), {
        logger: createLogger({ name: 'test', level: 'info', write: line => lines.push(line) }),
      })
      running = { sidecar, envoy: connect(sidecar.checkAddress) }
    },
    check: parts => {
      const call = callOf({ signedAuthority: new URL(publicUrl).host, ...parts })
      return running!.envoy.check(
        checkBytes({
          path: call.path,
          headers: Object.fromEntries([...call.headers].map(([name, values]) => [name, values[0]!])),
          raw_body: call.body.state === 'complete' ? call.body.bytes : Buffer.alloc(0),
        }),
      )
    },
    close: async () => {
      await end()
      rmSync(folder, { recursive: true })
    },
  }
}

function settingsOf(public_url: string, authority: string, keys_file: string, tools: object[]): object {
  return {
    public_url,
    listen: { check: '127.0.0.1:0', http: new URL(public_url).host },
    realm: 'tools',
    challenges_per_minute: 1_000_000,
    keys_file,
    owners: [{ owner: 'alice', authority, signature: true, register: true, name: 'The broker', tools }],
  }
}
