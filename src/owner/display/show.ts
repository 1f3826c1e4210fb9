/**
 * Owns how the owner's records read on a terminal, escaped. Contract: "Owner API". A waiting request by
 * itself is show-request.ts.
 */
import { columnsTable, type Column } from './columns.ts'
import { shortName } from '../../client/names.ts'
import { agentName, NO_NAMES, type Labels, type DisplayNames } from './labels.ts'
import { namedResource, type ResourceNames } from '../../rules/words/resource-words.ts'
import { NO_CLAIMED_NAMES, type ClaimedNames } from './own-words.ts'
import { wasOpen, wasRevoked } from '../../rules/words/rule-words.ts'
import { printable, printableValue } from '../../terminal/printable.ts'
import type {
  BannedOrigin,
  Connection,
  PendingItem,
  Resource,
  ResourceServerEntry,
  Revoked,
  StillWaiting,
  Tier,
} from '../../wire/owner/owner-api.ts'

/** The waiting requests, one line each, from the records that decisions are bound to. */
export function pendingTable(
  all: PendingItem[],
  columns?: number,
  {
    names: { labels, resources } = NO_NAMES,
    claims = NO_CLAIMED_NAMES,
  }: { names?: DisplayNames | undefined; claims?: ClaimedNames | undefined } = {},
): string {
  if (all.length === 0) return 'Nothing waits for you.\n'
  const items = all.map(asRecorded)
  return columnsTable<PendingItem>(
    items,
    [
      { heading: 'family', of: item => item.family, as: 'name' },
      {
        heading: 'kind',
        of: item => (item.account === undefined ? kindInTable(item) : `joint (${item.account})`),
      },
      ...resourceColumns(items, item => item.resource_id, { resources, onTerminal: columns !== undefined }),
      { heading: 'wants', of: wantsText },
      { heading: 'agent', of: item => item.handle, as: 'name' },
      ...labelColumns(items, labels),
      ...claimColumns(items, claims),
      { heading: 'since', of: item => item.requested_at, as: 'time' },
    ],
    columns,
  )
}

/** A name that nobody has checked: the heading says that it is the agent's own. */
function claimColumns(items: readonly PendingItem[], claims: ClaimedNames): Column<PendingItem>[] {
  const has = items.some(({ family }) => claims.has(family))
  return has ? [{ heading: 'calls itself', of: ({ family }) => claims.get(family) }] : []
}

/** Ids stay by themselves in what another program reads; there a name has a column of its own. */
export function resourceColumns<Row>(
  rows: readonly Row[],
  idOf: (row: Row) => string | undefined,
  { resources, onTerminal }: { resources: ResourceNames; onTerminal: boolean },
): Column<Row>[] {
  const nameIn = (row: Row): string | undefined => resources.get(idOf(row) ?? '')
  if (onTerminal)
    return [{ heading: 'resource', of: row => namedResource(idOf(row) ?? '', resources) ?? idOf(row) }]
  const has = rows.some(row => nameIn(row) !== undefined)
  return [{ heading: 'resource', of: idOf }, ...(has ? [{ heading: 'resource name', of: nameIn }] : [])]
}

/** With the members of its record in place of those that are listed beside it. */
function asRecorded(pending: PendingItem): PendingItem {
  const item = pending.item as PendingItem['item'] | undefined
  if (item === undefined) return pending
  const { family, kind, account, resource_id, operation = null, terms, agent, because, opens } = item
  const requested_at = new Date(item.requested_at * 1_000).toISOString()
  const { purpose } = terms
  const { handle } = agent
  const recorded = { family, kind, account, resource_id, operation, purpose, handle, because, opens }
  return { ...pending, ...recorded, requested_at }
}

interface HandleMember {
  handle?: string | null | undefined
}

/** Her names for the agents of a table: a column that is there only if she has named one of them. */
export function labelColumns<Row extends HandleMember>(rows: readonly Row[], labels: Labels): Column<Row>[] {
  const has = rows.some(({ handle }) => labels.has(handle ?? ''))
  return has ? [{ heading: 'label', of: ({ handle }) => labels.get(handle ?? '') }] : []
}

