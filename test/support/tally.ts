/**
 * Owns a started tally for tests: a fresh database, one account with what its file says, and requests to it.
 * Everything goes through real sockets.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { readTallyConfig } from '../../src/config.ts'
import { createLogger } from '../../src/http/telemetry/log.ts'
import { startTally } from '../../src/tally/main.ts'
import { generatePrivateJwk } from '../../src/wire/signatures/keys.ts'
import { exchange, onUndeclared, type Reply } from './authority.ts'
import { BEA, CARL, TALLY } from './joint.ts'
import { LOCK_TIMEOUT_MS } from './patience.ts'
import { migratedDatabase } from './postgres.ts'

export const ACCOUNT = 'family-1'
export const TOOLS = { client_id: 'family-tools', client_secret: 'a secret of the tools of the family' }
export const TOOLS_URI = 'https://tools.example/mcp/family-1'

/** An account as the file declares it: held by bea and carl, who must both allow. */
export const accountOf = (changes: object = {}) => ({
  account: ACCOUNT,
  resources: ['family-1/*'],
  holders: [
    { ...BEA, weight: 1 },
    { ...CARL, weight: 1 },
  ],
  rule: { kind: 'all' },
  resource_servers: [{ ...TOOLS, resource_uri: TOOLS_URI }],
  registered: [
    {
      id: 'family-1/savings',
      client_id: TOOLS.client_id,
      name: 'Savings',
      resource_scopes: ['read', 'trade'],
      consequence: 'reversible',
    },
    {
      id: 'family-1/deposit',
      client_id: TOOLS.client_id,
      name: 'Deposit box',
      type: 'https://types.example/box',
      resource_scopes: ['open'],
    },
  ],
  ...changes,
})

export interface TestTally {
  environment: Record<string, string>
  publicUrl: string
  metricsUrl: string
  /** What it has logged. */
  lines: readonly string[]
  /** A request to the public listener. */
  request(target: string, init?: RequestInit): Promise<Reply>
  /** A PAT of the resource server of the account. */
  pat(): Promise<string>
  /** Another file under the same path, for a replica that starts later. */
  rewrite(...accounts: object[]): void
  close(): Promise<void>
}

export interface TestTallyOptions {
  accounts?: object[]
  environment?: Record<string, string>
  /** A second replica: same database and files. */
  beside?: TestTally
}

/** Starts one on ephemeral ports; `close` ends it, and with the first of several its database. */
export async function startTestTally({
  accounts = [accountOf()],
  environment: more = {},
  beside,
}: TestTallyOptions = {}): Promise<TestTally> {
  const folder = mkdtempSync(join(tmpdir(), 'usher-tally-'))
  const database = beside === undefined ? await migratedDatabase('tally') : undefined
  const environment = beside?.environment ?? {
    ...writeFiles(folder, accounts),
    DATABASE_URL: database!.url,
    ...more,
  }
  const lines: string[] = []
  const running = await startTally(readTallyConfig(environment), {
    log: createLogger({ name: 'tally', level: 'info', write: line => lines.push(line) }),
    onUndeclared,
    lockTimeoutMs: LOCK_TIMEOUT_MS,
  })
  const publicUrl = `http://${running.publicAddress}`
  const request: TestTally['request'] = (target, { method = 'GET', headers = {}, body } = {}) =>
    exchange({
      url: publicUrl + target,
      method,
      headers: headers as Record<string, string>,
      body: body as string | undefined,
    })
  return {
    environment,
    publicUrl,
    metricsUrl: `http://${running.metricsAddress}`,
    lines,
    request,
    pat: async () => {
      const form = new URLSearchParams({
        grant_type: 'client_credentials',
        scope: 'uma_protection',
        owner: ACCOUNT,
        ...TOOLS,
      })
      const reply = await request('/token', {
        method: 'POST',
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
        body: form.toString(),
      })
      if (reply.status !== 200) throw new Error(`no PAT: ${reply.status} ${reply.text}`)
      return reply.body.access_token as string
    },
    rewrite: (...others) =>
      writeFileSync(environment['UMA_TALLY_PROVISION']!, stringify({ accounts: others })),
    close: async () => {
      await running.close()
      await database?.close()
      rmSync(folder, { recursive: true })
    },
  }
}

function writeFiles(folder: string, accounts: object[]): Record<string, string> {
  const keysFile = join(folder, 'keys.json')
  const provisionFile = join(folder, 'provision.yaml')
  writeFileSync(keysFile, JSON.stringify({ keys: [generatePrivateJwk(), generatePrivateJwk()] }), {
    mode: 0o600,
  })
  writeFileSync(provisionFile, stringify({ accounts }))
  return {
    UMA_TALLY_ISSUER: TALLY,
    UMA_TALLY_KEYS_FILE: keysFile,
    UMA_TALLY_PROVISION: provisionFile,
    UMA_TALLY_LISTEN: '127.0.0.1:0',
    UMA_TALLY_METRICS_LISTEN: '127.0.0.1:0',
    UMA_TALLY_POLL_SECONDS: '0',
    UMA_TALLY_MIGRATE: 'false',
    UMA_TALLY_LOG_LEVEL: 'fatal',
    UMA_DEV_LOOPBACK: 'true',
  }
}
