/**
 * Owns a started authority for tests: a fresh database, a provisioned world (each owner with a device key,
 * the resource server `demo-tools`, four resources, three tiers), and signed requests to it. Everything goes
 * through real sockets.
 */
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { startAuthority } from '../../src/authority/main.ts'
import { readAuthorityConfig, type AuthorityConfig } from '../../src/config.ts'
import { createOwnerClient, type OwnerClient } from '../../src/owner/index.ts'
import type { Logger } from '../../src/http/telemetry/log.ts'
import type { Database } from '../../src/storage/authority/database.ts'
import { contentDigest } from '../../src/wire/encoding.ts'
import { signRequest, type SigningOptions } from '../../src/wire/signatures/http-signature.ts'
import {
  generatePrivateJwk,
  importPrivateJwk,
  publicJwk,
  type PrivateKey,
} from '../../src/wire/signatures/keys.ts'
import type { AuthorityListener } from '../../src/authority/endpoints.ts'
import { undescribed } from './described-answers.ts'
import { freshDatabase } from './postgres.ts'
import { LOCK_TIMEOUT_MS } from './patience.ts'
import { asOwner, type Owner } from '../../src/wire/identifiers.ts'

/** Signatures are made over this; the sockets are elsewhere, which is the point of configured authorities. */
export const ISSUER = 'https://as.example'
export const CLIENT_ID = 'demo-tools'
/** Tool, resource below `<owner>/`, scope, consequence, and the tier that governs it. */
export const WORLD = [
  {
    tool: 'portfolio_read',
    resource: 'portfolio',
    scope: 'read',
    consequence: 'reversible',
    tier: 'reading',
  },
  {
    tool: 'statement_read',
    resource: 'statements',
    scope: 'read',
    consequence: 'reversible',
    tier: 'statements',
  },
  { tool: 'place_trade', resource: 'trades', scope: 'trade', consequence: 'irreversible', tier: 'trading' },
  {
    tool: 'close_account',
    resource: 'account',
    scope: 'close',
    consequence: 'irreversible',
    tier: undefined,
  },
] as const

export interface TestOwner {
  owner: Owner
  /** Her enrolled device key. */
  key: PrivateKey
  /** Of `demo-tools` at her. */
  clientSecret: string
  resourceUri: string
  client: OwnerClient
}

/** One request as it will be sent; `target` is path and query. */
export interface OwnerCall {
  method?: 'GET' | 'POST' | 'PUT' | 'DELETE' | 'HEAD'
  target: string
  /** Sent as JSON. */
  json?: unknown
  /** Sent as it is, in place of `json`. */
  raw?: string | Uint8Array
  headers?: Record<string, string>
  /** What the signature should be instead of a good one; false = none. */
  sign?:
    | false
    | (Partial<SigningOptions> & { key?: PrivateKey; issuer?: string; digestOf?: string | Uint8Array })
}

export interface PreparedCall {
  url: string
  method: string
  headers: Record<string, string>
  body: string | Uint8Array | undefined
}

export interface Reply {
  status: number
  headers: Headers
  text: string
  /** The JSON of the answer, undefined if it is none. */
  // oxlint-disable-next-line typescript/no-explicit-any -- tests read members of it
  body: any
}

export interface TestAuthority {
  issuer: string
  config: AuthorityConfig
  /** What it was started with. */
  environment: Record<string, string>
  database: Database
  publicUrl: string
  ownerUrl: string
  metricsUrl: string
  /** By name. */
  owners: Record<string, TestOwner>
  alice: TestOwner
  /** A request to the public listener. */
  request(
    method: string,
    target: string,
    init?: { headers?: Record<string, string>; body?: string },
  ): Promise<Reply>
  /** Signs a request to the owner API without sending it, so that it can be sent twice. */
  prepare(owner: TestOwner, call: OwnerCall): PreparedCall
  send(prepared: PreparedCall): Promise<Reply>
  /** Signs and sends a request to the owner API. */
  call(owner: TestOwner, call: OwnerCall): Promise<Reply>
  /** A PAT of `demo-tools` for the owner, alice when left out. */
  pat(owner?: string): Promise<string>
  close(): Promise<void>
}

export interface TestAuthorityOptions {
  /** Served, each with a world of her own; `['alice']` when left out. */
  owners?: string[]
  /** Settings in addition to the usual ones, by variable. */
  environment?: Record<string, string>
  /** Of its machine, in milliseconds; the right one when left out. */
  localClock?: () => number
  /** Where its lines go. */
  log?: Logger
  /** Patient if left out. */
  lockTimeoutMs?: number
  /** A second replica: same database, keys and provisioning. */
  beside?: TestAuthority
  /** Changes the provisioning document before it is written. */
  provision?: (document: ProvisionDocument) => unknown
}

