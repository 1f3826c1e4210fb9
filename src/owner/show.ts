/**
 * Owns how the owner's records read on a terminal. Contract: "Owner API": what an agent says of itself
 * (reason, mission, names) is shown as its claim, escaped.
 */
import { enforcedText, keptText } from './enforced.ts'
import { becauseText } from './rule-words.ts'
import { printable, printableTime, printableValue, record, table } from '../terminal/printable.ts'
import type {
  BannedOrigin,
  Connection,
  LedgerEntry,
  PendingItem,
  ReceiptRecord,
  Resource,
  ResourceServer,
  Revoked,
  Tier,
} from '../wire/owner-api.ts'

/** The waiting requests, one line each. */
export function pendingTable(items: PendingItem[], columns?: number): string {
  if (items.length === 0) return 'Nothing waits for you.\n'
  const rows = items.map(item => [
    item.family,
    item.kind,
    item.resource_id,
    item.kind === 'operation' || item.operation ? operationText(item.operation) : item.purpose,
    item.handle,
    printableTime(item.requested_at),
  ])
  return table(['family', 'kind', 'resource', 'wants', 'agent', 'since'], rows, columns)
}

/** One waiting request, whole. */
export function pendingDetails(item: PendingItem): string {
  const { binding, provenance, accountability } = item.assurance ?? {}
  return (
    record({
      family: item.family,
      kind: item.kind === 'connection' ? 'connection (an agent you do not know)' : 'operation',
      agent: item.handle,
      identity: identityText(item.identity),
      ...operatorOf(item.identity),
      resource: item.resource_id,
      tier: `${item.tier_name} (${item.tier})`,
      purpose: item.purpose,
      operation: item.operation ? operationText(item.operation) : undefined,
      'says why': item.reason,
      mission: item.mission,
      prohibited: item.prohibited.map(prohibition => keptText(prohibition, item.enforced)),
      enforced: enforcedText(item.enforced),
      lasts: `${item.expires_in} s`,
      because: becauseText(item),
      since: printableTime(item.requested_at),
      assurance: item.assurance
        ? `binding ${binding}, provenance ${provenance}, accountability ${accountability}`
        : undefined,
    }) +
    (item.assurance_notes ?? []).map(note => `  - ${printable(note)}\n`).join('') +
    `\nusher owner approve ${printable(item.family)}\nusher owner deny ${printable(item.family)}\n`
  )
}

/** How the agent is known: the word alone, or the word of a record that says more. */
function identityText(identity: unknown): unknown {
  return isRecord(identity) && typeof identity['kind'] === 'string' ? identity['kind'] : identity
}

/** Who says that they run it. */
function operatorOf(identity: unknown): Record<string, unknown> {
  if (!isRecord(identity)) return {}
  const { operator, client_id, signature_agent } = identity
  return { operator, 'its document': client_id, 'its keys': signature_agent }
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
    one.tiers_approved,
    one.tiers_granted,
    one.operators,
    printableTime(one.first_seen),
    printableTime(one.last_access),
  ])
  return table(
    ['handle', 'status', 'label', 'approved', 'granted', 'operators', 'first seen', 'last access'],
    rows,
    columns,
  )
}

/** What a revocation ended. */
export function revokedSentence(revoked: Revoked): string {
  const { rpts_deactivated: count, rpts_deactivated_more: more } = revoked
  const grants = `${count}${more ? ' or more' : ''} live grant${count === 1 && !more ? '' : 's'}`
  const connections = revoked.connections_revoked ?? 1
  const others = connections > 1 ? `, ${connections} connections in all` : ''
  return `${printable(revoked.handle)} is ${printable(revoked.status)}: ${grants} ended${others}.\n`
}

/** What an agent is called from now on. */
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
 * The ledger, one line per entry; what is particular to a kind comes last, but for records within it
 * (`--json` has all).
 */
export function ledgerTable(entries: LedgerEntry[], columns?: number): string {
  if (entries.length === 0) return 'Nothing is recorded.\n'
  return table(['seq', 'time', 'kind', 'family', 'handle', 'more'], entries.map(ledgerCells), columns)
}

/** One entry of the ledger, as a line by itself. */
export function ledgerLine(entry: LedgerEntry): string {
  return `${ledgerCells(entry).map(printableValue).join('  ').trimEnd()}\n`
}

function ledgerCells({ seq, ts, kind, family, handle, ...more }: LedgerEntry): unknown[] {
  return [seq, printableTime(ts), kind, family, handle, moreText(more)]
}

function moreText(more: Record<string, unknown>): string {
  return Object.entries(more)
    .filter(([, value]) => value !== null && value !== undefined && value !== '' && !isRecord(value))
    .map(([name, value]) => `${printable(name)}=${printableValue(value)}`)
    .join(' ')
}

/** Receipts, one line each, with what verifying them found where that was asked. */
export function receiptTable(records: ReceiptRecord[], columns?: number, found?: string[]): string {
  if (records.length === 0) return 'No receipt is kept.\n'
  return table(
    ['seq', 'issued', 'family', 'grant', 'handle', ...(found === undefined ? [] : ['found'])],
    records.map(({ seq, issued_at, family, jti, handle }, at) => [
      seq,
      printableTime(issued_at),
      family,
      jti,
      handle,
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
      const wants = item.operation ? operationText(item.operation) : printableValue(item.purpose)
      const who = `${printableValue(item.handle)} asks (${printableValue(item.kind)})`
      return `pending  ${printableValue(item.family)}  ${who} for ${printableValue(item.resource_id)}: ${wants}\n`
    }
    case 'decided':
      return `decided  ${printableValue(data['family'])}  ${printableValue(data['decision'])} by ${printableValue(data['by'])}\n`
    case 'withdrawn':
      return `withdrawn ${printableValue(data['family'])}  ${printableValue(data['because'])}\n`
    case 'connection_revoked':
      return `revoked  ${printableValue(data['handle'])} by ${printableValue(data['by'])}\n`
    case 'connection_labelled':
      return `label    ${labelText(data)}\n`
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
