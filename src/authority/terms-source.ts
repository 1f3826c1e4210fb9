/** Where an authority keeps its owners' terms: their tiers. Contract: "Terms document". */
import { listPlaced } from '../storage/authority/owners/cell-directory.ts'
import type { Pools } from '../storage/authority/database.ts'
import { listOwners, readOwner } from '../storage/authority/owners/owners.ts'
import { listTiers, readTerms } from '../storage/authority/policies/tiers.ts'
import type { TermsSource } from '../surface/terms.ts'

/** The terms of the owners of one store. */
export function termsSource({ ofNobody: db }: Pools): TermsSource {
  return {
    owners: async limit => (await listOwners(db, { limit })).map(({ owner }) => owner),
    standing: async (owner, page) =>
      (await readOwner(db, owner)) && (await listTiers(db, owner, page)).map(({ terms }) => terms),
    version: ({ owner, tier_id, version }) => readTerms(db, owner, tier_id, version),
  }
}

/** Owners of all cells, from the directory in this database. */
export function ownersOf({ ofNobody: db }: Pools): TermsSource['owners'] {
  return limit => listPlaced(db, limit)
}
