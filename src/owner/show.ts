/**
 * Owns how the owner's records read on a terminal. Contract: "Owner API": what an agent says about itself
 * (reason, mission, names) is shown as its claim, escaped.
 */
import { enforcedText, keptText } from './enforced.ts'
import { NO_LABELS, type Labels } from './labels.ts'
import { becauseText, wasRevoked } from '../rules/rule-words.ts'
import { printable, printableTime, printableValue, record, table } from '../terminal/printable.ts'
import type {
  BannedOrigin,
  Connection,
  LedgerEntry,
  PendingItem,
  JointHolding,
  ReceiptRecord,
  Resource,
  ResourceServer,
  Revoked,
  StillWaiting,
  Tier,
} from '../wire/owner-api.ts'

/** The waiting requests, one line each. */
export function pendingTable(items: PendingItem[], columns?: number, labels: Labels = NO_LABELS): string {
  if (items.length === 0) return 'Nothing waits for you.\n'
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

/** One complete waiting request, and how to answer it. */
export function pendingDetails(item: PendingItem, labels: Labels = NO_LABELS): string {
  const family = printable(item.family)
  return `${pendingRecord(item, labels)}\nusher owner approve ${family}\nusher owner deny ${family}\n`
}

/** One complete waiting request; one of its lines says what approving it opens. */
export function pendingRecord(item: PendingItem, labels: Labels = NO_LABELS): string {
  const { binding, provenance, accountability } = item.assurance ?? {}
  return (
    record({
      family: item.family,
      kind: item.kind === 'connection' && wasRevoked(item.because) ? AGAIN : KIND[item.kind],
      ...jointOf(item),
      agent: item.handle,
      label: labels.get(item.handle),
      identity: identityText(item.identity),
      ...operatorOf(item.identity),
      resource: item.resource_id,
      tier: `${item.tier_name} (${item.tier})`,
      purpose: item.purpose,
      operation: item.operation ? operationText(item.operation) : undefined,
      ...signedBeside(item),
      'says why': item.reason,
      mission: item.mission,
      prohibited: item.prohibited.map(prohibition => keptText(prohibition, item.enforced)),
      enforced: enforcedText(item.enforced),
      lasts: `${item.expires_in} s`,
      because: becauseText(item),
      ...opensOf(item),
      since: printableTime(item.requested_at),
      assurance: item.assurance
        ? `binding ${binding}, provenance ${provenance}, accountability ${accountability}`
        : undefined,
    }) + (item.assurance_notes ?? []).map(note => `  - ${printable(note)}\n`).join('')
  )
}

/** Further signed facts: where the grant is valid, and what cannot be undone. */
function signedBeside({ item }: Partial<Pick<PendingItem, 'item'>>): Record<string, string | undefined> {
  return { 'good at': item?.resource, consequence: item?.consequence }
}

const KIND: Record<PendingItem['kind'], string> = {
  connection: 'connection (an agent you do not know)',
  operation: 'operation',
  joint: 'joint (something that you hold with others)',
}

const AGAIN = 'connection (an agent whose access was ended before)'

function kindInTable({ kind, because }: PendingItem): string {
  return kind === 'connection' && wasRevoked(because) ? 'connection again' : kind
}

/** For what she holds with others: with whom, how many must agree, and how far her approval goes. */
function jointOf({ account, rule, holders }: PendingItem): Record<string, unknown> {
  if (account === undefined || rule === undefined || holders === undefined) return {}
  const weighs = (weight: number): string =>
    rule.total_weight === holders.length ? '' : `, weight ${weight}`
  return {
    account,
    'who is asked': holders.map(one => `${one.owner} at ${one.issuer}${weighs(one.weight)}`),
    'it takes': takesText(rule, holders.length),
    'approving opens': `nothing beside what is held jointly in ${account}`,
  }
}

function takesText({ kind, threshold, total_weight }: JointHolding['rule'], holders: number): string {
  if (kind === 'all') return 'the approval of all of them'
  if (kind === 'any') return 'the approval of any one of them'
  if (total_weight === holders) return `the approval of ${threshold} of them`
  return `approvals that weigh ${threshold} of ${total_weight}`
}

/** What else her approval opens; an authority of an earlier version does not say. */
function opensOf({ kind, opens }: PendingItem): Record<string, unknown> {
  if (kind !== 'connection' || opens === undefined) return {}
  const none = 'nothing: every tier of yours asks you about each operation'
  return { 'approving opens': opens.length === 0 ? none : `without asking you again: ${opens.join(', ')}` }
}

/** How the agent is known: only a word, or the word in a record that says more. */
function identityText(identity: unknown): unknown {
  return isRecord(identity) && typeof identity['kind'] === 'string' ? identity['kind'] : identity
}

/** The claimed operators. */
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