export type ProvisionDocument = ReturnType<typeof provisionDocument>

/** Starts an authority on ephemeral ports. `close` ends it, and with the first of several its database. */
export async function startTestAuthority(options: TestAuthorityOptions = {}): Promise<TestAuthority> {
  const { beside } = options
  const database = beside?.database ?? (await freshDatabase())
  const directory = beside === undefined ? mkdtempSync(join(tmpdir(), 'usher-test-')) : undefined
  const people = beside?.owners ?? makePeople(options.owners ?? ['alice'])
  const environment = {
    ...(beside?.environment ?? { DATABASE_URL: database.url, ...writeFiles(directory!, people, options) }),
    ...options.environment,
  }
  const config = readAuthorityConfig(environment)
  const { localClock, log, lockTimeoutMs = LOCK_TIMEOUT_MS } = options
  const running = await startAuthority(config, { localClock, log, onUndeclared, lockTimeoutMs })
  const publicUrl = `http://${running.publicAddress}`
  const ownerUrl = `http://${running.ownerAddress}`
  const owners = Object.fromEntries(
    Object.values(people).map(person => {
      const access = { api: ownerUrl, issuer: config.issuer, key: person.key }
      return [person.owner, { ...person, client: createOwnerClient(access) }]
    }),
  )
  return {
    issuer: config.issuer,
    config,
    environment,
    database,
    publicUrl,
    ownerUrl,
    metricsUrl: `http://${running.metricsAddress}`,
    owners,
    alice: Object.values(owners)[0]!,
    request: async (method, target, init = {}) =>
      described('public', { method, target }, () =>
        exchange({ url: publicUrl + target, method, headers: init.headers ?? {}, body: init.body }),
      ),
    prepare: (owner, call) => prepare(ownerUrl, config.issuer, owner, call),
    send: exchange,
    call: (owner, call) =>
      described('owner', { method: call.method ?? 'GET', target: call.target }, () =>
        exchange(prepare(ownerUrl, config.issuer, owner, call)),
      ),
    pat: (owner = 'alice') => fetchPat(publicUrl, owners[owner]!),
    close: async () => {
      await running.close()
      if (beside !== undefined) return
      await database.close()
      rmSync(directory!, { recursive: true })
    },
  }
}

function makePeople(names: string[]): Record<string, Omit<TestOwner, 'client'>> {
  return Object.fromEntries(
    names.map(owner => [
      owner,
      {
        owner: asOwner(owner),
        key: importPrivateJwk(generatePrivateJwk()),
        clientSecret: randomBytes(24).toString('base64url'),
        resourceUri: `https://tools.example/mcp/${owner}`,
      },
    ]),
  )
}

function writeFiles(
  directory: string,
  people: Record<string, Omit<TestOwner, 'client'>>,
  options: TestAuthorityOptions,
): Record<string, string> {
  const keysFile = join(directory, 'keys.json')
  const provisionFile = join(directory, 'provision.yaml')
  const document = provisionDocument(Object.values(people))
  writeFileSync(keysFile, JSON.stringify({ keys: [generatePrivateJwk(), generatePrivateJwk()] }), {
    mode: 0o600,
  })
  writeFileSync(provisionFile, stringify(options.provision?.(document) ?? document))
  return {
    UMA_AS_ISSUER: ISSUER,
    UMA_AS_KEYS_FILE: keysFile,
    UMA_AS_PROVISION: provisionFile,
    UMA_AS_LISTEN: '127.0.0.1:0',
    UMA_AS_OWNER_LISTEN: '127.0.0.1:0',
    UMA_AS_METRICS_LISTEN: '127.0.0.1:0',
    UMA_AS_MIGRATE: 'false',
    UMA_AS_POLL_SECONDS: '0',
    UMA_AS_LOG_LEVEL: 'fatal',
  }
}

/** The world of each owner, as a provisioning file says it. */
export function provisionDocument(people: Omit<TestOwner, 'client'>[]) {
  return {
    owners: people.map(({ owner, key, clientSecret, resourceUri }) => ({
      owner,
      device_keys: [{ name: 'laptop', jwk: publicJwk(key) }],
      resource_servers: [
        { client_id: CLIENT_ID, name: 'Demo tools', client_secret: clientSecret, resource_uri: resourceUri },
      ],
      resources: WORLD.map(({ resource, scope, consequence }) => ({
        id: `${owner}/${resource}`,
        client_id: CLIENT_ID,
        name: resource as string,
        type: 'account',
        resource_scopes: [scope as string],
        consequence: consequence as string,
      })),
      tiers: [
        tier(owner, { id: 'reading', resource: 'portfolio', scope: 'read', expires_in: 3600 }),
        tier(owner, { id: 'statements', resource: 'statements', scope: 'read', expires_in: 600 }),
        tier(owner, { id: 'trading', resource: 'trades', scope: 'trade', expires_in: 300, ask_me: true }),
      ],
    })),
  }
}

