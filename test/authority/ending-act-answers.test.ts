/**
 * Each act that ends or narrows a grant answers how long it waited and for whom, in one form: ADR 0021;
 * docs/owner-api.md (`leases`). contract, "What the service does" (revocation is immediate).
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { describe, expect, it, onTestFinished } from 'vitest'
import { startAuthority } from '../../src/authority/main.ts'
import { readAuthorityConfig } from '../../src/config.ts'
import { generatePrivateJwk, importPrivateJwk, publicJwk } from '../../src/wire/signatures/keys.ts'
import {
  CLIENT_ID,
  exchange,
  onUndeclared,
  prepare,
  startTestAuthority,
  type OwnerCall,
  type Reply,
  type TestAuthority,
  type TestOwner,
} from '../support/authority.ts'
import { ACCOUNT, startJointStand } from '../support/joint-holder.ts'
import { holdLease, type LeaseHolder } from '../support/lease-holder.ts'
import { startMembershipStand, type MembershipStand } from '../support/membership.ts'
import { askAdmin } from '../support/organization-admin.ts'
import { startedOnce } from '../support/started.ts'
import { testAgent } from '../support/test-agent.ts'

const ORIGIN = 'https://agents.example'
const SECOND = 'more-tools'
const LEASES = { holders: 1, acknowledged: 1, waited_ms: expect.any(Number) as number }

/** An act of an owner by a request of her own. `does` is its operation in the OpenAPI document. */
interface Act {
  does: string
  call: OwnerCall
  /** Where in the answer it says so; the answer itself when left out. */
  at?: (body: unknown) => unknown
}

const post = (target: string, json?: object): OwnerCall => ({ method: 'POST', target, ...(json && { json }) })
const DECISION = '/owner/resource-servers/decision'
const handle = `jkt:${importPrivateJwk(generatePrivateJwk()).thumbprint}`
const terms = { expires_in: 60 }

/** Of each her connection, her operator, her tier or her resource server ends, by the name of the act. */
const ACTS: Record<string, Act> = {
  'revokes a connection': {
    does: 'post /owner/connections/revoke',
    call: post('/owner/connections/revoke', { handle }),
  },
  'blocks an agent': {
    does: 'post /owner/connections/block',
    call: post('/owner/connections/block', { handle }),
  },
  'blocks an operator': {
    does: 'post /owner/operators/block',
    call: post('/owner/operators/block', { origin: ORIGIN }),
  },
  'saves a tier': {
    does: 'put /owner/policies/{tier_id}',
    call: { method: 'PUT', target: '/owner/policies/reading', json: { terms } },
  },
  'deletes a tier': {
    does: 'delete /owner/policies/{tier_id}',
    call: { method: 'DELETE', target: '/owner/policies/reading' },
  },
  'withdraws a resource server': {
    does: `post ${DECISION}`,
    call: post(DECISION, { client_id: CLIENT_ID, decision: 'revoked' }),
  },
  'withdraws a resource server by its path': {
    does: 'post /owner/resource-servers/{id}/revoke',
    call: post(`/owner/resource-servers/${CLIENT_ID}/revoke`),
  },
  'withdraws several resource servers, and each record says so': {
    does: `post ${DECISION}`,
    call: post(DECISION, { client_ids: [CLIENT_ID, SECOND], decision: 'revoked' }),
    at: body => {
      const [first, second, ...others] = body as { leases?: unknown; client_id: string }[]
      expect([first?.client_id, second?.client_id, others]).toEqual([CLIENT_ID, SECOND, []])
      expect(second?.leases).toEqual(first?.leases)
      return first
    },
  },
  'bans an origin where a resource server waits': {
    does: 'post /owner/resource-servers/ban',
    call: post('/owner/resource-servers/ban', { origin: 'https://waiting.example' }),
  },
}
const names = Object.keys(ACTS)
const ownerOf = (act: string): string => `owner-${names.indexOf(act)}`
/** What other suites of this file test by their own stands; that of joint accounts serves one more. */
const ELSEWHERE = [
  'post /owner/organization',
  'delete /owner/organization',
  'post /org/admin/{owner}/connections/revoke',
  'post /org/admin/{owner}/operators/block',
]

