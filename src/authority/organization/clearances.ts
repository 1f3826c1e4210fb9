/**
 * What organizations attest about their members. Only verified attestations count, and each is kept while it
 * is valid. Contract: "Policy vocabulary and tiers" (clearance: fetched from authority to authority), "The
 * organization's authority" (`/member/clearance`), "Errors" (404 if nothing is attested, read as unmet).
 */
import { BoundedMap } from '../../limits/bounded-map.ts'
import type { Membership } from '../../storage/authority/membership/membership.ts'
import { verifyClearance } from '../../wire/organization/clearance.ts'
import type { Owner } from '../../wire/identifiers.ts'
import { parseJws } from '../../wire/signatures/jws.ts'
import { Refusal } from '../../wire/refusal.ts'
import type { OrganizationClient } from './client.ts'
import { refuseAsOutage } from './ruling.ts'

/** An attestation that was verified. */
export interface Attested {
  compact: string
  /** A text for each fact. */
  clearance: Readonly<Record<string, string>>
}

export interface Clearances {
  /**
   * The attestation of a member, from memory while it is valid; undefined if there is none, or if it cannot
   * be read. Refuses 503 if the organization cannot be asked. `deadline` in ms since the epoch.
   */
  of(membership: Membership, deadline: number): Promise<Attested | undefined>
  /** The same for a compact attestation that came with another answer; null if nothing is attested. */
  take(membership: Membership, compact: string | null): Promise<Attested | undefined>
  /** Forgets what was kept about her, so that it is asked for again. */
  forget(owner: Owner): void
}

export interface ClearancesOptions {
  organizations: Pick<OrganizationClient, 'clearance' | 'keys'>
  /** This authority's own issuer. */
  audience: string
  /** Another `typ` of an attestation that is accepted, if any. */
  typAlias?: string | undefined
  /** Seconds since the epoch. */
  now: () => number
}

interface ClearanceCacheEntry {
  under: string
  attested: Attested
  /** Seconds since the epoch. */
  until: number
}

const OWNERS_MAX = 10_000
/** How long before its end an attestation is asked for again. */
const RENEWAL_MARGIN_SECONDS = 30

/**
 * Keeps them in memory. A kept attestation holds for one state of the membership in the database: a replica
 * that got no notice reads the state that the notice wrote, and asks again.
 */
export function createClearances({ organizations, audience, typAlias, now }: ClearancesOptions): Clearances {
  const cache = new BoundedMap<Owner, ClearanceCacheEntry>(OWNERS_MAX)

  const take: Clearances['take'] = async (membership, compact) => {
    const { owner, issuer } = membership
    cache.delete(owner)
    if (compact === null) return undefined
    try {
      const { kid } = parseJws(compact).header
      const keys = await organizations.keys(issuer, typeof kid === 'string' ? kid : undefined)
      const expected = { issuer, audience, owner, now: now(), typAlias }
      const { exp, clearance } = verifyClearance(compact, keys, expected)
      const attested = { compact, clearance }
      cache.set(owner, { under: stateOf(membership), attested, until: exp - RENEWAL_MARGIN_SECONDS })
      return attested
    } catch (error) {
      if (error instanceof Refusal) return undefined
      return refuseAsOutage(error)
    }
  }
  return {
    take,
    forget: owner => void cache.delete(owner),
    of: async (membership, deadline) => {
      const { owner, issuer, token } = membership
      const known = cache.get(owner)
      if (known !== undefined && known.under === stateOf(membership) && now() < known.until)
        return known.attested
      const compact = await organizations.clearance(issuer, { token, deadline }).catch(refuseAsOutage)
      return take(membership, compact ?? null)
    },
  }
}

/** Everything about a membership that a notice or a later view changes. */
export function stateOf({ join_id, org_epoch, view }: Membership): string {
  return JSON.stringify([join_id, org_epoch, view.view])
}
