/**
 * Owns the single checks of `usher doctor`. Contract: "Limits" (clocks), "Authorization server metadata
 * members", "Resource metadata (RFC 9728)", "Protection access token (PAT)", "Owner API". Each sends only
 * requests that anybody may send, and changes nothing.
 */
import {
  OutboundFault,
  type Outbound,
  type OutboundAnswer,
  type OutboundRequest,
} from '../http/outbound/outbound.ts'
import { awaitDatabase } from '../storage/core/database-wait.ts'
import { SHARED_ROLE } from '../storage/core/runtime-role.ts'
import { lookAt } from '../storage/migrate.ts'
import { connectionWords } from '../terminal/connection-words.ts'
import { isJsonObject, jsonIn, type Json, type JsonObject } from '../wire/json.ts'
import { parseJwks, type PrivateKey } from '../wire/signatures/keys.ts'
import { resourceMetadataUrl } from '../wire/resources/resource-metadata.ts'
import { signedFields } from '../wire/signatures/sent-request.ts'
import {
  AUTHORITY_PATH,
  DOCTOR_TOOL,
  GRANT_TYPE_CLIENT_CREDENTIALS,
  PROTECTION_SCOPE,
} from '../wire/names.ts'

/** What was found wrong: the fault, and the remedy. */
export class Unwell extends Error {}

/** With a larger difference, our servers issue nothing (`surface/clock.ts`). */
const DATABASE_CLOCK_SECONDS_MAX = 2
/** With a larger difference, signatures of requests are refused. */
const PEER_CLOCK_SECONDS_MAX = 60

/** The database answers, accepts writes, and has what the party needs. */
export async function checkDatabase(
  url: string,
  { party, migrates, command }: { party: string; migrates: boolean; command: string },
): Promise<{ finding: string; clockAhead: number }> {
  const weakness = await awaitDatabase({ url, seconds: 0, tell: () => undefined })
  const { missing, clockAhead, sharedRole } = await lookAt(url, party)
  const role = sharedRole ? `; ${SHARED_ROLE}, a role of all databases of its cluster, has rights in it` : ''
  const tls = weakness === undefined ? '' : `; the connection ${weakness} (sslmode=verify-full in its URL)`
  const more = role + tls
  if (missing.length === 0) return { finding: `it takes writes and is up to date${more}`, clockAhead }
  if (!migrates)
    throw new Unwell(`it lacks ${missing.length} migrations, from ${missing[0]} on. Run \`${command}\`.`)
  return {
    finding: `it takes writes; the start will apply ${missing.length} migrations${tls}`,
    clockAhead,
  }
}

/** The clock of the database, by which a server signs, and that of this machine agree. */
export function checkDatabaseClock(clockAhead: number): string {
  const off = Math.abs(clockAhead)
  if (off <= DATABASE_CLOCK_SECONDS_MAX) return `${off.toFixed(1)}s from the clock of the database`
  throw new Unwell(
    `it is ${off.toFixed(0)} s ${clockAhead > 0 ? 'behind' : 'ahead of'} that of the database, so nothing would be issued. Set both by NTP.`,
  )
}

/** The document at `url` names `issuer` as its own. @returns it, and when it was answered. */
export async function checkMetadata(
  outbound: Outbound,
  { url, issuer, setting }: { url: string; issuer: string; setting: string },
): Promise<{ document: JsonObject; date: string | undefined }> {
  const answer = await get(outbound, url, setting)
  const document = objectOf(answer, url)
  if (document['issuer'] !== issuer)
    throw new Unwell(
      `${url} names another issuer (${JSON.stringify(document['issuer'])}). Correct ${setting}, to the letter, or the address that the name leads to.`,
    )
  return { document, date: dateOf(answer) }
}

/** The clock of the server that answered at `date` and this one agree as far as signatures need. */
export function checkPeerClock(date: string | undefined, now: number): string {
  const peerTime = Date.parse(date ?? '')
  if (Number.isNaN(peerTime)) return 'it does not tell its time'
  const off = Math.round((now - peerTime) / 1_000)
  if (Math.abs(off) <= PEER_CLOCK_SECONDS_MAX) return `${Math.abs(off)} s apart`
  throw new Unwell(
    `this clock is ${Math.abs(off)} s ${off > 0 ? 'ahead' : 'behind'}, and signatures are refused beyond ${PEER_CLOCK_SECONDS_MAX} s. Set both by NTP.`,
  )
}

/** The document at `url` contains the key that this configuration signs with. */
export async function checkPublishedKeys(
  outbound: Outbound,
  { url, keys, setting }: { url: string; keys: readonly PrivateKey[]; setting: string },
): Promise<string> {
  const published = parseJwks(await getObject(outbound, url, setting)).map(key => key.thumbprint)
  const [first] = keys
  if (first !== undefined && published.includes(first.thumbprint))
    return `the one that signs is published (${first.thumbprint})`
  throw new Unwell(
    `the server at ${url} publishes other keys than ${setting} holds. Give all replicas the same file, and restart them.`,
  )
}

