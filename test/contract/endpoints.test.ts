/**
 * Contract, "Endpoints": each row against the started authority and sidecar. Those of owners and of
 * resource servers: owner-endpoints.test.ts, registration.test.ts.
 */
import { request } from 'undici'
import { describe, expect } from 'vitest'
import { signRequest } from '../../src/wire/signatures/http-signature.ts'
import {
  importPrivateJwk,
  generatePrivateJwk,
  parseJwks,
  type PrivateKey,
} from '../../src/wire/signatures/keys.ts'
import { verifyReceipt } from '../../src/wire/negotiation/receipt.ts'
import { verifyPat, verifyRpt } from '../../src/wire/negotiation/tokens.ts'
import type { OwnerCall, Reply } from '../support/authority.ts'
import { row } from '../support/contract-row.ts'
import { startContractStand, TOOLS_URL } from '../support/contract-stand.ts'
import { startedOnce } from '../support/started.ts'
import { decide, protectionCall, testAgent } from '../support/test-agent.ts'
import { until } from '../support/until.ts'

const stand = startedOnce(() => startContractStand())

const TRADE = { operation: { tool: 'place_trade', params: { symbol: 'VTI' } } }
const newAgent = (client_id?: string) =>
  testAgent(stand.authority, client_id === undefined ? {} : { client_id })
const get = (target: string, headers: Record<string, string> = {}) =>
  stand.authority.request('GET', target, { headers })
const own = (target: string, call: Partial<OwnerCall> = {}) =>
  stand.authority.call(stand.authority.alice, { target, ...call })
const answers = ({ status, body }: Reply) => [status, body.error]
const ask = (path: string, body: object) => protectionCall(stand.authority, path, body)

describe("Owner's authorization server: public", () => {
  row('get-agents-configuration', async () => {
    const { issuer } = stand.authority
    expect(await get('/.well-known/agents-configuration')).toMatchObject({
      status: 200,
      body: {
        issuer,
        token_endpoint: `${issuer}/token`,
        jwks_uri: `${issuer}/jwks`,
        rs_registration_endpoint: `${issuer}/rs/register`,
        owner_endpoint: expect.any(String),
        signing_alg_values_supported: expect.arrayContaining(['Ed25519', 'EdDSA']),
        http_message_signature_alg_values_supported: ['ed25519'],
      },
    })
  })

  row('get-jwks', async () => {
    const { status, body } = await get('/jwks')
    expect([status, body.keys.length]).toEqual([200, stand.authority.config.keys.length])
    for (const key of body.keys) {
      expect(key).toMatchObject({ kty: 'OKP', crv: 'Ed25519', alg: 'EdDSA', kid: expect.any(String) })
      expect(key).not.toHaveProperty('d')
    }
    const agent = newAgent()
    const { rpt, receipt } = await agent.granted()
    const keys = parseJwks(body)
    const { issuer } = stand.authority
    const now = Date.now() / 1000
    expect(verifyRpt(rpt, keys, { issuer, now }).sub).toBe(agent.handle)
    expect(verifyReceipt(receipt, keys, { issuer, now }).claims.sub).toBe(agent.handle)
    expect(verifyPat(await stand.authority.pat(), keys, { issuer, now }).sub).toBe('alice')
    // By no other key: what verifies above does so by what is published.
    const strangers = parseJwks({ keys: [importPrivateJwk(generatePrivateJwk()).jwk] })
    expect(() => verifyRpt(rpt, strangers, { issuer, now })).toThrow()
  })

  row('get-terms', async () => {
    const { status, body } = await get('/terms?owner=alice')
    expect([status, body.owner, body.proffered_by]).toEqual([200, 'alice', stand.authority.issuer])
    const ids = (body.terms as { template_id: string }[]).map(({ template_id }) => template_id)
    expect(ids).toEqual(['alice/reading/v1', 'alice/statements/v1', 'alice/trading/v1'])
  })

  row('get-terms-document', async () => {
    const path = '/terms/alice/reading/v1'
    expect((await get(path)).body).toMatchObject({ template_id: 'alice/reading/v1', scope: ['read'] })
    const html = await get(path, { accept: 'text/html' })
    expect(html.headers.get('content-type')).toMatch(/^text\/html/)
    expect(html.text).toContain('For reading only')
    const uri = stand.authority.issuer + path
    const jsonld = await get(`${path}?format=jsonld`)
    expect(jsonld.headers.get('content-type')).toMatch(/^application\/ld\+json/)
    const profile = 'https://u4a.ai/spec/terms/1.0'
    const about = { target: `${uri}#resources` }
    expect(jsonld.body).toEqual({
      '@context': ['http://www.w3.org/ns/odrl.jsonld', expect.any(Object)],
      '@type': 'Offer',
      uid: uri,
      profile,
      conflict: 'prohibit',
      assigner: `${stand.authority.issuer}/terms?owner=alice`,
      description: expect.any(String),
      permission: [
        {
          ...about,
          action: `${profile}#scope:read`,
          description: 'read',
          constraint: [
            { leftOperand: 'purpose', operator: 'eq', rightOperand: 'For reading only' },
            {
              leftOperand: 'elapsedTime',
              operator: 'lteq',
              rightOperand: { '@value': 'PT3600S', '@type': 'xsd:duration' },
            },
          ],
        },
      ],
      prohibition: [
        {
          ...about,
          action: `${profile}#prohibited:${encodeURIComponent('training models on it')}`,
          description: 'training models on it',
        },
      ],
    })
  })
})

