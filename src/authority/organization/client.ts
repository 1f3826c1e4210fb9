/**
 * Asks an organization on behalf of an owner, signed with the authority's own key: only organizations that
 * the operator of this server lists, and only at addresses that they publish below their own origin.
 * Contract: "The organization's authority" (`/member/*`), "Authentication" (published keys).
 */
import { z } from 'zod'
import { createJwksCache } from '../../http/outbound/jwks-cache.ts'
import { OutboundFault, type Outbound, type OutboundAnswer } from '../../http/outbound/outbound.ts'
import { createRemoteDocuments } from '../../http/outbound/remote-documents.ts'
import type { ComplianceReport } from '../../rules/organization/compliance.ts'
import type { MemberView } from '../../rules/organization/member-view.ts'
import type { DecisionQuestion } from '../../rules/organization/ruling.ts'
import { VIEW_BYTES_MAX } from '../../wire/organization/charter.ts'
import type { Owner } from '../../wire/identifiers.ts'
import { isJsonObject, jsonIn, type Json } from '../../wire/json.ts'
import type { PrivateKey, PublishedKey } from '../../wire/signatures/keys.ts'
import { WELL_KNOWN } from '../../wire/names.ts'
import { signedFields } from '../../wire/signatures/sent-request.ts'
import {
  MalformedAnswer,
  readAttestation,
  readDecision,
  readDiscovery,
  readView,
  type OrganizationDecision,
  type Discovered,
} from './view-document.ts'

/** An organization gave no usable answer, so nobody knows what it did. The message is for the log. */
export class OrganizationOutage extends Error {}

/** An organization refused. `reason` is its code for that, if it is one of ours. */
export class OrganizationRefusal extends Error {
  readonly status: number
  readonly reason: string | undefined

  constructor(status: number, reason: string | undefined) {
    super(`the organization answered ${status}${reason === undefined ? '' : ` (${reason})`}`)
    this.status = status
    this.reason = reason
  }
}

/** What lets an owner in: a code, or an assertion of the organization's identity provider (an id-jag). */
export type JoinEntry = { code: string } | { assertion: string }

/** What a join sends besides who joins and what lets her in. */
export interface Joining {
  join_id: string
  charter_version: number
  binds_s256: string
}

export interface InvitationAnswer {
  code: string
  note: string | null
  invited_at: string
  expires_at: string
}

/** Each rejects with `OrganizationOutage` or `OrganizationRefusal`. */
export interface OrganizationClient {
  /** The organizations that owners may join. */
  readonly issuers: readonly string[]
  preview(issuer: string, who: JoinEntry & { owner: Owner }): Promise<MemberView>
  /** A repeat with the same `join_id` gets the same answer. */
  join(
    issuer: string,
    who: Joining & JoinEntry & { owner: Owner },
  ): Promise<{ view: MemberView; token: string }>
  leave(issuer: string, who: { owner: Owner; join_id: string }): Promise<void>
  /** @returns false if the organization does not accept this answer. */
  decline(issuer: string, who: { owner: Owner }): Promise<boolean>
  /** Her view as it is now; undefined if it is still the one of the number `known`. */
  envelope(issuer: string, who: { token: string; known: number }): Promise<MemberView | undefined>
  /** @returns false if the organization accepts no reports. */
  compliance(issuer: string, submission: { token: string; report: ComplianceReport }): Promise<boolean>
  /** What it answers for one request of an agent. `deadline` in ms since the epoch. */
  decision(
    issuer: string,
    request: { token: string; question: DecisionQuestion; deadline: number },
  ): Promise<OrganizationDecision>
  /**
   * Its attestation about her, not verified; undefined if there is none. `deadline` in ms since the epoch.
   */
  clearance(issuer: string, request: { token: string; deadline: number }): Promise<string | undefined>
  /** The keys that it publishes; they are fetched once more if none has this id. */
  keys(issuer: string, kid: string | undefined): Promise<readonly PublishedKey[]>
  /**
   * Reads its discovery document and its keys before they are too old; meanwhile others use those that were
   * read before.
   */
  readAhead(issuer: string): Promise<void>
  /** Its invitation to her, if there is one. */
  invitation(issuer: string, who: { owner: Owner }): Promise<InvitationAnswer | null>
}

export interface OrganizationClientOptions {
  issuers: readonly string[]
  /** This authority's own issuer. */
  as_uri: string
  key: PrivateKey
  /** A further path of discovery documents, for organizations that have none at the contract's. */
  discoveryAlias?: string | undefined
  /** For public addresses only. */
  outbound: Outbound
  /** Seconds since the epoch. */
  now: () => number
}

