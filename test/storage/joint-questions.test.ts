/**
 * How long a holder's server knows what it answered to a tally: contract, "Tally for a jointly held resource"
 * (a verdict is bound to one negotiation), "Limits" (lifetimes).
 */
import { sql } from 'kysely'
import { describe, expect, it } from 'vitest'
import {
  answerQuestion,
  fixQuestion,
  readQuestion,
  type Answered,
} from '../../src/storage/authority/joint-questions.ts'
import { takeDue } from '../../src/storage/authority/due.ts'
import { sweepAgain, sweepOwner } from '../../src/storage/authority/sweep.ts'
import { asFamily, asOwner, type Owner } from '../../src/wire/identifiers.ts'
import * as seed from '../support/seed.ts'
import { coreStand } from '../support/stands.ts'

const database = coreStand()
const TALLY = 'https://tally.example'
const ACCOUNT = asOwner('family-1')
const named = (owner: Owner, negotiation: string) => ({
  owner,
  tally: TALLY,
  account: ACCOUNT,
  negotiation: asFamily(negotiation),
})

async function asked(owner: Owner, negotiation: string, answered?: Partial<Answered>): Promise<void> {
  const { db } = database
  const question = {
    family: asFamily(seed.name('fam_')),
    resource_id: 'family-1/savings',
    contract: 's256:a',
  }
  await fixQuestion(db, { ...named(owner, negotiation), ...question })
  if (answered === undefined) return
  await answerQuestion(db, named(owner, negotiation), {
    effect: 'allow',
    verdict: 'signed',
    handle: null,
    operator: null,
    tier_id: null,
    collectSeconds: 300,
    reliedSeconds: 600,
    ...answered,
  })
}

const COLUMNS = ['asked_at', 'signed_at', 'collect_until', 'relied_until']
/** All that was, so many days ago. */
const later = (owner: Owner, days: number) =>
  sql`UPDATE joint_questions SET ${sql.join(COLUMNS.map(name => sql`${sql.id(name)} = ${sql.id(name)} - ${days} * interval '1 day'`))}
    WHERE owner = ${owner}`.execute(database.db)
const sweep = async (owner: Owner, limit = 100) => (await sweepOwner(database.db, owner, limit)).gone
const isKnown = async (owner: Owner, negotiation: string) =>
  (await readQuestion(database.db, named(owner, negotiation))) !== undefined

describe('A question of a tally', () => {
  it('is known for longer than its agreement is looked at, so that no agreement is allowed twice, and goes', async () => {
    const owner = await seed.seedOwner(database.db)
    await asked(owner, 'fam_allowed', {})
    await asked(owner, 'fam_refused', { effect: 'deny', reliedSeconds: 0 })
    await asked(owner, 'fam_open')
    await later(owner, 7.9)
    expect(await sweep(owner)).toBe(0)
    await later(owner, 0.2)
    expect(await sweep(owner, 2)).toBe(2)
    expect(await sweep(owner, 2)).toBe(1)
    expect(await sweep(owner, 2)).toBe(0)
  })

  it('is known as long as a grant may rest on its answer', async () => {
    const owner = await seed.seedOwner(database.db)
    await asked(owner, 'fam_month', { reliedSeconds: 30 * 86_400 })
    await asked(owner, 'fam_short', {})
    await later(owner, 20)
    expect(await sweep(owner)).toBe(1)
    expect([await isKnown(owner, 'fam_month'), await isKnown(owner, 'fam_short')]).toEqual([true, false])
  })

  it('of one owner is no other’s, and has its owner looked at when it goes', async () => {
    const [one, other] = [await seed.seedOwner(database.db), await seed.seedOwner(database.db)]
    await asked(one, 'fam_1', {})
    await asked(other, 'fam_1', {})
    await later(one, 9)
    await sweep(one)
    expect([await isKnown(one, 'fam_1'), await isKnown(other, 'fam_1')]).toEqual([false, true])
    await later(other, 7.5)
    await sql`UPDATE due SET at = now() WHERE owner = ${other} AND kind = 'sweep'`.execute(database.db)
    const due = await takeDue(database.db, 'sweep', { limit: 10, seconds: 60 })
    const taken = due.find(({ owner }) => owner === other)
    await sweepAgain(database.db, taken!, { more: false, pauseSeconds: 60, idleSeconds: 30 * 86_400 })
    const { rows } = await sql<{ hours: number }>`
      SELECT extract(epoch FROM at - now())::float8 / 3600 AS hours FROM due
      WHERE owner = ${other} AND kind = 'sweep'`.execute(database.db)
    expect(rows[0]!.hours).toBeGreaterThan(11)
    expect(rows[0]!.hours).toBeLessThan(13)
  })
})
