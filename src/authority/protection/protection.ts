/**
 * The protection API: /perm, /introspect, /consume, /audit/access, each behind a PAT whose resource server
 * is read again at every use. Contract: "Protection API", "Introspection and consume answers".
 */
import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { parseBody } from '../../http/bodies.ts'
import { consumeError, livenessReason, type LivenessFacts } from '../../rules/liveness.ts'
import { consumeGrant, readGrant, type GrantReading } from '../../storage/authority/grants.ts'
import { readAskedResource, type AskedReading } from '../../storage/authority/governed.ts'
import { onBehalfOf } from '../../storage/core/shares.ts'
import { sha256 } from '../../wire/encoding.ts'
import { refuse } from '../../wire/refusal.ts'
import { newFamily, sealTicket } from '../../wire/ticket.ts'
import { verifyRpt } from '../../wire/tokens.ts'
import { registerAudit } from './audit.ts'
import { refuseWhileOff } from '../../surface/clock.ts'
import type { Authority } from '../context.ts'
import { createPatGuard, invalidPat, standsFor, type PatHolder } from '../../surface/pat-guard.ts'

const PERMISSION = z.object({
  resource_id: z.string().min(1).max(400),
  resource_scopes: z.array(z.string().min(1).max(200)).max(50),
})
export const PERM_REQUEST = z.union([PERMISSION, z.array(PERMISSION)])
export const TOKEN_QUERY = z.object({
  token: z.string().min(1).max(16_384),
  token_type_hint: z.string().optional(),
})

/** Registers the protection API. */
export function registerProtection(app: FastifyInstance, authority: Authority): void {
  const guard = createPatGuard(authority)
  app.post('/perm', async (request, reply) => {
    const holder = guard(request.headers.authorization)
    refuseWhileOff(authority.clock)
    const wanted = parseBody(PERM_REQUEST, request.body)
    const ticket = await onBehalfOf(holder.owner, () => registerPermission(authority, holder, wanted))
    return reply.status(201).header('cache-control', 'no-store').send({ ticket })
  })
  app.post('/introspect', async (request, reply) => {
    const holder = guard(request.headers.authorization)
    const { token } = parseBody(TOKEN_QUERY, request.body)
    const answer = await onBehalfOf(holder.owner, () => introspect(authority, holder, token))
    return reply.header('cache-control', 'no-store').send(answer)
  })
  app.post('/consume', async (request, reply) => {
    const holder = guard(request.headers.authorization)
    const { token } = parseBody(TOKEN_QUERY, request.body)
    const answer = await onBehalfOf(holder.owner, () => consume(authority, holder, token))
    return reply.header('cache-control', 'no-store').send(answer)
  })
  registerAudit(app, authority, guard)
}

/**
 * Seals a ticket for the permissions a refused call needed. Writes nothing: strangers cause any number of
 * these. Refuses `invalid_resource_id` (also where this server does not publish it) and `invalid_scope`.
 */
async function registerPermission(
  authority: Authority,
  holder: PatHolder,
  body: z.infer<typeof PERM_REQUEST>,
): Promise<string> {
  const asked = Array.isArray(body) ? body : [body]
  const [permission] = asked
  if (permission === undefined || asked.length !== 1)
    refuse('invalid_request', 'Ask for exactly one resource per ticket.')
  const { tag, resource } = await readPublished(authority, holder, noNul(permission.resource_id))
  const scopes = [...new Set(permission.resource_scopes)]
  if (scopes.length === 0) refuse('invalid_scope', 'Name at least one scope.')
  const excess = scopes.find(scope => !resource.resource_scopes.includes(scope))
  if (excess !== undefined)
    refuse(
      'invalid_scope',
      `The resource has no scope ${JSON.stringify(excess)}; ask for ${resource.resource_scopes.join(' ')}.`,
    )
  return sealTicket(
    {
      issuer: authority.issuer,
      tag,
      owner: holder.owner,
      family: newFamily(),
      resource_id: resource.resource_id,
      resource_scopes: scopes,
      client_id: holder.client_id,
      expires_at: authority.now() + authority.limits.ticketSeconds,
    },
    authority.ticketKeys[0],
  )
}

/** The owner and the resource that the asking server publishes. One that is not known is worth one look at what it lists now. */
async function readPublished(
  authority: Authority,
  holder: PatHolder,
  resourceId: string,
): Promise<Required<Pick<AskedReading, 'tag' | 'resource'>>> {
  const { owner, client_id } = holder
  const read = async () => {
    const asked = await readAskedResource(authority.database.db, {
      owner,
      client_id,
      resource_id: resourceId,
    })
    if (asked === undefined || !standsFor(asked.server, holder)) throw invalidPat()
    const found = asked.resource
    // Without scopes only its place is kept: it is listed no more.
    const isTheirs = found?.client_id === client_id && found.resource_scopes.length > 0
    return { ...asked, resource: isTheirs ? found : undefined }
  }
  let { server, tag, resource } = await read()
  if (resource === undefined && server.publishes) {
    await authority.registry.lookAgain(holder)
    ;({ tag, resource } = await read())
  }
  if (resource === undefined)
    refuse(
      'invalid_resource_id',
      'Register this resource with the owner first; it is not among those you publish.',
    )
  return { tag, resource }
}

/** RFC 7662 with the permissions array; never consumes, never cached. */
async function introspect(authority: Authority, holder: PatHolder, token: string): Promise<object> {
  const reading = await read(authority, holder, token)
  const reason = livenessReason(factsOf(authority, reading, holder, token))
  if (reason !== undefined) return { active: false, reason, error: reason }
  const grant = reading.grant!
  return { active: true, ...grant.claims, single_use: grant.single_use }
}

/** Spends a single-use grant: the conditional update decides, and only a lost one asks why. */
async function consume(authority: Authority, holder: PatHolder, token: string): Promise<object> {
  const family = await consumeGrant(authority.database, holder.owner, holder, sha256(token))
  if (family !== undefined) return { consumed: true, family }
  const reading = await read(authority, holder, token)
  const singleUse = reading.grant?.single_use === true
  const error = consumeError(factsOf(authority, reading, holder, token), singleUse)
  if (error !== undefined) return { consumed: false, error }
  // Refused, yet live by now: admitted again between the two statements. Nothing was spent.
  return refuse(
    'temporarily_unavailable',
    'The connection changed while the grant was being spent; ask again.',
  )
}

async function read(authority: Authority, holder: PatHolder, token: string): Promise<GrantReading> {
  const reading = await readGrant(authority.database, holder.owner, holder.client_id, sha256(token))
  if (reading === undefined || !standsFor(reading.server, holder)) throw invalidPat()
  return reading
}

/** What is established about a token that this server asks about. */
function factsOf(
  authority: Authority,
  reading: GrantReading,
  holder: PatHolder,
  token: string,
): LivenessFacts {
  const { grant, server } = reading
  const known =
    grant !== undefined && grant.client_id === holder.client_id && grant.aud === server.resource_uri
  return {
    // Verified only where no grant was found by its hash: a live look-up costs no signature check.
    signatureValid: grant !== undefined || isOurs(authority, token),
    known,
    ...(known
      ? {
          connected: grant.connected,
          current: grant.current,
          governed: grant.governed,
          consumed: grant.consumed,
          expired: grant.expired,
        }
      : {}),
  }
}

function isOurs(authority: Authority, token: string): boolean {
  try {
    verifyRpt(token, authority.keys)
    return true
  } catch {
    return false
  }
}

function noNul(text: string): string {
  return text.includes('\0') ? refuse('invalid_resource_id', 'A resource id holds no NUL.') : text
}