/** A sidecar that holds a lease until its test ends. */
async function holding(authority: TestAuthority, owner: string): Promise<LeaseHolder> {
  const holder = await holdLease(authority, { owner })
  onTestFinished(async () => {
    await holder.say({ end: true })
    holder.drop()
    await holder.ended
  })
  return holder
}

/** Makes what the acts end: an agent of an operator, a second server of that origin, and one that waits. */
async function prepareWorld(authority: TestAuthority, { owner, resourceUri }: TestOwner): Promise<void> {
  const { pool } = authority.database
  await pool.query(
    `INSERT INTO connections (owner, handle, jkt, status, identity) VALUES ($1, $2, $3, 'active', 'pseudonymous')`,
    [owner, handle, handle.slice('jkt:'.length)],
  )
  await pool.query('INSERT INTO operators (owner, origin) VALUES ($1, $2)', [owner, ORIGIN])
  const servers = [
    [SECOND, resourceUri, 'active'],
    ['waiting', 'https://waiting.example/mcp', 'pending'],
  ]
  for (const [client_id, resource_uri, status] of servers)
    await pool.query(
      `INSERT INTO resource_servers (owner, client_id, name, resource_uri, status, auth)
       VALUES ($1, $2, 'Tools', $3, $4, 'signature')`,
      [owner, client_id, resource_uri, status],
    )
}

describe('An act of an owner that ends or narrows a grant', () => {
  const authority = startedOnce(async () => {
    const started = await startTestAuthority({ owners: names.map(ownerOf) })
    for (const owner of Object.values(started.owners)) await prepareWorld(started, owner)
    return started
  })

  it.each(names)('answers how long it waited and for whom if she %s', async name => {
    const { call, at = body => body } = ACTS[name]!
    const owner = authority.owners[ownerOf(name)]!
    const holder = await holding(authority, owner.owner)
    const { status, body } = await authority.call(owner, call)
    expect(status).toBe(200)
    expect(at(body)).toMatchObject({ leases: LEASES })
    expect(holder.asked()).toBe(1)
  })

  it('is each one whose answer the description of the owner API gives that member', async () => {
    const { body } = await exchange({
      url: `${authority.ownerUrl}/openapi.json`,
      method: 'GET',
      headers: {},
      body: undefined,
    })
    expect(answersWithLeases(body).toSorted()).toEqual(
      [...new Set([...Object.values(ACTS).map(({ does }) => does), ...ELSEWHERE, ...GIVING_BACK])].toSorted(),
    )
  })
})

/** Takes an act back, and has the form of its answer in common with it. */
const GIVING_BACK = ['post /owner/connections/unblock', 'post /owner/operators/unblock']

interface Document {
  paths: Record<string, Record<string, { responses?: Record<string, unknown> }>>
  components: { schemas: Record<string, unknown> }
}

function answersWithLeases({ paths, components }: Document): string[] {
  const hasLeases = (schema: unknown, seen: readonly string[] = []): boolean => {
    if (typeof schema !== 'object' || schema === null) return false
    const reference = (schema as { $ref?: unknown }).$ref
    if (typeof reference === 'string') {
      const name = reference.split('/').at(-1)!
      return !seen.includes(name) && hasLeases(components.schemas[name], [...seen, name])
    }
    const { properties } = schema as { properties?: object }
    if (properties !== undefined && 'leases' in properties) return true
    return Object.values(schema).some(one => hasLeases(one, seen))
  }
  return Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations)
      .filter(([, { responses = {} }]) => hasLeases(responses['200']))
      .map(([method]) => `${method} ${path}`),
  )
}

/** What an administrator asks about the agent of this handle: a path below her name, and a body. */
type Asking = (agent: string) => [target: string, json: object]