/** The request in one line, and what else approving it opens. */
function wantsText({ kind, operation, purpose, opens, because }: PendingItem): string {
  const wants = kind === 'operation' || operation ? operationText(operation) : printableValue(purpose)
  const isOpened = kind === 'connection' || (kind === 'operation' && !wasOpen(because))
  if (!isOpened || !(opens?.length > 0)) return wants
  const later = kind === 'connection' ? ', and later tiers that do not ask' : ''
  return `${wants}; opens ${opens.join(', ')} unasked${later}`
}

function kindInTable({ kind, because }: PendingItem): string {
  return kind === 'connection' && wasRevoked(because) ? 'connection again' : kind
}

/** An operation as a call: `place_trade {"symbol":"VTI","qty":2}`. */
export function operationText(operation: PendingItem['operation']): string {
  if (operation === null || operation === undefined) return '-'
  if (typeof operation === 'string') return printable(operation)
  return printable(`${operation.tool} ${JSON.stringify(operation.params ?? {})}`)
}

/** The agents the owner knows, one line each. */
export function connectionTable(
  connections: Connection[],
  columns?: number,
  claims: ClaimedNames = NO_CLAIMED_NAMES,
): string {
  if (connections.length === 0) return 'No agent has a connection with you.\n'
  return columnsTable<Connection>(
    connections,
    [
      { heading: 'handle', of: one => one.handle, as: 'name' },
      { heading: 'status', of: one => (one.blocked_at ? 'blocked' : one.status) },
      { heading: 'label', of: one => one.label, shown: 'filled' },
      ...(claims.size === 0
        ? []
        : [{ heading: 'calls itself', of: (one: Connection) => claims.get(one.handle) }]),
      { heading: 'reaches', of: reachText },
      { heading: 'approved', of: one => one.tiers_approved },
      { heading: 'granted', of: one => one.tiers_granted, shown: 'wide' },
      { heading: 'operators', of: one => one.operators, shown: 'filled' },
      { heading: 'first seen', of: one => one.first_seen, as: 'time', shown: 'wide' },
      { heading: 'last access', of: one => one.last_access, as: 'time' },
    ],
    columns,
  )
}

const JOINTLY = 'joint:'

/**
 * How far a connection reaches: an agent that an administrator or co-holders let in is a stranger to the rest
 * of hers. One that she let in for a tier alone is asked about at its first request at any other. One whose
 * access was ended reaches nothing.
 */
function reachText({
  status,
  reach,
  admits,
}: Pick<Connection, 'status' | 'reach' | 'admits'>): string | undefined {
  if (status !== 'active') return 'nothing'
  if (reach === undefined) return undefined
  if (reach === null)
    return admits === 'tier' ? 'one tier; asks first at others' : 'all tiers, later ones too'
  if (reach === 'organization') return 'only what your organization governs'
  return reach.startsWith(JOINTLY)
    ? `only what is held jointly in ${reach.slice(JOINTLY.length)}`
    : `only ${reach}`
}

/** The things that a revocation ended. */
export function revokedSentence(
  revoked: Omit<Revoked, 'status'> & { status: 'revoked' | 'blocked' },
): string {
  const { rpts_deactivated: count, rpts_deactivated_more: more } = revoked
  const grants = `${count}${more ? ' or more' : ''} live grant${count === 1 && !more ? '' : 's'}`
  const connections = revoked.connections_revoked ?? 1
  const others = connections > 1 ? `, ${connections} connections in all` : ''
  return `${printable(revoked.handle)} is ${printable(revoked.status)}: ${grants} ended${others}.\n${waitingSentence(revoked)}${signedSentence(revoked)}`
}

/** By which name the signed revocation is printed; empty if none is signed. */
function signedSentence({ revocation_jti: jti }: Pick<Revoked, 'revocation_jti'>): string {
  return jti === undefined ? '' : `Signed proof of it: usher owner revocation ${printable(jti)}\n`
}

