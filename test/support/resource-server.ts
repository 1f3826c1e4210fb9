/**
 * A resource server on the wire as an authority meets it: its documents, its listing, its signed requests.
 * Plain by default, hostile or broken if a test changes what it publishes. The address is a loopback one
 * (UMA_DEV_LOOPBACK).
 */
import { randomBytes } from 'node:crypto'
import { contentDigest } from '../../src/wire/encoding.ts'
import { signRequest, type SigningOptions } from '../../src/wire/signatures/http-signature.ts'
import {
  generatePrivateJwk,
  importPrivateJwk,
  publicJwk,
  type PrivateKey,
} from '../../src/wire/signatures/keys.ts'
import { signJws } from '../../src/wire/signatures/jws.ts'
import { TYP } from '../../src/wire/names.ts'
import type { Reply as HttpReply, TestAuthority } from './authority.ts'
import { startScriptedServer, type Reply, type ScriptedServer } from './scripted-http.ts'

type Members = Record<string, unknown>

/** What a test changes; each gets the plain value and gives the one to send. */
export interface Twists {
  /** The members of the document, before they are signed. */
  document?: (plain: Members) => Members
  /** The signed claims, with `iss`. */
  claims?: (plain: Members) => Members
  /** `signed_metadata` itself; undefined leaves it out. */
  signed?: (plain: string) => unknown
  keys?: (plain: Members) => Members
  listing?: (plain: Members) => Members
}

export interface ListedResource {
  _id: string
  name: string
  type?: string
  resource_scopes: string[]
  consequence?: string
  tools?: { tool: string; consequence?: string }[]
}

/**
 * How a request is signed: with the resource server's key, over what must be covered, unless said otherwise.
 */
export type Signing = Partial<SigningOptions> & { key?: PrivateKey; issuer?: string; digestOf?: string }

/**
 * Authorities cache what they read for a while, so each test uses a resource with another name; all are at
 * one origin.
 */
export interface TestResourceServer {
  origin: string
  key: PrivateKey
  server: ScriptedServer
  /** By the name of the resource. */
  twists: Record<string, Twists>
  /** What is listed below a resource, by its name. */
  listings: Record<string, ListedResource[]>
  /** The resource of a name; alice's are all but those of a name that is another owner's. */
  resource(name: string): string
  documentPath(name: string): string
  /** POST /rs/register for the resource of a name; `sign` false sends no signature. */
  register(
    authority: TestAuthority,
    name: string,
    more?: { claim?: Members; sign?: Signing | false },
  ): Promise<HttpReply>
  /** client_credentials; undefined members of `form` are left out. */
  token(
    authority: TestAuthority,
    name: string,
    more?: { form?: Members; sign?: Signing | false; headers?: Record<string, string> },
  ): Promise<HttpReply>
  /** A PAT, fetched by signature. */
  pat(authority: TestAuthority, name: string): Promise<string>
  close(): Promise<void>
}

/**
 * Starts one whose documents name this issuer; with `tls`, under https and by the host of its certificate.
 */
export async function startResourceServer(
  issuer: string,
  key = importPrivateJwk(generatePrivateJwk()),
  tls?: { key: string; cert: string; host: string },
): Promise<TestResourceServer> {
  const state: State = { key, twists: {}, listings: {}, issuer, origin: '' }
  const server = await startScriptedServer(({ path }) => plainAnswer(state, path), tls)
  const { port } = new URL(server.origin)
  state.origin = tls === undefined ? server.origin : `https://${tls.host}:${port}`
  const resource = (name: string): string => `${state.origin}/mcp/${name}`
  const self: TestResourceServer = {
    origin: state.origin,
    key,
    server,
    twists: state.twists,
    listings: state.listings,
    resource,
    documentPath: name => `${DOCUMENT}${name}`,
    register: (authority, name, { claim = {}, sign = {} } = {}) => {
      const body = JSON.stringify({ owner: ownerOf(name), resource_uri: resource(name), ...claim })
      return send(
        authority,
        { path: '/rs/register', type: 'application/json', body },
        { key, ...asked(sign) },
      )
    },
    token: (authority, name, { form = {}, sign = {}, headers = {} } = {}) => {
      const fields = {
        grant_type: 'client_credentials',
        scope: 'uma_protection',
        owner: ownerOf(name),
        client_id: resource(name),
        ...form,
      }
      const given = Object.entries(fields).filter(([, value]) => value !== undefined)
      const body = new URLSearchParams(given).toString()
      const type = 'application/x-www-form-urlencoded'
      return send(authority, { path: '/token', type, body, headers }, { key, ...asked(sign) })
    },
    pat: async (authority, name) => {
      const { status, body, text } = await self.token(authority, name)
      if (status !== 200) throw new Error(`no PAT for ${name}: ${status} ${text}`)
      return body.access_token as string
    },
    close: () => server.close(),
  }
  return self
}

