/**
 * Asks tallies on behalf of owners: only those that the operator of this server lists, at the addresses that
 * they publish, below their own origin. Contract: "Tally for a jointly held resource" (`/mandate/{account}`,
 * `/jwks`), and withdrawals.
 */
import { createJwksCache } from '../../http/outbound/jwks-cache.ts'
import { OutboundFault, plainWords, type Outbound } from '../../http/outbound/outbound.ts'
import { BoundedMap } from '../../limits/bounded-map.ts'
import { countedMandate, coversResource, type CountedMandate } from '../../rules/joint/mandate.ts'
import type { Owner } from '../../wire/identifiers.ts'
import { MANDATE_BYTES_MAX } from '../../wire/document-bounds.ts'
import { isJsonObject, parseJson, type Json } from '../../wire/json.ts'
import { parseJointAccesses, type JointAccesses } from '../../wire/documents/joint-accesses.ts'
import type { PublishedKey } from '../../wire/signatures/keys.ts'
import { parseMandate } from '../../wire/joint/mandate.ts'
import { parseTallyMetadata, type TallyMetadata } from '../../wire/resources/authorization-server-metadata.ts'
import { WELL_KNOWN } from '../../wire/names.ts'
import { parseOwnerListing, type OwnerResource } from '../../wire/resources/owner-resources.ts'
import { Refusal } from '../../wire/refusal.ts'

/** A tally gave no usable answer, so nobody knows what it would say. The message is plain words. */
export class TallyOutage extends Error {}

/** The answer of a tally is not a mandate that anybody can agree to. The message says why, as a clause. */
export class TallyFault extends Error {}

/** A lawful mandate of the account in question, and the registered resources that it covers. */
export interface ServedMandate {
  mandate: CountedMandate
  registered: readonly OwnerResource[]
}

/** Each method rejects with `TallyOutage`, or with `TallyFault` if the tally answered. */
export interface Tallies {
  /** The tallies that are asked at all. */
  readonly issuers: readonly string[]
  /** The mandate that it serves for an account, at most 30 s old; `fresh`: read now. */
  mandate(tally: string, account: Owner, how?: 'fresh'): Promise<ServedMandate>
  /** The keys that it publishes; they are fetched once more if none has this id. */
  keys(tally: string, kid: string | undefined): Promise<readonly PublishedKey[]>
  /** The calls that were made on an account. Her server signs the request. */
  accesses(tally: string, account: Owner, query: AccessesQuery): Promise<JointAccesses>
  /** Makes the tally withdraw what a holder allowed. @returns the status of its answer. */
  withdraw(tally: string, withdrawal: string): Promise<number>
}

/** One page, the newest first; 0 starts at the newest. */
export interface AccessesQuery {
  request: string
  before: number
  limit: number
}

export interface TalliesOptions {
  issuers: readonly string[]
  /** Names that are accepted beside the contract's. */
  aliases: readonly string[]
  /** For public addresses only. */
  outbound: Outbound
}

const MANDATE_MS = 30_000
const METADATA_MS = 300_000
const ANSWER_MS_MAX = 3_000
/** The size of a page of calls. */
const CALLS_BYTES_MAX = 1024 * 1024
const ENTRIES_MAX = 10_000

interface TallyCacheEntry<T> {
  at: number
  value: Promise<T>
}

