/**
 * Owns the identity provider of a local stack: a real OpenID provider, which tells a client with a person's
 * token which agent that person sent. Contract: "need_info answer (beat 2)" (format id-jag). Development
 * only: it comes with the packages that a checkout has.
 */
import { randomBytes } from 'node:crypto'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { KoaContextWithOIDC, Provider } from 'oidc-provider'
import type { AgentOptions } from '../../agent/index.ts'
import { signJws } from '../../wire/signatures/jws.ts'
import {
  generatePrivateJwk,
  importPrivateJwk,
  type PrivateJwk,
  type PrivateKey,
} from '../../wire/signatures/keys.ts'

export interface IdentityProvider {
  issuer: string
  /** Signs a person in. @returns what lets an agent of that person say so. */
  signIn(subject: string): Promise<Pick<AgentOptions, 'identity_issuers' | 'identityAssertion'>>
  stop(): Promise<void>
}

const EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange'
const ID_JAG = 'urn:ietf:params:oauth:token-type:id-jag'
const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token'
/** How our agents are known there. */
const CLIENT = 'agents'
const ASSERTION_SECONDS = 300
/** What an exchange names besides the grant type; `for_client` is the client_id that the agent goes by. */
const PARAMETERS = [
  'subject_token',
  'subject_token_type',
  'requested_token_type',
  'audience',
  'resource',
  'scope',
  'dpop_jkt',
  'for_client',
] as const
type Exchanged = Partial<Record<(typeof PARAMETERS)[number], string>>

/** Starts one on a free loopback port. */
export async function startIdentityProvider(): Promise<IdentityProvider> {
  const jwk = generatePrivateJwk()
  const server = createServer()
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const provider = await newProvider(issuer, jwk)
  const serve = provider.callback()
  server.on('request', (request, response) => void serve(request, response))
  return {
    issuer,
    signIn: async subject => {
      const subjectToken = await tokenOf(provider, subject)
      return {
        identity_issuers: [issuer],
        identityAssertion: ({ token_endpoint, audience, resource, scope, jkt, client_id }) =>
          exchange(token_endpoint, {
            subject_token: subjectToken,
            subject_token_type: ACCESS_TOKEN,
            requested_token_type: ID_JAG,
            audience,
            dpop_jkt: jkt,
            ...(resource === undefined ? {} : { resource }),
            ...(scope === undefined ? {} : { scope }),
            ...(client_id === undefined ? {} : { for_client: client_id }),
          }),
      }
    },
    stop: () => stop(server),
  }
}

async function newProvider(issuer: string, jwk: PrivateJwk): Promise<Provider> {
  const { warn } = console
  const key = importPrivateJwk(jwk)
  // It says, each time, that it is set up for development.
  console.warn = () => undefined
  try {
    const { Provider: OidcProvider } = await import('oidc-provider')
    const provider = new OidcProvider(issuer, {
      clients: [
        {
          client_id: CLIENT,
          token_endpoint_auth_method: 'none',
          grant_types: [EXCHANGE],
          redirect_uris: [],
          response_types: [],
          id_token_signed_response_alg: 'EdDSA',
        },
      ],
      jwks: { keys: [{ ...jwk, alg: 'EdDSA', use: 'sig', kid: key.thumbprint }] },
      enabledJWA: { idTokenSigningAlgValues: ['EdDSA'] },
      cookies: { keys: [randomBytes(16).toString('hex')] },
      findAccount: (_ctx, sub) => ({ accountId: sub, claims: () => ({ sub }) }),
      ttl: { AccessToken: 3_600 },
      features: { devInteractions: { enabled: false } },
    })
    provider.registerGrantType(EXCHANGE, ctx => answer(provider, key, ctx), [...PARAMETERS])
    return provider
  } catch (cause) {
    throw new Error('There is no OpenID provider here: run this story in a checkout.', { cause })
  } finally {
    console.warn = warn
  }
}

/** RFC 8693: the person's token for an assertion about the agent. */
async function answer(provider: Provider, key: PrivateKey, ctx: KoaContextWithOIDC): Promise<void> {
  const exchange = (ctx.oidc.params ?? {}) as Exchanged
  const found = await provider.AccessToken.find(exchange.subject_token ?? '')
  if (found === undefined || exchange.requested_token_type !== ID_JAG || exchange.audience === undefined) {
    ctx.status = 400
    ctx.body = { error: 'invalid_request' }
    return
  }
  const iat = Math.floor(Date.now() / 1_000)
  const payload = {
    iss: provider.issuer,
    sub: found.accountId,
    aud: exchange.audience,
    jti: randomBytes(12).toString('hex'),
    iat,
    exp: iat + ASSERTION_SECONDS,
    cnf: { jkt: exchange.dpop_jkt ?? '' },
    ...(exchange.resource === undefined ? {} : { resource: exchange.resource }),
    ...(exchange.scope === undefined ? {} : { scope: exchange.scope }),
    ...(exchange.for_client === undefined ? {} : { client_id: exchange.for_client }),
  }
  ctx.body = {
    access_token: signJws({ typ: 'oauth-id-jag+jwt', payload }, key),
    issued_token_type: ID_JAG,
    token_type: 'N_A',
    expires_in: ASSERTION_SECONDS,
  }
}

/** The token of a person who signed in before. */
async function tokenOf(provider: Provider, accountId: string): Promise<string> {
  const client = (await provider.Client.find(CLIENT))!
  const fields = {
    accountId,
    client,
    gty: 'signed_in',
    scope: 'openid',
    grantId: randomBytes(8).toString('hex'),
  }
  return new provider.AccessToken(fields).save()
}

async function exchange(tokenEndpoint: string, fields: Exchanged): Promise<string> {
  const form = new URLSearchParams({ ...fields, grant_type: EXCHANGE, client_id: CLIENT })
  const response = await fetch(tokenEndpoint, { method: 'POST', body: form })
  const reply = (await response.json()) as { access_token?: string }
  if (reply.access_token === undefined) throw new Error(`The provider says ${JSON.stringify(reply)}.`)
  return reply.access_token
}

function stop(server: Server): Promise<void> {
  return new Promise(resolve => {
    server.close(() => resolve())
    server.closeAllConnections()
  })
}
