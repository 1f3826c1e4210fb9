/**
 * A tally's grants on a real Postgres, when several things happen at once: contract, "Tally for a jointly
 * held resource", "Grant (RPT) liveness", "Single-use grant".
 */
import { sql, type RawBuilder } from 'kysely'
import { describe, expect, test } from 'vitest'
import { advance, letRest, readAnswers } from '../../src/storage/tally/answers.ts'
import { putMandate, putRegistered } from '../../src/storage/tally/accounts.ts'
import { consumeGrant, readGrant, type NewTallyGrant } from '../../src/storage/tally/grants.ts'
import { readNegotiation } from '../../src/storage/tally/negotiations.ts'
import { withdraw } from '../../src/storage/tally/withdrawals.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import type { Tx } from '../../src/storage/tally/database.ts'
import type { GrantClaims } from '../../src/rules/grant-content.ts'
import { asClientId, type Family, type Owner } from '../../src/wire/identifiers.ts'
import { lockWaiters } from '../support/lock-waiters.ts'
import { connected } from '../support/postgres.ts'
import { startedOnce } from '../support/started.ts'
import {
  ACCOUNT,
  allows,
  answers,
  approved,
  granted,
  HOLDERS,
  ISSUER,
  mandateOf,
  REGISTERED,
  tallyDatabase,
  TOOLS,
  waiting,
} from '../support/tally-database.ts'
import { until } from '../support/until.ts'
import { raceRounds } from '../support/layer.ts'

const ROUNDS = raceRounds(40)
const CALLERS = 32
const database = startedOnce(tallyDatabase)
const [BEA, CARL, DORA] = HOLDERS as [Owner, Owner, Owner]

const takesBack = (holder: Owner, negotiations: readonly Family[] | 'all') =>
  withdraw(database.db, {
    account: ACCOUNT,
    holder,
    issuer: ISSUER,
    jti: crypto.randomUUID(),
    exp: Math.floor(Date.now() / 1_000) + 300,
    negotiations,
  })
const consume = (rptSha256: Buffer) =>
  consumeGrant(database.calls, { account: ACCOUNT, client_id: TOOLS, generation: 0, rptSha256 })
/** Another mandate than any before: each holder weighs so much. */
const changeMandate = (tx: Tx, weight: number) =>
  putMandate(tx, mandateOf({ holders: HOLDERS.map(owner => ({ owner, issuer: ISSUER, weight })) }), 'tag')
/** For the next round: the version alone says which one it is. */
async function firstMandateAgain(): Promise<void> {
  const first = JSON.stringify(mandateOf())
  await sql`UPDATE accounts SET version = 1, mandate = ${first}, mandate_s256 = 'first'`.execute(database.db)
  await asOwner(`DELETE FROM mandates WHERE version > 1`)
}
const read = async (rptSha256: Buffer) =>
  (await readGrant(database.calls, { owner: ACCOUNT, clientId: TOOLS, rptSha256 }))?.grant

describe('A grant', () => {
  test('is made once of one negotiation, by however many who collect it at once', async () => {
    const family = await approved(database)
    const made = await Promise.all(Array.from({ length: CALLERS }, () => granted(database, family)))
    expect(made.filter(({ outcome }) => outcome === 'granted')).toHaveLength(1)
    expect(new Set(made.map(({ outcome }) => outcome))).toEqual(new Set(['granted', 'gone']))
  })

  test('that is made while a holder takes back what it rests on is dead, whichever came first', async () => {
    const outcomes = new Set<string>()
    for (let round = 0; round < ROUNDS; round++) {
      const family = await approved(database)
      const ahead = round % 2 === 0
      const first = ahead ? takesBack(BEA, [family]) : undefined
      const making = granted(database, family)
      await (first ?? takesBack(BEA, [family]))
      const { outcome, rptSha256 } = await making
      outcomes.add(outcome)
      const grant = await read(rptSha256)
      expect(outcome === 'granted' ? grant?.withdrawn : grant).toBe(outcome === 'granted' ? true : undefined)
      expect(await consume(rptSha256)).toBeUndefined()
    }
    expect(outcomes).toContain('granted')
    expect(outcomes.size).toBeGreaterThan(1)
  })

  test('that is made while the mandate changes is not current, whichever came first', async () => {
    for (let round = 0; round < ROUNDS / 2; round++) {
      const family = await approved(database)
      const making = granted(database, family)
      await inTransaction(database.db, tx => changeMandate(tx, 2 + round))
      const { outcome, rptSha256 } = await making
      if (outcome === 'granted') expect((await read(rptSha256))?.current).toBe(false)
      expect(await consume(rptSha256)).toBeUndefined()
      await firstMandateAgain()
    }
  })
})

describe('A withdrawal', () => {
  test('leaves what the grant carries to be counted, and no allowance that was too late for it', async () => {
    const family = await waiting(database)
    await answers(database, family, { ...allows(DORA), verdict_exp: Math.floor(Date.now() / 1_000) - 1 })
    for (const holder of [BEA, CARL]) await answers(database, family, allows(holder))
    const verdicts = [BEA, CARL].map(holder => allows(holder).verdict)
    const claims = { sub: 'jkt:agent', joint: { verdicts } } as unknown as GrantClaims
    const { outcome, rptSha256 } = await granted(database, family, { claims })
    expect([outcome, (await read(rptSha256))?.withdrawn]).toEqual(['granted', false])
    await takesBack(BEA, [family])
    expect((await read(rptSha256))?.withdrawn).toBe(true)
  })
})

