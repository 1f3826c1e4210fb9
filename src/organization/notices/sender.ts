/**
 * Sends one notice to an authorization server, at the address that its own metadata names. Contract: "Events"
 * (organization notice), "Organization membership, on the member's authorization server" (`/org/notice`).
 */
import { OutboundFault, type Outbound } from '../../http/outbound/outbound.ts'
import { BoundedMap } from '../../limits/bounded-map.ts'
import { isJsonObject, jsonIn, type Json } from '../../wire/json.ts'
import type { PrivateKey } from '../../wire/signatures/keys.ts'
import { WELL_KNOWN } from '../../wire/names.ts'
import { NOTICE_SECONDS, signNotice, type Notice, type NoticeClaims } from '../../wire/organization/notice.ts'

/** The notice and its receiver; `as_uri` is where she is served, `membership` the id of her join. */
export interface AddressedNotice extends Pick<NoticeClaims, 'sub' | 'membership' | 'jti'> {
  as_uri: string
  notice: Notice
}

/** Any status; `body` is undefined if the answer is no JSON object. */
export interface NoticeAnswer {
  status: number
  body: Readonly<Record<string, Json>> | undefined
}

export interface NoticeSender {
  /**
   * Signs the notice afresh and sends it once. Throws `OutboundFault` if there is no answer, or no address to
   * send to.
   */
  send(notice: AddressedNotice, options?: { timeoutMs?: number }): Promise<NoticeAnswer>
}

export interface NoticeSenderOptions {
  issuer: string
  key: PrivateKey
  /** Nothing is fetched from any other. */
  authorities: readonly string[]
  outbound: Outbound
  /** Seconds since the epoch. */
  now: () => number
}

interface EndpointEntry {
  endpoint: Promise<string>
  until: number
}

const ENDPOINT_AGE_SECONDS = 300
/** How long a failed look-up is not repeated, because many queues may wait for the same server. */
const FAILURE_SECONDS = 5
const AUTHORITIES_MAX = 1_000

/** A sender that keeps the addresses that it found for a while. */
export function createNoticeSender(options: NoticeSenderOptions): NoticeSender {
  const { issuer, key, outbound, now } = options
  const found = new BoundedMap<string, EndpointEntry>(AUTHORITIES_MAX)
  const fails = (as_uri: string, endpoint: Promise<string>): void =>
    void found.set(as_uri, { endpoint, until: now() + FAILURE_SECONDS })

  const endpointOf = (as_uri: string): Promise<string> => {
    const known = found.get(as_uri)
    if (known !== undefined && now() < known.until) return known.endpoint
    const endpoint = findEndpoint(options, as_uri)
    found.set(as_uri, { endpoint, until: now() + ENDPOINT_AGE_SECONDS })
    endpoint.catch(() => fails(as_uri, endpoint))
    return endpoint
  }
  return {
    send: async ({ sub, membership, jti, as_uri, notice }, { timeoutMs } = {}) => {
      const url = await endpointOf(as_uri)
      const iat = now()
      const claims = { iss: issuer, aud: as_uri, sub, membership, jti, iat, exp: iat + NOTICE_SECONDS }
      const body = JSON.stringify({ notice: signNotice(claims, notice, key) })
      const headers = { 'content-type': 'application/json' }
      const bounds = timeoutMs === undefined ? {} : { timeoutMs }
      try {
        const answer = await outbound.request({ method: 'POST', url, headers, body, ...bounds })
        // It may have moved; its metadata has the new address.
        if (answer.status === 404 || answer.status >= 500) found.delete(as_uri)
        return { status: answer.status, body: readObject(answer.body) }
      } catch (error) {
        const failed = Promise.reject<string>(error)
        failed.catch(() => undefined)
        fails(as_uri, failed)
        throw error
      }
    },
  }
}

/**
 * `org_notice_endpoint` of the server's metadata, at its own origin. Throws `OutboundFault` if there is
 * none.
 */
async function findEndpoint({ authorities, outbound }: NoticeSenderOptions, as_uri: string): Promise<string> {
  if (!authorities.includes(as_uri)) throw broken(`${as_uri} is not one of UMA_ORG_AUTHORITIES (any more)`)
  const metadata = await outbound.getJson(as_uri + WELL_KNOWN.agentsConfiguration)
  const { issuer, org_notice_endpoint } = isJsonObject(metadata) ? metadata : {}
  if (issuer !== as_uri) throw broken(`the metadata of ${as_uri} is of another issuer`)
  if (
    typeof org_notice_endpoint !== 'string' ||
    !org_notice_endpoint.startsWith(`${new URL(as_uri).origin}/`)
  )
    throw broken(
      `${as_uri} names no org_notice_endpoint at its own origin: it does not list this organization`,
    )
  return org_notice_endpoint
}

function broken(message: string): OutboundFault {
  return new OutboundFault('broken', message, { sent: false })
}

function readObject(body: Buffer): NoticeAnswer['body'] {
  const json = jsonIn(body)
  return isJsonObject(json) ? json : undefined
}
