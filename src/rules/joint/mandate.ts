/**
 * Owns which mandates are lawful, and how verdicts are counted under one. Contract: "Tally for a jointly held
 * resource" and "Authorized call", order 2 (`joint_mandate_unsatisfied`). The tally counts and the
 * enforcement point counts again, by this one function: a tally's statement counts only as far as the
 * verdicts that it carries.
 */
import type { Owner, Family } from '../../wire/identifiers.ts'
import type { Verified } from '../../wire/signatures/jws.ts'
import { mandateDigest, totalWeight, type Mandate, type MandateHolder } from '../../wire/joint/mandate.ts'
import { isHostSpelledPlainly, isWebUrl } from '../../wire/json-members.ts'
import { NAME_PATTERN } from '../../wire/names.ts'
import type { RptOperation } from '../../wire/negotiation/tokens.ts'
import type { Verdict } from '../../wire/joint/verdict.ts'
import { claimFault, patternMatches } from '../organization/charter-patterns.ts'

const HOLDERS_MIN = 2
const HOLDERS_MAX = 16
const WEIGHT_MAX = 1_000
const RESOURCES_MAX = 100

/**
 * Why nobody may agree to, serve or count under a mandate, as `<path>: <what to do>`; undefined if it is
 * lawful. Every party uses this one check.
 */
export function mandateFault(mandate: Mandate): string | undefined {
  const { account, tally, holders, rule } = mandate
  if (!NAME_PATTERN.test(account))
    return 'account: give 1 to 64 letters, digits, ".", "_" or "-", beginning with a letter or digit'
  if (!isIssuer(tally)) return 'tally: give its issuer, an https URL in its one spelling'
  const fault = holdersFault(holders, tally) ?? resourcesFault(mandate)
  if (fault !== undefined) return fault
  const total = totalWeight(mandate)
  const isWithin = Number.isSafeInteger(rule.threshold) && rule.threshold >= 1 && rule.threshold <= total
  if (!isWithin) return `rule.threshold: give 1 to ${total}, the weight of all holders`
  const implied = rule.kind === 'all' ? total : rule.kind === 'any' ? 1 : rule.threshold
  return rule.threshold === implied ? undefined : `rule.threshold: give ${implied} for "${rule.kind}"`
}

function holdersFault(holders: readonly MandateHolder[], tally: string): string | undefined {
  if (holders.length < HOLDERS_MIN || holders.length > HOLDERS_MAX)
    return `holders: name ${HOLDERS_MIN} to ${HOLDERS_MAX}`
  for (const [at, { owner, issuer, weight }] of holders.entries()) {
    const within = `holders[${at}]`
    if (!NAME_PATTERN.test(owner)) return `${within}.owner: give the name by which her authority knows her`
    if (!isIssuer(issuer)) return `${within}.issuer: give an https URL in its one spelling, without a query`
    // Otherwise the tally's own keys would sign verdicts.
    if (issuer === tally) return `${within}.issuer: name an authority other than the tally`
    if (!Number.isSafeInteger(weight) || weight < 1 || weight > WEIGHT_MAX)
      return `${within}.weight: give a whole number from 1 to ${WEIGHT_MAX}`
    if (holders.findIndex(one => one.owner === owner && one.issuer === issuer) !== at)
      return `${within}: name each holder once`
  }
  return undefined
}

function resourcesFault({ account, resources }: Mandate): string | undefined {
  if (resources.length < 1 || resources.length > RESOURCES_MAX)
    return `resources: give 1 to ${RESOURCES_MAX} patterns`
  for (const [at, pattern] of resources.entries()) {
    const fault = claimFault(pattern)
    if (fault !== undefined) return `resources[${at}]: ${fault}`
    if (pattern.split('/', 1)[0] !== account) return `resources[${at}]: begin it with ${account}/`
    if (resources.indexOf(pattern) !== at) return `resources[${at}]: give each pattern once`
  }
  return undefined
}

/** It is part of the key of whatever is asked under the mandate. */
const ISSUER_LENGTH_MAX = 512

/** One spelling for each issuer, so that one holder cannot be named twice. */
function isIssuer(text: string): boolean {
  if (text.length > ISSUER_LENGTH_MAX || !isWebUrl(text) || !isHostSpelledPlainly(text)) return false
  if (text.includes('?')) return false
  return new URL(text).href.replace(/\/$/, '') === text
}

/** A lawful mandate and its digest. */
export interface CountedMandate extends Mandate {
  readonly mandate_s256: string
}