/** Who else had a part in ending it: sidecars, and tallies that have not yet; empty if nobody. */
export function waitingSentence({ joint_withdrawals_waiting: waiting, leases }: StillWaiting): string {
  const letGo = leases === undefined ? '' : leasesSentence(leases)
  if (waiting === undefined) return letGo
  return `${letGo}What you allowed of joint accounts may still count: ${waiting} withdrawal${waiting === 1 ? '' : 's'} did not reach the tally yet. Your authority keeps telling it until it has answered.\n`
}

function leasesSentence({
  holders,
  acknowledged,
  waited_ms: ms,
  silent: servers = [],
}: NonNullable<StillWaiting['leases']>): string {
  const sidecars = (n: number): string => `${n} sidecar${n === 1 ? '' : 's'}`
  if (holders === 0)
    return `It could not be asked which sidecars let go, so ${ms} ms were waited: all have.\n`
  const silent = holders - acknowledged
  return silent === 0
    ? `${sidecars(holders)} let go in ${ms} ms.\n`
    : `${sidecars(acknowledged)} let go; ${sidecars(silent)}${servers.length === 0 ? '' : ` of ${servers.map(printable).join(', ')}`} did not answer and can use nothing any more after ${ms} ms.\n`
}

/** The new name of an agent. */
export function labelText({ handle, label }: Readonly<Record<string, unknown>>): string {
  const who = printableValue(handle)
  return label === null ? `${who} has no label any more` : `${who} is called ${printableValue(label)}`
}

const NO_TIERS =
  'You have no tiers: everything is denied. Write one to a file (docs/policies.md), with ids of `usher owner resources`, and make it with `usher owner tier apply -f <file>`.\n'

/** The owner's tiers, one line each. */
export function tierTable(tiers: Tier[], columns?: number): string {
  if (tiers.length === 0) return NO_TIERS
  return columnsTable<Tier>(
    tiers,
    [
      { heading: 'id', of: tier => tier.id },
      { heading: 'name', of: tier => tier.name },
      { heading: 'asks me', of: tier => (tier.ask_me ? 'each time' : 'no') },
      { heading: 'resources', of: tier => tier.resources },
      { heading: 'purpose', of: tier => tier.terms.purpose, shown: 'wide' },
      { heading: 'scope', of: tier => tier.terms.scope },
      { heading: 'lasts', of: tier => `${tier.terms.expires_in} s` },
      { heading: 'prohibited', of: tier => tier.terms.prohibited, shown: 'wide' },
      {
        heading: 'rules',
        of: tier => tier.rules.map(rule => `${rule.then} when ${rule.when.join(' and ')}`),
        shown: 'wide',
      },
    ],
    columns,
  )
}

/** The registered resources, one line each. */
export function resourceTable(resources: Resource[], columns?: number): string {
  if (resources.length === 0) return 'No resource server has registered anything of yours.\n'
  return columnsTable<Resource>(
    resources,
    [
      { heading: 'id', of: one => one._id },
      { heading: 'name', of: one => one.name },
      { heading: 'scopes', of: one => one.resource_scopes },
      { heading: 'consequence', of: one => one.consequence ?? 'undescribed' },
      { heading: 'tier', of: one => one.tier ?? 'none: denied' },
      { heading: 'source', of: one => one.source, shown: 'wide' },
    ],
    columns,
  )
}

/** The resource servers, one line each. */
export function resourceServerTable(servers: ResourceServerEntry[], columns?: number): string {
  if (servers.length === 0) return 'No resource server serves you, and none asks to.\n'
  return columnsTable<ResourceServerEntry>(
    servers,
    [
      { heading: 'client id', of: one => one.client_id },
      { heading: 'name', of: one => one.name, shown: 'wide' },
      { heading: 'status', of: one => one.status },
      { heading: 'proves itself by', of: one => one.auth, shown: 'wide' },
      { heading: 'its listing', of: registryText },
      { heading: 'registered', of: one => one.registered_at, as: 'time', shown: 'wide' },
      { heading: 'last seen', of: one => one.last_pat_issued, as: 'time' },
    ],
    columns,
  )
}

