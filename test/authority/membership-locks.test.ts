/**
 * The order in which a landing locks what grants rest on, on a real Postgres: contract, "Registry
 * materialization", "Organization membership, on the member's authorization server". A consume locks the
 * membership first, so that whatever else locked another row before it could wait for it for good.
 */
import { describe, expect, it, onTestFinished } from 'vitest'
import type { Pool } from 'pg'
import { takeView } from '../../src/authority/organization/view-polling.ts'
import { provision } from '../../src/authority/provision.ts'
import { readMembership } from '../../src/storage/authority/membership/membership.ts'
import type { Reply } from '../support/authority.ts'
import { dueAtOnce } from '../support/due.ts'
import { lockWaiters } from '../support/lock-waiters.ts'
import { startMembershipStand } from '../support/membership.ts'
import { agePulls, pulled } from '../support/registry.ts'
import { decideServer, startResourceServer } from '../support/resource-server.ts'
import { startedForEach } from '../support/started.ts'
import { callWithPat, testAgent } from '../support/test-agent.ts'
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
    callWithPat(stand.authority, pat, '/perm', { resource_id: 'alice/unknown', resource_scopes: ['read'] })
}

/** She was a member before, so that there is a row to wait for, and has previewed what she agrees to. */
async function join(): Promise<() => Promise<unknown>> {
  await stand.own('DELETE')
  const agreeing = await stand.agreeing(await stand.invited())
  return () => stand.own('POST', '', agreeing).then(succeeded)
}

/** A later version claims more. */
async function agreeAgain(): Promise<() => Promise<unknown>> {
  await stand.publish({ claims: ['alice/*'] })
  await dueAtOnce(stand.authority.database, 'view')
  const waiting = async () => (await stand.own('GET')).body
  await until(async () => (await waiting()).waiting !== null)
  const { charter_version, binds_s256 } = await waiting()
  return () => stand.own('POST', '', { agreed: true, charter_version, binds_s256 }).then(succeeded)
}

/** With a scope that the ceiling cuts, as it has cut none before: the membership notes what it has cut. */
const CUT = {
  id: 'closing',
  name: 'Closing',
  resources: ['alice/account'],
  ask_me: true,
  rules: [],
  terms: { purpose: 'Close it', scope: ['close'], expires_in: 60, prohibited: [], per_operation: true },
}

async function writePolicy(): Promise<() => Promise<unknown>> {
  const call = { method: 'POST', target: '/owner/policies', json: CUT } as const
  return () => stand.authority.call(stand.alice, call).then(succeeded)
}

/** A resource more, and a tier over another. */
async function provisionMore(): Promise<() => Promise<unknown>> {
  const { config, database } = stand.authority
  const [entry] = config.owners
  const resource = { ...entry!.resources[0]!, id: 'alice/of-the-file' }
  const tier = { clearance: {}, ...CUT }
  const more = { ...entry!, resources: [...entry!.resources, resource], tiers: [...entry!.tiers, tier] }
  return async () => {
    const done = await provision(database.db, [more])
    expect(done.map(({ item, outcome }) => [item, outcome])).toEqual([
      [resource.id, 'made'],
      [CUT.id, 'made'],
    ])
    return done
  }
}

function succeeded({ status }: Reply): boolean {
  return status < 300
}

/** Looks at what a landing holds while it waits for what another session has locked by this statement. */
async function whileWaiting(
  statement: string,
  landing: () => Promise<unknown>,
  look: (pool: Pool) => Promise<void>,
): Promise<void> {
  const { database } = stand.authority
  const other = await database.pool.connect()
  let landed: Promise<unknown> | undefined
  try {
    await other.query('BEGIN')
    await other.query(statement)
    landed = landing()
    await until(async () => (await lockWaiters(database)) > 0)
    await look(database.pool)
  } finally {
    // Before the authority is closed, which waits for it.
    await other.query('ROLLBACK')
    other.release()
  }
  expect(await landed).toBeTruthy()
}

describe('While a consume holds the membership, nothing that it may lock next is held by', () => {
  it.each([
    ['a join', join],
    ['her agreeing again', agreeAgain],
    ['a write of a tier', writePolicy],
    ['provisioning', provisionMore],
    ['a pull of a registry', pull],
    ['a later view', async () => laterView],
    ['her leaving', async () => () => stand.own('DELETE')],
  ] as const)('%s', async (_, prepared) => {
    await stand.joined()
    await testAgent(stand.authority).granted('portfolio_read')
    await whileWaiting('SELECT FROM memberships FOR SHARE', await prepared(), async pool => {
      for (const table of AFTER_IT) {
        const how = table === 'resource_servers' ? 'FOR SHARE' : 'FOR NO KEY UPDATE'
        expect(await pool.query(`SELECT FROM ${table} ${how} NOWAIT`).then(() => table)).toBe(table)
      }
    })
  })
})

describe('Her queue is nobody’s while it is found out how far the charter reaches, before', () => {
  it.each([
    ['a join', join, 'resources'],
    ['her agreeing again', agreeAgain, 'resources'],
    ['provisioning', provisionMore, 'resources'],
    // `/perm` itself reads what she has registered.
    ['a pull of a registry', pull, 'memberships'],
  ] as const)('%s', async (_, prepared, reads) => {
    await stand.joined()
    const statement = `LOCK TABLE ${reads} IN ACCESS EXCLUSIVE MODE`
    await whileWaiting(statement, await prepared(), async pool => {
      expect((await pool.query('SELECT FROM queues FOR UPDATE NOWAIT')).rowCount).toBeGreaterThan(0)
    })
  })
})
