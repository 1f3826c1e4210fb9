/**
 * Joining and leaving an organization: contract, "The organization's authority" (preview, join, envelope),
 * "Errors".
 */
import { randomBytes } from 'node:crypto'
import { beforeEach, describe, expect, it } from 'vitest'
import type { OwnerCall } from '../support/authority.ts'
import { row } from '../support/contract-row.ts'
import { startMemberStand, type MemberStand } from '../support/organization-members.ts'
import { startedOnce } from '../support/started.ts'

const stand = startedOnce(() => startMemberStand())
const post: MemberStand['post'] = (...sent) => stand.post(...sent)
const signedBy: MemberStand['signedBy'] = (...sent) => stand.signedBy(...sent)
const publish: MemberStand['publish'] = changes => stand.publish(changes)

let owner: string
let join_id: string
beforeEach(() => {
  owner = `o-${randomBytes(4).toString('hex')}`
  join_id = randomBytes(12).toString('hex')
})

const invited = (by = stand.first) => stand.invited(owner, by)
const joining = (code: string, by = stand.first) => stand.joining({ owner, join_id }, code, by)
const envelope = (token: string, call: Partial<OwnerCall> = {}, by = stand.first) =>
  stand.asMember(token, { target: '/member/envelope', ...call }, by)

describe("The organization's authority", () => {
  row('org-member-preview', async () => {
    const { status, body } = await post('preview', { owner, as_uri: stand.first.uri, code: await invited() })
    expect(status).toBe(200)
    expect(body).toMatchObject({
      org: 'acme',
      role: 'staff',
      grants: ['acme/mail-*'],
      delegation: 'any-agent',
    })
    expect(body.summary).toContain('It shares acme/mail-* with you.')
    // Without effect.
    expect(
      (await stand.organization.admin({ target: '/admin/roles' })).body.members.staff ?? [],
    ).not.toContain(owner)
  })

  row('org-member-join', async () => {
    const asked = await joining(await invited())
    const { charter_version: _left, ...without } = asked
    expect((await post('join', without)).status).toBe(400)
    const { status, body } = await post('join', asked)
    expect([status, body.role, body.charter_version]).toEqual([200, 'staff', asked['charter_version']])
    expect((await envelope(body.membership_token as string)).status).toBe(200)
    expect((await stand.organization.admin({ target: '/admin/roles' })).body.members.staff).toContain(owner)
  })

  row('org-roles-default', async () => {
    const setDefault = async (role: string | null): Promise<void> => {
      const { version } = (await stand.organization.admin({ target: '/admin/charter' })).body
      const json = { role, base_version: version as number }
      const target = '/admin/roles/default'
      expect((await stand.organization.admin({ method: 'POST', target, json })).status).toBe(200)
    }
    await setDefault(null)
    const { status, body } = await post('join', await joining(await invited()))
    await setDefault('staff')
    expect([status, body.role, body.grants, body.delegation]).toEqual([200, null, [], 'none'])
    expect(body.claims).not.toEqual([])
  })

  row('org-member-envelope', async () => {
    const { body } = await post('join', await joining(await invited()))
    const { membership_token, ...view } = body as { membership_token: string; view: number }
    const first = await envelope(membership_token)
    expect(first.body).toEqual(view)
    const etag = first.headers.get('etag')!
    expect((await envelope(membership_token, { headers: { 'if-none-match': etag } })).status).toBe(304)
    for (const known of [`W/${etag}`, `"other", ${etag}`])
      expect((await envelope(membership_token, { headers: { 'if-none-match': known } })).status).toBe(304)
    await publish({ name: `Moved for ${owner}` })
    const moved = await envelope(membership_token, { headers: { 'if-none-match': etag } })
    expect([moved.status, moved.body.view, moved.body.charter_name]).toEqual([
      200,
      view.view + 1,
      `Moved for ${owner}`,
    ])
  })
})

