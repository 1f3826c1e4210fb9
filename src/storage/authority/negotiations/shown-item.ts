/**
 * The stored form of what the owner is shown of a request that waits for her. Contract: "Permission ticket"
 * (awaiting-owner), "Owner API" (`/owner/pending`).
 */
import type { PendingItem } from '../../../wire/owner/owner-api.ts'

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
