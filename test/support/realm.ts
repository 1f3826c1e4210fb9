/**
 * Owns a real OpenID provider for tests: a realm in which owners log in through a browser's steps and get
 * access, ID and refresh tokens; its own keys also sign what no realm should. It can rotate its keys and go
 * away.
 */
import { createHash, randomBytes } from 'node:crypto'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair, importJWK, SignJWT, type JWK, type JWTPayload } from 'jose'
import { Provider, type Configuration } from 'oidc-provider'
import { NAMED_KEYS_BYTES_MAX } from '../../src/wire/document-bounds.ts'

/** A public client that runs in a browser: the page of an authority. */
export const PAGE = 'page'
/** The audience that the realm gives its access tokens, and the client that asks for them. */
export const AUDIENCE = 'https://owner-api.example'
export const PORTAL = 'portal'
const REDIRECT = 'https://portal.example/callback'

/** Of more bytes than a key set may have, which is read further than any other document. */
const TOO_LARGE = JSON.stringify({ keys: [], filler: 'x'.repeat(NAMED_KEYS_BYTES_MAX) })

export type RealmAlgorithm = 'RS256' | 'PS256' | 'ES256' | 'EdDSA'
const ALGORITHMS: readonly RealmAlgorithm[] = ['RS256', 'PS256', 'ES256', 'EdDSA']

/** What one login yields. */
export interface RealmTokens {
  access_token: string
  id_token: string
  refresh_token: string
}

export interface TestRealm {
  /** Without a trailing slash. */
  issuer: string
  /** Logs a person in at the provider, whose `sub` is the name given, and redeems the code. */
  login(subject: string): Promise<RealmTokens>
  /** The claims of a good access token of the person, to be changed. */
  claims(subject: string): JWTPayload
  /** Signs with a key that the realm publishes: what only the realm could have made. */
  sign(claims: JWTPayload, how?: { alg?: RealmAlgorithm; header?: Record<string, unknown> }): Promise<string>
  /** Lets a page at this address log people in, as the client `PAGE`. */
  admitPage(redirectUri: string): void
  /** Publishes new keys alone, from now on. */
  rotate(): Promise<void>
  /** Answers with a document that nobody reads, because it is too large, at this path from now on. */
  outgrow(path: string): void
  /** How often its key set was fetched. */
  keyFetches(): number
  /** Stops and resumes answering, at the same address. */
  goAway(): Promise<void>
  comeBack(): Promise<void>
  close(): Promise<void>
}

export interface RealmOptions {
  /** Signs the access tokens that it issues; RS256 when left out. */
  alg?: RealmAlgorithm
  /** Life of an access token; 300 when left out. */
  seconds?: number
}

/** Starts a realm on an ephemeral loopback port. */
export async function startRealm(options: RealmOptions = {}): Promise<TestRealm> {
  let keys = await makeKeys()
  let page: string | undefined
  let provider: Provider
  let fetches = 0
  const outgrown = new Set<string | undefined>()
  const server = createServer((request, response) => {
    if (request.url === '/jwks') fetches++
    if (outgrown.has(request.url)) return void response.end(TOO_LARGE)
    void provider.callback()(request, response)
  })
  await listenOn(server, 0)
  const { port } = server.address() as AddressInfo
  const issuer = `http://127.0.0.1:${port}`
  provider = newProvider(issuer, keys, options)
  const renew = (): void => void (provider = newProvider(issuer, keys, { ...options, page }))
  const away = (): Promise<void> =>
    new Promise(resolve => {
      if (!server.listening) return resolve()
      server.close(() => resolve())
      server.closeAllConnections()
    })
  return {
    issuer,
    login: subject => login(issuer, subject),
    claims: subject => accessClaims(issuer, subject),
    sign: async (claims, { alg = 'RS256', header = {} } = {}) => {
      const jwk = keys.find(key => key.alg === alg)!
      return new SignJWT(claims)
        .setProtectedHeader({ alg, kid: jwk.kid!, typ: 'at+jwt', ...header })
        .sign(await importJWK(jwk, alg))
    },
    admitPage: redirectUri => {
      page = redirectUri
      renew()
    },
    rotate: async () => {
      keys = await makeKeys()
      renew()
    },
    outgrow: path => void outgrown.add(path),
    keyFetches: () => fetches,
    goAway: away,
    comeBack: () => listenOn(server, port),
    close: away,
  }
}

function listenOn(server: Server, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, '127.0.0.1', () => resolve())
  })
}

async function makeKeys(): Promise<JWK[]> {
  return Promise.all(
    ALGORITHMS.map(async alg => {
      const { privateKey } = await generateKeyPair(alg, { extractable: true })
      return { ...(await exportJWK(privateKey)), alg, use: 'sig', kid: randomBytes(6).toString('hex') }
    }),
  )
}

