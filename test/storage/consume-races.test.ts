/**
 * A consume against what ends the tier it rests on, on a real Postgres. Contract: "Single-use grant" (spent
 * exactly once), "Policy vocabulary and tiers" (an ungoverned resource is denied).
 */
import { describe, expect, it, onTestFinished } from 'vitest'
import { inTransaction } from '../../src/storage/core/database.ts'
import type { Tx } from '../../src/storage/authority/database.ts'
import { consumeGrant, readGrant } from '../../src/storage/authority/grants.ts'
import { decideResourceServer } from '../../src/storage/authority/registrations.ts'
import { deleteTier, takeOut, updateTier } from '../../src/storage/authority/tiers.ts'
import { revokeConnection } from '../../src/storage/authority/connections.ts'
import { lockQueue } from '../../src/storage/authority/owners.ts'
import { lockWaiters } from '../support/lock-waiters.ts'
import * as seed from '../support/seed.ts'
import { until } from '../support/until.ts'
import type { Owner } from '../../src/wire/identifiers.ts'
import { PATIENT } from '../support/postgres.ts'
import { coreStand } from '../support/stands.ts'

const ROUNDS = 60
const CONSUMERS = 16
const AT_ONCE = 3

const database = coreStand({ poolMax: 64, ...PATIENT })

const inTx = <T>(work: (tx: Tx) => Promise<T>) => inTransaction(database.db, work)
const consume = (owner: Owner, rpt: Buffer) =>
  consumeGrant(database.calls, owner, { client_id: seed.CLIENT_ID }, rpt)

async function granted() {
  const owner = await seed.seedOwner(database.db, { ask_me: true })
  const handle = seed.name('jkt:')
  const generation = await seed.seedConnection(database.db, owner, handle)
  const rpt = await seed.seedGrant(database.db, owner, handle, generation)
  return { owner, handle, generation, rpt }
}

type End = [what: string, end: (tx: Tx, owner: Owner) => Promise<unknown>]
const ENDS: End[] = [
  ['the tier is deleted', (tx, owner) => deleteTier(tx, owner, seed.TIER, undefined)],
  [
    'the resource is taken out of the tier',
    (tx, owner) => updateTier(tx, { ...seed.tierOf(owner, true), resources: [] }, undefined),
  ],
  [
    'the resource changes hands',
    async (tx, owner) => {
      await lockQueue(tx, owner)
      await takeOut(tx, owner, { resource_ids: [seed.resourceId(owner)] })
    },
  ],
  [
    'the resource server is withdrawn',
    async (tx, owner) => {
      await lockQueue(tx, owner)
      await decideResourceServer(tx, owner, seed.CLIENT_ID, 'revoked')
    },
  ],
]

describe('Single-use grant: a consume while what it rests on ends', () => {
  it.each(ENDS)(
    'a consume that waits for its grant while %s wins before that returns, or not at all',
    async (_, end) => {
      const { owner, rpt } = await granted()
      const holder = await database.pool.connect()
      await holder.query('BEGIN')
      await holder.query('SELECT 1 FROM grants WHERE owner = $1 AND rpt_sha256 = $2 FOR UPDATE', [owner, rpt])
      const consumed = consume(owner, rpt)
      await until(async () => (await lockWaiters(database)) === 1)
      let returned = false
      const ending = inTx(tx => end(tx, owner)).then(() => {
        returned = true
      })
      // Either it waits for the consume, or it has returned.
      await until(async () => returned || (await lockWaiters(database)) === 2)
      const tooLate = returned
      await holder.query('COMMIT')
      holder.release()
      expect({ tooLate, won: (await consumed) !== undefined }).not.toEqual({ tooLate: true, won: true })
      await ending
    },
  )

  it.each(ENDS)('once %s, no consume wins: %#', async (_, end) => {
    await seed.inRounds(ROUNDS, AT_ONCE, async () => {
      const { owner, rpt } = await granted()
      let ended = false
      const late: boolean[] = []
      const consumers = seed.callers(CONSUMERS, async () => {
        const before = ended
        const won = (await consume(owner, rpt)) !== undefined
        late.push(won && before)
        return won
      })
      await inTx(tx => end(tx, owner)).then(() => {
        ended = true
      })
      expect(await consume(owner, rpt)).toBeUndefined()
      expect((await consumers).filter(Boolean).length).toBeLessThanOrEqual(1)
      expect(late).not.toContain(true)
    })
  })

  it('an edit that keeps the resource refuses no consume that waits for it', async () => {
    const { owner, rpt } = await granted()
    let commit!: () => void
    const gate = new Promise<void>(resolve => (commit = resolve))
    let edited!: () => void
    const isEdited = new Promise<void>(resolve => (edited = resolve))
    const edit = inTx(async tx => {
      await updateTier(tx, { ...seed.tierOf(owner, true), name: 'Reading more' }, undefined)
      edited()
      await gate
    })
    // Also where an expectation fails: a transaction left open would hold up the end of the file.
    onTestFinished(() => commit())
    await isEdited
    const consumed = consume(owner, rpt)
    await until(async () => (await lockWaiters(database)) === 1)
    commit()
    await edit
    expect(await consumed).toBeTypeOf('string')
  })

  it('consumes, revocations, edits, deletions and withdrawals at once never deadlock', async () => {
    await seed.inRounds(ROUNDS, AT_ONCE, async n => {
      const { owner, handle, generation } = await granted()
      const rpts = await seed.callers(8, () => seed.seedGrant(database.db, owner, handle, generation))
      const ends = [
        (tx: Tx) => updateTier(tx, { ...seed.tierOf(owner, true), name: `Edit ${n}` }, undefined),
        (tx: Tx) => ENDS[n % ENDS.length]![1](tx, owner),
        (tx: Tx) => revokeConnection(tx, owner, handle, seed.ACTOR),
      ]
      // Past every retry: a deadlock would be told by its SQLSTATE.
      const outcomes = await Promise.allSettled([
        ...rpts.map(rpt => consume(owner, rpt)),
        ...ends.map(end => database.db.transaction().execute(end)),
      ])
      expect(outcomes.filter(({ status }) => status === 'rejected')).toEqual([])
      for (const rpt of rpts) expect(await consume(owner, rpt)).toBeUndefined()
    })
  })

  it('a grant whose resource was taken out and whose consume lost says so: the tier governs it no more', async () => {
    const { owner, rpt } = await granted()
    await inTx(tx => updateTier(tx, { ...seed.tierOf(owner, true), resources: [] }, undefined))
    expect(await consume(owner, rpt)).toBeUndefined()
    expect((await readGrant(database.calls, owner, seed.CLIENT_ID, rpt))?.grant?.governed).toBe(false)
  })
})
