/**
 * Owns the bridge for one client: its state on disk, the resources behind it, and the present list of their
 * tools. Contract: "What the service does", from the requesting side.
 */
import type { ClientCapabilities } from '@modelcontextprotocol/client'
import { generatePrivateJwk } from '../../wire/signatures/keys.ts'
import type { JsonObject } from '../../wire/json.ts'
import { standingGrants } from '../authorized-call.ts'
import type { AgentEvent } from '../events.ts'
import { createDirectory } from '../negotiation/metadata.ts'
import { readProfile, type AgentOptions, type Profile } from '../profile.ts'
import type { AsideMemory } from './upstream/asides.ts'
import type { GrantProof } from './upstream/exchange.ts'
import { Calls } from './calls.ts'
import { Catalogue, type CatalogueOptions } from './listing/catalogue.ts'
import type { ServerIntroduction } from './greeting.ts'
import { openIntroductions } from './listing/introductions.ts'
import type { ListName } from './notices/logs.ts'
import { createNotices, type Notices } from './notices/notices.ts'
import { methodDefinition, openObjects, type Objects } from './listing/objects.ts'
import { openPrefixes } from './listing/prefixes.ts'
import type { Upstream } from './upstream/upstream.ts'
import { bridgeState, type BridgeState, type ResourceOwner } from './negotiation/state.ts'
import type { AcceptedBeforehand } from './negotiation/terms.ts'
import { describeTool, type ListedTool } from './listing/tools.ts'
import { NEGOTIATION_SECONDS_MAX } from './bounds.ts'

/** The options that the bridge is started with. Times in seconds. */
export interface BridgeOptions extends CatalogueOptions {
  stateRoot: string
  clientName?: string | undefined
  clientId?: string | undefined
  accepted: AcceptedBeforehand
  holdSeconds: number
  lingerSeconds: number
  ownerConsole?: URL | undefined
}

/** The bridge as one client sees it. */
export interface Bridge {
  calls: Calls
  secret(): Promise<Buffer>
  /** The tools, and how long the list may be kept, milliseconds. */
  tools(): Promise<{ tools: JsonObject[]; ttlMs: number }>
  find(name: string): Promise<ListedTool | undefined>
  /** Resources, templates and prompts. */
  objects: Objects
  upstreamOf: (resource: string) => Upstream
  /** What servers say outside calls. */
  notices: Notices
  /** What each server says of itself. */
  introductions(): Promise<ServerIntroduction[]>
  /** Called with the list that changed, until the returned function is called. */
  onChanged(listener: (list: ListName) => void): () => void
  close(): Promise<void>
}

/**
 * Opens it, but sends no request before the client asks. `capabilities`: what the client can do for a tool
 * that asks back; read when the tool's server is connected.
 */
