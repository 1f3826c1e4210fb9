/**
 * The order in which a landing locks what grants rest on, on a real Postgres: contract, "Registry
 * materialization", "Organization membership, on the member's authorization server". A consume locks the
 * membership first, so that whatever else locked another row before it could wait for it for good.
 */
import { describe, expect, it, onTestFinished } from 'vitest'
import { takeView } from '../../src/authority/organization/views.ts'
import { readMembership } from '../../src/storage/authority/membership.ts'
import { lockWaiters } from '../support/lock-waiters.ts'
import { startMembershipStand } from '../support/membership.ts'
import { agePulls, pulled } from '../support/registry.ts'
import { decideServer, startResourceServer } from '../support/resource-server.ts'
import { startedForEach } from '../support/started.ts'
import { testAgent } from '../support/test-agent.ts'
import { until } from '../support/until.ts'

const stand = startedForEach(() => startMembershipStand())

/** What a consume locks after the membership, each as a landing may lock it. */
const AFTER_IT = [
  'connections',
  'operators',
  'tiers',
  'tier_resources',
  'resource_servers',
  'resources',
] as const

/** A later view by which she is in another group. */
async function laterView(): Promise<unknown> {
  const { db } = stand.authority.database
  const { join_id, view } = (await readMembership(db, stand.alice.owner))!
  return takeView(db, stand.alice.owner, {
    join_id,
    view: { ...view, view: view.view + 1, role: 'traders', grants: [] },
  })
}

/** A resource server lists a resource fewer, which one of her tiers names. */
async function pull(): Promise<() => Promise<unknown>> {
  const tools = await startResourceServer(stand.authority.issuer)
  onTestFinished(() => tools.close())
  const listed = ['alice/account', 'alice/of-tools'].map(_id => ({
    _id,
    name: _id,
    resource_scopes: ['read'],
  }))
  tools.listings['tools'] = listed
  await tools.register(stand.authority, 'tools')
  await decideServer(stand.authority, tools.resource('tools'), 'approved')
  await pulled(stand.authority, tools.resource('tools'))
  tools.listings['tools'] = []
  await agePulls(stand.authority, tools.resource('tools'))
  const pat = await tools.pat(stand.authority, 'tools')
  return () =>
    stand.authority.request('POST', '/perm', {
      headers: { authorization: `Bearer ${pat}`, 'content-type': 'application/json' },
      body: JSON.stringify({ resource_id: 'alice/unknown', resource_scopes: ['read'] }),
    })
}

describe('While a consume holds the membership, nothing that it may lock next is held by', () => {
  it.each([
    ['a pull of a registry', pull],
    ['a later view', async () => laterView],
    ['her leaving', async () => () => stand.own('DELETE')],
  ] as const)('%s', async (_, prepared) => {
    await stand.joined()
    await testAgent(stand.authority).granted('portfolio_read')
    const landing = await prepared()
    const { pool } = stand.authority.database
    const consume = await pool.connect()
    let landed: Promise<unknown> | undefined
    try {
      await consume.query('BEGIN')
      await consume.query('SELECT FROM memberships FOR SHARE')
      landed = landing()
      await until(async () => (await lockWaiters(stand.authority.database)) > 0)
      for (const table of AFTER_IT) {
        const how = table === 'resource_servers' ? 'FOR SHARE' : 'FOR NO KEY UPDATE'
        expect(await pool.query(`SELECT FROM ${table} ${how} NOWAIT`).then(() => table)).toBe(table)
      }
    } finally {
      // Before the authority is closed, which waits for it.
      await consume.query('ROLLBACK')
      consume.release()
    }
    expect(await landed).toBeTruthy()
  })
})
