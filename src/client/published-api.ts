/**
 * Owns how a client finds an API if it knows only the issuer. Contract: "Authorization server metadata
 * members" (`owner_endpoint`).
 */
import { isJsonObject } from '../wire/json.ts'
import { WELL_KNOWN } from '../wire/names.ts'
import { readJson } from './exchange.ts'
import { apiBase } from './signed-fetch.ts'

const SECONDS_MAX = 5

/**
 * The member of an issuer's metadata with the address of `path` of the API; the API itself is the part before
 * it. `unserved` says what to do if that part does not serve what is asked for.
 */
export interface PublishedApi {
  member: string
  path: string
  unserved: string
}

/**
 * The address of the API by the metadata of `issuer`; undefined if there is no such metadata. It
 * counts only if it names this issuer, and only for an address that a request may be signed for. Throws
 * nothing, because the first request will show whether anybody is there.
 */
export async function publishedApi(
  issuer: string,
  { member, path }: PublishedApi,
): Promise<string | undefined> {
  try {
    const url = new URL(apiBase(issuer).origin + WELL_KNOWN.umaConfiguration)
    const signal = AbortSignal.timeout(SECONDS_MAX * 1_000)
    const headers = { accept: 'application/json' }
    const response = await fetch(url, { redirect: 'error', signal, headers })
    const document = await readJson(response, url)
    const api = response.ok && isJsonObject(document) && document['issuer'] === issuer && document[member]
    if (typeof api !== 'string') return undefined
    const address = apiBase(api).href.replace(/[/]$/, '')
    return address.endsWith(path) ? address.slice(0, -path.length) : address
  } catch {
    return undefined
  }
}
