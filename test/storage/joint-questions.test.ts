/**
 * How long a holder's server knows what it answered to a tally: contract, "Tally for a jointly held resource"
 * (a verdict is bound to one negotiation), "Limits" (lifetimes).
 */
import { sql } from 'kysely'
import { describe, expect, it } from 'vitest'
import {
  answerQuestion,
  fixQuestion,
  QUESTIONS_PER_TALLY_MAX,
  readQuestion,
  type FinalAnswer,
} from '../../src/storage/authority/joint/joint-questions.ts'
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

async function asked(owner: Owner, negotiation: string, answered?: Partial<FinalAnswer>): Promise<void> {
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
const sweep = async (owner: Owner, limit = 100) => (await sweepOwner(database.db, owner, limit)).rows
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

const MANY = QUESTIONS_PER_TALLY_MAX
/** What became of as many questions as may be open, and whether another one is still taken. */
const KINDS: [string, { question?: string; item?: string }, boolean][] = [
  ['nobody must be asked about', {}, false],
  ['she is asked about', { item: `'awaiting_owner', now() + interval '1 hour', NULL` }, false],
  [
    'she said yes to, a while ago',
    { item: `'awaiting_owner', now() - interval '1 hour', 'approved'` },
    false,
  ],
  ['she allowed', { question: `effect = 'allow', verdict = 'signed'` }, true],
  ['she refused', { question: `effect = 'deny', verdict = 'signed'` }, true],
  ['expired in her queue', { item: `'awaiting_owner', now() - interval '1 hour', NULL` }, true],
  ['were closed while she was asked', { item: `'ended', now() + interval '1 hour', NULL` }, true],
  [
    'she denied, and were not asked again',
    { item: `'awaiting_owner', now() - interval '1 hour', 'denied'` },
    true,
  ],
  [
    'nobody must be asked about, and are a day old',
    { question: `asked_at = now() - interval '25 hours'` },
    true,
  ],
]

describe('Of one tally, as many questions as may be open are counted where they', () => {
  it.each(KINDS)('%s', async (_what, { question, item }, isTaken) => {
    const { db } = database
    const owner = await seed.seedOwner(db)
    await sql`
      INSERT INTO joint_questions (owner, tally, account, negotiation, family, resource_id, contract)
      SELECT ${owner}, ${TALLY}, ${ACCOUNT}, 'n' || n, ${owner}::text || n, 'family-1/savings', 's256:a'
      FROM generate_series(1, ${MANY}) n`.execute(db)
    if (question !== undefined)
      await sql`UPDATE joint_questions SET ${sql.raw(question)} WHERE owner = ${owner}`.execute(db)
    if (item !== undefined)
      await sql`
        INSERT INTO families (owner, family, state, ticket_expires_at, decision, client_id, resource_id,
          resource_scopes, sealed_expires_at, negotiation_expires_at)
        SELECT owner, family, ${sql.raw(item)}, 'joint', resource_id, '{}', now(), now() + interval '1 day'
        FROM joint_questions WHERE owner = ${owner}`.execute(db)
    await asked(owner, 'fam_further')
    expect(await isKnown(owner, 'fam_further')).toBe(isTaken)
  })
})
