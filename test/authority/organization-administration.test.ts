/**
 * What administrators of an organization may do at a member's authority: contract, "Organization membership,
 * on the member's authorization server" (`/org/admin/{owner}/...`), "Policy vocabulary and tiers" (an
 * administrator's decision never counts as the owner's own approval).
 */
import { describe, expect, it } from 'vitest'
import { exchange, startTestAuthority } from '../support/authority.ts'
import { row } from '../support/contract-row.ts'
import { startMembershipStand } from '../support/membership.ts'
import { askAdmin, prepareAdmin, type AdminCall } from '../support/organization-admin.ts'
import * as seed from '../support/seed.ts'
import { startedForEach } from '../support/started.ts'
import { decide, pendingAt, protectionCall, testAgent, type TestAgent } from '../support/test-agent.ts'
import { until } from '../support/until.ts'
import { dueAtOnce } from '../support/due.ts'

const stand = startedForEach(async () => {
  const started = await startMembershipStand({ authority: { owners: ['alice', 'bea'] } })
  const { status, text } = await started.joined()
  if (status !== 200) throw new Error(text)
  return started
})

const get = (target: string) => askAdmin(stand, { target })
const post = (target: string, json: object, call: Partial<AdminCall> = {}) =>
  askAdmin(stand, { target, json, ...call })
const own = (method: 'GET' | 'POST' | 'PUT', target: string, json?: object) =>
  stand.authority.call(stand.alice, { method, target, ...(json && { json }) })
const introspect = async (rpt: string) => {
  const { body } = await protectionCall(stand.authority, '/introspect', { token: rpt })
  return body.active === true ? 'active' : (body.reason as string)
}
/** Asks, and is held: the family that waits, and the ticket to go on with. */
const waits = async (agent: TestAgent, tool: Parameters<TestAgent['ask']>[0] = 'portfolio_read') => {
  const { body } = await agent.ask(tool)
  expect(body.error).toBe('request_submitted')
  const item = (await pendingAt(stand.authority)).find(({ handle }) => handle === agent.handle)!
  return { family: item.family, ticket: body.ticket as string }
}
const decision = (family: string, word: 'approved' | 'denied') =>
  post(`/pending/${family}/decision`, { decision: word })
const connection = async ({ handle }: TestAgent) => {
  const { body } = await own('GET', '/owner/connections')
  return (body as Record<string, unknown>[]).find(one => one['handle'] === handle)
}
const last = async (kind: string) => {
  const { body } = await own('GET', `/owner/ledger?kind=${kind}&first=newest&limit=1`)
  return body.entries[0] as Record<string, unknown>
}
const ACTOR = { kind: 'organization', org: 'acme', name: 'Acme', admin: 'ines' }
/** An agent that an administrator let in, with its grant. */
const admitted = async () => {
  const agent = testAgent(stand.authority)
  const { family, ticket } = await waits(agent)
  expect((await decision(family, 'approved')).status).toBe(200)
  const { body } = await agent.present(ticket)
  return { agent, rpt: body.access_token as string }
}
/** Makes the resource one that takes only what she signs. */
const takesSignedOnly = (resource_id: string) =>
  stand.authority.database.pool.query("UPDATE resources SET approval = 'signed' WHERE resource_id = $1", [
    resource_id,
  ])
const TIER = { ask_me: true, rules: [{ when: ['standing.never_revoked'], then: 'auto' }] }
const OPERATION = { operation: { tool: 'portfolio_read', params: {} } }

