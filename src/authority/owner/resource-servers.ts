/**
 * Resource servers with protection access, as the owner sees and decides them. What she withdraws issues and verifies
 * nothing from then on. Contract: "Owner API" (`/owner/resource-servers`), "Resource server registration".
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
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
import { refuse } from '../../wire/refusal.ts'
import type { Authority } from '../context.ts'
import { changeAs, ownerOf, type OwnerCredential } from './guard.ts'
import { bodyOf, listPage, plainText } from './requests.ts'
import { asClientId, type ClientId } from '../../wire/identifiers.ts'

type Decision = 'approved' | 'revoked'

/** A client_id may be a URL, so it is named in the body. */
export const SERVER_DECISION = z.strictObject({
  client_id: plainText(2_048),
  decision: z.enum(['approved', 'revoked']),
})

/** Registers GET /owner/resource-servers, its decision, and the withdrawal by path. */
export function registerOwnerResourceServers(app: FastifyInstance, authority: Authority): void {
  app.get('/owner/resource-servers', (request, reply) => getServers(authority, request, reply))
  app.post('/owner/resource-servers/decision', async request => {
    const { client_id, decision } = bodyOf(SERVER_DECISION, request)
    return decide(authority, ownerOf(request), { client_id: asClientId(client_id), decision })
  })
  app.post<{ Params: { id: string } }>('/owner/resource-servers/:id/revoke', async request => {
    const { id } = request.params
    if (id.includes('\0')) return unknown()
    return decide(authority, ownerOf(request), { client_id: asClientId(id), decision: 'revoked' })
  })
}

async function getServers(
  authority: Authority,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<object[]> {
  const items = await listPage(authority, { request, reply }, listResourceServers, 'client_id')
  return items.map(serverAnswer)
}

/** A record as the owner API writes it; `registry` is null where nothing is pulled from this server. */
function serverAnswer(row: ListedResourceServer): object {
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
  authority: Authority,
  credential: OwnerCredential,
  wanted: { client_id: ClientId; decision: Decision },
): Promise<object> {
  const { owner } = credential
  const { client_id, decision } = wanted
  const to = decision === 'approved' ? 'active' : 'revoked'
  const { changed, record } = await changeAs(authority, credential, async tx => {
    const before = (await readResourceServer(tx, owner, client_id)) ?? unknown()
    const changes = before.status !== to
    if (changes) await change(tx, before, decision)
    const [after] = await listResourceServers(tx, owner, { client_id })
    return { changed: changes, record: after! }
  })
  if (changed && to === 'active') authority.registry.pullSoon({ owner, client_id })
  return serverAnswer(record)
}

async function change(tx: Tx, before: ResourceServerRow, decision: Decision): Promise<void> {
  const { owner, client_id } = before
  const to = stateAfter(before, decision)
  if (to === undefined)
    refuse('conflict', 'It was withdrawn: it has to register again before it can be approved.')
  await decideResourceServer(tx, owner, client_id, to)
  const kind = decision === 'approved' ? 'approved' : 'revoked'
  await appendLedger(tx, owner, { kind, data: { client_id, by: 'owner' } })
  await appendEvent(tx, owner, 'resource_server_decided', { client_id, status: to })
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
  refuse('not_found', 'You have no resource server with this client_id.')
}
