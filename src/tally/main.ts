/**
 * Starts and ends a tally: one public listener, one of the metrics, one store. Contract: "Parties" (tally),
 * "Tally for a jointly held resource", "Health".
 */
import type { TallyConfig } from '../config.ts'
import { readTallyConfig, readTallyMigrationConfig } from '../config.ts'
import { serveEndpoints } from '../http/servers/endpoint.ts'
import { OPENAPI_ENDPOINT, openApiDocument } from '../http/openapi/openapi.ts'
import { startParty, type StartOptions } from '../http/party.ts'
import { runServed, type ServedParty } from '../http/process.ts'
import { createServerMetrics } from '../http/telemetry/server-metrics.ts'
import type { HttpServer } from '../http/servers/server.ts'
import { answersNow } from '../storage/core/database-wait.ts'
import { outageRefusal } from '../storage/core/outage.ts'
import { startSweeping } from '../storage/core/sweep.ts'
import { TALLY_DATABASE } from '../storage/tally/database.ts'
import { sweepTally } from '../storage/tally/sweep.ts'
import { SURFACE } from '../surface/surface.ts'
import { runMigrationCommand } from '../terminal/migration.ts'
import { ACCESSES } from './accesses.ts'
import { aboutListener, ENDPOINTS } from './endpoints.ts'
import { MANDATE } from './mandates.ts'
import { openTally, type WholeTally } from './opening.ts'
import { surfaceOf } from './surface.ts'
import { WITHDRAWAL } from './withdrawals.ts'

export interface RunningTally extends ServedParty {
  /** The address of each listener, as `host:port` (the real port) or `unix:/path`. */
  publicAddress: string
  metricsAddress: string
}

/** Starts a tally; if the store or an address is unavailable, rejects and leaves nothing running. */
export function startTally(config: TallyConfig, options: StartOptions = {}): Promise<RunningTally> {
  return startParty(config, options, {
    name: 'tally',
    prefix: 'UMA_TALLY',
    exposed: [config.listen],
    database: {
      open: opening => openTally(config, opening),
      fault: async ({ clock, database }) => clock.fault() ?? (await database.readFault()),
      refusalOf: outageRefusal,
    },
    metrics: ({ clock, database: { pool, callPool } }, health) => {
      const pools = { calls: callPool, rest: pool }
      return createServerMetrics('tally', { pools, clock, databaseAnswers: () => answersNow(pool) }, health)
    },
    serve: (tally, { log }) => ({
      workers: [
        () =>
          startSweeping(limit => sweepTally(tally.database.ofNobody, limit), {
            pauseSeconds: config.sweepSeconds,
            log,
          }),
      ],
      listeners: {
        public: {
          address: config.listen,
          setting: 'UMA_TALLY_LISTEN',
          routes: app => publicRoutes(app, tally),
        },
      },
      handles: {},
    }),
  })
}

/** `usher tally`. */
export async function runTally(): Promise<void> {
  await runServed('tally', readTallyConfig(), startTally)
}

/** `usher tally migrate`: brings the database up to date, and says what it applied. */
export async function runTallyMigrate(): Promise<void> {
  const config = readTallyMigrationConfig()
  await runMigrationCommand(tell => TALLY_DATABASE.migrateOnce(config, tell))
}

function publicRoutes(app: HttpServer, tally: WholeTally): void {
  serveEndpoints(app, surfaceOf(tally), SURFACE)
  serveEndpoints(app, tally, [MANDATE])
  serveEndpoints(app, tally, [WITHDRAWAL, ACCESSES])
  serveEndpoints(app, openApiDocument(ENDPOINTS, aboutListener(tally.issuer)), [OPENAPI_ENDPOINT])
}