describe('Token endpoint', () => {
  row('token-uma-ticket', async () => {
    const agent = newAgent()
    const offer = await agent.offer()
    const held = await agent.agree(offer)
    expect(answers(held)).toEqual([403, 'request_submitted'])
    await decide(stand.authority, agent.handle, 'approved')
    expect(await agent.present(held.body.ticket)).toMatchObject({
      status: 200,
      body: { token_type: 'PoP', access_token: expect.any(String), receipt: expect.any(String) },
    })
    expect(answers(await agent.ask('portfolio_read', { purpose: 'another' }))).toEqual([
      403,
      'request_denied',
    ])
    const { ticket } = await agent.offer()
    expect(answers(await agent.present(ticket, { decline: 'true' }))).toEqual([403, 'request_denied'])
  })

  row('token-client-credentials', async () => {
    const ask = (changes: object) =>
      stand.authority.request('POST', '/token', {
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({
          grant_type: 'client_credentials',
          scope: 'uma_protection',
          owner: 'alice',
          client_id: 'demo-tools',
          client_secret: stand.authority.alice.clientSecret,
          ...changes,
        }),
      })
    const { status, body } = await ask({})
    expect([status, body.token_type, body.scope]).toEqual([200, 'Bearer', 'uma_protection'])
    expect(JSON.parse(Buffer.from(body.access_token.split('.')[1], 'base64url').toString())).toMatchObject({
      sub: 'alice',
      azp: 'demo-tools',
    })
    expect(answers(await ask({ owner: undefined }))).toEqual([400, 'invalid_request'])
  })
})

describe('Protection API', () => {
  row('post-introspect', async () => {
    const { rpt } = await newAgent().granted('place_trade', TRADE)
    for (const _ of [1, 2])
      expect((await ask('/introspect', { token: rpt })).body).toMatchObject({
        active: true,
        permissions: [{ resource_id: 'alice/trades', resource_scopes: ['trade'] }],
      })
    expect((await ask('/consume', { token: rpt })).body).toMatchObject({ consumed: true })
  })

  row('post-consume', async () => {
    const { rpt } = await newAgent().granted('place_trade', TRADE)
    const all = await Promise.all(Array.from({ length: 16 }, () => ask('/consume', { token: rpt })))
    expect(all.filter(({ body }) => body.consumed === true)).toHaveLength(1)
    expect(all.filter(({ body }) => body.error === 'already_consumed')).toHaveLength(15)
  })

  row('post-audit-access', async () => {
    const agent = newAgent()
    const { rpt } = await agent.granted()
    const { jti, family } = (await ask('/introspect', { token: rpt })).body.active
      ? JSON.parse(Buffer.from(rpt.split('.')[1]!, 'base64url').toString())
      : {}
    const id = `call-${jti}`
    const report = { id, family, jti, tool: 'portfolio_read', summary: 's256:x', at: 1_700_000_000 }
    expect((await ask('/audit/access', report)).body).toEqual({ recorded: 1 })
    expect((await ask('/audit/access', report)).body).toEqual({ recorded: 0 })
    const touched = async () => (await own('/owner/ledger?kind=touched&limit=1000')).body.entries as object[]
    await until(async () => (await touched()).length > 0)
    expect(await touched()).toContainEqual(
      expect.objectContaining({ kind: 'touched', family, handle: agent.handle }),
    )
  })
})

