/**
 * Owns what the resources behind the bridge list: each for itself, kept as long as it says, so that one which
 * is down or slow takes no other with it. Contract: "What the service does".
 */
import type { ClientCapabilities } from '@modelcontextprotocol/client'
import { LATE, waitAtMost } from '../../limits/patience.ts'
import { AgentError } from '../agent-error.ts'
import { checkAddress } from '../transport.ts'
import { listedTools, prefixes, type ListedTool } from './tools.ts'
import { openUpstream, type Upstream } from './upstream.ts'

export interface CatalogueOptions {
  resources: readonly string[]
  allowLoopback: boolean
  specNs: string
  /** Something that the person at the terminal should know; escaped. */
  say: (line: string) => void
}

/** The resources, and what they listed last. */
export interface Catalogue {
  upstreamOf: (resource: string) => Upstream
  /**
   * The tools of all that answer, and how long the list may be kept, milliseconds. Fails where none answers.
   */
  all: () => Promise<Listing>
  /**
   * Reads the list of a resource, where none was read yet. Fails with `AgentError` where it does not answer.
   */
  listed: (resource: string) => Promise<unknown>
  /** Hash of the tool as it was listed last. */
  definitionOf: (resource: string, tool: string) => string | undefined
  /**
   * The tool of that name, as a client calls it. Fails with `AgentError` where its resource does not answer.
   */
  find: (name: string) => Promise<ListedTool | undefined>
  /** What the resource listed counts no more: it is read anew when somebody asks, and the client is told. */
  renew: (resource: string) => void
  close: () => Promise<void>
}

export interface Listing {
  tools: ListedTool[]
  ttlMs: number
}

interface Kept {
  tools: ListedTool[]
  until: number
}

/** A resource that says its list may not be kept is asked again, not for every call. */
const LISTING_MILLISECONDS_MIN = 1000
/** Among several, one that takes longer is listed when it has answered. */
const SLOW_MILLISECONDS = 5000
/** One that is down is tried again after this, and ever more rarely. */
const RETRY_MILLISECONDS = 5000
const RETRY_MILLISECONDS_MAX = 300_000

export function openCatalogue(
  { resources, allowLoopback, specNs, say }: CatalogueOptions,
  {
    capabilities,
    now,
    changed,
  }: { capabilities: () => ClientCapabilities; now: () => number; changed: () => void },
): Catalogue {
  const named = prefixes(resources)
  const listings = new Map<string, Promise<Kept>>()
  const latest = new Map<string, ListedTool[]>()
  const renew = (resource: string): void => {
    listings.delete(resource)
    changed()
  }
  const upstreams = new Map<string, Upstream>(
    resources.map(resource => {
      const url = checkAddress(resource, allowLoopback, 'resource')
      const onToolsChanged = (): void => renew(resource)
      return [resource, openUpstream({ resource, url, specNs, now, capabilities, onToolsChanged })]
    }),
  )
  const read = async (resource: string): Promise<Kept> => {
    const { tools, ttlMs } = await upstreams.get(resource)!.listTools()
    const shown = listedTools(resource, named.get(resource) ?? '', tools)
    const hidden = tools.length - shown.length
    if (hidden > 0) say(`${hidden} tools of ${resource} cannot be shown as they are; they are left out.`)
    latest.set(resource, shown)
    return { tools: shown, until: Date.now() + Math.max(LISTING_MILLISECONDS_MIN, ttlMs) }
  }
  const listing = async (resource: string): Promise<Kept> => {
    const kept = listings.get(resource)
    if (kept !== undefined && (await kept).until > Date.now()) return kept
    const fresh = read(resource)
    listings.set(resource, fresh)
    fresh.catch(() => listings.get(resource) === fresh && listings.delete(resource))
    return fresh
  }
  const absent = openAbsent({ listing, changed, say })
  return {
    upstreamOf: resource => upstreams.get(resource)!,
    all: async () => {
      if (resources.length === 1) return listingOf([await listing(resources[0]!)])
      const heard = await Promise.allSettled(resources.map(resource => soon(listing(resource))))
      const there = heard.flatMap(one => (one.status === 'fulfilled' ? [one.value] : []))
      const failed = heard.flatMap((one, at) => (one.status === 'rejected' ? [resources[at]!] : []))
      for (const resource of failed) absent.miss(resource)
      if (there.length === 0) throw heard.find(one => one.status === 'rejected')!.reason
      // What it listed last stays where it was: a call says what is the matter.
      const before = failed.map(resource => ({ tools: latest.get(resource) ?? [], until: 0 }))
      const { tools, ttlMs } = listingOf([...there, ...before])
      return { tools, ttlMs: failed.length === 0 ? ttlMs : LISTING_MILLISECONDS_MIN }
    },
    listed: async resource => latest.has(resource) || listing(resource),
    definitionOf: (resource, tool) => latest.get(resource)?.find(one => one.tool === tool)?.definition,
    find: async name => {
      for (const resource of resources) {
        if (!name.startsWith(named.get(resource) ?? '')) continue
        const found = (await listing(resource)).tools.find(tool => tool.name === name)
        if (found !== undefined) return found
      }
      return undefined
    },
    renew,
    close: async () => {
      absent.close()
      await Promise.all([...upstreams.values()].map(upstream => upstream.close()))
    },
  }
}

function listingOf(all: Kept[]): Listing {
  const ttlMs = Math.max(0, Math.min(...all.map(({ until }) => until - Date.now())))
  return { tools: all.flatMap(({ tools }) => tools), ttlMs }
}

/** The answer, or a failure where it takes long; it is taken later nevertheless. */
async function soon<T>(answer: Promise<T>): Promise<T> {
  const answered = await waitAtMost(SLOW_MILLISECONDS, answer)
  if (answered !== LATE) return answered
  throw new AgentError('unreachable', { detail: 'It is slow.', local: true, terminal: false })
}

/** The resources that did not answer: tried again until they do, and then the client is told. */
function openAbsent({
  listing,
  changed,
  say,
}: {
  listing: (resource: string) => Promise<unknown>
  changed: () => void
  say: (line: string) => void
}): { miss: (resource: string) => void; close: () => void } {
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
  return {
    miss: resource => {
      if (timers.has(resource) || closed) return
      say(`${resource} does not answer; its tools are listed when it does.`)
      later(resource, RETRY_MILLISECONDS)
    },
    close: () => {
      closed = true
      for (const timer of timers.values()) clearTimeout(timer)
    },
  }
}
