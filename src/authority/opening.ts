/**
 * Opens what an authority works with: its cells, and the clients of other servers. Each cell is a database
 * with everything that is kept and done for its owners; the clients are shared by all cells. Contract:
 * "Parties" (owner's authorization server).
 */
import type { AuthorityConfig, ProvisionedOwner } from '../config.ts'
import type { Logger } from '../http/telemetry/log.ts'
import type { Opening } from '../http/party.ts'
import { createOutbound } from '../http/outbound/outbound.ts'
import { createRemoteDocuments } from '../http/outbound/remote-documents.ts'
import { signatureBase } from '../http/servers/signed-request.ts'
import { listHere, namedCells, placedElsewhere } from '../storage/authority/owners/cell-directory.ts'
import { AUTHORITY_DATABASE, standbySetting, type Pools } from '../storage/authority/database.ts'
import { createAgentIssuers } from '../surface/agents/agent-issuers.ts'
import { createClock, GRANTING, logClockChanges, type Clock } from '../surface/clock.ts'
import { ALIAS, aliasIn, HOME_CELL } from '../wire/names.ts'
import { ticketKeys } from '../wire/negotiation/ticket.ts'
import { createIdentityProviders } from './agents/identity-providers.ts'
import { createOperatorDocuments } from './agents/operator-documents.ts'
import { createCells, viewOf, type Cell, type Cells, type CellView } from './cells/cells.ts'
import type { Authority } from './context.ts'
import { createTallies } from './joint/tallies.ts'
import { startCheckpoints } from './ledger/checkpoints.ts'
import { noteMovedHeads } from './ledger/witness-rounds.ts'
import { createRefusalCounts } from './negotiation/refusal-counts.ts'
import { createClearances } from './organization/clearances.ts'
import { createOrganizationClient } from './organization/client.ts'
import { startAnnouncements } from './owner/events/announcements.ts'
import { startSequencer } from './owner/events/sequencer.ts'
import { logProvisioned, provision } from './provision.ts'
import { createQuotas } from './quotas.ts'
import { openPublishers } from './registry/publishers.ts'
import { createRegistry } from './registry/registry.ts'

/** An unknown kid may be a key that was just rotated in, but anybody can name an unknown one. */
const ISSUER_REFETCH_SECONDS = 60

/** A cell, and the authority of the owners in it. */
export interface AuthorityCell extends Cell {
  readonly authority: Authority
  /** The owners of the provisioning file who are in this cell. */
  readonly owners: readonly ProvisionedOwner[]
}

interface CellsOpening extends Opening {
  /** The same as in `createCells`. */
  onMoving: () => void
}

/** The clients of other servers, with the answers that they remember, shared by all cells. */
type Remote = Pick<
  Authority,
  'issuers' | 'operators' | 'identityProviders' | 'organizations' | 'clearances' | 'tallies'
>

/**
 * Opens the cells, the one of DATABASE_URL first. @throws Error if owners are in a cell that is not
 * configured.
 */
export async function openCells(
  config: AuthorityConfig,
  opening: CellsOpening,
): Promise<Cells<AuthorityCell>> {
  const { log, localClock } = opening
  const others = config.cells ?? []
  const opened = new Map<string, Pools>()
  let elsewhere = new Map<string, string>()
  let remote: Remote | undefined
  let home: Pools | undefined
  const open = async (name: string, url: string): Promise<AuthorityCell> => {
    const cellLog = others.length === 0 ? log : (log.child({ cell: name }) as Logger)
    const clock = createClock({ local: localClock, onTurn: logClockChanges(cellLog, GRANTING) })
    const owners: ProvisionedOwner[] = []
    const authority = await openAuthority(
      { ...config, databaseUrl: url },
      {
        ...opening,
        log: cellLog,
        clock,
        remote,
        enter: async database => {
          opened.set(name, database)
          home ??= database
          if (database === home) elsewhere = await readElsewhere(config, database)
          owners.push(...config.owners.filter(({ owner }) => (elsewhere.get(owner) ?? HOME_CELL) === name))
          return {
            owners,
            cell: others.length === 0 ? undefined : viewOf({ home, here: database, all: () => opened }),
          }
        },
      },
    )
    const { issuers, operators, identityProviders, organizations, clearances, tallies } = authority
    remote ??= { issuers, operators, identityProviders, organizations, clearances, tallies }
    return { name, database: authority.database, authority, owners }
  }
  const first = await open(HOME_CELL, config.databaseUrl)
  const further: AuthorityCell[] = []
  for (const { name, url } of others) further.push(await open(name, url))
  for (const cell of further) await tellDisagreements(first.database, cell, log)
  const { issuer, ticketKeys: keys } = first.authority
  return createCells({
    home: first,
    others: further,
    reading: { issuer, base: signatureBase(issuer), ticketKeys: keys, now: () => first.authority.now() },
    onUnknownCell: cell => log.error({ cell }, 'an owner is in a cell that UMA_AS_CELLS does not name'),
    onMoving: opening.onMoving,
  })
}

