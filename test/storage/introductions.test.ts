/**
 * Contract, "Connection": what the record says of an introduction, and that nothing introduced outlives its
 * introducer.
 */
import { describe, expect, it } from 'vitest'
import {
  admitConnection,
  blockOperator,
  lockOperator,
  readConnection,
  recordApproval,
  revokeConnection,
} from '../../src/storage/authority/connections/connections.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import type { Tx } from '../../src/storage/authority/database.ts'
import { recordGrant } from '../../src/storage/authority/grants/issue.ts'
import { readGrant } from '../../src/storage/authority/grants/read.ts'
import { lockIntroducer, readIntroduction } from '../../src/storage/authority/negotiations/introductions.ts'
import {
  claimOperator,
  disclaimOperator,
  hasActiveAgents,
  isOwn,
  nameOperator,
} from '../../src/storage/authority/connections/operators.ts'
import { lockQueue } from '../../src/storage/authority/owners/owners.ts'
import { readStanding } from '../../src/storage/authority/negotiations/standing.ts'
import * as seed from '../support/seed.ts'
import { asHandle, type Handle, type Owner } from '../../src/wire/identifiers.ts'
import { PATIENT } from '../support/postgres.ts'
import { coreStand } from '../support/stands.ts'
import { raceRounds } from '../support/layer.ts'

const OPERATOR = 'https://operator.example'
const JKT = (n: number) => String(n).padStart(43, 'k')

const database = coreStand({ poolMax: 96, ...PATIENT })

const inTx = <T>(work: (tx: Tx) => Promise<T>) => inTransaction(database.db, work)
const admit = (owner: Owner, handle: Handle, more: object = {}) =>
  inTx(async tx => {
    await lockQueue(tx, owner)
    await lockOperator(tx, owner, OPERATOR)
    const identity = 'identified' as const
    const admission = { owner, handle, identity, label: null, operator: OPERATOR, introduced_by: null }
    return admitConnection(tx, { ...admission, ...more })
  })
const approve = (owner: Owner, handle: Handle, generation: number) =>
  inTx(tx => recordApproval(tx, { owner, handle, tier_id: seed.TIER, generation }))

describe('The record of an introduction', () => {
  it('tells of nobody if nobody is known', async () => {
    const owner = await seed.seedOwner(database.db)
    const of = { introducer: asHandle('a'), newcomer: asHandle('b'), newcomerJkt: 'c', operator: OPERATOR }
    expect(await readIntroduction(database.db, owner, of)).toEqual({
      newcomer: 'none',
      introducer: 'none',
      operatorStands: false,
      jkt: null,
      wasIntroduced: false,
      approvedInPerson: false,
      liveIntroduced: 0,
    })
  })

  it('tells whether the operator stands there, key, approval in the present generation, and how many it introduced live', async () => {
    const owner = await seed.seedOwner(database.db)
    const generation = await admit(owner, asHandle('p@i'), { jkt: JKT(1) })
    await approve(owner, asHandle('p@i'), generation)
    await admit(owner, asHandle('c1@i'), { introduced_by: 'p@i' })
    await admit(owner, asHandle('c2@i'), { introduced_by: 'p@i' })
    const of = {
      introducer: asHandle('p@i'),
      newcomer: asHandle('n@i'),
      newcomerJkt: JKT(9),
      operator: OPERATOR,
    }
    const record = await readIntroduction(database.db, owner, of)
    expect(record).toEqual({
      newcomer: 'none',
      introducer: 'active',
      operatorStands: true,
      jkt: JKT(1),
      wasIntroduced: false,
      approvedInPerson: true,
      liveIntroduced: 2,
    })
    for (const operator of ['https://other.example', null])
      expect((await readIntroduction(database.db, owner, { ...of, operator })).operatorStands).toBe(false)
    await inTx(tx => revokeConnection(tx, owner, asHandle('c1@i'), seed.ACTOR))
    expect((await readIntroduction(database.db, owner, of)).liveIntroduced).toBe(1)
    expect(
      (await readIntroduction(database.db, owner, { ...of, introducer: asHandle('c2@i') })).wasIntroduced,
    ).toBe(true)
    await inTx(tx => revokeConnection(tx, owner, asHandle('p@i'), seed.ACTOR))
    await admit(owner, asHandle('p@i'))
    // Admitted again: the approval was of an earlier generation.
    expect(await readIntroduction(database.db, owner, of)).toMatchObject({
      introducer: 'active',
      approvedInPerson: false,
      liveIntroduced: 0,
    })
  })

  it('remembers an ended newcomer by its handle, and by its key under any handle', async () => {
    const owner = await seed.seedOwner(database.db)
    await admit(owner, asHandle('n@i'), { jkt: JKT(2) })
    const of = { introducer: asHandle('p@i'), newcomer: asHandle('n@i'), newcomerJkt: JKT(3), operator: null }
    expect((await readIntroduction(database.db, owner, of)).newcomer).toBe('active')
    await inTx(tx => revokeConnection(tx, owner, asHandle('n@i'), seed.ACTOR))
    expect((await readIntroduction(database.db, owner, of)).newcomer).toBe('revoked')
    const renamed = { ...of, newcomer: asHandle('m@i'), newcomerJkt: JKT(2) }
    expect((await readIntroduction(database.db, owner, renamed)).newcomer).toBe('revoked')
  })

  it('is read of one owner alone', async () => {
    const [owner, other] = [await seed.seedOwner(database.db), await seed.seedOwner(database.db)]
    await admit(other, asHandle('p@i'), { jkt: JKT(1) })
    const record = await readIntroduction(database.db, owner, {
      introducer: asHandle('p@i'),
      newcomer: asHandle('n'),
      newcomerJkt: JKT(1),
      operator: OPERATOR,
    })
    expect([record.introducer, record.newcomer]).toEqual(['none', 'none'])
  })
})

