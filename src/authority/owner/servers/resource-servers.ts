/**
 * Resource servers with protection access, as the owner sees them and decides on them. A server that she
 * withdraws gets no tickets and no introspections from then on. Contract: "Owner API"
 * (`/owner/resource-servers`), "Resource server registration".
 */
import { z } from 'zod'
import { asClientId, type ClientId } from '../../../wire/identifiers.ts'
import { endpoint, type Endpoint } from '../../../http/servers/endpoint.ts'
import { plainText } from '../../../http/servers/pages.ts'
import { nextRegistrationState } from '../../../rules/registration.ts'
import type { Tx } from '../../../storage/authority/database.ts'
import { endsLeases } from '../../../storage/core/after-commit.ts'
import { appendEvent } from '../../../storage/authority/ledger/events.ts'
import { appendLedger } from '../../../storage/authority/ledger/ledger.ts'
import {
  decideResourceServer,
  listResourceServers,
  type ListedResourceServer,
} from '../../../storage/authority/registry/registrations.ts'
import { readResourceServer, type ResourceServerRow } from '../../../storage/authority/registry/resources.ts'
import { withdrawLapsed } from '../../registry/lapsed-registrations.ts'
import { refuse } from '../../../wire/refusal.ts'
import type { DecidedServer, ResourceServerEntry } from '../../../wire/owner/owner-api.ts'
import { LEASES_AWAITED, runAndAwaitLeases } from '../../protection/lease-wait.ts'
import type { OwnerApi } from '../api.ts'
import { changeAs, OWNER, type OwnerCredential } from '../credentials/guard.ts'
import { ownerList } from '../lists.ts'
import { CLIENT_ID } from '../../../wire/documents/names.ts'

type ServerDecision = 'approved' | 'revoked'

const noSuchServer = (which: string): string =>
  `You have no resource server with ${which}. One that waited for a week has to register again.`

/** How many servers one call may decide about. */
const DECIDED_AT_ONCE_MAX = 100

const text = z.string()
const maybe = text.nullable()
const MEMBERS = {
  client_id: CLIENT_ID,
  name: text,
  resource_uri: text,
  status: z.enum(['pending', 'active', 'revoked']),
  auth: z.enum(['secret', 'keys', 'signature']),
  registered_at: text,
  decided_at: maybe,
  last_pat_issued: maybe,
  registry: z
    .object({ landed_at: maybe, failed_at: maybe, fault: maybe, conflicts: z.int().min(0) })
    .nullable(),
}
const RESOURCE_SERVER: z.ZodType<ResourceServerEntry> = z.object(MEMBERS).meta({ id: 'ResourceServer' })
const DECIDED_SERVER: z.ZodType<DecidedServer> = z
  .object({ ...MEMBERS, ...LEASES_AWAITED })
  .meta({ id: 'DecidedResourceServer' })
const DECIDED = { 200: { says: 'The record as it is now.', schema: DECIDED_SERVER } }

const decision = z.enum(['approved', 'revoked'])
/** A client_id may be a URL, so it is named in the body. */
const NAMED_SERVER = plainText(2_048).transform(asClientId)
const ONE_DECISION = z.strictObject({ client_id: NAMED_SERVER, decision })
const SEVERAL_DECISIONS = z.strictObject({
  client_ids: z
    .array(NAMED_SERVER)
    .min(1, 'name at least one')
    .max(DECIDED_AT_ONCE_MAX, `name at most ${DECIDED_AT_ONCE_MAX}`)
    .refine(ids => new Set(ids).size === ids.length, 'name each once'),
  decision,
})

/** The endpoints for resource servers: the list, her decision, and the withdrawal by path. */
export const RESOURCE_SERVERS: readonly Endpoint<OwnerApi>[] = [
  ownerList({
    path: '/owner/resource-servers',
    rows: ['owner-resource-servers'],
    summary: 'Resource servers with protection access, each pending, active or revoked',
    says: 'By client_id.',
    item: RESOURCE_SERVER,
    list: listResourceServers,
    key: 'client_id',
    show: serverAnswer,
  }),
  endpoint({
    method: 'post',
    path: '/owner/resource-servers/decision',
    rows: ['owner-resource-servers-decision'],
    summary: 'Approves or withdraws one, or several of one origin: all of them or none',
    credential: OWNER,
    body: { schema: z.union([ONE_DECISION, SEVERAL_DECISIONS]) },
    answers: {
      200: {
        says: 'The record as it is now; of several, the records in the order in which they were named.',
        schema: z.union([DECIDED_SERVER, DECIDED_SERVER.array()]),
      },
    },
    refuses: { 404: ['not_found'], 409: ['conflict'] },
    handle: async (api: OwnerApi, { caller, body, answer }) =>
      answer(
        200,
        'client_id' in body
          ? await decideOne(api, caller, body)
          : await decideAll(api, caller, body.client_ids, body.decision),
      ),
  }),
  endpoint({
    method: 'post',
    path: '/owner/resource-servers/{id}/revoke',
    rows: ['owner-resource-servers-revoke'],
    summary: 'The same withdrawal by path, for plain-name ids',
    credential: OWNER,
    parameters: {
      schema: z.object({
        id: z
          .string()
          .refine(id => !id.includes('\0'))
          .transform(asClientId),
      }),
      unknown: noSuchServer('this client_id'),
    },
    answers: DECIDED,
    refuses: { 404: ['not_found'] },
    handle: async (api: OwnerApi, { caller, parameters, answer }) =>
      answer(200, await decideOne(api, caller, { client_id: parameters.id, decision: 'revoked' })),
  }),
]

