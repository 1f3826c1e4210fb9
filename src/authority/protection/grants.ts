/**
 * What an authority hands to the protection API: its grants and what each hangs on, its ledger of accesses,
 * its registry. Contract: "Grant (RPT) liveness", "Events" (row 2), "Protection API".
 */
import { grantEnd } from '../../rules/grant-end.ts'
import {
  readRequestedResource,
  readGovernedResource,
} from '../../storage/authority/negotiations/governance.ts'
import { consumeGrant } from '../../storage/authority/grants/consume.ts'
import { readGrant, readLeasedGrant } from '../../storage/authority/grants/read.ts'
import { readResourceServer, readResourceServersAt } from '../../storage/authority/registry/resources.ts'
import type { Pools } from '../../storage/authority/database.ts'
import { inTransaction } from '../../storage/core/database.ts'
import type { AccessRecord } from '../../surface/access-reports.ts'
import type { Grants } from '../../surface/introspection.ts'
import type { RegisteredResources } from '../../surface/permission.ts'
import type { ResourceServers, ResourceServersByOrigin } from '../../surface/resource-servers.ts'
import type { Registry } from '../registry/registry.ts'
import { hearInstance, recordReports } from './reports.ts'

/** Grants that hang on a connection and a tier; `leases`: whether answers may be used again for a moment. */
export function grantsOf({ callsOf }: Pick<Pools, 'callsOf'>, { leases }: { leases: boolean }): Grants {
  return {
    read: async (holder, rptSha256, lease) => {
      const { owner, client_id: clientId } = holder
      const calls = callsOf(owner)
      const reading =
        leases && lease !== undefined
          ? await readLeasedGrant(calls, { owner, clientId, rptSha256, lease })
          : await readGrant(calls, owner, clientId, rptSha256)
      if (reading?.grant === undefined) return reading && { server: reading.server }
      const { server, grant, leased, judged } = reading
      return { server, judged, grant: { ...grant, ended: grantEnd(grant), leased } }
    },
    consume: (holder, rptSha256) => consumeGrant(callsOf(holder.owner), holder.owner, holder, rptSha256),
  }
}

/**
 * Accesses are entries of the owner's ledger, which touch the connection; so is what their numbers say is
 * missing. `now` is in seconds since the epoch.
 */
export function accessesOf({ of }: Pools, now: () => number): AccessRecord {
  return {
    record: (by, reports) => inTransaction(of(by.owner), tx => recordReports(tx, by, { reports, now })),
    hear: (by, word) => inTransaction(of(by.owner), tx => hearInstance(tx, by, word)),
  }
}

/** The resources that owners have registered; for servers that publish, those that they list now. */
export function resourcesOf(database: Pools, registry: Pick<Registry, 'lookAgain'>): RegisteredResources {
  return {
    read: of => readRequestedResource(database.of(of.owner), of),
    offer: async of => {
      const { tier } = await readGovernedResource(database.of(of.owner), of)
      return tier && { tier: tier.tier_id, ask_me: tier.ask_me, scopes: tier.terms.scope }
    },
    lookAgain: server => registry.lookAgain(server),
  }
}

/** The resource servers of the owners who are served here. */
export function resourceServersOf({ of }: Pools): ResourceServers & ResourceServersByOrigin {
  return {
    read: (owner, client_id) => readResourceServer(of(owner), owner, client_id),
    atOrigin: (owner, origin) => readResourceServersAt(of(owner), owner, origin),
  }
}
