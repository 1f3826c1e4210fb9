/**
 * Contract, "Protection API", "Token endpoint" (client_credentials), "Grant (RPT) liveness", "Introspection
 * and consume answers".
 */
import { sql } from 'kysely'
import { describe, expect, it } from 'vitest'
import { signPat, signRpt, readRptClaims } from '../../src/wire/negotiation/tokens.ts'
import { generatePrivateJwk, importPrivateJwk } from '../../src/wire/signatures/keys.ts'
import { deleteTier } from '../../src/storage/authority/policies/tiers.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import { CLIENT_ID } from '../support/authority.ts'
import { decide, protectionCall, testAgent } from '../support/test-agent.ts'
import { asClientId, asOwner } from '../../src/wire/identifiers.ts'
import { authorityStand } from '../support/stands.ts'

const authority = authorityStand({ owners: ['alice', 'bea'] })

const TRADE = { operation: { tool: 'place_trade', params: {} } }
const introspect = (token: string, owner = 'alice') =>
  protectionCall(authority, '/introspect', { token }, owner)
const consume = (token: string, owner = 'alice') => protectionCall(authority, '/consume', { token }, owner)
const tokenRequest = (fields: Record<string, string>, headers: Record<string, string> = {}) =>
  authority.request('POST', '/token', {
    headers: { 'content-type': 'application/x-www-form-urlencoded', ...headers },
    body: new URLSearchParams(fields).toString(),
  })
const credentials = (changes: Record<string, string | undefined> = {}) => {
  const fields = {
    grant_type: 'client_credentials',
    scope: 'uma_protection',
    owner: 'alice',
    client_id: CLIENT_ID,
    client_secret: authority.alice.clientSecret,
    ...changes,
  }
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Record<
    string,
    string
  >
}
const setServer = (status: string) =>
  sql`UPDATE resource_servers SET status = ${status} WHERE owner = 'alice'`.execute(authority.database.db)
const revoke = (handle: string) =>
  authority.call(authority.alice, { method: 'POST', target: '/owner/connections/revoke', json: { handle } })

describe('Token endpoint: client_credentials', () => {
  it('a PAT for the owner that is named, by form or HTTP Basic, form-encoded or JSON', async () => {
    const byForm = await tokenRequest(credentials())
    expect(byForm.status).toBe(200)
    expect(byForm.body).toMatchObject({ token_type: 'Bearer', scope: 'uma_protection', expires_in: 3600 })
    const basic = Buffer.from(`${CLIENT_ID}:${authority.alice.clientSecret}`).toString('base64')
    const byBasic = await tokenRequest(credentials({ client_secret: undefined, client_id: undefined }), {
      authorization: `Basic ${basic}`,
    })
    expect(byBasic.status).toBe(200)
    const byJson = await authority.request('POST', '/token', {
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(credentials()),
    })
    expect(byJson.status).toBe(200)
  })

  it('an unknown owner, an unknown client and a wrong secret are 401 invalid_client, all alike', async () => {
    const replies = await Promise.all([
      tokenRequest(credentials({ owner: 'nobody' })),
      tokenRequest(credentials({ client_id: 'other' })),
      tokenRequest(credentials({ client_secret: 'wrong' })),
      tokenRequest(credentials({ owner: 'bea' })),
    ])
    for (const reply of replies) {
      expect([reply.status, reply.body.error]).toEqual([401, 'invalid_client'])
      expect(reply.text).toBe(replies[0].text)
    }
  })

  it.each([
    ['no owner (there is no default)', { owner: undefined }, 400, 'invalid_request'],
    ['no secret', { client_secret: undefined }, 401, 'invalid_client'],
    ['another scope', { scope: 'openid' }, 400, 'invalid_scope'],
    ['no scope', { scope: undefined }, 400, 'invalid_scope'],
    ['an unknown grant type', { grant_type: 'password' }, 400, 'unsupported_grant_type'],
    ['no grant type', { grant_type: undefined }, 400, 'invalid_request'],
    ['a NUL in the owner', { owner: 'ali\0ce' }, 400, 'invalid_request'],
  ])('%s', async (_, changes, status, error) => {
    const reply = await tokenRequest(credentials(changes))
    expect([reply.status, reply.body.error]).toEqual([status, error])
    expect(reply.headers.get('cache-control')).toBe('no-store')
  })

  it('while pending, 403 authorization_pending; revoked, 403 access_denied', async () => {
    await setServer('pending')
    expect((await tokenRequest(credentials())).body.error).toBe('authorization_pending')
    await setServer('revoked')
    expect((await tokenRequest(credentials())).body.error).toBe('access_denied')
    await setServer('active')
  })
})

