/**
 * Owns what an owner reads about an organization: its view of her, what joining would change, and her present
 * standing. Contract: "Organization membership, on the member's authorization server".
 */
import type { MemberView } from '../documents/member-view.ts'
import type { StillWaiting } from './owner-api.ts'

/** A view as her own server tells it. */
export type ShownView = MemberView & {
  /** Sentences that the organization alone says; they can but narrow, and nobody has checked them. */
  own_words: string[]
}

/** What a ceiling would cut from a tier, with a sentence that says so. */
export interface OrganizationChange {
  tier: string
  tier_name: string
  field: 'expires_in' | 'scope' | 'prohibited' | 'ask_me' | 'clearance'
  was?: unknown
  now?: unknown
  text: string
  /** Those of the tier's resources that are hers alone, which are cut with it. */
  own_resources: string[]
}

/** What a code, or a later version, would commit her to. */
export type OrganizationPreview = ShownView & {
  changes: OrganizationChange[]
  governed_resources: string[]
}

/**
 * Her present standing; `waiting`: a later version that enlarges what she agreed to, and does not bind her
 * yet.
 */
export type OrganizationStanding =
  | {
      enrolled: false
      available: string[]
      invitation: {
        issuer: string
        code: string
        note: string | null
        invited_at: string
        expires_at: string
      } | null
      unreachable: string[]
    }
  | (ShownView & {
      enrolled: true
      joined: string
      agreed_version: number
      waiting: { version: number; changes: string[] } | null
      stale: boolean
      last_read: string
      /** For each tier her own value, and what the ceiling allows. */
      tiers: Record<string, { field: string; yours?: unknown; ceiling?: unknown }[]>
      governed_resources: string[]
      /** Resources that it claims but that she holds with others; these are never governed. */
      conflicts: string[]
      administrators_may: string[]
    })

/** Her standing after she joined or agreed again, with the sidecars that were waited for. */
export type OrganizationAgreement = OrganizationStanding & Pick<StillWaiting, 'leases'>
