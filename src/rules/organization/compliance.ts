/**
 * Owns the report to an organization on how its ceiling was applied: numbers and names of fields, and nothing
 * that she wrote. Contract: "The organization's authority" (`/member/compliance`: never her terms).
 */
import { cutTier, cutsBetween, type TierUnderCeiling, type Cut } from './tier-ceiling.ts'
import { reachOf, type AgreedView } from './membership.ts'

/**
 * The whole body of a report. Each member is a number, a boolean, or a name from a fixed list, so that none
 * can contain a term, a tier's name or one of her resources.
 */
export interface ComplianceReport {
  /** The version of the charter that was applied. */
  charter_version: number
  /** The version that she agreed to last. */
  agreed_version: number
  /** How many of her resources are governed. */
  resources_governed: number
  /** How many of her tiers contain one of those. */
  tiers_governed: number
  /** The fields of her tiers that the ceiling has cut since she joined, by name and in order. */
  clamped_fields: Cut['field'][]
  /** Whether no tier exceeds the ceiling now. */
  within: boolean
}

/** The things that a report counts, and never names. */
export interface Reported {
  bound: AgreedView
  /** Ids of all resources that are governed. */
  governed_resources: readonly string[]
  tiers: readonly TierUnderCeiling[]
  /** The fields that were cut since she joined. */
  clamped_fields: readonly Cut['field'][]
}

/** The report on the present state. */
export function complianceReport(reported: Reported): ComplianceReport {
  const { bound, tiers, clamped_fields } = reported
  const governed = new Set(reported.governed_resources)
  const isReached = (id: string): boolean => reachOf(id, bound) !== null
  return {
    charter_version: bound.view.charter_version,
    agreed_version: bound.agreed.charter_version,
    resources_governed: governed.size,
    tiers_governed: tiers.filter(({ resources }) => resources.some(id => governed.has(id))).length,
    clamped_fields: [...new Set(clamped_fields)].sort(),
    within: tiers.every(tier => cutsBetween(tier, cutTier(tier, bound.view, isReached)).length === 0),
  }
}
