/**
 * What a member's authorization server is told unasked: contract, "Events" (organization notice),
 * "Authentication" (by published keys).
 */
import { randomBytes } from 'node:crypto'
import { Client } from 'pg'
import { beforeEach, describe, expect, it } from 'vitest'
import { parseJws } from '../../src/wire/signatures/jws.ts'
import { parseJwks } from '../../src/wire/signatures/keys.ts'
import { verifyNotice } from '../../src/wire/organization/notice.ts'
import { startMemberStand } from '../support/organization-members.ts'
import { ORG_ISSUER, startTestOrganization } from '../support/organization.ts'
import { startedOnce } from '../support/started.ts'
import { until } from '../support/until.ts'

const stand = startedOnce(() => startMemberStand())
const admin: typeof stand.organization.admin = call => stand.organization.admin(call)

let owner: string
beforeEach(async () => {
  stand.first.answers = { status: 200 }
  owner = `o-${randomBytes(4).toString('hex')}`
  await stand.joined(owner)
})

const move = (role: string | null, whom = owner) =>
  admin({ method: 'POST', target: `/admin/members/${whom}/role`, json: { role } })
const attest = (clearance: object) =>
  admin({ method: 'PUT', target: `/admin/members/${owner}/clearance`, json: { clearance } })
const remove = () => admin({ method: 'DELETE', target: `/admin/members/${owner}` })
interface Listed {
  owner: string
  notices_waiting: number
  notices_stopped: object[]
}
const listed = async () =>
  ((await admin({ target: '/admin/members?limit=1000' })).body as Listed[]).find(one => one.owner === owner)!
/** What her server was told of her, attempt by attempt. */
const told = (whom = owner) =>
  stand.first.notices.map(jwt => parseJws(jwt).payload).filter(({ sub }) => sub === whom)
const toldKinds = () => {
  const byJti = new Map(told().map(({ jti, kind }) => [jti, kind]))
  return [...byJti.values()]
}
const database = async (sql: string): Promise<void> => {
  const client = new Client(stand.organization.environment['DATABASE_URL'])
  await client.connect()
  await client.query(sql)
  await client.end()
}
/** Nobody waits for the pause between two attempts. */
const hurry = () => database('UPDATE notice_lines SET due_at = now()')

