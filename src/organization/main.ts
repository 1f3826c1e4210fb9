/**
 * Starts and ends an organization: one public listener, one of the administration, one store. Contract:
 * "Parties" (organization's authority), "The organization's authority", "Health".
 */
import type { OrganizationConfig } from '../config.ts'
import { readOrganizationConfig, readOrganizationMigrationConfig } from '../config.ts'
import { openAccepted } from '../credentials/acceptance.ts'
import { serveEndpoints } from '../http/servers/endpoint.ts'
import { OPENAPI_ENDPOINT, openApiDocument } from '../http/openapi/openapi.ts'
import { openOutbound } from '../http/outbound/outbound.ts'
import { startParty, type Means, type StartOptions } from '../http/party.ts'
import { runServed, type ServedParty } from '../http/process.ts'
import { SECURITY_EVENTS } from '../http/telemetry/security-log.ts'
import { createServerMetrics } from '../http/telemetry/server-metrics.ts'
import type { HttpServer } from '../http/servers/server.ts'
import { answersNow } from '../storage/core/database-wait.ts'
import { outageRefusal } from '../storage/core/outage.ts'
import { startSweeping, sweepEach, type Swept } from '../storage/core/sweep.ts'
import { ORGANIZATION_DATABASE } from '../storage/organization/database.ts'
import { organizationBatches } from '../storage/organization/sweep.ts'
import { runMigrationCommand } from '../terminal/migration.ts'
import { createMemberServers } from './admin/member-servers.ts'
import { voidAbandoned } from './break-glass/abandoned.ts'
import type { Organization } from './context.ts'
import { aboutListener, ADMIN_ENDPOINTS, ENDPOINTS, PUBLIC_ENDPOINTS } from './endpoints.ts'
import { NOTICES_TOLD, startOutbox } from './notices/outbox.ts'
import { openOrganization, publishFirst, type OpenedOrganization } from './opening.ts'
import { startSecurityLog } from './security-log.ts'

export interface RunningOrganization extends ServedParty {
  /** The address of each listener, as `host:port` (the real port) or `unix:/path`. */
  publicAddress: string
  adminAddress: string
  metricsAddress: string
}

/**
 * Starts an organization; if the store or an address is unavailable, rejects and leaves nothing running.
 */
export function startOrganization(
  config: OrganizationConfig,
  options: StartOptions = {},
): Promise<RunningOrganization> {
  let onNotice = (): void => undefined
  return startParty(config, options, {
    name: 'organization',
    prefix: 'UMA_ORG',
    exposed: [config.listen, config.adminListen],
    database: {
      open: opening => openOrganization(config, opening, () => onNotice()),
      fault: async ({ clock, database }) => clock.fault() ?? (await database.readFault()),
      refusalOf: outageRefusal,
    },
    metrics: ({ clock, database: { pool } }, health) =>
      createServerMetrics(
        'organization',
        { pools: { all: pool }, clock, databaseAnswers: () => answersNow(pool) },
        health,
      ),
    serve: async (opened, means) => {
      const organization = { ...opened, security: openSecurityLog(opened, means) }
      await publishFirst(organization, config.provisioned.charter)
      const tell = means.metrics.addCounter(NOTICES_TOLD)
      const sweeping = { pauseSeconds: config.sweepSeconds, log: means.log }
      return {
        answered: organization.security.answered,
        workers: [
          () => startSweeping(limit => sweep(organization, limit), sweeping),
          () => {
            const outbox = startOutbox({ ...organization, observe: outcome => tell({ outcome }) })
            onNotice = () => outbox.wake()
            return outbox
          },
        ],
        listeners: {
          admin: {
            address: config.adminListen,
            setting: 'UMA_ORG_ADMIN_LISTEN',
            routes: app => adminRoutes(app, organization, { config, closers: means.closers }),
          },
          public: {
            address: config.listen,
            setting: 'UMA_ORG_LISTEN',
            routes: app => publicRoutes(app, organization),
          },
        },
        handles: {},
      }
    },
  })
}

/** `usher organization`. */
export async function runOrganization(): Promise<void> {
  await runServed('organization', readOrganizationConfig(), startOrganization)
}

/** `usher organization migrate`: brings the database up to date, and says what it applied. */
export async function runOrganizationMigrate(): Promise<void> {
  const config = readOrganizationMigrationConfig()
  await runMigrationCommand(tell => ORGANIZATION_DATABASE.migrateOnce(config, tell))
}

function openSecurityLog(
  { database }: OpenedOrganization,
  { log, metrics, localClock: clock }: Means,
): Organization['security'] {
  const count = metrics.addCounter(SECURITY_EVENTS)
  return startSecurityLog(database.ofNobody, {
    log,
    count: event => count({ event }),
    answered: metrics.answered,
    clock,
  })
}

/** The rows that are swept, with abandoned grants: those are made void before they are removed. */
function sweep({ database: { ofNobody: db } }: Organization, limit: number): Promise<Swept> {
  const abandoned = (most: number): Promise<number> => voidAbandoned(db, most)
  return sweepEach({ abandoned, ...organizationBatches(db) }, limit)
}

function publicRoutes(app: HttpServer, organization: Organization): void {
  serveEndpoints(app, organization, PUBLIC_ENDPOINTS)
  const document = openApiDocument(ENDPOINTS.public, aboutListener.public(organization.issuer))
  serveEndpoints(app, document, [OPENAPI_ENDPOINT])
}

function adminRoutes(
  app: HttpServer,
  organization: Organization,
  { config, closers }: { config: OrganizationConfig; closers: Means['closers'] },
): void {
  const { adminAuth, realm, devLoopback, provisioned } = config
  const accepting = {
    space: 'admin',
    deviceKeys: adminAuth.includes('device-key'),
    realm,
    devLoopback,
    now: () => organization.now(),
  } as const
  const accepted = openAccepted(accepting, closers)
  const { issuer, keys, authorities } = organization
  const now = (): number => organization.now()
  const outbound = openOutbound({ devLoopback }, closers)
  const members = createMemberServers({ issuer, key: keys[0], authorities, outbound, now })
  const { administrators } = provisioned
  serveEndpoints(app, { ...organization, accepted, administrators, members }, ADMIN_ENDPOINTS)
  serveEndpoints(app, openApiDocument(ENDPOINTS.admin, aboutListener.admin('/')), [OPENAPI_ENDPOINT])
}