const DISCOVERY_MS_MAX = 3_000
/** A third of the time for which what it publishes is used, so that it may be away for the rest. */
const DISCOVERY_REFRESH_MS = 100_000
/** A view, and the members beside it; another writer may escape or indent what we would not. */
const ANSWER_BYTES_MAX = 2 * VIEW_BYTES_MAX
/** The time limit for what is shown beside something else, finding out where to ask included. */
const INVITATION_MS_MAX = 2_000
/** The size of an answer that an agent waits for. */
const WEIGHED_BYTES_MAX = 64 * 1024
/** The time that it gets in any case, even if others took long before. */
const WEIGHED_MS_MIN = 1_000
/** Codes of an organization that an owner is told; any other code is ignored. */
const REASONS = new Set(['invalid_code', 'invalid_assertion', 'already_member', 'charter_moved'])

const TOKEN = z.object({ membership_token: z.string().regex(/^[A-Za-z0-9_.-]{1,4096}$/) })
const INVITED = z.object({
  invitation: z.object({
    code: z.string().max(200),
    note: z.string().max(2_000).nullish(),
    invited_at: z.string().max(40),
    expires_at: z.string().max(40),
  }),
})

interface OutgoingCall {
  url: string
  body?: object
  token?: string
  etag?: string
  timeoutMs?: number
  bytesMax?: number
}

/** A client that asks nobody until it is used. */
export function createOrganizationClient(options: OrganizationClientOptions): OrganizationClient {
  const { issuers, as_uri } = options
  const published = createJwksCache({ outbound: options.outbound, clock: Date.now })
  const discovered = discovery(options)
  const readAt = new Map<string, number>()
  const ask = (sending: OutgoingCall): Promise<Json | undefined> => answerTo(options, sending)
  return {
    issuers,
    preview: async (issuer, who) => {
      const { preview_endpoint: url } = await discovered(issuer)
      const json = await ask({ url, body: { ...who, as_uri } })
      return readable(() => readView(json!, issuer))
    },
    join: async (issuer, who) => {
      const { enrolment_endpoint: url } = await discovered(issuer)
      const json = await ask({ url, body: { ...who, as_uri } })
      const token = TOKEN.safeParse(json)
      if (!token.success) throw new OrganizationOutage('it answered no membership token')
      return { view: readable(() => readView(json!, issuer)), token: token.data.membership_token }
    },
    leave: async (issuer, who) => {
      const { leave_endpoint: url } = await discovered(issuer)
      await ask({ url, body: { ...who, as_uri } })
    },
    decline: async (issuer, who) => {
      const { decline_endpoint: url } = await discovered(issuer)
      if (url === undefined) return false
      await ask({ url, body: { ...who, as_uri } })
      return true
    },
    envelope: async (issuer, { token, known }) => {
      const { envelope_endpoint: url } = await discovered(issuer)
      const json = await ask({ url, token, etag: `"${known}"` })
      return json === undefined ? undefined : readable(() => readView(json, issuer))
    },
    compliance: async (issuer, { token, report }) => {
      const { compliance_endpoint: url } = await discovered(issuer)
      if (url === undefined) return false
      await ask({ url, token, body: report })
      return true
    },
    ...deadlineRequests(as_uri, discovered, ask),
    keys: async (issuer, kid) => {
      const { jwks_uri } = await discovered(issuer)
      if (kid !== undefined) await published.find(jwks_uri, kid).catch(noKeys)
      return published.keys(jwks_uri).catch(noKeys)
    },
    readAhead: async issuer => {
      const at = performance.now()
      if (at - (readAt.get(issuer) ?? -Infinity) < DISCOVERY_REFRESH_MS) return
      const { jwks_uri } = await discovered(issuer, { anew: true })
      await published.refresh(jwks_uri).catch(noKeys)
      readAt.set(issuer, at)
    },
    invitation: async (issuer, { owner }) => {
      const deadline = Date.now() + INVITATION_MS_MAX
      const { invitation_endpoint: endpoint } = await discovered(issuer, { deadline })
      if (endpoint === undefined) return null
      const query = new URLSearchParams({ owner, as_uri })
      const timeoutMs = Math.max(deadline - Date.now(), 1)
      const asking = { url: `${endpoint}?${query.toString()}`, timeoutMs }
      return invitationIn(await ask(asking).catch(nothingThere))
    },
  }
}

/**
 * Where a listed organization's endpoints are. `deadline` in ms since the epoch; 3 s from now by default.
 * `anew`: from the document as it is now.
 */
type Discover = (issuer: string, how?: { deadline?: number; anew?: boolean }) => Promise<Discovered>

const ANEW = { holds: () => false, ahead: true }

/**
 * Reads discovery documents, and keeps them for a while. The other name of the document counts only if the
 * organization says that it has none under the contract's; an outage says nothing.
 */
