/**
 * Owns what the resources behind the bridge list: each is listed separately and cached as long as it says, so
 * that a resource which is down or slow does not affect the others. Contract: "What the service does".
 */
import type { ClientCapabilities } from '@modelcontextprotocol/client'
import { LATE, waitAtMost } from '../../../limits/patience.ts'
import { AgentError } from '../../agent-error.ts'
import { checkAddress } from '../../transports/transport.ts'
import { asideText, type AsideMemory } from '../upstream/asides.ts'
import type { GrantProof } from '../upstream/exchange.ts'
import { foreignLine } from '../answers/foreign-text.ts'
import { openLentNames, type LentNames } from './lent-names.ts'
import type { SpoiltTool } from '../answers/readable-tool.ts'
import { CHANGED_MILLISECONDS, spaced, type Spaced } from './spaced.ts'
import type { Prefixes } from './prefixes.ts'
import { listedTools, TASK_ONLY_WHY, withChange, type ListedTool } from './tools.ts'
import type { UpstreamNotices } from '../notices/logs.ts'
import { openUpstream, type Upstream } from '../upstream/upstream.ts'
import { RETRY_MILLISECONDS, RETRY_MILLISECONDS_MAX } from '../bounds.ts'

export interface CatalogueOptions {
  resources: readonly string[]
  allowLoopback: boolean
  specNs: string
  /** Called with something that the person at the terminal should know; escaped. */
  say: (line: string) => void
}

/** The parts of the bridge that the list of tools needs. */
interface CatalogueParts {
  /** What the client can do for a tool that asks back. */
  capabilities: () => ClientCapabilities
  prefixes: Prefixes
  /** A standing grant for the resource, if one is held. */
  standingProof: (resource: string) => Promise<GrantProof | undefined>
  /** Seconds since the epoch. */
  now: () => number
  /** Takes what the server of a resource says outside calls. */
  noticesOf: (resource: string) => UpstreamNotices
  /** What is kept of where the tools of a resource ask. */
  asidesOf: (resource: string) => AsideMemory
  /** Called when a resource has given its list. */
  onListed: (resource: string) => void
  /** Notifies the client that the list is another one. */
  changed: () => void
}

export interface Listing {
  tools: ListedTool[]
  ttlMs: number
}

interface CacheEntry {
  tools: ListedTool[]
  until: number
}

/** Even if a resource says that its list may not be cached, it is not asked again for every call. */
const LISTING_MILLISECONDS_MIN = 1000
/**
 * Even if a resource says that its list may be cached for years, it is asked again each day, so that the list
 * is at most a day old.
 */
const LISTING_MILLISECONDS_MAX = 86_400_000
/** If there are several, one that takes longer than this is listed when it has answered. */
const SLOW_MILLISECONDS = 5000

/** The resources, and what they listed last. */
export class Catalogue {
  readonly #options: CatalogueOptions
  readonly #parts: CatalogueParts
  readonly #upstreams: ReadonlyMap<string, Upstream>
  readonly #listings = new Map<string, Promise<CacheEntry>>()
  readonly #lists = new Lists()
  readonly #names: LentNames
  readonly #absent: Absent
  /** Notifies the client that the list of a resource is another one. */
  readonly #seldom: ReadonlyMap<string, Spaced>

  constructor(options: CatalogueOptions, parts: CatalogueParts) {
    const { resources, say } = options
    const { prefixes, changed } = parts
    this.#options = options
    this.#parts = parts
    this.#names = openLentNames(prefixes, resource => this.renew(resource))
    this.#seldom = new Map(resources.map(resource => [resource, spaced(changed, CHANGED_MILLISECONDS)]))
    this.#upstreams = new Map(resources.map(resource => [resource, this.#upstreamFor(resource)]))
    this.#absent = new Absent({ listing: resource => this.#listing(resource), changed, say })
  }

  upstreamOf(resource: string): Upstream {
    return this.#upstreams.get(resource)!
  }

