/**
 * An agent that is refused because of an organization is told so by a word, whenever that is: contract,
 * "Errors" (`request_denied`), "Organization membership, on the member's authorization server".
 */
import { describe, expect, it } from 'vitest'
import type { Reply } from '../support/authority.ts'
import { lastAnsweredEarlier } from '../support/due.ts'
import { CLAIMING, startMembershipStand } from '../support/membership.ts'
import { askAdmin } from '../support/organization-admin.ts'
import { startedForEach } from '../support/started.ts'
import { decide, pendingAt, testAgent, type TestAgent } from '../support/test-agent.ts'
import { until } from '../support/until.ts'

const PORTFOLIO = 'alice/portfolio'

const stand = startedForEach(async () => {
  // Her portfolio can be traded as well, by her own terms.
  const started = await startMembershipStand({
    authority: {
      provision: document => ({
        owners: document.owners.map(owner => ({
          ...owner,
          resources: owner.resources.map(one =>
            one.id === PORTFOLIO ? { ...one, resource_scopes: ['read', 'trade'] } : one,
          ),
          tiers: owner.tiers.map(one =>
            one.id === 'reading' ? { ...one, terms: { ...one.terms, scope: ['read', 'trade'] } } : one,
          ),
        })),
      }),
    },
  })
  await started.joined()
  return started
})

const told = ({ status, body }: Reply) => [status, body.error, body.reason]
const denied = (reason: string | undefined) => [403, 'request_denied', reason]
const membership = async () => (await stand.own('GET')).body
const endReach = async ({ handle }: TestAgent) => {
  const { status } = await askAdmin(stand, { target: '/connections/revoke', json: { handle } })
  expect(status).toBe(200)
}
const unshare = async () => {
  await lastAnsweredEarlier(stand.authority.database)
  await stand.publish({ roles: { ...CLAIMING.roles, staff: { ...CLAIMING.roles.staff, grants: [] } } })
  await until(async () => (await membership()).grants.length === 0)
}
const allow = async (...allowed_scopes: string[]) => {
  await lastAnsweredEarlier(stand.authority.database)
  await stand.publish({ envelope: { ...CLAIMING.envelope, allowed_scopes } })
  await until(async () => String((await membership()).allowed_scopes) === String(allowed_scopes))
}
/** An agent that she has approved, and that has not collected this yet. */
const approved = async () => {
  const agent = testAgent(stand.authority)
  const { body } = await agent.ask('portfolio_read')
  await decide(stand.authority, agent.handle, 'approved')
  return { agent, collect: () => agent.present(body.ticket as string) }
}

describe('What an organization refuses has a word', () => {
  it('if its administrator ended the reach of an agent', async () => {
    const agent = testAgent(stand.authority)
    await agent.granted('portfolio_read')
    await endReach(agent)
    expect(told(await agent.ask('portfolio_read'))).toEqual(denied('ended_by_organization'))
    // What is hers alone is no part of that.
    expect((await agent.ask('statement_read')).status).toBe(200)
  })

  it('if its ceiling leaves no scope of the terms', async () => {
    const agent = testAgent(stand.authority)
    const offer = await agent.offer('portfolio_read')
    await allow('send')
    // At the ticket, and where the terms were offered before.
    const asked = await agent.present(await agent.ticket('portfolio_read'))
    for (const refused of [asked, await agent.agree(offer)])
      expect(told(refused)).toEqual(denied('scope_above_ceiling'))
  })

  it('if its ceiling leaves scopes of the terms, and none of those that the call needs', async () => {
    const agent = testAgent(stand.authority)
    await agent.granted('portfolio_read')
    await allow('trade')
    expect(told(await agent.ask('portfolio_read'))).toEqual(denied('scope_above_ceiling'))
  })

  it('and where the agent itself agreed to no scope that the call needs, none', async () => {
    const agent = testAgent(stand.authority)
    await agent.granted('portfolio_read')
    expect(told(await agent.ask('portfolio_read', { scope: ['trade'] }))).toEqual(denied(undefined))
  })
})

describe('What she approved and an organization has taken away since has a word as it is collected', () => {
  it('if its administrator ended the reach of the agent', async () => {
    const { agent, collect } = await approved()
    await endReach(agent)
    expect(told(await collect())).toEqual(denied('organization_refused'))
    expect(told(await agent.ask('portfolio_read'))).toEqual(denied('ended_by_organization'))
  })

  it('if it shares the resource no more', async () => {
    const { collect } = await approved()
    await unshare()
    expect(told(await collect())).toEqual(denied('not_shared'))
  })

  it('if it moved her to another group, which is shared the same', async () => {
    const { collect } = await approved()
    const target = '/admin/members/alice/role'
    await lastAnsweredEarlier(stand.authority.database)
    await stand.organization.admin({ method: 'POST', target, json: { role: 'traders' } })
    await until(async () => (await membership()).role === 'traders')
    expect(told(await collect())).toEqual(denied('organization_revoked'))
  })

  it('if she left it', async () => {
    const { collect } = await approved()
    await stand.own('DELETE')
    expect(told(await collect())).toEqual(denied('organization_revoked'))
  })

  it('if it ended her membership, also to an agent that its administrator let in', async () => {
    const agent = testAgent(stand.authority)
    const { body } = await agent.ask('portfolio_read')
    const [item] = await pendingAt(stand.authority)
    const target = `/pending/${item!.family}/decision`
    expect((await askAdmin(stand, { target, json: { decision: 'approved' } })).status).toBe(200)
    const { collect } = await approved()
    await lastAnsweredEarlier(stand.authority.database)
    await stand.organization.admin({ method: 'DELETE', target: '/admin/members/alice' })
    await until(async () => (await membership()).enrolled === false)
    for (const refused of [await agent.present(body.ticket as string), await collect()]) {
      expect(told(refused)).toEqual(denied('organization_revoked'))
      expect(refused.body.error_description).toContain('organization')
    }
  })

  it('and what she revoked herself has none', async () => {
    const { agent, collect } = await approved()
    await stand.authority.call(stand.alice, {
      method: 'POST',
      target: '/owner/connections/revoke',
      json: { handle: agent.handle },
    })
    expect(told(await collect())).toEqual(denied(undefined))
  })
})
