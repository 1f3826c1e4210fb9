/**
 * Owns which owners are served now, and what continues from one configuration to the next. Contract:
 * "Resource server enforcement point".
 */
import { isDeepStrictEqual } from 'node:util'
import type { SidecarOwner } from '../config.ts'
import type { RegistrationLoop } from './authorities/registration.ts'
import { routeTable, type Route, type RouteTable } from './request/routes.ts'

export interface ServedOwners {
  /** The routes of the owners who are served at the time of each read. */
  readonly table: RouteTable
  /** Registers with the authorities that should be asked, including those of owners who come later. */
  register(): void
  /** Serves these from now on, in place of those before. */
  serve(owners: readonly SidecarOwner[]): void
  /** Ends the background work. */
  stop(): void
}

interface ServedOwner {
  owner: SidecarOwner
  route: Route
}

export interface ServedOwnersOptions {
  owners: readonly SidecarOwner[]
  /** Makes the route of an owner; sends no request. */
  open: (owner: SidecarOwner) => Route
  /** Asks her authority to let this resource server in; undefined if it should not be asked. */
  register: (owner: SidecarOwner) => RegistrationLoop | undefined
}

/** Serves these owners; no request is sent yet. */
export function serveOwners({ owners, open, register }: ServedOwnersOptions): ServedOwners {
  const remember = rememberingSpent()
  let served = new Map<string, ServedOwner>(
    owners.map(owner => [keyOf(owner), { owner, route: remember(open(owner)) }] as const),
  )
  let current = tableOf(served)
  const registrations = new Map<string, RegistrationLoop>()
  const registerAll = (which: readonly SidecarOwner[]): void => {
    for (const owner of which) {
      const registration = register(owner)
      if (registration !== undefined) registrations.set(keyOf(owner), registration)
    }
  }
  return {
    table: {
      get routes() {
        return current.routes
      },
      find: call => current.find(call),
    },
    register: () => registerAll([...served.values()].map(({ owner }) => owner)),
    serve: next => {
      const before = served
      served = new Map(
        next.map(owner => {
          const key = keyOf(owner)
          return [key, { owner, route: remember(continued(before.get(key), owner, open)) }]
        }),
      )
      current = tableOf(served)
      const clients = clientsOf(served)
      for (const [key, { route }] of before) {
        if (clients.has(route.client)) continue
        registrations.get(key)?.stop()
        registrations.delete(key)
        route.organization?.view.stop()
        void route.client.leases?.stop()
      }
      const known = clientsOf(before)
      registerAll(
        [...served.values()].flatMap(({ owner, route }) => (known.has(route.client) ? [] : [owner])),
      )
    },
    stop: () => {
      for (const registration of registrations.values()) registration.stop()
      for (const { organization } of current.routes) organization?.view.stop()
    },
  }
}

function tableOf(served: ReadonlyMap<string, ServedOwner>): RouteTable {
  return routeTable([...served.values()].map(({ route }) => route))
}

function clientsOf(served: ReadonlyMap<string, ServedOwner>): ReadonlySet<Route['client']> {
  return new Set([...served.values()].map(({ route }) => route.client))
}

/** One resource of one owner. What continues belongs to this resource, not to her others. */
function keyOf({ owner, path }: SidecarOwner): string {
  return JSON.stringify([owner, path])
}

/**
 * The route of an owner as she is configured now. If only her tools changed, everything that is known about
 * her is kept. If the way to reach her authority changed, it begins anew.
 */
function continued(
  before: ServedOwner | undefined,
  owner: SidecarOwner,
  open: (owner: SidecarOwner) => Route,
): Route {
  if (before === undefined) return open(owner)
  if (isDeepStrictEqual(before.owner, owner)) return before.route
  const route = open(owner)
  if (!isDeepStrictEqual(reached(before.owner), reached(owner))) return route
  const { client, organization, joint } = before.route
  return { ...route, client, organization, joint }
}

/**
 * For the same account at the same tally, spent grants stay known for all its resources: neither another
 * pinned digest nor another resource makes a spent grant valid again.
 */
function rememberingSpent(): (route: Route) => Route {
  const spentOf = new Map<string, NonNullable<Route['joint']>['spent']>()
  return route => {
    const { joint } = route
    if (joint === undefined) return route
    const key = JSON.stringify([joint.tally, joint.account])
    const spent = spentOf.get(key) ?? joint.spent
    spentOf.set(key, spent)
    return spent === joint.spent ? route : { ...route, joint: { ...joint, spent } }
  }
}

function reached({
  tools: _tools,
  api: _api,
  methods: _methods,
  upstream: _upstream,
  ...rest
}: SidecarOwner): object {
  return rest
}
