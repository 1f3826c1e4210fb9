/**
 * Owns what an owner's allowance and an organization's charter count alike: spans of the calendar, and units.
 * Contract: "Policy vocabulary and tiers", "The organization's authority".
 */

/** A window begins with each of these, by the clock of the allowance's zone; `all` with the allowance. */
export const PERIODS = ['hour', 'day', 'week', 'month', 'all'] as const
export type AllowancePeriod = (typeof PERIODS)[number]

/** The most characters of a unit, which is compared byte for byte. */
export const UNIT_MAX = 64
