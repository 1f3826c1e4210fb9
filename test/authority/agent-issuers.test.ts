/**
 * Contract, "Authentication" (agent-token issuers) and "Connection" (identified): agents that a listed issuer
 * vouches for.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { parseJwks } from '../../src/wire/signatures/keys.ts'
import { verifyRpt } from '../../src/wire/negotiation/tokens.ts'
import { startTestAuthority, type TestAuthority } from '../support/authority.ts'
import * as seed from '../support/seed.ts'
import { newKey, startIssuer, startOperator, type TestIssuer } from '../support/operators.ts'
import { decide, protectionCall, testAgent } from '../support/test-agent.ts'
import { asHandle } from '../../src/wire/identifiers.ts'

let issuer: TestIssuer
let unlisted: TestIssuer
let authority: TestAuthority

beforeAll(async () => {
  ;[issuer, unlisted] = await Promise.all([startIssuer(), startIssuer()])
  authority = await startTestAuthority({
    environment: { UMA_AS_AGENT_ISSUERS: issuer.iss, UMA_DEV_LOOPBACK: 'true' },
  })
})
afterAll(async () => {
  await authority.close()
  await Promise.all([issuer.close(), unlisted.close()])
})

let subjects = 0
const newSubject = () => `agent-${subjects++}`
const get = async (target: string) =>
  (await authority.call(authority.alice, { target })).body as Record<string, unknown>[]
const pendingOf = async (handle: string) =>
  (await get('/owner/pending?limit=1000')).find(item => item['handle'] === handle)
const connectionOf = async (handle: string) =>
  (await get('/owner/connections?limit=1000')).find(connection => connection['handle'] === handle)
const refusals = async () =>
  (await authority.call(authority.alice, { target: '/owner/ledger?kind=identity_refused&limit=1000' })).body
    .entries as Record<string, unknown>[]

/** An identified agent of a listed issuer, with a subject of its own. */
function identified(claims: Record<string, unknown> = {}, from = issuer) {
  const key = newKey()
  return testAgent(authority, { key, identified: from.identify(key, newSubject(), claims) })
}

