/**
 * Whom an organization has vouched for before terms are offered: contract, "need_info answer (beat 2)"
 * (format id-jag), "Permission ticket" (identity before terms).
 */
import { randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { s256 } from '../../src/wire/encoding.ts'
import { ID_JAG } from '../../src/wire/names.ts'
import { startTestAuthority } from '../support/authority.ts'
import { startMembershipStand } from '../support/membership.ts'
import { startRealm, type TestRealm } from '../support/realm.ts'
import { startedOnce } from '../support/started.ts'
import { AGREEMENT_FORMAT, decide, denyAll, testAgent, type TestAgent } from '../support/test-agent.ts'
import { dueAtOnce } from '../support/due.ts'

const SUBJECT = 'p-alice'
const CALLED = 'https://tools.example/mcp/alice'

/** A provider, an organization that names it, and an authority that lists it. */
const stand = startedOnce(async () => {
  const realm = await startRealm()
  const provider = { issuer: realm.issuer, subjects: { alice: SUBJECT } }
  const membership = await startMembershipStand({
    charter: { identity_provider: provider },
    authority: { environment: { UMA_AS_IDENTITY_ISSUERS: realm.issuer } },
  })
  const close = async () => {
    await membership.close()
    await realm.close()
  }
  return { ...membership, realm, provider, close }
})

beforeEach(async () => {
  await stand.publish({ identity_provider: stand.provider })
  await stand.joined()
})
afterEach(async () => {
  await denyAll(stand.authority)
  await stand.own('DELETE')
})

type How = Parameters<TestRealm['sign']>[1]
/** A good assertion for an agent, changed. */
async function assertion(agent: TestAgent, changes: object = {}, how: How = {}): Promise<string> {
  const iat = Math.floor(Date.now() / 1_000)
  const claims = {
    iss: stand.realm.issuer,
    sub: SUBJECT,
    aud: stand.authority.issuer,
    resource: CALLED,
    jti: randomBytes(8).toString('hex'),
    iat,
    exp: iat + 300,
    cnf: { jkt: agent.key.thumbprint },
    ...changes,
  }
  return stand.realm.sign(claims, { ...how, header: { typ: 'oauth-id-jag+jwt', ...how?.header } })
}
const asked = async (agent: TestAgent) => agent.present(await agent.ticket('portfolio_read'))
const answering = (agent: TestAgent, ticket: string, token: string) =>
  agent.present(ticket, { claim_token: token, claim_token_format: ID_JAG })
/** Beats 1 and 2 by an assertion. */
async function offered(agent: TestAgent, token?: string) {
  const { body } = await asked(agent)
  return answering(agent, body.ticket, token ?? (await assertion(agent)))
}
const offerIn = ({ body }: Awaited<ReturnType<typeof offered>>) => ({
  ticket: body.ticket as string,
  template: body.required_claims[0].terms_template,
})
const ledger = async (kind: string) => {
  const { body } = await stand.authority.call(stand.alice, {
    target: `/owner/ledger?kind=${kind}&limit=1000`,
  })
  return body.entries as { reason?: string; identity_assertion?: string }[]
}
const familyOf = async () => {
  const { rows } = await sql<{ family: string; state: string; identity: object | null }>`
    SELECT family, state, identity FROM families ORDER BY opened_at DESC LIMIT 1`.execute(
    stand.authority.database.db,
  )
  return rows[0]!
}

describe('An organization whose charter names an identity provider', () => {
  it('has an identity asserted before terms are offered, and says by whom, to whom and for what', async () => {
    const agent = testAgent(stand.authority)
    const first = await asked(agent)
    const { issuer } = stand.realm
    expect([first.status, first.body.error]).toEqual([403, 'need_info'])
    expect(first.body.required_claims).toEqual([
      {
        claim_type: ID_JAG,
        claim_token_format: [ID_JAG],
        friendly_name: expect.any(String),
        identity_provider: {
          issuer,
          token_endpoint: `${issuer}/token`,
          grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
          requested_token_type: ID_JAG,
          subject_token_types_supported: ['urn:ietf:params:oauth:token-type:id_token'],
        },
        audience: stand.authority.issuer,
        resource: CALLED,
      },
    ])
    const second = await answering(agent, first.body.ticket, await assertion(agent))
    expect([second.status, second.body.error]).toEqual([403, 'need_info'])
    expect(second.body.required_claims[0].claim_token_format).toEqual([AGREEMENT_FORMAT])
    const third = await agent.agree(offerIn(second))
    expect(third.body.error).toBe('request_submitted')
    await decide(stand.authority, agent.handle, 'approved')
    expect((await agent.present(third.body.ticket)).status).toBe(200)
  })

  it.each(['RS256', 'PS256', 'ES256', 'EdDSA'] as const)(
    'takes it bare or as base64url of the JWT, signed by %s, and keeps its digest alone',
    async alg => {
      const agent = testAgent(stand.authority)
      for (const form of [(jwt: string) => jwt, (jwt: string) => Buffer.from(jwt).toString('base64url')]) {
        const jwt = await assertion(agent, {}, { alg })
        const reply = await offered(agent, form(jwt))
        expect(reply.body.error).toBe('need_info')
        const { rows } = await stand.authority.database.pool.query<{ kept: string }>(
          'SELECT f::text || coalesce((SELECT string_agg(l::text, $1) FROM ledger l), $1) AS kept FROM families f ORDER BY opened_at DESC LIMIT 1',
          [''],
        )
        expect(rows[0]!.kept).toContain(s256(jwt))
        for (const part of jwt.split('.').slice(1)) expect(rows[0]!.kept).not.toContain(part)
        await agent.agree(offerIn(reply))
        const promised = await ledger('promised')
        expect(promised.at(-1)).toMatchObject({ identity_assertion: s256(jwt) })
        await denyAll(stand.authority)
      }
    },
  )

  it('asks for nobody at what is hers alone, and nothing is fetched for that', async () => {
    const before = stand.realm.keyFetches()
    const reply = await testAgent(stand.authority).offer('statement_read')
    expect(reply.template).toBeDefined()
    expect(stand.realm.keyFetches()).toBe(before)
  })

  it('asks again for what was not sent, whatever else was, and ends nothing by that', async () => {
    const agent = testAgent(stand.authority)
    const first = await asked(agent)
    const again = await agent.present(first.body.ticket)
    expect(again.body.required_claims).toEqual(first.body.required_claims)
    const early = await agent.present(again.body.ticket, {
      claim_token: 'x',
      claim_token_format: AGREEMENT_FORMAT,
    })
    expect(early.body.required_claims).toEqual(first.body.required_claims)
    const other = await agent.present(early.body.ticket, { claim_token: 'x', claim_token_format: 'other' })
    expect([other.status, other.body.error]).toEqual([400, 'invalid_request'])
    expect(other.body.error_description).toContain(ID_JAG)
    const taken = await answering(agent, other.body.ticket, await assertion(agent))
    expect(taken.body.required_claims[0].terms_template).toBeDefined()
    // Once accepted it is not asked for again, and another one is not looked at.
    const terms = await agent.present(taken.body.ticket)
    expect(terms.body.required_claims[0].terms_template).toBeDefined()
    const late = await answering(agent, terms.body.ticket, await assertion(agent))
    expect([late.status, late.body.error]).toEqual([400, 'invalid_request'])
  })
})

describe('An assertion', () => {
  const now = () => Math.floor(Date.now() / 1_000)
  it.each<[string, (agent: TestAgent) => Promise<string>]>([
    ['of another kind', agent => assertion(agent, {}, { header: { typ: 'at+jwt' } })],
    ['of no kind', agent => assertion(agent, {}, { header: { typ: undefined } })],
    ['by another issuer', agent => assertion(agent, { iss: 'https://idp.example' })],
    ['to another audience', agent => assertion(agent, { aud: 'https://as.elsewhere.example' })],
    [
      'to this and another audience',
      agent => assertion(agent, { aud: [stand.authority.issuer, 'https://as.elsewhere.example'] }),
    ],
    [
      'to this audience twice',
      agent => assertion(agent, { aud: [stand.authority.issuer, stand.authority.issuer] }),
    ],
    ['to nobody', agent => assertion(agent, { aud: undefined })],
    ['of another owner’s subject', agent => assertion(agent, { sub: 'p-bob' })],
    ['of no subject', agent => assertion(agent, { sub: undefined })],
    ['that has expired', agent => assertion(agent, { exp: now() - 1 })],
    ['that never expires', agent => assertion(agent, { exp: undefined })],
    ['that expires in more than 3600 s', agent => assertion(agent, { exp: now() + 3_700 })],
    ['from more than 60 s ahead', agent => assertion(agent, { iat: now() + 90 })],
    ['without iat', agent => assertion(agent, { iat: undefined })],
    ['without jti', agent => assertion(agent, { jti: undefined })],
    ['for another resource', agent => assertion(agent, { resource: 'https://tools.example/mcp/bob' })],
    [
      'for this and another resource',
      agent => assertion(agent, { resource: [CALLED, 'https://tools.example/mcp/bob'] }),
    ],
    ['for an operation that the resource has not', agent => assertion(agent, { scope: 'place_trade' })],
    ['for neither a resource nor an operation', agent => assertion(agent, { resource: undefined })],
    ['bound to no key', agent => assertion(agent, { cnf: undefined })],
    ['bound to what is no thumbprint', agent => assertion(agent, { cnf: { jkt: 'key' } })],
    ['of which an operator has no name', agent => assertion(agent, { client_id: '' })],
    ['signed by nobody', async agent => `${unsigned(await assertion(agent), { alg: 'none' })}.`],
    [
      'signed by nobody under a good name',
      async agent => `${(await assertion(agent)).split('.').slice(0, 2).join('.')}.`,
    ],
    ['under another signature', async agent => `${(await assertion(agent)).slice(0, -20)}${'A'.repeat(20)}`],
    [
      'signed with a public key as a secret',
      async agent => `${unsigned(await assertion(agent), { alg: 'HS256' })}.AAAA`,
    ],
    ['that is none', () => Promise.resolve('x.y.z')],
    ['that is nothing at all', () => Promise.resolve('AA==')],
    ['that is too large', agent => assertion(agent, { beside: 'x'.repeat(40_000) })],
  ])('%s is refused, ends the negotiation, and she is told', async (_what, make) => {
    const agent = testAgent(stand.authority)
    const first = await asked(agent)
    const reply = await answering(agent, first.body.ticket, await make(agent))
    expect([reply.status, reply.body.error, reply.body.reason]).toEqual([
      403,
      'request_denied',
      'invalid_assertion',
    ])
    // Whom she is there is nobody's who does not know.
    expect(reply.text).not.toContain(SUBJECT)
    const { state, identity } = await familyOf()
    expect([state, identity]).toEqual(['denied', null])
    expect((await ledger('identity_refused')).map(({ reason }) => reason)).toContain('invalid_assertion')
  })

  it('for an operation is one that the resource has, which the agreement names if it names any', async () => {
    const { db } = stand.authority.database
    await sql`UPDATE resources SET tools = '{"portfolio_read":null,"portfolio_sum":null}' WHERE resource_id = 'alice/portfolio'`.execute(
      db,
    )
    const agent = testAgent(stand.authority)
    const first = await asked(agent)
    expect(first.body.required_claims[0].scope).toBe('portfolio_read portfolio_sum')
    const scoped = { resource: undefined, scope: 'openid portfolio_read' }
    const offer = offerIn(await offered(agent, await assertion(agent, scoped)))
    expect((await agent.agree(offer, { operation: { tool: 'portfolio_sum' } })).body.error).toBe(
      'request_denied',
    )
    const other = offerIn(await offered(agent, await assertion(agent, scoped)))
    expect((await agent.agree(other, { operation: { tool: 'portfolio_read' } })).body.error).toBe(
      'request_submitted',
    )
    const wrong = await offered(agent, await assertion(agent, { scope: 'openid' }))
    expect(wrong.body.reason).toBe('invalid_assertion')
    await sql`UPDATE resources SET tools = NULL WHERE resource_id = 'alice/portfolio'`.execute(db)
  })

  it('opens one negotiation: presented again, here or at another replica, it is refused', async () => {
    const agent = testAgent(stand.authority)
    const replica = await startTestAuthority({
      beside: stand.authority,
      environment: { UMA_AS_LISTEN: '127.0.0.1:0' },
    })
    const token = await assertion(agent)
    expect((await offered(agent, token)).body.error).toBe('need_info')
    for (const authority of [stand.authority, replica]) {
      const { body } = await asked(agent)
      const again = await answering(testAgent(authority, { key: agent.key }), body.ticket, token)
      expect([again.status, again.body.reason]).toEqual([403, 'invalid_assertion'])
    }
    await replica.close()
  })

  it('that 32 negotiations present at once opens one of them', async () => {
    const agent = testAgent(stand.authority)
    const token = await assertion(agent)
    const tickets = await Promise.all(
      Array.from({ length: 32 }, async () => (await asked(agent)).body.ticket as string),
    )
    const replies = await Promise.all(tickets.map(ticket => answering(agent, ticket, token)))
    const settled = replies.filter(reply => reply.status !== 503)
    expect(settled.filter(reply => reply.body.error === 'need_info')).toHaveLength(1)
  })

  it('is for its key and operator: an agreement of another is refused', async () => {
    const agent = testAgent(stand.authority)
    const thief = testAgent(stand.authority)
    const stolen = offerIn(await offered(agent))
    const refused = await thief.agree(stolen)
    expect([refused.status, refused.body.error]).toEqual([403, 'request_denied'])
    expect((await ledger('identity_refused')).map(({ reason }) => reason)).toContain('not_vouched_for')

    const client_id = 'https://bot.example/client.json'
    const named = await assertion(agent, { client_id })
    expect((await agent.agree(offerIn(await offered(agent, named)))).body.error).toBe('request_denied')
    const unnamed = testAgent(stand.authority, { key: agent.key, client_id })
    expect((await unnamed.agree(offerIn(await offered(unnamed)))).body.error).toBe('request_denied')
    const right = await offered(unnamed, await assertion(agent, { client_id }))
    expect((await unnamed.agree(offerIn(right))).body.error).toBe('request_submitted')
  })
})

describe('Where nobody can be vouched for', () => {
  const denied = async (code: string) => {
    const { status, body } = await asked(testAgent(stand.authority))
    expect([status, body.error]).toEqual([403, 'request_denied'])
    expect(body.error_description).toContain('an identity that nobody can prove')
    expect((await ledger('identity_refused')).map(({ reason }) => reason)).toContain(code)
  }
  const reread = async () => {
    await dueAtOnce(stand.authority.database, 'view')
  }
  const settles = (issuer: string, subject: string | null) =>
    expect.poll(async () => (await stand.own('GET')).body.identity_provider).toEqual({ issuer, subject })

  it('the request is denied: the charter has no entry for her', async () => {
    await stand.publish({ identity_provider: { issuer: stand.realm.issuer, subjects: { bob: 'p-bob' } } })
    await reread()
    await settles(stand.realm.issuer, null)
    await denied('not_vouched_for')
  })

  it('the request is denied: the charter names another provider than she agreed to', async () => {
    await stand.publish({
      identity_provider: { issuer: 'https://idp.example', subjects: { alice: 'mallory' } },
    })
    await reread()
    await settles('https://idp.example', 'mallory')
    await denied('provider_not_agreed')
  })

  it('the request is denied: this server does not list the provider, and asks it nothing', async () => {
    const away = await startRealm()
    await stand.own('DELETE')
    await stand.publish({ identity_provider: { issuer: away.issuer, subjects: { alice: SUBJECT } } })
    await stand.joined()
    await denied('provider_not_listed')
    expect(away.keyFetches()).toBe(0)
    await away.close()
  })

  it('what was accepted from another than is asked for now opens no grant', async () => {
    const agent = testAgent(stand.authority)
    const offer = offerIn(await offered(agent))
    const { rows } = await sql<{ view: object }>`SELECT view FROM memberships`.execute(
      stand.authority.database.db,
    )
    const moved = {
      ...rows[0]!.view,
      identity_provider: { issuer: stand.realm.issuer, subject: 'p-alice-2' },
    }
    await sql`UPDATE memberships SET view = ${JSON.stringify(moved)}`.execute(stand.authority.database.db)
    const reply = await agent.agree(offer)
    expect(reply.body.required_claims[0].claim_token_format).toEqual([ID_JAG])
    const old = await answering(agent, reply.body.ticket, await assertion(agent))
    expect(old.body.reason).toBe('invalid_assertion')
  })
})

describe('A provider that cannot be asked', () => {
  it('is no denial: 503 with a ticket, which goes on when it can', async () => {
    const away = await startRealm()
    const fresh = await startTestAuthority({
      beside: stand.authority,
      environment: { UMA_AS_LISTEN: '127.0.0.1:0', UMA_AS_IDENTITY_ISSUERS: away.issuer },
    })
    await stand.own('DELETE')
    await stand.publish({ identity_provider: { issuer: away.issuer, subjects: { alice: SUBJECT } } })
    await stand.joined()
    const agent = testAgent(fresh)
    const ticket = await agent.ticket('portfolio_read')
    await away.goAway()
    const out = await agent.present(ticket)
    expect([out.status, out.body.error, out.body.ticket]).toEqual([503, 'temporarily_unavailable', ticket])
    expect(out.headers.get('retry-after')).toBe('5')
    await away.comeBack()
    await expect.poll(async () => (await agent.present(ticket)).status, { interval: 500 }).toBe(403)
    await fresh.close()
    await away.close()
  })
})

function unsigned(jwt: string, header: object): string {
  const [, payload] = jwt.split('.')
  const head = Buffer.from(JSON.stringify({ typ: 'oauth-id-jag+jwt', ...header })).toString('base64url')
  return `${head}.${payload}`
}
