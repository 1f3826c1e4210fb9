/**
 * Owns an allowance as the owner API answers it, with how much of it is used. Contract: "Owner API"; an
 * addition (docs/details/owner-api.md).
 */
import type { AllowancePeriod, OwnerAllowance } from '../../wire/documents/allowance.ts'

/** One window now: amounts are decimal text, `ends` is null for the one that never begins anew. */
export interface WindowGauge {
  of: string
  per: AllowancePeriod
  max: string
  /** All that is taken; `held` is the part of it that may come back. */
  used: string
  held: string
  left: string
  starts: string
  ends: string | null
}

/** The windows of all her agents, or of those of one lineage, which `whose` names by a handle. */
interface LineageGauge {
  whose?: string
  windows: WindowGauge[]
}

/** `more`: further lineages used it. An authority of an earlier version tells no use. */
export type AllowanceRecord = OwnerAllowance & { use?: LineageGauge[]; more?: boolean }
