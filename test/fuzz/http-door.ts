/**
 * Owns the basis of the fuzz target for the HTTP door: the door of the product, on sockets, once for each way
 * of asking, and what must hold for any answer. contract, "Errors": never a crash, always a status and a
 * word.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Call, Outcome } from '../../src/enforcement/call.ts'
import { createHealth } from '../../src/enforcement/telemetry/health.ts'
import type { GatewayHeaders } from '../../src/enforcement/doors/http/check-request.ts'
import { startHttpCheckServer, type HttpCheckServer } from '../../src/enforcement/doors/http/check-server.ts'
import { isRefusalCode } from '../support/refusals.ts'
import { startCore } from '../enforcement/calls.ts'
import { CAP, hold } from './door.ts'
import { readMessages, valuesOf, type HttpMessage } from './http-message.ts'
import { API, API_RESOURCE, ISSUER, knownGrants, type KnownGrants } from './known-grants.ts'

/** How the gateway writes down what it asks about, and what an outage is answered with. */
export interface WayOfAsking {
  gateway: GatewayHeaders
  outageStatus: 503 | 424
  bodyHeader?: string
}

/**
 * As envoy/envoy-http.yaml asks; as an Envoy asks that says no more than it must; as envoy/nginx.conf asks.
 */
export const WAYS = {
  envoy: { gateway: { length: 'x-usher-length', peer: 'x-usher-peer' }, outageStatus: 424 },
  bare: { gateway: {}, outageStatus: 503 },
  forward: {
    gateway: {
      original: { method: 'x-original-method', uri: 'x-original-uri' },
      length: 'x-original-length',
      peer: 'x-original-peer',
    },
    outageStatus: 503,
    bodyHeader: 'x-usher-refusal',
  },
} as const satisfies Record<string, WayOfAsking>

export type Way = keyof typeof WAYS

/** One answer: its status, and the word of a refusal. */
export interface Reply extends HttpMessage {
  status: number
  word?: string
}

export interface Asked {
  replies: Reply[]
  /** How many calls the core let through, whether or not anybody heard of it. */
  allowed: number
}

export interface HttpFuzzDoor {
  grants: { mcp: KnownGrants; api: KnownGrants }
  /**
   * Sends bytes on a connection of their own, and hears as many answers as there are whole requests in them,
   * or what comes until it ends.
   */
  ask(way: Way, bytes: Buffer): Promise<Asked>
  close(): Promise<void>
}

const ANSWER_TIMEOUT_MS = 20_000

/** The doors, in this process. */
export async function openHttpDoor(): Promise<HttpFuzzDoor> {
  const grants = { mcp: knownGrants(), api: knownGrants(API_RESOURCE) }
  const cores = {
    mcp: startCore(ISSUER, { client: grants.mcp.client, openMethods: ['resources/*'] }),
    api: startCore(ISSUER, { client: grants.api.client, api: API }),
  }
  const faults: unknown[] = []
  let allowed = 0
  const judged = new Set<Promise<Outcome>>()
  const decide = async (call: Call): Promise<Outcome> => {
    const outcome = (call.path.startsWith('/api/') ? cores.api : cores.mcp).decide(call)
    judged.add(outcome)
    if ((await outcome).kind === 'allow') allowed++
    return outcome
  }
  const directory = await mkdtemp(join(tmpdir(), 'usher-fuzz-'))
  const servers = await openWays(directory, { decide, report: fault => faults.push(fault) })
  const ask = async (way: Way, bytes: Buffer): Promise<Asked> => {
    allowed = 0
    faults.length = 0
    for (const { lines } of Object.values(cores)) lines.length = 0
    const replies = await exchange(join(directory, way), bytes)
    // Also those that nobody waited for, since the second reading did not take them for requests.
    await Promise.all(judged)
    judged.clear()
    hold(faults.length === 0, 'nothing but a refusal is thrown', faults.map(String))
    const lines = Object.values(cores).flatMap(core => core.lines)
    const complaints = lines.filter(({ level }) => level === 50 || level === 60 || level === 'error')
    hold(complaints.length === 0, 'no fault is logged', complaints)
    return { replies: replies.map(reply => wellFormed(reply, WAYS[way])), allowed }
  }
  const close = async (): Promise<void> => {
    await Promise.all(servers.map(server => server.stop(100)))
    await Promise.all([cores.mcp.close(), cores.api.close(), rm(directory, { recursive: true })])
  }
  return { grants, ask, close }
}

