/** What an organization answers for one request: contract, "The organization's authority" (`/decision`). */
import { randomBytes } from 'node:crypto'
import { beforeEach, describe, expect, it } from 'vitest'
import { verifyClearance } from '../../src/wire/organization/clearance.ts'
import { asOwner } from '../../src/wire/identifiers.ts'
import { parseJwks } from '../../src/wire/signatures/keys.ts'
import { row } from '../support/contract-row.ts'
import { startMemberStand, type MemberAuthority } from '../support/organization-members.ts'
import { ORG_ISSUER } from '../support/organization.ts'
import { startedOnce } from '../support/started.ts'

const stand = startedOnce(() => startMemberStand())

let owner: string
let token: string
beforeEach(async () => {
  owner = `o-${randomBytes(4).toString('hex')}`
  token = await stand.joined(owner)
})

const asked = (changes: object = {}) => ({
  resource_id: 'acme/mail-in',
  scopes: ['read'],
  expires_in: 600,
  reason_absent: false,
  mission_absent: true,
  operation: { tool: 'mail_read', params_s256: 's256:x' },
  assurance: { binding: 1, provenance: 0, accountability: 0 },
  standing: { connected: true, first_party: false, introduced: false },
  tier: null,
  purpose: null,
  ...changes,
})
const decide = (changes: object = {}, sent: object = {}, by?: MemberAuthority) =>
  stand.asMember(token, { method: 'POST', target: '/decision', json: asked(changes), ...sent }, by)
const admin: typeof stand.organization.admin = call => stand.organization.admin(call)
const attest = (clearance: object) =>
  admin({ method: 'PUT', target: `/admin/members/${owner}/clearance`, json: { clearance } })

describe("The organization's authority", () => {
  row('org-decision', async () => {
    const effects = async () =>
      Promise.all(
        [{}, { resource_id: 'acme/mail-out' }, { expires_in: 3601 }].map(
          async changes => (await decide(changes)).body.effect as string,
        ),
      )
    expect(await effects()).toEqual(['allow', 'ask', 'refuse'])
    const refused = await decide({ expires_in: 3601 })
    expect(refused.body).toMatchObject({
      because: ['expires_in_above_ceiling'],
      governed: true,
      clearance: null,
    })
    expect(refused.headers.get('cache-control')).toBe('no-store')
  })

  row('role-delegation', async () => {
    const move = (role: string) =>
      admin({ method: 'POST', target: `/admin/members/${owner}/role`, json: { role } })
    const calendar = { resource_id: 'acme/calendar' }
    await move('guests')
    expect((await decide(calendar)).body.because).toEqual(['delegation_none'])
    const roles = (delegation: string) => ({
      roles: {
        staff: { name: 'Staff', grants: ['acme/mail-*'], delegation: 'any-agent' },
        guests: { name: 'Guests', grants: ['acme/calendar'], delegation },
      },
    })
    await stand.publish(roles('first-party-only'))
    const own = { connected: true, first_party: true, introduced: false }
    expect((await decide(calendar)).body.because).toEqual(['not_first_party'])
    expect((await decide({ ...calendar, standing: own })).body.effect).toBe('allow')
    await stand.publish(roles('any-agent'))
    expect((await decide(calendar)).body.effect).toBe('allow')
    await stand.publish({})
  })
})

describe('A decision', () => {
  it('of what is not claimed says so, and nothing else', async () => {
    await attest({ screening: 'full' })
    const { body } = await decide({ resource_id: 'bea/photos' })
    expect(body).toMatchObject({ effect: 'allow', governed: false, because: [], clearance: null })
  })

  it('brings a fresh clearance, so that nothing has to be asked twice', async () => {
    await attest({ screening: 'full' })
    const { body } = await decide()
    const keys = parseJwks((await stand.organization.request('/jwks')).body)
    const expected = { issuer: ORG_ISSUER, audience: stand.first.uri, owner: asOwner(owner) }
    const now = Math.floor(Date.now() / 1_000)
    const { clearance } = verifyClearance(body.clearance as string, keys, { ...expected, now })
    expect(clearance).toEqual({ screening: 'full' })
  })

  it('follows what is attested, her group and the charter at once', async () => {
    const envelope = { max_expires_in: 3600, require_clearance: { screening: ['full'] } }
    await stand.publish({ envelope })
    expect((await decide()).body.because).toEqual(['clearance_unmet'])
    await attest({ screening: 'full' })
    const { body } = await decide()
    expect(body.effect).toBe('allow')
    expect(body.charter_version).toBe((await admin({ target: '/admin/charter' })).body.version)
    await admin({ method: 'POST', target: `/admin/members/${owner}/role`, json: { role: null } })
    expect((await decide()).body.because).toEqual(['not_shared'])
    await stand.publish({})
  })

  it('is for the authority of a member alone', async () => {
    expect((await decide({}, { sign: false })).status).toBe(401)
    expect((await decide({}, {}, stand.second)).status).toBe(401)
    const uncovered = { components: ['@method', '@authority', '@path', 'content-digest'] }
    expect((await decide({}, { sign: uncovered })).status).toBe(401)
    await admin({ method: 'DELETE', target: `/admin/members/${owner}` })
    expect((await decide()).status).toBe(401)
  })

  it.each([
    ['her words', { purpose: 'Read my mail' }],
    ['the name of her tier', { tier: 'reading' }],
    ['parameters', { operation: { tool: 'x', params: {} } }],
    ['a fact that is missing', { assurance: { binding: 1 } }],
    ['a lifetime that is none', { expires_in: 0 }],
    ['a reason', { reason: 'because' }],
  ])('is refused with %s, and says what is wrong', async (_what, changes) => {
    const { status, body } = await decide(changes)
    expect([status, body.error]).toEqual([400, 'invalid_request'])
  })
})
