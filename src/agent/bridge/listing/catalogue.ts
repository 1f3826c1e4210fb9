/**
 * Owns what the resources behind the bridge list: each is listed separately and cached as long as it says, so
 * that a resource which is down or slow does not affect the others. Contract: "What the service does".
 */
import type { ClientCapabilities } from '@modelcontextprotocol/client'
import { LATE, waitAtMost } from '../../../limits/patience.ts'
import { AgentError } from '../../agent-error.ts'
import { checkAddress } from '../../transports/transport.ts'
import type { Proof } from '../upstream/exchange.ts'
import { foreignLine } from '../answers/foreign-text.ts'
import { openLentNames } from './lent-names.ts'
import type { SpoiltTool } from '../answers/readable-tool.ts'
import { CHANGED_MILLISECONDS, spaced } from './spaced.ts'
import type { Prefixes } from './prefixes.ts'
import { listedTools, TASK_ONLY_WHY, withChange, type ListedTool } from './tools.ts'
import type { UpstreamNotices } from '../notices/logs.ts'
import { openUpstream, type Upstream } from '../upstream/upstream.ts'

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
  standingProof: (resource: string) => Promise<Proof | undefined>
  /** Seconds since the epoch. */
  now: () => number
  /** Takes what the server of a resource says outside calls. */
  noticesOf: (resource: string) => UpstreamNotices
  /** Called when a resource has given its list. */
  onListed: (resource: string) => void
  /** Notifies the client that the list is another one. */
  changed: () => void
}

