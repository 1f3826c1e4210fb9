/**
 * Who was asked for, and what she answered: contract, "The organization's authority" (`/member/invitation`).
 */
import { randomBytes } from 'node:crypto'
import { beforeEach, describe, expect, it } from 'vitest'
import { row } from '../support/contract-row.ts'
import { startMemberStand } from '../support/organization-members.ts'
import { startedOnce } from '../support/started.ts'

const stand = startedOnce(() => startMemberStand())
const admin: typeof stand.organization.admin = call => stand.organization.admin(call)

let owner: string
beforeEach(() => {
  owner = `o-${randomBytes(4).toString('hex')}`
})

const target = (whom = owner, as_uri = stand.first.uri) =>
  `/member/invitation?${new URLSearchParams({ owner: whom, as_uri }).toString()}`
const ask = (by = stand.first, at = target()) => stand.signedBy(by, { target: at })
const decline = (more: object = {}, by = stand.first) =>
  stand.post('decline', { owner, as_uri: by.uri, ...more }, by)
const declined = async () => {
  const { body } = await admin({ target: '/admin/activity?limit=1000' })
  return (body.entries as { kind: string; owner?: string }[]).filter(
    entry => entry.kind === 'declined' && entry.owner === owner,
  )
}

describe("The organization's authority", () => {
  row('org-member-invitation', async () => {
    expect((await ask()).status).toBe(404)
    const json = { owner, as_uri: stand.first.uri, note: 'Welcome' }
    const { code, expires_at } = (await admin({ method: 'POST', target: '/admin/invites', json })).body as {
      code: string
      expires_at: string
    }
    const { status, body, headers } = await ask()
    expect([status, headers.get('cache-control')]).toEqual([200, 'no-store'])
    const invited_at = expect.any(String) as string
    expect(body).toEqual({ invitation: { code, note: 'Welcome', invited_at, expires_at } })
    // By that code she can join.
    const asked = await stand.joining({ owner, join_id: `join-of-${owner}-0000000` }, code)
    expect((await stand.post('join', asked)).status).toBe(200)
    expect((await ask()).status).toBe(404)
  })
})

describe('An invitation', () => {
  it('is told to her own authorization server alone, by its signature over what it asks', async () => {
    await stand.invited(owner)
    expect((await ask(stand.second)).status).toBe(401)
    expect((await ask(stand.second, target(owner, stand.second.uri))).status).toBe(404)
    const unsigned = await stand.signedBy(stand.first, { target: target(), sign: false })
    expect(unsigned.status).toBe(401)
    const uncovered = { components: ['@method', '@authority', '@path'] }
    expect((await stand.signedBy(stand.first, { target: target(), sign: uncovered })).status).toBe(401)
    expect((await ask(stand.first, target(owner, 'https://elsewhere.example'))).status).toBe(403)
  })

  it('that is withdrawn or replaced by a newer one is told no more', async () => {
    const older = await stand.invited(owner)
    const newer = await stand.invited(owner)
    expect((await ask()).body.invitation.code).toBe(newer)
    const { body } = await admin({ target: '/admin/invites?limit=1000' })
    const code_id = (body as { code_id: string }[]).find(one => newer.includes(one.code_id))!.code_id
    await admin({ method: 'DELETE', target: `/admin/invites/${code_id}` })
    expect((await ask()).body.invitation.code).toBe(older)
  })

  it('that she declines is an answer on record, and its code is dead', async () => {
    const code = await stand.invited(owner)
    expect((await decline({ code })).body).toEqual({ declined: true })
    expect(await declined()).toHaveLength(1)
    expect((await ask()).status).toBe(404)
    const preview = await stand.post('preview', { owner, as_uri: stand.first.uri, code })
    expect([preview.status, preview.body.reason]).toEqual([403, 'invalid_code'])
    // Told again, as by who lost the answer, it is declined still, and once.
    expect((await decline({ code })).body).toEqual({ declined: true })
    expect(await declined()).toHaveLength(1)
  })

  it('is declined without its code too, each that waits', async () => {
    const codes = [await stand.invited(owner), await stand.invited(owner)]
    expect((await decline()).body).toEqual({ declined: true })
    expect(await declined()).toHaveLength(2)
    for (const code of codes)
      expect((await stand.post('preview', { owner, as_uri: stand.first.uri, code })).status).toBe(403)
    expect((await decline()).body).toEqual({ declined: true })
  })

  it('is not declined by who is not asked', async () => {
    const code = await stand.invited(owner)
    expect((await decline({ code }, stand.second)).body.reason).toBe('invalid_code')
    expect((await decline({}, stand.second)).status).toBe(200)
    expect((await decline({ code: `${code.slice(0, -1)}${code.endsWith('A') ? 'B' : 'A'}` })).status).toBe(
      403,
    )
    const others = { owner: `${owner}-x`, code }
    expect((await decline(others)).status).toBe(403)
    expect((await ask()).status).toBe(200)
    expect(await declined()).toEqual([])
  })

  it('that she declines while she joins is either the one or the other', async () => {
    for (let round = 0; round < 10; round++) {
      owner = `r${round}-${randomBytes(4).toString('hex')}`
      const code = await stand.invited(owner)
      const asked = await stand.joining({ owner, join_id: `join-of-${owner}-0000000` }, code)
      const [joined] = await Promise.all([stand.post('join', asked), decline({ code })])
      expect((await declined()).length).toBe(joined.status === 200 ? 0 : 1)
    }
  })
})
