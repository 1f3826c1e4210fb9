/**
 * The keys that an OIDC realm publishes, found through its metadata (OpenID Connect Discovery, RFC 8414) and
 * kept for a while. Contract: "Authentication" (owner at the owner API: validated against her realm's
 * published keys).
 */
import {
  compactVerify,
  createLocalJWKSet,
  errors,
  type CryptoKey,
  type JSONWebKeySet,
  type JWSHeaderParameters,
} from 'jose'
import { OutboundFault, type Outbound } from '../http/outbound/outbound.ts'
import { NAMED_KEYS_BYTES_MAX } from '../wire/document-bounds.ts'
import { isJsonObject, parseJson, type Json } from '../wire/json.ts'
import { issuerMetadataUrls } from '../wire/resources/authorization-server-metadata.ts'

export interface RealmKeysOptions {
  /** The realm, exactly as it spells its own issuer. */
  issuer: string
  outbound: Outbound
  /** Milliseconds since the epoch. */
  clock: () => number
  /** How long a fetched set is used; 300 if left out. */
  keepSeconds?: number
  /** The least time between two fetches because of unknown keys; 10 if left out. */
  refetchSeconds?: number
  /** How long a failed fetch is remembered; 5 if left out. */
  failureSeconds?: number
}

export interface RealmKeys {
  /**
   * Whether one of the realm's keys signed the token; `algorithms` are those admitted. For an unknown key the
   * keys are fetched once more, because it may have just been rotated in. Throws `RealmUnreachable` if the
   * keys cannot be fetched; then nothing can be said about the token.
   */
  signed(token: string, header: JWSHeaderParameters, algorithms: readonly string[]): Promise<boolean>
  /** Its token endpoint. Throws `RealmUnreachable` if it does not say so. */
  tokenEndpoint(): Promise<string>
  /** Where people log in and a code becomes a token. Throws `RealmUnreachable` if it does not say so. */
  endpoints(): Promise<RealmEndpoints>
}

/**
 * The endpoints of the authorization code flow: absolute http or https URLs, as the realm's metadata names
 * them.
 */
export interface RealmEndpoints {
  authorization: string
  token: string
}

/** The realm's keys cannot be fetched now. */
export class RealmUnreachable extends Error {
  override readonly name = 'RealmUnreachable'
  /** Whether waiting mends nothing: a document of the realm is larger than any that is read. */
  get isTooLarge(): boolean {
    return this.cause instanceof OutboundFault && this.cause.reason === 'too_large'
  }
}

/** Its keys may carry certificates. */
const KEYS = { responseBytesMax: NAMED_KEYS_BYTES_MAX }

type KeySet = ReturnType<typeof createLocalJWKSet>

interface Fetched {
  keys: KeySet
  tokenEndpoint: string | undefined
  authorizationEndpoint: string | undefined
  fetchedAt: number
  /** Its place among fetches begun and tokens asked about: what was published after it began is not in it. */
  turn: number
}

/** A store of one realm's keys; nothing is fetched before the first token comes. */
export function createRealmKeys(options: RealmKeysOptions): RealmKeys {
  const { clock } = options
  const keepMs = (options.keepSeconds ?? 300) * 1_000
  const refetchMs = (options.refetchSeconds ?? 10) * 1_000
  const failureMs = (options.failureSeconds ?? 5) * 1_000
  let known: Fetched | undefined
  let failure: { error: RealmUnreachable; until: number } | undefined
  let running: Promise<Fetched> | undefined
  let soughtAt = -Infinity
  let turns = 0

  const fetchNow = async (): Promise<Fetched> => {
    if (failure !== undefined && clock() < failure.until) throw failure.error
    const begun = { fetchedAt: clock(), turn: ++turns }
    try {
      known = { ...(await fetchRealm(options)), ...begun }
      failure = undefined
      return known
    } catch (cause) {
      const error = new RealmUnreachable(`the keys of ${options.issuer} cannot be had`, { cause })
      failure = { error, until: clock() + failureMs }
      throw error
    }
  }
  /** There is one fetch at a time, which all callers share. */
  const fetched = (): Promise<Fetched> => {
    running ??= fetchNow().finally(() => (running = undefined))
    return running
  }
  const current = async (): Promise<Fetched> =>
    known !== undefined && clock() - known.fetchedAt < keepMs ? known : fetched()
  /**
   * A newer set that may have a key that `tried` does not have. Anybody can name an unknown key, so fetching
   * again is limited.
   */
  const newer = async (tried: Fetched): Promise<Fetched> => {
    if (known !== undefined && known !== tried) return known
    if (running === undefined) {
      if (clock() - soughtAt < refetchMs) return tried
      soughtAt = clock()
    }
    return fetched()
  }
  return {
    signed: async (token, header, algorithms) => {
      const turn = ++turns
      const tried = await current()
      const verdict = await tryKeys(tried.keys, token, { header, algorithms })
      if (verdict !== 'unknown key' || tried.turn > turn) return verdict === 'signed'
      const other = await newer(tried)
      return other !== tried && (await tryKeys(other.keys, token, { header, algorithms })) === 'signed'
    },
    tokenEndpoint: async () => {
      const { tokenEndpoint } = await current()
      if (tokenEndpoint !== undefined) return tokenEndpoint
      throw new RealmUnreachable(`the metadata of ${options.issuer} names no token_endpoint`)
    },
    endpoints: async () => {
      const { authorizationEndpoint, tokenEndpoint } = await current()
      if (isAddress(authorizationEndpoint) && isAddress(tokenEndpoint))
        return { authorization: authorizationEndpoint, token: tokenEndpoint }
      throw new RealmUnreachable(`the metadata of ${options.issuer} names no endpoints to log in at`)
    },
  }
}