const DOCUMENT = '/.well-known/oauth-protected-resource/mcp/'
const OTHER_OWNERS = new Set(['bea', 'carl'])
const ownerOf = (name: string): string => (OTHER_OWNERS.has(name) ? name : 'alice')

function asked(sign: Signing | false): Signing & { unsigned?: boolean } {
  return sign === false ? { unsigned: true } : sign
}

interface SentBody {
  path: string
  type: string
  body: string
  headers?: Record<string, string>
}

function send(
  authority: TestAuthority,
  { path, type, body, headers: more }: SentBody,
  sign: Signing & { key: PrivateKey; unsigned?: boolean },
): Promise<HttpReply> {
  const { key, unsigned, issuer = authority.issuer, digestOf = body, ...options } = sign
  const headers: Record<string, string> = {
    'content-type': type,
    'content-digest': contentDigest(digestOf),
    ...more,
  }
  if (unsigned === true) return authority.request('POST', path, { headers, body })
  const message = {
    method: 'POST',
    scheme: 'https' as const,
    authority: new URL(issuer).host,
    path,
    headers: new Map(Object.entries(headers).map(([name, value]) => [name, [value]])),
    body: Buffer.from(body),
  }
  const signed = signRequest(message, key, {
    components: ['@method', '@authority', '@path', 'content-digest'],
    created: Math.floor(Date.now() / 1000),
    nonce: randomBytes(9).toString('base64url'),
    absentAuthorizationIsEmpty: true,
    ...options,
  })
  return authority.request('POST', path, { headers: { ...headers, ...signed }, body })
}

interface State {
  key: PrivateKey
  twists: Record<string, Twists>
  listings: Record<string, ListedResource[]>
  issuer: string
  origin: string
}

function plainAnswer(state: State, path: string): Reply | undefined {
  const keysOf = /^\/jwks\/([\w-]+)$/.exec(path)?.[1]
  if (keysOf !== undefined) {
    const keys = { keys: [publicJwk(state.key)] }
    return { body: state.twists[keysOf]?.keys?.(keys) ?? keys }
  }
  if (path.startsWith(DOCUMENT)) return { body: documentOf(state, path.slice(DOCUMENT.length)) }
  const listed = /^\/owner-resources\/([\w-]+)$/.exec(path)?.[1]
  if (listed === undefined) return undefined
  const listing = { owner: ownerOf(listed), resources: state.listings[listed] ?? [] }
  return { body: state.twists[listed]?.listing?.(listing) ?? listing }
}

function documentOf({ twists, key, issuer, origin }: State, name: string): Members {
  const { document, claims, signed } = twists[name] ?? {}
  const plain = {
    resource: `${origin}/mcp/${name}`,
    authorization_servers: [issuer],
    jwks_uri: `${origin}/jwks/${name}`,
    bearer_methods_supported: ['header'],
    owner_resources_endpoint: `${origin}/owner-resources/${name}`,
  }
  const members = document?.(plain) ?? plain
  const signedClaims = { iss: members['resource'], ...members }
  const payload = claims?.(signedClaims) ?? signedClaims
  const compact = signJws({ typ: TYP.signedMetadata, payload }, key)
  return { ...members, signed_metadata: signed === undefined ? compact : signed(compact) }
}

/**
 * As if every decision about this resource server had been made so much earlier: by default long enough ago
 * for it to register again.
 */
export async function ageDecision(
  { database }: Pick<TestAuthority, 'database'>,
  client_id: string,
  age = '24 hours',
): Promise<void> {
  await database.pool.query(
    'UPDATE resource_servers SET decided_at = decided_at - $2::interval WHERE client_id = $1',
    [client_id, age],
  )
}

/** As if it had registered so much earlier: by default long enough ago for that to have lapsed. */
export async function ageRegistration(
  { database }: Pick<TestAuthority, 'database'>,
  client_id: string,
  age = '7 days',
): Promise<void> {
  await database.pool.query(
    'UPDATE resource_servers SET registered_at = registered_at - $2::interval WHERE client_id = $1',
    [client_id, age],
  )
}

/** The owner approves or withdraws a resource server. */
export async function decideServer(
  authority: TestAuthority,
  client_id: string,
  decision: 'approved' | 'revoked',
  owner = authority.alice,
): Promise<HttpReply> {
  const reply = await authority.call(owner, {
    method: 'POST',
    target: '/owner/resource-servers/decision',
    json: { client_id, decision },
  })
  if (reply.status !== 200) throw new Error(`not ${decision}: ${reply.status} ${reply.text}`)
  return reply
}
