/**
 * An allowance as its owner reads it, with what is used, what unspent grants hold of that, and what is left.
 * No agent reads any of it. Contract: "Owner API"; an addition (docs/details/owner-api.md).
 */
import { leftOf } from '../../../rules/allowance/decimal.ts'
import type { AllowanceReading } from '../../../storage/authority/policies/allowance-uses.ts'
import type { AllowanceInUse } from '../../../wire/documents/allowance.ts'

/** The answer about one allowance. */
export function allowanceInUse({
  allowance,
  use,
  moreLineages,
  moreUnspent,
}: AllowanceReading): AllowanceInUse {
  return {
    ...allowance,
    use: use.map(({ whose, windows }) => ({
      ...(whose !== '' && { whose }),
      windows: windows.map(({ unspent, starts, ends, ...window }) => ({
        ...window,
        held: unspent,
        left: leftOf(window.max, window.used),
        starts,
        ends,
      })),
    })),
    ...(moreLineages && { more: true as const }),
    ...(moreUnspent && { held_more: true as const }),
  }
}
