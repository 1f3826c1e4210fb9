/**
 * Owns the check that the facts attested about a person meet the requirements. Contract: "Policy vocabulary
 * and tiers" (clearance), "Errors" (if nothing is attested, a requirement is unmet).
 */

/** Facts by name, with the values that are accepted for each; if there are several facts, all must be met. */
export type ClearanceRequirement = Readonly<Record<string, readonly string[]>>

/** The first required fact that is not attested with an accepted value; undefined if every one is. */
export function unmetFact(
  required: ClearanceRequirement,
  attested: Readonly<Record<string, string>>,
): string | undefined {
  return Object.keys(required).find(
    fact => !Object.hasOwn(attested, fact) || !required[fact]!.includes(attested[fact]!),
  )
}
