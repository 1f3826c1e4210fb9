/**
 * Owns what an enforcement point answers if nobody can tell in time whether a call may go through. Contract:
 * "Errors" (`temporarily_unavailable`): an outage is a denial with 503, never an allow, and may be retried.
 */
import { Refusal } from '../wire/refusal.ts'

/** Our own outage or the authority's, as a denial that may be retried: 503 `temporarily_unavailable`. */
export function outage(detail: string, cause?: unknown): Refusal {
  return new Refusal('temporarily_unavailable', detail, { status: 503, cause })
}

/** Our own outage, if a grant was about to be spent and was not spent. */
export class UnspentOutage extends Refusal {
  constructor(detail: string) {
    super('temporarily_unavailable', detail, { status: 503 })
  }
}

/** The answer to a caller whose deadline came before our answer. */
export function pastProxyDeadline(): Refusal {
  return outage('The call was not judged before the deadline of the proxy: try again.')
}
