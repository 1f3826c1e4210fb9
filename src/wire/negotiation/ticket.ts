/**
 * Owns permission tickets and the other unguessable names of a negotiation. Contract: "Permission ticket";
 * UMA 2.0 Grant §3.3.6, §5.5.
 *
 * `<tag>~tkt_<opaque>`. The first ticket of a negotiation is sealed: it carries the request to `/perm`, under
 * a MAC, so that a stranger's refused call writes nothing. Later ones are 32 random bytes, kept as their
 * SHA-256. The tag routes to the owner's rows and reveals nothing about her.
 */
import {
  createHmac,
  createSecretKey,
  hkdfSync,
  randomBytes,
  timingSafeEqual,
  type KeyObject,
} from 'node:crypto'
import { decodeBase64url, encodeBase64url, sha256 } from '../encoding.ts'
import { parseJson, type Json } from '../json.ts'
import type { PrivateKey } from '../signatures/keys.ts'
import { asFamily, type ClientId, type Family, type Owner } from '../identifiers.ts'

/**
 * The content of a sealed ticket. `client_id` is the resource server's; `expires_at` in seconds since the
 * epoch.
 */
export interface SealedTicket {
  readonly tag: string
  readonly issuer: string
  readonly owner: Owner
  readonly family: Family
  readonly resource_id: string
  readonly resource_scopes: readonly string[]
  readonly client_id: ClientId
  readonly expires_at: number
}

/** A MAC key; `kid` names it inside the ticket. */
export interface TicketKey {
  readonly kid: string
  /** Imported once: importing its bytes costs more than a MAC. */
  readonly secret: KeyObject
}

const FORMAT_VERSION = 1
const TICKET_LENGTH_MAX = 8192
const TICKET_FORM = /^([A-Za-z0-9_-]{1,64})~tkt_([A-Za-z0-9_-]+)(?:\.([A-Za-z0-9_-]{43}))?$/
const KEY_SALT = 'usher sealed ticket v1'

/**
 * The ticket keys of an authority: one per signing key, in the same order, by HKDF (RFC 5869). So replicas
 * that share the key file share these, and a ticket sealed under the previous first key stays valid while
 * that key is listed.
 */
export function ticketKeys(keys: readonly [PrivateKey, ...PrivateKey[]]): [TicketKey, ...TicketKey[]] {
  return keys.map(deriveTicketKey) as [TicketKey, ...TicketKey[]]
}

/**
 * The ticket for these fields, `<tag>~tkt_<fields>.<mac>`. Costs no write and is the same for the same
 * fields.
 */
export function sealTicket(fields: SealedTicket, key: TicketKey): string {
  const { tag, issuer, owner, family, resource_id, resource_scopes, client_id, expires_at } = fields
  const scopes = [...resource_scopes]
  const sealed = [FORMAT_VERSION, key.kid, issuer, owner, family, resource_id, scopes, client_id, expires_at]
  const body = `${tag}~tkt_${encodeBase64url(JSON.stringify(sealed))}`
  return `${body}.${encodeBase64url(macOf(body, key))}`
}

/**
 * The content of a sealed ticket, if one of the keys sealed it and `now` (seconds) is before its expiry;
 * undefined for any other text. The caller compares `issuer` with itself.
 */
export function openTicket(
  ticket: string,
  keys: readonly TicketKey[],
  now: number,
): SealedTicket | undefined {
  if (ticket.length > TICKET_LENGTH_MAX) return undefined
  const [, tag, text, mac] = TICKET_FORM.exec(ticket) ?? []
  if (tag === undefined || text === undefined || mac === undefined) return undefined
  const body = ticket.slice(0, -mac.length - 1)
  const sealing = keys.find(key => isMac(mac, body, key))
  const fields = sealing && readSealed(text, tag, sealing.kid)
  return fields && now < fields.expires_at ? fields : undefined
}

/** A fresh ticket of a running negotiation and the SHA-256 under which it is stored. */
export function newTicket(tag: string): { ticket: string; hash: Buffer } {
  const ticket = `${tag}~tkt_${encodeBase64url(randomBytes(32))}`
  return { ticket, hash: ticketHash(ticket) }
}

/** The SHA-256 of a whole ticket, tag included. */
export function ticketHash(ticket: string): Buffer {
  return sha256(ticket)
}

/** The routing tag of a ticket, sealed or not; undefined for a text that is no ticket. */
export function ticketTag(ticket: string): string | undefined {
  return ticket.length > TICKET_LENGTH_MAX ? undefined : TICKET_FORM.exec(ticket)?.[1]
}

/** A negotiation family id, `fam_` and 8 random bytes. */
export function newFamily(): Family {
  return asFamily(`fam_${encodeBase64url(randomBytes(8))}`)
}

/** A nonce for a terms template, 12 random bytes. */
export function newNonce(): string {
  return encodeBase64url(randomBytes(12))
}

/** An unguessable token id: the prefix (`rpt_`, `pat_`, `rcp_`) and 16 random bytes. */
export function newJti(prefix: string): string {
  return `${prefix}${encodeBase64url(randomBytes(16))}`
}

function deriveTicketKey(key: PrivateKey): TicketKey {
  const { d } = key.privateKeyObject.export({ format: 'jwk' })
  const secret = hkdfSync('sha256', Buffer.from(d!, 'base64url'), KEY_SALT, key.thumbprint, 32)
  return { kid: key.thumbprint.slice(0, 11), secret: createSecretKey(new Uint8Array(secret)) }
}

function macOf(body: string, key: TicketKey): Buffer {
  return createHmac('sha256', key.secret).update(body).digest()
}

function isMac(mac: string, body: string, key: TicketKey): boolean {
  // Compared as text of one length, so that a MAC with stray trailing bits is another MAC.
  return timingSafeEqual(Buffer.from(mac), Buffer.from(encodeBase64url(macOf(body, key))))
}

/**
 * The fields of a valid MAC. They are ours, unless another version or another key id was sealed with the same
 * secret.
 */
function readSealed(text: string, tag: string, kid: string): SealedTicket | undefined {
  const sealed = parseJson(decodeBase64url(text)) as Json[]
  const [version, sealedKid, issuer, owner, family, resource_id, resource_scopes, client_id, expires_at] =
    sealed
  if (version !== FORMAT_VERSION || sealedKid !== kid) return undefined
  const fields = { issuer, owner, family, resource_id, resource_scopes, client_id, expires_at }
  return { tag, ...fields } as unknown as SealedTicket
}
