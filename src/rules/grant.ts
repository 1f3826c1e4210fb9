/**
 * Owns what a grant rests on, in the contract's names, from the agreement that is weighed to the row that is
 * written. Contract: "Grant (RPT) liveness", "Permission ticket" (awaiting-owner).
 */
import { s256Json } from '../wire/encoding.ts'
import type { RequestFacts } from './conditions.ts'
import type { ConnectionState } from './connection.ts'
import type { GrantContent } from './grant-content.ts'
import type { OrganizationEpochs, Reach } from './organization/membership.ts'
import type { DeclaredConsequences } from './permission.ts'

/**
 * The facts that must have the same value when a grant is made as when its agreement was weighed: by the
 * member of the basis that keeps it, the record and the column from which each is read. All that reads,
 * compares or writes them is made of this list: `keepFacts`, `standsOn`, and the statements that read the
 * records and that record a grant (`factsColumn` and `andSame` in storage/authority/grants/facts.sql.ts).
 * With `forLife`, a later change ends the grant, too: the row of the grant has a column of the member's name,
 * which reading and consuming compare (reason `revoked`). None of the columns is ever null.
 */
export const SAME_FACTS = {
  aud: { of: 'server', column: 'resource_uri', type: 'text' },
  server_generation: { of: 'server', column: 'generation', type: 'int' },
  tier_epoch: { of: 'tier', column: 'epoch', type: 'int', forLife: true },
  tier_version: { of: 'tier', column: 'version', type: 'int' },
} as const satisfies Record<string, SameFact>

/** A record that such a fact may be read from. */
export type FactRecord = 'connection' | 'server' | 'resource' | 'tier'
/** `stranger`: the value for an agent without a connection, which is that of a new connection, too. */
type SameFact = { column: string; type: keyof SqlTypes } & (
  | { of: 'server' | 'resource'; forLife?: never }
  | { of: 'tier'; forLife?: true }
  | { of: 'connection'; stranger: SqlTypes[keyof SqlTypes]; forLife?: true }
)
type SqlTypes = { text: string; int: number; boolean: boolean }
type SameFacts = typeof SAME_FACTS
/** The facts as they were when the agreement was weighed. */
export type BasisFacts = { -readonly [Member in keyof SameFacts]: SqlTypes[SameFacts[Member]['type']] }
/** The columns of one record that hold such facts. */
export type FactsOf<Of extends FactRecord> = {
  [
    Member in keyof SameFacts as SameFacts[Member] extends { of: Of; column: infer Column extends string }
      ? Column
      : never
  ]: BasisFacts[Member]
}

/** The facts of `SAME_FACTS` about one record, by the members of the basis. */
export function sameFactsOf(of: FactRecord): (readonly [member: string, fact: SameFact])[] {
  const all: [string, SameFact][] = Object.entries(SAME_FACTS)
  return all.filter(([, fact]) => fact.of === of)
}

type ConnectionFacts = FactsOf<'connection'> & object

/** Such facts of a connection, from its columns; those of a stranger if there is none. */
export function connectionFacts(columns: object | undefined): ConnectionFacts {
  const values = { ...columns } as Record<string, unknown>
  const entries = sameFactsOf('connection').map(([, fact]) => [
    fact.column,
    values[fact.column] ?? (fact.of === 'connection' ? fact.stranger : undefined),
  ])
  return Object.fromEntries(entries) as ConnectionFacts
}

/** The facts of `SAME_FACTS`, from the records, as the basis keeps them. */
export function keepFacts(records: { [Of in FactRecord]: FactsOf<Of> }): BasisFacts {
  const columns: { [Of in FactRecord]: Record<string, unknown> } = records
  const entries = Object.entries(SAME_FACTS).map(([member, { of, column }]) => [member, columns[of][column]])
  return Object.fromEntries(entries) as BasisFacts
}

/** What a grant is made of, whether it is made at once or kept until the owner has approved. */
export interface GrantBasis extends GrantContent, BasisFacts {
  tier_id: string
  /** The scopes that the resource must still have when the grant is made. */
  resource_scopes: string[]
  /** Named by the agreement; it must not be blocked. */
  operator: string | null
  /**
   * If an organization governs and shares the resource, or attested something that was required: the epochs
   * that must still be the present ones.
   */
  organization?: OrganizationEpochs | undefined
  /** What the tier's rules see of the agreement itself, kept for when they are evaluated again. */
  facts: Pick<RequestFacts, 'assurance' | 'request'>
}

/** The connection that a request was weighed on, or approved for; its generation is null if there is none. */
export interface KnownConnection extends FactsOf<'connection'> {
  readonly status: ConnectionState
  readonly generation: number | null
}

/** What the records say now about what a grant rests on; undefined is what is not there any more. */
export interface GrantFacts {
  /** Nobody is granted access to what is hers. */
  readonly suspended: boolean
  readonly operatorBlocked: boolean
  readonly connection: KnownConnection
  readonly server: ({ status: string } & FactsOf<'server'>) | undefined
  readonly resource:
    | ({ client_id: string; resource_scopes: readonly string[]; org: Reach | null } & DeclaredConsequences &
        FactsOf<'resource'>)
    | undefined
  readonly tier: ({ tier_id: string } & FactsOf<'tier'>) | undefined
  /** If an organization governs the resource: its epochs, and whether whom it demands has vouched. */
  readonly organization: { epochs: OrganizationEpochs; vouched: boolean } | undefined
  /** What was judged again by the present facts; absent if the request was weighed by these. */
  readonly judged?: {
    /** The organization that governs the resource lets this agent act for the owner. */
    readonly delegated: boolean
    /** Everything that the tier requires to be attested is attested. */
    readonly clearanceMet: boolean
    /** A rule of the tier refuses the request. */
    readonly refusedByRule: boolean
  }
}

