/**
 * What an agreement costs its organization at a replica that has asked it nothing yet: contract, "The
 * organization's authority" (`/decision`: the answer for one request; discovery and `/jwks` are read beside).
 */
import { describe, expect, it, onTestFinished } from 'vitest'
import { freePorts } from '../../src/dev/stack/ports.ts'
import { ALIAS, WELL_KNOWN } from '../../src/wire/names.ts'
import { startTestAuthority, type TestAuthority } from '../support/authority.ts'
import { startMembershipStand, type MembershipStand } from '../support/membership.ts'
import { startOrganizationDoor, type OrganizationDoor } from '../support/organization-door.ts'
import { decide, testAgent } from '../support/test-agent.ts'
import { until } from '../support/until.ts'

const ABSENT = { status: 404, body: { error: 'not_found' } }

/** alice is a member, whose terms ask for a clearance. `other`: discovery is there alone. */
async function start(other?: string): Promise<MembershipStand & { door: OrganizationDoor }> {
  const [port] = await freePorts(1)
  let door: OrganizationDoor
  const stand = await startMembershipStand({
    listen: `127.0.0.1:${port}`,
    ...(other !== undefined && {
      organization: { UMA_ORG_ALIASES: other },
      authority: { environment: { UMA_AS_ALIASES: other } },
    }),
    before: async issuer => {
      door = await startOrganizationDoor(Number(new URL(issuer).port), () => `http://127.0.0.1:${port}`)
      if (other !== undefined) door.instead(WELL_KNOWN.organization, () => ABSENT)
    },
  })
  onTestFinished(async () => {
    door.close()
    await stand.close()
  })
  await stand.joined()
  // The first one reads it some seconds after its first member joined, and then not for long.
  await until(() => door.count('/jwks') > 0)
  const target = '/admin/members/alice/clearance'
  const json = { clearance: { level: 'high' } }
  await stand.organization.admin({ method: 'PUT', target, json })
  const policy = { method: 'PUT', target: '/owner/policies/reading' } as const
  await stand.authority.call(stand.alice, { ...policy, json: { clearance: { level: ['high'] } } })
  return { ...stand, door: door! }
}

/** Another replica of her authority, when it has read what the organization publishes. */
async function startCold({ authority, door }: Awaited<ReturnType<typeof start>>): Promise<TestAuthority> {
  const read = door.count('/jwks')
  const environment = { UMA_AS_LISTEN: '127.0.0.1:0' }
  const replica = await startTestAuthority({ beside: authority, environment })
  onTestFinished(() => replica.close())
  await until(() => door.count('/jwks') > read)
  return replica
}

/** Without what no agreement causes: each member's view is polled, and each cut of her tiers is reported. */
const askedFor = ({ asked }: OrganizationDoor): string[] =>
  asked
    .splice(0)
    .map(({ path }) => path.split('?')[0]!)
    .filter(path => !['/member/envelope', '/member/compliance'].includes(path))

describe('At a replica that has just started', () => {
  it.each([
    ['where discovery has the name of the contract', undefined],
    ['where discovery has another name alone', ALIAS.organizationDiscovery],
  ])('an agreement, its polls and its collection cost one request, none and one, %s', async (_, other) => {
    const stand = await start(other)
    const agent = testAgent(stand.authority)
    const offer = await agent.offer('portfolio_read')
    const [weighing, collecting] = [await startCold(stand), await startCold(stand)]
    askedFor(stand.door)
    const { body } = await testAgent(weighing, agent).agree(offer)
    expect([body.error, askedFor(stand.door)]).toEqual(['request_submitted', ['/decision']])
    const polled = await testAgent(collecting, agent).present(body.ticket)
    expect([polled.body.error, askedFor(stand.door)]).toEqual(['request_submitted', []])
    await decide(stand.authority, agent.handle, 'approved')
    const { status } = await testAgent(collecting, agent).present(polled.body.ticket)
    expect([status, askedFor(stand.door)]).toEqual([200, ['/decision']])
  })
})
