/**
 * The operators of connections, as rows: contract, "Connection" (owner blocks the operator). Races are on a
 * real Postgres.
 */
import { describe, expect, it, onTestFinished } from 'vitest'
import {
  blockOperator,
  lockOperator,
  readConnection,
} from '../../src/storage/authority/connections/connections.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import type { Tx } from '../../src/storage/authority/database.ts'
import { recordGrant } from '../../src/storage/authority/grants/issue.ts'
import { readGrant } from '../../src/storage/authority/grants/read.ts'
import { addOperator, isAnyBlocked } from '../../src/storage/authority/connections/operators.ts'
import { lockQueue } from '../../src/storage/authority/owners/owners.ts'
import { readStanding } from '../../src/storage/authority/negotiations/standing.ts'
import * as seed from '../support/seed.ts'
import type { Handle, Owner } from '../../src/wire/identifiers.ts'
import { PATIENT } from '../support/postgres.ts'
import { coreStand } from '../support/stands.ts'
import { raceRounds } from '../support/layer.ts'

const OPERATOR = 'https://operator.example'
const ROUNDS = raceRounds(60)

const database = coreStand(PATIENT)

const inTx = <T>(work: (tx: Tx) => Promise<T>) => inTransaction(database.db, work)
const add = (owner: Owner, handle: Handle, generation: number) =>
  inTx(tx => addOperator(tx, { owner, handle, generation, origin: OPERATOR, name: undefined }))
const standing = (owner: Owner, handle: Handle, operator?: string) =>
  readStanding(database.db, owner, {
    handle,
    operator,
    tier_id: seed.TIER,
    windowSeconds: 60,
    countTo: undefined,
  })

describe('Operators beside a connection', () => {
  it('stand once, and only beside one that is active at the generation that was read', async () => {
    const owner = await seed.seedOwner(database.db)
    const handle = seed.name('jkt:')
    const generation = await seed.seedConnection(database.db, owner, handle)
    expect(await add(owner, handle, generation + 1)).toBe(false)
    expect(await add(owner, seed.name('jkt:'), generation)).toBe(false)
    expect(await standing(owner, handle, OPERATOR)).toMatchObject({ operatorStands: false, operators: 0 })
    expect([await add(owner, handle, generation), await add(owner, handle, generation)]).toEqual([true, true])
    expect(await standing(owner, handle, OPERATOR)).toMatchObject({ operatorStands: true, operators: 1 })
    expect(await standing(owner, handle)).toMatchObject({ operatorStands: false, operatorBlocked: false })
  })

  it('blocked, they are found by the handle alone, or by their name alone, and of one owner alone', async () => {
    const [owner, bea] = [await seed.seedOwner(database.db), await seed.seedOwner(database.db)]
    const [handle, stranger] = [seed.name('jkt:'), seed.name('jkt:')]
    await seed.seedConnection(database.db, owner, handle, { operator: OPERATOR })
    await seed.seedConnection(database.db, bea, handle, { operator: OPERATOR })
    await inTx(tx => blockOperator(tx, owner, OPERATOR, seed.ACTOR))
    const asked: [Owner, Handle, string | undefined, boolean][] = [
      [owner, handle, undefined, true],
      [owner, handle, 'https://other.example', true],
      [owner, stranger, OPERATOR, true],
      [owner, stranger, undefined, false],
      [bea, handle, OPERATOR, false],
    ]
    for (const [whose, who, operator, blocked] of asked) {
      expect((await standing(whose, who, operator)).operatorBlocked).toBe(blocked)
      const of = { handle: who, jkt: 'none', operator: operator ?? null }
      expect(await isAnyBlocked(database.db, whose, of)).toBe(blocked && 'operator')
    }
  })

  it('are locked by no grant of an agent beside whose connection they stand', async () => {
    const owner = await seed.seedOwner(database.db)
    const handle = seed.name('jkt:')
    const generation = await seed.seedConnection(database.db, owner, handle, { operator: OPERATOR })
    let release!: () => void
    const gate = new Promise<void>(resolve => (release = resolve))
    let locked!: () => void
    const isLocked = new Promise<void>(resolve => (locked = resolve))
    const holder = inTx(async tx => {
      await lockQueue(tx, owner)
      await lockOperator(tx, owner, OPERATOR)
      locked()
      await gate
    })
    onTestFinished(() => release())
    await isLocked
    expect(await standing(owner, handle, OPERATOR)).toMatchObject({ operatorStands: true })
    expect(await recordGrant(database.db, seed.grantRow(owner, handle, generation, seed.bytes()), [])).toBe(
      true,
    )
    release()
    await holder
  })

  it(`written while it is blocked end with the block, or are not written: ${ROUNDS} rounds`, async () => {
    await seed.inRounds(ROUNDS, 3, async () => {
      const owner = await seed.seedOwner(database.db)
      const handles = Array.from({ length: 8 }, () => seed.name('jkt:'))
      const known = await Promise.all(
        handles.map(async handle => ({
          handle,
          generation: await seed.seedConnection(database.db, owner, handle),
        })),
      )
      const grants = known.map(async ({ handle, generation }) => {
        if (!(await add(owner, handle, generation))) return undefined
        const row = seed.grantRow(owner, handle, generation, seed.bytes())
        return (await recordGrant(database.db, row, [])) ? row.rptSha256 : undefined
      })
      const ended = await inTx(tx => blockOperator(tx, owner, OPERATOR, seed.ACTOR))
      const rpts = await Promise.all(grants)
      for (const [n, { handle }] of known.entries()) {
        const stands = (await standing(owner, handle)).operatorBlocked
        expect(stands).toBe(ended.handles.includes(handle))
        expect((await readConnection(database.db, owner, handle))?.status).toBe(stands ? 'revoked' : 'active')
        const rpt = rpts[n]
        if (rpt !== undefined)
          expect((await readGrant(database.calls, owner, seed.CLIENT_ID, rpt))?.grant?.connected).toBe(false)
      }
    })
  })
})
