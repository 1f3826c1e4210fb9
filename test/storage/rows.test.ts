/** What storage promises beyond the races: generations, epochs, versions, once-only rows, bounded sweeps. */
import { sql } from 'kysely'
import { describe, expect, it } from 'vitest'
import {
  blockOperator,
  readConnection,
  revokeConnection,
  unblockOperator,
} from '../../src/storage/authority/connections/connections.ts'
import { inTransaction, isOutage } from '../../src/storage/core/database.ts'
import { openDatabase, type Tx } from '../../src/storage/authority/database.ts'
import { consumeGrant } from '../../src/storage/authority/grants/consume.ts'
import { readGrant } from '../../src/storage/authority/grants/read.ts'
import { appendLedger, readLedger } from '../../src/storage/authority/ledger/ledger.ts'
import {
  insertDeviceKey,
  readDeviceKey,
  revokeDeviceKey,
} from '../../src/storage/authority/credentials/device-keys.ts'
import { claimProvisioned, insertOwner, ownerOfTag } from '../../src/storage/authority/owners/owners.ts'
import { listPending, readUndecided } from '../../src/storage/authority/negotiations/pending.ts'
import { readStanding } from '../../src/storage/authority/negotiations/standing.ts'
import { sweepOwner } from '../../src/storage/authority/sweep.ts'
import {
  deleteTier,
  insertTier,
  readTerms,
  tierOfResource,
  updateTier,
} from '../../src/storage/authority/policies/tiers.ts'
import { presentTicket, readFamily } from '../../src/storage/authority/negotiations/tickets.ts'
import * as seed from '../support/seed.ts'
import { asHandle, type Handle, type Owner } from '../../src/wire/identifiers.ts'
import { coreStand } from '../support/stands.ts'

const database = coreStand()

const read = (owner: Owner, rpt: Buffer, clientId = seed.CLIENT_ID) =>
  readGrant(database.calls, owner, clientId, rpt)
const inTx = <T>(work: (tx: Tx) => Promise<T>) => inTransaction(database.db, work)

async function connected(options: { ask_me?: boolean } = {}) {
  const owner = await seed.seedOwner(database.db, options)
  const handle = seed.name('jkt:')
  const generation = await seed.seedConnection(database.db, owner, handle)
  const rpt = await seed.seedGrant(database.db, owner, handle, generation)
  return { owner, handle, generation, rpt }
}

describe('A ticket tag', () => {
  it("leads to its owner alone, and one that was nobody's to whoever is made with it", async () => {
    const [owner, tag, other] = [seed.name('o'), seed.name('t'), seed.name('t')]
    expect(await ownerOfTag(database, tag)).toBeUndefined()
    await inTx(tx => insertOwner(tx, { owner, tag }))
    expect([await ownerOfTag(database, tag), await ownerOfTag(database, tag)]).toEqual([owner, owner])
    expect(await ownerOfTag(database, other)).toBeUndefined()
  })
})

