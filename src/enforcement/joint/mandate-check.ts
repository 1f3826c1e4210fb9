/**
 * Owns the check of a tally's grant against the mandate. Contract: "Authorized call", order 2
 * (`joint_mandate_unsatisfied`), and "Tally for a jointly held resource": the tally decides nothing, so the
 * mandate is the one that this enforcement point is configured with, and everything is counted again. The
 * rule itself is `src/rules/joint/mandate.ts`.
 */
import {
  countVerdicts,
  coversResource,
  type CountedMandate,
  type JointGrant,
  type VerdictFault,
} from '../../rules/joint/mandate.ts'
import type { Permission } from '../../rules/permission.ts'
import type { Owner } from '../../wire/identifiers.ts'
import { totalWeight } from '../../wire/joint/mandate.ts'
import { Refusal } from '../../wire/refusal.ts'
import type { Deadline } from '../deadline.ts'
import { outage } from '../outage.ts'
import type { LiveGrant } from '../introspection.ts'
import type { MandateView } from './mandate-view.ts'
import type { Proof, Proofs } from './proofs.ts'
import type { SpentGrants } from './spent-grants.ts'

/** The account that a route is for, and by which mandate its holders decide. */
export interface RouteJoint {
  /** Issuer of the tally, which is the authority of the route. */
  readonly tally: string
  readonly account: Owner
  /** Digests of the mandates that count here; `any`: whichever the tally serves. */
  readonly pinned: readonly string[] | 'any'
  readonly mandates: MandateView
  readonly proofs: Proofs
  readonly spent: SpentGrants
}

/** A grant at a call; `now` in seconds since the epoch. */
export interface JointGrantFacts {
  token: string
  grant: LiveGrant
  /** The permission that covers the call; undefined for a call that needs none. */
  permission: Permission | undefined
  deadline: Deadline
  now: number
  /** Called, only for the log, with what was found wrong. */
  note: (detail: string) => void
}

type MandateFault =
  | 'no_joint'
  | 'unlawful_mandate'
  | 'mandate_of_another'
  | 'mandate_not_pinned'
  | 'resource_not_covered'
  | 'too_few'
  | Proof['faults'][number]
  | VerdictFault

/** A mandate has at most 16 holders, and each signs once, so any further verdict was not signed for this. */
const VERDICTS_MAX = 32

/**
 * Refuses 403 `joint_mandate_unsatisfied` if the grant's verdicts do not satisfy the mandate; 503 if the
 * mandate, or keys that could change that, cannot be fetched.
 */
export async function checkMandate(joint: RouteJoint, facts: JointGrantFacts): Promise<void> {
  const { token, grant, deadline, now, note } = facts
  const verdicts = presentedVerdicts(grant)
  const jointFacts = jointGrant(facts)
  if (verdicts === undefined || jointFacts === undefined) throw unsatisfied('no_joint', joint, facts)
  const mandate = await joint.mandates.current(deadline)
  if ('fault' in mandate) throw unsatisfied('unlawful_mandate', joint, facts)
  const fault = mandateFaultHere(mandate, joint, jointFacts)
  if (fault !== undefined) throw unsatisfied(fault, joint, facts, mandate)
  const count = (candidates: Proof['verdicts']) => countVerdicts(mandate, candidates, jointFacts, now)
  const presented = { token, joint: JSON.stringify(grant.joint), verdicts, mandate }
  const proof = await joint.proofs.of(presented, candidates => count(candidates).isSatisfied, deadline)
  const { isSatisfied, weight, faults } = count(proof.verdicts)
  const first = proof.faults[0] ?? faults[0]
  if (!isSatisfied) {
    if (weight + totalWeight({ holders: distinct(proof.unheard) }) >= mandate.rule.threshold)
      throw outage("The keys of a holder's authority could not be had.")
    throw unsatisfied(first ?? 'too_few', joint, facts, mandate)
  }
  if (first !== undefined) note(`a verdict that does not count: ${first}`)
}

function mandateFaultHere(
  mandate: CountedMandate,
  { tally, account, pinned }: RouteJoint,
  { resource_id }: JointGrant,
): MandateFault | undefined {
  if (mandate.account !== account || mandate.tally !== tally) return 'mandate_of_another'
  if (pinned !== 'any' && !pinned.includes(mandate.mandate_s256)) return 'mandate_not_pinned'
  return coversResource(mandate, resource_id) ? undefined : 'resource_not_covered'
}

/**
 * The caller learns only that it is refused; the operator who configured the route finds the reason in the
 * log.
 */
function unsatisfied(
  fault: MandateFault,
  { pinned }: RouteJoint,
  { note }: JointGrantFacts,
  mandate?: CountedMandate,
): Refusal {
  const served = mandate === undefined ? 'none' : mandate.mandate_s256
  note(`joint: ${fault}; mandate served ${served}, pinned ${pinned === 'any' ? pinned : pinned.join(' ')}`)
  return new Refusal(
    'joint_mandate_unsatisfied',
    'Negotiate again: the holders of this resource have not allowed this call as their mandate wants it.',
  )
}

function presentedVerdicts({ joint }: LiveGrant): string[] | undefined {
  const verdicts = joint?.['verdicts']
  const isList = Array.isArray(verdicts) && verdicts.length <= VERDICTS_MAX
  return isList && verdicts.every(one => typeof one === 'string') ? verdicts : undefined
}

/**
 * The grant as verdicts are compared with it: for the resource that is called, or else for the first that it
 * names.
 */
function jointGrant({ grant, permission = grant.permissions[0] }: JointGrantFacts): JointGrant | undefined {
  if (permission === undefined) return undefined
  const { resource_id, exp } = permission
  const onResource = grant.permissions.filter(one => one.resource_id === resource_id)
  return {
    negotiation: grant.family,
    contract: grant.contract,
    resource_id,
    scopes: onResource.flatMap(({ resource_scopes }) => resource_scopes),
    exp,
    cnf_jkt: grant.key.thumbprint,
    operation: grant.operation,
    single_use: grant.single_use,
  }
}

function distinct<T>(all: readonly T[]): T[] {
  return [...new Set(all)]
}
