/**
 * Owns the owner's side of her API: one signed call per operation, lists read to their end. Contract: "Owner
 * API".
 */
import type { AllowanceRecord } from './allowances/allowance-record.ts'
import type { BoundBy } from './signed-approval.ts'
import type { Json, JsonObject } from '../wire/json.ts'
import { AUTHORITY_PATH } from '../wire/names.ts'
import { parseJwks, publicJwk, type PublishedKey } from '../wire/signatures/keys.ts'
import { ApiError } from '../client/api-error.ts'
import {
  ANSWER_SECONDS_MAX,
  exchange,
  expectArray,
  expectObject,
  list,
  readAll,
  readJson,
  readNumbered,
  refusalOf,
} from '../client/exchange.ts'
import type {
  ArchiveLine,
  Banned,
  BannedOrigin,
  Blocked,
  Connection,
  DecisionRecord,
  DecidedServer,
  Labelled,
  LedgerEntry,
  MessageTiming,
  NewWebhook,
  NotificationTest,
  Operator,
  PendingItem,
  ReceiptRecord,
  Recovery,
  Resource,
  ResourceServerEntry,
  Revoked,
  SignedRevocation,
  Subscription,
  Tier,
  WholePendingItem,
} from '../wire/owner/owner-api.ts'
import { termsUri } from '../wire/negotiation/terms.ts'
import type { DeviceKey, Login, Passkey } from '../wire/owner/owner-credentials.ts'
import { apiBase, requestUrl, unreachable, type ApiAccess, type ApiRequest } from '../client/signed-fetch.ts'

/**
 * The wanted part of the ledger, and its order; `after` is a `seq`, `limit` bounds the entries in all.
 */
export type LedgerQuery = {
  handle?: string | undefined
  kind?: string | undefined
  /** Unix time in seconds: written from then on, or before then. */
  since?: number | undefined
  until?: number | undefined
  /** Words of any text in the entry. */
  q?: string | undefined
  after?: number | undefined
  /** `oldest` when left out. */
  first?: 'oldest' | 'newest' | undefined
  limit?: number | undefined
}

/** Which receipts are wanted; `after` is a `seq`, `limit` bounds them in all. */
export type ReceiptsQuery = {
  family?: string | undefined
  after?: number | undefined
  limit?: number | undefined
}

/**
 * The owner API as one owner sees it. Every method fails with `ApiError`; every list comes in the server's
 * order.
 */