/** A client that asks nobody until it is used. */
export function createTallies({ issuers, aliases, outbound }: TalliesOptions): Tallies {
  const published = createJwksCache({ outbound, clock: Date.now })
  const documents = new BoundedMap<string, TallyCacheEntry<TallyMetadata>>(ENTRIES_MAX)
  const mandates = new BoundedMap<string, TallyCacheEntry<ServedMandate>>(ENTRIES_MAX)
  const get = async (url: string): Promise<Json> =>
    outbound.getJson(url, { timeoutMs: ANSWER_MS_MAX, responseBytesMax: MANDATE_BYTES_MAX }).catch(asOutage)
  const discovered = (tally: string): Promise<TallyMetadata> => {
    if (!issuers.includes(tally)) throw new TallyOutage('it is not listed any more')
    return remember(documents, tally, METADATA_MS, async () => {
      const json = await get(tally + WELL_KNOWN.agentsConfiguration)
      return judged(() => parseTallyMetadata(json, tally, aliases))
    })
  }
  const read = async (tally: string, account: Owner): Promise<ServedMandate> => {
    const { ext_mandate_endpoint } = await discovered(tally)
    const base = ownAddress(ext_mandate_endpoint, tally).replace(/\/$/, '')
    const json = await get(`${base}/${encodeURIComponent(account)}`)
    return judged(() => servedMandate(json, { tally, account }))
  }
  return {
    issuers,
    mandate: (tally, account, how) => {
      const key = JSON.stringify([tally, account])
      return remember(mandates, key, how === 'fresh' ? 0 : MANDATE_MS, () => read(tally, account))
    },
    keys: async (tally, kid) => {
      const { jwks_uri } = await discovered(tally)
      try {
        const url = ownAddress(jwks_uri, tally)
        if (kid !== undefined) await published.find(url, kid)
        return await published.keys(url)
      } catch (cause) {
        throw new TallyOutage('its keys cannot be had', { cause })
      }
    },
    accesses: async (tally, account, { request, before, limit }) => {
      const { ext_accesses_endpoint: endpoint } = await discovered(tally)
      if (endpoint === undefined) throw new TallyFault('it names no address for calls')
      const query = new URLSearchParams({ before: String(before), limit: String(limit) })
      const base = ownAddress(endpoint, tally).replace(/\/$/, '')
      const url = `${base}/${encodeURIComponent(account)}?${query.toString()}`
      const headers = { accept: 'application/json', authorization: `Bearer ${request}` }
      const sent = { url, headers, timeoutMs: ANSWER_MS_MAX, responseBytesMax: CALLS_BYTES_MAX }
      const { status, body } = await outbound.request(sent).catch(asOutage)
      if (status >= 500 || status === 429) throw new TallyOutage(`it answered ${status}`)
      if (status !== 200) throw new TallyFault(`it refused to tell (${status})`)
      return judged(() => parseJointAccesses(parseJson(body)))
    },
    withdraw: async (tally, withdrawal) => {
      const { ext_withdrawal_endpoint: endpoint } = await discovered(tally)
      if (endpoint === undefined) throw new TallyFault('it names no address for withdrawals')
      const url = ownAddress(endpoint, tally)
      const body = JSON.stringify({ withdrawal })
      const headers = { 'content-type': 'application/json' }
      const sent = { method: 'POST' as const, url, headers, body, timeoutMs: ANSWER_MS_MAX }
      return (await outbound.request(sent).catch(asOutage)).status
    },
  }
}

/** A value that is kept for a time and then computed again; a failure is not kept. */
function remember<T>(
  entries: BoundedMap<string, TallyCacheEntry<T>>,
  key: string,
  ms: number,
  make: () => Promise<T>,
): Promise<T> {
  const known = entries.get(key)
  if (known !== undefined && Date.now() - known.at < ms) return known.value
  const made = { at: Date.now(), value: make() }
  entries.set(key, made)
  made.value.catch(() => {
    if (entries.get(key) === made) entries.delete(key)
  })
  return made.value
}

function asOutage(cause: unknown): never {
  if (!(cause instanceof OutboundFault)) throw cause
  throw new TallyOutage(plainWords(cause), { cause })
}

function ownAddress(url: string, tally: string): string {
  if (new URL(url).origin !== new URL(tally).origin)
    throw new TallyFault('it names an address at another origin')
  return url
}

function servedMandate(json: Json, of: { tally: string; account: Owner }): ServedMandate {
  const mandate = countedMandate(parseMandate(json))
  if ('fault' in mandate) throw new TallyFault(`its mandate is not lawful (${mandate.fault})`)
  if (mandate.account !== of.account || mandate.tally !== of.tally)
    throw new TallyFault('it serves the mandate of another account, or of another tally')
  const resources = (isJsonObject(json) ? json['registered'] : undefined) ?? []
  const listed = parseOwnerListing({ owner: of.account, resources }).resources
  return { mandate, registered: listed.filter(({ _id }) => coversResource(mandate, _id)) }
}

function judged<T>(read: () => T): T {
  try {
    return read()
  } catch (cause) {
    if (!(cause instanceof Refusal)) throw cause
    throw new TallyFault(`it answers in another form (${cause.detail ?? cause.code})`, { cause })
  }
}