describe('An administrator of her organization', () => {
  it('approves nothing of a resource that takes only what she signs, and may deny it', async () => {
    const { family } = await waits(testAgent(stand.authority))
    await takesSignedOnly('alice/portfolio')
    expect(await decision(family, 'approved')).toMatchObject({
      status: 409,
      body: { error: 'signature_required' },
    })
    expect((await decision(family, 'denied')).status).toBe(200)
  })

  row('organization-admin', async () => {
    const agent = testAgent(stand.authority)
    const { family, ticket } = await waits(agent)
    const reply = await decision(family, 'approved')
    expect([reply.status, reply.body]).toEqual([
      200,
      { family, decision: 'approved', by: 'administrator', actor: ACTOR },
    ])
    expect((await agent.present(ticket)).status).toBe(200)
    expect(await last('approved')).toMatchObject({ family, by: 'administrator', actor: ACTOR })
    const { rows } = await stand.authority.database.pool.query<{ data: object }>(
      "SELECT data FROM events WHERE event = 'decided'",
    )
    expect(rows.at(-1)?.data).toMatchObject({ family, decision: 'approved', actor: ACTOR })
    // He does not see another agent's request for what is hers alone.
    const hers = await waits(testAgent(stand.authority), 'statement_read')
    const unknown = `${hers.family.slice(0, -1)}${hers.family.endsWith('0') ? '1' : '0'}`
    const [refused, nobodys] = [await decision(hers.family, 'denied'), await decision(unknown, 'denied')]
    expect([refused.status, refused.text]).toEqual([404, nobodys.text])
  })

  it('may deny, and she who comes second is told who did', async () => {
    const agent = testAgent(stand.authority)
    const { family, ticket } = await waits(agent)
    expect((await decision(family, 'denied')).body.decision).toBe('denied')
    const second = await own('POST', `/owner/pending/${family}/decision`, { decision: 'approved' })
    expect([second.status, second.body.by, second.body.actor]).toEqual([409, 'administrator', ACTOR])
    const { status, body } = await agent.present(ticket)
    expect([status, body.error_description]).toEqual([403, expect.stringContaining('administrator')])
  })

  it('who comes second is told that she did, and not by which of her credentials', async () => {
    const { family } = await waits(testAgent(stand.authority))
    await own('POST', `/owner/pending/${family}/decision`, { decision: 'denied' })
    const { status, body, text } = await decision(family, 'approved')
    expect([status, body.decision, body.by, body.actor]).toEqual([409, 'denied', 'owner', { kind: 'owner' }])
    expect(text).not.toContain(stand.alice.key.thumbprint)
  })

  it('may do only what she left him, and deny always; what she took away cannot be added', async () => {
    const { agent } = await admitted()
    const put = (administrators_may: string[]) => own('PUT', '/owner/organization', { administrators_may })
    expect((await put([])).status).toBe(200)
    expect((await put(['approve'])).status).toBe(400)
    const { family } = await waits(testAgent(stand.authority))
    const { handle } = agent
    const origin = 'https://bots.example'
    const refused = [
      await decision(family, 'approved'),
      await post('/connections/revoke', { handle }),
      await post('/connections/restore', { handle }),
      await post('/operators/block', { origin }),
      await post('/operators/unblock', { origin }),
    ]
    expect(refused.map(({ status, body }) => [status, body.reason])).toEqual(
      refused.map(() => [403, 'not_permitted']),
    )
    expect((await decision(family, 'denied')).status).toBe(200)
  })

  it('approves nothing that her own tier refuses, nor an agent that she ended or whose operator she blocked', async () => {
    const ended = testAgent(stand.authority)
    await ended.granted()
    await own('POST', '/owner/connections/revoke', { handle: ended.handle })
    const again = await waits(ended)
    const stranger = await waits(testAgent(stand.authority))
    const rules = [{ when: ['standing.none'], then: 'refuse' }]
    const db = stand.authority.database.pool
    await db.query('UPDATE tiers SET rules = $1 WHERE tier_id = $2', [JSON.stringify(rules), 'reading'])
    for (const { family } of [again, stranger]) {
      const { status, body } = await decision(family, 'approved')
      expect([status, body.reason]).toEqual([403, 'owner_only'])
      expect((await decision(family, 'denied')).status).toBe(200)
    }
  })

  it('approves nothing that her own tier refuses as beyond an allowance of hers', async () => {
    const rulesAre = (when: string, then: string) =>
      stand.authority.database.pool.query('UPDATE tiers SET rules = $1 WHERE tier_id = $2', [
        JSON.stringify([{ when: [when], then }]),
        'reading',
      ])
    const known = testAgent(stand.authority)
    await known.granted()
    await rulesAre('standing.never_revoked', 'ask')
    const { family } = await waits(known)
    await rulesAre('operation.beyond:trades', 'refuse')
    const { status, body } = await decision(family, 'approved')
    expect([status, body.reason]).toEqual([403, 'owner_only'])
  })

  it('reaching for what a later charter claims, to which she has not agreed, is refused as not agreed', async () => {
    await stand.publish({ claims: ['alice/portfolio', 'alice/trades', 'alice/account', 'alice/statements'] })
    await dueAtOnce(stand.authority.database, 'view')
    await until(async () => (await own('GET', '/owner/organization')).body.waiting !== null)
    const { family } = await waits(testAgent(stand.authority), 'statement_read')
    const { status, body } = await decision(family, 'denied')
    expect([status, body.reason]).toEqual([403, 'not_agreed'])
    expect((await get('/pending')).body).toEqual([])
  })
})