export interface OwnerClient {
  readonly access: ApiAccess
  pending(): AsyncGenerator<PendingItem>
  /** One of them, with the agreement that the agent signed; an earlier authority leaves that out. */
  pendingRequest(family: string): Promise<Partial<WholePendingItem>>
  /** `details` are sent with it: what it is bound to, and for a denial the reason for the agent. */
  decide(
    family: string,
    decision: DecisionRecord['decision'],
    details?: BoundBy & { reason?: string },
  ): Promise<DecisionRecord>
  connections(): AsyncGenerator<Connection>
  /** Gives a connection a name of her own; null removes it. */
  label(handle: string, label: string | null): Promise<Labelled>
  revoke(handle: string): Promise<Revoked>
  /** Revokes an agent and refuses what it asks, or lets it ask again. */
  standing(handle: string, verb: 'block' | 'unblock'): Promise<Blocked>
  policies(): Promise<Tier[]>
  allowances(): AsyncGenerator<AllowanceRecord>
  operators(): AsyncGenerator<Operator>
  resources(): AsyncGenerator<Resource>
  resourceServers(): AsyncGenerator<ResourceServerEntry>
  decideServer(clientId: string, decision: 'approved' | 'revoked'): Promise<DecidedServer>
  /** Several of one origin: either all of them or none. */
  decideServers(clientIds: readonly string[], decision: 'approved' | 'revoked'): Promise<DecidedServer[]>
  bannedOrigins(): AsyncGenerator<BannedOrigin>
  banOrigin(origin: string): Promise<Banned>
  unbanOrigin(origin: string): Promise<{ origin: string; banned: false }>
  ledger(query?: LedgerQuery): AsyncGenerator<LedgerEntry>
  receipts(query?: ReceiptsQuery): AsyncGenerator<ReceiptRecord>
  /** The signed revocation of an act of hers; null in it until it is signed. */
  revocation: (jti: string) => Promise<SignedRevocation>
  /** The keys that the authority publishes at its issuer, by which its receipts are verified. */
  publishedKeys(): Promise<PublishedKey[]>
  /** Those of its log, if they come in so many milliseconds; fails with `ApiError`: 404 if it has no log. */
  publishedLogKeys: (timeoutMs: number) => Promise<PublishedKey[]>
  /** The document of terms that the authority publishes at its issuer, as agents read it. */
  publishedTerms(templateId: string): Promise<JsonObject>
  deviceKeys(): AsyncGenerator<DeviceKey>
  /** `jwk` is public. */
  addDeviceKey(key: { name: string; jwk: object }): Promise<DeviceKey>
  removeDeviceKey(kid: string): Promise<{ deleted: string }>
  logins(): AsyncGenerator<Login>
  /** The login is the one whose access token is given. */
  addLogin(login: { name: string; access_token: string }): Promise<Login>
  removeLogin(id: string): Promise<{ deleted: string }>
  passkeys(): AsyncGenerator<Passkey>
  removePasskey(id: string): Promise<{ deleted: string }>
  /** An address that gets a message when something waits. */
  notifications(): AsyncGenerator<Subscription>
  addWebhook(webhook: { name: string; url: string }): Promise<NewWebhook>
  /** Both are replaced. */
  setNotificationTiming(id: string, timing: MessageTiming): Promise<Subscription>
  removeNotification(id: string): Promise<{ deleted: string }>
  testNotification(id: string): Promise<NotificationTest>
  /** Everything that is stored about her, row by row. */
  export(): AsyncGenerator<ArchiveLine>
  recovery(): Promise<{ recovery: Recovery | null }>
  cancelRecovery(): Promise<{ cancelled: Recovery }>
  /** Enrols the credential of this client itself, by a one-time code of the authority's operator. */
  enrol(enrolment: { code: string; name: string }): Promise<{ owner: string; name: string }>
  /** Any other operation: the answer's JSON, or undefined for an answer without a body. */
  ask(request: ApiRequest): Promise<Json | undefined>
}

/**
 * A client of the owner API at `access.api`. Fails with `address_refused` at once if that is no address to
 * sign for.
 */
