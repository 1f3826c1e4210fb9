/**
 * Owns what enforces a prohibition, besides the agent's signed promise. Contract: "Agreement (claim_token,
 * beat
 * 3)" (only the operation in what an agent signs is enforced) and "Authorized call": an enforcement point
 * checks permissions and the exact operation, never a prohibition.
 */
import type { EnforcedProhibition } from '../wire/negotiation/terms.ts'

/** The terms, and what is known about the resource that they are offered for. */
export interface ProhibitionFacts {
  readonly terms: { readonly scope: readonly string[]; readonly prohibited: readonly string[] }
  readonly resource: {
    readonly resource_scopes: readonly string[]
    /** The tools by name; null if the resource server does not distinguish them. */
    readonly tools: Readonly<Record<string, unknown>> | null
  }
  /** The tool of the one call that the grant is bound to; undefined for a standing grant. */
  readonly boundTo: string | undefined
}

/**
 * What enforces each prohibition. A prohibition is in the owner's own words, and nobody interprets them. A
 * check enforces it only if it is exactly the name of a scope of this resource that the terms do not offer,
 * or the name of a tool other than that of the one allowed call. All others are only promised.
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
