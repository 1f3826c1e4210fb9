/**
 * Owns what a signed decision must say about its item. Contract: "Owner API"
 * (`/owner/pending/{family}/decision`); docs/choices.md.
 */
import type { Admits, StatementClaims } from '../wire/owner/decision-statement.ts'
import type { Family, Owner } from '../wire/identifiers.ts'

/** The subject of a statement, as the verifier knows it. */
export interface Decidable {
  readonly owner: Owner
  readonly family: Family
  readonly item_s256: string
  readonly single_use: boolean
  readonly expires_in: number
}

/**
 * The member of a statement that disagrees with the item, or undefined. The form, the key and the times of
 * the statement were verified before.
 */
export function statementFault(claims: StatementClaims, item: Decidable): keyof Decidable | undefined {
  const names = ['owner', 'family', 'item_s256', 'single_use', 'expires_in'] as const
  return names.find(name => claims[name] !== item[name])
}

/**
 * Whether an item is a first contact. At a joint account, the first of its reasons distinguishes it from an
 * operation, and no word of a rule can equal that reason.
 */
export function isFirstContact({ kind, because }: { kind: string; because: readonly string[] }): boolean {
  return kind === 'connection' || (kind === 'joint' && because[0] === 'first_contact')
}

/**
 * How far an approval lets an agent in: a first contact to everything, or with `only` just to its tier; null
 * for anything that is no approval of a first contact.
 */
export function admissionIn(decided: {
  decision: 'approved' | 'denied'
  isFirstContact: boolean
  only: boolean
}): Admits | null {
  if (decided.decision === 'denied' || !decided.isFirstContact) return null
  return decided.only ? 'tier' : 'all'
}
