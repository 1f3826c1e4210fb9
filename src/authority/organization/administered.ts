/**
 * What an administrator may see of a member's agents: only those that touch what the organization governs,
 * and of each only what is listed here. Contract: "Organization membership, on the member's authorization
 * server" (`/org/admin/{owner}/...`: pending, connections, operators, ledger).
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../http/servers/endpoint.ts'
import { nextLink, NUMBERED_PAGE, PAGE, pageOf } from '../../http/servers/pages.ts'
import {
  listGovernedConnections,
  listGovernedLedger,
  listGovernedOperators,
  listGovernedPending,
  type AdministeredEntry,
} from '../../storage/authority/membership/administered.ts'
import type { Db } from '../../storage/authority/database.ts'
import type { PendingRow } from '../../storage/authority/negotiations/pending.ts'
import { asOwner, type Owner } from '../../wire/identifiers.ts'
import { NAME_PATTERN } from '../../wire/names.ts'
import { refuse } from '../../wire/refusal.ts'
import { FAMILY, HANDLE } from '../../wire/documents/names.ts'
import { ADMINISTERED_ITEM, type AdministeredItem } from '../../wire/documents/pending-item.ts'
import { ORGANIZATION_ADMINISTRATOR, type Administered } from './administrator.ts'
import type { KeyPage } from '../../storage/core/columns.ts'

export const ADMINISTERED_ROWS = {
  addedUnder: "Organization membership, on the member's authorization server",
}

export const ONE_OWNER = {
  schema: z.strictObject({ owner: z.string().regex(NAME_PATTERN).transform(asOwner) }),
  unknown: 'This server has no owner of that name.',
}

const text = z.string()
const maybe = text.nullable()
const count = z.int().min(0)

const CONNECTION = z
  .strictObject({
    handle: HANDLE,
    identity: z.enum(['pseudonymous', 'identified']),
    status: z.enum(['active', 'revoked']),
    first_used: maybe,
    last_used: maybe,
    resources: text.array(),
  })
  .meta({ id: 'AdministeredConnection' })
const OPERATOR = z
  .strictObject({ origin: text, agents: count, blocked: z.boolean() })
  .meta({ id: 'AdministeredOperator' })

/** Names the owner without her credential, and an administrator as she sees him. */
export const ACTOR = z.union([
  z.strictObject({ kind: z.literal('owner') }),
  z.strictObject({ kind: z.literal('organization'), org: text, name: text, admin: text }),
])
const ENTRY = z
  .strictObject({
    seq: count,
    ts: text,
    kind: z.enum(['promised', 'approved', 'denied', 'touched', 'refused', 'org_acted']),
    family: FAMILY.optional(),
    handle: HANDLE.optional(),
    resource_id: text.optional(),
    count: count.optional(),
    effect: text.optional(),
    scopes: text.array().optional(),
    template_id: text.optional(),
    of: text.optional(),
    tool: text.optional(),
    at: z.number().optional(),
    what: text.optional(),
    operator: text.optional(),
    by: text.optional(),
    actor: ACTOR.optional(),
  })
  .meta({ id: 'AdministeredEntry' })

/** The four lists. */
export const ADMINISTERED: readonly Endpoint<Administered>[] = [
  administeredList({
    path: '/org/admin/{owner}/pending',
    summary: 'Requests for what the organization governs that wait for the member',
    says: 'Oldest first, without how she judges; Link rel=next if there are more.',
    item: ADMINISTERED_ITEM,
    list: async (db, owner, page) =>
      (await listGovernedPending(db, owner, page)) ??
      refuse('invalid_request', 'Give as `after` the family of an item of your list, or leave it out.'),
    key: 'family',
    show: shownItem,
  }),
  administeredList({
    path: '/org/admin/{owner}/connections',
    summary: 'Agents of the member that reach what the organization governs',
    says: 'By handle, as far as they reach it and since she joined.',
    item: CONNECTION,
    list: listGovernedConnections,
    key: 'handle',
    show: row => row,
  }),
  administeredList({
    path: '/org/admin/{owner}/operators',
    summary: 'Operators of those agents, and which of them the organization blocked',
    says: 'By origin.',
    item: OPERATOR,
    list: listGovernedOperators,
    key: 'origin',
    show: row => row,
  }),
  endpoint({
    method: 'get',
    path: '/org/admin/{owner}/ledger',
    rows: ADMINISTERED_ROWS,
    summary: 'What happened to what the organization governs, and what its administrators did',
    credential: ORGANIZATION_ADMINISTRATOR,
    parameters: ONE_OWNER,
    query: NUMBERED_PAGE,
    answers: {
      200: {
        says: 'Oldest first, without facts and parameters; `next` is the `after` of the following page.',
        schema: z.strictObject({ entries: ENTRY.array(), next: count.nullable() }),
      },
    },
    refuses: { 403: ['request_denied'], 409: ['conflict'] },
    handle: async ({ database }: Administered, { caller: { owner }, query: { after, limit }, answer }) => {
      const found = await listGovernedLedger(database.of(owner), owner, { after, limit: limit + 1 })
      const { items, last } = pageOf(found, limit)
      return answer(200, { entries: items.map(shownEntry), next: last?.seq ?? null })
    },
  }),
]

