/**
 * Owns a login at her OIDC realm: authorization code with PKCE as a public client (RFC 6749, RFC 7636, RFC
 * 9207, RFC 9700). Contract: "Authentication" (owner at the owner API: an OIDC access token). Tokens stay in
 * the memory of the page, so a later user of the same browser finds none.
 */
import type { ConsoleRealm } from '../../wire/owner/console.ts'
import { isJsonObject, parseJson, type JsonObject } from '../../wire/json.ts'
import { base64url, randomText, sha256 } from '../bytes.ts'
import { WORDS } from '../words.ts'

/** A live login; `expiresAt` in milliseconds since the epoch, undefined if the realm does not say. */
export interface RealmLogin {
  token: string
  refresh: string | undefined
  expiresAt: number | undefined
}

/** What the realm sent her back with. */
export interface Returned {
  state: string
  code: string | undefined
  iss: string | undefined
  error: string | undefined
}

/** What is kept of a running login; the verifier is valid only for that one code. */
interface StoredLogin {
  state: string
  verifier: string
}

const BEGUN = 'usher-login'
const ANSWER_MS_MAX = 15_000
const W = WORDS.signIn

/** Leaves for the realm, which sends her back to `base`. */
export async function beginLogin(realm: ConsoleRealm, base: URL): Promise<void> {
  const begun: StoredLogin = { state: randomText(32), verifier: randomText(32) }
  sessionStorage.setItem(BEGUN, JSON.stringify(begun))
  const url = new URL(realm.authorization_endpoint)
  const parameters = {
    response_type: 'code',
    client_id: realm.client_id,
    redirect_uri: base.href,
    scope: realm.scope,
    state: begun.state,
    code_challenge: base64url(await sha256(begun.verifier)),
    code_challenge_method: 'S256',
    ...(realm.resource === undefined ? {} : { resource: realm.resource }),
  }
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value)
  location.assign(url)
}

/** What came with the address. It is removed at once, because it must not stay in any history. */
export function takeReturned(): Returned | undefined {
  const parameters = new URLSearchParams(location.search)
  const state = parameters.get('state')
  if (state === null) return undefined
  history.replaceState(null, '', location.pathname + location.hash)
  return {
    state,
    code: parameters.get('code') ?? undefined,
    iss: parameters.get('iss') ?? undefined,
    error: parameters.get('error') ?? undefined,
  }
}

/** The login that the code gives. Fails with a sentence if this page did not begin it. */
export async function finishLogin(realm: ConsoleRealm, base: URL, returned: Returned): Promise<RealmLogin> {
  const begun = takeBegun()
  if (begun === undefined || begun.state !== returned.state) throw new Error(W.otherLogin)
  // RFC 9207: an answer from another realm than the one asked is ignored.
  if (returned.iss !== undefined && returned.iss !== realm.issuer) throw new Error(W.otherLogin)
  if (returned.code === undefined) throw new Error(W.notLoggedIn(returned.error ?? '?'))
  return tokensOf(realm, {
    grant_type: 'authorization_code',
    code: returned.code,
    redirect_uri: base.href,
    code_verifier: begun.verifier,
  })
}

/** Renews the login. Fails if the realm no longer renews it. */
export async function renewLogin(realm: ConsoleRealm, { refresh }: RealmLogin): Promise<RealmLogin> {
  if (refresh === undefined) throw new Error(W.loginEnded)
  const renewed = await tokensOf(realm, { grant_type: 'refresh_token', refresh_token: refresh })
  return { ...renewed, refresh: renewed.refresh ?? refresh }
}

function takeBegun(): StoredLogin | undefined {
  const text = sessionStorage.getItem(BEGUN)
  sessionStorage.removeItem(BEGUN)
  return text === null ? undefined : (JSON.parse(text) as StoredLogin)
}

async function tokensOf(realm: ConsoleRealm, fields: Record<string, string>): Promise<RealmLogin> {
  const { token_endpoint, client_id, resource } = realm
  const body = new URLSearchParams({
    ...fields,
    client_id,
    ...(resource === undefined ? {} : { resource }),
  })
  const signal = AbortSignal.timeout(ANSWER_MS_MAX)
  const sent = { method: 'POST', body, signal, credentials: 'omit', cache: 'no-store' } as const
  let response: Response
  try {
    response = await fetch(token_endpoint, sent)
  } catch (cause) {
    throw new Error(W.realmSilent, { cause })
  }
  const answer = await bodyOf(response)
  const { access_token: token, refresh_token, expires_in, error } = answer
  if (!response.ok || typeof token !== 'string')
    throw new Error(W.notLoggedIn(typeof error === 'string' ? error : String(response.status)))
  return {
    token,
    refresh: typeof refresh_token === 'string' ? refresh_token : undefined,
    expiresAt: typeof expires_in === 'number' ? Date.now() + expires_in * 1_000 : undefined,
  }
}

async function bodyOf(response: Response): Promise<JsonObject> {
  try {
    const json = parseJson(await response.text())
    return isJsonObject(json) ? json : {}
  } catch {
    return {}
  }
}
