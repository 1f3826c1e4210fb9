/**
 * Owns whether what is attested about a person meets what is required. Contract: "Policy vocabulary and
 * tiers" (clearance), "Errors" (where nothing is attested, a requirement is unmet).
 */

/** Facts by name with the values that are accepted of each; several facts must all be met. */
export type ClearanceRequirement = Readonly<Record<string, readonly string[]>>

/** The first required fact that is not attested with an accepted value; undefined where every one is. */
export function unmetFact(
  required: ClearanceRequirement,
  attested: Readonly<Record<string, string>>,
): string | undefined {
  return Object.keys(required).find(
    fact => !Object.hasOwn(attested, fact) || !required[fact]!.includes(attested[fact]!),
  )
}
