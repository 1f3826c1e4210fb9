/**
 * POST /perm: a sealed ticket for the permissions that a refused call needed. It writes nothing, because
 * strangers can cause any number of these. Contract: "Protection API" (/perm), "Permission ticket".
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../http/servers/endpoint.ts'
import { refuse } from '../wire/refusal.ts'
import { newFamily, sealTicket } from '../wire/negotiation/ticket.ts'
import { refuseWhileOff, type Clock } from './clock.ts'
import type { Issuer } from './issuer.ts'
import { invalidPat, PAT, standsFor, type PatGuard, type PatHolder } from './pat-guard.ts'
import type { ResourceServer } from './resource-servers.ts'
import type { ClientId, Family, Owner } from '../wire/identifiers.ts'

const PERMISSION = z.object({
  resource_id: z.string().min(1).max(400),
  resource_scopes: z.array(z.string().min(1).max(200)).max(50),
})
const PERM_REQUEST = z.union([
  PERMISSION.extend({
    with_offer: z
      .boolean()
      .optional()
      .describe('Whether the answer should say which scopes the owner offers of the resource.'),
  }),
  z.array(PERMISSION),
])

/** The requested permissions, and the resource server and owner. */
export interface PermissionQuestion {
  owner: Owner
  client_id: ClientId
  resource_id: string
}

/** What a ticket is made from. */
export interface PermissionReading {
  /** Routes tickets to the owner. */
  tag: string
  server: Pick<ResourceServer, 'status' | 'generation'> & { publishes: boolean }
  resource?: { resource_id: string; client_id: ClientId; resource_scopes: readonly string[] }
}

/** What a tier offers of its resources: `ask_me` is whether the owner is asked about each operation. */
export interface TierOffer {
  tier: string
  ask_me: boolean
  scopes: readonly string[]
}

/** The resources that the owners of a party have registered. */
export interface RegisteredResources {
  /** undefined if there is no such owner or server. */
  read(of: PermissionQuestion): Promise<PermissionReading | undefined>
  /** The tier that governs the resource; undefined if none does. Left out by a party without tiers. */
  offer?: ((of: PermissionQuestion) => Promise<TierOffer | undefined>) | undefined
  /** Reads what a server that publishes its resources lists now, unless it is known to list nothing new. */
  lookAgain(server: { owner: Owner; client_id: ClientId }): Promise<void>
}

export interface PermissionEndpoint {
  issuer: Pick<Issuer, 'issuer' | 'ticketKeys' | 'now'>
  clock: Pick<Clock, 'fault'>
  guard: PatGuard
  resources: RegisteredResources
  ticketSeconds: number
}

export const PERM: Endpoint<PermissionEndpoint> = endpoint({
  method: 'post',
  path: '/perm',
  rows: ['post-perm'],
  summary: 'A ticket for the permissions a refused call needed',
  credential: PAT,
  refuses: { 400: ['invalid_resource_id', 'invalid_scope'] },
  first: ({ clock }: PermissionEndpoint) => refuseWhileOff(clock),
  body: { schema: PERM_REQUEST, form: 'unlisted' },
  answers: {
    201: {
      says: 'The ticket.',
      schema: z.object({
        ticket: z.string(),
        family: z.string().describe('What logs call the negotiation that the ticket begins.'),
        offered_scopes: z
          .array(z.string())
          .optional()
          .describe(
            'If `with_offer` asks for it: the scopes in her terms of the resource; none without terms.',
          ),
        offered_by: z
          .object({ tier: z.string(), ask_me: z.boolean() })
          .optional()
          .describe(
            'With `offered_scopes`: the id of her tier, and whether it asks her about each operation. Left out if no tier has the resource.',
          ),
      }),
      headers: { 'cache-control': 'no-store' },
    },
  },
  handle: async (of: PermissionEndpoint, { caller, body, answer }) =>
    answer(201, await ticketFor(of, caller, body)),
})

/** Refuses `invalid_resource_id` (also if this server does not publish it) and `invalid_scope`. */
async function ticketFor(
  { issuer, resources, ticketSeconds }: PermissionEndpoint,
  holder: PatHolder,
  body: z.infer<typeof PERM_REQUEST>,
): Promise<{ ticket: string; family: Family } & OfferMembers> {
  // 1. One resource.
  const permissions = Array.isArray(body) ? body : [body]
  const [permission] = permissions
  if (permission === undefined || permissions.length !== 1)
    refuse('invalid_request', 'Ask for exactly one resource per ticket.')

  // 2. That this server publishes for this owner.
  const { tag, resource } = await publishedBy(holder, resources, noNul(permission.resource_id))

  // 3. It names scopes that the resource has.
  const scopes = [...new Set(permission.resource_scopes)]
  if (scopes.length === 0) refuse('invalid_scope', 'Name at least one scope.')
  const excess = scopes.find(scope => !resource.resource_scopes.includes(scope))
  if (excess !== undefined)
    refuse(
      'invalid_scope',
      `The resource has no scope ${JSON.stringify(excess)}; ask for ${resource.resource_scopes.join(' ')}.`,
    )

  // 4. Sealed: the ticket contains everything that the first presentation needs.
  const family = newFamily()
  const ticket = sealTicket(
    {
      issuer: issuer.issuer,
      tag,
      owner: holder.owner,
      family,
      resource_id: resource.resource_id,
      resource_scopes: scopes,
      client_id: holder.client_id,
      expires_at: issuer.now() + ticketSeconds,
    },
    issuer.ticketKeys[0],
  )
  if (!('with_offer' in permission) || permission.with_offer !== true) return { ticket, family }
  const { owner, client_id } = holder
  return {
    ticket,
    family,
    ...(await offerOf(resources, { owner, client_id, resource_id: resource.resource_id })),
  }
}

/** What the answer says of the owner's terms. */
interface OfferMembers {
  offered_scopes?: string[]
  offered_by?: { tier: string; ask_me: boolean }
}

async function offerOf(resources: RegisteredResources, of: PermissionQuestion): Promise<OfferMembers> {
  if (resources.offer === undefined) return {}
  const offer = await resources.offer(of)
  if (offer === undefined) return { offered_scopes: [] }
  const { tier, ask_me, scopes } = offer
  return { offered_scopes: [...scopes], offered_by: { tier, ask_me } }
}

/** The owner's tag and the resource. For an unknown one, the server's present listing is read once. */
async function publishedBy(
  holder: PatHolder,
  resources: RegisteredResources,
  resource_id: string,
): Promise<Required<Pick<PermissionReading, 'tag' | 'resource'>>> {
  const { owner, client_id } = holder
  const read = async () => {
    const reading = await resources.read({ owner, client_id, resource_id })
    if (reading === undefined || !standsFor(reading.server, holder)) throw invalidPat()
    const found = reading.resource
    // Without scopes, it is only a placeholder, because it is no longer listed.
    const isTheirs = found?.client_id === client_id && found.resource_scopes.length > 0
    return { ...reading, resource: isTheirs ? found : undefined }
  }
  let { server, tag, resource } = await read()
  if (resource === undefined && server.publishes) {
    await resources.lookAgain(holder)
    ;({ tag, resource } = await read())
  }
  if (resource === undefined)
    refuse(
      'invalid_resource_id',
      'Register this resource with the owner first; it is not among those you publish.',
    )
  return { tag, resource }
}

function noNul(text: string): string {
  return text.includes('\0') ? refuse('invalid_resource_id', 'A resource id holds no NUL.') : text
}
