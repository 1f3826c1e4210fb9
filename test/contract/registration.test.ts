/**
 * Contract, "Resource server registration", "Resource server establishment: POST `/rs/register`" and what the
 * owner does about it: each row against the started authority and a started resource server.
 */
import { beforeEach, describe, expect } from 'vitest'
import { freePorts } from '../../src/dev/stack/ports.ts'
import { generatePrivateJwk, importPrivateJwk } from '../../src/wire/signatures/keys.ts'
import type { Reply } from '../support/authority.ts'
import { row } from '../support/contract-row.ts'
import { startContractStand } from '../support/contract-stand.ts'
import { startRegisteringServer, type RegisteringServer } from '../support/registering-server.ts'
import { startedOnce } from '../support/started.ts'
import { callWithPat } from '../support/test-agent.ts'
import { until } from '../support/until.ts'

let server: RegisteringServer
let notes: string
let count = 0
const stand = startedOnce(startContractStand)
// Each row meets a resource server that nobody has heard of yet.
beforeEach(async () => {
  notes = `notes${++count}`
  server = await startRegisteringServer(stand.authority, notes)
  return () => server.close()
})

const thief = importPrivateJwk(generatePrivateJwk())
const own = (method: 'GET' | 'POST', target: string, json?: unknown) =>
  stand.authority.call(stand.authority.alice, { method, target, ...(json === undefined ? {} : { json }) })
const record = async () =>
  ((await own('GET', '/owner/resource-servers')).body as { client_id: string; status: string }[]).find(
    ({ client_id }) => client_id === server.resource,
  )
const decide = (decision: string) =>
  own('POST', '/owner/resource-servers/decision', { client_id: server.resource, decision })
const answers = ({ status, body }: Reply) => [status, body.error ?? body.status]
const withPat = (pat: string, path: string, body: object) => callWithPat(stand.authority, pat, path, body)
const perm = (pat: string) =>
  withPat(pat, '/perm', { resource_id: `alice/${notes}`, resource_scopes: ['read'] })
const approved = async () => {
  await server.register()
  await decide('approved')
  return (await server.askForPat()).body.access_token as string
}

describe('Resource server registration', () => {
  row('rs-registered', async () => {
    expect(await record()).toBeUndefined()
    expect(answers(await server.register())).toEqual([202, 'pending'])
    expect(await record()).toMatchObject({ status: 'pending', auth: 'signature' })
  })

  row('rs-approved', async () => {
    await server.register()
    expect(answers(await server.askForPat())).toEqual([403, 'authorization_pending'])
    expect((await decide('approved')).body).toMatchObject({ status: 'active' })
    expect(await server.askForPat()).toMatchObject({ status: 200, body: { token_type: 'Bearer' } })
  })

  row('rs-withdrawn', async () => {
    const pat = await approved()
    expect((await perm(pat)).status).toBe(201)
    await decide('revoked')
    expect(await record()).toMatchObject({ status: 'revoked' })
    expect(answers(await server.askForPat())).toEqual([403, 'access_denied'])
    const report = { id: 'one', family: 'fam_x', jti: 'rpt_x', tool: 'read_notes', at: 1_700_000_000 }
    for (const reply of [
      await perm(pat),
      await withPat(pat, '/introspect', { token: 'x' }),
      await withPat(pat, '/consume', { token: 'x' }),
      await withPat(pat, '/audit/access', report),
    ])
      expect(answers(reply)).toEqual([401, 'invalid_token'])
  })
})

describe('Resource server establishment', () => {
  row('register-signed', async () => {
    expect(answers(await server.register({}, { unsigned: true }))).toEqual([401, 'invalid_client'])
    expect(answers(await server.register({}, { key: thief }))).toEqual([401, 'invalid_client'])
    expect(await record()).toBeUndefined()
    expect((await server.register()).status).toBe(202)
  })

  row('register-body', async () => {
    expect(answers(await server.register({ name: undefined }))).toEqual([202, 'pending'])
    expect(answers(await server.register({ owner: undefined }))).toEqual([400, 'invalid_request'])
    expect(answers(await server.register({ resource_uri: undefined }))).toEqual([400, 'invalid_request'])
    expect(answers(await server.register({ owner: 'nobody' }))).toEqual([403, 'access_denied'])
  })

  row('register-pending', async () => {
    const reply = await server.register()
    expect([reply.status, reply.body]).toEqual([202, { client_id: server.resource, status: 'pending' }])
  })

  row('register-documents', async () => {
    // Another path of the same server is a resource that it does not describe; bea's authority is not named
    // for alice's.
    const elsewhere = await server.register({ resource_uri: server.resource.replace('alice', 'nobody') })
    expect(answers(elsewhere)).toEqual([400, 'invalid_request'])
    const dead = `http://127.0.0.1:${(await freePorts(1))[0]}/mcp/alice`
    const unreachable = await server.register({ resource_uri: dead })
    expect(answers(unreachable)).toEqual([400, 'invalid_request'])
    for (const { body } of [elsewhere, unreachable]) expect(body.reason).toMatch(/^document_/)
  })

  row('register-owner-decides', async () => {
    await server.register()
    expect(answers(await server.askForPat())).toEqual([403, 'authorization_pending'])
    expect(answers(await server.register())).toEqual([202, 'pending'])
    expect(answers(await server.askForPat())).toEqual([403, 'authorization_pending'])
  })
})

