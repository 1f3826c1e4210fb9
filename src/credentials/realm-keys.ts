/**
 * The keys that an OIDC realm publishes, found through its discovery document and kept for a while.
 * Contract: "Authentication" (owner at the owner API: validated against her realm's published keys).
 */
import {
  compactVerify,
  createLocalJWKSet,
  errors,
  type CryptoKey,
  type JSONWebKeySet,
  type JWSHeaderParameters,
} from 'jose'
import type { Outbound } from '../http/outbound.ts'
import { isJsonObject, type Json } from '../wire/json.ts'

export interface RealmKeysOptions {
  /** The realm, exactly as it writes itself. */
  issuer: string
  outbound: Outbound
  /** Milliseconds since the epoch. */
  clock: () => number
  /** How long a fetched set is used; 300 when left out. */
  keepSeconds?: number
  /** Least time between two fetches because of unknown keys; 10 when left out. */
  refetchSeconds?: number
  /** How long a failed fetch is remembered; 5 when left out. */
  failureSeconds?: number
}

export interface RealmKeys {
  /**
   * Whether one of the realm's keys signed the token; `algorithms` are those admitted. A key that is not
   * among those known is looked for once more, as it may be one just rotated in. Throws `RealmUnreachable`
   * where the keys cannot be had: then nothing can be said of the token.
   */
  signed(token: string, header: JWSHeaderParameters, algorithms: readonly string[]): Promise<boolean>
}

/** The realm's keys cannot be had now. */
export class RealmUnreachable extends Error {
  override readonly name = 'RealmUnreachable'
}

type KeySet = ReturnType<typeof createLocalJWKSet>

interface Fetched {
  keys: KeySet
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
      known = { keys: await fetchKeys(options), ...begun }
      failure = undefined
      return known
    } catch (cause) {
      const error = new RealmUnreachable(`the keys of ${options.issuer} cannot be had`, { cause })
      failure = { error, until: clock() + failureMs }
      throw error
    }
  }
  /** One fetch at a time, whoever waits for it. */
  const fetched = (): Promise<Fetched> => {
    running ??= fetchNow().finally(() => (running = undefined))
    return running
  }
  const current = async (): Promise<Fetched> =>
    known !== undefined && clock() - known.fetchedAt < keepMs ? known : fetched()
  /** What may hold a key that `tried` does not: anybody can name one, so looking again is rationed. */
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
      const asked = ++turns
      const tried = await current()
      const verdict = await tryKeys(tried.keys, token, { header, algorithms })
      if (verdict !== 'unknown key' || tried.turn > asked) return verdict === 'signed'
      const other = await newer(tried)
      return other !== tried && (await tryKeys(other.keys, token, { header, algorithms })) === 'signed'
    },
  }
}

/** OIDC Discovery §4: the document must name the issuer that it was found by, to the letter. */
async function fetchKeys({ issuer, outbound }: RealmKeysOptions): Promise<KeySet> {
  const document = await outbound.getJson(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`)
  if (text(document, 'issuer') !== issuer)
    throw new Error(`the discovery document of ${issuer} names another issuer`)
  const uri = text(document, 'jwks_uri')
  if (uri === undefined) throw new Error(`the discovery document of ${issuer} names no jwks_uri`)
  return createLocalJWKSet((await outbound.getJson(uri)) as unknown as JSONWebKeySet)
}

function text(json: Json, member: string): string | undefined {
  const value = isJsonObject(json) && Object.hasOwn(json, member) ? json[member] : undefined
  return typeof value === 'string' ? value : undefined
}

interface Trial {
  header: JWSHeaderParameters
  algorithms: readonly string[]
}

/**
 * Without a kid every key that fits is tried, and if none signed it, the right one may just not be known yet.
 */
async function tryKeys(
  keys: KeySet,
  token: string,
  trial: Trial,
): Promise<'signed' | 'forged' | 'unknown key'> {
  const candidates = await candidatesOf(keys, trial.header)
  for (const key of candidates) if (await isSignedBy(token, key, trial.algorithms)) return 'signed'
  return candidates.length === 0 || trial.header.kid === undefined ? 'unknown key' : 'forged'
}

/** The keys that fit the token's header. A published key that cannot be used is as good as none. */
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
