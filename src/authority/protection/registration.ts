/**
 * POST /rs/register: a resource server says that it serves an owner's resource, and proves it by a key
 * published at the origin of that resource. It settles who asks; whether it may is for the owner to say.
 * Contract: "Resource server establishment: POST `/rs/register`", "Resource server registration".
 */
import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import { endpoint, type Credential, type Endpoint } from '../../http/servers/endpoint.ts'
import { plainText } from '../../http/servers/pages.ts'
import { verifyByPublishedKeys } from '../../http/servers/published-keys.ts'
import { signedMessage, type SignatureBase } from '../../http/servers/signed-request.ts'
import type { RegistrationAnswer } from '../../rules/registration.ts'
import { inTransaction } from '../../storage/core/database.ts'
import { appendEvent } from '../../storage/authority/ledger/events.ts'
import { lockQueue, readOwner } from '../../storage/authority/owners/owners.ts'
import { registerResourceServer } from '../../storage/authority/registry/registrations.ts'
import { isHostSpelledPlainly, isWebUrl } from '../../wire/json-members.ts'
import { AUTHORITY_PATH } from '../../wire/names.ts'
import { asOwner } from '../../wire/identifiers.ts'
import { Refusal, refuse } from '../../wire/refusal.ts'
import type { Signer } from '../../surface/issuer.ts'
import type { Documents, Limits, Store } from '../context.ts'
import { withdrawLapsed } from '../registry/lapsed-registrations.ts'
import { PublicationFault } from '../registry/published-resources.ts'

/**
 * One spelling each: a resource_uri is also the client_id, and two spellings would be two resource servers.
 * Short enough for a challenge to carry it several times in one header.
 */
const resourceUri = z
  .string()
  .max(512)
  .refine(isPlain, 'give an https URL without query, fragment or trailing slash, in its one spelling')

const REGISTRATION = z.strictObject({
  owner: plainText(200).transform(asOwner),
  resource_uri: resourceUri,
  name: plainText(200)
    .regex(/^(?=.*\P{White_Space})[^\p{Cc}]*$/u, 'give text that shows something, without control characters')
    .optional(),
})
type RegistrationBody = z.output<typeof REGISTRATION>

const UNCACHED = { 'cache-control': 'no-store' }

/** For all that is fetched to judge one registration. */
const FETCHING_MS_MAX = 3_000

/** Publishing the key proves the claim, so the handler checks it. */
const PUBLISHED_KEY: Credential<unknown, undefined> = {
  names: ['signature'],
  refusal: 'invalid_client',
  admit: (_registering, _request, run) => run(undefined),
}

export interface Registering extends Signer, Store, Documents, Limits {
  /** What resource servers sign over. */
  readonly base: SignatureBase
}

export const REGISTER: Endpoint<Registering> = endpoint({
  method: 'post',
  path: AUTHORITY_PATH.register,
  rows: [
    'register-signed',
    'register-body',
    'register-pending',
    'register-documents',
    'register-owner-decides',
  ],
  summary: 'A resource server asks to serve an owner; she decides',
  credential: PUBLISHED_KEY,
  body: { schema: REGISTRATION },
  answers: {
    200: {
      says: 'She has approved it before.',
      schema: z.object({ client_id: z.string(), status: z.literal('active') }),
      headers: UNCACHED,
    },
    202: {
      says: 'It waits for her.',
      schema: z.object({ client_id: z.string(), status: z.literal('pending') }),
      headers: UNCACHED,
    },
  },
  refuses: { 403: ['access_denied'], 409: ['conflict'], 429: ['request_denied'] },
  handle: async (registering: Registering, { body: claim, request, answer }) => {
    if ((await readOwner(registering.database.ofNobody, claim.owner)) === undefined) refuseUnknown()
    await proveOrigin(registering, claim, request)
    const status = await record(registering, claim)
    const client_id = claim.resource_uri
    return status === 'active' ? answer(200, { client_id, status }) : answer(202, { client_id, status })
  },
})

/**
 * The document that RFC 9728 forms from the claim must establish it (400, with the reason), and a key that it
 * names must have signed the request (401). A request that is sent again within its window changes nothing:
 * what waits, waits.
 */