describe('Protection API: the PAT', () => {
  const paths = ['/perm', '/introspect', '/consume', '/audit/access']
  const bad = async () => {
    const now = Math.floor(Date.now() / 1000)
    const claims = {
      iss: authority.issuer,
      sub: asOwner('alice'),
      azp: asClientId(CLIENT_ID),
      scope: 'uma_protection',
      jti: 'x',
      iat: now,
      exp: now + 60,
      rs_generation: 1,
    }
    return [
      undefined,
      'Bearer nonsense',
      `Basic ${await authority.pat()}`,
      `Bearer ${signPat(claims, importPrivateJwk(generatePrivateJwk()))}`,
      `Bearer ${await authority.pat()}x`,
    ]
  }
  it.each(paths)('%s without a good PAT is 401 with WWW-Authenticate: Bearer', async path => {
    for (const authorization of await bad()) {
      const reply = await authority.request('POST', path, {
        headers: {
          'content-type': 'application/json',
          ...(authorization === undefined ? {} : { authorization }),
        },
        body: '{}',
      })
      expect([reply.status, reply.body.error]).toEqual([401, 'invalid_token'])
      expect(reply.headers.get('www-authenticate')).toMatch(/^Bearer/)
    }
  })

  it.each(paths)('%s of a withdrawn resource server is 401 at once, its PAT notwithstanding', async path => {
    const pat = await authority.pat()
    const bodies: Record<string, unknown> = {
      '/perm': { resource_id: 'alice/portfolio', resource_scopes: ['read'] },
      '/audit/access': { id: '1', family: 'f', jti: 'j', tool: 't', at: 1 },
    }
    await setServer('revoked')
    const reply = await authority.request('POST', path, {
      headers: { 'content-type': 'application/json', authorization: `Bearer ${pat}` },
      body: JSON.stringify(bodies[path] ?? { token: 'x' }),
    })
    await setServer('active')
    expect([reply.status, reply.body.error]).toEqual([401, 'invalid_token'])
  })
})

describe('A refusal names the member that is wrong, whatever forms the body may have', () => {
  const one = { resource_id: 'alice/portfolio', resource_scopes: ['read'] }
  const used = { id: '1', family: 'f', jti: 'j', tool: 't', at: 1 }
  it.each<[string, unknown, string]>([
    ['/perm', { ...one, resource_id: 7 }, 'resource_id'],
    ['/perm', { resource_scopes: ['read'] }, 'resource_id'],
    ['/perm', [{ ...one, resource_scopes: ['read', 1] }], '[0].resource_scopes[1]'],
    ['/audit/access', { ...used, tool: 5 }, 'tool'],
    ['/audit/access', { family: 'f' }, 'tool'],
    ['/audit/access', { entries: [used, { ...used, at: -1 }] }, 'entries[1].at'],
    ['/audit/access', { instance: 'i', n: 0 }, 'n'],
  ])('%s %j', async (path, body, member) => {
    const reply = await authority.request('POST', path, {
      headers: { 'content-type': 'application/json', authorization: `Bearer ${await authority.pat()}` },
      body: JSON.stringify(body),
    })
    expect([reply.status, reply.body.error]).toEqual([400, 'invalid_request'])
    expect(reply.body.error_description).toContain(`member ${JSON.stringify(member)}`)
  })
})

