/**
 * Says of tiers that the operator makes for an owner how many agents may use them at once without asking her,
 * because she let them in before. Contract: "Connection", "Policy vocabulary and tiers".
 */
import { mayLetThrough } from '../rules/tier.ts'
import type { Tx } from '../storage/authority/database.ts'
import { countFullReach } from '../storage/authority/connections/connections.ts'
import { listPassingTiers } from '../storage/authority/policies/tiers.ts'
import type { Owner } from '../wire/identifiers.ts'

/** What is known of every agent at a tier that is new; the best is assumed of all else. */
const NEW_AT_TIER = {
  connection: 'active',
  standing: {
    approvedAtTier: false,
    firstAtTier: true,
    lineageNewAtTier: true,
    neverRevoked: undefined,
    firstParty: undefined,
    revokedBefore: undefined,
    introduced: undefined,
  },
  assurance: { binding: undefined, provenance: undefined, accountability: undefined },
  request: { expiresInSeconds: undefined, reasonAbsent: undefined, missionAbsent: undefined },
} as const

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
  const tiers = await listPassingTiers(tx, owner)
  const open = tiers.filter(one => tierIds.includes(one.tier_id) && mayLetThrough(one, NEW_AT_TIER))
  const agents = open.length === 0 ? 0 : await countFullReach(tx, owner)
  if (agents === 0) return new Map()
  const who = `${agents} agent${agents === 1 ? '' : 's'} that she let in`
  return new Map(open.map(({ tier_id }) => [tier_id, `${who} may use it without asking her`]))
}