describe('An agent that an administrator let in', () => {
  row('rule-administrator-is-not-owner', async () => {
    const { agent } = await admitted()
    expect(await connection(agent)).toMatchObject({
      status: 'active',
      reach: 'organization',
      tiers_approved: [],
    })
    // Where she lets in whoever she approved before, she is asked all the same.
    await own('PUT', '/owner/policies/reading', {
      ask_me: true,
      rules: [{ when: ['standing.approved_at_tier'], then: 'auto' }],
    })
    expect((await agent.ask('portfolio_read', OPERATION)).body).toMatchObject({
      error: 'request_submitted',
      kind: 'operation',
    })
  })

  it('is a stranger to what is hers alone, until she herself approves it there', async () => {
    const { agent } = await admitted()
    const { ticket } = await waits(agent, 'statement_read')
    const [item] = await pendingAt(stand.authority)
    expect(item).toMatchObject({ kind: 'connection', resource_id: 'alice/statements' })
    await decide(stand.authority, agent.handle, 'approved')
    expect((await agent.present(ticket)).status).toBe(200)
    expect(await connection(agent)).toMatchObject({ reach: null })
  })

  it('satisfies no condition that would relax', async () => {
    const { agent } = await admitted()
    const known = testAgent(stand.authority)
    await known.granted('statement_read')
    const saved = await own('PUT', '/owner/policies/reading', TIER)
    expect(saved.status).toBe(200)
    expect((await agent.ask('portfolio_read', OPERATION)).body.error).toBe('request_submitted')
    expect((await known.ask('portfolio_read', OPERATION)).status).toBe(200)
  })

  it('ends with the membership, and so does what he approved and is not collected', async () => {
    const { agent, rpt } = await admitted()
    const late = testAgent(stand.authority)
    const { family, ticket } = await waits(late)
    await decision(family, 'approved')
    const known = testAgent(stand.authority)
    await known.granted('statement_read')
    await stand.own('DELETE')
    expect(await introspect(rpt)).not.toBe('active')
    expect((await late.present(ticket)).status).toBe(403)
    expect(await connection(agent)).toMatchObject({ status: 'revoked', revocations: 0 })
    expect(await connection(late)).toMatchObject({ status: 'revoked' })
    expect(await connection(known)).toMatchObject({ status: 'active' })
    await stand.joined()
    expect((await agent.ask()).body).toMatchObject({ error: 'request_submitted', kind: 'connection' })
  })
})

describe('Ending the reach of an agent', () => {
  it('ends its grants on what is governed and leaves her own, and giving it back revives none', async () => {
    const agent = testAgent(stand.authority)
    const mine = await agent.granted('statement_read')
    const { rpt } = await agent.granted()
    const { handle } = agent
    const reply = await post('/connections/revoke', { handle })
    expect([reply.status, reply.body]).toEqual([200, { handle, revoked: true }])
    expect([await introspect(rpt), await introspect(mine.rpt)]).toEqual(['organization_revoked', 'active'])
    expect(await last('org_acted')).toMatchObject({
      what: 'revoked',
      handle,
      by: 'administrator',
      actor: ACTOR,
    })
    const refused = await agent.ask()
    expect([refused.status, refused.body.error]).toEqual([403, 'request_denied'])
    expect((await agent.granted('statement_read')).rpt).toBeTypeOf('string')
    expect((await get('/connections')).body).toMatchObject([{ handle, status: 'revoked' }])
    expect((await post('/connections/restore', { handle })).body).toEqual({ handle, revoked: false })
    expect(await introspect(rpt)).toBe('organization_revoked')
    expect((await agent.ask()).status).toBe(200)
    const { body } = await get('/ledger')
    expect(body.entries.filter(({ kind }: { kind: string }) => kind === 'org_acted')).toHaveLength(2)
  })

  it('of an operator ends those of all its agents, even if the agreement named none', async () => {
    const origin = 'https://bots.example'
    const agent = testAgent(stand.authority)
    const { db } = stand.authority.database
    await seed.seedConnection(db, stand.alice.owner, agent.handle, { operator: origin })
    const pool = stand.authority.database.pool
    await pool.query('INSERT INTO operators (owner, origin) VALUES ($1, $2)', ['alice', origin])
    const { rpt } = await agent.granted()
    const mine = await agent.granted('statement_read')
    expect((await get('/operators')).body).toEqual([{ origin, agents: 1, blocked: false }])
    expect((await post('/operators/block', { origin })).body).toEqual({ origin, blocked: true })
    expect([await introspect(rpt), await introspect(mine.rpt)]).toEqual(['organization_revoked', 'active'])
    expect((await agent.ask()).status).toBe(403)
    expect((await get('/operators')).body).toMatchObject([{ blocked: true }])
    expect((await post('/operators/unblock', { origin })).body).toEqual({ origin, blocked: false })
    expect(await introspect(rpt)).toBe('organization_revoked')
    expect((await agent.ask()).status).toBe(200)
  })

  it('of one that never reached what is governed is 404, as of one that she does not know', async () => {
    const agent = testAgent(stand.authority)
    await agent.granted('statement_read')
    const nobody = testAgent(stand.authority)
    for (const word of ['revoke', 'restore']) {
      const hers = await post(`/connections/${word}`, { handle: agent.handle })
      const unknown = await post(`/connections/${word}`, { handle: nobody.handle })
      expect([hers.status, hers.text]).toEqual([404, unknown.text])
    }
    for (const word of ['block', 'unblock'])
      expect((await post(`/operators/${word}`, { origin: 'https://nobody.example' })).status).toBe(404)
  })
})