describe('Resource server enforcement point', () => {
  const read = async (path: string, headers: Record<string, string> = {}) => {
    const answer = await request(`http://${stand.sidecar.httpAddress}${path}`, { headers })
    return { status: answer.statusCode, body: (await answer.body.json()) as Record<string, unknown> }
  }

  row('sidecar-metadata', async () => {
    const wellKnown = '/.well-known/oauth-protected-resource'
    const { body } = await read(`${wellKnown}/mcp/alice`)
    expect(body).toMatchObject({
      resource: `${TOOLS_URL}/mcp/alice`,
      authorization_servers: [stand.authority.issuer],
      jwks_uri: `${TOOLS_URL}/jwks`,
      signed_metadata: expect.any(String),
      tool_surfaces: expect.arrayContaining([
        { tool: 'portfolio_read', resource_scopes: ['read'], consequence: 'reversible' },
      ]),
    })
    expect(JSON.stringify(body)).not.toContain('alice/portfolio')
    for (const path of [wellKnown, `${wellKnown}/mcp`])
      expect(await read(path)).toMatchObject({ status: 200, body: { resource: `${TOOLS_URL}/mcp` } })
    expect((await read(`${wellKnown}/mcp/nobody`)).status).toBe(404)
  })

  row('sidecar-jwks', async () => {
    const { status, body } = await read('/jwks')
    expect([status, (body['keys'] as object[]).length]).toEqual([200, 1])
  })

  const query = (key: PrivateKey) => ({
    ...signRequest(
      {
        method: 'GET',
        scheme: 'https',
        authority: new URL(TOOLS_URL).host,
        path: '/owner-resources/alice',
        headers: new Map(),
      },
      key,
      { components: ['@method', '@authority', '@path'], created: Math.floor(Date.now() / 1000) },
    ),
  })

  row('sidecar-owner-resources', async () => {
    const mine = await read('/owner-resources/alice', query(stand.authority.config.keys[0]!))
    expect(mine).toMatchObject({ status: 200, body: { owner: 'alice' } })
    expect(mine.body['resources']).toContainEqual(expect.objectContaining({ _id: 'alice/portfolio' }))
    const stranger = importPrivateJwk(generatePrivateJwk())
    expect((await read('/owner-resources/alice', query(stranger))).status).toBe(401)
    expect((await read('/owner-resources/alice')).status).toBe(401)
    // Another owner's authority proves itself, and is told that there is nothing of its own here.
    expect((await read('/owner-resources/alice', query(stand.carls.key))).status).toBe(404)
  })

  row('sidecar-check', async () => {
    const agent = newAgent()
    const { rpt } = await agent.granted()
    const allowed = await stand.check({ token: rpt, signer: agent.key })
    expect([allowed.status, allowed.answer.status]).toEqual([200, { code: 0 }])
    for (const door of [stand.check, stand.checkHttp]) {
      const challenged = await door({})
      expect([challenged.status, challenged.error]).toEqual([401, 'insufficient_authorization'])
      expect(challenged.challenge).toMatchObject({ as_uri: stand.authority.issuer })
      expect((await door({ token: rpt, signer: agent.key })).status).toBe(200)
      // The path that is judged is the one behind `/check`: another owner's leads to her authority.
      expect((await door({ path: '/mcp/carl' })).challenge).toMatchObject({ as_uri: stand.carls.issuer })
      const stolen = await door({ token: rpt, signer: newAgent().key })
      expect([stolen.status, stolen.error]).toEqual([401, 'invalid_token'])
    }
  })
})

describe('Health', () => {
  row('health', async () => {
    expect(await get('/health')).toMatchObject({ status: 200, body: { status: 'ok' } })
    expect(await own('/health', { sign: false })).toMatchObject({ status: 200, body: { status: 'ok' } })
  })
})

describe('Versioning', () => {
  row('version-no-push-registration', async () => {
    const { body } = await get('/.well-known/uma2-configuration')
    expect(body).not.toHaveProperty('resource_registration_endpoint')
    for (const path of ['/rreg', '/resource_set', '/resources', '/owner-resources'])
      expect(answers(await ask(path, { resource_scopes: ['read'] }))).toEqual([404, 'not_found'])
  })
})