describe('/perm', () => {
  const one = { resource_id: 'alice/portfolio', resource_scopes: ['read'] }
  it.each<[string, unknown, number, string | undefined]>([
    ['one object is 201 with a ticket', one, 201, undefined],
    ['an array of exactly one too', [one], 201, undefined],
    ['several resources', [one, one], 400, 'invalid_request'],
    ['an empty array', [], 400, 'invalid_request'],
    ['an unregistered resource', { ...one, resource_id: 'alice/none' }, 400, 'invalid_resource_id'],
    ["another owner's resource", { ...one, resource_id: 'bea/portfolio' }, 400, 'invalid_resource_id'],
    ['a NUL in the resource', { ...one, resource_id: 'a\0b' }, 400, 'invalid_resource_id'],
    ['excess scopes', { ...one, resource_scopes: ['read', 'write'] }, 400, 'invalid_scope'],
    ['no scope', { ...one, resource_scopes: [] }, 400, 'invalid_scope'],
    ['scopes of the wrong type', { ...one, resource_scopes: 'read' }, 400, 'invalid_request'],
    ['a missing member', { resource_id: 'alice/portfolio' }, 400, 'invalid_request'],
    ['no object', 'x', 400, 'invalid_request'],
  ])('%s', async (_, body, status, error) => {
    const reply = await protectionCall(authority, '/perm', body)
    expect([reply.status, reply.body.error]).toEqual([status, error])
    if (error !== undefined) expect(reply.body.error_description).toMatch(/\w+ \w+/)
  })

  it('says which scopes her terms offer if it is asked to; none of a resource that no tier governs', async () => {
    const ask = async (body: object) => (await protectionCall(authority, '/perm', body)).body.offered_scopes
    expect(await ask({ ...one, with_offer: true })).toEqual(['read'])
    expect(await ask(one)).toBeUndefined()
    const ungoverned = { resource_id: 'alice/account', resource_scopes: ['close'] }
    expect(await ask({ ...ungoverned, with_offer: true })).toEqual([])
  })

  it('says with them which tier offers them and whether it asks her each time; none if no tier does', async () => {
    const offerOf = async (resource_id: string, scope: string) => {
      const body = { resource_id, resource_scopes: [scope], with_offer: true }
      return (await protectionCall(authority, '/perm', body)).body.offered_by
    }
    expect(await offerOf('alice/portfolio', 'read')).toEqual({ tier: 'reading', ask_me: false })
    expect(await offerOf('alice/trades', 'trade')).toEqual({ tier: 'trading', ask_me: true })
    expect(await offerOf('alice/account', 'close')).toBeUndefined()
  })

  it('tells the family under which the negotiation then stands, which logs are matched by', async () => {
    const { body } = await protectionCall(authority, '/perm', one)
    const offered = await testAgent(authority).present(body.ticket)
    expect(offered.body.required_claims[0].terms_template.family).toBe(body.family)
  })

  it('writes no row, however often it is asked', async () => {
    const count = async () => {
      const { rows } = await sql<{ n: number }>`SELECT count(*)::int AS n FROM families`.execute(
        authority.database.db,
      )
      return rows[0]!.n
    }
    const before = await count()
    await Promise.all(Array.from({ length: 20 }, () => protectionCall(authority, '/perm', one)))
    expect(await count()).toBe(before)
  })
})

describe('Grant (RPT) liveness', () => {
  it('active, with the permissions array and everything a check needs; introspecting never consumes', async () => {
    const agent = testAgent(authority)
    const { rpt } = await agent.granted('place_trade', TRADE)
    const answers = await Promise.all(Array.from({ length: 5 }, () => introspect(rpt)))
    for (const answer of answers) {
      expect(answer.body).toMatchObject({
        active: true,
        iss: authority.issuer,
        sub: agent.handle,
        aud: authority.alice.resourceUri,
        owner: 'alice',
        single_use: true,
        permissions: [{ resource_id: 'alice/trades', resource_scopes: ['trade'] }],
        operation: { tool: 'place_trade' },
        consequence: 'irreversible',
        cnf: { jwk: { x: agent.key.x } },
      })
      expect(answer.headers.get('cache-control')).toBe('no-store')
    }
    expect((await consume(rpt)).body).toMatchObject({ consumed: true })
  })

  it('a spent grant: already_consumed at both', async () => {
    const { rpt } = await testAgent(authority).granted('place_trade', TRADE)
    await consume(rpt)
    expect((await introspect(rpt)).body).toEqual({
      active: false,
      reason: 'already_consumed',
      error: 'already_consumed',
    })
    expect((await consume(rpt)).body).toEqual({ consumed: false, error: 'already_consumed' })
  })

  it('32 consumers of one grant: one gets consumed: true', async () => {
    const { rpt } = await testAgent(authority).granted('place_trade', TRADE)
    const replies = await Promise.all(Array.from({ length: 32 }, () => consume(rpt)))
    expect(replies.filter(reply => reply.body.consumed === true)).toHaveLength(1)
    expect(replies.filter(reply => reply.body.error === 'already_consumed')).toHaveLength(31)
  })

  it('a standing grant is not_single_use, and stays live', async () => {
    const { rpt } = await testAgent(authority).granted()
    expect((await consume(rpt)).body).toEqual({ consumed: false, error: 'not_single_use' })
    expect((await introspect(rpt)).body.active).toBe(true)
  })

  it('after the owner revoked: connection_revoked for every grant ever issued; once admitted again: revoked', async () => {
    const agent = testAgent(authority)
    const rpts = [(await agent.granted()).rpt, (await agent.granted('place_trade', TRADE)).rpt]
    await revoke(agent.handle)
    for (const rpt of rpts) {
      expect((await introspect(rpt)).body.reason).toBe('connection_revoked')
      expect((await consume(rpt)).body).toEqual({ consumed: false, error: 'connection_revoked' })
    }
    await agent.granted()
    for (const rpt of rpts) {
      expect((await introspect(rpt)).body.reason).toBe('revoked')
      expect((await consume(rpt)).body).toEqual({ consumed: false, error: 'revoked' })
    }
  })

  it('expired', async () => {
    const { rpt } = await testAgent(authority).granted('place_trade', TRADE)
    const { jti } = readRptClaims(rpt)
    await sql`UPDATE grants SET expires_at = now() - interval '1 second' WHERE jti = ${jti}`.execute(
      authority.database.db,
    )
    expect((await introspect(rpt)).body.reason).toBe('expired')
    expect((await consume(rpt)).body).toEqual({ consumed: false, error: 'expired' })
  })

  it("a grant over another owner's resources is unknown_token, whatever its state", async () => {
    const { rpt } = await testAgent(authority).granted('place_trade', TRADE)
    expect((await introspect(rpt, 'bea')).body).toEqual({
      active: false,
      reason: 'unknown_token',
      error: 'unknown_token',
    })
    expect((await consume(rpt, 'bea')).body).toEqual({ consumed: false, error: 'unknown_token' })
    await consume(rpt)
    expect((await introspect(rpt, 'bea')).body.reason).toBe('unknown_token')
  })

  it('a grant whose aud is not the recorded resource of the asking server is unknown_token', async () => {
    const { rpt } = await testAgent(authority).granted()
    const set = (uri: string) =>
      sql`UPDATE resource_servers SET resource_uri = ${uri} WHERE owner = 'alice'`.execute(
        authority.database.db,
      )
    await set('https://tools.example/mcp/elsewhere')
    expect((await introspect(rpt)).body.reason).toBe('unknown_token')
    await set(authority.alice.resourceUri)
  })

  it('invalid_signature: a forged RPT, a PAT, and bytes that are no token', async () => {
    const { rpt } = await testAgent(authority).granted()
    const forged = signRpt(readRptClaims(rpt), importPrivateJwk(generatePrivateJwk()))
    for (const token of [forged, await authority.pat(), 'x', 'a.b.c', rpt.slice(0, -4)]) {
      expect((await introspect(token)).body.reason).toBe('invalid_signature')
      expect((await consume(token)).body).toEqual({ consumed: false, error: 'invalid_signature' })
    }
  })

  it('no tier governs the resource any more: revoked', async () => {
    const { rpt } = await testAgent(authority).granted('statement_read')
    await inTransaction(authority.database.db, tx =>
      deleteTier(tx, asOwner('alice'), 'statements', undefined),
    )
    expect((await introspect(rpt)).body.reason).toBe('revoked')
  })
})

