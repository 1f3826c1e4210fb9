/**
 * What at an organization can happen once or in one order alone, through two replicas on a real Postgres:
 * rounds of 32 requests each. Contract: "The organization's authority" (group management, join), "Errors"
 * (joining names the charter version agreed).
 */
import { randomBytes } from 'node:crypto'
import type { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Reply } from '../support/authority.ts'
import { charterOf, startTestOrganization, type TestOrganization } from '../support/organization.ts'
import { startMemberStand, type MemberStand } from '../support/organization-members.ts'
import { connected } from '../support/postgres.ts'
import { callers } from '../support/seed.ts'
import { raceRounds } from '../support/layer.ts'

const ROUNDS = raceRounds(25)
const CALLERS = 32

let stand: MemberStand
let replicas: TestOrganization[]
beforeAll(async () => {
  stand = await startMemberStand()
  replicas = [stand.organization, await startTestOrganization({ beside: stand.organization })]
})
afterAll(async () => {
  await replicas[1]!.close()
  await stand.close()
})

const at = (n: number): TestOrganization => replicas[n % replicas.length]!
const charter = async () =>
  (await stand.organization.admin({ target: '/admin/charter' })).body as { version: number }
const roles = async () =>
  (await stand.organization.admin({ target: '/admin/roles' })).body as {
    roles: Record<string, unknown>
    members: Record<string, string[]>
  }
const put = (name: string, base_version: number) => ({
  method: 'PUT' as const,
  target: '/admin/charter',
  json: { charter: charterOf({ name }), base_version },
})
const withStatus = (all: Reply[], status: number) => all.filter(one => one.status === status)
/** What everybody who had a member is told, and everybody else: nobody is one. */
const atDatabase = <T>(work: (client: Client) => Promise<T>): Promise<T> =>
  connected(stand.organization.environment['DATABASE_URL']!, work)
const clear = () =>
  atDatabase(client => client.query('DELETE FROM notices; DELETE FROM notice_lines; DELETE FROM members'))
const sharedCode = async () => {
  const call = { method: 'POST', target: '/admin/join-code/rotate' } as const
  return (await stand.organization.admin(call)).body.code as string
}
const somebody = () => ({
  owner: `o-${randomBytes(6).toString('hex')}`,
  join_id: randomBytes(12).toString('hex'),
})
const join = (asked: object, n: number, by = stand.first) =>
  stand.signedBy(by, { method: 'POST', target: '/member/join', json: asked }, at(n))

describe('A charter', () => {
  it(`put by ${CALLERS} administrators at once over one version is published by one of them, ${ROUNDS} times`, async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const { version } = await charter()
      const all = await callers(CALLERS, n => at(n).admin(put(`Round ${round}, ${n}`, version)))
      expect(withStatus(all, 200)).toHaveLength(1)
      // A caller that waited too long on a busy machine is told to retry, and has published nothing either.
      expect(withStatus(all, 409).length + withStatus(all, 503).length).toBe(CALLERS - 1)
      const now = await stand.organization.admin({ target: '/admin/charter' })
      const won = all.findIndex(({ status }) => status === 200)
      expect([now.body.version, now.body.charter.name]).toEqual([version + 1, `Round ${round}, ${won}`])
    }
  })
})

