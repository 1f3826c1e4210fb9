/**
 * Says of tiers that the operator makes for an owner how many agents may use them at once without asking her,
 * because they have a connection to her. Contract: "Connection", "Policy vocabulary and tiers".
 */
import type { RequestFacts } from '../rules/conditions.ts'
import { mayLetThrough, type TierRules } from '../rules/tier.ts'
import type { Tx } from '../storage/authority/database.ts'
import { countAgentsAt, type AgentsAtTier } from '../storage/authority/connections/agents-at-tiers.ts'
import { listPassingTiers } from '../storage/authority/policies/tiers.ts'
import type { Owner } from '../wire/identifiers.ts'
import { rulesFor } from './negotiation/evaluation.ts'

/**
 * A sentence for each of these new tiers that agents may use without asking her; none for a tier that asks
 * them, that governs nothing, or that nobody can use yet.
 */
export async function unaskedAgents(
  tx: Tx,
  owner: Owner,
  tierIds: readonly string[],
): Promise<Map<string, string>> {
  if (tierIds.length === 0) return new Map()
  const tiers = (await listPassingTiers(tx, owner)).filter(({ tier_id }) => tierIds.includes(tier_id))
  if (tiers.length === 0) return new Map()
  const groups = await countAgentsAt(
    tx,
    owner,
    tiers.map(({ tier_id }) => tier_id),
  )
  const sentences = tiers.map(tier => {
    const passing = groups.filter(group => group.tier_id === tier.tier_id && mayPass(tier, group))
    return [tier.tier_id, sentenceOf(passing)] as const
  })
  return new Map(sentences.filter((one): one is [string, string] => one[1] !== undefined))
}

function sentenceOf(passing: readonly AgentsAtTier[]): string | undefined {
  const agents = sumOf(passing)
  if (agents === 0) return undefined
  const before = sumOf(passing.filter(group => group.approvedAtTier || group.lineageGrantedAtTier))
  const earlier =
    before === 0 ? '' : `; what stands of an earlier tier of this id counts for ${before} of them`
  const who = `${agents} agent${agents === 1 ? '' : 's'} with a connection to her`
  return `${who} may use it without asking her${earlier}`
}

function sumOf(groups: readonly AgentsAtTier[]): number {
  return groups.reduce((sum, { agents }) => sum + agents, 0)
}

/** The best is assumed of all that is not read, such as what a later request asks for. */
function mayPass(tier: TierRules, group: AgentsAtTier): boolean {
  const facts: RequestFacts = {
    connection: 'active',
    standing: {
      approvedAtTier: group.approvedAtTier,
      firstAtTier: !group.grantedAtTier,
      lineageNewAtTier: !group.lineageGrantedAtTier,
      introduced: group.introduced,
      neverRevoked: undefined,
      firstParty: undefined,
      revokedBefore: undefined,
    },
    assurance: { binding: undefined, provenance: undefined, accountability: undefined },
    request: { expiresInSeconds: undefined, reasonAbsent: undefined, missionAbsent: undefined },
  }
  return mayLetThrough(rulesFor(tier, group), facts)
}
