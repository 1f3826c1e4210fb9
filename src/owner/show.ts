/**
 * Owns how the owner's records read on a terminal, escaped. Contract: "Owner API". A waiting request by
 * itself is show-request.ts.
 */
import { NO_LABELS, type Labels } from './labels.ts'
import { wasRevoked } from '../rules/rule-words.ts'
import { printable, printableTime, printableValue, table } from '../terminal/printable.ts'
import type {
  BannedOrigin,
  Connection,
  LedgerEntry,
  PendingItem,
  ReceiptRecord,
  Resource,
  ResourceServer,
  Revoked,
  StillWaiting,
  Tier,
} from '../wire/owner-api.ts'

/** The waiting requests, one line each, from the records that decisions are bound to. */
export function pendingTable(all: PendingItem[], columns?: number, labels: Labels = NO_LABELS): string {
  if (all.length === 0) return 'Nothing waits for you.\n'
  const items = all.map(asRecorded)
  const { heading, cells } = labelColumn(items, labels)
  const rows = items.map(item => [
    item.family,
    item.account === undefined ? kindInTable(item) : `joint (${item.account})`,
    item.resource_id,
    wantsText(item),
    item.handle,
    ...cells(item),
    printableTime(item.requested_at),
  ])
  return table(['family', 'kind', 'resource', 'wants', 'agent', ...heading, 'since'], rows, columns)
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

/** Her names for the agents of a table: a column that is there only if she has named one of them. */
function labelColumn(
  named: readonly { handle?: string | null | undefined }[],
  labels: Labels,
): { heading: string[]; cells: (one: { handle?: string | null | undefined }) => (string | undefined)[] } {
  const has = named.some(({ handle }) => labels.has(handle ?? ''))
  return { heading: has ? ['label'] : [], cells: ({ handle }) => (has ? [labels.get(handle ?? '')] : []) }
}

/** The request in one line, and what else approving it opens. */
function wantsText({ kind, operation, purpose, opens }: PendingItem): string {
  const wants = kind === 'operation' || operation ? operationText(operation) : printableValue(purpose)
  return kind === 'connection' && opens?.length > 0 ? `${wants}; opens ${opens.join(', ')} unasked` : wants
}

function kindInTable({ kind, because }: PendingItem): string {
  return kind === 'connection' && wasRevoked(because) ? 'connection again' : kind
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** An operation as a call: `place_trade {"symbol":"VTI","qty":2}`. */
export function operationText(operation: PendingItem['operation']): string {
  if (operation === null || operation === undefined) return '-'
  if (typeof operation === 'string') return printable(operation)
  return printable(`${operation.tool} ${JSON.stringify(operation.params ?? {})}`)
}

/** The agents the owner knows, one line each. */
export function connectionTable(connections: Connection[], columns?: number): string {
  if (connections.length === 0) return 'No agent has a connection with you.\n'
  const rows = connections.map(one => [
    one.handle,
    one.status,
    one.label,
    reachText(one.reach),
    one.tiers_approved,
    one.tiers_granted,
    one.operators,
    printableTime(one.first_seen),
    printableTime(one.last_access),
  ])
  return table(
    ['handle', 'status', 'label', 'reaches', 'approved', 'granted', 'operators', 'first seen', 'last access'],
    rows,
    columns,
  )
}

const JOINTLY = 'joint:'

/**
 * How far a connection reaches: an agent that an administrator or co-holders let in is a stranger to the rest
 * of hers.
 */
function reachText(reach: Connection['reach']): string | undefined {
  if (reach === undefined) return undefined
  if (reach === null) return 'all that you allow'
  if (reach === 'organization') return 'only what your organization governs'
  return reach.startsWith(JOINTLY)
    ? `only what is held jointly in ${reach.slice(JOINTLY.length)}`
    : `only ${reach}`
}

/** The things that a revocation ended. */
export function revokedSentence(revoked: Revoked): string {
  const { rpts_deactivated: count, rpts_deactivated_more: more } = revoked
  const grants = `${count}${more ? ' or more' : ''} live grant${count === 1 && !more ? '' : 's'}`
  const connections = revoked.connections_revoked ?? 1
  const others = connections > 1 ? `, ${connections} connections in all` : ''
  return `${printable(revoked.handle)} is ${printable(revoked.status)}: ${grants} ended${others}.\n${waitingSentence(revoked)}`
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

/** The owner's tiers, one line each. */
export function tierTable(tiers: Tier[], columns?: number): string {
  if (tiers.length === 0) return 'You have no tiers: everything is denied.\n'
  const rows = tiers.map(tier => [
    tier.id,
    tier.name,
    tier.ask_me ? 'each time' : 'no',
    tier.resources,
    tier.terms.purpose,
    tier.terms.scope,
    `${tier.terms.expires_in} s`,
    tier.terms.prohibited,
    tier.rules.map(rule => `${rule.then} when ${rule.when.join(' and ')}`),
  ])
  return table(
    ['id', 'name', 'asks me', 'resources', 'purpose', 'scope', 'lasts', 'prohibited', 'rules'],
    rows,
    columns,
  )
}

/** The registered resources, one line each. */
export function resourceTable(resources: Resource[], columns?: number): string {
  if (resources.length === 0) return 'No resource server has registered anything of yours.\n'
  const rows = resources.map(one => [
    one._id,
    one.name,
    one.resource_scopes,
    one.consequence ?? 'undescribed',
    one.tier ?? 'none: denied',
    one.source,
  ])
  return table(['id', 'name', 'scopes', 'consequence', 'tier', 'source'], rows, columns)
}

/** The resource servers, one line each. */
export function resourceServerTable(servers: ResourceServer[], columns?: number): string {
  if (servers.length === 0) return 'No resource server serves you, and none asks to.\n'
  const rows = servers.map(one => [
    one.client_id,
    one.name,
    one.status,
    one.auth,
    registryText(one),
    printableTime(one.registered_at),
    printableTime(one.last_pat_issued),
  ])
  return table(
    ['client id', 'name', 'status', 'proves itself by', 'its listing', 'registered', 'last seen'],
    rows,
    columns,
  )
}

/** The banned origins, one line each. */
export function bannedOriginTable(banned: BannedOrigin[], columns?: number): string {
  if (banned.length === 0) return 'You have banned no origin.\n'
  const rows = banned.map(({ origin, banned_at }) => [origin, printableTime(banned_at)])
  return table(['origin', 'banned'], rows, columns)
}

function registryText({ status, registry }: ResourceServer): string {
  if (registry === null || registry === undefined) return 'declared here'
  if (status !== 'active') return '-'
  const { landed_at, fault, conflicts } = registry
  const state = fault ? `failed: ${fault}` : landed_at ? 'landed' : 'not yet'
  return conflicts ? `${state}, ${conflicts} not taken` : state
}

/**
 * The ledger, one line per entry; members of a particular kind come last, without nested records (`--json`
 * has all).
 */
export function ledgerTable(entries: LedgerEntry[], columns?: number, labels: Labels = NO_LABELS): string {
  if (entries.length === 0) return 'Nothing is recorded.\n'
  const { heading, cells } = labelColumn(entries, labels)
  const rows = entries.map(entry => ledgerCells(entry, cells(entry)))
  return table(['seq', 'time', 'kind', 'family', 'handle', ...heading, 'more'], rows, columns)
}

/** One entry of the ledger, as a line by itself. */
export function ledgerLine(entry: LedgerEntry, labels: Labels = NO_LABELS): string {
  const cells = ledgerCells(entry, labelColumn([entry], labels).cells(entry))
  return `${cells.map(printableValue).join('  ').trimEnd()}\n`
}

function ledgerCells({ seq, ts, kind, family, handle, ...more }: LedgerEntry, label: unknown[]): unknown[] {
  return [seq, printableTime(ts), kind, family, handle, ...label, moreText(more)]
}

function moreText(more: Record<string, unknown>): string {
  return Object.entries(more)
    .filter(([, value]) => value !== null && value !== undefined && value !== '' && !isRecord(value))
    .map(([name, value]) => `${printable(name)}=${printableValue(value)}`)
    .join(' ')
}

/** Receipts, one line each, with the result of verifying them if that was asked. */
export function receiptTable(
  records: ReceiptRecord[],
  columns?: number,
  labels: Labels = NO_LABELS,
  found?: string[],
): string {
  if (records.length === 0) return 'No receipt is kept.\n'
  const { heading, cells } = labelColumn(records, labels)
  return table(
    ['seq', 'issued', 'family', 'grant', 'handle', ...heading, ...(found === undefined ? [] : ['found'])],
    records.map(({ seq, issued_at, family, jti, handle }, at) => [
      seq,
      printableTime(issued_at),
      family,
      jti,
      handle,
      ...cells({ handle }),
      ...(found === undefined ? [] : [found[at]]),
    ]),
    columns,
  )
}

/** One event of the stream as a line: what happened, to what. */
export function eventLine(event: { id: string; event: string; data: unknown }): string {
  const data =
    typeof event.data === 'object' && event.data !== null ? (event.data as Record<string, unknown>) : {}
  switch (event.event) {
    case 'pending': {
      const item = data as unknown as PendingItem
      const who = `${printableValue(item.handle)} asks (${printableValue(item.kind)})`
      return `pending  ${printableValue(item.family)}  ${who} for ${printableValue(item.resource_id)}: ${printable(wantsText(item))}\n`
    }
    case 'decided':
      return `decided  ${printableValue(data['family'])}  ${printableValue(data['decision'])} by ${printableValue(data['by'])}\n`
    case 'withdrawn':
      return `withdrawn ${printableValue(data['family'])}  ${printableValue(data['because'])}\n`
    case 'connection_revoked':
      return `revoked  ${printableValue(data['handle'])} by ${printableValue(data['by'])}\n`
    case 'connection_labelled':
      return `label    ${labelText(data)}\n`
    case 'policy_changed':
      return `tier     ${printableValue(data['tier'])} ${data['template_id'] === null ? 'is removed' : `is ${printableValue(data['template_id'])} now`}\n`
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
