/**
 * What is attested of a member: contract, "Policy vocabulary and tiers" (clearance), "The organization's
 * authority" (`/member/clearance`).
 */
import { randomBytes } from 'node:crypto'
import { beforeEach, describe, expect, it } from 'vitest'
import { verifyClearance } from '../../src/wire/organization/clearance.ts'
import { asOwner } from '../../src/wire/identifiers.ts'
import { parseJwks } from '../../src/wire/signatures/keys.ts'
import { row } from '../support/contract-row.ts'
import { startMemberStand } from '../support/organization-members.ts'
import { ORG_ISSUER } from '../support/organization.ts'
import { startedOnce } from '../support/started.ts'

const stand = startedOnce(() => startMemberStand())

let owner: string
let token: string
beforeEach(async () => {
  owner = `o-${randomBytes(4).toString('hex')}`
  token = await stand.joined(owner)
})

const attest = (clearance: object) =>
  stand.organization.admin({
    method: 'PUT',
    target: `/admin/members/${owner}/clearance`,
    json: { clearance },
  })
const ask = (audience = stand.first.uri) =>
  stand.asMember(token, { target: `/member/clearance?audience=${encodeURIComponent(audience)}` })
async function verified(clearance: string) {
  const keys = parseJwks((await stand.organization.request('/jwks')).body)
  const now = Math.floor(Date.now() / 1_000)
  return verifyClearance(clearance, keys, {
    issuer: ORG_ISSUER,
    audience: stand.first.uri,
    owner: asOwner(owner),
    now,
  })
}

describe("The organization's authority", () => {
  row('org-member-clearance', async () => {
    await attest({ screening: 'full', desk: 'equities' })
    const { status, body, headers } = await ask()
    expect([status, body.expires_in, headers.get('cache-control')]).toEqual([200, 300, 'no-store'])
    const claims = await verified(body.clearance as string)
    expect(claims.clearance).toEqual({ screening: 'full', desk: 'equities' })
    expect([claims.org, claims.exp - claims.iat]).toEqual(['acme', 300])
  })

  row('error-no-clearance', async () => {
    expect((await ask()).status).toBe(404)
    await attest({ screening: 'full' })
    expect((await ask()).status).toBe(200)
    await attest({})
    expect((await ask()).status).toBe(404)
  })
})

describe('A clearance', () => {
  it('is for her own authorization server alone', async () => {
    await attest({ screening: 'full' })
    const other = await ask(stand.second.uri)
    expect([other.status, other.body.error]).toEqual([403, 'request_denied'])
    expect((await stand.asMember(token, { target: '/member/clearance' })).status).toBe(400)
  })

  it('is asked for with her membership token under a signature', async () => {
    const target = `/member/clearance?audience=${encodeURIComponent(stand.first.uri)}`
    expect((await stand.asMember(token, { target, sign: false })).status).toBe(401)
    expect((await stand.asMember(token, { target }, stand.second)).status).toBe(401)
  })

  it('is a fresh one each time, by an id that nobody can guess', async () => {
    await attest({ screening: 'full' })
    const [one, two] = [await ask(), await ask()]
    const ids = await Promise.all(
      [one, two].map(async ({ body }) => (await verified(body.clearance as string)).jti),
    )
    expect(new Set(ids).size).toBe(2)
    for (const id of ids) expect(id).toMatch(/^clr_[A-Za-z0-9_-]{22}$/)
  })
})
