/**
 * What a request that is held for the owner is kept as: what its grant will be made of, and what she is
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
  /** That the resource must still have when the grant is made. */
  resource_scopes: string[]
  /** Named by the agreement. */
  operator: string | null
  /** Where an organization governs the resource: what the grant hangs on, too. */
  organization?: OrganizationEpochs | undefined
  /** What the tier's rules see of the agreement itself, for when they are asked again. */
  facts: Pick<RequestFacts, 'assurance' | 'request'>
}

/** What she is shown; the other members stand in the row. */
export type ShownItem = Omit<PendingItem, 'family' | 'kind' | 'handle' | 'requested_at'>
