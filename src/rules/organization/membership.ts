/**
 * Owns how far a membership reaches: which resources an organization governs, what it shares, what a later
 * version of its charter takes away at once, and what it takes only after she has agreed again. Contract:
 * "Organization membership, on the member's authorization server" and "The organization's authority".
 */
import {
  CHARTER_LIST_MAX,
  ORGANIZATION_NAME_MAX,
  VIEW_BYTES_MAX,
  type CharterBreakGlass,
  type Delegation,
} from '../../wire/organization/charter.ts'
import { s256Json } from '../../wire/encoding.ts'
import { agreedCharter, approvalsDropped } from './agreed-charter.ts'
import { allowanceCeilingsFault } from './allowance-ceiling.ts'
import { claimFault, coveredBy, namedBy, patternFault } from './charter-patterns.ts'
import { BREAK_GLASS_SECONDS_MAX, CEILING_SECONDS_MAX, isInvoker } from './charter.ts'
import type { Vouching } from '../identity-assertion.ts'
import { allowanceEnlargements } from './charter-sentences.ts'
import { bindingDigest, type MemberView } from './member-view.ts'

/** The version that she agreed to, and the organization's present one. */
export interface AgreedView {
  readonly agreed: MemberView
  readonly view: MemberView
}

/** The state of a resource under a membership; null if it is her own. */
export type Reach = 'governed' | 'shared'

/**
 * Whether the organization governs a resource, and shares it with her. A newly claimed resource is hers until
 * she agrees, and one that is no longer claimed is hers at once. The organization's present view says what is
 * shared.
 */
export function reachOf(resource_id: string, bound: AgreedView): Reach | null {
  if (!namedBy(agreedClaims(bound))(resource_id)) return null
  return namedBy(bound.view.grants)(resource_id) ? 'shared' : 'governed'
}

/** Cached by view, because one membership is asked about each of her resources, and a view never changes. */
const AGREED_CLAIMS = new WeakMap<MemberView, { agreed: MemberView; claims: readonly string[] }>()

function agreedClaims({ agreed, view }: AgreedView): readonly string[] {
  const known = AGREED_CLAIMS.get(view)
  if (known?.agreed === agreed) return known.claims
  const { claims } = agreedCharter(view, agreed)
  AGREED_CLAIMS.set(view, { agreed, claims })
  return claims
}

/**
 * Where none of her rules lets an operation through until she has agreed again, though the present view asks
 * for no approval there: each such resource is named by one of these patterns, which may name more.
 */
export function approvalsUntilAgreed(bound: AgreedView): readonly string[] {
  const { agreed, view } = bound
  const cacheEntry = APPROVALS.get(view)
  if (cacheEntry?.agreed === agreed) return cacheEntry.patterns
  const patterns = approvalsDropped(agreed, view, agreedClaims(bound))
  APPROVALS.set(view, { agreed, patterns })
  return patterns
}

/** Cached like the claims: what waits for her and what binds her are both told by it. */
const APPROVALS = new WeakMap<MemberView, { agreed: MemberView; patterns: readonly string[] }>()

/**
 * Why a view is not one that a charter could make, as a clause; undefined if it is. Its digest is computed
 * again, whatever it says.
 */
export function viewFault(view: MemberView): string | undefined {
  const within = (patterns: readonly string[]): boolean =>
    patterns.every(one => patternFault(one) === undefined) &&
    coveredBy(view.claims, patterns).length === patterns.length
  if (view.claims.some(claim => claimFault(claim) !== undefined)) return 'it claims what is no claim'
  if (!within(view.grants)) return 'it shares more than it claims'
  if (!within(view.always_ask)) return 'it always asks about more than it claims'
  if (!within(view.break_glass.resources)) return 'its emergency clause names more than it claims'
  if (view.view < 1 || view.charter_version < 1) return 'it has no number'
  return (
    boundsFault(view) ??
    (view.binds_s256 === bindingDigest(view) ? undefined : 'its digest is not that of what it binds her to')
  )
}

/** The bounds to which a charter is held when it is saved, as a hostile organization saves what it likes. */
function boundsFault(view: MemberView): string | undefined {
  const { allowed_scopes, require_prohibited, require_clearance, break_glass, max_allowance = [] } = view
  const isWithin = (seconds: number, most: number): boolean => seconds >= 1 && seconds <= most
  if (!isWithin(view.max_expires_in, CEILING_SECONDS_MAX)) return 'its longest lifetime is out of bounds'
  if (!isWithin(break_glass.max_expires_in, BREAK_GLASS_SECONDS_MAX))
    return 'the longest lifetime of its emergencies is out of bounds'
  if (!break_glass.invokers.every(isInvoker)) return 'an invoker of its emergencies is no bare https origin'
  const lists = [allowed_scopes ?? [], require_prohibited, ...Object.values(require_clearance)]
  if (lists.some(list => list.length > CHARTER_LIST_MAX)) return 'a list is longer than any of a charter'
  if (allowanceCeilingsFault(max_allowance) !== undefined) return 'it bounds allowances as no charter may'
  if (view.name.length > ORGANIZATION_NAME_MAX) return 'the name of the organization is too long'
  return new TextEncoder().encode(JSON.stringify(view)).length > VIEW_BYTES_MAX
    ? `it has more than ${VIEW_BYTES_MAX} bytes`
    : undefined
}

