/**
 * Owns which requests she can decide together, and which of them only one by one: what cannot be undone needs
 * a deliberate act for each call, so no press approves several such calls. Contract: "Owner API"
 * (`/owner/pending/decisions`).
 */
import type { DecisionItem } from '../../wire/owner/decision-item.ts'
import { canonicalize } from '../../wire/json.ts'

/** How many the API accepts at once. */
export const TOGETHER_MAX = 50

/** Requests of one agent for one tool of one resource, oldest first. */
export interface ItemGroup {
  name: string
  all: readonly DecisionItem[]
  /** Those that she may approve together; at most `TOGETHER_MAX`. */
  approvable: readonly DecisionItem[]
  /** Those that she may deny together; at most `TOGETHER_MAX`. */
  deniable: readonly DecisionItem[]
  /** How many of them are approved only on their own cards. */
  graveCount: number
}

/**
 * An act that can be undone needs one press; every other act, and a call of an undeclared class, needs more.
 */
export function isGrave({ consequence, operation }: DecisionItem): boolean {
  if (consequence === undefined) return operation !== undefined
  return consequence !== 'reversible' && consequence !== 'compensatable'
}

/** The groups of two and more; a first contact, and what is held jointly, is in none. */
export function groupsOf(items: readonly DecisionItem[]): ItemGroup[] {
  const groups = new Map<string, DecisionItem[]>()
  for (const item of items) {
    if (item.kind !== 'operation' || item.operation === undefined) continue
    const name = canonicalize([item.agent.handle, item.operation.tool, item.resource_id])
    groups.set(name, [...(groups.get(name) ?? []), item])
  }
  return [...groups]
    .filter(([, all]) => all.length > 1)
    .map(([name, all]) => {
      const light = all.filter(item => !isGrave(item))
      return {
        name,
        all,
        approvable: light.slice(0, TOGETHER_MAX),
        deniable: all.slice(0, TOGETHER_MAX),
        graveCount: all.length - light.length,
      }
    })
}