export function createOwnerClient(access: ApiAccess): OwnerClient {
  apiBase(access.api)
  if (!URL.canParse(access.issuer))
    throw new ApiError('address_refused', `The issuer is no URL: ${access.issuer}`)
  const read = async <T>(path: string): Promise<T> =>
    expectObject((await exchange(access, { method: 'GET', path })).json, path) as T
  const post = async <T>(path: string, body: unknown): Promise<T> =>
    expectObject((await exchange(access, { method: 'POST', path, body })).json, path) as T
  const put = async <T>(path: string, body: unknown): Promise<T> =>
    expectObject((await exchange(access, { method: 'PUT', path, body })).json, path) as T
  const remove = async (path: string): Promise<{ deleted: string }> =>
    expectObject((await exchange(access, { method: 'DELETE', path })).json, path) as { deleted: string }
  return {
    access,
    pending: () => list<PendingItem>(access, '/owner/pending'),
    pendingRequest: family => read(`/owner/pending/${encodeURIComponent(family)}`),
    decide: (family, decision, details = {}) =>
      post(`/owner/pending/${encodeURIComponent(family)}/decision`, { decision, ...details }),
    connections: () => list<Connection>(access, '/owner/connections'),
    label: (handle, label) => put('/owner/connections/label', { handle, label }),
    revoke: handle => post('/owner/connections/revoke', { handle }),
    standing: (handle, verb) => post(`/owner/connections/${verb}`, { handle }),
    policies: () => readAll(list<Tier>(access, '/owner/policies', 'tiers')),
    allowances: () => list<AllowanceRecord>(access, '/owner/allowances'),
    operators: () => list<Operator>(access, '/owner/operators'),
    resources: () => list<Resource>(access, '/owner/resources'),
    resourceServers: () => list<ResourceServerEntry>(access, '/owner/resource-servers'),
    decideServer: (client_id, decision) => post('/owner/resource-servers/decision', { client_id, decision }),
    decideServers: async (client_ids, decision) => {
      const path = '/owner/resource-servers/decision'
      const body = { client_ids, decision }
      return expectArray((await exchange(access, { method: 'POST', path, body })).json, path) as never
    },
    bannedOrigins: () => list<BannedOrigin>(access, '/owner/resource-servers/banned'),
    banOrigin: origin => post('/owner/resource-servers/ban', { origin }),
    unbanOrigin: origin => post('/owner/resource-servers/unban', { origin }),
    ledger: (query = {}) => readNumbered(access, '/owner/ledger', 'entries', query),
    receipts: (query = {}) => readNumbered(access, '/owner/receipts', 'receipts', query),
    revocation: jti => read(`/owner/revocations/${encodeURIComponent(jti)}`),
    publishedKeys: () => publishedKeys(access, AUTHORITY_PATH.jwks),
    publishedLogKeys: timeoutMs => publishedKeys(access, AUTHORITY_PATH.ledgerJwks, timeoutMs),
    publishedTerms: async templateId => {
      const { url, json } = await published(access, new URL(termsUri(access.issuer, templateId)).pathname)
      return expectObject(json, url.pathname)
    },
    deviceKeys: () => list<DeviceKey>(access, '/owner/device-keys'),
    addDeviceKey: key => post('/owner/device-keys', key),
    removeDeviceKey: kid => remove(`/owner/device-keys/${encodeURIComponent(kid)}`),
    logins: () => list<Login>(access, '/owner/logins'),
    addLogin: login => post('/owner/logins', login),
    removeLogin: id => remove(`/owner/logins/${encodeURIComponent(id)}`),
    passkeys: () => list<Passkey>(access, '/owner/passkeys'),
    removePasskey: id => remove(`/owner/passkeys/${encodeURIComponent(id)}`),
    notifications: () => list<Subscription>(access, '/owner/notifications'),
    addWebhook: webhook => post('/owner/notifications', { kind: 'webhook', ...webhook }),
    setNotificationTiming: (id, timing) => put(`/owner/notifications/${encodeURIComponent(id)}`, timing),
    removeNotification: id => remove(`/owner/notifications/${encodeURIComponent(id)}`),
    testNotification: id => post(`/owner/notifications/${encodeURIComponent(id)}/test`, {}),
    export: () => archive(access),
    recovery: async () =>
      expectObject((await exchange(access, { method: 'GET', path: RECOVERY })).json, RECOVERY) as never,
    cancelRecovery: async () =>
      expectObject((await exchange(access, { method: 'DELETE', path: RECOVERY })).json, RECOVERY) as never,
    enrol: enrolment => {
      const { key } = access
      return post('/owner/enrolment', key === undefined ? enrolment : { ...enrolment, jwk: publicJwk(key) })
    },
    ask: async request => (await exchange(access, request)).json,
  }
}

const RECOVERY = '/owner/recovery'
const ARCHIVE = '/owner/export'

/** Read to its end, however long, because the copy must be complete. */
async function* archive(access: ApiAccess): AsyncGenerator<ArchiveLine> {
  let after: string | undefined
  do {
    const query = { after, limit: '1000' }
    const page = expectObject((await exchange(access, { method: 'GET', path: ARCHIVE, query })).json, ARCHIVE)
    yield* expectArray(page.lines, ARCHIVE) as unknown as ArchiveLine[]
    if (page.next !== null && (typeof page.next !== 'string' || page.next === after))
      throw new ApiError('answer_malformed', 'The archive cannot be read on: its page names no next one.')
    after = page.next ?? undefined
  } while (after !== undefined)
}

async function publishedKeys(access: ApiAccess, path: string, timeoutMs?: number): Promise<PublishedKey[]> {
  const { url, json } = await published(access, path, timeoutMs)
  try {
    return parseJwks(json)
  } catch (cause) {
    throw new ApiError('answer_malformed', `${url.href} holds no keys.`, { cause })
  }
}

/** What anybody may read at the issuer; asked for without a signature. */
async function published(
  { issuer }: ApiAccess,
  path: string,
  timeoutMs = ANSWER_SECONDS_MAX * 1000,
): Promise<{ url: URL; json: Json | undefined }> {
  const url = requestUrl({ api: issuer } as ApiAccess, { path })
  const signal = AbortSignal.timeout(timeoutMs)
  const response = await fetch(url, { redirect: 'manual', signal }).catch((cause: unknown) => {
    throw unreachable(url, signal, cause)
  })
  const json = await readJson(response, url)
  if (!response.ok) throw refusalOf(response, json)
  return { url, json }
}