/** The value of something in each cell. */
export function each<T>(
  { all }: Cells<AuthorityCell>,
  of: (cell: AuthorityCell) => T,
): ReadonlyMap<AuthorityCell, T> {
  return new Map(all.map(cell => [cell, of(cell)]))
}

/** The owners of the provisioning file who are in another cell than the directory's. */
async function readElsewhere(
  { cells = [], owners }: AuthorityConfig,
  { ofNobody: db }: Pools,
): Promise<Map<string, string>> {
  const unknown = (await namedCells(db)).filter(named => cells.every(({ name }) => name !== named))
  if (unknown.length > 0)
    throw new Error(
      `Owners are in the cell ${unknown.join(', ')}: name it in UMA_AS_CELLS, with its database.`,
    )
  return cells.length === 0
    ? new Map<string, string>()
    : placedElsewhere(
        db,
        owners.map(({ owner }) => owner),
      )
}

const OWNERS_PER_LOOK = 1_000

/**
 * Logs the owners whose rows are in this cell although the directory has them in another one, as happens
 * after one of the two databases was restored.
 */
async function tellDisagreements(directory: Pools, cell: AuthorityCell, log: Logger): Promise<void> {
  let after = ''
  for (;;) {
    const here = await listHere(cell.database.ofNobody, { after, limit: OWNERS_PER_LOOK })
    const elsewhere = await placedElsewhere(directory.ofNobody, here)
    for (const owner of here)
      if (elsewhere.get(owner) !== cell.name)
        log.error(
          { owner, cell: cell.name, directory: elsewhere.get(owner) ?? HOME_CELL },
          'a cell has rows of an owner whom the directory has elsewhere: see docs/cells.md, "Restore a cell"',
        )
    if (here.length < OWNERS_PER_LOOK) return
    after = here.at(-1)!
  }
}

interface OpeningOne extends Omit<CellsOpening, 'localClock' | 'onMoving'> {
  clock: Clock
  /** The database of the cell that was opened first; undefined for that cell itself. */
  remote: Remote | undefined
  /**
   * Called with the database when it is up to date. @returns the owners of the provisioning file who are in
   * it.
   */
  enter: (database: Pools) => Promise<{ owners: ProvisionedOwner[]; cell: CellView | undefined }>
}

async function openAuthority(
  config: AuthorityConfig,
  { log, clock, lockTimeoutMs, closers, remote, enter }: OpeningOne,
): Promise<Authority> {
  const requireStandby = standbySetting(config.requireSyncStandby)
  const database = await AUTHORITY_DATABASE.openServing({ ...config, requireStandby, lockTimeoutMs }, log)
  closers.push(() => database.close())
  const { owners, cell } = await enter(database)
  const db = database.ofNobody
  const [logKey] = config.logKeys
  const checkpoints =
    logKey === undefined
      ? undefined
      : startCheckpoints(db, {
          issuer: config.issuer,
          key: logKey,
          log,
          clock: () => clock.now(),
          onSigned: config.witnesses && noteMovedHeads(db, log),
        })
  closers.push(async () => checkpoints?.stop())
  const sequencer = startSequencer(db, {
    log,
    sweepSeconds: config.sweepSeconds,
    onNumbered: owner => checkpoints?.due(owner),
  })
  closers.push(() => sequencer.stop())
  logProvisioned(log, await provision(db, owners, cell))
  const announcements = await startAnnouncements({
    url: config.databaseUrl,
    polls: !config.notifies,
    onError: error => log.warn({ err: error }, 'listening to the database was interrupted'),
    onClock: reading => clock.take(reading),
  })
  closers.push(() => announcements.close())
  const [first, ...others] = config.keys
  if (first === undefined) throw new Error('the configuration holds no signing key')
  const keys = [first, ...others] as const
  const now = (): number => Math.floor(clock.now() / 1_000)
  const core = { database, announcements, log, keys, now }
  return {
    issuer: config.issuer,
    specNs: config.specNs,
    aliases: config.aliases ?? [],
    limits: config,
    keys,
    logKeys: config.logKeys,
    checkpoints,
    ticketKeys: ticketKeys(keys),
    database,
    announcements,
    ...(remote ?? openRemote(config, core, closers)),
    ...openRegistry(config, core, closers),
    refusals: createRefusalCounts(database),
    quotas: createQuotas(),
    cell,
    log,
    clock,
    now,
  }
}

