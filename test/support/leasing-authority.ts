/**
 * An authority on the wire that gives leases on its answers, written by hand: what it tells its holders,
 * when, and whether at all, is the test's to say. It remembers who holds what, as a test must see it.
 */
import type { ServerResponse } from 'node:http'
import { LEASE_MS, LEASES_PATH } from '../../src/wire/resources/leases.ts'
import { generatePrivateJwk, importPrivateJwk, type PublicKey } from '../../src/wire/signatures/keys.ts'
import { signRpt } from '../../src/wire/negotiation/tokens.ts'
import { claimsOf } from './scripted-authority.ts'
import { startScriptedServer, type Received, type Reply, type ScriptedServer } from './scripted-http.ts'

export interface Holder {
  id: string
  replaces: string | undefined
  acknowledged: number
  renewals: number
  ended: boolean
  stream: ServerResponse
}

export interface LeasingAuthority {
  issuer: string
  server: ScriptedServer
  /** All that registered, in their order. */
  holders: Holder[]
  /** The tokens that were asked about, each with the lease that was named. */
  asked: { token: string; lease: string | undefined }[]
  /** What it does; a test changes it. */
  does: {
    /** Of the metadata. */
    offers: unknown
    /** Of each answer about a holder's question. */
    leaseMs: number
    registers: 'gladly' | 'never answers' | number
    renews: 'gladly' | 'never answers' | number
    /** What a renewal's answer says was asked for. */
    renewalAsks: number
    /** Whether it counts less than it had asked for. */
    renewalForgets: boolean
    /** Before an answer about grants leaves; what was read is from before. */
    beforeAnswer: () => Promise<void> | void
    /** Before its metadata leave. */
    beforeMetadata: () => Promise<void> | void
  }
  /** A standing grant of alice for ten minutes; `lie` changes what is told of it. */
  issue(lie?: Record<string, unknown>): string
  /** From now on a grant is none any more. */
  end(token: string): void
  /** Asks every holder whose stream is open to drop what it has, for the so-many-th time. */
  invalidate(asked: number): void
  close(): Promise<void>
}

const HEARTBEAT_MS = 1_000
const RESOURCE = 'https://tools.example.com/mcp/alice'

/** Starts it on a free port. `key` is the agent's. */
export async function startLeasingAuthority(key: PublicKey): Promise<LeasingAuthority> {
  const own = importPrivateJwk(generatePrivateJwk())
  const told = new Map<string, Record<string, unknown>>()
  const holders: Holder[] = []
  const asked: LeasingAuthority['asked'] = []
  const does: LeasingAuthority['does'] = {
    offers: LEASE_MS,
    leaseMs: LEASE_MS,
    registers: 'gladly',
    renews: 'gladly',
    renewalAsks: 0,
    renewalForgets: false,
    beforeAnswer: () => undefined,
    beforeMetadata: () => undefined,
  }
  let grants = 0

  const answerTo = (token: string, lease: string | undefined): object => {
    asked.push({ token, lease })
    const grant = told.get(token) ?? { active: false, reason: 'unknown_token' }
    const isHeld = grant['active'] === true && holders.some(({ id, ended }) => id === lease && !ended)
    return isHeld ? { lease_ms: does.leaseMs, ...grant } : grant
  }
  const introspect = async ({ headers, form, body }: Received): Promise<Reply> => {
    const isJson = headers['content-type'] === 'application/json'
    const json = isJson ? (JSON.parse(body.toString()) as { tokens: string[]; lease?: string }) : undefined
    const answers =
      json === undefined
        ? answerTo(form.get('token')!, form.get('lease') ?? undefined)
        : { answers: json.tokens.map(token => answerTo(token, json.lease)) }
    await does.beforeAnswer()
    return { body: answers }
  }
  const metadata = async (): Promise<Reply> => {
    await does.beforeMetadata()
    return {
      body: {
        issuer: server.origin,
        token_endpoint: `${server.origin}/token`,
        jwks_uri: `${server.origin}/jwks`,
        introspection_tokens_max: 64,
        introspection_lease_ms_max: does.offers,
      },
    }
  }
  const register = ({ body }: Received): Reply => {
    if (does.registers === 'never answers') return { write: () => undefined }
    if (does.registers !== 'gladly') return { status: does.registers, body: { error: 'slow_down' } }
    const { replaces } = JSON.parse(body.toString()) as { replaces?: string }
    return {
      write: stream => {
        const id = `lease-${holders.length + 1}`
        stream.writeHead(200, { 'content-type': 'text/event-stream', connection: 'close' })
        const beats = setInterval(() => stream.write(':\n\n'), HEARTBEAT_MS)
        stream.once('close', () => clearInterval(beats))
        stream.write(eventOf('lease', { id, lease_ms: LEASE_MS, renew_ms: 10, asked: 0 }))
        holders.push({ id, replaces, acknowledged: 0, renewals: 0, ended: false, stream })
      },
    }
  }
  const renew = (holder: Holder | undefined, { body }: Received): Reply => {
    if (does.renews === 'never answers') return { write: () => undefined }
    if (holder === undefined || holder.ended) return { status: 404, body: { error: 'not_found' } }
    if (does.renews !== 'gladly') return { status: does.renews, body: { error: 'not_found' } }
    const word = JSON.parse(body.toString()) as { acknowledged?: number; end?: true }
    holder.renewals++
    holder.acknowledged = Math.max(holder.acknowledged, word.acknowledged ?? 0)
    holder.ended = word.end === true
    return { body: { asked: does.renewalForgets ? 0 : Math.max(holder.acknowledged, does.renewalAsks) } }
  }
  const server = await startScriptedServer(received => {
    const { path } = received
    if (path === '/token') return { body: { access_token: 'pat', token_type: 'Bearer', expires_in: 3_600 } }
    if (path === '/perm') return { status: 201, body: { ticket: 'tag~ticket' } }
    if (path === '/audit/access') return { body: { recorded: 1, unknown: [] } }
    if (path === '/introspect') return introspect(received)
    if (path === LEASES_PATH) return register(received)
    if (path.startsWith(`${LEASES_PATH}/`))
      return renew(
        holders.find(({ id }) => path.endsWith(id)),
        received,
      )
    if (path === '/.well-known/agents-configuration') return metadata()
    return undefined
  })
  return {
    issuer: server.origin,
    server,
    holders,
    asked,
    does,
    issue: (lie = {}) => {
      const permissions = [
        {
          resource_id: 'alice/portfolio',
          resource_scopes: ['read'],
          exp: Math.floor(Date.now() / 1_000) + 600,
        },
      ]
      const grant = { owner: 'alice', resource: RESOURCE, key, permissions }
      const claims = { ...claimsOf(server.origin, grant), jti: `rpt_${++grants}` }
      const token = signRpt(claims, own)
      told.set(token, { active: true, ...claims, ...lie })
      return token
    },
    end: token => told.set(token, { active: false, reason: 'connection_revoked' }),
    invalidate: number => {
      for (const { ended, stream } of holders)
        if (!ended && stream.writable) stream.write(eventOf('invalidate', { asked: number }))
    },
    close: () => server.close(),
  }
}

const eventOf = (event: string, data: object): string => `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`