describe('Connection', () => {
  it('revoked, then admitted again: earlier grants stay ended', async () => {
    const { owner, handle, rpt } = await connected({ ask_me: true })
    await inTx(tx => revokeConnection(tx, owner, handle, seed.ACTOR))
    const generation = await seed.seedConnection(database.db, owner, handle)
    expect(generation).toBe(2)
    expect((await read(owner, rpt))?.grant).toMatchObject({ connected: true, current: false })
    expect(await consumeGrant(database.calls, owner, { client_id: seed.CLIENT_ID }, rpt)).toBeUndefined()
  })

  it('revoking an introducer revokes the agents it introduced, and counts what ended', async () => {
    const { owner, handle } = await connected()
    const child = seed.name('jkt:')
    const generation = await seed.seedConnection(database.db, owner, child, { introduced_by: handle })
    const rpt = await seed.seedGrant(database.db, owner, child, generation)
    const ended = await inTx(tx => revokeConnection(tx, owner, handle, seed.ACTOR))
    expect(ended).toEqual({ handles: [handle, child], rptsDeactivated: 2, more: false, families: [] })
    expect((await read(owner, rpt))?.grant?.connected).toBe(false)
  })

  it('revoking ends what the agent waits for in the same transaction, approved or not', async () => {
    const { owner, handle } = await connected()
    const { family, ticketHash } = await seed.seedWaiting(database.db, owner, handle, { kind: 'operation' })
    const ended = await inTx(tx => revokeConnection(tx, owner, handle, seed.ACTOR))
    expect(ended?.families).toEqual([family])
    expect(await readUndecided(database.db, owner, family)).toMatchObject({
      gone: { decision: 'denied', decided_by: 'revocation', decided_actor: seed.ACTOR },
    })
    expect(await listPending(database.db, owner, { limit: 10 })).toEqual([])
    const polled = await presentTicket(database.db, {
      owner,
      hash: ticketHash,
      nextHash: seed.bytes(),
      awaitingSeconds: 60,
      pollSeconds: 0,
    })
    expect(polled).toMatchObject({ decision: 'denied', decided_by: 'revocation' })
  })

  it('blocking an operator ends its agents and those they introduced; unblocking restores none of it', async () => {
    const owner = await seed.seedOwner(database.db)
    const operator = 'https://operator.example'
    const [parent, child, other] = [seed.name('jkt:'), seed.name('jkt:'), seed.name('jkt:')]
    await seed.seedConnection(database.db, owner, parent, { operator })
    await seed.seedConnection(database.db, owner, child, { introduced_by: parent })
    await seed.seedConnection(database.db, owner, other)
    const ended = await inTx(tx => blockOperator(tx, owner, operator, seed.ACTOR))
    expect(ended.handles).toEqual([parent, child])
    expect(await inTx(tx => unblockOperator(tx, owner, operator))).toBe(true)
    const status = async (handle: Handle) => (await readConnection(database.db, owner, handle))?.status
    expect([await status(parent), await status(child), await status(other)]).toEqual([
      'revoked',
      'revoked',
      'active',
    ])
  })

  it("another owner's connection of the same agent is untouched", async () => {
    const { handle, owner } = await connected()
    const other = await seed.seedOwner(database.db)
    const generation = await seed.seedConnection(database.db, other, handle)
    const rpt = await seed.seedGrant(database.db, other, handle, generation)
    await inTx(tx => revokeConnection(tx, owner, handle, seed.ACTOR))
    expect((await read(other, rpt))?.grant).toMatchObject({ connected: true, current: true })
    expect((await read(owner, rpt))?.grant).toBeUndefined()
  })
})

describe('Policy tiers', () => {
  it('deleting a tier ends the grants under it, and making it again revives none and goes on counting', async () => {
    const { owner, rpt } = await connected({ ask_me: true })
    expect((await read(owner, rpt))?.grant?.governed).toBe(true)
    expect(await inTx(tx => deleteTier(tx, owner, seed.TIER, undefined))).toEqual({
      outcome: 'deleted',
      ungoverned: [seed.resourceId(owner)],
      withdrawn: [],
    })
    expect((await read(owner, rpt))?.grant?.governed).toBe(false)
    expect(await inTx(tx => insertTier(tx, seed.tierOf(owner, true)))).toBe('added')
    expect((await tierOfResource(database.db, owner, seed.resourceId(owner)))?.version).toBe(2)
    expect((await read(owner, rpt))?.grant?.governed).toBe(false)
    expect(await consumeGrant(database.calls, owner, { client_id: seed.CLIENT_ID }, rpt)).toBeUndefined()
  })

  it('editing a tier makes a new version, keeps the old words, and leaves grants under it alive', async () => {
    const { owner, rpt } = await connected()
    const edited = { ...seed.tierOf(owner, false), name: 'Reading more' }
    expect(await inTx(tx => updateTier(tx, edited, 7))).toEqual({ outcome: 'stale' })
    expect(await inTx(tx => updateTier(tx, edited, 1))).toEqual({
      outcome: 'updated',
      version: 2,
      withdrawn: [],
    })
    expect((await readTerms(database.db, owner, seed.TIER, 1))?.name).toBe('Reading')
    expect((await readTerms(database.db, owner, seed.TIER, 2))?.name).toBe('Reading more')
    expect((await read(owner, rpt))?.grant?.governed).toBe(true)
  })

  it.each([
    ['rewritten', "UPDATE terms_versions SET purpose = 'other'"],
    ['removed', 'DELETE FROM terms_versions'],
    ['removed all at once', 'TRUNCATE terms_versions'],
  ])('a published version cannot be %s, not even by SQL', async (_, statement) => {
    await seed.seedOwner(database.db)
    await expect(database.pool.query(statement)).rejects.toMatchObject({ code: '42501' })
  })

  it('a resource is governed by one tier at most', async () => {
    const owner = await seed.seedOwner(database.db)
    const second = { ...seed.tierOf(owner, false), tier_id: 'other' }
    await expect(
      inTx(async tx => {
        const outcome = await insertTier(tx, second)
        if (outcome !== 'added') throw new Error(outcome)
      }),
    ).rejects.toThrow('governed')
    expect((await tierOfResource(database.db, owner, seed.resourceId(owner)))?.tier_id).toBe(seed.TIER)
  })
})