/** Mandates that were served are changed by nobody who serves requests. */
async function asOwner(statement: string): Promise<void> {
  await connected(database.url, client => client.query(statement))
}

describe('Grants that are asked about at the same time', () => {
  test('are answered each for itself, however they come together', async () => {
    const made: { family: Family; rptSha256: Buffer }[] = []
    for (let n = 0; n < 4; n++) {
      const family = await approved(database)
      const claims = { sub: family as string } as NewTallyGrant['claims']
      made.push({ family, ...(await granted(database, family, { claims })) })
    }
    expect(await consume(made[1]!.rptSha256)).toBeDefined()
    await takesBack(BEA, [made[2]!.family])
    const never = Buffer.alloc(32, 7)
    const asked = [...made.map(({ rptSha256 }) => rptSha256), never]
    const answers = await Promise.all(
      Array.from({ length: CALLERS }, async (_, n) => {
        const at = n % asked.length
        return { at, grant: await read(asked[at]!) }
      }),
    )
    for (const { at, grant } of answers) {
      if (at === 4) expect(grant).toBeUndefined()
      else
        expect(grant).toMatchObject({
          claims: { sub: made[at]!.family },
          consumed: at === 1,
          withdrawn: at === 2,
          current: true,
        })
    }
    const stranger = { owner: ACCOUNT, clientId: asClientId('rs_nobody'), rptSha256: asked[0]! }
    const [told, none] = await Promise.all([read(asked[0]!), readGrant(database.calls, stranger)])
    expect([told?.claims.sub, none]).toEqual([made[0]!.family, undefined])
  })
})

describe('A single-use grant', () => {
  test('is spent once, by however many at once', async () => {
    const { rptSha256 } = await granted(database, await approved(database))
    const spent = await Promise.all(Array.from({ length: CALLERS }, () => consume(rptSha256)))
    expect(spent.filter(family => family !== undefined)).toHaveLength(1)
  })

  test('is not spent by who waited for a withdrawal that then returned', async () => {
    const family = await approved(database)
    const { rptSha256 } = await granted(database, family)
    const spending = await inTransaction(database.db, async tx => {
      await sql`SELECT FROM negotiations WHERE family = ${family} FOR UPDATE`.execute(tx)
      const waits = { consumed: consume(rptSha256) }
      await until(async () => (await lockWaiters(database)) > 0)
      await sql`UPDATE negotiations SET withdrawn = true WHERE family = ${family}`.execute(tx)
      return waits
    })
    expect(await spending.consumed).toBeUndefined()
  })

  test('is not spent by who waited for a mandate that then changed', async () => {
    const { rptSha256 } = await granted(database, await approved(database))
    const spending = await inTransaction(database.db, async tx => {
      await changeMandate(tx, 2)
      const waits = { consumed: consume(rptSha256) }
      await until(async () => (await lockWaiters(database)) > 0)
      return waits
    })
    expect(await spending.consumed).toBeUndefined()
    expect((await read(rptSha256))?.consumed).toBe(false)
    await firstMandateAgain()
  })

  test('is spent by who waited for a mandate that was kept after all', async () => {
    const { rptSha256 } = await granted(database, await approved(database))
    const waits: { consumed?: Promise<Family | undefined> } = {}
    const changing = inTransaction(database.db, async tx => {
      await changeMandate(tx, 2)
      waits.consumed = consume(rptSha256)
      await until(async () => (await lockWaiters(database)) > 0)
      throw new Error('taken back')
    })
    await expect(changing).rejects.toThrow('taken back')
    expect(await waits.consumed).toBeDefined()
  })

  test('is spent before a changed mandate returns or never, even if a holder takes hers back meanwhile', async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const family = await approved(database)
      const { rptSha256 } = await granted(database, family)
      const ended = { mandate: false, withdrawal: false }
      const acts = [
        () => inTransaction(database.db, tx => changeMandate(tx, 2)).then(() => (ended.mandate = true)),
        () => takesBack(BEA, [family]).then(() => (ended.withdrawal = true)),
      ]
      // In either order, and each third time with nobody who takes anything back.
      if (round % 3 === 2) acts.pop()
      if (round % 2 === 1) acts.reverse()
      const consuming = async () => {
        const before = ended.mandate || ended.withdrawal
        return { before, spent: (await consume(rptSha256)) !== undefined }
      }
      const consumers = Array.from({ length: 4 }, consuming)
      await Promise.all(acts.map(act => act()))
      const found = await Promise.all([...consumers, consuming()])
      expect(found.filter(({ spent }) => spent).length).toBeLessThanOrEqual(1)
      expect(found.filter(({ before, spent }) => before && spent)).toEqual([])
      expect((await read(rptSha256))?.current).toBe(false)
      await firstMandateAgain()
    }
  })

  test('is spent by who waited while a replica that starts provisioned the same again', async () => {
    const { rptSha256 } = await granted(database, await approved(database))
    const spending = await inTransaction(database.db, async tx => {
      await putRegistered(tx, ACCOUNT, REGISTERED)
      const waits = { consumed: consume(rptSha256) }
      await until(async () => (await lockWaiters(database)) > 0)
      return waits
    })
    expect(await spending.consumed).toBeDefined()
  })

  test('is spent before a withdrawal returns or never', async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const family = await approved(database)
      const { rptSha256 } = await granted(database, family)
      let returned = false
      const [, spent] = await Promise.all([
        takesBack(BEA, [family]).then(() => (returned = true)),
        consume(rptSha256).then(spentFamily => ({ spentFamily, late: returned })),
      ])
      if (spent.late) expect((await read(rptSha256))?.withdrawn).toBe(true)
      expect(await consume(rptSha256)).toBeUndefined()
    }
  })
})

