/**
 * Owns the document that a tally serves of an account: its mandate in numbers and in words, and what is
 * registered. Contract: "Tally for a jointly held resource" (`/mandate/{account}`).
 */
import { mandateDigest, totalWeight, type Mandate } from '../../wire/joint/mandate.ts'
import { mandateSummary } from './mandate-words.ts'

/** A registered resource; `null` is left out. */
export interface MandateResource {
  readonly resource_id: string
  readonly name: string
  readonly type?: string | null | undefined
  readonly resource_scopes: string[]
  readonly consequence?: string | null | undefined
}

/** The document, as JSON; the digest covers the mandate alone. */
export function mandateDocument(mandate: Mandate, registered: readonly MandateResource[]) {
  return {
    ...mandate,
    total_weight: totalWeight(mandate),
    mandate_s256: mandateDigest(mandate),
    summary: mandateSummary(mandate),
    registered: registered.map(({ resource_id, name, type, resource_scopes, consequence }) => ({
      _id: resource_id,
      name,
      ...(type == null ? {} : { type }),
      resource_scopes,
      ...(consequence == null ? {} : { consequence }),
    })),
  }
}