async function proveOrigin(
  registering: Registering,
  { resource_uri }: RegistrationBody,
  request: FastifyRequest,
): Promise<void> {
  const { base, publishers } = registering
  const asking = { deadline: Date.now() + FETCHING_MS_MAX, favoured: false, source: request.ip }
  try {
    await publishers.at(resource_uri, asking, async ({ published }, patience) => {
      const document = await published.document(resource_uri, patience)
      const keys = published.keys(document, patience)
      await verifyByPublishedKeys(signedMessage(request, base), keys, { now: registering.now() })
    })
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

async function record(
  { database: { ofNobody: db }, quotas }: Registering,
  claim: RegistrationBody,
): Promise<'active' | 'pending'> {
  const { owner, resource_uri, name = resource_uri } = claim
  const answer = await inTransaction(db, async tx => {
    await lockQueue(tx, owner)
    await withdrawLapsed(tx, owner)
    const registered = await registerResourceServer(tx, { owner, resource_uri, name })
    if (registered.outcome === 'registered')
      await appendEvent(tx, owner, 'resource_server_pending', { client_id: resource_uri, status: 'pending' })
    return registered
  })
  if (answer.outcome === 'full' || answer.outcome === 'origin_full') quotas.reached('resource_servers')
  return answer.outcome === 'gone' ? refuseUnknown() : statusAfter(answer)
}

function refuseUnknown(): never {
  return refuse('access_denied', 'Name an owner who is served here.')
}

/**
 * `reason` is one word for dashboards. Only somebody who proved that the origin is his learns that it is
 * banned.
 */
function statusAfter(answer: RegistrationAnswer): 'active' | 'pending' {
  switch (answer.outcome) {
    case 'active':
      return 'active'
    case 'registered':
    case 'waiting':
      return 'pending'
    case 'provisioned':
      return refuse(
        'conflict',
        'Use the secret or the keys that this resource server was provisioned with: it need not register.',
      )
    case 'banned':
      return refuse(
        'access_denied',
        'The owner has banned the origin of this resource: it may register when she has lifted that.',
        // Bans are seldom lifted: who asks each minute asks in vain.
        { extra: { reason: 'origin_banned' }, headers: { 'retry-after': String(BAN_RETRY_SECONDS) } },
      )
    case 'paused':
      throw tooSoon('The owner has withdrawn this resource server: it may register again 24 hours later.', {
        reason: 'withdrawn_lately',
        seconds: answer.secondsLeft,
      })
    case 'origin_full':
      throw tooSoon(
        'Two resource servers of this origin, unknown to the owner, wait for her: ask again when she has decided.',
        { reason: 'origin_waits', seconds: NO_ROOM_RETRY_SECONDS },
      )
    case 'full':
      throw tooSoon('Too many resource servers wait for this owner: ask again later.', {
        reason: 'too_many_wait',
        seconds: NO_ROOM_RETRY_SECONDS,
      })
  }
}

/** After how long a server may see whether there is room for it. */
const NO_ROOM_RETRY_SECONDS = 60
/** After how long one whose origin is banned may see whether that was lifted. */
const BAN_RETRY_SECONDS = 3_600

function tooSoon(detail: string, { reason, seconds }: { reason: string; seconds: number }): Refusal {
  const headers = { 'retry-after': String(seconds) }
  return new Refusal('request_denied', detail, { status: 429, headers, extra: { reason } })
}

/**
 * A letter, digit, `-`, `.`, `_` or `~` that is written as `%xx`: another spelling of the same (RFC 3986
 * §6.2.2.2).
 */
const UNRESERVED_ENCODED = /%(?:2[DE]|3\d|4[1-9A-F]|5[\dAF]|6[1-9A-F]|7[\dAE])/

/** Nothing in it means anything to a shell or a page: owners copy it from one into the other. */
function isPlain(text: string): boolean {
  if (!isWebUrl(text) || !isHostSpelledPlainly(text)) return false
  const { origin, pathname } = new URL(text)
  const isCanonical = text === (pathname === '/' ? origin : origin + pathname)
  if (UNRESERVED_ENCODED.test(pathname)) return false
  return isCanonical && /^https?:\/\/[\w.:[\]-]+(?:\/(?:[\w.~-]|%[\dA-F]{2})+)*$/.test(text)
}