describe('Errors: bad input of every endpoint gets a coded 4xx', () => {
  it.each(['/token', '/perm', '/introspect', '/consume', '/audit/access'])('%s', async path => {
    const headers = { authorization: `Bearer ${await authority.pat()}` }
    const send = (type: string, body: string) =>
      authority.request('POST', path, { headers: { ...headers, 'content-type': type }, body })
    const replies = await Promise.all([
      send('application/json', '{'),
      send('application/json', '{"a":1,"a":2}'),
      send('application/json', '{} {}'),
      send('application/json', '\ufeff{}'),
      send('application/json', '['.repeat(100) + ']'.repeat(100)),
      send('application/json', 'null'),
      send('application/json', '7'),
      send('application/x-www-form-urlencoded', 'token=a&token=b'),
      send('application/x-www-form-urlencoded', '%zz'),
      send('text/plain', 'x'),
      send('application/json', JSON.stringify({ token: 'x'.repeat(300_000) })),
    ])
    for (const reply of replies) {
      expect(reply.status, reply.text).toBeGreaterThanOrEqual(400)
      expect(reply.status, reply.text).toBeLessThan(500)
      expect(reply.body.error).toMatch(/^[a-z_]+$/)
      expect(reply.body.error_description).toMatch(/\w+ \w+/)
    }
    expect(replies.at(-2)!.body.error).toBe('unsupported_media_type')
    expect([replies.at(-1)!.status, replies.at(-1)!.body.error]).toEqual([413, 'request_too_large'])
  })
})

describe('Consumption while the queue is decided', () => {
  it('decision against collection: 32 polls of one approval yield one grant', async () => {
    const agent = testAgent(authority)
    const held = await agent.ask()
    await decide(authority, agent.handle, 'approved')
    const replies = await Promise.all(Array.from({ length: 32 }, () => agent.present(held.body.ticket)))
    expect(replies.filter(reply => reply.status === 200)).toHaveLength(1)
    expect(replies.filter(reply => reply.body.error === 'invalid_grant')).toHaveLength(31)
  })
})