describe('What is another owner’s', () => {
  it('is to an administrator of hers what nobody’s is', async () => {
    const { db } = stand.authority.database
    const handle = seed.name('jkt:')
    const bea = stand.authority.owners['bea']!.owner
    await seed.seedConnection(db, bea, handle, { operator: 'https://beas.example' })
    const { family } = await seed.seedWaiting(db, bea, handle)
    const pairs = [
      [await decision(family, 'denied'), await decision(`${family.slice(0, -2)}zz`, 'denied')],
      [
        await post('/connections/revoke', { handle }),
        await post('/connections/revoke', { handle: seed.name('jkt:') }),
      ],
      [
        await post('/operators/block', { origin: 'https://beas.example' }),
        await post('/operators/block', { origin: 'https://nobodys.example' }),
      ],
    ] as const
    for (const [theirs, nobodys] of pairs) expect([theirs.status, theirs.text]).toEqual([404, nobodys.text])
    const { rows } = await stand.authority.database.pool.query<{ decision: unknown }>(
      'SELECT decision FROM families WHERE owner = $1',
      [bea],
    )
    expect(rows).toEqual([{ decision: null }])
  })
})

describe('A token that writes', () => {
  it('is for its bytes alone, and good once, at any replica', async () => {
    const agent = testAgent(stand.authority)
    await agent.granted()
    const json = { handle: agent.handle }
    const prepared = await prepareAdmin(stand, { target: '/connections/revoke', json })
    expect((await exchange({ ...prepared, body: JSON.stringify({ ...json }) + ' ' })).status).toBe(401)
    expect((await exchange({ ...prepared, body: undefined })).status).toBe(401)
    const unbound = await post('/connections/revoke', json, { claims: { body_s256: undefined } })
    expect(unbound.status).toBe(401)
    const beside = await startTestAuthority({
      beside: stand.authority,
      environment: { UMA_AS_OWNER_URL: stand.authority.ownerUrl, UMA_AS_LISTEN: '127.0.0.1:0' },
    })
    const at = [stand.authority.ownerUrl, beside.ownerUrl]
    const there = prepared.url.slice(stand.authority.ownerUrl.length)
    const replies = await Promise.all(
      Array.from({ length: 32 }, (_, n) => exchange({ ...prepared, url: at[n % 2]! + there })),
    )
    await beside.close()
    expect(replies.map(({ status }) => status).sort()).toEqual([200, ...Array<number>(31).fill(409)])
    const { rows } = await stand.authority.database.pool.query<{ org_epoch: number }>(
      'SELECT org_epoch FROM connections WHERE handle = $1',
      [agent.handle],
    )
    expect(rows).toEqual([{ org_epoch: 1 }])
  })
})

describe('She and an administrator at one time', () => {
  it('decide once: whoever is first has decided, and the other is told', async () => {
    for (let round = 0; round < 4; round++) {
      const { family } = await waits(testAgent(stand.authority))
      const hers = () => own('POST', `/owner/pending/${family}/decision`, { decision: 'approved' })
      const his = () => decision(family, 'denied')
      const replies = await Promise.all(Array.from({ length: 16 }, (_, n) => (n % 2 === 0 ? hers() : his())))
      const won = replies.filter(({ status }) => status === 200)
      expect(won).toHaveLength(1)
      for (const { status, body } of replies.filter(one => one !== won[0]))
        expect([status, body.decision]).toEqual([409, won[0]!.body.decision])
    }
  })
})