export function openBridge(
  options: BridgeOptions,
  client: string,
  capabilities: () => ClientCapabilities,
): Bridge {
  const { allowLoopback, resources, say } = options
  const state = bridgeState(options.stateRoot, client)
  const now = (): number => Math.floor(Date.now() / 1000)
  const listeners = new Set<(list: ListName) => void>()
  const listChanged = (list: ListName): void => {
    for (const listener of listeners) listener(list)
  }
  const changed = (): void => listChanged('tools')
  let secret: Promise<Buffer> | undefined
  const common = commonOf(options, client)
  const directory = createDirectory({ allowLoopback, now, onRetry: tellDocumentRetries(say) })
  const { folder } = state
  const prefixes = openPrefixes({ resources, folder, ownerNameOf: one => directory.ownerNameOf(one) })
  const profileOf = profilesOf(state, common)
  const standingProof = standingProofs(state, profileOf)
  const onListed = (resource: string): void => void introductions.note(resource)
  const upstreamOf = (resource: string): Upstream => catalogue.upstreamOf(resource)
  const notices = createNotices({ resources, upstreamOf, standingProof, changed: listChanged })
  const of = { standingProof, noticesOf: notices.from, asidesOf: asideMemories(state) }
  const needs = { capabilities, prefixes, ...of, now, changed, onListed }
  const catalogue = new Catalogue(options, needs)
  const introductions = openIntroductions({ resources, folder, upstreamOf })
  const calls = new Calls({
    state,
    directory,
    beforehand: options.accepted,
    lingerSeconds: options.lingerSeconds,
    now,
    profileOf,
    bare: readProfile({ ...common, key: generatePrivateJwk() }),
    upstreamOf,
    definitionOf: (resource, tool) => methodDefinition(tool) ?? catalogue.definitionOf(resource, tool),
    listed: resource => catalogue.listed(resource),
    onKnown: changed,
    onGranted: resource => catalogue.renew(resource),
  })
  return {
    calls,
    secret: () => {
      secret ??= state.secret()
      secret.catch(() => (secret = undefined))
      return secret
    },
    tools: async () => {
      const { tools, ttlMs } = await catalogue.all()
      return { tools: await Promise.all(tools.map(tool => described(tool, calls))), ttlMs }
    },
    find: name => catalogue.find(name),
    objects: openObjects({ resources, upstreamOf, prefixOf: prefixes.of, say }),
    upstreamOf,
    notices,
    introductions: introductions.all,
    onChanged: listener => {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    close: async () => {
      notices.close()
      await calls.close()
      await catalogue.close()
    },
  }
}

/** The tool as a client sees it, with what calling takes. */
async function described(tool: ListedTool, calls: Calls): Promise<JsonObject> {
  const { resource, tool: name } = tool
  return describeTool(tool, await calls.known(resource, name), await calls.hasGrant(resource, name))
}

/** Says what a directory waits for, because a client shows nothing while a call is under way. */
function tellDocumentRetries(say: (line: string) => void) {
  return (_code: string, seconds: number, document: string): void =>
    say(`there is an outage of the ${document}: it is asked for again in ${seconds} s`)
}

/** Says at standard error why a call takes longer: what is in an outage is asked again. */
function tellRetries(say: (line: string) => void): (event: AgentEvent) => void {
  return event => {
    if (event.type !== 'retrying') return
    say(`a resource or its authority is in an outage: it is asked again in ${event.afterSeconds} s`)
  }
}

/** What the profiles of all owners have in common. */
function commonOf(
  { clientId, allowLoopback, specNs, say }: BridgeOptions,
  client: string,
): Parameters<typeof profilesOf>[1] {
  const client_name = nameToOwner(client)
  return { client_id: clientId, client_name, allowLoopback, specNs, onEvent: tellRetries(say) }
}

/** As much of a client's name as an owner needs to know it by; undefined if nothing of it can be shown. */
function nameToOwner(client: string): string | undefined {
  const shown = client.replaceAll(/[\p{C}\p{Zl}\p{Zp}]/gu, '').trim()
  return shown === '' ? undefined : Array.from(shown).slice(0, CLIENT_NAME_CHARACTERS_MAX).join('')
}

const CLIENT_NAME_CHARACTERS_MAX = 60

/** What is kept on disk of where the tools of a resource ask. */
function asideMemories(state: BridgeState): (resource: string) => AsideMemory {
  return resource => ({
    read: tool => state.questionStream(resource, tool),
    keep: (tool, stream) => state.keepQuestionStream(resource, tool, stream),
  })
}

/** The newest standing grant that is held for a resource, with its key; undefined if there is none. */
function standingProofs(
  state: BridgeState,
  profileOf: (owner: ResourceOwner) => Promise<Profile>,
): (resource: string) => Promise<GrantProof | undefined> {
  return async resource => {
    const owner = await state.ownerOf(resource)
    if (owner === undefined) return undefined
    const profile = await profileOf(owner)
    const grants = await standingGrants(profile, resource)
    const [newest] = grants.toSorted((one, other) => other.exp - one.exp)
    return newest && { accessToken: newest.access_token, key: profile.key }
  }
}

/** The agent's identity for each owner, read once. */
function profilesOf(
  state: BridgeState,
  common: Pick<AgentOptions, 'client_id' | 'client_name' | 'allowLoopback' | 'specNs' | 'onEvent'>,
): (owner: ResourceOwner) => Promise<Profile> {
  const profiles = new Map<string, Promise<Profile>>()
  return owner => {
    const name = JSON.stringify([owner.as_uri, owner.owner])
    const known =
      profiles.get(name) ??
      state
        .identity(owner)
        .then(({ key, store }) =>
          readProfile({ ...common, key, store, waitSecondsMax: NEGOTIATION_SECONDS_MAX }),
        )
    profiles.set(name, known)
    known.catch(() => profiles.delete(name))
    return known
  }
}
