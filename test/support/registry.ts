/**
 * Owns the state of the registry in tests: what its owner is told about a source, and a way to make a pull
 * due without waiting.
 */
import type { Reply, TestAuthority, TestOwner } from './authority.ts'
import { decideServer, type ListedResource, type TestResourceServer, type Twists } from './resource-server.ts'
import { until } from './until.ts'

export interface SourceState {
  landed_at: string | null
  failed_at: string | null
  fault: string | null
  conflicts: number
}

/** What alice is told of the pulls from a resource server; null if nothing is pulled. */
export async function registryOf(authority: TestAuthority, client_id: string): Promise<SourceState | null> {
  const { body } = await authority.call(authority.alice, { target: '/owner/resource-servers?limit=1000' })
  const found = (body as { client_id: string; registry: SourceState | null }[]).find(
    one => one.client_id === client_id,
  )
  if (found === undefined) throw new Error(`alice has no resource server ${client_id}`)
  return found.registry
}

/** Waits until a pull has landed or failed. */
export async function pulled(authority: TestAuthority, client_id: string): Promise<void> {
  await until(async () => {
    const state = await registryOf(authority, client_id)
    return state?.landed_at != null || state?.fault != null
  }, 15_000)
}

/** As if the last pull from a source had been tried so many seconds earlier. */
export async function agePulls(authority: TestAuthority, client_id: string, seconds = 3_600): Promise<void> {
  await authority.database.pool.query(
    `UPDATE registry_pulls SET tried_at = tried_at - $2 * interval '1 second' WHERE client_id = $1`,
    [client_id, seconds],
  )
}

/**
 * Resource servers of alice's that publish, and what became of it. Each source is a resource of its own at
 * one origin.
 */
export interface Sources {
  /** Registers and approves a resource that lists these; answers its name once a pull from it has ended. */
  published(listing: ListedResource[], twists?: Twists): Promise<string>
  /** The name that the next source will have. */
  next(): string
  /** POST /perm for one of alice's resources, by the source of that name. */
  perm(name: string, id: string, at?: TestAuthority): Promise<Reply>
  /** Makes a pull due, and has `/perm` cause it by naming what is not known. */
  pullAgain(name: string, id?: string): Promise<void>
  /** What an owner has registered, alice when left out. */
  resources(owner?: TestOwner): Promise<RegisteredResource[]>
  resource(id: string): Promise<RegisteredResource | undefined>
  state(name: string): Promise<SourceState | null>
  /** Saves a tier `tier-<id>` over one resource. */
  govern(id: string): Promise<void>
}

export interface RegisteredResource {
  _id: string
  source: string
  tier: string | null
  [member: string]: unknown
}

/** A listing's entry below alice's name. */
export function listed(id: string, more: Partial<ListedResource> = {}): ListedResource {
  return { _id: `alice/${id}`, name: id, type: 'tool', resource_scopes: ['read'], ...more }
}

/** Sources at `tools` for alice of `authority`. */
export function sourcesOf(authority: TestAuthority, tools: TestResourceServer): Sources {
  let count = 0
  const sources: Sources = {
    next: () => `source-${count}`,
    published: async (listing, twists = {}) => {
      const name = `source-${count++}`
      tools.listings[name] = listing
      tools.twists[name] = twists
      await tools.register(authority, name)
      await decideServer(authority, tools.resource(name), 'approved')
      await pulled(authority, tools.resource(name))
      return name
    },
    perm: async (name, id, at = authority) =>
      at.request('POST', '/perm', {
        headers: {
          authorization: `Bearer ${await tools.pat(at, name)}`,
          'content-type': 'application/json',
        },
        body: JSON.stringify({ resource_id: `alice/${id}`, resource_scopes: ['read'] }),
      }),
    pullAgain: async (name, id = 'nowhere') => {
      await agePulls(authority, tools.resource(name))
      await sources.perm(name, id)
    },
    resources: async (owner = authority.alice) =>
      (await authority.call(owner, { target: '/owner/resources?limit=1000' })).body as RegisteredResource[],
    resource: async id => (await sources.resources()).find(({ _id }) => _id === `alice/${id}`),
    state: name => registryOf(authority, tools.resource(name)),
    govern: async id => {
      const terms = {
        purpose: 'Read it',
        scope: ['read'],
        expires_in: 600,
        prohibited: [],
        per_operation: false,
      }
      const tier = {
        id: `tier-${id}`,
        name: `For ${id}`,
        resources: [`alice/${id}`],
        ask_me: false,
        rules: [],
        terms,
      }
      const reply = await authority.call(authority.alice, {
        method: 'POST',
        target: '/owner/policies',
        json: tier,
      })
      if (reply.status !== 201) throw new Error(`no tier: ${reply.status} ${reply.text}`)
    },
  }
  return sources
}
