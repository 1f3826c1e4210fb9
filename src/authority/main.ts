/**
 * Starts and ends the authorization server: one public listener, one of the owner API, one store.
 * Contract: "Parties" (owner's authorization server), "Owner API", "Health".
 */
import type { AuthorityConfig, ProvisionedOwner } from '../config.ts'
import { authorityWarnings, readAuthorityConfig, readMigrationConfig } from '../config.ts'
import { openAccepted } from '../credentials/acceptance.ts'
import { startParty, type Means, type PartyListener, type StartOptions } from '../http/party.ts'
import { runServed, type ServedParty } from '../http/process.ts'
import { useLibsodium } from '../native/libsodium.ts'
import { AUTHORITY_DATABASE } from '../storage/authority/database.ts'
import { outageRefusal } from '../storage/core/outage.ts'
import { runMigrationCommand } from '../terminal/migration.ts'
import { relyingPartyOf } from '../wire/passkeys/relying-party.ts'
import { administrationRoutes } from './administration/listener.ts'
import { applyAgain, rereading } from './administration/provision-reload.ts'
import type { Cells } from './cells/cells.ts'
import type { Authority } from './context.ts'
import {
  dutiesOf,
  startLeases,
  startNotifying,
  startRegistries,
  startSecurityLogs,
  witnessingsOf,
} from './duties.ts'
import { ownerRoutes, publicRoutes } from './listeners.ts'
import { createAuthorityMetrics, type AuthorityMetrics } from './metrics.ts'
import { each, openCells, type AuthorityCell } from './opening.ts'

export interface RunningAuthority extends ServedParty {
  /** Where each listener is, as `host:port` (the port really given) or `unix:/path`. */
  publicAddress: string
  ownerAddress: string
  /** Undefined if there is no listener for administration. */
  adminAddress: string | undefined
  metricsAddress: string
  /** Applies a provisioning file, as the start did. */
  applyFile: (owners: readonly ProvisionedOwner[]) => Promise<void>
}

/** Starts an authority; if the store or an address is unavailable, rejects and leaves nothing running. */
export function startAuthority(
  config: AuthorityConfig,
  options: StartOptions = {},
): Promise<RunningAuthority> {
  let onMoving = (): void => undefined
  return startParty(config, options, {
    name: 'authority',
    prefix: 'UMA_AS',
    exposed: [config.listen, config.ownerListen],
    database: {
      open: opening => openCells(config, { ...opening, onMoving: () => onMoving() }),
      // A cell that cannot be served does not stop the others.
      fault: async ({ all }) => firstOfAll(await Promise.all(all.map(({ authority }) => faultOf(authority)))),
      refusalOf: outageRefusal,
    },
    metrics: ({ all }, health) => createAuthorityMetrics(all, health),
    serve: (cells, means) => {
      const { log, localClock, metrics, closers } = means
      if (cells.all.length > 1) onMoving = metrics.countMoving()
      const countWitness = config.witnesses === undefined ? () => undefined : metrics.countWitnesses()
      const authorities = cells.all.map(({ authority }) => authority)
      return {
        answered: startSecurityLogs(cells, { log, metrics, clock: localClock }),
        workers: [
          ...authorities.flatMap(authority => dutiesOf(authority, { config, localClock })),
          ...witnessingsOf(config, authorities, countWitness),
        ],
        listeners: listenersOf(cells, config, means),
        onServing: () => startRegistries(cells, closers),
        handles: { applyFile: owners => applyAgain(cells, owners, closers) },
      }
    },
  })
}

function listenersOf(
  cells: Cells<AuthorityCell>,
  config: AuthorityConfig,
  { log, metrics, closers }: Means<AuthorityMetrics>,
) {
  for (const sentence of authorityWarnings(config)) log.warn(sentence)
  const { authority } = cells.home
  let ownerUrl = config.ownerUrl ?? config.issuer
  const page = (): string => ownerUrl
  const streams = startLeases(cells, { config, log, metrics, closers })
  const sending = { count: metrics.notified, page, closers }
  const notifiers = each(cells, cell => startNotifying(config, cell.authority, sending))
  const accepted = openAccepted(
    {
      space: 'owner',
      deviceKeys: config.ownerAuth.includes('device-key'),
      realm: config.realm,
      devLoopback: config.devLoopback,
      now: () => authority.now(),
    },
    closers,
  )
  const relyingParty = () => relyingPartyOf(config, page())
  return {
    owner: {
      address: config.ownerListen,
      setting: 'UMA_AS_OWNER_LISTEN',
      routes: app => ownerRoutes(app, cells, { config, accepted, relyingParty, notifiers, ownerUrl: page }),
    },
    admin: {
      address: config.adminListen,
      setting: 'UMA_AS_ADMIN_LISTEN',
      routes: administrationRoutes(authority, { config, closers }),
    },
    public: {
      address: config.listen,
      setting: 'UMA_AS_LISTEN',
      routes: (app, { owner }) => {
        if (config.ownerUrl === undefined && config.devLoopback)
          ownerUrl = `${config.tls === undefined ? 'http' : 'https'}://${owner}`
        publicRoutes(app, cells, { ownerUrl, streams: config.leases ? streams : undefined })
      },
    },
  } satisfies Record<string, PartyListener>
}

/** `usher authority`. On SIGHUP it reads the provisioning file anew. */
export async function runAuthority(): Promise<void> {
  await runServed('authority', readAuthorityConfig(), async (config, { log }) => {
    log.info(useLibsodium(), 'signatures are verified')
    const running = await startAuthority(config, { log })
    return { ...running, onHangup: rereading({ read: readAuthorityConfig, apply: running.applyFile, log }) }
  })
}

/** `usher migrate`: brings the database up to date, and says what it applied. */
export async function runMigrate(): Promise<void> {
  const config = readMigrationConfig()
  await runMigrationCommand(async tell => {
    const applied = await AUTHORITY_DATABASE.migrateOnce(config, tell)
    for (const { name, url } of config.cells ?? [])
      for (const one of await AUTHORITY_DATABASE.migrateOnce({ ...config, databaseUrl: url }, tell))
        applied.push(`${name}: ${one}`)
    return applied
  })
}

/** Why the owners of a cell cannot be served; undefined if they can. */
async function faultOf({ clock, database }: Authority): Promise<string | undefined> {
  return clock.fault() ?? database.standby?.fault()?.message ?? (await database.readFault())
}

/** The answer of the first cell, if all cells are healthy. */
function firstOfAll(faults: readonly (string | undefined)[]): string | undefined {
  return faults.every(fault => fault !== undefined) ? faults[0] : undefined
}
