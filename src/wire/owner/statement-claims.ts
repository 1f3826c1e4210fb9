/**
 * Owns the claims of an owner's statement about her decision. Contract: "Owner API"
 * (`/owner/pending/{family}/decision`); docs/choices.md settles its members. It needs no module of Node,
 * because a browser signs them, too.
 */
import { thumbprintHandle } from '../agents/handles.ts'
import type { Family, Owner } from '../identifiers.ts'

/** How long something waits for an owner, in seconds: the life of an awaiting-owner ticket. */
export const DECISION_SECONDS = 3600

/** How far an approved first contact is let in: to everything, or to the tier at which it asked. */
export type Admits = 'all' | 'tier'

/**
 * `admits` is null except for an approved first contact; `exp` is `iat` + 3600 + `expires_in`, in seconds.
 */
export type StatementClaims = {
  iss: string
  aud: string
  owner: Owner
  family: Family
  decision: 'approved' | 'denied'
  item_s256: string
  admits: Admits | null
  single_use: boolean
  expires_in: number
  iat: number
  exp: number
  jti: string
}

/** The claims of what was decided at `iat` (seconds) by the key of this RFC 7638 thumbprint. */
export function statementClaims(
  content: Omit<StatementClaims, 'iss' | 'exp'>,
  thumbprint: string,
): StatementClaims {
  const { iat, expires_in } = content
  return { iss: statementIssuer(thumbprint), ...content, exp: iat + DECISION_SECONDS + expires_in }
}

/** How a statement names the key that made it. */
export function statementIssuer(thumbprint: string): string {
  return thumbprintHandle({ thumbprint })
}
