/**
 * Owns the record of what waits for an owner: everything that she is shown about a request is made from it,
 * and a signed decision names it by its hash. Contract: "Permission ticket" (awaiting-owner), "Owner API"
 * (`/owner/pending`); docs/choices.md settles its members.
 */
import { s256Json } from '../encoding.ts'
import type { Json, JsonObject } from '../json.ts'
import type { Family, Handle, Owner } from '../identifiers.ts'

/**
 * `resource` is the audience of the grant, `scopes` what it would carry, `expires_in` how long it would live,
 * in seconds; `opens` are the tiers that approving it opens without asking again. `requested_at` in seconds
 * since the epoch.
 */
export type DecisionItem = {
  v: 1
  owner: Owner
  family: Family
  kind: 'connection' | 'operation' | 'joint'
  account?: string
  rule?: { kind: 'all' | 'any' | 'threshold'; threshold: number; total_weight: number }
  holders?: { owner: string; issuer: string; weight: number }[]
  resource: string
  resource_id: string
  scopes: string[]
  tier: string
  template_id: string
  terms: { purpose: string; scope: string[]; expires_in: number; prohibited: string[] }
  /** The hash of the JSON document at the URI of the terms; null if a tally publishes them. */
  terms_s256: string | null
  operation?: { tool: string; params: Json }
  params_s256?: string
  consequence?: string
  agent: { handle: Handle; jkt: string; identity: 'pseudonymous' | 'identified' }
  operator?: { origin: string; attested: boolean }
  organization?: { issuer: string; org: string; name: string; effect: string; because: string[] }
  opens: string[]
  assurance: { binding: number; provenance: number; accountability: number }
  because: string[]
  expires_in: number
  single_use: boolean
  /** The agreement that the agent signed. */
  agreement_s256: string
  requested_at: number
}

/** `item_s256`: the hash of an item in its canonical form (RFC 8785). */
export function itemDigest(item: DecisionItem): string {
  return s256Json(item)
}

/**
 * An item in the form for others, who know the operation already or should not see it: without its
 * parameters.
 */
export function withoutParameters(item: DecisionItem): JsonObject {
  if (item.operation === undefined) return item
  const { tool } = item.operation
  return { ...item, operation: { tool } }
}
