/**
 * Negotiations that come at the same time share statements: each gets what it would have got alone.
 */
import { describe, expect, it } from 'vitest'
import { revokeConnection } from '../../src/storage/authority/connections/connections.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import {
  readRequestedResource,
  readGovernedResource,
} from '../../src/storage/authority/negotiations/governance.ts'
import { recordGrant } from '../../src/storage/authority/grants/issue.ts'
import { readGrant } from '../../src/storage/authority/grants/read.ts'
import { readStanding } from '../../src/storage/authority/negotiations/standing.ts'
import {
  openFamily,
  presentTicket,
  readFamily,
  type NewFamily,
} from '../../src/storage/authority/negotiations/tickets.ts'
import * as seed from '../support/seed.ts'
import { coreStand } from '../support/stands.ts'
import { asClientId, type Family, type Handle, type Owner } from '../../src/wire/identifiers.ts'

const database = coreStand()

const newFamily = (owner: Owner, family: Family, of: Partial<NewFamily> = {}): NewFamily => ({
  owner,
  family,
  state: 'need_info',
  client_id: seed.CLIENT_ID,
  resource_id: seed.resourceId(owner),
  resource_scopes: ['read', 'a "quoted", {odd} \\ one'],
  tier_id: seed.TIER,
  template: seed.templateOf(owner, family),
  sealedExpiresAt: Math.floor(Date.now() / 1000) + 300,
  ticketHash: seed.bytes(),
  ticketSeconds: 300,
  negotiationSeconds: 3600,
  ...of,
})

const present = (owner: Owner, hash: Buffer) =>
  presentTicket(database.db, { owner, hash, nextHash: seed.bytes(), awaitingSeconds: 600, pollSeconds: 0 })

/** An agent with its family, whose ticket was just spent, and a grant for it that is not recorded. */
async function readyToGrant(owner: Owner) {
  const handle = seed.name('jkt:')
  const generation = await seed.seedConnection(database.db, owner, handle)
  const family = await seed.seedFamily(database.db, owner, null)
  return { handle, family, grant: { ...seed.grantRow(owner, handle, generation, seed.bytes()), family } }
}

const promised = (handle: Handle) => [
  { kind: 'promised' as const, data: { handle, odd: '\u0000 "}' } },
  { kind: 'relaxed' as const, data: { handle } },
]

async function ledgerOf(owner: Owner, family: Family) {
  const { rows } = await database.pool.query<{ kind: string; handle: Handle; data: { handle: Handle } }>(
    'SELECT kind, handle, data FROM ledger WHERE owner = $1 AND family = $2 ORDER BY seq',
    [owner, family],
  )
  return rows
}

describe('First presentations at the same time', () => {
  it('open each its own negotiation, and of those of one sealed ticket the first alone', async () => {
    const owner = await seed.seedOwner(database.db)
    const [one, other, refused] = [seed.name('fam_'), seed.name('fam_'), seed.name('fam_')]
    const first = newFamily(owner, one)
    const ended = { state: 'denied', tier_id: null, template: null, ticketHash: null } as const
    const outcomes = await Promise.all([
      openFamily(database.db, first),
      openFamily(database.db, newFamily(owner, other)),
      openFamily(database.db, newFamily(owner, one)),
      openFamily(database.db, newFamily(owner, refused, ended)),
    ])
    expect(outcomes).toEqual([true, true, false, true])
    const { resource_scopes } = first
    const opened = await present(owner, first.ticketHash!)
    expect(opened).toMatchObject({ family: one, template: seed.templateOf(owner, one), resource_scopes })
    expect(await readFamily(database.db, owner, refused)).toMatchObject({
      state: 'denied',
      tier_id: null,
      template: null,
    })
    expect(await openFamily(database.db, newFamily(owner, other))).toBe(false)
  })
})

describe('Later presentations at the same time', () => {
  it('spend each its own ticket, and of those of one ticket one alone', async () => {
    const owner = await seed.seedOwner(database.db)
    const hashes = Array.from({ length: 20 }, () => seed.bytes())
    const families = await Promise.all(hashes.map(hash => seed.seedFamily(database.db, owner, hash)))
    const outcomes = await Promise.all([...hashes, ...hashes, seed.bytes()].map(hash => present(owner, hash)))
    for (const [n, family] of families.entries()) {
      const won = [outcomes[n], outcomes[n + hashes.length]].filter(outcome => outcome !== undefined)
      expect(won.map(outcome => outcome.family)).toEqual([family])
      expect(won[0]).not.toHaveProperty('place')
    }
    expect(outcomes.at(-1)).toBeUndefined()
  })

  it('of one waiting item rotate it once, to the ticket of the one that won', async () => {
    const owner = await seed.seedOwner(database.db)
    const { family, ticketHash: hash } = await seed.seedWaiting(database.db, owner, seed.name('jkt:'))
    const nexts = Array.from({ length: 8 }, () => seed.bytes())
    const polls = await Promise.all(
      nexts.map(nextHash =>
        presentTicket(database.db, { owner, hash, nextHash, awaitingSeconds: 600, pollSeconds: 0 }),
      ),
    )
    expect(polls.filter(poll => poll !== undefined)).toHaveLength(1)
    const next = nexts[polls.findIndex(poll => poll !== undefined)]!
    const others = nexts.filter(one => one !== next)
    expect(await Promise.all(others.map(one => present(owner, one)))).toEqual(others.map(() => undefined))
    expect(await present(owner, next)).toMatchObject({ family, state: 'awaiting_owner' })
  })
})

