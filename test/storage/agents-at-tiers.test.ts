/**
 * Contract, "Connection", "Policy vocabulary and tiers": agents that are counted at a tier stand there as
 * each of them is read when it asks.
 */
import { sql } from 'kysely'
import { expect, it } from 'vitest'
import { countAgentsAt } from '../../src/storage/authority/connections/agents-at-tiers.ts'
import { readStanding } from '../../src/storage/authority/negotiations/standing.ts'
import { asHandle, type Owner } from '../../src/wire/identifiers.ts'
import * as seed from '../support/seed.ts'
import { coreStand } from '../support/stands.ts'

const database = coreStand({ poolMax: 4 })
const OTHER = 'other'
const [known, single] = [asHandle('known'), asHandle('single')]
/** Her agents by name, and how each was let in. */
const AGENTS = {
  known: {},
  kin: { introduced_by: known },
  sibling: { introduced_by: known },
  single: { admits: 'tier' },
  brought: { introduced_by: single },
  administered: {},
  revoked: {},
  stranger: {},
} as const
const HANDLES = Object.keys(AGENTS).map(asHandle)

/** What an agent had at a tier, in the present generation of its connection. */
async function had(owner: Owner, handle: string, tier_id: string, what: 'grant' | 'approval'): Promise<void> {
  await sql`
    INSERT INTO connection_tiers (owner, handle, tier_id, granted_at, approved_at, approved_generation)
    SELECT owner, handle, ${tier_id}::text, CASE WHEN ${what === 'grant'}::boolean THEN now() END,
      CASE WHEN ${what === 'approval'}::boolean THEN now() END,
      CASE WHEN ${what === 'approval'}::boolean THEN generation END
    FROM connections WHERE owner = ${owner} AND handle = ${handle}`.execute(database.db)
}

it('agents are counted at a tier as each of them is read there', async () => {
  const { db } = database
  const owner = await seed.seedOwner(db)
  for (const [name, more] of Object.entries(AGENTS))
    await seed.seedConnection(db, owner, asHandle(name), more)
  await had(owner, 'known', seed.TIER, 'approval')
  await had(owner, 'administered', seed.TIER, 'approval')
  await had(owner, 'single', seed.TIER, 'grant')
  await had(owner, 'kin', OTHER, 'grant')
  await had(owner, 'revoked', OTHER, 'grant')
  const change = (handle: string, to: { status: 'revoked' } | { reach: 'organization' }): Promise<unknown> =>
    db
      .updateTable('connections')
      .set(to)
      .where('owner', '=', owner)
      .where('handle', '=', asHandle(handle))
      .execute()
  await change('revoked', { status: 'revoked' })
  await change('administered', { reach: 'organization' })
  await db.updateTable('tier_resources').set({ org: 'governed' }).where('owner', '=', owner).execute()

  const read: object[] = []
  for (const tier_id of [seed.TIER, OTHER])
    for (const handle of HANDLES) {
      const membership = tier_id === seed.TIER ? 'join' : undefined
      const of = { handle, tier_id, windowSeconds: 60, countTo: undefined, membership }
      const standing = await readStanding(db, owner, of)
      const { status, narrow, forOneTier, approvedAtTier, grantedAtTier, lineageGrantedAtTier } = standing
      const introduced = standing.introduced_by !== null
      const rest = { narrow, forOneTier, approvedAtTier, grantedAtTier, lineageGrantedAtTier }
      if (status === 'active') read.push({ tier_id, introduced, ...rest })
    }
  const groups = await countAgentsAt(db, owner, [seed.TIER, OTHER])
  const counted = groups.flatMap(({ agents: n, ...group }) => Array.from({ length: n }, () => group))
  expect(counted).toHaveLength(13)
  expect(counted).toEqual(expect.arrayContaining(read))
  expect(read).toEqual(expect.arrayContaining(counted))
  expect(new Set(read.map(one => JSON.stringify(one))).size).toBe(groups.length)
})