describe('Protection API', () => {
  row('post-perm', async () => {
    const pat = await approved()
    // Nobody has provisioned the resource: it comes from a pull.
    expect(await perm(pat)).toMatchObject({ status: 201, body: { ticket: expect.any(String) } })
    const unknown = { resource_id: 'alice/unheard-of', resource_scopes: ['read'] }
    expect(answers(await withPat(pat, '/perm', unknown))).toEqual([400, 'invalid_resource_id'])
    const excess = { resource_id: `alice/${notes}`, resource_scopes: ['read', 'write'] }
    expect(answers(await withPat(pat, '/perm', excess))).toEqual([400, 'invalid_scope'])
  })
})

describe('Owner API', () => {
  row('owner-resource-servers', async () => {
    await server.register()
    const { body } = await own('GET', '/owner/resource-servers')
    expect(body).toContainEqual(expect.objectContaining({ client_id: 'demo-tools', status: 'active' }))
    expect(await record()).toMatchObject({
      name: 'Notes',
      resource_uri: server.resource,
      status: 'pending',
      decided_at: null,
      last_pat_issued: null,
    })
  })

  row('owner-resource-servers-decision', async () => {
    await server.register()
    expect(await decide('approved')).toMatchObject({ status: 200, body: { status: 'active' } })
    expect(await decide('revoked')).toMatchObject({ status: 200, body: { status: 'revoked' } })
    const unknown = { client_id: 'https://unknown.example/mcp/alice', decision: 'approved' }
    expect(answers(await own('POST', '/owner/resource-servers/decision', unknown))).toEqual([
      404,
      'not_found',
    ])
  })

  row('owner-resource-servers-revoke', async () => {
    const pat = await stand.authority.pat()
    const reply = await own('POST', '/owner/resource-servers/demo-tools/revoke')
    expect(reply).toMatchObject({ status: 200, body: { client_id: 'demo-tools', status: 'revoked' } })
    expect(answers(await withPat(pat, '/introspect', { token: 'x' }))).toEqual([401, 'invalid_token'])
    const back = { client_id: 'demo-tools', decision: 'approved' }
    expect((await own('POST', '/owner/resource-servers/decision', back)).body.status).toBe('active')
  })
})

describe('Authentication', () => {
  row('auth-rs-token-endpoint', async () => {
    await approved()
    const secret = { client_secret: stand.authority.alice.clientSecret }
    const bySecret = await server.askForPat(secret, { unsigned: true })
    expect(answers(bySecret)).toEqual([401, 'invalid_client'])
    expect(answers(await server.askForPat({}, { key: thief }))).toEqual([401, 'invalid_client'])
    expect((await server.askForPat()).status).toBe(200)
    const provisioned = { client_id: 'demo-tools', ...secret }
    expect((await server.askForPat(provisioned, { unsigned: true })).status).toBe(200)
    expect(answers(await server.askForPat({ client_id: 'demo-tools' }))).toEqual([401, 'invalid_client'])
  })
})

describe('Errors', () => {
  row('error-authorization-pending', async () => {
    await server.register()
    expect(answers(await server.askForPat())).toEqual([403, 'authorization_pending'])
  })

  row('error-invalid-resource-id', async () => {
    const pat = await stand.authority.pat()
    expect(answers(await perm(pat))).toEqual([400, 'invalid_resource_id'])
  })

  row('error-invalid-scope', async () => {
    const pat = await stand.authority.pat()
    for (const resource_scopes of [[], ['read', 'write']]) {
      const reply = await withPat(pat, '/perm', { resource_id: 'alice/portfolio', resource_scopes })
      expect(answers(reply)).toEqual([400, 'invalid_scope'])
    }
  })

  row('error-registration-unreachable', async () => {
    const dead = `http://127.0.0.1:${(await freePorts(1))[0]}/mcp/alice`
    const reply = await server.register({ resource_uri: dead })
    expect(answers(reply)).toEqual([400, 'invalid_request'])
    expect(reply.body).toMatchObject({ reason: 'document_unreachable' })
    expect(await record()).toBeUndefined()
  })
})

describe('Health', () => {
  row('health-registry', async () => {
    const registry = async () => (await stand.authority.request('GET', '/health/registry')).body
    expect(await registry()).toMatchObject({ landed: expect.any(Boolean) })
    // Those of other rows ended with their row, perhaps before they were pulled.
    const { body } = await own('GET', '/owner/resource-servers?limit=1000')
    for (const { client_id, status } of body as { client_id: string; status: string }[])
      if (status === 'active' && client_id.startsWith('http'))
        await own('POST', '/owner/resource-servers/decision', { client_id, decision: 'revoked' })
    await approved()
    await until(async () => (await registry()).landed === true)
    // A listing that cannot be had keeps nobody from being served.
    const away = await startRegisteringServer(stand.authority, 'away')
    await away.register()
    await away.close()
    await own('POST', '/owner/resource-servers/decision', {
      client_id: away.resource,
      decision: 'approved',
    })
    await until(async () => (await registry()).landed === false)
    expect(await stand.authority.request('GET', '/health')).toMatchObject({
      status: 200,
      body: { status: 'ok' },
    })
  })
})