describe('A group', () => {
  it(`that is deleted while ${CALLERS - 2} owners join never has a member and is no more, ${ROUNDS} times`, async () => {
    const code = await sharedCode()
    const outcomes = new Set<string>()
    for (let round = 0; round < ROUNDS; round++) {
      await clear()
      await stand.publish({})
      const { version } = await charter()
      const agreed = await stand.joining(somebody(), code)
      const empty = async () => {
        const json = { role: 'guests', base_version: version }
        const named = await at(round).admin({ method: 'POST', target: '/admin/roles/default', json })
        if (named.status === 503) return named
        const headers = { 'if-match': `"${version + 1}"` }
        return at(round + 1).admin({ method: 'DELETE', target: '/admin/roles/staff', headers })
      }
      // In some rounds one of them is in before the others and the administrator begin.
      const early = round % 4 === 3 ? [await join({ ...agreed, ...somebody() }, round)] : []
      const joiners = () => callers(CALLERS - 2 - early.length, n => join({ ...agreed, ...somebody() }, n))
      // Some rounds begin with the joiners, some with the administrator.
      const [removed, others] =
        round % 2 === 0
          ? await Promise.all([empty(), joiners()])
          : await Promise.all([joiners(), empty()]).then(([all, one]) => [one, all] as const)
      const joined = [...early, ...others]
      const [came, unsure] = [withStatus(joined, 200).length, withStatus(joined, 503).length]
      expect(came + withStatus(joined, 409).length + unsure).toBe(CALLERS - 2)
      const after = await roles()
      const known = Object.keys(after.roles)
      expect(Object.keys(after.members).filter(role => !known.includes(role))).toEqual([])
      // All who were let in came into it, and then it stays. Who waited too long on a busy machine may be in
      // it.
      const members = after.members['staff']?.length ?? 0
      expect(members).toBeGreaterThanOrEqual(came)
      expect(members).toBeLessThanOrEqual(came + unsure)
      if (removed.status === 503) continue
      expect([removed.status, known.includes('staff')]).toEqual(members === 0 ? [200, false] : [409, true])
      outcomes.add(came === 0 ? 'deleted' : 'kept')
    }
    if (ROUNDS >= 100) expect(outcomes).toEqual(new Set(['deleted', 'kept']))
    await clear()
    await stand.publish({})
  })

  it(`into which ${CALLERS - 1} moves go while it is deleted never has a member and is no more, ${ROUNDS} times`, async () => {
    const { owner } = somebody()
    await stand.joined(owner)
    const move = (n: number, role: string | null) =>
      at(n).admin({ method: 'POST', target: `/admin/members/${owner}/role`, json: { role } })
    for (let round = 0; round < ROUNDS; round++) {
      await stand.publish({})
      await move(0, null)
      const { version } = await charter()
      const headers = { 'if-match': `"${version}"` }
      const remove = () => at(round).admin({ method: 'DELETE', target: '/admin/roles/guests', headers })
      const [removed, moves] = await Promise.all([remove(), callers(CALLERS - 1, n => move(n, 'guests'))])
      const after = await roles()
      const isIn = (after.members['guests'] ?? []).includes(owner)
      // The deletion names the version that it was made for: it wins as the first, or not at all.
      // A caller that waited too long on a busy machine has no answer, and may have moved her.
      if (removed.status === 503) continue
      const came = withStatus(moves, 200).length > 0 || (isIn && withStatus(moves, 503).length > 0)
      expect([removed.status, 'guests' in after.roles, isIn]).toEqual(
        came ? [409, true, true] : [200, false, false],
      )
    }
    await clear()
    await stand.publish({})
  })
})

describe('A join', () => {
  it(`of one owner by ${CALLERS} requests at once from two authorities leaves one member, of one of them, ${ROUNDS} times`, async () => {
    const code = await sharedCode()
    const won = { first: 0, second: 0 }
    for (let round = 0; round < ROUNDS; round++) {
      await clear()
      const { owner } = somebody()
      const asked = await Promise.all([
        stand.joining({ ...somebody(), owner }, code),
        stand.joining({ ...somebody(), owner }, code, stand.second),
      ])
      const order = round % 2
      const all = await callers(CALLERS, n => {
        const which = (n + order) % 2
        return join(asked[which]!, n >> 1, which === 0 ? stand.first : stand.second)
      })
      const joined = withStatus(all, 200)
      // The winner's are one join, asked for again and again: one answer, one token.
      expect(new Set(joined.map(({ text }) => text)).size).toBe(1)
      expect(joined).toHaveLength(CALLERS / 2)
      const refused = withStatus(all, 409)
      expect(refused.map(({ body }) => body.reason)).toEqual(
        Array<string>(CALLERS / 2).fill('already_member'),
      )
      const { rows } = await atDatabase(client =>
        client.query<{ as_uri: string }>('SELECT as_uri FROM members'),
      )
      expect(rows).toHaveLength(1)
      won[rows[0]!.as_uri === stand.first.uri ? 'first' : 'second']++
    }
    if (ROUNDS >= 100) expect(Math.min(won.first, won.second)).toBeGreaterThan(0)
  })
})
