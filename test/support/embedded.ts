/**
 * Owns an enforcement point inside a resource as tests meet it: a real one, before a scripted authority, and
 * calls on the wire.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, request as send, type IncomingHttpHeaders, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { embed, type EnforcementPoint, type NodeHandler } from '../../src/enforcement/doors/embedded/index.ts'
import { createLogger } from '../../src/http/telemetry/log.ts'
import { generatePrivateJwk } from '../../src/wire/signatures/keys.ts'
import { PUBLIC_URL, TOOLS, callOf, type CallParts } from '../enforcement/calls.ts'
import type { IssuedGrant, ScriptedAuthority } from './scripted-authority.ts'

export interface EmbeddedStand {
  point: EnforcementPoint
  /** Log lines, one object each. */
  lines: Record<string, unknown>[]
  close: () => Promise<void>
}

/** The configuration as it would stand in the file; without `listen`. */
export function embeddedSettings(issuer: string, keysFile: string, changes: object = {}): object {
  return {
    public_url: PUBLIC_URL,
    keys_file: keysFile,
    realm: 'tools',
    challenges_per_minute: 1_000_000,
    owners: [embeddedOwner(issuer)],
    ...changes,
  }
}

/** The owner alice in these settings; `changes` of hers. */
export function embeddedOwner(issuer: string, changes: object = {}): object {
  return {
    owner: 'alice',
    authority: issuer,
    client_id: 'demo-tools',
    client_secret: 'shh',
    tools: TOOLS,
    ...changes,
  }
}

/** An enforcement point for the owner alice; `changes` of its settings. */
export async function standEmbedded(issuer: string, changes: object = {}): Promise<EmbeddedStand> {
  const folder = mkdtempSync(join(tmpdir(), 'usher-embedded-'))
  const keysFile = join(folder, 'keys.json')
  writeFileSync(keysFile, JSON.stringify({ keys: [generatePrivateJwk()] }), { mode: 0o600 })
  const lines: Record<string, unknown>[] = []
  const point = await embed(embeddedSettings(issuer, keysFile, changes), {
    environment: { UMA_DEV_LOOPBACK: 'true' },
    logger: createLogger({
      name: 'test',
      level: 'info',
      write: line => lines.push(JSON.parse(line) as Record<string, unknown>),
    }),
  })
  const close = async (): Promise<void> => {
    await point.close()
    rmSync(folder, { recursive: true })
  }
  return { point, lines, close }
}

/** The same around one handler of node:http, which is served on loopback. */
export async function standProtected(
  issuer: string,
  handler: NodeHandler,
  changes: object = {},
): Promise<EmbeddedStand & { port: number }> {
  const stand = await standEmbedded(issuer, changes)
  const { port, close } = await serve(stand.point.protect(handler))
  return { ...stand, port, close: () => close().then(stand.close) }
}

/** A server on loopback, and where it is. */
export async function serve(handler: RequestListener): Promise<{ port: number; close: () => Promise<void> }> {
  const server = createServer(handler)
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return {
    port: (server.address() as AddressInfo).port,
    close: async () => {
      server.closeAllConnections()
      await new Promise(resolve => server.close(resolve))
    },
  }
}

export interface Answer {
  status: number
  headers: IncomingHttpHeaders
  body: string
}

/** Sends the very call over HTTP: its fields line by line, its body byte for byte. */
export async function sendCall(port: number, parts: CallParts = {}, signal?: AbortSignal): Promise<Answer> {
  const { method, path, query, headers, body } = callOf(parts)
  const lines = [...headers].flatMap(([name, values]) => values.flatMap(value => [name, value]))
  const bytes = body.state === 'complete' ? body.bytes : Buffer.alloc(0)
  const length = headers.has('content-length') || headers.has('transfer-encoding')
  return new Promise((resolve, reject) => {
    const request = send(
      {
        port,
        host: '127.0.0.1',
        method,
        ...(signal && { signal }),
        path: query === undefined ? path : `${path}?${query}`,
        headers: ['host', 'evil.example', ...(length ? [] : ['content-length', `${bytes.length}`]), ...lines],
      },
      response => {
        text(response).then(
          body => resolve({ status: response.statusCode!, headers: response.headers, body }),
          reject,
        )
      },
    )
    request.on('error', reject)
    request.end(bytes)
  })
}

/** The word of a refusal, or `allow` for the 200 of the protected handler. */
export function verdictOf({ status, body }: Answer): string {
  if (status === 200) return 'allow'
  return `${status} ${String((JSON.parse(body) as { error?: unknown }).error)}`
}

/** A standing grant over her portfolio, for this key. */
export function standingGrant(
  authority: ScriptedAuthority,
  key: IssuedGrant['key'],
  changes: Partial<IssuedGrant> = {},
): string {
  const exp = Math.floor(Date.now() / 1000) + 600
  const permissions = [{ resource_id: 'alice/portfolio', resource_scopes: ['read'], exp }]
  return authority.issue({
    owner: 'alice',
    resource: `${PUBLIC_URL}/mcp/alice`,
    key,
    permissions,
    ...changes,
  })
}

/** A single-use grant for one trade, for this key. */
export function singleUseGrant(
  authority: ScriptedAuthority,
  key: IssuedGrant['key'],
  operation: { tool: string; params_s256: string },
): string {
  const exp = Math.floor(Date.now() / 1000) + 600
  const permissions = [{ resource_id: 'alice/trades', resource_scopes: ['trade'], exp }]
  return standingGrant(authority, key, { permissions, operation, consequence: 'irreversible' })
}