describe('An act on a membership that ends or narrows a grant', () => {
  const stand = startedOnce(() => startMembershipStand())
  const agreement = async (): Promise<Record<string, unknown>> => stand.agreeing(await stand.invited())
  const asMember = async (): Promise<void> => {
    if ((await stand.own('GET')).body.enrolled !== true) await stand.own('POST', '', await agreement())
  }
  const asNobody = async (): Promise<void> => {
    await stand.own('DELETE')
  }

  it.each<[string, (stand: MembershipStand) => Promise<void>, () => Promise<Reply>]>([
    ['joins', asNobody, async () => stand.own('POST', '', await agreement())],
    [
      'agrees again',
      asMember,
      async () => {
        const { charter_version, binds_s256 } = (await stand.own('GET')).body
        return stand.own('POST', '', { agreed: true, charter_version, binds_s256 })
      },
    ],
    ['leaves', asMember, () => stand.own('DELETE')],
  ])('answers how long it waited and for whom if she %s', async (_act, before, act) => {
    await before(stand)
    const holder = await holding(stand.authority, 'alice')
    const { status, body } = await act()
    expect([status, body.leases]).toEqual([200, LEASES])
    expect(holder.asked()).toBe(1)
  })

  it.each<[string, Asking]>([
    ['ends the reach of an agent', agent => ['/connections/revoke', { handle: agent }]],
    ['blocks an operator', () => ['/operators/block', { origin: ORIGIN }]],
  ])(
    'tells an administrator who %s how long it waited, and nothing of her sidecars',
    async (_act, calling) => {
      await asMember()
      const agent = testAgent(stand.authority, { client_id: `${ORIGIN}/client.json` })
      await agent.granted('portfolio_read')
      const [target, json] = calling(agent.handle)
      const holder = await holding(stand.authority, 'alice')
      const { status, body } = await askAdmin(stand, { target, json })
      expect([status, body.leases]).toEqual([200, { waited_ms: expect.any(Number) }])
      expect(holder.asked()).toBe(1)
    },
  )
})

describe('An act on a joint account that ends a grant', () => {
  const stand = startedOnce(() => startJointStand())

  it('answers how long it waited and for whom if she stops being a holder', async () => {
    expect((await stand.agreed()).status).toBe(200)
    const holder = await holding(stand.authority, 'bea')
    const { status, body } = await stand.own('DELETE', `/${ACCOUNT}`)
    expect([status, body]).toEqual([200, { left: ACCOUNT, leases: LEASES }])
    expect(holder.asked()).toBe(1)
  })
})

describe('An act of the operator of an authority that ends every grant of an owner', () => {
  const olga = importPrivateJwk(generatePrivateJwk())
  const stand = startedOnce(async () => {
    const authority = await startTestAuthority({ owners: ['alice', 'bea'] })
    const folder = mkdtempSync(join(tmpdir(), 'usher-ending-acts-'))
    const file = join(folder, 'administrators.yaml')
    writeFileSync(file, stringify({ administrators: [{ name: 'Olga', device_keys: [publicJwk(olga)] }] }))
    const environment = {
      ...authority.environment,
      UMA_AS_ADMIN_LISTEN: '127.0.0.1:0',
      UMA_AS_ADMINISTRATORS: file,
      UMA_AS_ARCHIVES: join(folder, 'archives'),
    }
    const running = await startAuthority(readAuthorityConfig(environment), { onUndeclared })
    const ask = (call: OwnerCall): Promise<Reply> =>
      exchange(prepare(`http://${running.adminAddress}`, authority.issuer, { key: olga }, call))
    return {
      authority,
      ask,
      close: async () => {
        await running.close()
        await authority.close()
        rmSync(folder, { recursive: true })
      },
    }
  })

  it.each<[string, string, number, OwnerCall]>([
    ['suspends her', 'alice', 200, post('/admin/owners/alice/suspend', {})],
    ['removes her', 'bea', 202, { method: 'DELETE', target: '/admin/owners/bea' }],
  ])('answers how long it waited and for whom if it %s', async (_act, owner, expected, call) => {
    const holder = await holdLease(stand.authority, { owner })
    const { status, body } = await stand.ask(call)
    expect([status, body.leases]).toEqual([expected, LEASES])
    expect(holder.asked()).toBe(1)
    holder.drop()
    await holder.ended
  })
})