/**
 * OIDC Discovery §4, RFC 8414 §3.3: the document must name the issuer that it was found by, to the letter.
 */
async function fetchRealm({
  issuer,
  outbound,
}: RealmKeysOptions): Promise<Pick<Fetched, 'keys' | 'tokenEndpoint' | 'authorizationEndpoint'>> {
  const document = await fetchMetadata(issuer, outbound)
  if (text(document, 'issuer') !== issuer)
    throw new Error(`the discovery document of ${issuer} names another issuer`)
  const uri = text(document, 'jwks_uri')
  if (uri === undefined) throw new Error(`the discovery document of ${issuer} names no jwks_uri`)
  const keys = createLocalJWKSet(readableSet(await outbound.getJson(uri, KEYS)))
  const tokenEndpoint = text(document, 'token_endpoint')
  return { keys, tokenEndpoint, authorizationEndpoint: text(document, 'authorization_endpoint') }
}

/** An entry that is no valid key does not make the other keys unusable. */
function readableSet(set: Json): JSONWebKeySet {
  const keys = isJsonObject(set) ? set['keys'] : undefined
  return (Array.isArray(keys) ? { keys: keys.filter(isJsonObject) } : set) as unknown as JSONWebKeySet
}

function isAddress(url: string | undefined): url is string {
  return url !== undefined && /^https?:$/.test(URL.parse(url)?.protocol ?? '')
}

/** Its OpenID document; only if that does not exist, the one of RFC 8414. */
async function fetchMetadata(issuer: string, outbound: Outbound): Promise<Json> {
  const { openid, oauth } = issuerMetadataUrls(issuer)
  const headers = { accept: 'application/json' }
  const { status, body } = await outbound.request({ url: openid, headers })
  if (status === 404) return outbound.getJson(oauth)
  if (status !== 200) throw new Error(`${openid} answered ${status}, not 200`)
  return parseJson(body)
}

function text(json: Json, member: string): string | undefined {
  const value = isJsonObject(json) && Object.hasOwn(json, member) ? json[member] : undefined
  return typeof value === 'string' ? value : undefined
}

interface TokenTrial {
  header: JWSHeaderParameters
  algorithms: readonly string[]
}

/**
 * Without a kid every key that fits is tried, and if none signed it, the right one may just not be known yet.
 */
async function tryKeys(
  keys: KeySet,
  token: string,
  trial: TokenTrial,
): Promise<'signed' | 'forged' | 'unknown key'> {
  const candidates = await candidatesOf(keys, trial.header)
  for (const key of candidates) if (await isSignedBy(token, key, trial.algorithms)) return 'signed'
  return candidates.length === 0 || trial.header.kid === undefined ? 'unknown key' : 'forged'
}

/** The keys that fit the token's header. A published key that cannot be used counts as missing. */
async function candidatesOf(keys: KeySet, header: JWSHeaderParameters): Promise<CryptoKey[]> {
  try {
    return [await keys(header)]
  } catch (error) {
    if (!(error instanceof errors.JWKSMultipleMatchingKeys)) return []
    const several: CryptoKey[] = []
    for await (const key of error) several.push(key)
    return several
  }
}

async function isSignedBy(token: string, key: CryptoKey, algorithms: readonly string[]): Promise<boolean> {
  try {
    await compactVerify(token, key, { algorithms: [...algorithms] })
    return true
  } catch {
    return false
  }
}
