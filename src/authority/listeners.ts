/**
 * Owns what each listener of an authority serves. Contract: "Endpoints", "Owner API".
 */
import type { AuthorityConfig } from '../config.ts'
import { readConsole } from '../files/console.ts'
import { serveEndpoints, type Described } from '../http/servers/endpoint.ts'
import { OPENAPI_ENDPOINT, openApiDocument } from '../http/openapi/openapi.ts'
import type { HttpServer } from '../http/servers/server.ts'
import { signatureBase } from '../http/servers/signed-request.ts'
import { createPatGuard } from '../surface/pat-guard.ts'
import { SURFACE } from '../surface/surface.ts'
import { PollPlaces } from '../surface/token/poll-places.ts'
import type { Cells } from './cells/cells.ts'
import type { Authority, Documents, LedgerLog } from './context.ts'
import {
  aboutListener,
  ADMINISTERED_ENDPOINTS,
  ENDPOINTS,
  JOINT_ENDPOINTS,
  JOINT_OWNER_ENDPOINTS,
  LOG_OWNER_ENDPOINTS,
  LOG_ENDPOINTS,
  OWNER_ENDPOINTS,
  type AuthorityListener,
} from './endpoints.ts'
import { QUOTE_ENDPOINT } from './joint/quote.ts'
import { VERDICT_ENDPOINT } from './joint/verdict.ts'
import { CONSISTENCY, consistencyShares } from './ledger/consistency.ts'
import { LOG_KEYS } from './ledger/log-keys.ts'
import type { Notifier } from './notifications/sending.ts'
import { each, type AuthorityCell } from './opening.ts'
import { NOTICE } from './organization/notices.ts'
import { createOwnerApi, type OwnerApi } from './owner/api.ts'
import { CONSOLE } from './owner/console.ts'
import type { LeaseStreams } from './protection/lease-streams.ts'
import { LEASES } from './protection/leases.ts'
import { REGISTER } from './protection/registration.ts'
import { createCountedRegistry, REGISTRY_ENDPOINT } from './registry/registry-health.ts'
import { surfaceOf } from './surface.ts'
import { ownersOf } from './terms-source.ts'

/** What a listener serves, with what depends on listed tallies and on keys of the log. */
function described(
  listener: AuthorityListener,
  { tallies, logKeys }: Documents & LedgerLog,
): readonly Described[] {
  return [
    ...ENDPOINTS[listener],
    ...(tallies.issuers.length === 0 ? [] : JOINT_ENDPOINTS[listener]),
    ...(logKeys.length === 0 ? [] : LOG_ENDPOINTS[listener]),
  ]
}

/** What the routes of the owner listener are built from. */
interface OwnerRoutes extends Pick<OwnerApi, 'accepted' | 'relyingParty'> {
  config: AuthorityConfig
  notifiers: ReadonlyMap<AuthorityCell, Notifier | undefined>
  ownerUrl: () => string
}

/** The page, if it is wanted and was built. Its files are no API, so no document describes them. */
function consoleRoutes(
  app: HttpServer,
  { issuer, keys, logKeys, log }: Authority,
  { config, accepted, relyingParty }: OwnerRoutes,
): void {
  const files = config.console ? readConsole() : undefined
  const { consoleClient: clientId, consoleScope: scope, oidcAudience: audience } = config
  const { deviceKeys, realm } = accepted
  const login =
    realm === undefined || clientId === undefined || audience === undefined
      ? undefined
      : { realm, clientId, scope, audience }
  if (files !== undefined)
    serveEndpoints(app, { issuer, keys, logKeys, files, deviceKeys, relyingParty, login }, CONSOLE)
  else if (config.console) log.warn('the page of owners is not served: npm run console builds it')
}

/** What the routes of the public listener are built from. */
interface PublicRoutes {
  ownerUrl: string
  /** Undefined: no sidecar is given a lease. */
  streams: ReadonlyMap<AuthorityCell, LeaseStreams> | undefined
}

