/**
 * What an owner who is no member is told of the organizations that are listed: contract, "Organization
 * membership, on the member's authorization server" (GET /owner/organization).
 */
import { setTimeout as delay } from 'node:timers/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import { startTestAuthority, type TestAuthority } from '../support/authority.ts'
import { startHostile, type HostileOrganization } from '../support/hostile-organization.ts'

const DISCOVERY = '/.well-known/ext-organization'
/** Longer than an organization is waited for, and shorter than discovery is waited for elsewhere. */
const SLOW_MS = 2_500
const never = () => new Promise<never>(() => undefined)
const INVITATION = {
  code: 'inv_1.secret',
  note: 'Welcome',
  invited_at: '2026-11-20T09:00:00.000Z',
  expires_at: '2026-12-20T09:00:00.000Z',
}

/** One that has invited whoever is asked about. */
async function inviting(): Promise<HostileOrganization> {
  const organization = await startHostile()
  organization.answers[DISCOVERY] = { invitation_endpoint: `${organization.issuer}/invitation` }
  organization.answers['/invitation'] = { invitation: INVITATION }
  return organization
}

async function authorityOf(...listed: HostileOrganization[]): Promise<TestAuthority> {
  const issuers = listed.map(({ issuer }) => issuer).join(',')
  const environment = { UMA_DEV_LOOPBACK: 'true', UMA_AS_ORGANIZATIONS: issuers }
  const authority = await startTestAuthority({ owners: ['alice', 'bea'], environment })
  onTestFinished(() => authority.close())
  return authority
}

const shownTo = async (authority: TestAuthority, owner = 'alice') => {
  const { status, body } = await authority.call(authority.owners[owner]!, { target: '/owner/organization' })
  expect(status).toBe(200)
  return body as { available: string[]; invitation: object | null; unreachable: string[] }
}
const times = ({ asked }: HostileOrganization, path: string) => asked.filter(one => one === path).length

describe('An organization that is listed and does not answer', () => {
  it('is unreachable, and keeps nothing back of what another answers', async () => {
    const [silent, other] = [await inviting(), await inviting()]
    silent.holds['/invitation'] = never
    const authority = await authorityOf(silent, other)
    expect(await shownTo(authority)).toEqual({
      enrolled: false,
      available: [silent.issuer, other.issuer],
      invitation: { issuer: other.issuer, ...INVITATION },
      unreachable: [silent.issuer],
    })
  })

  it('is given two seconds in all, finding out where to ask included', async () => {
    const slow = await inviting()
    slow.holds[DISCOVERY] = () => delay(SLOW_MS)
    const authority = await authorityOf(slow)
    expect(await shownTo(authority)).toMatchObject({ invitation: null, unreachable: [slow.issuer] })
    expect([times(slow, DISCOVERY), times(slow, '/invitation')]).toEqual([1, 0])
  })

  it('is asked about an owner once a minute at most, and is unreachable until then', async () => {
    const failing = await inviting()
    failing.next['/invitation'] = [503]
    const authority = await authorityOf(failing)
    for (let look = 0; look < 3; look++)
      expect(await shownTo(authority)).toMatchObject({ invitation: null, unreachable: [failing.issuer] })
    expect(times(failing, '/invitation')).toBe(1)
    const bea = await shownTo(authority, 'bea')
    expect(bea).toMatchObject({ invitation: { code: INVITATION.code }, unreachable: [] })
    expect(times(failing, '/invitation')).toBe(2)
  })
})