/**
 * What a later version would bind her to beyond what she agreed to, as sentences; it binds her only after she
 * has agreed again.
 */
export function enlargements({ agreed, view }: AgreedView): string[] {
  const known = new Set(coveredBy(agreed.claims, view.claims))
  const claimed = view.claims.filter(claim => !known.has(claim))
  return [
    ...claimed.map(claim => `It would govern ${claim}, too.`),
    ...breakGlassEnlargements(agreed.break_glass, view.break_glass, view.claims),
    ...approvalsUntilAgreed({ agreed, view }).map(
      one => `A rule of yours could let an operation on ${one} through without anybody's approval.`,
    ),
    ...allowanceEnlargements(agreed.max_allowance, view.max_allowance),
    ...(view.identity_provider !== null && view.identity_provider.issuer !== agreed.identity_provider?.issuer
      ? [`${view.identity_provider.issuer} would vouch for who you are.`]
      : []),
  ]
}

function breakGlassEnlargements(
  agreed: CharterBreakGlass,
  now: CharterBreakGlass,
  claims: readonly string[],
): string[] {
  if (!now.enabled) return []
  const known = agreed.enabled ? agreed : { ...agreed, resources: [], invokers: [] }
  const had = new Set(coveredBy(known.resources, now.resources))
  const further = coveredBy(claims, now.resources).filter(one => !had.has(one))
  return [
    ...(agreed.enabled ? [] : ['It could open an emergency window.']),
    ...further.map(one => `In an emergency it could let an agent use ${one}, too.`),
    ...(agreed.enabled && now.max_expires_in > agreed.max_expires_in
      ? [`An emergency grant could last ${now.max_expires_in} seconds.`]
      : []),
    ...(agreed.enabled && agreed.require_reason && !now.require_reason
      ? ['An emergency would need no reason.']
      : []),
    ...now.invokers
      .filter(one => !known.invokers.includes(one))
      .map(one => `${one} could invoke an emergency.`),
  ]
}

/**
 * The epochs that a grant on a governed resource depends on: of the membership, of the connection, and of the
 * operator that the request names (0 if none). A grant on a resource of her own that rests on an
 * organization's attestation depends only on the membership; the other two are then null.
 */
export type OrganizationEpochs = { readonly membership: number } & (
  | { readonly handle: number; readonly operator: number }
  | { readonly handle: null; readonly operator: null }
)

/** A view that nobody has confirmed for this many seconds is not relied on. */
export const VIEW_AGE_SECONDS_MAX = 600

/**
 * Why the first presentation is refused at a governed resource, as a code and a sentence; undefined if the
 * other checks decide.
 */
export function governedFault(
  reach: Reach,
  { view }: Pick<AgreedView, 'view'>,
): { code: string; fault: string } | undefined {
  if (reach === 'governed')
    return { code: 'not_shared', fault: 'The organization that governs this resource does not share it.' }
  if (view.delegation === 'none')
    return {
      code: 'not_delegated',
      fault: 'The organization that governs this resource lets no agent use it.',
    }
  return undefined
}

/**
 * The answer to the agent if an identity is required that nobody here could prove; only the owner sees why.
 */
export const UNPROVABLE =
  'The organization that governs this resource asks for an identity that nobody can prove to it now.'

/**
 * Who must vouch for an agent before terms are offered, and its name for the owner; undefined if nobody must.
 * Or why nobody can: the charter names another provider than she agreed to, or none of her subjects. If she
 * agreed to no provider, a new one is not used before she has agreed again.
 */
export function vouchingOf({
  agreed,
  view,
}: AgreedView): Vouching | { code: string; fault: string } | undefined {
  if (view.identity_provider === null || agreed.identity_provider === null) return undefined
  const { issuer, subject } = view.identity_provider
  if (issuer !== agreed.identity_provider.issuer) return { code: 'provider_not_agreed', fault: UNPROVABLE }
  return subject === null ? { code: 'not_vouched_for', fault: UNPROVABLE } : { issuer, subject }
}

/** Whether an agent may use what is shared: any agent, or only one that the owner activated herself. */
export function mayDelegateTo({ view }: Pick<AgreedView, 'view'>, agent: { first_party: boolean }): boolean {
  return view.delegation === 'any-agent' || (view.delegation === 'first-party-only' && agent.first_party)
}

const DELEGATED: Record<Delegation, number> = { none: 0, 'first-party-only': 1, 'any-agent': 2 }

/**
 * Whether a later view takes access away, so that earlier grants must end: she is in another group, or may
 * pass on less. For each resource, `reachOf` says whether it is still shared.
 */
export function takesAccess(before: MemberView, after: MemberView): boolean {
  return before.role !== after.role || DELEGATED[after.delegation] < DELEGATED[before.delegation]
}

/** Whether a later view differs in nothing but its number, that of the charter, and the charter's date. */
export function saysTheSame(before: MemberView, after: MemberView): boolean {
  const { view, charter_version, published_at } = after
  return s256Json({ ...before, view, charter_version, published_at }) === s256Json(after)
}
