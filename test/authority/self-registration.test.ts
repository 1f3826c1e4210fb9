/**
 * A sidecar introduces itself to a real authority, from nothing to an allowed call. Contract, "Resource
 * server establishment: POST `/rs/register`", "Registry materialization", "Resource server enforcement point"
 * and "Authorized call".
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { freePorts } from '../../src/dev/stack/ports.ts'
import type { CallParts } from '../enforcement/calls.ts'
import { startTestAuthority, type TestAuthority } from '../support/authority.ts'
import { denialIn } from '../support/check-client.ts'
import { ownSidecar, type OwnSidecar } from '../support/own-sidecar.ts'
import { agePulls, registryOf } from '../support/registry.ts'
import { ageDecision, decideServer } from '../support/resource-server.ts'
import { decide, testAgent, type TestAgent } from '../support/test-agent.ts'
import { until } from '../support/until.ts'

const PORTFOLIO = {
  tool: 'portfolio_read',
  resource_id: 'alice/portfolio',
  scopes: ['read'],
  consequence: 'reversible',
}
const JOURNAL = { tool: 'journal_read', resource_id: 'alice/journal', scopes: ['read'] }

let issuer: string
let broker: OwnSidecar
let authority: TestAuthority
let agent: TestAgent

beforeAll(async () => {
  const [authorityPort, port] = await freePorts(2)
  issuer = `http://127.0.0.1:${authorityPort}`
  broker = ownSidecar({ issuer, port: port! })
  await broker.start([PORTFOLIO])
})
afterAll(async () => {
  await broker.close()
  await authority.close()
})

const check: OwnSidecar['check'] = parts => broker.check(parts)
const denial = async (parts?: CallParts) => denialIn(await check(parts))
const resource = () => broker.resource
const record = async () => {
  const servers = []
  for await (const one of authority.alice.client.resourceServers()) servers.push(one)
  return servers.find(({ client_id }) => client_id === resource())
}
/** The ticket of a challenge, once there is one: a refused PAT is not asked for again at once. */
async function challenged(parts?: CallParts): Promise<string> {
  let said: Record<string, unknown> = {}
  await until(async () => (said = await denial(parts))['status'] === 401)
  return said['ticket'] as string
}
const saidLately = (words: string) => broker.lines.some(line => line.includes(words))
let token: string

describe('A sidecar that registers itself, step by step', () => {
  test('is ready, and serves its documents, before any authority is there', async () => {
    expect(await broker.envoy().health('')).toBe(1)
    for (const path of ['/jwks', '/.well-known/oauth-protected-resource/mcp/alice', '/health'])
      expect((await fetch(new URL(path, broker.resource))).status).toBe(200)
    await until(() => saidLately('not registered yet'))
    expect(await denial()).toMatchObject({ status: 503, error: 'temporarily_unavailable' })
  })

  test('asks until it is heard: then it waits for the owner, under the name it gave', async () => {
    authority = await startTestAuthority({
      environment: {
        UMA_AS_ISSUER: issuer,
        UMA_AS_LISTEN: new URL(issuer).host,
        UMA_DEV_LOOPBACK: 'true',
      },
      provision: ({ owners }) => ({
        owners: owners.map(({ owner, device_keys }) => ({ owner, device_keys })),
      }),
    })
    agent = testAgent(authority)
    await until(async () => (await record()) !== undefined)
    expect(await record()).toMatchObject({ status: 'pending', name: 'The broker', auth: 'signature' })
    await until(() => saidLately('"status":"pending"'))
    expect((await denial())['error_description']).toMatch(/authorization_pending|no protection access token/)
    const { body } = await authority.call(authority.alice, { target: '/owner/resources' })
    expect(body).toEqual([])
  })

  test('once she approves, its listing lands, signed for and asked for by signature', async () => {
    await decideServer(authority, resource(), 'approved')
    await until(async () => (await registryOf(authority, resource()))?.landed_at != null)
    const { body } = await authority.call(authority.alice, { target: '/owner/resources' })
    expect(body).toMatchObject([
      {
        _id: 'alice/portfolio',
        resource_scopes: ['read'],
        consequence: 'reversible',
        tier: null,
        source: 'pulled',
      },
    ])
    await until(async () => {
      const { body: health } = await authority.request('GET', '/health/registry')
      return health.landed === true && health.resource_servers === 1
    })
  })

  test('its calls are challenged with a PAT by signature, and denied while no tier governs', async () => {
    const reply = await agent.present(await challenged())
    expect([reply.status, reply.body.error]).toEqual([403, 'request_denied'])
  })

  test('she writes her terms, the agent signs them, she approves it, and the call is allowed', async () => {
    const saved = await authority.call(authority.alice, {
      method: 'POST',
      target: '/owner/policies',
      json: {
        id: 'reading',
        name: 'Reading',
        resources: ['alice/portfolio'],
        ask_me: false,
        rules: [],
        terms: { purpose: 'Look', scope: ['read'], expires_in: 600, prohibited: [], per_operation: false },
      },
    })
    expect(saved.status).toBe(201)
    const offer = await agent.present(await challenged())
    const template = offer.body.required_claims[0].terms_template
    const asked = await agent.agree({ ticket: offer.body.ticket, template })
    expect(asked.body).toMatchObject({ error: 'request_submitted', kind: 'connection' })
    await decide(authority, agent.handle, 'approved')
    const granted = await agent.present(asked.body.ticket)
    expect(granted.status).toBe(200)
    token = granted.body.access_token
    const allowed = await check({ token, signer: agent.key })
    expect(allowed.status).toEqual({ code: 0 })
    const told = Object.fromEntries(
      allowed.ok_response!.headers!.map(({ header }) => [header?.key, header?.value]),
    )
    expect(told).toMatchObject({ 'x-uma-owner': 'alice', 'x-uma-agent': agent.handle })
  })

  test('a tool that is new after a start is known without anybody: /perm has the listing pulled again', async () => {
    await broker.start([PORTFOLIO, JOURNAL])
    await agePulls(authority, resource())
    await challenged({ tool: 'journal_read' })
    const { body } = await authority.call(authority.alice, { target: '/owner/resources' })
    expect(body).toMatchObject([
      { _id: 'alice/journal', tier: null },
      { _id: 'alice/portfolio', tier: 'reading' },
    ])
    // It registered once more at its start, which changed nothing.
    expect(await record()).toMatchObject({ status: 'active', name: 'The broker' })
    expect((await check({ token, signer: agent.key })).status).toEqual({ code: 0 })
  })

  test('once she withdraws it, not one call passes: it is told nothing any more', async () => {
    await decideServer(authority, resource(), 'revoked')
    expect(await denial({ token, signer: agent.key })).toMatchObject({
      status: 503,
      error: 'temporarily_unavailable',
    })
    expect(await denial()).toMatchObject({ status: 503 })
  })

  test('at its next start, a day later, it asks anew, and what was granted works again only when she lets it back in', async () => {
    await ageDecision(authority, resource())
    await broker.start([PORTFOLIO, JOURNAL])
    await until(async () => (await record())?.status === 'pending')
    expect(await denial({ token, signer: agent.key })).toMatchObject({ status: 503 })
    await decideServer(authority, resource(), 'approved')
    await until(async () => (await check({ token, signer: agent.key })).status?.code === 0)
  })

  test('no log line holds a token, a ticket or a signature', () => {
    expect(broker.lines.join('')).not.toMatch(/~tkt_|eyJ|sig1=/)
  })
})
