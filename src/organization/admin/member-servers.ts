/**
 * Sends an administrator's requests about a member's agents to her authorization server, with a token for
 * that one request, at the address that the server's own metadata names. Contract: "Organization membership,
 * on the member's authorization server" (`/org/admin/{owner}/...`).
 */
import { randomBytes } from 'node:crypto'
import { OutboundFault, plainWords, type Outbound } from '../../http/outbound/outbound.ts'
import { createRemoteDocuments } from '../../http/outbound/remote-documents.ts'
import { s256 } from '../../wire/encoding.ts'
import type { Owner } from '../../wire/identifiers.ts'
import { isJsonObject, jsonIn, type Json } from '../../wire/json.ts'
import type { PrivateKey } from '../../wire/signatures/keys.ts'
import { isWebUrl } from '../../wire/json-members.ts'
import { WELL_KNOWN } from '../../wire/names.ts'
import { signOrganizationAdmin } from '../../wire/organization/organization-admin.ts'
import { Refusal, unavailable } from '../../wire/refusal.ts'

/** The request, the server, and the administrator; `below` begins with a slash, encoded as a path is. */
export interface MemberRequest {
  owner: Owner
  as_uri: string
  /** The id of her join. */
  membership: string
  admin: string
  below: string
  query?: Record<string, string>
  /** POSTed if there is one. */
  body?: object
  /** The name of this one request. */
  jti: string
}

/** The answer of her server: success, or its own refusal. */
export interface MemberAnswer {
  status: 200 | 400 | 403 | 404 | 409
  json: Json
  /** There is a next page. */
  more: boolean
}

export interface MemberServers {
  /**
   * Refuses 503 if the server cannot be asked, and 502 if its answer is unusable. So neither looks like a
   * denial.
   */
  ask(request: MemberRequest): Promise<MemberAnswer>
}

export interface MemberServersOptions {
  issuer: string
  key: PrivateKey
  /** Nothing is fetched from any other. */
  authorities: readonly string[]
  outbound: Outbound
  /** Seconds since the epoch. */
  now: () => number
}

/** The lifetime of a token: long enough for clocks that differ a little. */
const TOKEN_SECONDS = 60
const JTI_BYTES = 16
const DISCOVERY_MS_MAX = 3_000
const ANSWER_BYTES_MAX = 4 * 1024 * 1024
const DEFINITE = [200, 400, 403, 404, 409] as const

/** A new name for one request. */
export function requestName(): string {
  return `oat_${randomBytes(JTI_BYTES).toString('base64url')}`
}

/** Caches only what servers publish about themselves, for a while. */
export function createMemberServers(options: MemberServersOptions): MemberServers {
  const { authorities, outbound } = options
  const documents = createRemoteDocuments({ outbound, clock: Date.now })
  const endpointOf = async (as_uri: string): Promise<string> => {
    if (!authorities.includes(as_uri)) away('her server is not one of UMA_ORG_AUTHORITIES any more')
    const looking = { deadline: Date.now() + DISCOVERY_MS_MAX, favoured: true }
    const document = await documents.read(as_uri + WELL_KNOWN.agentsConfiguration, looking)
    if ('missing' in document) return away(`the metadata of her server ${document.missing}`)
    const { issuer, org_admin_endpoint: url } = isJsonObject(document.json) ? document.json : {}
    return issuer === as_uri && typeof url === 'string' && isWebUrl(url) && !url.includes('?')
      ? url
      : away('the metadata of her server names no org_admin_endpoint')
  }
  return {
    ask: async request => {
      const endpoint = await endpointOf(request.as_uri)
      const answer = await send(options, endpoint, request)
      const { status, body, headers } = answer
      const definite = DEFINITE.find(one => one === status)
      const json = jsonIn(body)
      if (definite === undefined || json === undefined) {
        if (status >= 500) away(`her server answered ${status}`)
        broken(`her server answered ${status}${definite === undefined ? '' : ' with no usable body'}`)
      }
      return { status: definite, json, more: headers['link'] !== undefined }
    },
  }
}

function send(
  { issuer, key, outbound, now }: MemberServersOptions,
  endpoint: string,
  { owner, as_uri: aud, membership, admin, below, query = {}, body, jti }: MemberRequest,
): ReturnType<Outbound['request']> {
  const htu = `${endpoint}/${owner}${below}`
  const text = body === undefined ? undefined : JSON.stringify(body)
  const htm = text === undefined ? 'GET' : 'POST'
  const iat = now()
  const token = signOrganizationAdmin(
    {
      iss: issuer,
      aud,
      sub: owner,
      membership,
      jti,
      admin,
      htm,
      htu,
      ...(text === undefined ? {} : { body_s256: s256(text) }),
      iat,
      exp: iat + TOKEN_SECONDS,
    },
    key,
  )
  const asking = new URLSearchParams(query).toString()
  return outbound
    .request({
      method: htm,
      url: asking === '' ? htu : `${htu}?${asking}`,
      headers: {
        accept: 'application/json',
        authorization: `Bearer ${token}`,
        ...(text === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(text === undefined ? {} : { body: text }),
      responseBytesMax: ANSWER_BYTES_MAX,
    })
    .catch((cause: unknown) => {
      if (!(cause instanceof OutboundFault)) throw cause
      const unsure =
        cause.sent && text !== undefined ? '; look before you try again: it may have been done' : ''
      const why = `her server: ${plainWords(cause)}${unsure}`
      return cause.reason === 'too_large' || cause.reason === 'broken' ? broken(why, cause) : away(why, cause)
    })
}

function away(why: string, cause?: unknown): never {
  throw unavailable(`Try again shortly: ${why}.`, 5, cause)
}

function broken(why: string, cause?: unknown): never {
  throw new Refusal('temporarily_unavailable', `Ask the operator of her server: ${why}.`, {
    status: 502,
    cause,
  })
}
