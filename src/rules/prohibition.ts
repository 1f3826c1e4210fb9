/**
 * Owns what keeps a prohibition, beside the agent's signed promise. Contract: "Agreement (claim_token, beat
 * 3)" (nothing of what an agent signs is enforced but the operation) and "Authorized call": what an
 * enforcement point checks is permissions and the exact operation, never a prohibition.
 */
import type { EnforcedProhibition } from '../wire/terms.ts'

/** What the terms are, and what is known of the resource that they are offered for. */
export interface ProhibitionFacts {
  readonly terms: { readonly scope: readonly string[]; readonly prohibited: readonly string[] }
  readonly resource: {
    readonly resource_scopes: readonly string[]
    /** By name; null where the resource server does not tell its tools apart. */
    readonly tools: Readonly<Record<string, unknown>> | null
  }
  /** The tool of the one call that the grant is bound to; undefined for a standing grant. */
  readonly boundTo: string | undefined
}

/**
 * For each prohibition what keeps it. A prohibition is the owner's own words and nobody interprets them: only
 * one that is, to the character, the name of a scope of this resource that the terms do not offer, or of a
 * tool other than the one call allowed, is kept by a check. All else is promised.
 */
export function enforcedProhibitions({ terms, resource, boundTo }: ProhibitionFacts): EnforcedProhibition[] {
  const isWithheldScope = (word: string): boolean =>
    resource.resource_scopes.includes(word) && !terms.scope.includes(word)
  const isOtherTool = (word: string): boolean =>
    boundTo !== undefined && word !== boundTo && Object.hasOwn(resource.tools ?? {}, word)
  return terms.prohibited.map(prohibition => ({
    prohibition,
    by: isWithheldScope(prohibition) ? 'scope' : isOtherTool(prohibition) ? 'operation' : 'promise',
  }))
}
