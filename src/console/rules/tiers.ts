/** Owns how the page reads her tiers. Contract: "Owner API" (`/owner/policies`). */
import type { Tier } from '../../wire/owner/owner-api.ts'
import { ask, type Access } from '../access/api.ts'

/** All of them: one page of the API has more entries than anybody needs. */
export async function allTiers(access: Access): Promise<Tier[]> {
  const { tiers } = await ask<{ tiers: Tier[] }>(access, { path: 'owner/policies?limit=1000' })
  return tiers
}
