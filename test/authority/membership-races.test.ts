/**
 * What an organization tells of a member at once and out of order, on a real Postgres: contract,
 * "Organization membership, on the member's authorization server" (each notice once, a later view is never
 * replaced by an earlier one).
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { takeView } from '../../src/authority/organization/view-polling.ts'
import { readMembership } from '../../src/storage/authority/membership/membership.ts'
import { isOutage } from '../../src/storage/core/database.ts'
import { startTestAuthority, type TestAuthority } from '../support/authority.ts'
import { startMembershipStand, type MembershipStand } from '../support/membership.ts'
import { callers } from '../support/seed.ts'
import { raceRounds } from '../support/layer.ts'

const ROUNDS = raceRounds(100)
const CALLERS = 32

let stand: MembershipStand
let second: TestAuthority
beforeAll(async () => {
  stand = await startMembershipStand()
  const environment = { UMA_AS_LISTEN: '127.0.0.1:0' }
  second = await startTestAuthority({ beside: stand.authority, environment })
  await stand.joined()
})
afterAll(async () => {
  await second.close()
  await stand.close()
})

const rows = async <T extends object>(sql: string) => (await stand.authority.database.pool.query<T>(sql)).rows
const standing = async () => (await readMembership(stand.authority.database.db, stand.alice.owner))!

/** Whoever waited too long for the row on a busy machine tries again, as the poller does. */
async function surely<T>(work: () => Promise<T>): Promise<T> {
  for (;;)
    try {
      return await work()
    } catch (error) {
      if (!isOutage(error)) throw error
    }
}

describe('One notice', () => {
  it(`that ${CALLERS} bring at once to two replicas is received once`, async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const before = (await standing()).org_epoch
      const notice = await stand.noticeOf({ kind: 'role_changed', role: 'traders' })
      const post = (authority: TestAuthority) =>
        authority.request('POST', '/org/notice', {
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ notice }),
        })
      const all = await callers(CALLERS, n => post(n % 2 === 0 ? stand.authority : second))
      const statuses = all.map(({ status }) => status)
      expect(statuses.filter(status => status === 200)).toHaveLength(1)
      // A caller that waited too long on a busy machine is told to retry, and nothing has happened.
      expect(statuses.every(status => [200, 409, 503].includes(status))).toBe(true)
      expect((await standing()).org_epoch).toBe(before + 1)
    }
  })
})

describe('Views of one membership', () => {
  it(`of which ${CALLERS} arrive at once in any order leave the latest`, async () => {
    // Asked by the test alone from here on.
    await rows("DELETE FROM due WHERE kind = 'view'")
    const { join_id, view, agreed, org_epoch } = await standing()
    let takenOfAll = 0
    let highest = view.view
    for (let round = 0; round < ROUNDS; round++) {
      const from = highest
      const views = Array.from({ length: CALLERS }, (_, n) => ({
        ...view,
        view: from + 1 + n,
        role: `role-${from + 1 + n}`,
      }))
      // Half of them backwards, the rest dealt out.
      const dealt =
        round % 2 === 0 ? views.toReversed() : views.toSorted((a, b) => (a.view % 5) - (b.view % 5))
      const databases = [stand.authority.database.db, second.database.db]
      const taken = await callers(dealt.length, async n => {
        const one = dealt[n]!
        const isTaken = await surely(() =>
          takeView(databases[n % 2]!, stand.alice.owner, { join_id, view: one }),
        )
        return isTaken ? [one.view] : []
      })
      highest = from + CALLERS
      const now = await standing()
      expect([now.view.view, now.view.role]).toEqual([highest, `role-${highest}`])
      expect(taken.flat()).toContain(highest)
      takenOfAll += taken.flat().length
      expect(now.agreed).toEqual(agreed)
    }
    // Each that was taken is later than the one before and told once, and ended what was granted under that.
    const told = await rows<{ role: string }>(
      "SELECT data->>'role' AS role FROM ledger WHERE kind = 'org_role' AND data->>'role' LIKE 'role-%' ORDER BY id",
    )
    const numbers = told.map(({ role }) => Number(role.slice('role-'.length)))
    expect(numbers).toEqual(numbers.toSorted((a, b) => a - b))
    expect(told.length).toBe(takenOfAll)
    expect((await standing()).org_epoch - org_epoch).toBe(takenOfAll)
  })
})
