/**
 * Contract, "Authentication" and the order of an authorized call: each row against the started authority and
 * sidecar.
 */
import { request } from 'undici'
import { afterAll, beforeAll, describe, expect } from 'vitest'
import { signRequest } from '../../src/wire/signatures/http-signature.ts'
import type { PrivateKey } from '../../src/wire/signatures/keys.ts'
import { nowSeconds } from '../enforcement/calls.ts'
import type { OwnerCall, Reply } from '../support/authority.ts'
import { row } from '../support/contract-row.ts'
import { startContractStand, TOOLS_URL, type ContractStand } from '../support/contract-stand.ts'
import { protectionCall, testAgent, type TestAgent } from '../support/test-agent.ts'

let stand: ContractStand
let agent: TestAgent
/** A standing grant of the agent, and what its call looks like. */
let standing: string
beforeAll(async () => {
  stand = await startContractStand()
  agent = testAgent(stand.authority)
  standing = (await agent.granted()).rpt
})
afterAll(() => stand?.close())

const PARAMS = { symbol: 'VTI', qty: 2 }
const TRADE = { operation: { tool: 'place_trade', params: PARAMS } }
const answers = ({ status, body }: Reply) => [status, body.error]
const read = (parts: object = {}) => stand.check({ token: standing, signer: agent.key, ...parts })
const trade = (token: string, parts: object = {}) =>
  stand.check({ token, signer: agent.key, tool: 'place_trade', args: PARAMS, ...parts })
const unspent = async (token: string) =>
  (await protectionCall(stand.authority, '/introspect', { token })).body.active as boolean

describe('Authentication', () => {
  row('auth-agent-token-endpoint', async () => {
    const thief = testAgent(stand.authority)
    // What is signed by another key than the header names proves nobody.
    const forged = await thief.ask('portfolio_read', { header: { jwk: agent.key.jwk } })
    expect(answers(forged)).toEqual([403, 'request_denied'])
    const unsigned = await thief.present((await thief.offer()).ticket)
    expect(answers(unsigned)).toEqual([403, 'need_info'])
    expect((await agent.ask('statement_read')).status).toBe(200)
    // The same key proves possession later, and no other does.
    expect(await read()).toMatchObject({ status: 200 })
    expect(await read({ signer: thief.key })).toMatchObject({ status: 401, error: 'invalid_token' })
  })

  row('auth-agent-resource', async () => {
    for (const offset of [-55, 55])
      expect(await read({ created: nowSeconds() + offset })).toMatchObject({ status: 200 })
    for (const offset of [-65, 65])
      expect(await read({ created: nowSeconds() + offset })).toMatchObject({
        status: 401,
        error: 'invalid_token',
      })
    expect(await read({ expires: nowSeconds() - 2 })).toMatchObject({ status: 401, error: 'invalid_token' })
    expect(await stand.check({ token: standing })).toMatchObject({ status: 401, error: 'invalid_token' })
    const bearer = await read({ token: undefined, authorization: `Bearer ${standing}` })
    expect(bearer).toMatchObject({ status: 401, error: 'insufficient_authorization' })
  })

  row('auth-rs-protection-api', async () => {
    const ask = (path: string, headers: Record<string, string>) =>
      stand.authority.request('POST', path, {
        headers: { 'content-type': 'application/json', ...headers },
        body: JSON.stringify({ token: standing }),
      })
    const pat = await stand.authority.pat()
    expect((await ask('/introspect', { authorization: `Bearer ${pat}` })).body.active).toBe(true)
    for (const path of ['/perm', '/introspect', '/consume', '/audit/access'])
      for (const authorization of [undefined, 'Bearer x', `Bearer ${standing}`, `Basic ${pat}`]) {
        const reply = await ask(path, authorization === undefined ? {} : { authorization })
        expect(answers(reply)).toEqual([401, 'invalid_token'])
        expect(reply.headers.get('www-authenticate')).toMatch(/^Bearer/)
      }
  })

  row('auth-authority-at-resource', async () => {
    const query = (key: PrivateKey, path: string, headers = {}) => {
      const authority = new URL(TOOLS_URL).host
      const signed = signRequest(
        { method: 'GET', scheme: 'https', authority, path, headers: new Map() },
        key,
        { components: ['@method', '@authority', '@path'], created: nowSeconds() },
      )
      return request(`http://${stand.sidecar.httpAddress}/owner-resources/alice`, {
        headers: { ...signed, ...headers },
      })
    }
    const key = stand.authority.config.keys[0]!
    expect((await query(key, '/owner-resources/alice')).statusCode).toBe(200)
    expect((await query(key, '/owner-resources/bea')).statusCode).toBe(401)
    expect((await query(agent.key, '/owner-resources/alice')).statusCode).toBe(401)
  })

  row('auth-owner-replay', async () => {
    const { alice } = stand.authority
    const call: OwnerCall = {
      method: 'POST',
      target: '/owner/operators/block',
      json: { origin: 'https://replayed.example' },
    }
    const prepared = stand.authority.prepare(alice, call)
    expect((await stand.authority.send(prepared)).status).toBe(200)
    expect(answers(await stand.authority.send(prepared))).toEqual([401, 'invalid_credential'])
  })

  row('auth-at-most-once', async () => {
    const { rpt } = await agent.granted('place_trade', TRADE)
    const decisions = await Promise.all(Array.from({ length: 8 }, () => trade(rpt)))
    expect(decisions.filter(({ status }) => status === 200)).toHaveLength(1)
  })

  row('auth-never-transport', async () => {
    for (const headers of [
      { host: ['evil.example'] },
      { 'x-forwarded-host': ['evil.example'], 'x-forwarded-proto': ['http'] },
      { forwarded: ['host=evil.example;proto=http'] },
    ])
      expect(await read({ headers })).toMatchObject({ status: 200 })
    // What was signed for another host does not become right by saying so in a header.
    const elsewhere = { signedAuthority: 'evil.example', headers: { host: ['evil.example'] } }
    expect(await read(elsewhere)).toMatchObject({ status: 401, error: 'invalid_token' })
    const owner = await stand.authority.call(stand.authority.alice, {
      target: '/owner/pending',
      headers: { 'x-forwarded-host': 'evil.example' },
    })
    expect(owner.status).toBe(200)
  })

  row('auth-truncated-body', async () => {
    const { rpt } = await agent.granted('place_trade', TRADE)
    const partial = await trade(rpt, { headers: { 'x-envoy-auth-partial-body': ['true'] } })
    expect(partial).toMatchObject({ status: 413, error: 'request_body_too_large' })
    const shorter = await trade(rpt, { headers: { 'content-length': ['4000'] } })
    expect(shorter).toMatchObject({ status: 413, error: 'request_body_too_large' })
    const absent = await trade(rpt, { body: { state: 'absent' } })
    expect(absent).toMatchObject({ status: 400, error: 'request_body_missing' })
    expect(await unspent(rpt)).toBe(true)
  })

  row('auth-open-formats', async () => {
    const fields = { grant_type: 'client_credentials', scope: 'uma_protection', owner: 'alice' }
    const secret = stand.authority.alice.clientSecret
    const post = (form: Record<string, string>, headers: Record<string, string> = {}) =>
      stand.authority.request('POST', '/token', {
        headers: { 'content-type': 'application/x-www-form-urlencoded', ...headers },
        body: new URLSearchParams({ ...fields, ...form }).toString(),
      })
    const basic = { authorization: `Basic ${Buffer.from(`demo-tools:${secret}`).toString('base64')}` }
    expect((await post({ client_id: 'demo-tools', client_secret: secret })).status).toBe(200)
    expect((await post({}, basic)).status).toBe(200)
    expect(answers(await post({ client_secret: secret }, basic))).toEqual([400, 'invalid_request'])
  })
})

