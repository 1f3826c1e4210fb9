/**
 * Owns the bridge for one client: its state on disk, the resources behind it, and the list of their tools as it stands. contract, "What the
 * service does", from the requesting side.
 */
import type { ClientCapabilities } from '@modelcontextprotocol/client'
import { generatePrivateJwk } from '../../wire/keys.ts'
import type { JsonObject } from '../../wire/json.ts'
import { createDirectory } from '../metadata.ts'
import { readProfile, type Profile } from '../profile.ts'
import { checkAddress } from '../transport.ts'
import { createCalls, type Calls } from './calls.ts'
import { bridgeState, type BridgeState, type Owner } from './state.ts'
import type { AcceptedBeforehand } from './terms.ts'
import { describeTool, listedTools, prefixes, type ListedTool } from './tools.ts'
import { openUpstream, type Upstream } from './upstream.ts'

/** What the bridge is started with. Times in seconds. */
export interface BridgeOptions {
  resources: readonly string[]
  stateRoot: string
  clientName?: string | undefined
  clientId?: string | undefined
  accepted: AcceptedBeforehand
  holdSeconds: number
  lingerSeconds: number
  ownerConsole?: URL | undefined
  allowLoopback: boolean
  specNs: string
  /** Something that the person at the terminal should know; escaped. */
  say: (line: string) => void
}

/** The bridge as one client sees it. */
export interface Bridge {
  calls: Calls
  secret(): Promise<Buffer>
  /** The tools, and how long the list may be kept, milliseconds. */
  tools(): Promise<{ tools: JsonObject[]; ttlMs: number }>
  find(name: string): Promise<ListedTool | undefined>
  onChanged(listener: () => void): () => void
  close(): Promise<void>
}

interface Listing {
  tools: ListedTool[]
  until: number
}

/** Opens it; nothing is asked of anybody before the client asks. */
export function openBridge(options: BridgeOptions, client: string, capabilities: ClientCapabilities): Bridge {
  const { resources, allowLoopback, specNs, clientId } = options
  const state = bridgeState(options.stateRoot, client)
  const now = (): number => Math.floor(Date.now() / 1000)
  const listeners = new Set<() => void>()
  const changed = (): void => {
    for (const listener of listeners) listener()
  }
  const common = { client_id: clientId, allowLoopback, specNs }
  const catalogue = openCatalogue(options, { capabilities, now, changed })
  const calls = createCalls({
    state,
    directory: createDirectory({ allowLoopback, now }),
    beforehand: options.accepted,
    lingerSeconds: options.lingerSeconds,
    now,
    profileOf: profilesOf(state, common),
    bare: readProfile({ ...common, key: generatePrivateJwk() }),
    upstreamOf: catalogue.upstreamOf,
    definitionOf: catalogue.definitionOf,
    onKnown: changed,
  })
  const described = async (tool: ListedTool): Promise<JsonObject> =>
    describeTool(
      tool,
      await calls.known(tool.resource, tool.tool),
      await calls.held(tool.resource, tool.tool),
    )
  return {
    calls,
    secret: () => state.secret(),
    tools: async () => {
      const all = await Promise.all(resources.map(catalogue.listing))
      const ttlMs = Math.max(0, Math.min(...all.map(({ until }) => until - Date.now())))
      return { tools: await Promise.all(all.flatMap(({ tools }) => tools).map(described)), ttlMs }
    },
    find: catalogue.find,
    onChanged: listener => {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    close: async () => {
      await calls.close()
      await catalogue.close()
    },
  }
}

/** Who the agent is to each owner, read once. */
function profilesOf(
  state: BridgeState,
  common: { client_id: string | undefined; allowLoopback: boolean; specNs: string },
): (owner: Owner) => Promise<Profile> {
  const profiles = new Map<string, Promise<Profile>>()
  return owner => {
    const name = JSON.stringify([owner.as_uri, owner.owner])
    const known =
      profiles.get(name) ??
      state
        .identity(owner)
        .then(({ key, store }) => readProfile({ ...common, key, store, waitSecondsMax: WAIT_SECONDS_MAX }))
    profiles.set(name, known)
    known.catch(() => profiles.delete(name))
    return known
  }
}

/** As long as a negotiation lives: who waits for it, and how long, is said by holding and lingering. */
const WAIT_SECONDS_MAX = 7 * 86_400

interface Catalogue {
  upstreamOf: (resource: string) => Upstream
  listing: (resource: string) => Promise<Listing>
  definitionOf: (resource: string, tool: string) => string | undefined
  find: (name: string) => Promise<ListedTool | undefined>
  close: () => Promise<void>
}

/** The resources, and what they listed last. */
function openCatalogue(
  { resources, allowLoopback, specNs, say }: BridgeOptions,
  {
    capabilities,
    now,
    changed,
  }: { capabilities: ClientCapabilities; now: () => number; changed: () => void },
): Catalogue {
  const named = prefixes(resources)
  const listings = new Map<string, Promise<Listing>>()
  const latest = new Map<string, ListedTool[]>()
  const upstreams = new Map<string, Upstream>(
    resources.map(resource => {
      const url = checkAddress(resource, allowLoopback, 'resource')
      const onToolsChanged = (): void => {
        listings.delete(resource)
        changed()
      }
      return [resource, openUpstream({ resource, url, specNs, now, capabilities, onToolsChanged })]
    }),
  )
  const read = async (resource: string): Promise<Listing> => {
    const { tools, ttlMs } = await upstreams.get(resource)!.listTools()
    const shown = listedTools(resource, named.get(resource) ?? '', tools)
    const hidden = tools.length - shown.length
    if (hidden > 0) say(`${hidden} tools of ${resource} have names that cannot be shown; they are left out.`)
    latest.set(resource, shown)
    return { tools: shown, until: Date.now() + Math.max(LISTING_MILLISECONDS_MIN, ttlMs) }
  }
  const listing: Catalogue['listing'] = async resource => {
    const kept = listings.get(resource)
    if (kept !== undefined && (await kept).until > Date.now()) return kept
    const fresh = read(resource)
    listings.set(resource, fresh)
    fresh.catch(() => listings.get(resource) === fresh && listings.delete(resource))
    return fresh
  }
  return {
    upstreamOf: resource => upstreams.get(resource)!,
    listing,
    definitionOf: (resource, tool) => latest.get(resource)?.find(one => one.tool === tool)?.definition,
    find: async name => {
      for (const resource of resources) {
        if (!name.startsWith(named.get(resource) ?? '')) continue
        const found = (await listing(resource)).tools.find(tool => tool.name === name)
        if (found !== undefined) return found
      }
      return undefined
    },
    close: async () => {
      await Promise.all([...upstreams.values()].map(upstream => upstream.close()))
    },
  }
}

/** A resource that says its list may not be kept is asked again, not for every call. */
const LISTING_MILLISECONDS_MIN = 1000
