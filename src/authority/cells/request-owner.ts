/**
 * Finds the owner that a request is about, as far as the request says so. This only decides which cell to
 * ask: that cell proves everything again. Contract: "Endpoints", "Authentication".
 */
import type { FastifyRequest } from 'fastify'
import { namedKeyids } from '../../credentials/device-signature.ts'
import { signedMessage, type SignatureBase } from '../../http/servers/signed-request.ts'
import { loginKey } from '../../storage/authority/credentials/logins.ts'
import type { DirectoryTable } from '../../storage/authority/tables.ts'
import { decodeBase64url } from '../../wire/encoding.ts'
import { parseJsonObject } from '../../wire/json.ts'
import { CONSISTENCY_PATH } from '../../wire/names.ts'
import { LEASES_PATH } from '../../wire/resources/leases.ts'
import { Refusal, refuse } from '../../wire/refusal.ts'
import { openTicket, ticketTag, type TicketKey } from '../../wire/negotiation/ticket.ts'

/** What names an owner: a kind of entry of the directory, and its value. */
export type OwnerReference = Readonly<{ kind: DirectoryTable['kind'] | 'owner'; key: string }>

export interface OwnerLookup {
  issuer: string
  base: SignatureBase
  ticketKeys: readonly TicketKey[]
  /** Seconds since the epoch. */
  now: () => number
}

/** The most bytes that a signed document of any party may have. */
const DOCUMENT_BYTES_MAX = 65_536
const ENROLMENT_CODE = /^enrol_([A-Za-z0-9_-]{1,64})\./

/**
 * What names the owner in a request to this path. There are several only if the request claims signatures of
 * several keys, and none if it names no owner.
 */
export function namingsOf(
  { path, request }: { path: string; request: FastifyRequest },
  reading: OwnerLookup,
): OwnerReference[] {
  const body = membersOf(request.body)
  const { owner: inPath, tag } = membersOf(request.params)
  if (typeof inPath === 'string') return owner(inPath)
  switch (path) {
    case '/perm':
    case '/introspect':
    case '/consume':
    case '/audit/access':
    case LEASES_PATH:
    case '/leases/{id}':
      return owner(claimsOf(bearer(request))['sub'])
    case '/token':
      return body['ticket'] === undefined ? owner(body['owner']) : byTicket(body['ticket'], reading)
    case '/terms':
      return owner(new URL(request.raw.url ?? '/', 'http://localhost').searchParams.get('owner'))
    case '/rs/register':
      return owner(body['owner'])
    case '/org/notice':
      return owner(claimsOf(body['notice'])['sub'])
    case CONSISTENCY_PATH:
      return entry('tag', tag)
    case '/owner/enrolment':
      return entry(
        'tag',
        typeof body['code'] === 'string' ? ENROLMENT_CODE.exec(body['code'])?.[1] : undefined,
      )
    case '/owner/passkeys/login':
      // The key that is let in signed it, and that key is nobody's yet.
      return entry('passkey', membersOf(body['webauthn'])['id'])
    default:
      return path.startsWith('/owner/') ? byCredential(request, reading) : []
  }
}

function byTicket(ticket: unknown, { issuer, ticketKeys, now }: OwnerLookup): OwnerReference[] {
  if (typeof ticket !== 'string') return []
  const sealed = openTicket(ticket, ticketKeys, now())
  return sealed !== undefined && sealed.issuer === issuer
    ? owner(sealed.owner)
    : entry('tag', ticketTag(ticket))
}

function byCredential(request: FastifyRequest, { base, now }: OwnerLookup): OwnerReference[] {
  const token = bearer(request)
  if (token === undefined)
    return unlessRefused(
      () => namedKeyids(signedMessage(request, base), { now: now(), space: 'owner' }),
      [],
    ).flatMap(kid => entry('device_key', kid))
  const { iss, sub } = claimsOf(token)
  if (typeof iss !== 'string' || typeof sub !== 'string') return []
  return entry('login', loginKey({ issuer: iss, subject: sub }))
}

const owner = (name: unknown): OwnerReference[] => entry('owner', name)

/** Text with a NUL is no key of any row: Postgres would refuse the query. */
function entry(kind: OwnerReference['kind'], key: unknown): OwnerReference[] {
  return typeof key === 'string' && !key.includes('\0') ? [{ kind, key }] : []
}

function bearer({ headers }: FastifyRequest): string | undefined {
  return /^bearer +(\S+)$/i.exec(headers.authorization ?? '')?.[1]
}

/** Not verified, whatever signed them. */
function claimsOf(jwt: unknown): Record<string, unknown> {
  if (typeof jwt !== 'string') return {}
  const payload = jwt.split('.', 3)[1]
  if (payload === undefined || jwt.length > DOCUMENT_BYTES_MAX) return {}
  return unlessRefused<Record<string, unknown>>(() => parseJsonObject(decodeBase64url(payload)), {})
}

function membersOf(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
}

/** The endpoint that answers the request says what is wrong with it. */
function unlessRefused<T>(read: () => T, otherwise: T): T {
  try {
    return read()
  } catch (error) {
    if (error instanceof Refusal) return otherwise
    throw error
  }
}

/** Refuses a request that names several owners: the result must not depend on which of them is read. */
export function refuseSeveral(): never {
  return refuse('invalid_request', 'Sign with keys of one owner: this request names those of several.')
}
