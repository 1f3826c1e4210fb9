/**
 * Owns JSON documents at addresses that others name, kept for a while. Contract: "Operator documents" and
 * "Authentication" (agent-token issuers): each is fetched at most once at a time, few at once. If a document
 * cannot be fetched, it is only unknown; the request that needed it is not wrong.
 */
import { LATE, waitAtMost } from '../../limits/patience.ts'
import { parseJson, type Json } from '../../wire/json.ts'
import { createFetchGate } from './fetch-gate.ts'
import { createOriginBudget, type OriginBudget } from './origin-budget.ts'
import { OutboundFault, type Outbound, type OutboundReason } from './outbound.ts'

export interface RemoteDocumentsOptions {
  /** A client for public addresses only; its limits are those of one fetch. */
  outbound: Outbound
  /** Milliseconds since the epoch. */
  clock: () => number
  /** How long a document is used; 300 if left out. */
  keepSeconds?: number
  /** The least age at which a document without the wanted content is fetched again; 10 if left out. */
  refetchSeconds?: number
  /** How long a failed fetch is remembered; 10 if left out. */
  failureSeconds?: number
  /** How many new origins there may be in a minute; 60 if left out. */
  newOriginsPerMinute?: number
}

export interface Looking {
  /** Whether a document has the wanted content; if not, it is fetched again sooner. */
  holds?: (json: Json) => boolean
  /** When the caller stops waiting, by the clock of the options. */
  deadline: number
  /** For a party that is known already: its fetches go first, and are never charged as new. */
  favoured: boolean
  /**
   * When the request was signed, in milliseconds since the epoch: what was read before that may lack what was
   * published for it.
   */
  signedAt?: number | undefined
  /** The largest document that is read; when left out, the bound for documents of strangers. */
  bytesMax?: number | undefined
  /** A failure keeps nobody from trying again at once: nobody asked for the document yet. */
  ahead?: boolean | undefined
}

/** Why there is no document, as a code for counts and dashboards. */
export type MissingReason = OutboundReason | 'status' | 'media_type' | 'malformed' | 'busy'

/**
 * A document, or why there is none: a clause that continues "the document …", in our own words only. `absent`
 * is true only if its server said that there is nothing at the address (404, 410). `fault` is for our own log
 * alone, because it names addresses and what name servers said.
 */
export type RemoteDocument =
  | { readonly json: Json }
  | {
      readonly missing: string
      readonly reason?: MissingReason
      readonly absent?: boolean
      readonly fault?: OutboundFault | undefined
    }

export interface RemoteDocuments {
  /** The document at a URL: 200, a JSON media type, strict JSON. Never throws. */
  read(url: string, looking: Looking): Promise<RemoteDocument>
}

type DocumentFetch = Pick<Looking, 'favoured' | 'bytesMax' | 'ahead'>

interface DocumentEntry {
  document?: { json: Json; bytes: number; fetchedAt: number }
  failure?: {
    missing: string
    reason: MissingReason
    absent?: boolean
    fault?: OutboundFault | undefined
    until: number
  }
  running?: Promise<string | undefined>
}

const PLACES = { placesMax: 16, favouredPlaces: 4, perOriginMax: 2, waitingMax: 256 }
/** The time that all fetches of one request may take together, so a longer fetch is useless. */
const FETCH_MS_MAX = 3_000
const NEW_ORIGINS_PER_SITE = 10
/**
 * The least age at which a document without the wanted content is fetched again for a request that was signed
 * after it was read: an agent may publish a key and use it at once.
 */
const REFETCH_SIGNED_MS = 1_000
const ENTRIES_MAX = 2_000
const BYTES_MAX = 8 * 1024 * 1024

/** A store of documents; the least recently used are forgotten first. */
export function createRemoteDocuments(options: RemoteDocumentsOptions): RemoteDocuments {
  return new DocumentStore(options)
}

class DocumentStore implements RemoteDocuments {
  readonly #outbound: Outbound
  readonly #clock: () => number
  readonly #keepMs: number
  readonly #refetchMs: number
  readonly #failureMs: number
  readonly #entries = new Map<string, DocumentEntry>()
  readonly #gate = createFetchGate(PLACES)
  readonly #budget: OriginBudget

  constructor(options: RemoteDocumentsOptions) {
    const { outbound, clock, newOriginsPerMinute: perMinute = 60 } = options
    this.#outbound = outbound
    this.#clock = clock
    this.#keepMs = (options.keepSeconds ?? 300) * 1_000
    this.#refetchMs = (options.refetchSeconds ?? 10) * 1_000
    this.#failureMs = (options.failureSeconds ?? 10) * 1_000
    const perSite = Math.min(perMinute, NEW_ORIGINS_PER_SITE)
    this.#budget = createOriginBudget({ clock, perMinute, perSite })
  }

