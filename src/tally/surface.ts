/**
 * What a tally provides to the surface that it serves: its keys and clock, folded terms, its rows. Contract:
 * "Tally for a jointly held resource" (the ordinary authorization server surface).
 */
import type { GrantEnd } from '../rules/grant-end.ts'
import { readAccount, readResource, readResourceServer, listAccounts } from '../storage/tally/accounts.ts'
import { recordAccesses } from '../storage/tally/accesses.ts'
import type { Pools } from '../storage/tally/database.ts'
import { consumeGrant, readGrant, type TallyGrantReading } from '../storage/tally/grants.ts'
import { readLatestTerms, readTerms } from '../storage/tally/terms.ts'
import type { AccessRecord, AccessReportEntry } from '../surface/access-reports.ts'
import type { AgentIssuers } from '../surface/agents/agent-issuers.ts'
import type { Grants } from '../surface/introspection.ts'
import type { Signer } from '../surface/issuer.ts'
import { createPatGuard } from '../surface/pat-guard.ts'
import type { RegisteredResources } from '../surface/permission.ts'
import type { ResourceServers, ResourceServersByOrigin } from '../surface/resource-servers.ts'
import type { Surface } from '../surface/surface.ts'
import type { TermsSource } from '../surface/terms.ts'
import { issuePat } from '../surface/token/client-credentials.ts'
import { PollPlaces } from '../surface/token/poll-places.ts'
import { negotiate } from '../surface/token/ticket-grant.ts'
import { authorizationServerMetadata } from '../wire/resources/authorization-server-metadata.ts'
import { newJti } from '../wire/negotiation/ticket.ts'
import type { Tally } from './context.ts'
import { decisionsOf, type TallyDecisionContext } from './negotiation/decisions.ts'
import { JOINT_TIER, negotiationsOf, type Negotiating } from './negotiation/negotiations.ts'

/** The surface of a tally. */
export function surfaceOf(
  tally: Tally & Negotiating & TallyDecisionContext & { agentIssuers: AgentIssuers },
): Surface {
  const { issuer, specNs, aliases, clock, limits, agentIssuers, database } = tally
  const { pollSeconds, reasonBytesMax, patSeconds, ticketSeconds } = limits
  const servers = resourceServersOf(database)
  const tickets = {
    issuer: tally,
    agentIssuers,
    negotiations: negotiationsOf(tally),
    decisions: decisionsOf(tally),
    // A tally vouches for nobody, and requires nobody to vouch.
    identities: { requirement: async () => undefined, take: async () => ({ kind: 'gone' as const }) },
    pollSeconds,
    pollPlaces: new PollPlaces(),
    reasonBytesMax,
  }
  // Each resource server has a secret in the file.
  const proofs = {
    prove: async () => 'unproven' as const,
    issued: async () => undefined,
    wrongProof: () => undefined,
  }
  const pats = { signer: tally, servers, proofs, patSeconds }
  return {
    issuer: tally,
    clock,
    metadata: authorizationServerMetadata({ issuer, specNs, aliases, tally: true }),
    terms: termsSource(database),
    negotiate: request => negotiate(tickets, request),
    issuePat: (form, caller) => issuePat(pats, form, caller),
    guard: createPatGuard(tally),
    resources: resourcesOf(database),
    ticketSeconds,
    grants: grantsOf(database),
    servers,
    accesses: accessesOf(database, tally),
  }
}

function resourceServersOf({ of }: Pools): ResourceServers & ResourceServersByOrigin {
  return {
    read: async (owner, client_id) => {
      const row = await readResourceServer(of(owner), owner, client_id)
      return row && { ...row, owner, auth: 'secret' }
    },
    atOrigin: async () => [],
  }
}

function resourcesOf({ of }: Pools): RegisteredResources {
  return {
    read: async ({ owner, client_id, resource_id }) => {
      const db = of(owner)
      const [account, server, resource] = await Promise.all([
        readAccount(db, owner),
        readResourceServer(db, owner, client_id),
        readResource(db, owner, resource_id),
      ])
      if (account === undefined || server === undefined) return undefined
      return { tag: account.tag, server: { ...server, publishes: false }, ...(resource && { resource }) }
    },
    lookAgain: async () => undefined,
  }
}

function termsSource({ ofNobody: db }: Pools): TermsSource {
  return {
    owners: limit => listAccounts(db, limit),
    standing: async (owner, { after }) => {
      if ((await readAccount(db, owner)) === undefined) return undefined
      const latest = after === undefined ? await readLatestTerms(db, owner) : undefined
      return latest === undefined ? [] : [latest]
    },
    version: async ({ owner, tier_id, version }) =>
      tier_id === JOINT_TIER ? readTerms(db, owner, version) : undefined,
  }
}

function grantsOf({ callsOf }: Pools): Grants {
  return {
    read: async ({ owner, client_id: clientId }, rptSha256) => {
      const reading = await readGrant(callsOf(owner), { owner, clientId, rptSha256 })
      if (reading?.grant === undefined) return reading && { server: reading.server }
      return { server: reading.server, grant: { ...reading.grant, ended: endOf(reading.grant) } }
    },
    consume: async ({ owner: account, client_id, generation }, rptSha256) => {
      const family = await consumeGrant(callsOf(account), { account, client_id, generation, rptSha256 })
      return family && { family }
    },
  }
}

function endOf({ withdrawn, current }: NonNullable<TallyGrantReading['grant']>): GrantEnd | null {
  if (withdrawn) return 'connection_revoked'
  return current ? null : 'revoked'
}

/** Nobody here needs to know about missing reports, so only the calls themselves are stored. */
function accessesOf({ of }: Pools, { now }: Signer): AccessRecord {
  return {
    record: async ({ owner: account, client_id }, reports) => {
      const accesses = reports.map(report => {
        const { family, jti, tool, summary, at = now() } = report
        return { key: keyOf(report), family, jti, tool, summary, at }
      })
      const outcomes = await recordAccesses(of(account), { account, client_id }, accesses)
      return {
        recorded: outcomes.filter(outcome => outcome === 'recorded').length,
        unknown: [...outcomes.keys()].filter(place => outcomes[place] === 'unknown'),
      }
    },
    hear: async () => undefined,
  }
}

function keyOf({ id, instance, n }: AccessReportEntry): string {
  if (instance !== undefined) return `n ${n} ${instance}`
  return id === undefined ? newJti('access_') : `id ${id}`
}
