/**
 * Weighs an operation by the allowance that its tier names: whether it is within it, by windows that are read
 * without a lock, and what a grant of it takes. Contract: "Policy vocabulary and tiers"; an addition
 * (docs/details/owner-api.md).
 */
import { operationOf, type Operation } from '../../rules/agreement.ts'
import { latestExpiry } from '../../rules/allowance/expiry.ts'
import { CALLS } from '../../rules/allowance/judge-operation.ts'
import { allowancesIn } from '../../rules/allowance/tier-allowance.ts'
import type { RequestFacts } from '../../rules/conditions.ts'
import { jointAccountOf } from '../../rules/joint/joint.ts'
import { judgeUnderCeiling, underAllowanceCeiling } from '../../rules/organization/allowance-ceiling.ts'
import type { AllowanceShare } from '../../storage/authority/grants/issue-allowance.ts'
import { UNSPENT_MAX, type AllowanceUse } from '../../storage/authority/policies/allowance-windows.ts'
import type { OwnerAllowance } from '../../wire/documents/allowance.ts'
import { readAllowanceCeilings } from '../organization/view-document.ts'
import type { TicketPresentation, WithinAllowance } from './presentation.ts'

/** How the operation stands to the allowance that its tier names; nothing if that cannot be found out. */
export interface AllowanceFinding {
  operation?: RequestFacts['operation']
  within?: WithinAllowance
}

/** An operation, and the id of the allowance by which it is weighed. */
interface OperationToWeigh {
  id: string
  operation: Operation
}

/** The operation that is agreed, if the tier names an allowance for it. */
export function operationToWeigh({
  governed: { tier },
  agreement,
}: TicketPresentation): OperationToWeigh | undefined {
  const [id] = allowancesIn(tier.rules)
  const operation = operationOf(agreement.claims)
  // No other tier binds a grant to one operation.
  return id === undefined || !tier.ask_me || operation === undefined ? undefined : { id, operation }
}

/**
 * Finds that out, by what was read of the allowance. `wasBeyond`: there was no room any more when the grant
 * was to be issued, so the operation is beyond it whatever is read.
 */
export function findAllowance(
  { family, governed: { tier, organization } }: TicketPresentation,
  toWeigh: OperationToWeigh | undefined,
  { use, wasBeyond }: { use: AllowanceUse | undefined; wasBeyond: boolean },
): AllowanceFinding {
  if (toWeigh === undefined || use === undefined) return {}
  const { id, operation } = toWeigh
  const { allowance, windows, now } = use
  const beyond = (limit: string): AllowanceFinding => ({
    operation: { allowance: id, version: allowance.version, beyond: true, limit },
  })
  if (use.signedOnly || jointAccountOf(family.client_id) !== undefined) return beyond('approval')
  const bounds = organization && [organization.agreed, organization.view]
  const ceilings = bounds && readAllowanceCeilings(bounds)
  if (ceilings === 'unreadable') return beyond('ceiling')
  const judged = judgeUnderCeiling(allowance, { tier_id: tier.tier_id, operation, now }, windows, ceilings)
  if (!judged.within) return beyond(judged.limit)
  if (use.unspent >= UNSPENT_MAX) return beyond('unspent')
  const latest = latestExpiry(allowance, windows, now)
  if (latest === undefined) return beyond('ends')
  // There is room again, as when others have given back meanwhile: she is told no other limit then.
  if (wasBeyond) return beyond('issue')
  const { amounts } = judged
  return {
    operation: { allowance: id, version: allowance.version, beyond: false },
    within: {
      share: {
        ...shareOf(underAllowanceCeiling(allowance, ceilings), use, amounts),
        ...(bounds && { bounds: bounds.map(({ max_allowance }) => max_allowance) }),
      },
      amounts,
      latest,
    },
  }
}

function shareOf(
  { id, version, windows }: OwnerAllowance,
  { content, whose, windows: present }: AllowanceUse,
  amounts: WithinAllowance['amounts'],
): AllowanceShare {
  return {
    allowance: id,
    version,
    content,
    whose,
    windows: windows.map(({ of, per, max }) => {
      const { start, ends } = present.find(one => one.of === of && one.per === per)!
      return { of, per, max, start, ends, amount: of === CALLS ? '1' : amounts[of]! }
    }),
  }
}
