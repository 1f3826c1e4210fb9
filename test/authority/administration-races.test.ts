/**
 * Administrators of an organization beside each other and beside the owner, on a real Postgres: contract,
 * "Organization membership, on the member's authorization server" (whoever decides first has decided; a token
 * that changes something is spent).
 */
import { sql } from 'kysely'
import { describe, expect, it } from 'vitest'
import { actAs } from '../../src/authority/organization/administrator.ts'
import { decideItem, undecided } from '../../src/authority/owner/pending/decision.ts'
import type { MemberView } from '../../src/rules/organization/member-view.ts'
import { insertMembership } from '../../src/storage/authority/membership/membership.ts'
import { lockQueue } from '../../src/storage/authority/owners/owners.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import type { Actor } from '../../src/wire/owner/actor.ts'
import type { Handle, Owner } from '../../src/wire/identifiers.ts'
import type { OrganizationAdminClaims } from '../../src/wire/organization/organization-admin.ts'
import { Refusal } from '../../src/wire/refusal.ts'
import { PATIENT } from '../support/postgres.ts'
import * as seed from '../support/seed.ts'
import { coreStand } from '../support/stands.ts'
import { raceRounds } from '../support/layer.ts'

const ROUNDS = raceRounds(100)
const CALLERS = 32
const AT_ONCE = 3
const ISSUER = 'https://org.example'
const ADMIN: Actor = { kind: 'organization', org: 'acme', name: 'Acme', admin: 'ines' }
const database = coreStand({ poolMax: 64, ...PATIENT })

const tooLate = () => new Refusal('conflict', 'Somebody was first.')
const won = async (work: Promise<unknown>): Promise<boolean> => {
  try {
    await work
    return true
  } catch (error) {
    if (error instanceof Refusal && error.code === 'conflict') return false
    throw error
  }
}

async function member(): Promise<{ owner: Owner; join_id: string }> {
  const owner = await seed.seedOwner(database.db)
  const join_id = seed.name('join_')
  const view = { org: 'acme', name: 'Acme' } as MemberView
  await inTransaction(database.db, async tx => {
    await lockQueue(tx, owner)
    await insertMembership(tx, owner, {
      issuer: ISSUER,
      join_id,
      token: 'token',
      view,
      administrators_may: [],
    })
  })
  return { owner, join_id }
}

describe('She and an administrator on one item', () => {
  it('decide it once, whoever of them comes first', async () => {
    await seed.inRounds(ROUNDS, AT_ONCE, async () => {
      const { owner } = await member()
      const handle = seed.name('jkt:') as Handle
      const { family } = await seed.seedWaiting(database.db, owner, handle)
      const decide = (by: 'owner' | 'administrator') =>
        inTransaction(database.db, async tx => {
          await lockQueue(tx, owner)
          const item = await undecided(tx, owner, family, tooLate)
          const decider = {
            tx,
            owner,
            by: { by, actor: by === 'owner' ? seed.ACTOR : ADMIN },
            noLongerWaits: tooLate,
          }
          const reach = by === 'owner' ? null : 'organization'
          await decideItem(decider, item, 'approved', { reach, isListed: false })
        })
      const outcomes = await seed.callers(CALLERS, n => won(decide(n % 2 === 0 ? 'owner' : 'administrator')))
      expect(outcomes.filter(Boolean)).toHaveLength(1)
      const { rows } = await sql<{ reach: string | null; decided_by: string }>`
        SELECT c.reach, f.decided_by FROM connections c JOIN families f ON f.owner = c.owner AND f.handle = c.handle
        WHERE c.owner = ${owner} AND f.family = ${family}`.execute(database.db)
      const byOwner = rows[0]!.decided_by === 'owner'
      expect(rows).toEqual([{ reach: byOwner ? null : 'organization', decided_by: rows[0]!.decided_by }])
      const { rows: approvals } = await sql`
        SELECT 1 FROM connection_tiers WHERE owner = ${owner} AND approved_at IS NOT NULL`.execute(
        database.db,
      )
      expect(approvals).toHaveLength(byOwner ? 1 : 0)
    })
  })
})

describe('One token of an administrator, presented by many at once', () => {
  it('changes something once', async () => {
    await seed.inRounds(ROUNDS, AT_ONCE, async () => {
      const { owner, join_id } = await member()
      const handle = seed.name('jkt:') as Handle
      await seed.seedConnection(database.db, owner, handle)
      const claims = { iss: ISSUER, sub: owner, membership: join_id, jti: 'oat_1', admin: 'ines' }
      const caller = { owner, claims: claims as OrganizationAdminClaims }
      const outcomes = await seed.callers(CALLERS, () =>
        won(
          actAs({ database }, caller, ({ tx }) =>
            sql`UPDATE connections SET org_epoch = org_epoch + 1 WHERE owner = ${owner}`.execute(tx),
          ),
        ),
      )
      expect(outcomes.filter(Boolean)).toHaveLength(1)
      const { rows } = await sql`SELECT org_epoch FROM connections WHERE owner = ${owner}`.execute(
        database.db,
      )
      expect(rows).toEqual([{ org_epoch: 1 }])
    })
  })
})
