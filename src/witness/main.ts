/**
 * Starts and ends a witness: one public listener, one of the metrics, one store. docs/details/witness.md.
 * Contract: "Events" (row 5), "Health".
 */
import type { FastifyBaseLogger } from 'fastify'
import {
  readWitnessConfig,
  readWitnessKeys,
  readWitnessMigrationConfig,
  type WitnessConfig,
} from '../config.ts'
import { OPENAPI_ENDPOINT, openApiDocument } from '../http/openapi/openapi.ts'
import { startParty, type StartOptions } from '../http/party.ts'
import { runServed, type ServedParty } from '../http/process.ts'
import { serveEndpoints } from '../http/servers/endpoint.ts'
import { takeRawBodies, type HttpServer } from '../http/servers/server.ts'
import { sourceShares } from '../http/source-share.ts'
import { createServerMetrics } from '../http/telemetry/server-metrics.ts'
import { answersNow } from '../storage/core/database-wait.ts'
import { outageRefusal } from '../storage/core/outage.ts'
import { WITNESS_DATABASE, type Pools } from '../storage/witness/database.ts'
import { processTerminal } from '../terminal/command.ts'
import { runMigrationCommand } from '../terminal/migration.ts'
import { encodeVerifierKey } from '../wire/ledger/verifier-key.ts'
import type { PrivateKey } from '../wire/signatures/keys.ts'
import { ADD_CHECKPOINT, REQUESTS_PER_MINUTE } from './add-checkpoint.ts'
import type { Witness } from './context.ts'
import { aboutListener, ENDPOINTS } from './endpoints.ts'

export interface RunningWitness extends ServedParty {
  /** The address of each listener, as `host:port` (the real port) or `unix:/path`. */
  publicAddress: string
  metricsAddress: string
}

/** It reads no clock of a replica: the time in a cosignature is that of the database. */
const NO_CLOCK = { offsetSeconds: () => undefined }

/** Starts a witness; if the store or an address is unavailable, rejects and leaves nothing running. */
export function startWitness(config: WitnessConfig, options: StartOptions = {}): Promise<RunningWitness> {
  return startParty(config, options, {
    name: 'witness',
    prefix: 'UMA_WITNESS',
    exposed: [config.listen],
    database: {
      open: async ({ log, lockTimeoutMs, closers }) => {
        const database = await WITNESS_DATABASE.openServing({ ...config, lockTimeoutMs }, log)
        closers.push(() => database.close())
        return database
      },
      fault: database => database.readFault(),
      refusalOf: outageRefusal,
    },
    metrics: (database, health) =>
      createServerMetrics(
        'witness',
        {
          pools: { rest: database.pool },
          clock: NO_CLOCK,
          databaseAnswers: () => answersNow(database.pool),
        },
        health,
      ),
    serve: (database, { log, metrics }) => {
      const count = metrics.addCounter(CONTRADICTIONS)
      const witness = witnessOf(config, { database, log, countContradiction: () => count({}) })
      for (const line of verifierKeys(config)) log.info({ verifier_key: line }, 'logs name this witness so')
      return {
        workers: [],
        listeners: {
          public: {
            address: config.listen,
            setting: 'UMA_WITNESS_LISTEN',
            routes: app => publicRoutes(app, witness),
          },
        },
        handles: {},
      }
    },
  })
}

const CONTRADICTIONS = {
  name: 'usher_witness_contradictions_total',
  help: 'Heads that a log signed, and that contradict what this witness cosigned of it; the log has each.',
  labelNames: [],
}

function witnessOf(
  { issuer, name, keys, issuers }: WitnessConfig,
  means: { database: Pools; log: FastifyBaseLogger; countContradiction: () => void },
): Witness {
  return { issuer, name, keys, issuers, shares: sourceShares(REQUESTS_PER_MINUTE), ...means }
}

function publicRoutes(app: HttpServer, witness: Witness): void {
  takeRawBodies(app)
  serveEndpoints(app, witness, [ADD_CHECKPOINT])
  serveEndpoints(app, openApiDocument(ENDPOINTS, aboutListener(witness.issuer)), [OPENAPI_ENDPOINT])
}

/** The lines by which logs and verifiers name the keys of this witness. */
function verifierKeys({ name, keys }: { name: string; keys: readonly PrivateKey[] }): string[] {
  return keys.map(key => encodeVerifierKey({ name, type: 'cosignature', key }))
}

/** `usher witness`. */
export async function runWitness(): Promise<void> {
  await runServed('witness', readWitnessConfig(), startWitness)
}

/** `usher witness migrate`: brings the database up to date, and says what it applied. */
export async function runWitnessMigrate(): Promise<void> {
  const config = readWitnessMigrationConfig()
  await runMigrationCommand(tell => WITNESS_DATABASE.migrateOnce(config, tell))
}

/** `usher witness keys`: prints the verifier keys that logs and verifiers name. */
export function printWitnessKeys(): void {
  for (const line of verifierKeys(readWitnessKeys())) processTerminal.out(`${line}\n`)
}