function administeredList<Key extends string, Row extends Record<Key, string>, Item>(declared: {
  path: string
  summary: string
  says: string
  item: z.ZodType<Item>
  list: (db: Db, owner: Owner, page: KeyPage) => Promise<readonly Row[]>
  key: Key
  show: (row: Row) => Item
}): Endpoint<Administered> {
  const { path, summary, says, item, list, key, show } = declared
  return endpoint({
    method: 'get',
    path,
    rows: ADMINISTERED_ROWS,
    summary,
    credential: ORGANIZATION_ADMINISTRATOR,
    parameters: ONE_OWNER,
    query: PAGE,
    answers: { 200: { says, schema: item.array() } },
    refuses: { 403: ['request_denied'], 409: ['conflict'] },
    handle: async ({ database }: Administered, { caller, query: { after, limit }, answer }) => {
      const { owner } = caller
      const rows = await list(database.of(owner), owner, { after, limit: limit + 1 })
      const { items, last } = pageOf(rows, limit)
      return answer(
        200,
        items.map(show),
        nextLink(path.replace('{owner}', owner), last && { after: last[key], limit }),
      )
    },
  })
}

/** Lists each member, so that a member that is added to her item does not appear here automatically. */
function shownItem({ family, kind, handle, requested_at, item }: PendingRow): AdministeredItem {
  const { tier, resource_id, purpose, operation, reason, mission, prohibited, enforced, expires_in } = item
  const { client_id, signature_agent, operator, operator_name, introduced_by, kind: known } = item.identity
  const { binding, provenance, accountability } = item.assurance
  return {
    family,
    kind,
    tier,
    resource_id,
    purpose,
    operation,
    reason,
    mission,
    prohibited,
    enforced,
    expires_in,
    identity: { kind: known, client_id, signature_agent, operator, operator_name, introduced_by },
    handle,
    assurance: { binding, provenance, accountability },
    organization: item.organization,
    requested_at,
  }
}

/** Which members of an entry's data are shown, by its kind. */
const SHOWN: Record<AdministeredEntry['kind'], readonly string[]> = {
  promised: ['effect', 'scopes', 'template_id'],
  approved: ['of', 'by', 'actor'],
  denied: ['of', 'by', 'actor'],
  touched: ['tool', 'at'],
  refused: [],
  org_acted: ['what', 'operator', 'by', 'actor'],
}

function shownEntry(entry: AdministeredEntry): z.output<typeof ENTRY> {
  const { seq, ts, kind, family, handle, resource_id, data, count: times } = entry
  const shown = SHOWN[kind].filter(name => Object.hasOwn(data, name)).map(name => [name, data[name]] as const)
  const { actor, ...rest } = Object.fromEntries(shown)
  return {
    seq,
    ts,
    kind,
    ...(family === null ? {} : { family }),
    ...(handle === null ? {} : { handle }),
    ...(resource_id === null ? {} : { resource_id }),
    ...(times === 1 ? {} : { count: times }),
    ...rest,
    ...(actor === undefined ? {} : { actor: shownActor(actor) }),
  }
}

/** An administrator is named in full; for the owner, her credential is left out. */
export function shownActor(actor: unknown): z.output<typeof ACTOR> {
  const read = ACTOR.safeParse(actor)
  return read.success ? read.data : { kind: 'owner' }
}
