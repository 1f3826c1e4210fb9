/**
 * Owns a started witness for tests, and logs that it takes: a fresh database, a file of issuers, and requests
 * to it through real sockets.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { readWitnessConfig } from '../../src/config.ts'
import { createLogger } from '../../src/http/telemetry/log.ts'
import {
  appendLeaves,
  leafHash,
  planConsistency,
  proofOf,
  rootOf,
  type TreeHead,
} from '../../src/rules/ledger/merkle.ts'
import { encodeAddCheckpoint } from '../../src/wire/ledger/add-checkpoint.ts'
import { signCheckpoint } from '../../src/wire/ledger/checkpoint.ts'
import { encodeVerifierKey, parseWitnessKey, type VerifierKey } from '../../src/wire/ledger/verifier-key.ts'
import {
  generatePrivateJwk,
  importPrivateJwk,
  publicJwk,
  type PrivateJwk,
  type PrivateKey,
} from '../../src/wire/signatures/keys.ts'
import { startWitness } from '../../src/witness/main.ts'
import { exchange, onUndeclared, type Reply } from './authority.ts'
import { LOCK_TIMEOUT_MS } from './patience.ts'
import { migratedDatabase } from './postgres.ts'

/** The authority whose logs the witness takes, and the key of those logs. */
export const WITNESSED = 'https://as.example'
export const LOG_KEY: PrivateKey = importPrivateJwk(generatePrivateJwk())
export const ORIGIN = 'as.example/ledger/AbCdEfGhIjKl'

/** An issuer as the file declares it. */
export const issuerOf = (changes: object = {}) => ({
  issuer: WITNESSED,
  log_keys: [publicJwk(LOG_KEY)],
  ...changes,
})

/** A log of this many entries, none of which is that of another number of its kind. */
export function treeOf(size: number, kind = 'leaf'): TreeHead & { proofFrom: (from: number) => Buffer[] } {
  const leaves = Array.from({ length: size }, (_, n) => leafHash(`${kind} ${n}`))
  const { frontier } = appendLeaves({ size: 0, hashes: [] }, leaves)
  return {
    size,
    root: rootOf(frontier),
    proofFrom: from => (from === 0 ? [] : proofOf(planConsistency(from, size), () => Buffer.concat(leaves))),
  }
}

/** The body of a request: that tree, with the proof from `from` on. At most 256 entries. */
export function bodyOf(
  tree: ReturnType<typeof treeOf>,
  from: number,
  { origin = ORIGIN, key = LOG_KEY, proof = tree.proofFrom(from) } = {},
): string {
  const note = signCheckpoint({ origin, size: tree.size, root: tree.root }, key)
  return encodeAddCheckpoint({ oldSize: from, proof, note })
}

export interface TestWitness {
  environment: Record<string, string>
  publicUrl: string
  metricsUrl: string
  /** As logs and verifiers name its keys. */
  keys: readonly VerifierKey[]
  /** What it has logged. */
  lines: readonly string[]
  /** POST /add-checkpoint. */
  add: (body: string | Uint8Array, headers?: Record<string, string>) => Promise<Reply>
  close: () => Promise<void>
}

export interface TestWitnessOptions {
  issuers?: object[]
  keys?: readonly PrivateJwk[]
  environment?: Record<string, string>
  /** A second replica: same database and files. */
  beside?: TestWitness
}

/** Starts one on ephemeral ports; `close` ends it, and with the first of several its database. */
export async function startTestWitness({
  issuers = [issuerOf()],
  keys = [generatePrivateJwk()],
  environment: more = {},
  beside,
}: TestWitnessOptions = {}): Promise<TestWitness> {
  const folder = mkdtempSync(join(tmpdir(), 'usher-witness-'))
  const database = beside === undefined ? await migratedDatabase('witness') : undefined
  const environment = beside?.environment ?? {
    ...writeFiles(folder, { issuers, keys }),
    DATABASE_URL: database!.url,
    ...more,
  }
  const lines: string[] = []
  const config = readWitnessConfig(environment)
  const running = await startWitness(config, {
    log: createLogger({ name: 'witness', level: 'info', write: line => lines.push(line) }),
    onUndeclared,
    lockTimeoutMs: LOCK_TIMEOUT_MS,
  })
  const publicUrl = `http://${running.publicAddress}`
  return {
    environment,
    publicUrl,
    metricsUrl: `http://${running.metricsAddress}`,
    keys: config.keys.map(key =>
      parseWitnessKey(encodeVerifierKey({ name: config.name, type: 'cosignature', key })),
    ),
    lines,
    add: (body, headers = {}) =>
      exchange({ url: `${publicUrl}/add-checkpoint`, method: 'POST', headers, body }),
    close: async () => {
      await running.close()
      await database?.close()
      rmSync(folder, { recursive: true })
    },
  }
}

function writeFiles(
  folder: string,
  { issuers, keys }: { issuers: object[]; keys: readonly PrivateJwk[] },
): Record<string, string> {
  const keysFile = join(folder, 'keys.json')
  const logsFile = join(folder, 'issuers.yaml')
  writeFileSync(keysFile, JSON.stringify({ keys }), { mode: 0o600 })
  writeFileSync(logsFile, stringify({ issuers }))
  return {
    UMA_WITNESS_ISSUER: 'https://witness.example',
    UMA_WITNESS_KEYS_FILE: keysFile,
    UMA_WITNESS_LOGS: logsFile,
    UMA_WITNESS_LISTEN: '127.0.0.1:0',
    UMA_WITNESS_METRICS_LISTEN: '127.0.0.1:0',
    UMA_WITNESS_DRAIN_MS: '0',
  }
}