describe('The ledger', () => {
  it('what an agent wrote survives storage to the letter, NUL escapes and big numbers included', async () => {
    const owner = await seed.seedOwner(database.db)
    const data = { text: 'a\u0000b\u202e', big: 1e300, lone: '\ud800' }
    await appendLedger(database.db, owner, { kind: 'promised', data })
    const [entry] = await readLedger(database.db, owner, { after: 0, limit: 1 })
    expect(entry?.data).toEqual(data)
  })
})

describe('Owners', () => {
  it('a device key belongs to one owner, and can be revoked once', async () => {
    const [owner, other] = [await seed.seedOwner(database.db), await seed.seedOwner(database.db)]
    const kid = seed.name('kid-')
    const enrol = (whose: Owner) =>
      inTx(tx => insertDeviceKey(tx, { owner: whose, kid, jwk: {}, name: 'phone' }))
    expect([await enrol(owner), await enrol(owner), await enrol(other)]).toEqual([true, false, false])
    expect(await inTx(tx => revokeDeviceKey(tx, other, kid))).toBe(false)
    expect(await inTx(tx => revokeDeviceKey(tx, owner, kid))).toBe(true)
    expect((await readDeviceKey(database.db, kid))?.revoked_at).not.toBeNull()
  })

  it('a provisioned item is applied once', async () => {
    const owner = await seed.seedOwner(database.db)
    const claim = () => inTx(tx => claimProvisioned(tx, owner, 'tier', 'reading'))
    expect([await claim(), await claim()]).toEqual([true, false])
  })
})

describe('Standing', () => {
  it("counts only the owner's approval of the connection's present generation", async () => {
    const { owner, handle } = await connected()
    const standing = () =>
      readStanding(database.db, owner, { handle, tier_id: seed.TIER, windowSeconds: 600, countTo: 10 })
    expect(await standing()).toMatchObject({
      status: 'active',
      approvedAtTier: false,
      grantedAtTier: true,
      tiers: 1,
      calls: 0,
      denials: 0,
    })
    await inTx(tx => revokeConnection(tx, owner, handle, seed.ACTOR))
    expect(await standing()).toMatchObject({ status: 'revoked', revocations: 1, ageSeconds: null })
  })

  it('an unknown agent has none', async () => {
    const owner = await seed.seedOwner(database.db)
    const facts = await readStanding(database.db, owner, {
      handle: asHandle('jkt:nobody'),
      tier_id: seed.TIER,
      windowSeconds: 600,
      countTo: undefined,
    })
    expect(facts).toMatchObject({ status: 'none', generation: null, calls: null })
  })
})

describe('Sweep', () => {
  it('removes long-expired rows in bounded batches, and never a family whose sealed ticket could come again', async () => {
    const owner = await seed.seedOwner(database.db)
    const old = await seed.seedFamily(database.db, owner, null)
    const young = await seed.seedFamily(database.db, owner, null)
    await sql`UPDATE families SET ticket_expires_at = now() - interval '2 days' WHERE owner = ${owner}`.execute(
      database.db,
    )
    await sql`UPDATE families SET sealed_expires_at = now() - interval '2 days'
      WHERE owner = ${owner} AND family = ${old}`.execute(database.db)
    expect(await sweepOwner(database.db, owner, 1)).toEqual({ rows: 1, more: true, faults: [] })
    expect(await readFamily(database.db, owner, old)).toBeUndefined()
    expect(await readFamily(database.db, owner, young)).toBeDefined()
    expect(await sweepOwner(database.db, owner, 100)).toEqual({ rows: 0, more: false, faults: [] })
  })
})

describe('Outages', () => {
  it('an unreachable database is an outage, a wrong statement is not', async () => {
    const away = openDatabase({ url: 'postgres://nobody@127.0.0.1:1/none', poolMax: 1 })
    const unreachable: unknown = await sql`SELECT 1`.execute(away.db).catch((error: unknown) => error)
    const wrong: unknown = await sql`SELECT nothing_such`
      .execute(database.db)
      .catch((error: unknown) => error)
    await away.close()
    expect([isOutage(unreachable), isOutage(wrong)]).toEqual([true, false])
  })
})