function newProvider(
  issuer: string,
  keys: JWK[],
  { alg = 'RS256', seconds = 300, page }: RealmOptions & { page?: string | undefined },
): Provider {
  const common = {
    token_endpoint_auth_method: 'none' as const,
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code' as const],
    id_token_signed_response_alg: alg,
  }
  const configuration: Configuration = {
    clients: [
      // Native is what it calls a client on a loopback address.
      ...(page === undefined
        ? []
        : [{ client_id: PAGE, redirect_uris: [page], application_type: 'native' as const, ...common }]),
      {
        client_id: PORTAL,
        redirect_uris: [REDIRECT],
        ...common,
      },
    ],
    clientBasedCORS: (_ctx, origin) => page?.startsWith(`${origin}/`) === true,
    issueRefreshToken: async (_ctx, client, code) =>
      client.clientId === PAGE || code.scopes.has('offline_access'),
    jwks: { keys },
    enabledJWA: { idTokenSigningAlgValues: [...ALGORITHMS] },
    scopes: ['openid', 'offline_access'],
    cookies: { keys: [randomBytes(16).toString('hex')] },
    findAccount: (_ctx, sub) => ({ accountId: sub, claims: () => ({ sub }) }),
    ttl: {
      AccessToken: seconds,
      IdToken: 300,
      Grant: 3600,
      Interaction: 300,
      Session: 300,
      RefreshToken: 3600,
    },
    features: {
      devInteractions: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => AUDIENCE,
        useGrantedResource: () => true,
        getResourceServerInfo: () => ({
          scope: 'owner',
          audience: AUDIENCE,
          accessTokenTTL: seconds,
          accessTokenFormat: 'jwt',
          jwt: { sign: { alg } },
        }),
      },
    },
  }
  return quietly(() => new Provider(issuer, configuration))
}

/** It warns, each time, that it is set up for tests. */
function quietly<T>(make: () => T): T {
  const { warn } = console
  console.warn = () => undefined
  try {
    return make()
  } finally {
    console.warn = warn
  }
}

function accessClaims(iss: string, sub: string): JWTPayload {
  const iat = Math.floor(Date.now() / 1000)
  const jti = randomBytes(8).toString('hex')
  return { iss, sub, aud: AUDIENCE, client_id: PORTAL, scope: 'owner', iat, exp: iat + 300, jti }
}

/**
 * The steps of a browser: authorization request, login page, code; then the client redeems the code (PKCE).
 */
async function login(issuer: string, subject: string): Promise<RealmTokens> {
  const verifier = randomBytes(32).toString('base64url')
  const browse = browser(issuer)
  const asked = new URLSearchParams({
    client_id: PORTAL,
    response_type: 'code',
    redirect_uri: REDIRECT,
    scope: 'openid offline_access owner',
    prompt: 'consent',
    resource: AUDIENCE,
    nonce: randomBytes(8).toString('hex'),
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
  })
  let at = await browse(`/auth?${asked.toString()}`)
  for (const prompt of ['login', 'consent']) {
    if (!at.startsWith('/interaction/')) break
    await browse(at)
    at = await browse(at, new URLSearchParams({ prompt, login: subject, password: 'any' }))
    at = await browse(at)
  }
  const code = new URL(at).searchParams.get('code')
  if (code === null) throw new Error(`the provider gave no code: ${at}`)
  const response = await fetch(`${issuer}/token`, {
    method: 'POST',
    body: new URLSearchParams({
      grant_type: 'authorization_code',
      client_id: PORTAL,
      code,
      redirect_uri: REDIRECT,
      code_verifier: verifier,
      resource: AUDIENCE,
    }),
  })
  const answer = (await response.json()) as RealmTokens
  if (!response.ok) throw new Error(`the provider gave no tokens: ${JSON.stringify(answer)}`)
  return answer
}

/**
 * Keeps cookies, follows nothing. @returns where the answer leads: a path at the provider, or a URL
 * elsewhere.
 */
function browser(issuer: string): (path: string, form?: URLSearchParams) => Promise<string> {
  const cookies = new Map<string, string>()
  return async (path, form) => {
    const response = await fetch(new URL(path, issuer), {
      method: form === undefined ? 'GET' : 'POST',
      redirect: 'manual',
      headers: { cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join('; ') },
      ...(form === undefined ? {} : { body: form }),
    })
    for (const line of response.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(line)!
      cookies.set(name!, value!)
    }
    await response.arrayBuffer()
    const to = response.headers.get('location')
    return to === null ? path : to.replace(issuer, '')
  }
}
