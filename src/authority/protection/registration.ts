/**
 * POST /rs/register: a resource server says that it serves an owner's resource, and proves it by a key published at the
 * origin of that resource. It settles who asks; whether it may is for the owner to say.
 * Contract: "Resource server establishment: POST `/rs/register`", "Resource server registration".
 */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { verifyByPublishedKeys } from '../../http/published-keys.ts'
import { signatureBase, signedMessage, type SignatureBase } from '../../http/signed-request.ts'
import { PENDING_SERVERS_MAX } from '../../rules/registration.ts'
import { inTransaction } from '../../storage/core/database.ts'
import { appendEvent } from '../../storage/authority/events.ts'
import { readOwner } from '../../storage/authority/owners.ts'
import { registerResourceServer, type Registered } from '../../storage/authority/registrations.ts'
import { isWebUrl } from '../../wire/members.ts'
import { AUTHORITY_PATH } from '../../wire/names.ts'
import { Refusal, refuse } from '../../wire/refusal.ts'
import type { Answer } from '../../surface/token/answers.ts'
import type { Authority } from '../context.ts'
import { bodyOf, plainText } from '../owner/requests.ts'
import { PublicationFault } from '../registry/published-resources.ts'
import { asClientId, asOwner, type ClientId, type Owner } from '../../wire/identifiers.ts'

/**
 * One spelling each: a resource_uri is also the client_id, and two spellings would be two resource servers. Short enough
 * for a challenge to carry it several times in one header.
 */
const resourceUri = z
  .string()
  .max(512)
  .refine(isPlain, 'give an https URL without query, fragment or trailing slash, in its one spelling')

export const REGISTRATION = z.strictObject({
  owner: plainText(200),
  resource_uri: resourceUri,
  name: plainText(200)
    .regex(/^(?=.*\P{White_Space})[^\p{Cc}]*$/u, 'give text that shows something, without control characters')
    .optional(),
})
type Registration = z.output<typeof REGISTRATION> & { owner: Owner }

/** For all that is fetched to judge one registration. */
const FETCHING_MS_MAX = 3_000

/** Registers POST /rs/register: 202 `pending`, or 200 `active` where the owner has approved it before. */
export function registerRegistration(app: FastifyInstance, authority: Authority): void {
  const base = signatureBase(authority.issuer)
  app.post(AUTHORITY_PATH.register, async (request, reply) => {
    const { owner, ...asked } = bodyOf(REGISTRATION, request)
    const claim = { ...asked, owner: asOwner(owner) }
    if ((await readOwner(authority.database.db, claim.owner)) === undefined)
      refuse('access_denied', 'Name an owner who is served here.')
    await proveOrigin(authority, claim, { request, base })
    const { status, body } = await record(authority, claim)
    return reply.status(status).header('cache-control', 'no-store').send(body)
  })
}

/**
 * The document that RFC 9728 forms from the claim must establish it (400, with the reason), and a key that it names
 * must have signed the request (401). A request that is sent again within its window changes nothing: what waits, waits.
 */
async function proveOrigin(
  authority: Authority,
  { resource_uri }: Registration,
  { request, base }: { request: FastifyRequest; base: SignatureBase },
): Promise<void> {
  const patience = { deadline: Date.now() + FETCHING_MS_MAX, favoured: false }
  try {
    const document = await authority.published.document(resource_uri, patience)
    const keys = authority.published.keys(document, patience)
    await verifyByPublishedKeys(signedMessage(request, base), keys, { now: authority.now() })
  } catch (error) {
    if (error instanceof PublicationFault) throw unestablished(error)
    if (error instanceof Refusal && error.code === 'invalid_token')
      throw new Refusal('invalid_client', error.detail, { cause: error })
    throw error
  }
}

/** Where it is we who are busy, asking again helps; every other reason is the document's own. */
function unestablished(fault: PublicationFault): Refusal {
  const { reason, message } = fault
  if (reason.endsWith('_busy'))
    return new Refusal('temporarily_unavailable', message, {
      headers: { 'retry-after': '60' },
      extra: { reason },
      cause: fault,
    })
  return new Refusal('invalid_request', message, { extra: { reason }, cause: fault })
}

async function record(authority: Authority, claim: Registration): Promise<Answer> {
  const { owner, resource_uri, name = resource_uri } = claim
  const { db } = authority.database
  const outcome = await inTransaction(db, async tx => {
    const registered = await registerResourceServer(tx, { owner, resource_uri, name }, PENDING_SERVERS_MAX)
    if (registered === 'registered')
      await appendEvent(tx, owner, 'resource_server_pending', { client_id: resource_uri, status: 'pending' })
    return registered
  })
  return answerOf(outcome, asClientId(resource_uri))
}

function answerOf(outcome: Registered, client_id: ClientId): Answer {
  switch (outcome) {
    case 'active':
      return { status: 200, body: { client_id, status: 'active' } }
    case 'registered':
    case 'waiting':
      return { status: 202, body: { client_id, status: 'pending' } }
    case 'provisioned':
      return refuse('conflict', 'Use the secret that this resource server was provisioned with.')
    case 'full':
      throw new Refusal('request_denied', 'Too many resource servers wait for this owner: ask again later.', {
        status: 429,
        headers: { 'retry-after': '60' },
      })
  }
}

/** Nothing in it means anything to a shell or a page: owners copy it from one into the other. */
function isPlain(text: string): boolean {
  if (!isWebUrl(text)) return false
  const { origin, pathname } = new URL(text)
  const isCanonical = text === (pathname === '/' ? origin : origin + pathname)
  return isCanonical && /^https?:\/\/[\w.:[\]-]+(?:\/(?:[\w.~-]|%[\dA-F]{2})+)*$/.test(text)
}
