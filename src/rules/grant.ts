/**
 * Owns what a grant rests on, in the contract's names, from the agreement that is weighed to the row that is
 * written. Contract: "Grant (RPT) liveness", "Permission ticket" (awaiting-owner).
 */
import type { RequestFacts } from './conditions.ts'
import type { GrantContent } from './grant-content.ts'
import type { OrganizationEpochs } from './membership.ts'

/** What a grant is made of, whether it is made at once or kept until the owner has approved. */
export interface GrantBasis extends GrantContent {
  tier_id: string
  tier_epoch: number
  tier_version: number
  /** Of the resource server. */
  server_generation: number
  /** The scopes that the resource must still have when the grant is made. */
  resource_scopes: string[]
  /** Named by the agreement; it must not be blocked. */
  operator: string | null
  /**
   * If an organization governs and shares the resource, or attested something that was required: the epochs
   * that must still be the present ones.
   */
  organization?: OrganizationEpochs | undefined
  /** What the tier's rules see of the agreement itself, kept for when they are evaluated again. */
  facts: Pick<RequestFacts, 'assurance' | 'request'>
}