/** The banned origins, one line each. */
export function bannedOriginTable(banned: BannedOrigin[], columns?: number): string {
  if (banned.length === 0) return 'You have banned no origin.\n'
  return columnsTable<BannedOrigin>(
    banned,
    [
      { heading: 'origin', of: one => one.origin },
      { heading: 'banned', of: one => one.banned_at, as: 'time' },
    ],
    columns,
  )
}

function registryText({ status, registry }: ResourceServerEntry): string {
  if (registry === null || registry === undefined) return 'declared here'
  if (status !== 'active') return '-'
  const { landed_at, fault, conflicts } = registry
  const state = fault ? `failed: ${fault}` : landed_at ? 'landed' : 'not yet'
  return conflicts ? `${state}, ${conflicts} not taken` : state
}

/** How a line names agents and requests, escaped. */
export interface EventNames {
  agent: (handle: unknown) => string
  family: (family: unknown) => string
  resource: (id: unknown) => string
}

const WHOLE_NAMES: EventNames = { agent: printableValue, family: printableValue, resource: printableValue }

/** For a person at a terminal: her own names, and as much of others as commands take. */
export function shortNames({ labels, resources }: DisplayNames): EventNames {
  const nameOf = (toText: (name: string) => string) => (name: unknown) =>
    printableValue(typeof name === 'string' ? toText(name) : name)
  return {
    agent: nameOf(handle => agentName(handle, labels)),
    family: nameOf(shortName),
    resource: nameOf(id => namedResource(id, resources) ?? id),
  }
}

/** One event of the stream as a line: what happened, to what. */
export function eventLine(
  event: { id: string; event: string; data: unknown },
  { agent, family, resource }: EventNames = WHOLE_NAMES,
): string {
  const data =
    typeof event.data === 'object' && event.data !== null ? (event.data as Record<string, unknown>) : {}
  switch (event.event) {
    case 'pending': {
      const item = data as unknown as PendingItem
      const who = `${agent(item.handle)} asks (${printableValue(item.kind)})`
      return `pending  ${family(item.family)}  ${who} for ${resource(item.resource_id)}: ${printable(wantsText(item))}\n`
    }
    case 'decided':
      return `decided  ${family(data['family'])}  ${printableValue(data['decision'])} by ${printableValue(data['by'])}\n`
    case 'withdrawn':
      return `withdrawn ${family(data['family'])}  ${printableValue(data['because'])}\n`
    case 'connection_revoked':
      return `revoked  ${agent(data['handle'])} by ${printableValue(data['by'])}\n`
    case 'connection_blocked':
    case 'connection_unblocked':
      return `${event.event === 'connection_blocked' ? 'blocked  ' : 'unblocked'} ${agent(data['handle'])} by ${printableValue(data['by'])}\n`
    case 'connection_labelled':
      return `label    ${labelText(data)}\n`
    case 'policy_changed':
      return `tier     ${printableValue(data['tier'])} ${data['template_id'] === null ? 'is removed' : `is ${printableValue(data['template_id'])} now`}\n`
    case 'allowance_changed':
      return `allowance ${printableValue(data['allowance'])} is at version ${printableValue(data['version'])} now\n`
    case 'resource_server_pending':
      return `server   ${printableValue(data['client_id'])} asks to serve you (usher owner servers)\n`
    case 'resource_server_decided':
      return `server   ${printableValue(data['client_id'])} is ${printableValue(data['status'])}${data['by'] === 'expiry' ? ': it waited for a week' : ''}\n`
    case 'credential_added':
    case 'credential_removed': {
      const happened = event.event === 'credential_added' ? 'may decide for you' : 'decides for you no more'
      return `access   ${printableValue(data['name'])} (${printableValue(data['credential'])}) ${happened}\n`
    }
    case 'reset':
      return 'reset  Events were missed: look at pending, connections and ledger afresh.\n'
    default:
      return `${printable(event.event)}  ${printableValue(event.data)}\n`
  }
}