/** A mandate to count under; or the fault, if it is not lawful. */
export function countedMandate(mandate: Mandate): CountedMandate | { fault: string } {
  const fault = mandateFault(mandate)
  return fault === undefined ? { ...mandate, mandate_s256: mandateDigest(mandate) } : { fault }
}

/** Whether a resource is held under the mandate. */
export function coversResource({ resources }: Mandate, resource_id: string): boolean {
  return resources.some(pattern => patternMatches(pattern, resource_id))
}

/** A grant that verdicts are counted for; `exp` in seconds since the epoch. */
export interface JointGrant {
  readonly negotiation: Family
  /** Digest of the agreement. */
  readonly contract: string
  readonly resource_id: string
  /** Every scope that it gives on that resource. */
  readonly scopes: readonly string[]
  readonly exp: number
  /** Thumbprint of the key that it is bound to. */
  readonly cnf_jkt: string
  readonly operation?: RptOperation | undefined
  readonly single_use: boolean
}

/** Why a verdict does not count for a grant; the first reason that applies. */
export type VerdictFault =
  | 'foreign'
  | 'other_account'
  | 'other_negotiation'
  | 'other_contract'
  | 'other_resource'
  | 'from_the_future'
  | 'other_mandate'
  | 'other_key'
  | 'wider'
  | 'longer'
  | 'expired'
  | 'other_operation'

/**
 * The result of the verdicts. `faults` are the reasons of those that do not count, in the order of the
 * verdicts.
 */
export interface Count {
  readonly isSatisfied: boolean
  /** The weight of the holders who allow, and do not also refuse. */
  readonly weight: number
  readonly faults: readonly VerdictFault[]
}

const CLOCK_SECONDS = 60

/**
 * Counts verdicts for a grant at `now` (seconds). A holder counts once, however many verdicts she gave; her
 * refusal outweighs her allowance. A verdict that does not fit is ignored. So one more allowance never lowers
 * the weight, and one more refusal never raises it.
 */
export function countVerdicts(
  mandate: CountedMandate,
  verdicts: readonly Verified<Verdict>[],
  grant: JointGrant,
  now: number,
): Count {
  const faults: VerdictFault[] = []
  const allowing = new Set<MandateHolder>()
  const refusing = new Set<MandateHolder>()
  for (const verdict of verdicts) {
    const holder = holderOf(mandate, { owner: verdict.holder, issuer: verdict.iss })
    const fault = holder === undefined ? 'foreign' : verdictFault(mandate, verdict, grant, now)
    if (fault !== undefined) faults.push(fault)
    else (verdict.effect === 'allow' ? allowing : refusing).add(holder!)
  }
  const weight = totalWeight({ holders: [...allowing].filter(holder => !refusing.has(holder)) })
  return { isSatisfied: weight >= mandate.rule.threshold, weight, faults }
}

/** The holder of that name at that authority, whose URL ends without a slash. */
export function holderOf(
  { holders }: Pick<Mandate, 'holders'>,
  who: { owner: Owner; issuer: string },
): MandateHolder | undefined {
  return holders.find(({ owner, issuer }) => owner === who.owner && issuer === who.issuer)
}

function verdictFault(
  mandate: CountedMandate,
  verdict: Verdict,
  grant: JointGrant,
  now: number,
): VerdictFault | undefined {
  if (verdict.account !== mandate.account) return 'other_account'
  if (verdict.negotiation !== grant.negotiation) return 'other_negotiation'
  if (verdict.contract !== grant.contract) return 'other_contract'
  if (verdict.resource_id !== grant.resource_id) return 'other_resource'
  if (verdict.iat > now + CLOCK_SECONDS) return 'from_the_future'
  if (verdict.effect === 'deny') return undefined
  if (verdict.mandate_s256 !== mandate.mandate_s256) return 'other_mandate'
  if (verdict.cnf_jkt !== grant.cnf_jkt) return 'other_key'
  if (!grant.scopes.every(scope => verdict.scope.includes(scope))) return 'wider'
  const end = verdict.iat + verdict.expires_in
  if (grant.exp > end) return 'longer'
  if (now > end) return 'expired'
  return verdict.operation === undefined || isFor(verdict.operation, grant) ? undefined : 'other_operation'
}

/** She allowed one operation, so the grant must be for that operation, and single-use. */
function isFor({ tool, params_s256 }: RptOperation, { operation, single_use }: JointGrant): boolean {
  return single_use && operation?.tool === tool && operation.params_s256 === params_s256
}