function openRemote(
  config: AuthorityConfig,
  core: Pick<Authority, 'keys' | 'now'>,
  closers: (() => Promise<void>)[],
): Remote {
  return {
    ...openPublished(config, core.now, closers),
    ...openOrganizations(config, core, closers),
    tallies: openTallies(config, closers),
  }
}

/**
 * What issuers, identity providers and operators publish. Each has its own store and connections, so that
 * operators that strangers name never delay an issuer.
 */
function openPublished(
  config: AuthorityConfig,
  now: () => number,
  closers: (() => Promise<void>)[],
): Pick<Authority, 'issuers' | 'operators' | 'identityProviders'> {
  const outbound = createOutbound({ devLoopback: config.devLoopback, publicOnly: true })
  closers.push(() => outbound.close())
  const asserting = createOutbound({ devLoopback: config.devLoopback, publicOnly: true })
  closers.push(() => asserting.close())
  const clock = (): number => Date.now()
  const published = createRemoteDocuments({ outbound, clock, refetchSeconds: ISSUER_REFETCH_SECONDS })
  const operated = createRemoteDocuments({ outbound, clock })
  return {
    issuers: createAgentIssuers(config.agentIssuers ?? [], published, now),
    operators: createOperatorDocuments(operated, now),
    identityProviders: createIdentityProviders(config.identityIssuers ?? [], asserting),
  }
}

/**
 * How organizations are asked: over their own connections, so that none delays an issuer or a resource
 * server.
 */
function openOrganizations(
  config: AuthorityConfig,
  { keys, now }: Pick<Authority, 'keys' | 'now'>,
  closers: (() => Promise<void>)[],
): Pick<Authority, 'organizations' | 'clearances'> {
  const outbound = createOutbound({ devLoopback: config.devLoopback, publicOnly: true })
  closers.push(() => outbound.close())
  const { organizations: issuers = [], issuer: as_uri, aliases = [] } = config
  const discoveryAlias = aliasIn(aliases, ALIAS.organizationDiscovery)
  const asking = { issuers, as_uri, key: keys[0], discoveryAlias, outbound, now }
  const organizations = createOrganizationClient(asking)
  const typAlias = aliasIn(aliases, ALIAS.clearanceTyp)
  return { organizations, clearances: createClearances({ organizations, audience: as_uri, typAlias, now }) }
}

/** How tallies are asked: over their own connections, for the same reason. */
function openTallies(config: AuthorityConfig, closers: (() => Promise<void>)[]): Authority['tallies'] {
  const outbound = createOutbound({ devLoopback: config.devLoopback, publicOnly: true })
  closers.push(() => outbound.close())
  return createTallies({ issuers: config.tallies ?? [], aliases: config.aliases ?? [], outbound })
}

/**
 * What resource servers publish, and when it is pulled. Nothing waits for a pull: the listeners may start
 * before or after it.
 */
function openRegistry(
  config: AuthorityConfig,
  core: Pick<Authority, 'database' | 'announcements' | 'log' | 'keys' | 'now'>,
  closers: (() => Promise<void>)[],
): Pick<Authority, 'publishers' | 'registry'> {
  const publishers = openPublishers(config, core.log)
  const registry = createRegistry({
    ...core,
    publishers,
    key: core.keys[0],
    keepSeconds: config.registrySeconds,
  })
  closers.push(async () => {
    const stopped = registry.stop()
    // Running fetches are aborted, so that stopping does not wait for another server.
    await publishers.close()
    await stopped
  })
  return { publishers, registry }
}
