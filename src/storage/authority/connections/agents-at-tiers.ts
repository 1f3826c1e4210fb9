/**
 * Counts an owner's agents by what her records say of them at a tier, so that its rules can be asked about
 * all at once. Contract: "Connection", "Policy vocabulary and tiers".
 */
import { sql } from 'kysely'
import type { Owner } from '../../../wire/identifiers.ts'
import type { Db } from '../database.ts'
import type { StandingReading } from '../negotiations/standing.ts'

/** So many agents stand in the same way at a tier. */
export interface AgentsAtTier extends Pick<
  StandingReading,
  'narrow' | 'forOneTier' | 'approvedAtTier' | 'grantedAtTier' | 'lineageGrantedAtTier'
> {
  tier_id: string
  agents: number
  /** Another agent brought them in. */
  introduced: boolean
}

/**
 * The agents with an active connection to her, by how each stands at each of these tiers, as `readStanding`
 * has it. An agent that an administrator let in counts at a tier that governs something of the organization,
 * and one that is there for joint accounts at none. What a deleted tier of the same id left behind counts: it
 * does so for the rules, too.
 */
export async function countAgentsAt(
  db: Db,
  owner: Owner,
  tierIds: readonly string[],
): Promise<AgentsAtTier[]> {
  const { rows } = await sql<AgentsAtTier>`
    WITH past AS MATERIALIZED (
      SELECT ct.tier_id, k.handle, k.introduced_by, ct.granted_at IS NOT NULL AS granted,
        coalesce(ct.approved_generation = k.generation, false) AS approved
      FROM connection_tiers ct JOIN connections k ON k.owner = ct.owner AND k.handle = ct.handle
      WHERE ct.owner = ${owner} AND ct.tier_id = ANY(${tierIds}::text[]) AND k.status = 'active'),
    lineages AS (
      SELECT tier_id, handle, granted, approved, true AS own FROM past
      UNION ALL
      SELECT tier_id, introduced_by, granted, approved, false FROM past WHERE introduced_by IS NOT NULL
      UNION ALL
      SELECT p.tier_id, c.handle, p.granted, p.approved, false
      FROM past p JOIN connections c ON c.owner = ${owner} AND c.introduced_by = ANY(ARRAY[p.handle, p.introduced_by])),
    standings AS (
      SELECT t.tier_id, coalesce(c.reach = 'organization', false) AS narrow,
        c.admits = 'tier' OR coalesce(i.admits = 'tier', false) AS "forOneTier",
        c.introduced_by IS NOT NULL AS introduced,
        coalesce(bool_or(l.approved), false) AS "approvedAtTier",
        coalesce(bool_or(l.granted AND l.own), false) AS "grantedAtTier",
        coalesce(bool_or(l.granted), false) AS "lineageGrantedAtTier"
      FROM unnest(${tierIds}::text[]) AS t(tier_id)
      JOIN connections c ON c.owner = ${owner} AND c.status = 'active' AND (c.reach IS NULL
        OR (c.reach = 'organization' AND EXISTS (SELECT FROM tier_resources tr
          WHERE tr.owner = c.owner AND tr.tier_id = t.tier_id AND tr.org IS NOT NULL)))
      LEFT JOIN connections i ON i.owner = c.owner AND i.handle = c.introduced_by
      LEFT JOIN lineages l ON l.tier_id = t.tier_id AND l.handle = c.handle AND (l.own OR c.reach IS NULL)
      GROUP BY t.tier_id, c.handle, c.reach, c.admits, i.admits, c.introduced_by)
    SELECT s.*, count(*)::int AS agents FROM standings s
    GROUP BY s.tier_id, s.narrow, s."forOneTier", s.introduced, s."approvedAtTier", s."grantedAtTier",
      s."lineageGrantedAtTier"`.execute(db)
  return rows
}
