/**
 * Owns the owner's page on her own machine: the same files as an authority serves, on the loopback, and every
 * request of the page signed here, by the device key of the command line, which the page never holds.
 * Contract: "Owner API", "Authentication". Because code of the authority cannot use this key, its signature
 * proves what she saw.
 */
import { randomBytes, timingSafeEqual } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { ApiError } from '../client/api-error.ts'
import { exchange } from '../client/exchange.ts'
import { signedFetch, type ApiAccess, type ApiRequest } from '../client/signed-fetch.ts'
import { answerConsole, readConsole, type ConsoleFile, type ConsolePath } from '../files/console.ts'
import type { ConsoleSettings } from '../wire/owner/console.ts'
import { isJsonObject, parseJsonObject, type Json, type JsonObject } from '../wire/json.ts'
import { AUTHORITY_PATH } from '../wire/names.ts'
import type { PendingItem } from '../wire/owner/owner-api.ts'
import { Refusal, refusalBody, refuse } from '../wire/refusal.ts'
import type { PublishedKey } from '../wire/signatures/keys.ts'
import { createOwnerClient } from './client.ts'
import { boundApproval } from './signed-approval.ts'

/** The address of the page: the fragment of the link opens it, and no server gets a fragment. */
export interface ServedConsole {
  link: string
  close(): Promise<void>
}

interface ConsoleServer {
  access: ApiAccess
  files: Record<ConsolePath, ConsoleFile>
  token: string
  /**
   * The only host name that it answers to, so that a foreign page that points its own name here gets nothing.
   */
  host: () => string
}

const BODY_BYTES_MAX = 1024 * 1024
const METHODS = ['GET', 'POST', 'PUT', 'DELETE'] as const
const ONE_DECISION = /^\/owner\/pending\/([^/]+)\/decision$/
const DECISIONS = '/owner/pending/decisions'