  /**
   * The tools of all that answer, and how long the list may be kept, milliseconds. Fails if none answers. One
   * that does not answer is tried again, and the client is notified when it does.
   */
  async all(): Promise<Listing> {
    const listing = await listAll(this.#options.resources, {
      listing: resource => this.#listing(resource),
      absent: this.#absent,
      lists: this.#lists,
    })
    this.#lists.deliver(listing)
    return listing
  }

  /** Reads the list of a resource, if none was read yet. Fails with `AgentError` if it does not answer. */
  async listed(resource: string): Promise<void> {
    if (!this.#lists.has(resource)) await this.#absent.orMissed(resource, this.#listing(resource))
  }

  /**
   * Hash of the tool as it was listed last; of both definitions if the client was shown another one, which is
   * what a person who is asked now knows of. Undefined for a tool that is not listed.
   */
  definitionOf(resource: string, tool: string): string | undefined {
    return this.#lists.definitionOf(resource, tool)
  }

  /** The tool of that name, as a client calls it. Fails with `AgentError` if its resource does not answer. */
  async find(name: string): Promise<ListedTool | undefined> {
    const lent = this.#names.placeOf(name)
    const places = lent === undefined ? await this.#candidates(name) : [lent.resource]
    for (const resource of places) {
      const { tools } = await this.#absent.orMissed(resource, this.#listing(resource))
      const found = tools.find(one => (lent === undefined ? one.name === name : one.tool === lent.tool))
      if (found === undefined) continue
      const definition = this.definitionOf(resource, found.tool)!
      // The client learns of it, as it would where the resource says that its list changed.
      if (definition !== found.definition) this.#seldom.get(resource)!.act()
      return { ...found, definition }
    }
    return undefined
  }

  /**
   * The list of the resource is no longer valid: it is read again when somebody asks, and the client is
   * notified.
   */
  renew(resource: string): void {
    this.#listings.delete(resource)
    this.#parts.changed()
  }

  async close(): Promise<void> {
    this.#absent.close()
    this.#names.close()
    for (const gate of this.#seldom.values()) gate.close()
    await Promise.all([...this.#upstreams.values()].map(upstream => upstream.close()))
  }

  #upstreamFor(resource: string): Upstream {
    const { allowLoopback, specNs, say } = this.#options
    const { now, capabilities, noticesOf, asidesOf, standingProof } = this.#parts
    const onToolsChanged = (): void => {
      this.#listings.delete(resource)
      this.#seldom.get(resource)!.act()
    }
    const url = checkAddress(resource, allowLoopback, 'resource')
    const of = { resource, url, specNs, now, capabilities, onToolsChanged, notices: noticesOf(resource) }
    const asides = asidesOf(resource)
    const onAside = (tool: string): void => say(asideText(resource, tool))
    return openUpstream({ ...of, asides, onAside, standingProof: () => standingProof(resource) })
  }

  async #listing(resource: string): Promise<CacheEntry> {
    const entry = this.#listings.get(resource)
    if (entry !== undefined && (await entry).until > Date.now()) return entry
    const fresh = this.#read(resource)
    this.#listings.set(resource, fresh)
    fresh.catch(() => this.#listings.get(resource) === fresh && this.#listings.delete(resource))
    return fresh
  }

  async #read(resource: string): Promise<CacheEntry> {
    const { tools, spoilt, ttlMs } = await this.upstreamOf(resource).listTools()
    this.#parts.onListed(resource)
    const hidden = [...spoilt]
    const prefix = await this.#parts.prefixes.of(resource)
    const shown = listedTools(resource, prefix, tools, tool => void hidden.push(tool))
    await this.#names.note(resource, prefix, shown)
    sayUnusable(resource, { hidden, shown }, this.#options.say)
    this.#lists.read(resource, shown)
    return { tools: shown, until: expiryOf(ttlMs) }
  }

  /**
   * The resources that may have a tool of that name: first those whose prefix it has, then those that have
   * none yet, because they may be down.
   */
  async #candidates(name: string): Promise<string[]> {
    const { resources } = this.#options
    const stored = await Promise.all(resources.map(this.#parts.prefixes.storedPrefix))
    const known = resources.filter((_, at) => stored[at] !== undefined && name.startsWith(stored[at]))
    return [...known, ...resources.filter((_, at) => stored[at] === undefined)]
  }
}

/** Lists as they were read last, and as the client was given them: what is read for a call reaches nobody. */
class Lists {
  readonly #latest = new Map<string, ListedTool[]>()
  #clientDefinitions: ReadonlyMap<string, string> = new Map()

  read(resource: string, tools: ListedTool[]): void {
    this.#latest.set(resource, tools)
  }

  deliver({ tools }: Listing): void {
    this.#clientDefinitions = new Map(
      tools.map(({ resource, tool, definition }) => [definitionName(resource, tool), definition]),
    )
  }

  has(resource: string): boolean {
    return this.#latest.has(resource)
  }

  last(resource: string): ListedTool[] {
    return this.#latest.get(resource) ?? []
  }

  definitionOf(resource: string, tool: string): string | undefined {
    const now = this.last(resource).find(one => one.tool === tool)?.definition
    return now && withChange(this.#clientDefinitions.get(definitionName(resource, tool)), now)
  }
}

function definitionName(resource: string, tool: string): string {
  return JSON.stringify([resource, tool])
}

/** The lists of all resources, in which those that do not answer have their tools of before. */
async function listAll(
  resources: readonly string[],
  {
    listing,
    absent,
    lists,
  }: { listing: (resource: string) => Promise<CacheEntry>; absent: Absent; lists: Lists },
): Promise<Listing> {
  const [only, ...others] = resources
  if (others.length === 0) return listingOf([await absent.orMissed(only!, listing(only!))])
  const answers = await Promise.allSettled(
    resources.map(resource => absent.orMissed(resource, soon(listing(resource)))),
  )
  const there = answers.flatMap(one => (one.status === 'fulfilled' ? [one.value] : []))
  const failed = answers.flatMap((one, at) => (one.status === 'rejected' ? [resources[at]!] : []))
  if (there.length === 0) throw answers.find(one => one.status === 'rejected')!.reason
  // Its last list stays in place, because a call will say what is wrong.
  const last = failed.map(resource => ({ tools: lists.last(resource), until: 0 }))
  const { tools, ttlMs } = listingOf([...there, ...last])
  return { tools, ttlMs: failed.length === 0 ? ttlMs : LISTING_MILLISECONDS_MIN }
}

/** As many of the tools that are left out are named; a hostile list must not fill the log. */
const NAMED_MAX = 20

/** Names the tools that no call reaches. */
function sayUnusable(
  resource: string,
  { hidden, shown }: { hidden: readonly SpoiltTool[]; shown: readonly ListedTool[] },
  say: (line: string) => void,
): void {
  const tools = hidden.filter(({ part }) => part === undefined)
  if (tools.length > 0)
    say(`${tools.length} tools of ${resource} cannot be shown as they are; they are left out.`)
  for (const { name, why, part = 'the tool' } of hidden.slice(0, NAMED_MAX))
    say(`${resource}: ${part} "${foreignLine(name)}" is left out: ${foreignLine(why)}.`)
  for (const { tool } of shown.filter(({ isTaskOnly }) => isTaskOnly).slice(0, NAMED_MAX))
    say(`${resource}: the tool "${foreignLine(tool)}" is listed as closed: ${TASK_ONLY_WHY}.`)
}

function expiryOf(ttlMs: number): number {
  return Date.now() + Math.max(LISTING_MILLISECONDS_MIN, Math.min(ttlMs, LISTING_MILLISECONDS_MAX))
}

function listingOf(all: CacheEntry[]): Listing {
  const ttlMs = Math.max(0, Math.min(...all.map(({ until }) => until - Date.now())))
  return { tools: all.flatMap(({ tools }) => tools), ttlMs }
}

/** The answer, or a failure if it takes long; it is still accepted later. */
async function soon<T>(answer: Promise<T>): Promise<T> {
  const answered = await waitAtMost(SLOW_MILLISECONDS, answer)
  if (answered !== LATE) return answered
  throw new AgentError('unreachable', { detail: 'It has not answered yet.', local: true, terminal: false })
}

interface AbsentParts {
  listing: (resource: string) => Promise<unknown>
  changed: () => void
  say: (line: string) => void
}

/** The resources that did not answer: they are tried again until they do, and then the client is notified. */
class Absent {
  readonly #parts: AbsentParts
  readonly #timers = new Map<string, NodeJS.Timeout>()
  #isClosed = false

  constructor(parts: AbsentParts) {
    this.#parts = parts
  }

  /**
   * The answer of a resource; if it fails, the resource is tried again. Nobody else would do so: many clients
   * read the list once, and then wait for `list_changed`.
   */
  async orMissed<T>(resource: string, answer: Promise<T>): Promise<T> {
    try {
      return await answer
    } catch (error) {
      this.#miss(resource)
      throw error
    }
  }

  close(): void {
    this.#isClosed = true
    for (const timer of this.#timers.values()) clearTimeout(timer)
  }

  #miss(resource: string): void {
    if (this.#timers.has(resource) || this.#isClosed) return
    this.#parts.say(`${resource} does not answer; its tools are listed when it does.`)
    this.#later(resource, RETRY_MILLISECONDS)
  }

  #later(resource: string, milliseconds: number): void {
    this.#timers.set(
      resource,
      setTimeout(() => void this.#again(resource, milliseconds), milliseconds).unref(),
    )
  }

  async #again(resource: string, milliseconds: number): Promise<void> {
    try {
      await this.#parts.listing(resource)
      this.#timers.delete(resource)
      this.#parts.changed()
    } catch {
      if (!this.#isClosed) this.#later(resource, Math.min(milliseconds * 2, RETRY_MILLISECONDS_MAX))
    }
  }
}
