/**
 * Owns an allowance as the owner API answers it, with how much of it is used. Contract: "Owner API"; an
 * addition (docs/details/owner-api.md).
 */
import type { AllowanceInUse, ShownAllowance } from '../../wire/documents/allowance.ts'

/** One window now: amounts are decimal text, `ends` is null for the one that never begins anew. */
export type WindowGauge = AllowanceInUse['use'][number]['windows'][number]

/** An authority of an earlier version tells no use. */
export type AllowanceRecord = ShownAllowance & Partial<Pick<AllowanceInUse, 'use' | 'more' | 'held_more'>>