/** The public listener: agents, resource servers, organizations and tallies. */
export function publicRoutes(
  app: HttpServer,
  cells: Cells<AuthorityCell>,
  { ownerUrl, streams }: PublicRoutes,
): void {
  const { authority } = cells.home
  const authorities = each(cells, cell => cell.authority)
  const base = signatureBase(authority.issuer)
  const leases = streams !== undefined
  const pollPlaces = new PollPlaces()
  const owners = cells.all.length === 1 ? undefined : ownersOf(cells.home.database)
  cells.serve(
    app,
    each(cells, cell => surfaceOf(cell.authority, { ownerUrl, owners, leases, pollPlaces })),
    SURFACE,
  )
  if (streams !== undefined) leaseRoutes(app, cells, streams)
  cells.serve(
    app,
    each(cells, cell => ({ ...cell.authority, base })),
    [REGISTER],
  )
  cells.serve(app, authorities, [NOTICE])
  if (authority.tallies.issuers.length > 0) cells.serve(app, authorities, [QUOTE_ENDPOINT, VERDICT_ENDPOINT])
  logRoutes(app, cells)
  serveEndpoints(app, createCountedRegistry(...cells.all.map(({ database }) => database.ofNobody)), [
    REGISTRY_ENDPOINT,
  ])
  serveEndpoints(
    app,
    openApiDocument(described('public', authority), aboutListener.public(authority.issuer)),
    [OPENAPI_ENDPOINT],
  )
}

/** What anybody may ask of the log, if there are keys of it. */
function logRoutes(app: HttpServer, cells: Cells<AuthorityCell>): void {
  const { authority } = cells.home
  const { checkpoints } = authority
  if (checkpoints === undefined) return
  serveEndpoints(app, authority, [LOG_KEYS])
  const [{ base }, shares] = [checkpoints, consistencyShares()]
  cells.serve(
    app,
    each(cells, ({ database }) => ({ database, base, shares })),
    [CONSISTENCY],
  )
}

function leaseRoutes(
  app: HttpServer,
  cells: Cells<AuthorityCell>,
  streams: ReadonlyMap<AuthorityCell, LeaseStreams>,
): void {
  app.addHook('preClose', async () => {
    for (const open of streams.values()) open.end()
  })
  const leasing = each(cells, cell => {
    const { authority, database } = cell
    const guard = createPatGuard(authority)
    return { database, log: authority.log, guard, streams: streams.get(cell)! }
  })
  cells.serve(app, leasing, LEASES)
}

/** The listener of owners and of the organization's administrators, with the page. */
export function ownerRoutes(app: HttpServer, cells: Cells<AuthorityCell>, routes: OwnerRoutes): void {
  const { authority } = cells.home
  const { config, accepted, relyingParty, notifiers, ownerUrl } = routes
  const { heartbeatSeconds, devLoopback, streamsPerOwner: perOwner, streamsMax: inAll } = config
  const streams = { perOwner, inAll }
  const settings = { accepted, relyingParty, heartbeatSeconds, devLoopback, streams }
  const apis = each(cells, cell =>
    createOwnerApi(cell.authority, { ...settings, notifier: notifiers.get(cell) }),
  )
  app.addHook('preClose', async () => {
    for (const api of apis.values()) api.feeds.end()
  })
  cells.serve(app, apis, OWNER_ENDPOINTS)
  if (authority.checkpoints !== undefined) cells.serve(app, apis, LOG_OWNER_ENDPOINTS)
  if (authority.tallies.issuers.length > 0) cells.serve(app, apis, JOINT_OWNER_ENDPOINTS)
  cells.serve(
    app,
    each(cells, cell => ({ ...cell.authority, ownerUrl })),
    ADMINISTERED_ENDPOINTS,
  )
  consoleRoutes(app, authority, routes)
  serveEndpoints(
    app,
    openApiDocument(described('owner', authority), aboutListener.owner(config.ownerUrl ?? '/')),
    [OPENAPI_ENDPOINT],
  )
}