function discovery({ issuers, discoveryAlias, outbound }: OrganizationClientOptions): Discover {
  const documents = createRemoteDocuments({ outbound, clock: Date.now })
  // A caller that waits does not ask again at the path where nothing was found.
  const found = new Map<string, { path: string; until: number }>()
  return async (issuer, { deadline = Date.now() + DISCOVERY_MS_MAX, anew = false } = {}) => {
    if (!issuers.includes(issuer)) throw new OrganizationOutage('it is not listed any more')
    const looking = { deadline, favoured: true, ...(anew && ANEW) }
    const known = anew ? undefined : found.get(issuer)
    const isKnown = known !== undefined && Date.now() < known.until
    let path = isKnown ? known.path : WELL_KNOWN.organization
    let document = await documents.read(issuer + path, looking)
    if (discoveryAlias !== undefined && 'missing' in document && document.absent === true) {
      path = discoveryAlias
      document = await documents.read(issuer + path, looking)
    }
    if ('missing' in document) {
      if (!anew) found.delete(issuer)
      throw new OrganizationOutage(`its discovery ${document.missing}`)
    }
    if (!isKnown) found.set(issuer, { path, until: Date.now() + 3 * DISCOVERY_REFRESH_MS })
    const { json } = document
    return readable(() => readDiscovery(json, issuer))
  }
}

/** The requests that have a deadline, because an agent waits for their answers. */
function deadlineRequests(
  as_uri: string,
  discovered: Discover,
  ask: (sending: OutgoingCall) => Promise<Json | undefined>,
): Pick<OrganizationClient, 'decision' | 'clearance'> {
  return {
    decision: async (issuer, { token, question, deadline }) => {
      const { decision_endpoint: url } = await discovered(issuer)
      if (url === undefined) throw new OrganizationOutage('it names no endpoint for decisions')
      const json = await ask({ url, token, body: question, ...within(deadline) })
      return readable(() => readDecision(json!))
    },
    clearance: async (issuer, { token, deadline }) => {
      const { clearance_endpoint: endpoint } = await discovered(issuer)
      if (endpoint === undefined) return undefined
      const query = new URLSearchParams({ audience: as_uri })
      const asking = { url: `${endpoint}?${query.toString()}`, token, ...within(deadline) }
      const json = await ask(asking).catch(nothingThere)
      return json === undefined ? undefined : readable(() => readAttestation(json))
    },
  }
}

/** An answer of 200, as JSON; undefined for 304. */
async function answerTo(
  options: OrganizationClientOptions,
  sending: OutgoingCall,
): Promise<Json | undefined> {
  const { status, body } = await send(options, sending)
  if (status === 304 && sending.etag !== undefined) return undefined
  const json = jsonIn(body)
  if (status === 200 && json !== undefined) return json
  if (status >= 400 && status < 500 && status !== 408) throw new OrganizationRefusal(status, reasonOf(json))
  throw new OrganizationOutage(`it answered ${status}`)
}

function invitationIn(json: Json | undefined): InvitationAnswer | null {
  const read = INVITED.safeParse(json)
  if (!read.success) return null
  return { ...read.data.invitation, note: read.data.invitation.note ?? null }
}

function within(deadline: number): Pick<OutgoingCall, 'timeoutMs' | 'bytesMax'> {
  return { timeoutMs: Math.max(deadline - Date.now(), WEIGHED_MS_MIN), bytesMax: WEIGHED_BYTES_MAX }
}

function noKeys(cause: unknown): never {
  throw new OrganizationOutage('its keys cannot be had', { cause })
}

/** "Nothing" is an answer too, for example that nobody asked for her. */
function nothingThere(error: unknown): undefined {
  if (error instanceof OrganizationRefusal && error.status === 404) return undefined
  throw error
}

function readable<T>(read: () => T): T {
  try {
    return read()
  } catch (cause) {
    if (!(cause instanceof MalformedAnswer)) throw cause
    throw new OrganizationOutage(cause.message, { cause })
  }
}

function reasonOf(json: Json | undefined): string | undefined {
  const reason = isJsonObject(json) ? json['reason'] : undefined
  return typeof reason === 'string' && REASONS.has(reason) ? reason : undefined
}

/**
 * Sends one request, signed anew: it covers the body, the query and the membership token, if there is one.
 */
async function send(
  { outbound, key, now }: OrganizationClientOptions,
  { url: address, body, token, etag, timeoutMs, bytesMax = ANSWER_BYTES_MAX }: OutgoingCall,
): Promise<OutboundAnswer> {
  const text = body === undefined ? undefined : JSON.stringify(body)
  const fields: Record<string, string> = {
    accept: 'application/json',
    authorization: token === undefined ? '' : `Bearer ${token}`,
    ...(text === undefined ? {} : { 'content-type': 'application/json' }),
    ...(etag === undefined ? {} : { 'if-none-match': etag }),
  }
  const method = text === undefined ? 'GET' : 'POST'
  const sent = { method, url: new URL(address), headers: fields, body: text }
  const headers = signedFields(sent, key, { created: now(), once: true })
  try {
    return await outbound.request({
      method,
      url: address,
      headers,
      ...(text === undefined ? {} : { body: text }),
      responseBytesMax: bytesMax,
      ...(timeoutMs === undefined ? {} : { timeoutMs }),
    })
  } catch (cause) {
    if (!(cause instanceof OutboundFault)) throw cause
    throw new OrganizationOutage(cause.message, { cause })
  }
}
