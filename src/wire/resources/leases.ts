/**
 * Owns the words of leased liveness: how long an answer about a grant may be used again, and what its holder
 * and the authority tell each other. Contract: "Introspection and consume answers": an extension, which the
 * metadata offers (docs/choices.md, ADR 0021).
 */
import type { ServerSentEvent } from '../event-stream.ts'
import { parseJsonObject, type JsonObject } from '../json.ts'
import { asObject, integerMember, textMember } from '../json-members.ts'

/**
 * A holder uses an answer for calls that begin at most so long after the question was sent, and none at all
 * this long after the question or renewal that was last answered was sent.
 */
export const LEASE_MS = 1_900

/** How often a holder renews what it holds. */
export const LEASE_RENEW_MS = 500

/**
 * How long an act that ends something waits for holders that do not answer, counted from its commit. It is
 * more than 5 % longer than `LEASE_MS`, because no two clocks run at quite the same rate.
 */
export const LEASE_SETTLEMENT_MS = 2_000

/** A holder that was not renewed for so long, by the clock of the replica that looks, holds nothing. */
export const LEASE_SILENT_MS = 2_200

/** Member of the metadata that offers leases: the `lease_ms` of the answers. */
export const LEASE_OFFER = 'introspection_lease_ms_max'

/** Path of what holders are told, under the issuer; a holder's own is `/{id}` below it. */
export const LEASES_PATH = '/leases'

/** Events of the stream. A holder ignores any other. */
export const LEASE_EVENT = { lease: 'lease', invalidate: 'invalidate' } as const

/** A holder's registration; `replaces` is the id of an earlier lease whose answers it has dropped. */
export type LeaseRequest = { replaces?: string | undefined }

/** A holder's renewal; `end`: it has dropped all answers, and asks nothing more under this id. */
export type LeaseRenewal = { acknowledged: number } | { end: true }

/** The first event of a stream; `id` has 22 characters and names the holder. */
export type Lease = { id: string; lease_ms: number; renew_ms: number; asked: number }

/** An id as it is issued: 128 bits, base64url. */
export const LEASE_ID = /^[A-Za-z0-9_-]{22}$/

export type LeaseMessage = { type: 'lease'; lease: Lease } | { type: 'invalidate'; asked: number }

/**
 * One event; undefined for one of another type. Refuses (`invalid_request`) a malformed one.
 */
export function parseLeaseMessage({ type, data }: ServerSentEvent): LeaseMessage | undefined {
  if (type === LEASE_EVENT.lease) return { type, lease: parseLease(parseJsonObject(data)) }
  if (type === LEASE_EVENT.invalidate) return { type, asked: parseDropNumber(parseJsonObject(data)) }
  return undefined
}

/**
 * The number up to which a holder is asked to drop what it has: of an event, or of a renewal's answer.
 */
export function parseDropNumber(json: unknown): number {
  return integerMember(asObject(json, 'the answer about a lease'), 'asked')
}

function parseLease(object: JsonObject): Lease {
  return {
    id: textMember(object, 'id'),
    lease_ms: integerMember(object, 'lease_ms'),
    renew_ms: integerMember(object, 'renew_ms', 1),
    asked: integerMember(object, 'asked'),
  }
}
