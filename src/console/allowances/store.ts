/**
 * Owns what the page asks of the owner API about allowances, each stored as a whole and over no other version
 * than the one that she was shown, and about the tiers that keep to them. Contract: "Owner API"
 * (`/owner/allowances*` and `/owner/policies*`, If-Match).
 */
import type { OwnerAllowance } from '../../wire/documents/allowance.ts'
import type { Connection, PendingItem, Tier } from '../../wire/owner/owner-api.ts'
import { ApiFault, ask, askAll, nowOf, type Access } from '../access/api.ts'
import type { SavedTier } from '../rules/tier-editor.tsx'
import { allTiers } from '../rules/tiers.ts'
import { WORDS } from '../words.ts'
import { saysSame, type AllowanceMembers, type ListedAllowance } from './record.ts'
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

/**
 * Stores an edit over the version that she was shown, and returns what is stored. Fails with `ApiFault` 412
 * if there is another version that says something else.
 */
export function storeOver(
  access: Access,
  { id, version }: OwnerAllowance,
  body: AllowanceMembers,
): Promise<OwnerAllowance> {
  return store(access, id, body, { 'if-match': `"${version}"` })
}

/**
 * Makes it, and returns it as it is stored. Fails with `ApiFault` 412 if there is one of this name that says
 * something else.
 */
export function storeNew(access: Access, id: string, body: AllowanceMembers): Promise<OwnerAllowance> {
  return store(access, id, body, { 'if-none-match': '*' })
}

/** What says the very same is no fault: the answer to an earlier attempt of hers may have been lost. */
async function store(
  access: Access,
  id: string,
  body: AllowanceMembers,
  headers: Record<string, string>,
): Promise<OwnerAllowance> {
  try {
    return await ask<OwnerAllowance>(access, { method: 'PUT', path: pathOf(id), body, headers })
  } catch (error) {
    if (!(error instanceof ApiFault) || error.status !== 412) throw error
    const stored = await ask<OwnerAllowance>(access, { path: pathOf(id) })
    if (!saysSame(stored, body, nowOf(access))) throw error
    return stored
  }
}

/**
 * A tier as it is, if she has it, the agents that it opens to at once if it is opened, the allowance as it is
 * stored, if it is, and what waits for her.
 */
export interface TierReading {
  tier: Tier | undefined
  agents: Connection[]
  stored: OwnerAllowance | undefined
  waiting: PendingItem[]
}

/** `allowance` is left out if it is not stored yet. */
export async function readTierToOpen(
  access: Access,
  tier_id: string,
  allowance?: string,
): Promise<TierReading> {
  const [tiers, connections, stored, waiting] = await Promise.all([
    allTiers(access),
    askAll<Connection>(access, 'owner/connections'),
    allowance === undefined ? undefined : ask<OwnerAllowance>(access, { path: pathOf(allowance) }),
    askAll<PendingItem>(access, 'owner/pending'),
  ])
  const tier = tiers.find(({ id }) => id === tier_id)
  return { tier, agents: openedAgents(connections, tier_id), stored, waiting }
}

/**
 * Adds the rules that a tier lacks, both or neither, over the version of it that she was shown. Fails with
 * `ApiFault` 412, and opens nothing, if the allowance has another version than `agreed`, which she read: she
 * says yes to its numbers. The authority compares them when it stores the rules. Returns what it warns of.
 */
export async function openWithin(
  access: Access,
  { id, rules, terms }: Pick<Tier, 'id' | 'rules' | 'terms'>,
  agreed: Pick<OwnerAllowance, 'id' | 'version'>,
): Promise<string[]> {
  const { warnings = [], clamped = [] } = await ask<SavedTier>(access, {
    method: 'PUT',
    path: `owner/policies/${encodeURIComponent(id)}?allowance_version=${agreed.version}`,
    body: { rules: [...rules, ...missingRules(rules, agreed.id)] },
    headers: { 'if-match': `"${terms.template_id}"` },
  }).catch(asMoved)
  return [...warnings, ...clamped.map(({ text }) => text)]
}

/** The refusal of a yes to another version of the allowance, in the words of this page. */
function asMoved(error: unknown): never {
  if (!(error instanceof ApiFault) || error.body['reason'] !== 'allowance_moved') throw error
  throw new ApiFault(error.status, error.code, WORDS.allowances.movedSince, error.body)
}