describe('A notice', () => {
  it('is signed with a published key, and names the owner, her membership and what happened', async () => {
    await move('guests')
    await until(() => told().length > 0)
    const keys = parseJwks((await stand.organization.request('/jwks')).body)
    const compact = stand.first.notices.find(jwt => parseJws(jwt).payload['sub'] === owner)!
    const now = Math.floor(Date.now() / 1_000)
    const received = verifyNotice(compact, keys, { issuer: ORG_ISSUER, audience: stand.first.uri, now })
    expect(received.notice).toEqual({ kind: 'role_changed', role: 'guests' })
    expect(received.claims).toMatchObject({ sub: owner, membership: `join-of-${owner}-0000000` })
    await until(async () => (await listed()).notices_waiting === 0)
  })

  it('brings charter moves, changed groups and clearances, and the end, and none of what another did', async () => {
    const other = `x-${owner}`
    await stand.joined(other)
    await move('guests', other)
    await move('guests')
    await attest({ screening: 'full' })
    await stand.publish({ name: `Moved for ${owner}` })
    const version = (await admin({ target: '/admin/charter' })).body.version as number
    await remove()
    await until(() => told().length >= 4)
    expect(toldKinds()).toEqual(['role_changed', 'role_changed', 'charter_changed', 'membership_ended'])
    expect(told()[2]).toMatchObject({ charter_version: version })
    expect(told()[3]).toMatchObject({ by: 'administrator' })
  })

  it('is told again under one id, signed anew, and none of her membership goes before it', async () => {
    stand.first.answers = { status: 503 }
    await move('guests')
    await move('staff')
    await move(null)
    await until(() => told().length > 0)
    expect((await listed()).notices_waiting).toBe(3)
    await until(async () => {
      await hurry()
      return told().length >= 3
    })
    const first = told()[0]!['jti']
    expect(told().map(({ jti }) => jti)).toEqual(told().map(() => first))
    stand.first.answers = { status: 200 }
    await hurry()
    await until(async () => (await listed()).notices_waiting === 0)
    expect(toldKinds()).toHaveLength(3)
    const roles = [...new Map(told().map(({ jti, role }) => [jti, role])).values()]
    expect(roles).toEqual(['guests', 'staff', null])
    for (const { iat, exp } of told()) expect((exp as number) - (iat as number)).toBe(300)
  })

  it.each([200, 204, 403, 404, 409])('has ended with the answer %i', async status => {
    stand.first.answers = { status }
    await move('guests')
    await until(() => told().length > 0)
    await until(async () => (await listed()).notices_waiting === 0)
    expect((await listed()).notices_stopped).toEqual([])
    expect(told()).toHaveLength(1)
  })

  it.each([400, 401])(
    'that is answered %i is told no more and shown, and the next one is told',
    async status => {
      stand.first.answers = { status }
      await move('guests')
      await until(async () => (await listed()).notices_waiting === 0)
      const at = expect.any(String) as string
      expect((await listed()).notices_stopped).toEqual([{ kind: 'role_changed', status, at }])
      stand.first.answers = { status: 200 }
      await move('staff')
      await until(async () => (await listed()).notices_waiting === 0)
      expect(told().at(-1)).toMatchObject({ role: 'staff' })
      expect((await listed()).notices_stopped).toHaveLength(1)
    },
  )

  it('that nobody takes is told for seven days, and then shown as given up', async () => {
    stand.first.answers = { status: 503 }
    await move('guests')
    await until(() => told().length > 0)
    await database("UPDATE notices SET made_at = now() - interval '6 days 23 hours'")
    await until(async () => {
      await hurry()
      return told().length > 2
    })
    expect((await listed()).notices_stopped).toEqual([])
    await database("UPDATE notices SET made_at = now() - interval '7 days 1 minute'")
    await hurry()
    await until(async () => (await listed()).notices_waiting === 0)
    expect((await listed()).notices_stopped).toMatchObject([{ kind: 'role_changed', status: 503 }])
  })

  it('is counted by what came of it, under no name of a member', async () => {
    const metrics = async () => (await fetch(`${stand.organization.metricsUrl}/metrics`)).text()
    const ended = async () =>
      Number(/usher_notices_told_total\{outcome="ended"\} (\d+)/.exec(await metrics())?.[1] ?? 0)
    const before = await ended()
    await move('guests')
    await until(async () => (await ended()) === before + 1)
    stand.first.answers = { status: 401 }
    await move('staff')
    await until(async () => (await metrics()).includes('usher_notices_told_total{outcome="stopped"}'))
    expect(await metrics()).not.toContain(owner)
  })

  it('is told once by two replicas, in order, however many members are waiting', async () => {
    const second = await startTestOrganization({ beside: stand.organization })
    const owners = Array.from({ length: 20 }, (_, i) => `${owner}-${i}`)
    await Promise.all(owners.map(one => stand.joined(one)))
    for (const role of ['guests', 'staff', null]) await Promise.all(owners.map(one => move(role, one)))
    await until(() => owners.every(one => told(one).length >= 3))
    for (const one of owners) expect(told(one).map(({ role }) => role)).toEqual(['guests', 'staff', null])
    await second.close()
  })

  it('is sent to no other origin than her server’s, whatever its metadata names', async () => {
    const { metadata } = stand.second
    stand.second.metadata = { org_notice_endpoint: `${stand.first.uri}/org/notice` }
    const whom = `z-${owner}`
    const asked = await stand.joining(
      { owner: whom, join_id: `join-of-${whom}-0000000` },
      await stand.invited(whom, stand.second),
      stand.second,
    )
    await stand.post('join', asked, stand.second)
    await move('guests', whom)
    const line = `SELECT attempts FROM notice_lines WHERE owner = '${whom}'`
    const client = new Client(stand.organization.environment['DATABASE_URL'])
    await client.connect()
    await until(async () => ((await client.query<{ attempts: number }>(line)).rows[0]?.attempts ?? 0) > 0)
    expect(told(whom)).toEqual([])
    stand.second.metadata = metadata
    await until(async () => {
      await hurry()
      return stand.second.notices.length > 0
    })
    expect(told(whom)).toEqual([])
    await client.end()
  })
})