function tier(
  owner: string,
  of: { id: string; resource: string; scope: string; expires_in: number; ask_me?: boolean },
) {
  return {
    id: of.id,
    name: `The ${of.id} tier`,
    resources: [`${owner}/${of.resource}`],
    ask_me: of.ask_me ?? false,
    terms: {
      purpose: `For ${of.id} only`,
      scope: [of.scope],
      expires_in: of.expires_in,
      prohibited: ['training models on it'],
    },
  }
}

/** A request as it is sent, signed with the caller's key. */
// oxlint-disable-next-line eslint/max-params -- where it goes, whose authority is signed for, who asks, what
export function prepare(
  ownerUrl: string,
  issuer: string,
  owner: Pick<TestOwner, 'key'>,
  call: OwnerCall,
): PreparedCall {
  const { method = 'GET', target, sign = {} } = call
  const body = call.raw ?? (call.json === undefined ? undefined : JSON.stringify(call.json))
  const headers: Record<string, string> = {}
  if (body !== undefined) headers['content-type'] = 'application/json'
  if (body !== undefined && sign !== false) headers['content-digest'] = contentDigest(sign.digestOf ?? body)
  Object.assign(headers, call.headers)
  if (sign !== false) {
    const [path, query] = split(target)
    const { key = owner.key, issuer: signedFor = issuer, digestOf: _digestOf, ...given } = sign
    const components = ['@method', '@authority', '@path']
    if (query !== undefined) components.push('@query')
    if (body !== undefined) components.push('content-digest')
    const message = {
      method,
      scheme: 'https' as const,
      authority: new URL(signedFor).host,
      path,
      query,
      headers: new Map(Object.entries(headers).map(([name, value]) => [name, [value]])),
      body: body === undefined ? undefined : Buffer.from(body as string),
    }
    const created = Math.floor(Date.now() / 1000)
    const nonce = randomBytes(12).toString('base64url')
    Object.assign(
      headers,
      signRequest(message, key, {
        components,
        created,
        nonce,
        keyid: key.thumbprint,
        absentAuthorizationIsEmpty: true,
        ...given,
      }),
    )
  }
  return { url: ownerUrl + target, method, headers, body }
}

function split(target: string): [string, string | undefined] {
  const at = target.indexOf('?')
  return at < 0 ? [target, undefined] : [target.slice(0, at), target.slice(at + 1)]
}

/** The answer becomes a 500, and the test's output has the sentence. */
export function onUndeclared(fault: string): never {
  process.stderr.write(`${fault}\n`)
  throw new Error(fault)
}

/** The answer, once it is found to be one that the OpenAPI document describes. */
async function described(
  listener: AuthorityListener,
  request: { method: string; target: string },
  ask: () => Promise<Reply>,
): Promise<Reply> {
  const reply = await ask()
  if (request.method === 'HEAD') return reply
  const fault = undescribed(listener, request, reply)
  if (fault !== undefined) throw new Error(fault)
  return reply
}

/** Sends it, and reads the answer to its end. */
export async function exchange(prepared: PreparedCall): Promise<Reply> {
  const { url, method, headers, body } = prepared
  const response = await fetch(url, {
    method,
    headers,
    redirect: 'manual',
    ...(body === undefined ? {} : { body: body as string }),
  })
  const text = await response.text()
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch {
    json = undefined
  }
  return { status: response.status, headers: response.headers, text, body: json }
}

/** A PAT of `demo-tools` for the owner, from the authority at `publicUrl`. */
export async function fetchPat(publicUrl: string, owner: TestOwner): Promise<string> {
  const form = new URLSearchParams({
    grant_type: 'client_credentials',
    scope: 'uma_protection',
    owner: owner.owner,
    client_id: CLIENT_ID,
    client_secret: owner.clientSecret,
  })
  const { status, body, text } = await exchange({
    url: `${publicUrl}/token`,
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: form.toString(),
  })
  if (status !== 200) throw new Error(`no PAT for ${owner.owner}: ${status} ${text}`)
  return body.access_token as string
}