/** A sentence for the agent; `reason` is the word of the organization, where it is one. */
export interface GrantFault {
  readonly sentence: string
  readonly reason?: string
}

/**
 * Why no grant may be made on a basis any more (403 `request_denied` if it was approved before), or undefined
 * if all that it rests on stands: no approval survives a block, a revocation, or the end of what it was
 * about. Asked under the lock of the queue before a request is held, and when an approval is collected; the
 * statement that records a grant demands the same (storage/authority/grants).
 */
export function standsOn(
  basis: GrantBasis & { connection: Pick<KnownConnection, 'status' | 'generation'> },
  facts: GrantFacts,
): GrantFault | undefined {
  const { connection, server, resource, tier, judged } = facts
  if (facts.suspended) return { sentence: SUSPENDED_OWNER }
  if (facts.operatorBlocked) return { sentence: 'The owner has since blocked the operator of this agent.' }
  if (connection.status !== basis.connection.status || connection.generation !== basis.connection.generation)
    return {
      sentence: 'The owner has since revoked this connection; a new request starts from first contact.',
    }
  if (server?.status !== 'active')
    return { sentence: 'The resource server no longer has protection access for this owner.' }
  if (resource?.client_id !== basis.client_id) return { sentence: 'The resource is no longer registered.' }
  if (tier?.tier_id !== basis.tier_id || tier.epoch !== basis.tier_epoch)
    return { sentence: 'No tier governs this resource any more.' }
  if (resource.org !== null && !wasGoverned(basis))
    return {
      sentence: 'An organization has come to govern this resource since the agreement; make the call again.',
    }
  const reason = organizationLoss(basis, resource.org, facts.organization)
  if (reason !== undefined)
    return { sentence: 'The organization that governs this resource no longer shares it.', reason }
  return (
    (judged && judgedFault(judged)) ??
    (isUnchanged(basis, { connection, server, resource, tier }) ? undefined : CHANGED)
  )
}

/** The refusal if the owner is suspended; no terms are offered then either. */
export const SUSPENDED_OWNER = 'Access to this owner’s resources is suspended, so no agent is let in.'

/** The refusal if the agent is not the owner's own; an agreement that it presents is refused with it too. */
export const NOT_DELEGATED: Required<GrantFault> = {
  sentence: 'The organization that governs this resource lets only the owner’s own agents use it.',
  reason: 'not_delegated',
}

const CHANGED: GrantFault = {
  sentence: 'The resource or its terms changed since the agreement; make the call again.',
}

/** The agent's reason if a rule of the owner's refuses: the same for every rule, and nothing beside it. */
export const POLICY_REFUSES = 'policy'

/** The agent's reason if an organization ended the access and no word is more exact. */
export const ORGANIZATION_REVOKED = 'organization_revoked'

/** Whether an organization governed the resource when the agreement was weighed. */
export function wasGoverned({ organization }: Pick<GrantBasis, 'organization'>): boolean {
  return organization !== undefined && organization.handle !== null
}

/**
 * What the organization took away since the agreement, as a word for the agent; undefined if its part is
 * unchanged, and the identity provider that it now requires has vouched. `organization_revoked` is any loss
 * that has no word of its own: she is in another group, has left, or has joined since.
 */
function organizationLoss(
  basis: Pick<GrantBasis, 'organization'>,
  org: Reach | null,
  now: GrantFacts['organization'],
): string | undefined {
  if (org === null && !wasGoverned(basis)) return undefined
  if (org === 'governed') return 'not_shared'
  if (org === null || now === undefined) return ORGANIZATION_REVOKED
  const { epochs, vouched } = now
  const then = basis.organization
  const stands =
    vouched &&
    epochs.membership === then?.membership &&
    epochs.handle === then.handle &&
    epochs.operator === then.operator
  return stands ? undefined : ORGANIZATION_REVOKED
}

function judgedFault(judged: NonNullable<GrantFacts['judged']>): GrantFault | undefined {
  if (!judged.delegated) return NOT_DELEGATED
  if (!judged.clearanceMet)
    return {
      sentence: 'The owner has since asked for a clearance that no authority known to her attests.',
      reason: 'clearance_unmet',
    }
  const sentence = "The owner's policy refuses this request by what she knows now."
  return judged.refusedByRule ? { sentence, reason: POLICY_REFUSES } : undefined
}

/** The terms, the resource's address, classes and scopes are as they were agreed to. */
function isUnchanged(
  basis: GrantBasis,
  records: { [Of in FactRecord]: NonNullable<GrantFacts[Of]> },
): boolean {
  const { resource } = records
  const now = Object.entries(keepFacts(records)) as [keyof BasisFacts, unknown][]
  return (
    now.every(([member, value]) => value === basis[member]) &&
    isDeclaredAlike(resource, basis.declared ?? basis) &&
    basis.resource_scopes.every(scope => resource.resource_scopes.includes(scope))
  )
}

/**
 * Whether the same classes are declared. Without `tools` (requests that were held before tools were
 * recorded), only the classes of the resources are compared.
 */
function isDeclaredAlike(
  a: DeclaredConsequences,
  b: { consequence: string | null; tools?: DeclaredConsequences['tools'] },
): boolean {
  if (a.consequence !== b.consequence) return false
  return b.tools === undefined || s256Json({ tools: a.tools }) === s256Json({ tools: b.tools })
}