/** The resources, and what they listed last. */
export interface Catalogue {
  upstreamOf: (resource: string) => Upstream
  /**
   * The tools of all that answer, and how long the list may be kept, milliseconds. Fails if none answers. One
   * that does not answer is tried again, and the client is notified when it does.
   */
  all: () => Promise<Listing>
  /**
   * Reads the list of a resource, if none was read yet. Fails with `AgentError` if it does not answer.
   */
  listed: (resource: string) => Promise<unknown>
  /**
   * Hash of the tool as it was listed last; of both definitions if the client was shown another one, which is
   * what a person who is asked now knows of. Undefined for a tool that is not listed.
   */
  definitionOf: (resource: string, tool: string) => string | undefined
  /**
   * The tool of that name, as a client calls it. Fails with `AgentError` if its resource does not answer.
   */
  find: (name: string) => Promise<ListedTool | undefined>
  /**
   * The list of the resource is no longer valid: it is read again when somebody asks, and the client is
   * notified.
   */
  renew: (resource: string) => void
  close: () => Promise<void>
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
/** A resource that is down is tried again after this time, and then more and more rarely. */
const RETRY_MILLISECONDS = 5000
const RETRY_MILLISECONDS_MAX = 300_000

export function openCatalogue(
  { resources, allowLoopback, specNs, say }: CatalogueOptions,
  { capabilities, prefixes, standingProof, noticesOf, now, changed, onListed }: CatalogueParts,
): Catalogue {
  const listings = new Map<string, Promise<CacheEntry>>()
  const lists = openLists()
  const renew = (resource: string): void => {
    listings.delete(resource)
    changed()
  }
  const names = openLentNames(prefixes, renew)
  const seldom = new Map(resources.map(resource => [resource, spaced(changed, CHANGED_MILLISECONDS)]))
  const upstreamFor = (resource: string): Upstream => {
    const onToolsChanged = (): void => {
      listings.delete(resource)
      seldom.get(resource)!.act()
    }
    const url = checkAddress(resource, allowLoopback, 'resource')
    const of = { resource, url, specNs, now, capabilities, onToolsChanged, notices: noticesOf(resource) }
    return openUpstream({ ...of, standingProof: () => standingProof(resource) })
  }
  const upstreams = new Map(resources.map(resource => [resource, upstreamFor(resource)]))
  const read = async (resource: string): Promise<CacheEntry> => {
    const { tools, spoilt, ttlMs } = await upstreams.get(resource)!.listTools()
    onListed(resource)
    const hidden = [...spoilt]
    const prefix = await prefixes.of(resource)
    const shown = listedTools(resource, prefix, tools, tool => void hidden.push(tool))
    await names.note(resource, prefix, shown)
    sayUnusable(resource, { hidden, shown }, say)
    lists.read(resource, shown)
    return { tools: shown, until: expiryOf(ttlMs) }
  }
  const listing = async (resource: string): Promise<CacheEntry> => {
    const entry = listings.get(resource)
    if (entry !== undefined && (await entry).until > Date.now()) return entry
    const fresh = read(resource)
    listings.set(resource, fresh)
    fresh.catch(() => listings.get(resource) === fresh && listings.delete(resource))
    return fresh
  }
  const absent = openAbsent({ listing, changed, say })
  return {
    upstreamOf: resource => upstreams.get(resource)!,
    all: async () =>
      lists.deliver(await listAll(resources, { listing, orMissed: absent.orMissed, before: lists.last })),
    listed: async resource => lists.has(resource) || absent.orMissed(resource, listing(resource)),
    definitionOf: lists.definitionOf,
    find: async name => {
      const lent = names.placeOf(name)
      const places = lent === undefined ? await candidates(name, resources, prefixes) : [lent.resource]
      for (const resource of places) {
        const { tools } = await absent.orMissed(resource, listing(resource))
        const found = tools.find(one => (lent === undefined ? one.name === name : one.tool === lent.tool))
        if (found === undefined) continue
        const definition = lists.definitionOf(resource, found.tool)!
        // The client learns of it, as it would where the resource says that its list changed.
        if (definition !== found.definition) seldom.get(resource)!.act()
        return { ...found, definition }
      }
      return undefined
    },
    renew,
    close: async () => {
      absent.close()
      names.close()
      for (const gate of seldom.values()) gate.close()
      await Promise.all([...upstreams.values()].map(upstream => upstream.close()))
    },
  }
}

/** Lists as they were read last, and as the client was given them: what is read for a call reaches nobody. */
interface Lists {
  read: (resource: string, tools: ListedTool[]) => void
  deliver: (listing: Listing) => Listing
  has: (resource: string) => boolean
  last: (resource: string) => ListedTool[]
  definitionOf: Catalogue['definitionOf']
}

function openLists(): Lists {
  const latest = new Map<string, ListedTool[]>()
  let clientDefinitions: ReadonlyMap<string, string> = new Map()
  const nameOf = (resource: string, tool: string): string => JSON.stringify([resource, tool])
  return {
    read: (resource, tools) => void latest.set(resource, tools),
    deliver: listing => {
      const { tools } = listing
      clientDefinitions = new Map(
        tools.map(({ resource, tool, definition }) => [nameOf(resource, tool), definition]),
      )
      return listing
    },
    has: resource => latest.has(resource),
    last: resource => latest.get(resource) ?? [],
    definitionOf: (resource, tool) => {
      const now = latest.get(resource)?.find(one => one.tool === tool)?.definition
      return now && withChange(clientDefinitions.get(nameOf(resource, tool)), now)
    },
  }
}

/**
 * The resources that may have a tool of that name: first those whose prefix it has, then those that have none
 * yet, because they may be down.
 */
async function candidates(name: string, resources: readonly string[], prefixes: Prefixes): Promise<string[]> {
  const storedPrefixes = await Promise.all(resources.map(prefixes.storedPrefix))
  const known = resources.filter(
    (_, at) => storedPrefixes[at] !== undefined && name.startsWith(storedPrefixes[at]),
  )
  return [...known, ...resources.filter((_, at) => storedPrefixes[at] === undefined)]
}

/** The lists of all resources, in which those that do not answer have their tools of before. */
async function listAll(
  resources: readonly string[],
  {
    listing,
    orMissed,
    before,
  }: {
    listing: (resource: string) => Promise<CacheEntry>
    orMissed: Absent['orMissed']
    before: (resource: string) => ListedTool[]
  },
): Promise<Listing> {
  const [only, ...others] = resources
  if (others.length === 0) return listingOf([await orMissed(only!, listing(only!))])
  const answers = await Promise.allSettled(
    resources.map(resource => orMissed(resource, soon(listing(resource)))),
  )
  const there = answers.flatMap(one => (one.status === 'fulfilled' ? [one.value] : []))
  const failed = answers.flatMap((one, at) => (one.status === 'rejected' ? [resources[at]!] : []))
  if (there.length === 0) throw answers.find(one => one.status === 'rejected')!.reason
  // Its last list stays in place, because a call will say what is wrong.
  const last = failed.map(resource => ({ tools: before(resource), until: 0 }))
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
  throw new AgentError('unreachable', { detail: 'It is slow.', local: true, terminal: false })
}

/** The resources that did not answer: they are tried again until they do, and then the client is notified. */
interface Absent {
  /**
   * The answer of a resource; if it fails, the resource is tried again. Nobody else would do so: many clients
   * read the list once, and then wait for `list_changed`.
   */
  orMissed: <T>(resource: string, answer: Promise<T>) => Promise<T>
  close: () => void
}

function openAbsent({
  listing,
  changed,
  say,
}: {
  listing: (resource: string) => Promise<unknown>
  changed: () => void
  say: (line: string) => void
}): Absent {
  const timers = new Map<string, NodeJS.Timeout>()
  let closed = false
  const later = (resource: string, milliseconds: number): void => {
    const again = async (): Promise<void> => {
      try {
        await listing(resource)
        timers.delete(resource)
        changed()
      } catch {
        if (!closed) later(resource, Math.min(milliseconds * 2, RETRY_MILLISECONDS_MAX))
      }
    }
    timers.set(resource, setTimeout(() => void again(), milliseconds).unref())
  }
  const miss = (resource: string): void => {
    if (timers.has(resource) || closed) return
    say(`${resource} does not answer; its tools are listed when it does.`)
    later(resource, RETRY_MILLISECONDS)
  }
  return {
    orMissed: async (resource, answer) => {
      try {
        return await answer
      } catch (error) {
        miss(resource)
        throw error
      }
    },
    close: () => {
      closed = true
      for (const timer of timers.values()) clearTimeout(timer)
    },
  }
}