describe('The standing of an agent that is being introduced', () => {
  it('is read as if it were connected, with its lineage', async () => {
    const owner = await seed.seedOwner(database.db)
    const generation = await admit(owner, asHandle('p@i'))
    await approve(owner, asHandle('p@i'), generation)
    const of = { handle: asHandle('n@i'), tier_id: seed.TIER, windowSeconds: 60, countTo: undefined }
    expect(await readStanding(database.db, owner, of)).toMatchObject({
      status: 'none',
      approvedAtTier: false,
    })
    expect(await readStanding(database.db, owner, { ...of, introducedBy: asHandle('p@i') })).toMatchObject({
      status: 'active',
      generation: null,
      introduced_by: 'p@i',
      approvedAtTier: true,
      grantedAtTier: false,
      lineageGrantedAtTier: false,
      ageSeconds: 0,
      first_party: false,
      revocations: 0,
    })
    // A connection that stands is read as it is.
    await admit(owner, asHandle('n@i'))
    expect(await readStanding(database.db, owner, { ...of, introducedBy: asHandle('p@i') })).toMatchObject({
      introduced_by: null,
      approvedAtTier: false,
    })
  })
})

describe('An introduced agent written against the end of its introducer', () => {
  const introduce = (owner: Owner, introducer: Handle, handle: Handle, rpt: Buffer) =>
    inTx(async tx => {
      await lockQueue(tx, owner)
      if ((await lockOperator(tx, owner, OPERATOR)).blocked) return false
      await lockIntroducer(tx, owner, introducer)
      const of = { introducer, newcomer: handle, newcomerJkt: handle, operator: OPERATOR }
      const record = await readIntroduction(tx, owner, of)
      if (record.introducer !== 'active' || record.liveIntroduced >= 3) return false
      const identity = 'identified' as const
      const admission = {
        owner,
        handle,
        identity,
        label: null,
        operator: OPERATOR,
        introduced_by: introducer,
      }
      const generation = await admitConnection(tx, admission)
      return recordGrant(tx, seed.grantRow(owner, handle, generation, rpt), [])
    })
  const isLive = async (owner: Owner, rpt: Buffer) => {
    const grant = (await readGrant(database.calls, owner, seed.CLIENT_ID, rpt))?.grant
    return grant?.connected === true && grant.current
  }

  it.each(['revoked', 'blocked'] as const)(
    '%s: of eight in each round none is connected and none of their grants live once it has returned',
    async how => {
      const written = { before: 0, refused: 0, overCap: 0 }
      await seed.inRounds(raceRounds(100), 3, async round => {
        const owner = await seed.seedOwner(database.db)
        await admit(owner, asHandle('p@i'))
        const children = Array.from({ length: 8 }, (_, n) => ({
          handle: asHandle(`c${n}@i`),
          rpt: seed.bytes(),
        }))
        const writes = children.map(({ handle, rpt }) => introduce(owner, asHandle('p@i'), handle, rpt))
        // Let some rounds begin with the end, some with the newcomers.
        if (round % 2 === 0) await writes[0]
        await inTx(tx =>
          how === 'revoked'
            ? revokeConnection(tx, owner, asHandle('p@i'), seed.ACTOR)
            : blockOperator(tx, owner, OPERATOR, seed.ACTOR),
        )
        const done = (await Promise.all(writes)).filter(Boolean).length
        written.before += done
        written.refused += children.length - done
        if (done > 3) written.overCap += 1
        for (const { handle, rpt } of children) {
          expect((await readConnection(database.db, owner, handle))?.status).not.toBe('active')
          expect(await isLive(owner, rpt)).toBe(false)
        }
      })
      // Guards the test itself: both outcomes were seen, and the cap held throughout.
      expect(written.before).toBeGreaterThan(0)
      expect(written.refused).toBeGreaterThan(0)
      expect(written.overCap).toBe(0)
    },
  )
})