describe('Two verdicts of one holder', () => {
  test('count as one, and never make a majority of her', async () => {
    const family = await waiting(database)
    await Promise.all(
      Array.from({ length: CALLERS }, (_, n) => answers(database, family, allows(BEA, `verdict ${n}`))),
    )
    const kept = await readAnswers(database.db, { account: ACCOUNT, family })
    expect(kept.filter(({ state }) => state === 'allowed').map(({ holder }) => holder)).toEqual([BEA])
    expect((await readNegotiation(database.db, ACCOUNT, family))?.decision).toBeNull()
  })

  test('that say different things at once: one of them stands, and is not replaced by the other', async () => {
    for (let round = 0; round < ROUNDS / 2; round++) {
      const family = await waiting(database)
      const refuses = { holder: BEA, issuer: ISSUER, state: 'refused' as const, verdict: 'no' }
      await Promise.all([answers(database, family, allows(BEA)), answers(database, family, refuses)])
      const stateOf = async () =>
        (await readAnswers(database.db, { account: ACCOUNT, family })).find(({ holder }) => holder === BEA)!
          .state
      const stood = await stateOf()
      await answers(database, family, stood === 'allowed' ? refuses : allows(BEA))
      expect(await stateOf()).toBe(stood)
    }
  })

  test('of which the time to be collected is over are none', async () => {
    const family = await waiting(database)
    await answers(database, family, { ...allows(BEA), verdict_exp: Math.floor(Date.now() / 1_000) - 1 })
    await answers(database, family, allows(CARL))
    expect((await readNegotiation(database.db, ACCOUNT, family))?.decision).toBeNull()
    await answers(database, family, allows(BEA))
    expect((await readNegotiation(database.db, ACCOUNT, family))?.decision).toBe('approved')
  })

  test('of a holder who took hers back count no more, whenever they arrive', async () => {
    const family = await waiting(database)
    await takesBack(BEA, 'all')
    await Promise.all([answers(database, family, allows(BEA)), answers(database, family, allows(CARL))])
    expect((await readNegotiation(database.db, ACCOUNT, family))?.decision).toBeNull()
  })
})

describe('A holder who gives no answer', () => {
  test('is left alone twice as long after each time that she was asked, up to a minute', async () => {
    const family = await waiting(database)
    const key = { account: ACCOUNT, family }
    const rests: { least: number; most: number }[] = []
    const secondsOf = async (when: RawBuilder<unknown>): Promise<number> => {
      const { rows } = await sql<{ seconds: number }>`
        SELECT extract(epoch FROM ${when})::float8 AS seconds FROM answers
        WHERE family = ${family} AND holder = ${BEA}`.execute(database.db)
      return rows[0]!.seconds
    }
    for (let time = 1; time <= 6; time++) {
      await sql`UPDATE answers SET due_at = now() WHERE family = ${family}`.execute(database.db)
      const next = await advance(database.db, key, { threshold: 2 })
      const asked = next!.questions.find(({ holder }) => holder === BEA)!
      const before = await secondsOf(sql`clock_timestamp()`)
      await letRest(database.db, key, asked)
      const due = await secondsOf(sql`due_at`)
      rests.push({ least: due - (await secondsOf(sql`clock_timestamp()`)), most: due - before })
    }
    // It rests from some moment between the two on, however far apart a busy machine has them.
    const all = [5, 10, 20, 40, 60, 60]
    rests.forEach(({ least, most }, i) => {
      expect(least).toBeLessThanOrEqual(all[i]!)
      expect(most).toBeGreaterThanOrEqual(all[i]!)
    })
  })

  test('is asked as before if her answer came to another replica meanwhile', async () => {
    const family = await waiting(database)
    const key = { account: ACCOUNT, family }
    const { questions } = (await advance(database.db, key, { threshold: 2 }))!
    const asked = questions.find(({ holder }) => holder === BEA)!
    await answers(database, family, { holder: BEA, issuer: ISSUER, state: 'refused' })
    await letRest(database.db, key, asked)
    const kept = (await readAnswers(database.db, key)).find(({ holder }) => holder === BEA)
    expect(kept).toMatchObject({ state: 'refused' })
  })
})
