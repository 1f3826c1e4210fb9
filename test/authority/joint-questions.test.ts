/**
 * What a tally may ask about an owner, and how much of it: contract, "Tally for a jointly held resource",
 * "Limits" (pending queue).
 */
import { sql } from 'kysely'
import { describe, expect, it } from 'vitest'
import { withdrawExpired } from '../../src/authority/negotiation/withdrawals.ts'
import { QUEUE_CAPS } from '../../src/rules/pending-queue.ts'
import { QUESTIONS_PER_TALLY_MAX } from '../../src/storage/authority/joint/joint-questions.ts'
import { asOwner } from '../../src/wire/identifiers.ts'
import { ACCOUNT, SAVINGS, startJointStand } from '../support/joint-holder.ts'
import { quotaRefusals } from '../support/quota-refusals.ts'
import { startedForEach } from '../support/started.ts'
import { askedHolder } from '../support/tally-requests.ts'

const stand = startedForEach(() => startJointStand())
const she = askedHolder(stand)
const { question, asked, pending, decide, known } = she

describe('a question of a tally about her', () => {
  it('is refused to a tally that has too many open about her, and taken again once they are gone', async () => {
    const { db } = stand.authority.database
    await sql`
      INSERT INTO joint_questions (owner, tally, account, negotiation, family, resource_id, contract)
      SELECT 'bea', ${stand.tally}, ${ACCOUNT}, 'flood' || n, 'flood' || n, ${SAVINGS}, 's256:x'
      FROM generate_series(1, ${QUESTIONS_PER_TALLY_MAX}) n`.execute(db)
    const one = question()
    const { status, body } = await asked(one)
    await sql`DELETE FROM joint_questions WHERE negotiation LIKE 'flood%'`.execute(db)
    expect([status, body]).toEqual([
      429,
      {
        error: 'temporarily_unavailable',
        error_description: expect.stringMatching(/close those that you no longer ask/) as string,
        reason: 'too_many_questions',
      },
    ])
    expect(await quotaRefusals(stand.authority, 'questions')).toBe(1)
    expect((await asked(one)).status).toBe(200)
  })

  it('takes no place where a stranger asks while her queue is full, nor once it was closed', async () => {
    const { db } = stand.authority.database
    const kept = async () =>
      (await sql<{ n: number }>`SELECT count(*)::int AS n FROM joint_questions`.execute(db)).rows[0]!.n
    const stranger = () => {
      she.stranger()
      return { ...question(), final: false }
    }
    const waiting = Array.from({ length: QUEUE_CAPS.unattested }, stranger)
    for (const one of waiting) expect((await asked(one)).body).toMatchObject({ pending: true })
    const before = await kept()
    for (let n = 0; n < 3; n++) expect((await asked(stranger())).status).toBe(429)
    expect((await asked({ ...stranger(), closed: true })).body).toEqual({ closed: true })
    expect(await kept()).toBe(before)
    for (const one of waiting) await asked({ ...one, closed: true })
    await known()
    const ready = { ...question(), final: false }
    expect((await asked(ready)).body).toMatchObject({ ready: true })
    const open = await kept()
    expect((await asked({ ...ready, closed: true })).body).toEqual({ closed: true })
    expect(await kept()).toBe(open - 1)
  })

  it.each<[string, { decision?: 'denied' | 'approved'; end: 'closed' | 'expired' }, boolean]>([
    ['her co-holders settled it while she was asked', { end: 'closed' }, false],
    ['she did not decide in time', { end: 'expired' }, false],
    ['she denied it', { decision: 'denied', end: 'closed' }, true],
    ['she approved it', { decision: 'approved', end: 'expired' }, true],
  ])('is looked at no more for the next ones where %s', async (_why, { decision, end }, isKept) => {
    const { db } = stand.authority.database
    const one = { ...question(), final: false }
    const family = String((await asked(one)).body.family)
    if (decision !== undefined) await decide(family, decision)
    if (end === 'closed') await asked({ ...one, closed: true })
    await sql`UPDATE families SET ticket_expires_at = now() WHERE family = ${family}`.execute(db)
    await withdrawExpired(db, asOwner('bea'), 100)
    const { rows } = await sql`SELECT FROM joint_questions WHERE family = ${family}`.execute(db)
    expect(rows).toHaveLength(isKept ? 1 : 0)
    // Asked about again, she is asked as before.
    if (!isKept) expect((await asked(one)).body).toMatchObject({ pending: true, ready: false })
  })

  it('may be closed by its tally also after she left', async () => {
    await known()
    const one = question()
    await asked({ ...one, final: false })
    await stand.own('DELETE', `/${ACCOUNT}`)
    const { status, body } = await asked({ ...one, closed: true })
    expect([status, body]).toEqual([200, { closed: true }])
    expect((await asked(one)).status).toBe(403)
  })

  it('waits within her queue alone, even if its item expired before it was asked again', async () => {
    const { db } = stand.authority.database
    const round = async () => {
      const questions = Array.from({ length: QUEUE_CAPS.unattested }, () => {
        she.stranger()
        return { ...question(), final: false }
      })
      for (const one of questions) expect((await asked(one)).body).toMatchObject({ pending: true })
      return questions
    }
    const expire = () =>
      sql`UPDATE families SET ticket_expires_at = now() WHERE owner = 'bea' AND state = 'awaiting_owner'`.execute(
        db,
      )
    const told = async () =>
      (await sql`SELECT FROM events WHERE owner = 'bea' AND event = 'pending'`.execute(db)).rows.length
    const first = await round()
    await expire()
    expect(await pending()).toEqual([])
    const second = await round()
    const before = await told()
    for (const one of first) expect((await asked(one)).status).toBe(429)
    expect(await pending()).toHaveLength(QUEUE_CAPS.unattested)
    expect(await told()).toBe(before)
    // With room again, the first waits again, and she is told.
    await expire()
    expect((await asked(first[0]!)).body).toMatchObject({ pending: true })
    expect(await pending()).toHaveLength(1)
    expect(await told()).toBe(before + 1)
    for (const one of [...first, ...second]) await asked({ ...one, closed: true })
  })

  it.each<[string, object]>([
    ['NUL in the resource', { resource_id: `${SAVINGS}\0` }],
    ['a resource of 401 characters', { resource_id: `${ACCOUNT}/${'x'.repeat(392)}` }],
    ['NUL in the digest', { contract: `s256:${'\0'.repeat(43)}` }],
    ['a digest of 8,000 characters', { contract: `s256:${'x'.repeat(7_995)}` }],
    ['no digest of ours', { contract: 'agreement' }],
    ['NUL in the negotiation', { negotiation: 'fam\0' }],
    ['NUL in the account', { account: `${ACCOUNT}\0` }],
    ['NUL in the owner', { owner: 'bea\0' }],
    ['final in words', { final: 'yes' }],
    ['closed in words', { closed: 'yes' }],
    ['an agreement that is none', { agreement: 'signed' }],
  ])('is asked in a good form, or nothing is written: %s', async (_what, changes) => {
    const { db } = stand.authority.database
    const count = async () =>
      (await sql<{ n: number }>`SELECT count(*)::int AS n FROM joint_questions`.execute(db)).rows[0]!.n
    const before = await count()
    const { status, body } = await asked(question({}, changes))
    expect([status, body.error]).toEqual([400, 'invalid_request'])
    expect(await count()).toBe(before)
  })
})