describe('Operators', () => {
  const named = async (owner: Owner) =>
    (await database.db.selectFrom('operators').select('name').where('owner', '=', owner).executeTakeFirst())
      ?.name
  const name = (owner: Owner, of: { name: string | undefined; attested: boolean }) =>
    inTx(async tx => {
      await lockOperator(tx, owner, OPERATOR)
      await nameOperator(tx, owner, OPERATOR, of)
    })

  it('are named by whoever comes first, and renamed only by an agent whose key they publish', async () => {
    const owner = await seed.seedOwner(database.db)
    await name(owner, { name: undefined, attested: true })
    expect(await named(owner)).toBeNull()
    await name(owner, { name: 'First', attested: false })
    await name(owner, { name: 'Second', attested: false })
    expect(await named(owner)).toBe('First')
    await name(owner, { name: 'Third', attested: true })
    expect(await named(owner)).toBe('Third')
  })

  it('claimed by the owner: connected agents whose keys the directory lists become first-party, no others', async () => {
    const owner = await seed.seedOwner(database.db)
    await admit(owner, asHandle('listed@i'), { jkt: JKT(1) })
    await admit(owner, asHandle('unlisted@i'), { jkt: JKT(2) })
    await admit(owner, asHandle('revoked@i'), { jkt: JKT(3) })
    await admit(owner, asHandle('foreign@i'), { jkt: JKT(1), operator: 'https://other.example' })
    await admit(owner, asHandle('unkeyed@i'))
    await inTx(tx => revokeConnection(tx, owner, asHandle('revoked@i'), seed.ACTOR))
    expect(await isOwn(database.db, owner, OPERATOR)).toBe(false)
    expect(await inTx(tx => claimOperator(tx, owner, OPERATOR, [JKT(1), JKT(3)]))).toEqual(['listed@i'])
    expect(await isOwn(database.db, owner, OPERATOR)).toBe(true)
    const firstParty = async () => {
      const rows = await database.db
        .selectFrom('connections')
        .select('handle')
        .where('owner', '=', owner)
        .where('first_party', '=', true)
        .execute()
      return rows.map(row => row.handle)
    }
    expect(await firstParty()).toEqual(['listed@i'])
    // Claimed again, only what is new is told.
    expect(await inTx(tx => claimOperator(tx, owner, OPERATOR, [JKT(1)]))).toEqual([])
    expect(await inTx(tx => disclaimOperator(tx, owner, OPERATOR))).toBe(true)
    expect(await firstParty()).toEqual([])
    expect(await isOwn(database.db, owner, OPERATOR)).toBe(false)
    expect(await inTx(tx => disclaimOperator(tx, owner, 'https://unknown.example'))).toBe(false)
  })

  it('a first-party agent that is revoked and admitted again is so no more, nor one approved with another key', async () => {
    const owner = await seed.seedOwner(database.db)
    const isFirst = async (handle: Handle) => (await readConnection(database.db, owner, handle))?.first_party
    await admit(owner, asHandle('a@i'), { jkt: JKT(1), first_party: true })
    await admit(owner, asHandle('a@i'), { jkt: JKT(1) })
    expect(await isFirst(asHandle('a@i'))).toBe(true)
    await admit(owner, asHandle('a@i'), { jkt: JKT(2) })
    expect(await isFirst(asHandle('a@i'))).toBe(false)
    await admit(owner, asHandle('b@i'), { first_party: true })
    await admit(owner, asHandle('b@i'))
    expect(await isFirst(asHandle('b@i'))).toBe(true)
    await inTx(tx => revokeConnection(tx, owner, asHandle('b@i'), seed.ACTOR))
    await admit(owner, asHandle('b@i'))
    expect(await isFirst(asHandle('b@i'))).toBe(false)
  })

  it('have agents here while one is active', async () => {
    const owner = await seed.seedOwner(database.db)
    expect(await hasActiveAgents(database.db, owner, OPERATOR)).toBe(false)
    await admit(owner, asHandle('a@i'))
    expect(await hasActiveAgents(database.db, owner, OPERATOR)).toBe(true)
    await inTx(tx => revokeConnection(tx, owner, asHandle('a@i'), seed.ACTOR))
    expect(await hasActiveAgents(database.db, owner, OPERATOR)).toBe(false)
  })
})