/** Serves the page on a port of the loopback (0: any) until it is closed. */
export async function serveConsole(access: ApiAccess, port = 0): Promise<ServedConsole> {
  const files = readConsole()
  if (files === undefined)
    throw new ApiError('unavailable', 'The page is not built here: npm run console builds it.')
  const token = randomBytes(32).toString('base64url')
  const server = createServer((request, response) => void answer(serving, request, response))
  const host = (): string => `127.0.0.1:${(server.address() as AddressInfo).port}`
  const serving: ConsoleServer = { access, files, token, host }
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, '127.0.0.1', resolve)
  })
  return {
    link: `http://${host()}/#token=${token}`,
    close: () =>
      new Promise(resolve => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

async function answer(
  serving: ConsoleServer,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  try {
    if (request.headers.host !== serving.host()) refuse('not_found', 'Open the link that was printed.')
    const url = new URL(request.url ?? '/', `http://${serving.host()}`)
    if (url.pathname.startsWith('/owner/')) return await forward(serving, request, { url, response })
    if (request.method !== 'GET') refuse('method_not_allowed', 'Use GET at this path.')
    if (url.pathname === '/console.json') {
      return sendJson(response, 200, await settingsOf(serving.access))
    }
    if (url.pathname === AUTHORITY_PATH.jwks) {
      const keys = await createOwnerClient(serving.access).publishedKeys()
      return sendJson(response, 200, { keys: keys.map(jwkOf) })
    }
    const file = serving.files[url.pathname as ConsolePath] as ConsoleFile | undefined
    if (file === undefined) refuse('not_found', 'Nothing is served at this path.')
    const { status, headers, body } = answerConsole(file, {
      acceptEncoding: request.headers['accept-encoding']?.toString(),
      ifNoneMatch: request.headers['if-none-match'],
    })
    response.writeHead(status, headers).end(body)
  } catch (error) {
    sendFault(response, error)
  }
}

/** A page that loads waits no longer than this for the issuer. */
const LOG_KEYS_MS_MAX = 2_000

/** The page checks the ledger by the keys of the log, where there are any and they can be had now. */
async function settingsOf(access: ApiAccess): Promise<ConsoleSettings> {
  const keys = await createOwnerClient(access)
    .publishedLogKeys(LOG_KEYS_MS_MAX)
    .catch((error: unknown) => {
      if (error instanceof ApiError) return []
      throw error
    })
  const { issuer } = access
  return { signs: 'server', issuer, ...(keys.length > 0 && { log_keys: keys.map(jwkOf) }) }
}

const jwkOf = ({ jwk, kid }: PublishedKey): Record<string, unknown> => ({ ...jwk, kid })

/**
 * Signs the page's request, and passes it on; an approval gets a statement over exactly the item that was
 * shown.
 */
async function forward(
  { access, token }: ConsoleServer,
  request: IncomingMessage,
  { url, response }: { url: URL; response: ServerResponse },
): Promise<void> {
  if (!isSame(request.headers.authorization, `Bearer ${token}`))
    refuse('invalid_credential', 'Open the link that was printed.', { status: 401 })
  const method = METHODS.find(one => one === request.method)
  if (method === undefined) refuse('method_not_allowed', `Use one of ${METHODS.join(', ')}.`)
  const leaving = new AbortController()
  response.once('close', () => leaving.abort())
  const submission = await bodyOf(request)
  const body = submission && (await withStatements(access, url.pathname, submission))
  const { accept, 'last-event-id': lastEventId, 'if-match': ifMatch } = request.headers
  const headers: Record<string, string> = {
    ...(accept === undefined ? {} : { accept }),
    ...(typeof lastEventId === 'string' ? { 'last-event-id': lastEventId } : {}),
    ...(ifMatch === undefined ? {} : { 'if-match': ifMatch }),
  }
  const sent: ApiRequest = { method, path: url.pathname, headers, signal: leaving.signal }
  const query = Object.fromEntries(url.searchParams)
  const answered = await signedFetch(access, { ...sent, query, ...(body === undefined ? {} : { body }) })
  const answerHeaders: Record<string, string> = {
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
  }
  for (const name of ['content-type', 'link', 'retry-after', 'date']) {
    const value = answered.headers.get(name)
    if (value !== null) answerHeaders[name] = value
  }
  response.writeHead(answered.status, answerHeaders)
  if (answered.body === null) return void response.end()
  response.flushHeaders()
  const stream = Readable.fromWeb(answered.body)
  stream.on('error', () => response.destroy())
  stream.pipe(response)
}

async function withStatements(access: ApiAccess, path: string, body: JsonObject): Promise<JsonObject> {
  const [, family] = ONE_DECISION.exec(path) ?? []
  if (family !== undefined)
    return { ...body, ...(await statementOn(access, decodeURIComponent(family), body)) }
  const { decisions } = body
  if (path !== DECISIONS || !Array.isArray(decisions)) return body
  const signed: Json[] = []
  for (const one of decisions) {
    if (!isJsonObject(one) || typeof one['family'] !== 'string')
      refuse('invalid_request', 'Send each decision as an object that names its family.')
    signed.push({ ...one, ...(await statementOn(access, one['family'], one)) })
  }
  return { decisions: signed }
}

/** Only what the page was shown is signed: the page says what that was, by its hash. */
async function statementOn(access: ApiAccess, family: string, submission: JsonObject): Promise<JsonObject> {
  if (submission['decision'] !== 'approved') return {}
  const path = `/owner/pending/${encodeURIComponent(family)}`
  const { json } = await exchange(access, { method: 'GET', path })
  const shown = json as unknown as PendingItem
  const now = Math.floor(access.now?.() ?? Date.now() / 1000)
  const bound = boundApproval(access, shown, { now, only: submission['only'] === true })
  if (bound.item_s256 !== submission['item_s256'])
    refuse(
      'item_changed',
      'Look at it again: the request that waits is not the one that this decision is about.',
      {
        extra: { item: shown.item, item_s256: shown.item_s256 },
      },
    )
  return { ...bound }
}

async function bodyOf(request: IncomingMessage): Promise<JsonObject | undefined> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > BODY_BYTES_MAX) refuse('request_too_large', 'Send a smaller body.')
    chunks.push(chunk)
  }
  return bytes === 0 ? undefined : parseJsonObject(Buffer.concat(chunks))
}

function isSame(candidate: string | undefined, secret: string): boolean {
  const [one, other] = [Buffer.from(candidate ?? ''), Buffer.from(secret)]
  return one.length === other.length && timingSafeEqual(one, other)
}

function sendFault(response: ServerResponse, error: unknown): void {
  if (response.headersSent) return void response.destroy()
  if (error instanceof Refusal) return sendJson(response, error.status, refusalBody(error))
  const known = error instanceof ApiError
  const problem = {
    error: known ? error.code : 'server_error',
    error_description: known ? error.message : undefined,
  }
  sendJson(response, known ? (error.status ?? 502) : 500, problem)
}

function sendJson(response: ServerResponse, status: number, json: object): void {
  const headers = {
    'content-type': 'application/json',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
  }
  response.writeHead(status, headers).end(JSON.stringify(json))
}