/** The resource publishes metadata that names itself and the authority. */
export async function checkResource(
  outbound: Outbound,
  { resource, authority }: { resource: string; authority: string },
): Promise<string> {
  const url = resourceMetadataUrl(resource)
  const document = await getObject(outbound, url, 'public_url')
  const { resource: named, authorization_servers: servers } = document
  if (named !== resource)
    throw new Unwell(
      `${url} names ${JSON.stringify(named)}. Correct public_url or path, or the route of the gateway.`,
    )
  if (!Array.isArray(servers) || !servers.includes(authority))
    throw new Unwell(`${url} does not name ${authority}: agents will not negotiate. Restart the sidecar.`)
  return `it names itself and ${authority}`
}

/** A body of 16 MiB may take long over a slow line. */
const BODY_MS_MAX = 30_000

/**
 * The gateway passes on a body as large as the sidecar takes. The request is not authorized, so it reaches no
 * tool.
 */
export async function checkBodies(
  outbound: Outbound,
  { resource, bytesMax }: { resource: string; bytesMax: number },
): Promise<string> {
  const call = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: DOCTOR_TOOL } }
  // A body of just the cap could be one that was cut there.
  const body = JSON.stringify(call).padEnd(bytesMax - 1)
  const answer = await ask(outbound, 'public_url', {
    method: 'POST',
    url: resource,
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
    body,
    timeoutMs: BODY_MS_MAX,
  })
  if (answer.status !== 413) return `one of ${body.length} bytes is passed on (body_bytes_max)`
  const json = jsonOf(answer)
  const isOurs = isJsonObject(json) && json['error'] === 'request_body_too_large'
  throw new Unwell(
    isOurs
      ? `the gateway passes on less than the body_bytes_max of ${bytesMax}: raise max_request_bytes in with_request_body of its ext_authz, or lower body_bytes_max.`
      : `the gateway itself refuses one of ${body.length} bytes, which body_bytes_max lets through: raise per_connection_buffer_limit_bytes of its listener, initial_stream_window_size of its http2_protocol_options and max_request_bytes of its ext_authz, and the limits of whatever is before it.`,
  )
}

/**
 * Who answers about the grants of a resource, and the setting that names it: the tally of an account, or an
 * authority.
 */
export function answererOf(isJoint: boolean): { what: string; setting: string } {
  return isJoint ? { what: 'tally', setting: 'joint.tally' } : { what: 'authority', setting: 'authority' }
}

/** How a resource server proves itself: `key` signs. */
export type ServerProof = { kind: 'secret'; secret: string } | { kind: 'signature'; key: PrivateKey }

interface ServedResource {
  authority: string
  owner: string
  client_id: string
  resource: string
  /** Whether the authority is the tally of an account. */
  isJoint: boolean
}

/**
 * The authority accepts the secret or the key, and has the resource on record that is served here. @returns
 * what is printed, and the protection access token that it gave.
 */
export async function checkProof(
  outbound: Outbound,
  { authority, owner, client_id, resource, isJoint }: ServedResource,
  proof: ServerProof,
): Promise<{ finding: string; pat: string | undefined }> {
  const form = { grant_type: GRANT_TYPE_CLIENT_CREDENTIALS, scope: PROTECTION_SCOPE, owner, client_id }
  const { what, setting } = answererOf(isJoint)
  const answer = await ask(outbound, setting, tokenRequest(`${authority}/token`, form, proof))
  const json = jsonOf(answer)
  if (answer.status === 200) {
    const recorded = isJsonObject(json) ? json['resource_uri'] : undefined
    if (typeof recorded === 'string' && recorded !== resource)
      throw new Unwell(
        `the ${what} has ${recorded} on record for ${client_id} (resource_uri in the file of UMA_AS_PROVISION, for a joint account of UMA_TALLY_PROVISION), and this sidecar serves ${resource} (public_url, and path of the owner). Make the two equal.`,
      )
    const token = isJsonObject(json) ? json['access_token'] : undefined
    return {
      finding: `the ${what} takes it for ${client_id}`,
      pat: typeof token === 'string' ? token : undefined,
    }
  }
  const word =
    isJsonObject(json) && typeof json['error'] === 'string' ? json['error'] : `status ${answer.status}`
  const refused = word === 'invalid_client' ? refusalOf(proof, { isJoint }) : REFUSED[word]
  throw new Unwell(refused ?? `the ${what} answered ${word}. See its log.`)
}

function tokenRequest(url: string, form: Record<string, string>, proof: ServerProof): OutboundRequest {
  const headers = { 'content-type': 'application/x-www-form-urlencoded', accept: 'application/json' }
  if (proof.kind === 'secret') {
    const body = String(new URLSearchParams({ ...form, client_secret: proof.secret }))
    return { method: 'POST', url, headers, body }
  }
  const request = { method: 'POST', url: new URL(url), headers: { ...headers, authorization: '' } }
  const body = String(new URLSearchParams(form))
  const created = Math.floor(Date.now() / 1_000)
  return { method: 'POST', url, headers: signedFields({ ...request, body }, proof.key, { created }), body }
}

