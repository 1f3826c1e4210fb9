/**
 * The rows of what owners hold jointly, as Postgres holds them. Contract: "Tally for a jointly held
 * resource".
 */
import type { ColumnType, Generated } from 'kysely'
import type { NullableTimestamp, Timestamp } from '../../core/columns.ts'
import type { Mandate } from '../../../wire/joint/mandate.ts'
import type { Family, Handle, Owner } from '../../../wire/identifiers.ts'

/** An account that she holds with others, as she agreed to it. */
export interface JointAccountsTable {
  owner: Owner
  account: Owner
  tally: string
  mandate: ColumnType<Mandate, string, string>
  mandate_s256: string
  agreed_at: Timestamp
  /** The mandate that its tally now serves instead; null if it serves the one that she agreed to. */
  changed_s256: string | null
  /** When she was told of that last. */
  changed_told_at: NullableTimestamp
}

/** A question of a tally, and its final answer; null until there is one. */
export interface JointQuestionsTable {
  owner: Owner
  tally: string
  account: Owner
  negotiation: Family
  /** Hers. */
  family: Family
  resource_id: string
  contract: string
  asked_at: Timestamp
  effect: 'allow' | 'deny' | null
  verdict: string | null
  handle: Handle | null
  operator: string | null
  tier_id: string | null
  signed_at: NullableTimestamp
  collect_until: NullableTimestamp
  relied_until: NullableTimestamp
  withdrawn_at: NullableTimestamp
}

/** A withdrawal that a tally must get; if `negotiations` is null, it covers the whole account. */
export interface JointWithdrawalsTable {
  owner: Owner
  id: string
  tally: string
  account: Owner
  negotiations: Family[] | null
  since: Timestamp
  matters_until: Timestamp
  attempts: Generated<number>
}
