/**
 * Resource servers with protection access, as the owner sees and decides them. What she withdraws issues and verifies
 * nothing from then on. Contract: "Owner API" (`/owner/resource-servers`), "Resource server registration".
 */
import { z } from 'zod'
import { asClientId, type ClientId } from '../../wire/identifiers.ts'
import { endpoint, type Endpoint } from '../../http/endpoint.ts'
import { plainText } from '../../http/pages.ts'
import { nextRegistrationState } from '../../rules/registration.ts'
import type { Tx } from '../../storage/authority/database.ts'
import { appendEvent } from '../../storage/authority/events.ts'
import { appendLedger } from '../../storage/authority/ledger.ts'
import {
  decideResourceServer,
  listResourceServers,
  type ListedResourceServer,
} from '../../storage/authority/registrations.ts'
import { readResourceServer, type ResourceServerRow } from '../../storage/authority/resources.ts'
import type { Actor } from '../../wire/actor.ts'
import { refuse } from '../../wire/refusal.ts'
import type { ResourceServer } from '../../wire/owner-api.ts'
import type { OwnerApi } from './api.ts'
import { changeAs, OWNER, type OwnerCredential } from './guard.ts'
import { ownerList } from './lists.ts'
import { CLIENT_ID } from './name-schemas.ts'

type Decision = 'approved' | 'revoked'

const NO_SUCH_SERVER = 'You have no resource server with this client_id.'

const text = z.string()
const maybe = text.nullable()
const RESOURCE_SERVER: z.ZodType<ResourceServer> = z.object({
  client_id: CLIENT_ID,
  name: text,
  resource_uri: text,
  status: z.enum(['pending', 'active', 'revoked']),
  auth: z.enum(['secret', 'signature']),
  registered_at: text,
  decided_at: maybe,
  last_pat_issued: maybe,
  registry: z
    .object({ landed_at: maybe, failed_at: maybe, fault: maybe, conflicts: z.int().min(0) })
    .nullable(),
})
const DECIDED = { 200: { says: 'The record as it is now.', schema: RESOURCE_SERVER } }

/** The resource servers, her decision, and the withdrawal by path. */
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
    summary: 'Approves or withdraws one',
    credential: OWNER,
    body: {
      // A client_id may be a URL, so it is named in the body.
      schema: z.strictObject({
        client_id: plainText(2_048).transform(asClientId),
        decision: z.enum(['approved', 'revoked']),
      }),
    },
    answers: DECIDED,
    handle: async (api: OwnerApi, { caller, body, answer }) => answer(200, await decide(api, caller, body)),
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
      unknown: NO_SUCH_SERVER,
    },
    answers: DECIDED,
    handle: async (api: OwnerApi, { caller, parameters, answer }) =>
      answer(200, await decide(api, caller, { client_id: parameters.id, decision: 'revoked' })),
  }),
]

/** A record as the owner API writes it; `registry` is null where nothing is pulled from this server. */
function serverAnswer(row: ListedResourceServer): ResourceServer {
  const { client_id, name, resource_uri, status, auth, registered_at, decided_at, last_pat_issued } = row
  const { landed_at, failed_at, fault, conflicts } = row
  return {
    client_id,
    name,
    resource_uri,
    status,
    auth,
    registered_at,
    decided_at,
    last_pat_issued,
    registry: row.publishes ? { landed_at, failed_at, fault, conflicts: conflicts ?? 0 } : null,
  }
}

/**
 * Approves or withdraws, and answers the record as it then is. What is decided so already stays as it is, and is no
 * error; 404 for an unknown client_id, 409 where nothing leads from its state to the one decided.
 */
async function decide(
  api: OwnerApi,
  credential: OwnerCredential,
  wanted: { client_id: ClientId; decision: Decision },
): Promise<ResourceServer> {
  const { owner, actor } = credential
  const { client_id, decision } = wanted
  const to = decision === 'approved' ? 'active' : 'revoked'
  const { changed, record } = await changeAs(api, credential, async tx => {
    const before = (await readResourceServer(tx, owner, client_id)) ?? unknown()
    const changes = before.status !== to
    if (changes) await change(tx, before, decision, actor)
    const [after] = await listResourceServers(tx, owner, { client_id })
    return { changed: changes, record: after! }
  })
  if (changed && to === 'active') api.registry.pullSoon({ owner, client_id })
  return serverAnswer(record)
}

async function change(tx: Tx, before: ResourceServerRow, decision: Decision, actor: Actor): Promise<void> {
  const { owner, client_id } = before
  const to = stateAfter(before, decision)
  if (to === undefined)
    refuse('conflict', 'It was withdrawn: it has to register again before it can be approved.')
  await decideResourceServer(tx, owner, client_id, to)
  const kind = decision === 'approved' ? 'server_approved' : 'server_withdrawn'
  await appendLedger(tx, owner, { kind, data: { client_id, by: 'owner', actor } })
  await appendEvent(tx, owner, 'resource_server_decided', { client_id, status: to, actor })
}

/** One with a secret cannot register again by itself, so the owner alone lets it back in. */
function stateAfter(before: ResourceServerRow, decision: Decision): 'active' | 'revoked' | undefined {
  const readmits = before.auth === 'secret' && before.status === 'revoked' && decision === 'approved'
  if (readmits) return 'active'
  const trigger = decision === 'approved' ? 'owner_approves' : 'owner_withdraws'
  const next = nextRegistrationState(before.status, trigger)
  return next === 'pending' ? undefined : next
}

function unknown(): never {
  refuse('not_found', NO_SUCH_SERVER)
}
