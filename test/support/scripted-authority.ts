/**
 * A peer on the wire that speaks the authority's side as a test scripts it: slow, broken, lying or plain.
 * Real sockets, real bytes; it stands in for an authority that misbehaves, which the real one cannot be made
 * to do.
 */
import { randomBytes } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import {
  generatePrivateJwk,
  importPrivateJwk,
  publicJwk,
  type PrivateKey,
  type PublicKey,
} from '../../src/wire/signatures/keys.ts'
import { signRpt, type RptClaims } from '../../src/wire/negotiation/tokens.ts'
import { asFamily, asHandle, asOwner } from '../../src/wire/identifiers.ts'
import { reportsIn, type Sent } from './told-reports.ts'

export interface Received {
  path: string
  authorization: string | undefined
  headers: IncomingMessage['headers']
  body: string
}

/**
 * A status and a body (text as it is, anything else as JSON); the plain answer, once `after` is settled; or
 * no answer: `hang`, or the connection `cut`.
 */
export type Script = Immediate | { after: Promise<unknown> }
interface Written {
  status: number
  body: unknown
  headers?: Record<string, string>
  delayMs?: number
}
type Immediate = Written | 'hang' | 'cut'
export type Scripted = Script | ((received: Received, nth: number) => Script)

export interface ScriptedAuthority {
  issuer: string
  key: PrivateKey
  received: Received[]
  /** How many requests came to a path. */
  count(path: string): number
  /** From now on a path is answered so; `undefined` restores the plain answer. */
  script(path: string, scripted: Scripted | undefined): void
  /** Issues a grant that introspection then tells of; `lie` changes what it tells. Returns the token. */
  issue(grant: IssuedGrant, lie?: Record<string, unknown>): string
  /** Makes a grant inactive. */
  end(token: string, reason: unknown): void
  /** Forgets requests, scripts and grants. */
  reset(): void
  close(): Promise<void>
}

export interface IssuedGrant {
  owner: string
  resource: string
  key: PublicKey
  permissions: RptClaims['permissions']
  operation?: RptClaims['operation']
  consequence?: string
  /** Claims of the RPT in place of the correct ones; undefined leaves one out. */
  claims?: Record<string, unknown>
}

type Told = Record<string, unknown>

/** Starts listening on a free port of 127.0.0.1. */
export async function startScriptedAuthority(): Promise<ScriptedAuthority> {
  const key = importPrivateJwk(generatePrivateJwk())
  const received: Received[] = []
  const scripts = new Map<string, Scripted>()
  const told = new Map<string, Told>()
  const server = createServer((request, response) => void answer(request, response))

  const count = (path: string) => received.filter(one => one.path === path).length
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const one: Received = {
      path: request.url!,
      authorization: request.headers.authorization,
      headers: request.headers,
      body: Buffer.concat(chunks).toString(),
    }
    received.push(one)
    const scripted = scripts.get(one.path)
    const given = typeof scripted === 'function' ? scripted(one, count(one.path)) : scripted
    const script =
      given === undefined
        ? plain(one, { key, told })
        : typeof given === 'object' && 'after' in given
          ? await given.after.then(() => plain(one, { key, told }))
          : given
    if (script === 'hang') return
    if (script === 'cut') return void request.socket.destroy()
    if (script.delayMs !== undefined) await new Promise(resolve => setTimeout(resolve, script.delayMs))
    const body = typeof script.body === 'string' ? script.body : JSON.stringify(script.body)
    response.writeHead(script.status, { 'content-type': 'application/json', ...script.headers }).end(body)
  }
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

  return {
    issuer,
    key,
    received,
    count,
    script: (path, scripted) => (scripted === undefined ? scripts.delete(path) : scripts.set(path, scripted)),
    issue: (grant, lie = {}) => {
      const claims: RptClaims = { ...claimsOf(issuer, grant), ...grant.claims }
      const token = signRpt(claims, key)
      told.set(token, { active: true, ...claims, ...lie })
      return token
    },
    end: (token, reason) => told.set(token, { active: false, reason, error: reason }),
    reset: () => {
      received.length = 0
      scripts.clear()
      told.clear()
    },
    close: async () => {
      server.closeAllConnections()
      await new Promise(resolve => server.close(resolve))
    },
  }
}

/** The claims of a grant that lives for ten minutes. */
export function claimsOf(
  iss: string,
  { owner, resource, key, permissions, operation, consequence }: IssuedGrant,
): RptClaims {
  const iat = Math.floor(Date.now() / 1000)
  const handle = `jkt:${key.thumbprint}`
  return {
    iss,
    sub: asHandle(handle),
    client_id: asHandle(handle),
    aud: resource,
    jti: `rpt_${randomBytes(8).toString('hex')}`,
    iat,
    exp: iat + 600,
    cnf: { jwk: { kty: 'OKP', crv: 'Ed25519', x: key.x } },
    permissions,
    contract: 's256:T6xGGcoR3hDoRSt3TxuyHPcUh8qQTJBgCSnp0toH0B8',
    owner: asOwner(owner),
    family: asFamily('fam_test'),
    ...(operation === undefined ? {} : { single_use: true as const, operation }),
    ...(consequence === undefined ? {} : { consequence }),
  }
}

/** What a plain authority answers. */
function plain(
  { path, body }: Received,
  { key, told }: { key: PrivateKey; told: Map<string, Told> },
): Immediate {
  const token = () => new URLSearchParams(body).get('token') ?? ''
  switch (path) {
    case '/token':
      return {
        status: 200,
        body: {
          access_token: `pat-${randomBytes(4).toString('hex')}`,
          token_type: 'Bearer',
          expires_in: 3600,
          scope: 'uma_protection',
        },
      }
    case '/perm':
      return { status: 201, body: { ticket: `tag~tkt_${randomBytes(8).toString('hex')}` } }
    case '/introspect':
      return {
        status: 200,
        body: told.get(token()) ?? { active: false, reason: 'unknown_token', error: 'unknown_token' },
      }
    case '/consume': {
      const grant = told.get(token())
      if (grant?.active !== true)
        return { status: 200, body: { consumed: false, error: grant?.reason ?? 'unknown_token' } }
      told.set(token(), { active: false, reason: 'already_consumed', error: 'already_consumed' })
      return { status: 200, body: { consumed: true, family: 'fam_test' } }
    }
    case '/audit/access': {
      const sent = JSON.parse(body) as Sent
      return { status: 200, body: { recorded: reportsIn(sent).length } }
    }
    case '/jwks':
      return { status: 200, body: { keys: [publicJwk(key)] } }
    default:
      return { status: 404, body: { error: 'not_found' } }
  }
}