describe('An identified agent', () => {
  it('has the handle sub@issuer, provenance 1, and a connection of the kind identified', async () => {
    const agent = identified()
    const held = await agent.ask()
    expect(held.body).toMatchObject({ error: 'request_submitted', kind: 'connection' })
    expect(agent.handle).toMatch(/^agent-\d+@127\.0\.0\.1:\d+$/)
    expect(await pendingOf(agent.handle)).toMatchObject({
      identity: { kind: 'identified' },
      assurance: { binding: 1, provenance: 1, accountability: 0 },
      assurance_notes: expect.arrayContaining([`provenance: ${issuer.iss} vouches for the key`]),
    })
    await decide(authority, agent.handle, 'approved')
    expect((await agent.present(held.body.ticket)).status).toBe(200)
    expect(await connectionOf(agent.handle)).toMatchObject({ identity: 'identified', status: 'active' })
  })

  it("is granted an RPT bound to the token's cnf.jwk, which is the key that signed", async () => {
    const agent = identified()
    const { rpt } = await agent.granted()
    const keys = parseJwks((await authority.request('GET', '/jwks')).body)
    expect(verifyRpt(rpt, keys)).toMatchObject({
      sub: agent.handle,
      client_id: agent.handle,
      cnf: { jwk: { x: agent.key.x } },
    })
    expect((await protectionCall(authority, '/introspect', { token: rpt })).body).toMatchObject({
      active: true,
      sub: agent.handle,
      cnf: { jwk: { x: agent.key.x } },
    })
  })

  it('keeps its connection under a new key that its issuer vouches for; the new grant is bound to that one', async () => {
    const agent = identified()
    await agent.granted()
    const key = newKey()
    const [sub] = agent.handle.split('@')
    const rotated = testAgent(authority, { key, identified: issuer.identify(key, sub!) })
    const reply = await rotated.ask('statement_read')
    expect(reply.status).toBe(200)
    const keys = parseJwks((await authority.request('GET', '/jwks')).body)
    expect(verifyRpt(reply.body.access_token, keys).cnf.jwk.x).toBe(key.x)
  })

  it('waits once per key: what one key asked for is never bound to another that shares its handle', async () => {
    const agent = identified()
    await agent.granted()
    const key = newKey()
    const [sub] = agent.handle.split('@')
    const twin = testAgent(authority, { key, identified: issuer.identify(key, sub!) })
    const trade = { operation: { tool: 'place_trade', params: { symbol: 'VTI', qty: 2 } } }
    const asked = [await agent.ask('place_trade', trade), await twin.ask('place_trade', trade)]
    const items = (await get('/owner/pending?limit=1000')).filter(item => item['handle'] === agent.handle)
    expect(items).toHaveLength(2)
    const keys = parseJwks((await authority.request('GET', '/jwks')).body)
    for (const [nth, holder] of [agent, twin].entries()) {
      await decide(authority, agent.handle, 'approved')
      const granted = await holder.present(asked[nth]!.body.ticket)
      expect(verifyRpt(granted.body.access_token, keys).cnf.jwk.x).toBe(holder.key.x)
    }
  })

  it('waits once per key also before its first contact is decided', async () => {
    const [one, two] = [newKey(), newKey()]
    const sub = newSubject()
    const agents = [one, two].map(key => testAgent(authority, { key, identified: issuer.identify(key, sub) }))
    const asked = await Promise.all(agents.map(agent => agent.ask()))
    expect(asked.map(reply => reply.body.kind)).toEqual(['connection', 'connection'])
    const keys = parseJwks((await authority.request('GET', '/jwks')).body)
    for (let n = 0; n < 2; n++) await decide(authority, agents[0]!.handle, 'approved')
    for (const [nth, agent] of agents.entries()) {
      const granted = await agent.present(asked[nth]!.body.ticket)
      expect(verifyRpt(granted.body.access_token, keys).cnf.jwk.x).toBe(agent.key.x)
    }
  })

  it('is another agent than its bare key, and than the same subject of nobody', async () => {
    const agent = identified()
    await agent.granted()
    const bare = testAgent(authority, { key: agent.key })
    expect((await bare.ask()).body).toMatchObject({ kind: 'connection' })
    await decide(authority, bare.handle, 'denied')
  })

  it('is revoked by its handle, which holds the issuer', async () => {
    const agent = identified()
    const { rpt } = await agent.granted()
    const target = '/owner/connections/revoke'
    await authority.call(authority.alice, { method: 'POST', target, json: { handle: agent.handle } })
    expect((await protectionCall(authority, '/introspect', { token: rpt })).body).toMatchObject({
      active: false,
      reason: 'connection_revoked',
    })
  })
})

describe('Nothing is fetched from an issuer that is not listed', () => {
  it.each<[string, () => Record<string, unknown>]>([
    ['not listed', () => ({})],
    ['listed but for a trailing slash', () => ({ iss: `${issuer.iss}/` })],
    ['listed but for its case', () => ({ iss: issuer.iss.replace('https', 'HTTPS') })],
    ['listed, with a path added', () => ({ iss: `${issuer.iss}/tenant` })],
    ['no URL', () => ({ iss: 'issuer' })],
  ])('an agent token of an issuer that is %s is request_denied, before any network', async (_, claims) => {
    const agent = identified(claims(), unlisted)
    const before = [issuer.server.received.length, unlisted.server.received.length]
    const reply = await agent.ask()
    expect([reply.status, reply.body.error]).toEqual([403, 'request_denied'])
    expect(reply.body.error_description).toMatch(/not accepted here/)
    expect([issuer.server.received.length, unlisted.server.received.length]).toEqual(before)
  })

  it('nor from the operator that such an agent names', async () => {
    const operator = await startOperator()
    const key = newKey()
    const agent = testAgent(authority, {
      key,
      client_id: operator.client_id,
      identified: unlisted.identify(key, newSubject()),
    })
    expect((await agent.ask()).body.error).toBe('request_denied')
    expect(operator.server.received).toEqual([])
    await operator.close()
  })

  it('with an empty list no agent token is taken, and a bare key still is', async () => {
    const alone = await startTestAuthority()
    const key = newKey()
    const agent = testAgent(alone, { key, identified: issuer.identify(key, newSubject()) })
    expect((await agent.ask()).body.error_description).toMatch(/sign with a bare key/)
    expect((await testAgent(alone, { key }).ask()).body.error).toBe('request_submitted')
    await alone.close()
  })
})