async function openWays(
  directory: string,
  door: { decide: (call: Call) => Promise<Outcome>; report: (fault: unknown) => void },
): Promise<HttpCheckServer[]> {
  const health = createHealth()
  health.set(true)
  const open = (way: Way): Promise<HttpCheckServer> =>
    startHttpCheckServer({
      ...door,
      ...WAYS[way],
      health,
      address: { path: join(directory, way) },
      bodyBytesMax: CAP,
      deadlineMs: ANSWER_TIMEOUT_MS,
      deadlineMarginMs: 50,
    })
  return Promise.all((Object.keys(WAYS) as Way[]).map(open))
}

/**
 * Waits for as many answers as whole requests were sent, and only then ends its half: an end before is taken
 * for a caller that has gone.
 */
function exchange(path: string, bytes: Buffer): Promise<HttpMessage[]> {
  const wanted = readMessages(bytes).length
  return new Promise((resolve, reject) => {
    let heard = Buffer.alloc(0)
    const answers = (): HttpMessage[] =>
      readMessages(heard).filter(({ start }) => !start.startsWith('HTTP/1.1 1'))
    const socket = connect({ path, allowHalfOpen: true })
    socket.setTimeout(ANSWER_TIMEOUT_MS, () => socket.destroy(new Error('no answer in time')))
    socket.on('data', chunk => {
      heard = Buffer.concat([heard, chunk])
      if (wanted > 0 && answers().length >= wanted) socket.end()
    })
    socket.on('end', () => socket.end())
    // A connection that is cut says as much as one that ends: there is no answer.
    socket.on('error', error => {
      if (/no answer in time/.test(error.message)) reject(error)
    })
    socket.on('close', () => resolve(answers()))
    socket.write(bytes)
    if (wanted === 0) socket.end()
  })
}

const HEADER_CHARACTERS_MAX = 16_384

/**
 * 200 without a word, or a denial with a status, a word that we know, and header fields that a gateway takes.
 */
function wellFormed(message: HttpMessage, { outageStatus, bodyHeader }: WayOfAsking): Reply {
  const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(message.start)?.[1])
  // 304 tells health: neither an allow nor a denial.
  const saysNoMore = status === 200 || status === 304
  hold(saysNoMore || (status >= 400 && status < 600), 'an answer is 200 or a denial', message.start)
  for (const [name, value] of message.lines) {
    hold(/^[\x20-\x7e]*$/.test(value), 'a field value is printable', [name, value])
    hold(value.length < HEADER_CHARACTERS_MAX, 'a field value is short', name)
  }
  const names = message.lines.map(([name]) => name)
  hold(new Set(names).size === names.length, 'each field stands once', names)
  hold(valuesOf(message, 'cache-control').join() === 'no-store', 'no answer is kept', names)
  if (saysNoMore) return { ...message, status }
  const word = wordIn(message.body.toString())
  hold(isRefusalCode(word), 'a denial has a word that we know', [message.start, message.body.toString()])
  hold(status !== 401 || names.includes('www-authenticate'), 'a 401 says how to go on', names)
  hold(status < 500 || status === outageStatus, 'an outage has the status that is configured', status)
  const isOutage = word === 'temporarily_unavailable' && status !== 429
  hold(!isOutage || status === outageStatus, 'an outage has the status that is configured', status)
  if (bodyHeader !== undefined && names.includes(bodyHeader)) {
    const repeated = wordIn(valuesOf(message, bodyHeader)[0]!)
    hold(repeated === word, 'the field repeats the body', [repeated, word])
  }
  return { ...message, status, word }
}

function wordIn(body: string): string {
  const { error } = JSON.parse(body) as { error?: string | { data?: { error?: string } } }
  return (typeof error === 'string' ? error : error?.data?.error) ?? ''
}