describe('Authorized call', () => {
  row('order-1-introspect', async () => {
    // Everything else about the call is wrong, too, but the first fault that is reported is that the token is
    // no grant.
    const dead = await trade('not.a.grant', { signer: undefined, args: { qty: 3 } })
    expect(dead).toMatchObject({ status: 401, error: 'insufficient_authorization' })
    expect(await read()).toMatchObject({ status: 200 })
  })

  row('order-2-permission', async () => {
    const { rpt } = await agent.granted('place_trade', TRADE)
    // Another tool, and a signature by a stranger: the permission is looked at first.
    const other = await trade(rpt, { tool: 'portfolio_read', signer: testAgent(stand.authority).key })
    expect(other).toMatchObject({ status: 401, error: 'insufficient_authorization' })
    expect(other.challenge).toBeDefined()
    expect(await unspent(rpt)).toBe(true)
  })

  row('order-3-signature', async () => {
    const { rpt } = await agent.granted('place_trade', TRADE)
    const forged = await trade(rpt, { signer: testAgent(stand.authority).key, args: { qty: 3 } })
    expect(forged).toMatchObject({ status: 401, error: 'invalid_token', challenge: undefined })
    expect(await unspent(rpt)).toBe(true)
  })

  row('order-4-operation', async () => {
    const { rpt } = await agent.granted('place_trade', TRADE)
    expect(await trade(rpt, { args: { ...PARAMS, qty: 3 } })).toMatchObject({
      status: 403,
      error: 'operation_mismatch',
    })
    expect(await unspent(rpt)).toBe(true)
    const { rpt: bare } = await agent.granted('place_trade', { operation: 'place_trade' })
    expect(await trade(bare, { args: undefined })).toMatchObject({ status: 200 })
    const { rpt: empty } = await agent.granted('place_trade', { operation: 'place_trade' })
    expect(await trade(empty, { args: {} })).toMatchObject({ status: 200 })
  })

  row('order-5-consume', async () => {
    const { rpt } = await agent.granted('place_trade', TRADE)
    expect(await unspent(rpt)).toBe(true)
    expect(await trade(rpt)).toMatchObject({ status: 200 })
    expect(await unspent(rpt)).toBe(false)
    // A standing grant is never consumed.
    for (const _ of [1, 2, 3]) expect(await read()).toMatchObject({ status: 200 })
  })
})