/** A record as the owner API writes it; `registry` is null if nothing is pulled from this server. */
function serverAnswer(row: ListedResourceServer): ResourceServerEntry {
  const { client_id, name, resource_uri, status, registered_at, decided_at, last_pat_issued } = row
  const { landed_at, failed_at, fault, conflicts } = row
  return {
    client_id,
    name,
    resource_uri,
    status,
    auth: row.client_keys === null ? row.auth : 'keys',
    registered_at,
    decided_at,
    last_pat_issued,
    registry: row.publishes ? { landed_at, failed_at, fault, conflicts: conflicts ?? 0 } : null,
  }
}

async function decideOne(
  api: OwnerApi,
  credential: OwnerCredential,
  { client_id, decision: decided }: { client_id: ClientId; decision: ServerDecision },
): Promise<DecidedServer> {
  const [record] = await decideAll(api, credential, [client_id], decided)
  return record!
}

/** Decides as `decide`; each record has the whole wait for sidecars, because the servers end together. */
async function decideAll(...deciding: Parameters<typeof decide>): Promise<DecidedServer[]> {
  const { records, leases } = await runAndAwaitLeases(async () => ({ records: await decide(...deciding) }))
  return leases === undefined ? records : records.map(record => ({ ...record, leases }))
}

/**
 * Approves or withdraws, and answers with the resulting records. A server that already has this decision
 * stays as it is, without an error. Refuses 404 for an unknown client_id, 409 if its state cannot change to
 * the decided one, 400 if the servers have several origins; then nothing is decided.
 */
async function decide(
  api: OwnerApi,
  credential: OwnerCredential,
  clientIds: readonly ClientId[],
  decided: ServerDecision,
): Promise<ResourceServerEntry[]> {
  const { owner } = credential
  const to = decided === 'approved' ? 'active' : 'revoked'
  const { changed, records } = await changeAs(api, credential, async tx => {
    // Also if none is left to withdraw: the first answer may have been lost.
    if (to === 'revoked') endsLeases(tx, owner)
    await withdrawLapsed(tx, owner)
    const before: ResourceServerRow[] = []
    for (const client_id of clientIds)
      before.push(
        (await readResourceServer(tx, owner, client_id)) ??
          unknown(clientIds.length > 1 ? client_id : undefined),
      )
    if (new Set(before.map(originOf)).size > 1)
      refuse(
        'invalid_request',
        'Name resource servers of one origin, and decide about those of others by another call.',
      )
    const changing = before.filter(({ status }) => status !== to)
    for (const server of changing) await change(tx, server, decided, credential)
    const records = []
    for (const client_id of clientIds) records.push(...(await listResourceServers(tx, owner, { client_id })))
    return { changed: changing, records }
  })
  if (to === 'active') for (const { client_id } of changed) api.registry.pullSoon({ owner, client_id })
  return records.map(serverAnswer)
}

function originOf({ resource_uri }: ResourceServerRow): string {
  return URL.parse(resource_uri)?.origin ?? resource_uri
}

async function change(
  tx: Tx,
  before: ResourceServerRow,
  decided: ServerDecision,
  credential: OwnerCredential,
): Promise<void> {
  const to = stateAfter(before, decided)
  if (to === undefined)
    refuse(
      'conflict',
      `${JSON.stringify(before.client_id)} was withdrawn: it has to register again before it can be approved.`,
    )
  await writeDecision(tx, credential, { client_id: before.client_id, to })
}

/** Writes and records what she decided about one server; `origin` if she decided about the whole origin. */
export async function writeDecision(
  tx: Tx,
  { owner, actor }: OwnerCredential,
  { client_id, to, origin }: { client_id: ClientId; to: 'active' | 'revoked'; origin?: string },
): Promise<void> {
  await decideResourceServer(tx, owner, client_id, to)
  const kind = to === 'active' ? 'server_approved' : 'server_withdrawn'
  await appendLedger(tx, owner, { kind, data: { client_id, origin, by: 'owner', actor } })
  await appendEvent(tx, owner, 'resource_server_decided', { client_id, status: to, actor })
}

/** One of the provisioning file cannot register again by itself, so the owner alone lets it back in. */
function stateAfter(before: ResourceServerRow, decided: ServerDecision): 'active' | 'revoked' | undefined {
  const isProvisioned = before.auth === 'secret' || before.client_keys !== null
  if (isProvisioned && before.status === 'revoked' && decided === 'approved') return 'active'
  const trigger = decided === 'approved' ? 'owner_approves' : 'owner_withdraws'
  const next = nextRegistrationState(before.status, trigger)
  return next === 'pending' ? undefined : next
}

/** Refuses 404; if there are several, the refusal says which one. */
function unknown(client_id: ClientId | undefined): never {
  refuse(
    'not_found',
    noSuchServer(client_id === undefined ? 'this client_id' : `the client_id ${JSON.stringify(client_id)}`),
  )
}
