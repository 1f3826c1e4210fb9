/**
 * Owns what the page asks of the owner API about allowances, each stored as a whole and over no other version
 * than the one that she was shown, and about the tiers that keep to them. Contract: "Owner API"
 * (`/owner/allowances*` and `/owner/policies*`, If-Match).
 */
import type { OwnerAllowance } from '../../wire/documents/allowance.ts'
import type { Connection, Tier } from '../../wire/owner/owner-api.ts'
import { ApiFault, ask, askAll, type Access } from '../access/api.ts'
import { isSame } from '../rules/draft.ts'
import type { SavedTier } from '../rules/tier-editor.tsx'
import { allTiers } from '../rules/tiers.ts'
import { membersOf, type AllowanceMembers, type ListedAllowance } from './record.ts'
import { missingRules, openedAgents } from './tier-rules.ts'

const pathOf = (id: string): string => `owner/allowances/${encodeURIComponent(id)}`

/** What the page of her allowances shows; `labels` are her names for agents, by handle. */
export interface AllowancesAndTiers {
  allowances: ListedAllowance[]
  tiers: Tier[]
  labels: ReadonlyMap<string, string>
}

/** All that she has. */
export async function readAllowances(access: Access): Promise<AllowancesAndTiers> {
  const [allowances, tiers, connections] = await Promise.all([
    askAll<ListedAllowance>(access, 'owner/allowances'),
    allTiers(access),
    askAll<Connection>(access, 'owner/connections'),
  ])
  const labels = new Map<string, string>()
  for (const { handle, label } of connections) if (label !== null) labels.set(handle, label)
  return { allowances, tiers, labels }
}

/** Stores an edit over the version that she was shown. Fails with `ApiFault` 412 if there is another one. */
export async function storeOver(
  access: Access,
  { id, version }: OwnerAllowance,
  body: AllowanceMembers,
): Promise<void> {
  await ask(access, {
    method: 'PUT',
    path: pathOf(id),
    body,
    headers: { 'if-match': `"${version}"` },
  })
}

/**
 * Makes it. If there is one of this name, that is no fault if it says the very same: the answer to an earlier
 * attempt may have been lost.
 */
export async function storeNew(access: Access, id: string, body: AllowanceMembers): Promise<void> {
  try {
    await ask(access, { method: 'PUT', path: pathOf(id), body, headers: { 'if-none-match': '*' } })
  } catch (error) {
    if (!(error instanceof ApiFault) || error.status !== 412) throw error
    const stored = await ask<OwnerAllowance>(access, { path: pathOf(id) })
    if (!isSame(membersOf(stored), body)) throw error
  }
}

/** A tier as it is, if she has it, and the agents that it opens to at once if it is opened. */
export interface TierReading {
  tier: Tier | undefined
  agents: Connection[]
}

export async function readTierToOpen(access: Access, tier_id: string): Promise<TierReading> {
  const [tiers, connections] = await Promise.all([
    allTiers(access),
    askAll<Connection>(access, 'owner/connections'),
  ])
  return { tier: tiers.find(({ id }) => id === tier_id), agents: openedAgents(connections, tier_id) }
}

/**
 * Adds the rules that a tier lacks, both or neither, over the version of it that she was shown. Returns what
 * the authority warns of.
 */
export async function openWithin(
  access: Access,
  { id, rules, terms }: Pick<Tier, 'id' | 'rules' | 'terms'>,
  allowance: string,
): Promise<string[]> {
  const { warnings = [], clamped = [] } = await ask<SavedTier>(access, {
    method: 'PUT',
    path: `owner/policies/${encodeURIComponent(id)}`,
    body: { rules: [...rules, ...missingRules(rules, allowance)] },
    headers: { 'if-match': `"${terms.template_id}"` },
  })
  return [...warnings, ...clamped.map(({ text }) => text)]
}
