/**
 * What a member's authority reports: contract, "The organization's authority" (`/member/compliance`),
 * "Events" (compliance report).
 */
import { randomBytes } from 'node:crypto'
import { beforeEach, describe, expect, it } from 'vitest'
import { exchange, prepare } from '../support/authority.ts'
import { row } from '../support/contract-row.ts'
import { startMemberStand } from '../support/organization-members.ts'
import { ORG_ISSUER } from '../support/organization.ts'
import { startedOnce } from '../support/started.ts'

const stand = startedOnce(() => startMemberStand())
const admin: typeof stand.organization.admin = call => stand.organization.admin(call)

let owner: string
let token: string
beforeEach(async () => {
  owner = `o-${randomBytes(4).toString('hex')}`
  token = await stand.joined(owner)
})

const inForce = async () => (await admin({ target: '/admin/charter' })).body.version as number
const report = async (changes: object = {}) => ({
  charter_version: await inForce(),
  resources_governed: 3,
  tiers_governed: 2,
  clamped_fields: ['expires_in', 'scope'],
  within: true,
  ...changes,
})
const send = (json: object) => stand.asMember(token, { method: 'POST', target: '/member/compliance', json })
interface Listed {
  owner: string
  agreed_version: number
  compliance: object | null
}
const listed = async () =>
  ((await admin({ target: '/admin/members?limit=1000' })).body as Listed[]).find(one => one.owner === owner)!
const view = async () => (await stand.asMember(token, { target: '/member/envelope' })).body.view as number

describe("The organization's authority", () => {
  row('org-member-compliance', async () => {
    const { status, body } = await send(await report())
    expect([status, body]).toEqual([200, { recorded: true }])
    const reported_at = expect.any(String) as string
    expect((await listed()).compliance).toEqual({ ...(await report()), reported_at })
    // Of numbers and names of fields it is made, and of nothing that could say her terms.
    for (const more of [{ terms: {} }, { purpose: 'x' }, { clamped_fields: ['Read my mail'] }])
      expect((await send(await report(more))).status).toBe(400)
  })

  row('event-compliance', async () => {
    await send(await report())
    await send(await report({ within: false, clamped_fields: [] }))
    expect((await listed()).compliance).toMatchObject({ within: false, clamped_fields: [] })
  })
})

describe('A report', () => {
  it('says to which version she has agreed since, and never takes an agreement back', async () => {
    const joinedUnder = (await listed()).agreed_version
    await stand.publish({ name: `Moved for ${owner}` })
    const before = await view()
    const agreed_version = await inForce()
    await send(await report({ agreed_version }))
    expect([(await listed()).agreed_version, await view()]).toEqual([agreed_version, before + 1])
    await send(await report({ agreed_version: joinedUnder }))
    expect([(await listed()).agreed_version, await view()]).toEqual([agreed_version, before + 1])
    const { body } = await admin({ target: '/admin/activity?limit=1000' })
    const agreed = (body.entries as { kind: string; owner?: string }[]).filter(
      entry => entry.kind === 'agreed' && entry.owner === owner,
    )
    expect(agreed).toMatchObject([{ data: { charter_version: agreed_version } }])
  })

  it('of a version that was never published is refused, and changes nothing', async () => {
    const before = await listed()
    for (const version of ['agreed_version', 'charter_version'])
      expect((await send(await report({ [version]: (await inForce()) + 1 }))).status).toBe(400)
    expect(await listed()).toEqual(before)
  })

  it('is taken once under one signature', async () => {
    const call = prepare(
      stand.organization.publicUrl,
      ORG_ISSUER,
      { key: stand.first.key },
      {
        method: 'POST',
        target: '/member/compliance',
        json: await report(),
        headers: { authorization: `Bearer ${token}` },
        sign: { components: ['@method', '@authority', '@path', 'authorization', 'content-digest'] },
      },
    )
    const all = await Promise.all(Array.from({ length: 8 }, () => exchange(call)))
    expect(all.map(({ status }) => status).sort()).toEqual([200, ...Array<number>(7).fill(401)])
  })

  it('of a membership that has ended is refused', async () => {
    await admin({ method: 'DELETE', target: `/admin/members/${owner}` })
    expect((await send(await report())).status).toBe(401)
  })
})
