/**
 * Owns operators and issuers of agent tokens for tests: real HTTPS servers on loopback, whose every document
 * a test can script, and which keep a record of what was asked of them.
 */
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { generate } from 'selfsigned'
import { subjectHandle } from '../../src/wire/agents/agent-identity.ts'
import { signJws } from '../../src/wire/signatures/jws.ts'
import {
  generatePrivateJwk,
  importPrivateJwk,
  publicJwk,
  type PrivateKey,
  type PublicKey,
} from '../../src/wire/signatures/keys.ts'
import { TYP, WELL_KNOWN } from '../../src/wire/names.ts'
import { startScriptedServer, type Scripted, type ScriptedServer } from './scripted-http.ts'
import type { Handle } from '../../src/wire/identifiers.ts'

let certificate: Promise<{ key: string; cert: string }> | undefined

/** A certificate for 127.0.0.1 that this process trusts from now on. */
export function loopbackCertificate(): Promise<{ key: string; cert: string }> {
  certificate ??= makeCertificate()
  return certificate
}

async function makeCertificate(): Promise<{ key: string; cert: string }> {
  const { private: key, cert } = await generate([{ name: 'commonName', value: '127.0.0.1' }], {
    algorithm: 'sha256',
    extensions: [{ name: 'subjectAltName', altNames: [{ type: 7, ip: '127.0.0.1' }] }],
  })
  setDefaultCACertificates([...getCACertificates('default'), cert])
  return { key, cert }
}

export const newKey = (): PrivateKey => importPrivateJwk(generatePrivateJwk())

/** An HTTPS server that answers 404 to what is not scripted. */
export async function startDocuments(plain: Scripted = () => undefined): Promise<ScriptedServer> {
  return startScriptedServer(plain, await loopbackCertificate())
}

export interface TestOperator {
  origin: string
  /** Its client document, at `/client.json`. */
  client_id: string
  server: ScriptedServer
  /** What its directory lists from now on. */
  publish(...keys: PublicKey[]): void
  /** How often its directory was asked for. */
  directoryRequests(): number
  close(): Promise<void>
}

export const DIRECTORY_TYPE = 'application/http-message-signatures-directory+json'

/** The directory's answer with these keys. */
export const directory = (...keys: PublicKey[]) => ({
  headers: { 'content-type': DIRECTORY_TYPE },
  body: Buffer.from(JSON.stringify({ keys: keys.map(key => publicJwk(key)) })),
})

/** An operator with a client document that claims its URL, and a directory of `keys`. */
export async function startOperator(
  options: { keys?: PublicKey[]; name?: string } = {},
): Promise<TestOperator> {
  const server = await startDocuments()
  const client_id = `${server.origin}/client.json`
  let keys = options.keys ?? []
  server.script('/client.json', {
    body: { client_id, client_name: options.name ?? 'Operator of tests' },
  })
  server.script(WELL_KNOWN.signatureDirectory, () => directory(...keys))
  return {
    origin: server.origin,
    client_id,
    server,
    publish: (...published) => {
      keys = published
    },
    directoryRequests: () => server.to(WELL_KNOWN.signatureDirectory).length,
    close: () => server.close(),
  }
}

export interface TestIssuer {
  iss: string
  server: ScriptedServer
  /** What it publishes from now on; the first signs. */
  keys: PrivateKey[]
  /** A token for an agent's key; `claims` replace or, where undefined, leave out. */
  token(
    agent: PublicKey,
    claims?: Record<string, unknown>,
    options?: { key?: PrivateKey; typ?: string },
  ): string
  /** What a test agent is identified with. */
  identify(
    agent: PublicKey,
    sub: string,
    claims?: Record<string, unknown>,
  ): { agent_token: string; handle: Handle }
  close(): Promise<void>
}

/** An issuer with a discovery document and a key set; under https unless told otherwise. */
export async function startIssuer(options: { http?: boolean } = {}): Promise<TestIssuer> {
  const server = options.http === true ? await startScriptedServer(() => undefined) : await startDocuments()
  const iss = server.origin
  server.script(WELL_KNOWN.agentIssuer, { body: { issuer: iss, jwks_uri: `${iss}/jwks.json` } })
  server.script('/jwks.json', () => ({ body: { keys: issuer.keys.map(key => publicJwk(key)) } }))
  const issuer: TestIssuer = {
    iss,
    server,
    keys: [newKey()],
    token: (agent, claims = {}, { key = issuer.keys[0]!, typ = TYP.agentToken } = {}) => {
      const now = Math.floor(Date.now() / 1000)
      const payload = {
        iss,
        dwk: 'aauth-agent.json',
        sub: 'planner',
        jti: `tok_${now}`,
        iat: now,
        exp: now + 600,
        cnf: { jwk: agent.jwk },
        ...claims,
      }
      return signJws({ typ, payload }, key)
    },
    identify: (agent, sub, claims = {}) => ({
      agent_token: issuer.token(agent, { sub, ...claims }),
      handle: subjectHandle(sub, iss),
    }),
    close: () => server.close(),
  }
  return issuer
}