describe('Grants recorded at the same time', () => {
  it('are made each on its own connection, and none on one that was revoked meanwhile', async () => {
    const owner = await seed.seedOwner(database.db)
    const ready = await Promise.all(Array.from({ length: 6 }, () => readyToGrant(owner)))
    const revoked = ready[2]!
    await inTransaction(database.db, tx => revokeConnection(tx, owner, revoked.handle, seed.ACTOR))
    const made = await Promise.all(
      ready.map(({ grant, handle }) => recordGrant(database.db, grant, promised(handle))),
    )
    expect(made).toEqual(ready.map(one => one !== revoked))
    for (const one of ready) {
      const { grant, handle, family } = one
      const isRevoked = one === revoked
      const read = await readGrant(database.calls, owner, seed.CLIENT_ID, grant.rptSha256)
      expect(read?.grant?.claims).toEqual(isRevoked ? undefined : grant.claims)
      expect((await readFamily(database.db, owner, family))?.state).toBe(isRevoked ? 'need_info' : 'granted')
      expect(await ledgerOf(owner, family)).toEqual(
        isRevoked ? [] : promised(handle).map(entry => ({ handle, ...entry })),
      )
      const of = { handle, tier_id: seed.TIER, windowSeconds: 600, countTo: undefined }
      expect((await readStanding(database.db, owner, of)).grantedAtTier).toBe(!isRevoked)
    }
  })

  it('of one agent are all made', async () => {
    const owner = await seed.seedOwner(database.db)
    const { grant, handle } = await readyToGrant(owner)
    const grants = [1, 2, 3].map(() => ({ ...grant, rptSha256: seed.bytes(), jti: seed.name('rpt_') }))
    expect(await Promise.all(grants.map(one => recordGrant(database.db, one, promised(handle))))).toEqual([
      true,
      true,
      true,
    ])
  })

  it('do not fail for one among them that cannot be made', async () => {
    const owner = await seed.seedOwner(database.db)
    const [one, faulty, other] = await Promise.all([1, 2, 3].map(() => readyToGrant(owner)))
    const outcomes = await Promise.allSettled([
      recordGrant(database.db, one!.grant, promised(one!.handle)),
      recordGrant(database.db, { ...faulty!.grant, jti: one!.grant.jti }, promised(faulty!.handle)),
      recordGrant(database.db, other!.grant, promised(other!.handle)),
    ])
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
    expect(await ledgerOf(owner, other!.family)).toHaveLength(2)
    expect((await readFamily(database.db, owner, faulty!.family))?.state).toBe('need_info')
  })
})

describe('Questions at the same time', () => {
  it('are answered each as it would be alone, of each owner from her own records', async () => {
    const owners = await Promise.all([1, 2].map(() => seed.seedOwner(database.db)))
    const { db } = database
    const questions = owners.flatMap(owner =>
      owners.flatMap(whose => [
        () => readGovernedResource(db, asked(owner, seed.resourceId(whose))),
        () => readRequestedResource(db, asked(owner, seed.resourceId(whose))),
        () =>
          readRequestedResource(
            db,
            asked(owner, seed.resourceId(whose), asClientId('https://unknown.example')),
          ),
        () => readGovernedResource(db, asked(owner, 'unknown')),
      ]),
    )
    const alone: unknown[] = []
    for (const question of questions) alone.push(await question())
    expect(await Promise.all(questions.map(question => question()))).toEqual(alone)
    expect(alone[0]).toMatchObject({ server: {}, resource: {}, tier: {} })
    // The other owner's resource.
    expect(alone[4]).toEqual({ server: expect.anything() })
  })

  it('are told each of its own agent and its own lineage', async () => {
    const owner = await seed.seedOwner(database.db)
    const [parent, child, stranger] = [seed.name('jkt:'), seed.name('jkt:'), seed.name('jkt:')]
    const generation = await seed.seedConnection(database.db, owner, parent)
    await seed.seedGrant(database.db, owner, parent, generation)
    await seed.seedConnection(database.db, owner, child, { introduced_by: parent })
    const of = { tier_id: seed.TIER, windowSeconds: 600, countTo: 10 }
    const facts = await Promise.all([
      readStanding(database.db, owner, { ...of, handle: parent }),
      readStanding(database.db, owner, { ...of, handle: child }),
      readStanding(database.db, owner, { ...of, handle: stranger }),
      readStanding(database.db, owner, { ...of, handle: stranger, introducedBy: parent }),
    ])
    expect(facts).toMatchObject([
      { status: 'active', grantedAtTier: true, lineageGrantedAtTier: true, tiers: 1 },
      { status: 'active', grantedAtTier: false, lineageGrantedAtTier: true, introduced_by: parent, tiers: 0 },
      { status: 'none', grantedAtTier: false, lineageGrantedAtTier: false, introduced_by: null },
      { status: 'active', generation: null, lineageGrantedAtTier: true, introduced_by: parent },
    ])
  })
})

function asked(owner: Owner, resource_id: string, client_id = seed.CLIENT_ID) {
  return { owner, client_id, resource_id }
}