  async read(url: string, looking: Looking): Promise<RemoteDocument> {
    const entry = this.#entries.get(url) ?? {}
    this.#entries.delete(url)
    this.#entries.set(url, entry)
    const known = this.#look(entry, looking)
    if (known !== undefined) return known
    const leftMs = looking.deadline - this.#clock()
    const untried = await waitAtMost(leftMs, this.#fetchOnce(entry, url, looking))
    const usable = this.#usable(entry)
    if (usable !== undefined) return usable
    if (untried === LATE) return { missing: WHY.timeout, reason: 'timeout' }
    if (untried !== undefined) return { missing: untried, reason: 'busy' }
    return entry.failure ?? { missing: 'could not be read', reason: 'broken' }
  }

  /** The document, if it is known without fetching; undefined if a fetch is due. */
  #look(entry: DocumentEntry, { holds, signedAt = 0 }: Looking): RemoteDocument | undefined {
    const document = this.#usable(entry)
    const isOlder = document !== undefined && this.#clock() - document.age < signedAt
    const againMs = isOlder ? Math.min(REFETCH_SIGNED_MS, this.#refetchMs) : this.#refetchMs
    if (document !== undefined && (document.age < againMs || (holds?.(document.json) ?? true)))
      return document
    if (entry.failure === undefined || this.#clock() >= entry.failure.until) return undefined
    return document ?? entry.failure
  }

  #usable({ document }: DocumentEntry): { json: Json; age: number } | undefined {
    if (document === undefined) return undefined
    const age = this.#clock() - document.fetchedAt
    return age < this.#keepMs ? { json: document.json, age } : undefined
  }

  #fetchOnce(entry: DocumentEntry, url: string, of: DocumentFetch): Promise<string | undefined> {
    entry.running ??= this.#fetchInto(entry, url, favouring(of, entry)).finally(() => {
      delete entry.running
      if (entry.document === undefined && entry.failure === undefined) this.#entries.delete(url)
      forgetOldest(this.#entries)
    })
    return entry.running
  }

  /** Fetches into the entry. @returns why nothing was tried, if so. */
  async #fetchInto(entry: DocumentEntry, url: string, of: DocumentFetch): Promise<string | undefined> {
    const { favoured, bytesMax, ahead } = of
    const { origin } = URL.parse(url) ?? {}
    if (origin === undefined) {
      const until = this.#clock() + this.#failureMs
      entry.failure = { missing: 'stands at no address', reason: 'forbidden_url', until }
      return
    }
    if (!favoured && !this.#budget.admits(origin)) return 'was not read: too many new operators are named now'
    const leave = await this.#gate.enter(origin, { favoured, waitMs: FETCH_MS_MAX })
    if (leave === undefined) return 'was not read: too many documents are being read now'
    try {
      entry.document = { ...(await fetchJson(this.#outbound, url, bytesMax)), fetchedAt: this.#clock() }
      delete entry.failure
      this.#budget.served(origin)
    } catch (error) {
      if (!(error instanceof Missing)) throw error
      const { message: missing, reason, absent, fault } = error
      const until = ahead === true ? 0 : this.#clock() + this.#failureMs
      entry.failure = { missing, reason, absent, fault, until }
      if (!error.answered) this.#budget.failed(origin)
    } finally {
      leave()
    }
    return undefined
  }
}

/** A document that was fetched once belongs to a known party. */
const favouring = (of: DocumentFetch, { document }: DocumentEntry): DocumentFetch => ({
  ...of,
  favoured: of.favoured || document !== undefined,
})

/**
 * Failed entries are dropped first, because strangers can name any number of bad addresses, and must not
 * displace documents.
 */
function forgetOldest(entries: Map<string, DocumentEntry>): void {
  const sizeOf = (url: string, { document }: DocumentEntry): number => url.length + (document?.bytes ?? 0)
  let bytes = 0
  for (const [url, entry] of entries) bytes += sizeOf(url, entry)
  for (const sparing of [true, false])
    for (const [url, entry] of entries) {
      if (entries.size <= ENTRIES_MAX && bytes <= BYTES_MAX) return
      if (entry.running !== undefined || (sparing && entry.document !== undefined)) continue
      bytes -= sizeOf(url, entry)
      entries.delete(url)
    }
}

/**
 * A document that could not be fetched. `answered` says whether the origin answered at all, `absent` whether
 * it said that there is none.
 */
class Missing extends Error {
  readonly reason: MissingReason
  readonly answered: boolean
  readonly absent: boolean
  /** Why the request itself had no answer; undefined if it had one. */
  readonly fault: OutboundFault | undefined
  constructor(
    message: string,
    reason: MissingReason,
    { answered = true, absent = false, fault }: Partial<Pick<Missing, 'answered' | 'absent' | 'fault'>> = {},
  ) {
    super(message)
    this.reason = reason
    this.answered = answered
    this.absent = absent
    this.fault = fault
  }
}

const ABSENT: ReadonlySet<number> = new Set([404, 410])

const WHY: Record<OutboundReason, string> = {
  forbidden_url: 'stands at an address that is not fetched from',
  forbidden_address: 'stands at no public address',
  unreachable: 'could not be reached',
  timeout: 'did not come in time',
  aborted: 'did not come in time',
  too_large: 'is too large',
  broken: 'could not be fetched',
}

async function fetchJson(
  outbound: Outbound,
  url: string,
  responseBytesMax?: number,
): Promise<{ json: Json; bytes: number }> {
  const headers = { accept: 'application/json, application/*;q=0.5' }
  const bound = responseBytesMax === undefined ? {} : { responseBytesMax }
  const answer = await outbound
    .request({ url, headers, timeoutMs: FETCH_MS_MAX, ...bound })
    .catch((cause: unknown) => {
      if (!(cause instanceof OutboundFault)) throw cause
      const answered = cause.reason === 'too_large'
      throw new Missing(WHY[cause.reason], cause.reason, { answered, fault: cause })
    })
  const { status } = answer
  if (status !== 200)
    throw new Missing(`was answered with ${status}, not 200`, 'status', { absent: ABSENT.has(status) })
  const type = answer.headers['content-type']
  if (typeof type !== 'string' || !/^application\/(?:[\w.-]+\+)?json\s*(?:;|$)/i.test(type))
    throw new Missing('has no JSON media type', 'media_type')
  try {
    return { json: parseJson(answer.body), bytes: answer.body.length }
  } catch {
    throw new Missing('is no well-formed JSON', 'malformed')
  }
}
