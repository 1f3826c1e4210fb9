/**
 * Owns the administrator's side of an organization's `/admin`: one signed request per operation. Contract:
 * "The organization's authority".
 */
import { exchange, expectObject, list, readNumbered, type NumberedQuery } from '../client/exchange.ts'
import { apiBase, type ApiAccess, type ApiRequest } from '../client/signed-fetch.ts'
import type { JsonObject } from '../wire/json.ts'

/** A version of the charter, as it is listed: without its text. */
export interface CharterVersion {
  version: number
  s256: string
  published_at: string
  /** The administrator, or `provisioning`. */
  by: string
}

/** A version of the charter, with its text. */
export interface PublishedCharter extends CharterVersion {
  charter: JsonObject
}

export interface GroupSummary {
  name: string
  grants: string[]
  delegation: string
}

export interface Groups {
  version: number
  roles: Record<string, GroupSummary>
  default_role: string | null
  /** The owners in each. */
  members: Record<string, string[]>
}

export interface MemberSummary {
  owner: string
  as_uri: string
  role: string | null
  joined: string
  agreed_version: number
  clearance: Record<string, string>
  /** The last report of her authority; null if there is none yet. */
  compliance: JsonObject | null
  notices_waiting: number
  notices_stopped: { kind: string; status: number | null; at: string }[]
}

export interface PendingInvitation {
  code_id: string
  owner: string
  as_uri: string
  note: string | null
  invited_at: string
  expires_at: string
}

/** An emergency window that can still be redeemed. */
export interface EmergencyWindow {
  window_id: string
  owner: string
  by: string
  reason: string
  opened_at: string
  expires_at: string
  /** An agent is redeeming it just now. */
  redeeming: boolean
}

export interface Activity {
  seq: number
  ts: string
  kind: string
  admin?: string
  owner?: string
  data: JsonObject
}

/**
 * `/admin` as one administrator sees it. Every method fails with `ApiError`; every list comes in the server's
 * order.
 */
export interface AdminClient {
  charter(version?: number): Promise<PublishedCharter>
  charterVersions(): AsyncGenerator<CharterVersion>
  groups(): Promise<Groups>
  members(): AsyncGenerator<MemberSummary>
  invitations(): AsyncGenerator<PendingInvitation>
  windows(): AsyncGenerator<EmergencyWindow>
  activity(query: NumberedQuery): AsyncGenerator<Activity>
  /** The items about a member's agents, as her server shows them. */
  agents(owner: string, list: 'pending' | 'connections' | 'operators'): AsyncGenerator<JsonObject>
  /** The events at a member about what the organization governs, as her server shows them. */
  ledger(owner: string, query: NumberedQuery): AsyncGenerator<JsonObject>
  /** Any other operation, which answers an object. */
  ask(request: ApiRequest): Promise<JsonObject>
}

/**
 * A client of the administration at `access.api`. Fails with `address_refused` at once if that is no
 * address to sign for.
 */
export function createAdminClient(access: ApiAccess): AdminClient {
  apiBase(access.api)
  const ask = async (request: ApiRequest): Promise<JsonObject> =>
    expectObject((await exchange(access, request)).json, request.path)
  const get = async <T>(path: string): Promise<T> => (await ask({ method: 'GET', path })) as T
  return {
    charter: version => get(version === undefined ? '/admin/charter' : `/admin/charter/versions/${version}`),
    charterVersions: () => readNumbered(access, '/admin/charter/versions', 'versions', {}),
    groups: () => get('/admin/roles'),
    members: () => list(access, '/admin/members'),
    invitations: () => list(access, '/admin/invites'),
    windows: () => list(access, '/admin/break-glass'),
    activity: query => readNumbered(access, '/admin/activity', 'entries', query),
    agents: (owner, what) => list(access, `/admin/members/${encodeURIComponent(owner)}/${what}`),
    ledger: (owner, query) =>
      readNumbered(access, `/admin/members/${encodeURIComponent(owner)}/ledger`, 'entries', query),
    ask,
  }
}