describe('A request for a member', () => {
  it('is taken with a signature of her authority alone, by a key that it publishes', async () => {
    const code = await invited()
    const person = { owner, as_uri: stand.first.uri, code }
    expect((await post('preview', person, { ...stand.second, uri: stand.first.uri })).status).toBe(401)
    expect(
      (await signedBy(stand.first, { method: 'POST', target: '/member/preview', json: person, sign: false }))
        .status,
    ).toBe(401)
    const elsewhere = await post('preview', { ...person, as_uri: 'https://elsewhere.example' })
    expect([elsewhere.status, elsewhere.body.error]).toEqual([403, 'request_denied'])
  })

  it('needs more than a copied token: the signature covers it', async () => {
    const { body } = await post('join', await joining(await invited()))
    const token = body.membership_token as string
    expect((await envelope(token, { sign: false })).status).toBe(401)
    expect((await envelope(token, {}, stand.second)).status).toBe(401)
    const uncovered = { components: ['@method', '@authority', '@path'] }
    expect((await envelope(token, { sign: uncovered })).status).toBe(401)
  })
})

describe.each([30, -30, 90, -90])(
  'A call that her authority signed by a clock that is off by %d s',
  seconds => {
    it('is taken within a minute, and by nobody beyond', async () => {
      const created = Math.floor(Date.now() / 1_000) + seconds
      const status = Math.abs(seconds) < 60 ? 200 : 401
      const code = await invited()
      const json = { owner, as_uri: stand.first.uri, code }
      const call = { method: 'POST', target: '/member/preview', json, sign: { created } } as const
      expect((await signedBy(stand.first, call)).status).toBe(status)
      const token = (await post('join', await joining(code))).body.membership_token as string
      const components = ['@method', '@authority', '@path', 'authorization']
      expect((await envelope(token, { sign: { components, created } })).status).toBe(status)
    })
  },
)

describe('A code', () => {
  it('of an invitation is hers alone, once, and dead when it is withdrawn', async () => {
    const code = await invited()
    const others = { owner: `${owner}-x`, as_uri: stand.first.uri, code }
    const refused = await post('preview', others)
    expect([refused.status, refused.body.reason]).toEqual([403, 'invalid_code'])
    expect((await post('join', await joining(code))).status).toBe(200)
    const again = { owner, as_uri: stand.first.uri, code }
    expect((await post('preview', again)).body.reason).toBe('invalid_code')
  })

  it('that is shared lets anybody in until it is rotated', async () => {
    const rotate = { method: 'POST', target: '/admin/join-code/rotate' } as const
    const { body } = await stand.organization.admin(rotate)
    const code = body.code as string
    expect((await post('join', await joining(code))).status).toBe(200)
    await stand.organization.admin(rotate)
    const late = await post('preview', { owner: `${owner}-late`, as_uri: stand.first.uri, code })
    expect(late.body.reason).toBe('invalid_code')
  })
})

describe('A join', () => {
  it('again under its own join_id answers the same, token and all', async () => {
    const asked = await joining(await invited())
    const first = await post('join', asked)
    const again = await post('join', asked)
    expect([again.status, again.body]).toEqual([200, first.body])
  })

  it('that agreed to other bytes than are in force joins nobody', async () => {
    const asked = await joining(await invited())
    await publish({ envelope: { max_expires_in: 1800 } })
    const moved = await post('join', asked)
    expect([moved.status, moved.body.reason]).toEqual([409, 'charter_moved'])
    await publish({})
    expect((await post('join', { ...asked, binds_s256: 's256:x' })).body.reason).toBe('charter_moved')
  })

  it('of an owner who is a member from another authority is refused', async () => {
    expect((await post('join', await joining(await invited()))).status).toBe(200)
    const asked = await joining(await invited(stand.second), stand.second)
    const other = await post('join', { ...asked, join_id: `${join_id}-2` }, stand.second)
    expect([other.status, other.body.reason]).toEqual([409, 'already_member'])
  })
})

describe('Leaving', () => {
  it('ends the token at once, and may be told again', async () => {
    const { body } = await post('join', await joining(await invited()))
    const leave = { owner, as_uri: stand.first.uri, join_id }
    expect((await post('leave', { ...leave, join_id: `${join_id}-other` })).body).toEqual({ left: true })
    expect((await envelope(body.membership_token as string)).status).toBe(200)
    expect((await post('leave', leave)).body).toEqual({ left: true })
    expect((await envelope(body.membership_token as string)).status).toBe(401)
    expect((await post('leave', leave)).body).toEqual({ left: true })
  })
})