describe('A failing identity is request_denied', () => {
  it.each<[string, (key: ReturnType<typeof newKey>) => string]>([
    ['expired', key => issuer.token(key, { exp: Math.floor(Date.now() / 1000) - 1 })],
    ['not yet issued', key => issuer.token(key, { iat: Math.floor(Date.now() / 1000) + 120 })],
    ['bound to another key than the one that signs', () => issuer.token(newKey())],
    ['bound to no key', key => issuer.token(key, { cnf: {} })],
    ['signed by a key that its issuer does not publish', key => issuer.token(key, {}, { key: newKey() })],
    ['of another kind', key => issuer.token(key, {}, { typ: 'at+jwt' })],
    ['without dwk', key => issuer.token(key, { dwk: undefined })],
    ['naming itself as its parent', key => issuer.token(key, { sub: 'x', parent_agent: 'x' })],
    ['no JWS', () => 'a.b.c'],
  ])('where the agent token is %s', async (_, token) => {
    const key = newKey()
    const agent = testAgent(authority, {
      key,
      identified: { agent_token: token(key), handle: asHandle('nobody') },
    })
    const reply = await agent.ask()
    expect([reply.status, reply.body.error]).toEqual([403, 'request_denied'])
    expect(reply.body.error_description).toMatch(/\w+ \w+/)
  })

  it('if both jwk and agent_token stand in the header', async () => {
    const agent = identified()
    const reply = await agent.ask('portfolio_read', { header: { jwk: agent.key.jwk } })
    expect([reply.status, reply.body.error]).toEqual([403, 'request_denied'])
  })

  it('counted for a stranger: identity_refused, one row a minute, no handle', async () => {
    const sum = async () =>
      (await refusals())
        .filter(entry => entry['handle'] === undefined && entry['reason'] === 'identity_unverified')
        .reduce((total, entry) => total + Number(entry['count'] ?? 1), 0)
    await seed.closeMinutes(authority.database.db)
    const before = await sum()
    for (let n = 0; n < 3; n++) {
      const key = newKey()
      await testAgent(authority, { key, identified: issuer.identify(newKey(), newSubject()) }).ask()
    }
    await seed.closeMinutes(authority.database.db)
    expect(await sum()).toBe(before + 3)
  })

  it('told of an agent she knows: identity_refused with its handle, said to be a claim, counted by the minute', async () => {
    const agent = identified()
    await agent.granted()
    const [sub] = agent.handle.split('@')
    const thief = () => {
      const key = newKey()
      const stolen = { agent_token: issuer.token(agent.key, { sub }), handle: agent.handle }
      return testAgent(authority, { key, identified: stolen }).ask()
    }
    await Promise.all(Array.from({ length: 8 }, thief))
    await seed.closeMinutes(authority.database.db)
    const told = (await refusals()).filter(entry => entry['handle'] === agent.handle)
    expect(told.reduce((total, entry) => total + Number(entry['count'] ?? 1), 0)).toBe(8)
    // The first of a minute and the rest of it, and the minute may turn once.
    expect(told.length).toBeLessThanOrEqual(4)
    expect(told[0]).toMatchObject({
      reason: 'identity_unverified',
      claimed: true,
      families: [expect.any(String)],
    })
    // A failed proof by another agent does not count against this one.
    expect((await agent.ask('statement_read')).status).toBe(200)
  })
})
