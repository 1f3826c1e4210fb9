/**
 * The stored form of a request that waits for the owner: what its grant will be made of, and what she is
 * shown. Contract: "Permission ticket" (awaiting-owner), "Owner API" (`/owner/pending`).
 */
import type { RequestFacts } from '../../rules/conditions.ts'
import type { GrantContent } from '../../rules/grant-content.ts'
import type { OrganizationEpochs } from '../../rules/membership.ts'
import type { PendingItem } from '../../wire/owner-api.ts'

/** What a grant is made of, whether it is made at once or kept until the owner has approved. */
export interface GrantBasis extends GrantContent {
  tier_id: string
  tier_epoch: number
  tier_version: number
  /** Of the resource server. */
  server_generation: number
  /** The scopes that the resource must still have when the grant is made. */
  resource_scopes: string[]
  /** Named by the agreement. */
  operator: string | null
  /** If an organization governs the resource: what else the grant depends on. */
  organization?: OrganizationEpochs | undefined
  /** What the tier's rules see of the agreement itself, kept for when they are evaluated again. */
  facts: Pick<RequestFacts, 'assurance' | 'request'>
}

/** What she is shown. The other members are columns of the row, or are read when she asks. */
export interface ShownItem extends Omit<
  PendingItem,
  'family' | 'kind' | 'handle' | 'requested_at' | 'opens' | 'item' | 'item_s256'
> {
  /**
   * The digest of the JSON document of the terms; absent in requests that were held before it was stored,
   * null at a tally.
   */
  terms_s256?: string | null
}
