/**
 * Members, as administrators manage them: contract, "The organization's authority" (group management,
 * clearances, `/admin/...`).
 */
import { randomBytes } from 'node:crypto'
import { Client } from 'pg'
import { beforeEach, describe, expect, it } from 'vitest'
import { row } from '../support/contract-row.ts'
import { startMemberStand } from '../support/organization-members.ts'
import { startedOnce } from '../support/started.ts'

const stand = startedOnce(() => startMemberStand())
const admin: typeof stand.organization.admin = call => stand.organization.admin(call)

let owner: string
let token: string
beforeEach(async () => {
  owner = `o-${randomBytes(4).toString('hex')}`
  token = await stand.joined(owner)
})

const envelope = () => stand.asMember(token, { target: '/member/envelope' })
const move = (role: string | null, whom = owner) =>
  admin({ method: 'POST', target: `/admin/members/${whom}/role`, json: { role } })
const attest = (clearance: unknown, whom = owner) =>
  admin({ method: 'PUT', target: `/admin/members/${whom}/clearance`, json: { clearance } })
const inForce = async () =>
  (await admin({ target: '/admin/charter' })).body as { version: number; s256: string }
const listed = async () =>
  ((await admin({ target: '/admin/members?limit=1000' })).body as { owner: string }[]).find(
    one => one.owner === owner,
  )

describe("The organization's authority", () => {
  row('org-member-role', async () => {
    const before = await inForce()
    const { status, body } = await move('guests')
    // The next version, of the same text.
    expect([status, body]).toEqual([200, { version: before.version + 1, s256: before.s256 }])
    expect((await envelope()).body).toMatchObject({ role: 'guests', grants: ['acme/calendar'], view: 2 })
    await move(null)
    expect((await envelope()).body).toMatchObject({ role: null, grants: [], delegation: 'none' })
  })

  row('org-member-clearance-put', async () => {
    const before = await inForce()
    const { status, body } = await attest({ screening: 'full' })
    expect([status, body]).toEqual([200, { version: before.version + 1, s256: before.s256 }])
    expect(await listed()).toMatchObject({ clearance: { screening: 'full' } })
    expect((await attest({})).status).toBe(200)
    expect(await listed()).toMatchObject({ clearance: {} })
  })

  row('org-roles-delete', async () => {
    await move('guests')
    const remove = async () => {
      const headers = { 'if-match': `"${(await inForce()).version}"` }
      return (await admin({ method: 'DELETE', target: '/admin/roles/guests', headers })).status
    }
    expect(await remove()).toBe(409)
    expect((await envelope()).body.role).toBe('guests')
    await move(null)
    expect(await remove()).toBe(200)
    await stand.publish({})
  })
})

describe('Errors', () => {
  row('error-group-with-members', async () => {
    const headers = { 'if-match': `"${(await inForce()).version}"` }
    const removed = await admin({ method: 'DELETE', target: '/admin/roles/staff', headers })
    expect([removed.status, removed.body.error]).toEqual([409, 'conflict'])
    expect((await envelope()).body).toMatchObject({ role: 'staff', grants: ['acme/mail-*'] })
  })
})

describe('Members', () => {
  it('are listed by name, page by page, with their group and what their authority reported', async () => {
    expect(await listed()).toEqual({
      owner,
      as_uri: stand.first.uri,
      role: 'staff',
      joined: expect.any(String) as string,
      agreed_version: expect.any(Number) as number,
      clearance: {},
      compliance: null,
      notices_waiting: 0,
      notices_stopped: [],
    })
    const first = await admin({ target: '/admin/members?limit=1' })
    expect(first.body).toHaveLength(1)
    expect(first.headers.get('link')).toContain(`after=${first.body[0].owner as string}`)
  })

  it('are managed at the administration alone', async () => {
    expect((await stand.organization.request('/admin/members')).status).toBe(404)
    expect((await admin({ target: '/admin/members', sign: false })).status).toBe(401)
  })

  it.each([
    ['a group that the charter has not', () => move('nobody'), 400],
    ['a group by a name that objects have', () => move('toString'), 400],
    [
      'no group at all',
      () => admin({ method: 'POST', target: `/admin/members/${owner}/role`, json: {} }),
      400,
    ],
    ['an owner who is no member', () => move('guests', 'nobody'), 404],
    ['a fact that is no text', () => attest({ screening: ['full'] }), 400],
    ['facts that are no object', () => attest('full'), 400],
    ['no facts', () => attest(undefined), 400],
    [
      'facts beyond what a token holds',
      () => attest(Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`f${i}`, 'x'.repeat(400)]))),
      400,
    ],
    ['facts of an owner who is no member', () => attest({}, 'nobody'), 404],
  ])('are not changed by %s', async (_what, send, status) => {
    const before = await inForce()
    expect((await send()).status).toBe(status)
    expect(await inForce()).toEqual(before)
    expect((await envelope()).body.view).toBe(1)
  })

  it('are told nothing of the change of another, and of none that changed nothing', async () => {
    const etag = (await envelope()).headers.get('etag')!
    const other = `x-${owner}`
    await stand.joined(other)
    await move('guests', other)
    const before = await inForce()
    const { version, s256 } = before
    expect((await move('staff')).body).toEqual({ version, s256 })
    expect((await attest({})).body).toEqual({ version, s256 })
    const call = { target: '/member/envelope', headers: { 'if-none-match': etag } }
    expect((await stand.asMember(token, call)).status).toBe(304)
  })

  it('that are removed are none: the token is good for nothing, and a removal is not repeated', async () => {
    const remove = () => admin({ method: 'DELETE', target: `/admin/members/${owner}` })
    expect((await remove()).body).toEqual({ removed: owner })
    expect((await envelope()).status).toBe(401)
    expect((await remove()).status).toBe(404)
    const { body } = await admin({ target: '/admin/activity?limit=1000' })
    expect(body.entries.at(-1)).toMatchObject({ kind: 'member_removed', admin: 'ines', owner })
  })
})

describe('A group of more members than are listed with it', () => {
  it('is listed with the first thousand, by name, and said to have more', async () => {
    const client = new Client({ connectionString: stand.organization.environment['DATABASE_URL'] })
    await client.connect()
    await client.query(
      `INSERT INTO members (owner, as_uri, join_id, role, agreed_version, view_version)
       SELECT 'many-' || to_char(n, 'FM0000'), as_uri, join_id || n, 'guests', agreed_version, view_version
       FROM members, generate_series(1, 1001) n WHERE owner = $1`,
      [owner],
    )
    await client.end()
    const { body } = await admin({ target: '/admin/roles' })
    const { members, more } = body as { members: Record<string, string[]>; more: string[] }
    expect([members['guests']?.length, members['guests']?.at(-1), more]).toEqual([
      1000,
      'many-1000',
      ['guests'],
    ])
    expect(members['staff']).toContain(owner)
    // A charter without it would lose them, however many there are.
    const { charter, version } = (await admin({ target: '/admin/charter' })).body
    const { guests: _, ...roles } = charter.roles
    const without = { charter: { ...charter, roles }, base_version: version }
    const put = await admin({ method: 'PUT', target: '/admin/charter', json: without })
    expect([put.status, put.body.error_description]).toEqual([409, expect.stringContaining('guests')])
  })
})