function refusalOf(proof: ServerProof, { isJoint }: Pick<ServedResource, 'isJoint'>): string {
  // A tally takes secrets alone, and reads its file at the start alone: SIGHUP would end it.
  if (isJoint)
    return proof.kind === 'secret'
      ? 'the tally does not take client_secret for this client_id and owner. Give the secret that it has, correct client_id or owner, or, if the file of UMA_TALLY_PROVISION was changed for them, restart the tally.'
      : 'a tally takes no signature. Leave signature out, and give the secret that the file of UMA_TALLY_PROVISION has for this client_id (client_secret or client_secret_file).'
  return proof.kind === 'secret'
    ? 'the authority does not take client_secret for this client_id and owner. Give the secret that it has, correct client_id or owner, or, if its provisioning file was changed for them, send it SIGHUP.'
    : `the authority does not take the first key of keys_file (kid ${proof.key.kid}) for this client_id and owner. List its public half in jwks of its provisioning file (the sidecar serves it at /jwks) and send it SIGHUP, or correct client_id; if the sidecar registers, start it first.`
}

const REFUSED: Readonly<Record<string, string>> = {
  authorization_pending: 'the owner has not approved it yet. She runs `usher owner approve-server`.',
  access_denied: 'the owner has withdrawn it. She may let it ask again: `usher owner servers`.',
}

/**
 * Where an authority publishes its owner API, as `UMA_OWNER_API` would name it; undefined if it publishes
 * none.
 */
export function publishedOwnerApi({ owner_endpoint: endpoint }: JsonObject): string | undefined {
  if (typeof endpoint !== 'string') return undefined
  const address = endpoint.replace(/\/+$/, '')
  return address.endsWith(AUTHORITY_PATH.owner) ? address.slice(0, -AUTHORITY_PATH.owner.length) : address
}

/**
 * The owner API is at `api`: it refuses a request without a credential. `remedy` is the one if it is not
 * there, `setting` names the address if there is no answer.
 */
export async function checkOwnerApi(
  outbound: Outbound,
  { api, setting, remedy }: { api: string; setting: string; remedy: string },
): Promise<string> {
  const url = api.replace(/\/+$/, '') + AUTHORITY_PATH.owner
  const { status } = await get(outbound, `${url}/pending`, setting)
  if (status >= 500)
    throw new Unwell(
      `${url}/pending answers with status ${status}. See its log, and that of what is before it.`,
    )
  if (status < 400 || status === 404)
    throw new Unwell(`${url}/pending answers with status ${status}, so the owner API is not there. ${remedy}`)
  return `${url} is reached`
}

/** The JSON object at `url`. Throws `Unwell` that names `setting`, where it leads. */
export async function getObject(
  outbound: Outbound,
  url: string,
  setting: string,
  bytesMax?: number,
): Promise<JsonObject> {
  return objectOf(await get(outbound, url, setting, bytesMax), url)
}

function get(
  outbound: Outbound,
  url: string,
  setting: string,
  responseBytesMax?: number,
): Promise<OutboundAnswer> {
  const bound = responseBytesMax === undefined ? {} : { responseBytesMax }
  return ask(outbound, setting, { url, headers: { accept: 'application/json' }, ...bound })
}

/**
 * Which setting names a CA for the addresses of a setting, where there is one. A CA that is named to the
 * doctor alone, by the variable of its shell, would hide that the sidecar does not know it.
 */
const CA_SETTINGS: ReadonlyMap<string, string> = new Map(
  ['authority', 'joint.tally', 'organization.issuer'].map(setting => [setting, 'authority_ca_file']),
)

/** An answer, of any status. Throws `Unwell` that names `setting` if there is none. */
export async function ask(
  outbound: Outbound,
  setting: string,
  request: Parameters<Outbound['request']>[0],
): Promise<OutboundAnswer> {
  try {
    return await outbound.request(request)
  } catch (error) {
    if (!(error instanceof OutboundFault)) throw error
    // What broke a connection is mostly of TLS: a CA that is not known here, or a port that speaks http.
    const why = error.reason === 'broken' ? connectionWords(error.cause, CA_SETTINGS.get(setting)) : undefined
    const fault =
      why === undefined
        ? `${error.message}. Start it, correct ${setting}, or see to the network between.`
        : `${new URL(request.url).origin} (${setting}) cannot be used: ${why}`
    throw new Unwell(fault, { cause: error })
  }
}

function objectOf(answer: OutboundAnswer, url: string): JsonObject {
  const json = answer.status === 200 ? jsonOf(answer) : undefined
  if (json !== undefined && isJsonObject(json)) return json
  throw new Unwell(
    `${url} answers with status ${answer.status} and no such document. Check where the name and the proxy lead.`,
  )
}

/** The JSON in an answer; undefined if there is none. */
export function jsonOf({ body }: OutboundAnswer): Json | undefined {
  return jsonIn(body)
}

function dateOf({ headers }: OutboundAnswer): string | undefined {
  const { date } = headers
  return Array.isArray(date) ? date[0] : date
}
