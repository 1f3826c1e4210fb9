/**
 * What administrators see of a clearance that was checked: contract, "Organization membership, on the
 * member's authorization server" (`/org/admin/{owner}/...`), "Policy vocabulary and tiers" (a clearance: the
 * grant carries only a digest, and her ledger alone the attestation).
 */
import { beforeAll, describe, expect, it } from 'vitest'
import { startMembershipStand } from '../support/membership.ts'
import { askAdmin } from '../support/organization-admin.ts'
import { startedOnce } from '../support/started.ts'
import { protectionCall, testAgent, type TestAgent, type ToolName } from '../support/test-agent.ts'
import { until } from '../support/until.ts'
import { dueAtOnce } from '../support/due.ts'

const stand = startedOnce(async () => {
  const started = await startMembershipStand()
  const { status, text } = await started.joined()
  if (status !== 200) throw new Error(text)
  return started
})
const edit = (tier: string, json: object) =>
  stand.authority.call(stand.alice, { method: 'PUT', target: `/owner/policies/${tier}`, json })
/** Every page that an administrator may read of her, at her server and at his own organization. */
const administered = async (): Promise<string[]> => {
  const lists = ['pending', 'connections', 'operators', 'ledger']
  const replies = await Promise.all([
    ...lists.map(list => askAdmin(stand, { target: `/${list}?limit=1000` })),
    ...lists.map(list => stand.organization.admin({ target: `/admin/members/alice/${list}?limit=1000` })),
    stand.organization.admin({ target: '/admin/activity?limit=1000' }),
  ])
  for (const { status } of replies) expect(status).toBe(200)
  return replies.map(({ text }) => text)
}
/** Granted, and the call told of. */
const used = async (agent: TestAgent, tool: ToolName): Promise<void> => {
  const { rpt } = await agent.granted(tool)
  const claims = JSON.parse(Buffer.from(rpt.split('.')[1]!, 'base64url').toString()) as Record<string, string>
  const { family, jti } = claims
  const { status } = await protectionCall(stand.authority, '/audit/access', { family, tool, jti })
  expect(status).toBe(200)
}

const known = async () => {
  const { rows } = await stand.authority.database.pool.query<{ org_epoch: number; version: number }>(
    "SELECT org_epoch, (view->>'charter_version')::int AS version FROM memberships WHERE owner = 'alice'",
  )
  return rows[0]!
}

let governed: TestAgent
let own: TestAgent
beforeAll(async () => {
  const target = '/admin/members/alice/clearance'
  const before = await known()
  const json = { clearance: { level: 'high' } }
  const { body } = await stand.organization.admin({ method: 'PUT', target, json })
  // Its notice was taken, and the view that follows it.
  await until(async () => {
    const { org_epoch, version } = await known()
    return version >= body.version && org_epoch > before.org_epoch
  })
  for (const tier of ['reading', 'statements']) await edit(tier, { clearance: { level: ['high'] } })
  governed = testAgent(stand.authority)
  await used(governed, 'portfolio_read')
  own = testAgent(stand.authority)
  await used(own, 'statement_read')
})

describe('A clearance that was checked', () => {
  it('is in her ledger alone: no administrator is shown what was attested', async () => {
    const { body } = await stand.authority.call(stand.alice, { target: '/owner/ledger?limit=1000' })
    const kept = (body.entries as { kind: string; clearance?: string }[]).flatMap(({ kind, clearance }) =>
      typeof clearance === 'string' ? [{ kind, clearance }] : [],
    )
    expect(new Set(kept.map(({ kind }) => kind))).toEqual(new Set(['promised', 'org_acted']))
    for (const text of await administered())
      for (const { clearance } of kept) {
        expect(text).not.toContain(clearance)
        // Nor the facts by themselves.
        expect(text).not.toContain(clearance.split('.')[1])
      }
    const shown = (await askAdmin(stand, { target: '/ledger?limit=1000' })).body.entries as object[]
    expect(shown).toContainEqual(
      expect.objectContaining({ kind: 'org_acted', what: 'clearance_checked', handle: governed.handle }),
    )
    for (const entry of shown) expect(entry).not.toHaveProperty('clearance')
  })

  it('for what is hers alone is not shown at all, nor once a later charter claims it', async () => {
    const hidden = async () => {
      for (const text of await administered()) {
        expect(text).not.toContain(own.handle)
        expect(text).not.toContain('statement_read')
      }
    }
    await hidden()
    const claims = ['alice/portfolio', 'alice/trades', 'alice/account', 'alice/statements']
    await stand.publish({ claims })
    const seen = async () => (await stand.own('GET')).body
    await until(async () => {
      await dueAtOnce(stand.authority.database, 'view')
      return (await seen()).waiting !== null
    })
    const { charter_version, binds_s256 } = await seen()
    const agreed = await stand.own('POST', '', { agreed: true, charter_version, binds_s256 })
    expect(agreed.body.governed_resources).toContain('alice/statements')
    await hidden()
  })
})
