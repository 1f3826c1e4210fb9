/** Contract, "Resource server establishment: POST `/rs/register`" and "Resource server registration". */
import { beforeAll, describe, expect, it } from 'vitest'
import { generatePrivateJwk, importPrivateJwk, publicJwk } from '../../src/wire/signatures/keys.ts'
import { ISSUER, startTestAuthority } from '../support/authority.ts'
import {
  ageDecision,
  decideServer,
  startResourceServer,
  type TestResourceServer,
  type Twists,
} from '../support/resource-server.ts'
import { quotaRefusals } from '../support/quota-refusals.ts'
import { authorityStand } from '../support/stands.ts'
import { startedOnce } from '../support/started.ts'

const authority = authorityStand({ owners: ['alice', 'bea'], environment: { UMA_DEV_LOOPBACK: 'true' } })
const tools = startedOnce(() => startResourceServer(ISSUER))

let count = 0
/** A name that no authority has read anything of yet. */
const fresh = (twists: Twists = {}): string => {
  const name = `case-${count++}`
  tools.twists[name] = twists
  return name
}
const server = async (name: string, owner = authority.alice) => {
  const { body } = await authority.call(owner, { target: '/owner/resource-servers?limit=1000' })
  return (body as { client_id: string }[]).find(one => one.client_id === tools.resource(name))
}
const BEA = { claim: { owner: 'bea' } }
const decide = (name: string, decision: 'approved' | 'revoked') =>
  authority.call(authority.alice, {
    method: 'POST',
    target: '/owner/resource-servers/decision',
    json: { client_id: tools.resource(name), decision },
  })

// Both have approved something of this origin, so that more than two of it may wait.
beforeAll(async () => {
  for (const owner of [authority.alice, authority.owners['bea']!]) {
    const name = fresh()
    await tools.register(authority, name, { claim: { owner: owner.owner } })
    await decideServer(authority, tools.resource(name), 'approved', owner)
  }
})

describe('A resource server that proves its origin', () => {
  it('register-pending: 202 {client_id, status: pending}; client_id is the resource_uri', async () => {
    const name = fresh()
    const reply = await tools.register(authority, name, { claim: { name: 'Bea’s tools' } })
    expect(reply.status).toBe(202)
    expect(reply.body).toEqual({ client_id: tools.resource(name), status: 'pending' })
    expect(reply.headers.get('cache-control')).toBe('no-store')
    expect(await server(name)).toEqual({
      client_id: tools.resource(name),
      name: 'Bea’s tools',
      resource_uri: tools.resource(name),
      status: 'pending',
      auth: 'signature',
      registered_at: expect.any(String),
      decided_at: null,
      last_pat_issued: null,
      registry: { landed_at: null, failed_at: null, fault: null, conflicts: 0 },
    })
  })

  it('rs-registered: none, POST /rs/register succeeds -> pending, and the owner gets the event once', async () => {
    const name = fresh()
    await tools.register(authority, name)
    await tools.register(authority, name, { claim: { name: 'Another name' } })
    const { rows } = await authority.database.pool.query<{ data: object }>(
      `SELECT data FROM events WHERE owner = 'alice' AND event = 'resource_server_pending' AND data->>'client_id' = $1`,
      [tools.resource(name)],
    )
    expect(rows).toEqual([{ data: { client_id: tools.resource(name), status: 'pending' } }])
    // She was shown it under this name, and decides about that.
    expect(await server(name)).toMatchObject({ name: tools.resource(name) })
  })

  it('several resources at one origin share its keys, and each is approved on its own', async () => {
    const [one, two] = [fresh(), fresh()]
    await tools.register(authority, one)
    await tools.register(authority, two)
    await decide(one, 'approved')
    expect(await server(one)).toMatchObject({ status: 'active' })
    expect(await server(two)).toMatchObject({ status: 'pending' })
  })

  it('already active: 200, and nothing changes', async () => {
    const name = fresh()
    await tools.register(authority, name)
    await decide(name, 'approved')
    const reply = await tools.register(authority, name, { claim: { name: 'Renamed' } })
    expect([reply.status, reply.body]).toEqual([200, { client_id: tools.resource(name), status: 'active' }])
    expect(await server(name)).toMatchObject({ status: 'active', name: tools.resource(name) })
  })

  it('one that was revoked is pending again, a day later, and only the owner lets it back in', async () => {
    const name = fresh()
    await tools.register(authority, name)
    await decide(name, 'revoked')
    await ageDecision(authority, tools.resource(name))
    expect((await tools.register(authority, name)).status).toBe(202)
    expect(await server(name)).toMatchObject({ status: 'pending', decided_at: null })
  })

  it('the same signed request twice within its window changes nothing', async () => {
    const name = fresh()
    const sign = { nonce: 'one', created: Math.floor(Date.now() / 1000) }
    const [first, second] = [
      await tools.register(authority, name, { sign }),
      await tools.register(authority, name, { sign }),
    ]
    expect([first.status, second.status]).toEqual([202, 202])
    expect(second.body).toEqual(first.body)
  })

  it('register-owner-decides: it settles only who asks: no PAT, nothing pulled, nothing in the registry', async () => {
    const name = fresh()
    tools.listings[name] = [{ _id: `alice/${name}`, name, resource_scopes: ['read'] }]
    await tools.register(authority, name)
    const reply = await tools.token(authority, name)
    expect([reply.status, reply.body.error]).toEqual([403, 'authorization_pending'])
    expect(tools.server.to(`/owner-resources/${name}`)).toEqual([])
    const { body } = await authority.call(authority.alice, { target: '/owner/resources?limit=1000' })
    expect((body as { _id: string }[]).map(({ _id }) => _id)).not.toContain(`alice/${name}`)
  })

  it('at most 20 wait for one owner: 429 request_denied; those that wait may still ask again', async () => {
    const names = Array.from({ length: 21 }, () => fresh())
    const register = (name: string) => tools.register(authority, name, BEA)
    const replies = []
    for (const name of names) replies.push(await register(name))
    expect(replies.slice(0, 20).map(({ status }) => status)).toEqual(Array(20).fill(202))
    const late = replies[20]!
    expect([late.status, late.body.error, late.body.reason]).toEqual([429, 'request_denied', 'too_many_wait'])
    expect(late.headers.get('retry-after')).toBe('60')
    expect(await quotaRefusals(authority, 'resource_servers')).toBe(1)
    expect((await register(names[0]!)).status).toBe(202)
    expect(await server(names[20]!, authority.owners['bea'])).toBeUndefined()
  })
})

describe('The order of refusals', () => {
  it.each<[string, Record<string, unknown>, number, string]>([
    ['an unknown member', { tier: 'x' }, 400, 'invalid_request'],
    ['no owner', { owner: undefined }, 400, 'invalid_request'],
    ['an owner of the wrong type', { owner: ['alice'] }, 400, 'invalid_request'],
    ['a NUL in the owner', { owner: 'a\0' }, 400, 'invalid_request'],
    ['no resource_uri', { resource_uri: undefined }, 400, 'invalid_request'],
    ['a name with control characters', { name: 'a\u001b[2J' }, 400, 'invalid_request'],
    ['a blank name', { name: '  ' }, 400, 'invalid_request'],
    ['a name that is too long', { name: 'x'.repeat(201) }, 400, 'invalid_request'],
    ['an unknown owner', { owner: 'nobody' }, 403, 'access_denied'],
  ])('register-body: %s', async (_what, claim, status, error) => {
    const name = fresh()
    const reply = await tools.register(authority, name, { claim })
    expect([reply.status, reply.body.error]).toEqual([status, error])
    // Nothing is fetched for a caller that will be refused.
    expect(tools.server.to(tools.documentPath(name))).toEqual([])
  })

  it.each([
    'http://tools.example.com/mcp/alice',
    'ftp://tools.example.com/mcp/alice',
    'https://tools.example.com/mcp/alice/',
    'https://tools.example.com/mcp/alice?x=1',
    'https://tools.example.com/mcp/alice#x',
    'https://user@tools.example.com/mcp/alice',
    'https://TOOLS.example.com/mcp/alice',
    'https://tools.example.com:443/mcp/alice',
    'https://tools.example.com./mcp/alice',
    'https://bücher.example/mcp/alice',
    'https://tools.example.com%2e/mcp/alice',
    'https://[FD00::1]/mcp/alice',
    'https://0x8.8.8.8/mcp/alice',
    'https://tools.example.com/mcp/../alice',
    'https://tools.example.com/mcp/%61lice',
    'https://tools.example.com/mcp/%7Ealice',
    'https://tools.example.com/mcp/$(reboot)',
    "https://tools.example.com/mcp/';x",
    `https://tools.example.com/mcp/${'x'.repeat(500)}`,
    'tools',
    '',
  ])('register-body: %j is no resource_uri in its one spelling: 400', async resource_uri => {
    const reply = await tools.register(authority, fresh(), { claim: { resource_uri } })
    expect([reply.status, reply.body.error]).toEqual([400, 'invalid_request'])
    expect(reply.body.error_description).toContain('"resource_uri"')
  })

  it('a body that is no JSON is 415, malformed JSON 400, none 400', async () => {
    const post = (type: string, body: string) =>
      authority.request('POST', '/rs/register', { headers: { 'content-type': type }, body })
    expect((await post('application/x-www-form-urlencoded', 'owner=alice')).status).toBe(415)
    expect((await post('application/json', '{"owner":"alice","owner":"bea"}')).status).toBe(400)
    expect((await post('application/json', '')).status).toBe(400)
  })

  it('the documents are judged before the signature', async () => {
    const name = fresh({ document: plain => ({ ...plain, authorization_servers: ['https://x.example'] }) })
    const reply = await tools.register(authority, name, { sign: false })
    expect([reply.status, reply.body.reason]).toEqual([400, 'document_inconsistent'])
  })

  it('the owner is looked for before the documents', async () => {
    const reply = await tools.register(authority, fresh({ document: () => ({}) }), {
      claim: { owner: 'nobody' },
    })
    expect(reply.status).toBe(403)
  })
})

describe('register-signed: 401 invalid_client', () => {
  const stranger = importPrivateJwk(generatePrivateJwk())
  const ago = (seconds: number) => Math.floor(Date.now() / 1000) - seconds
  it.each<[string, Parameters<TestResourceServer['register']>[2]]>([
    ['without a signature', { sign: false }],
    ['with a key that is published nowhere', { sign: { key: stranger } }],
    ['with another key under the kid that is published', { sign: { key: stranger, keyid: 'published' } }],
    ['without a keyid', { sign: { keyid: false } }],
    ['over another authority', { sign: { issuer: 'https://evil.example' } }],
    ['too old', { sign: { created: ago(62) } }],
    ['from the future', { sign: { created: ago(-600) } }],
    ['expired', { sign: { created: ago(30), expires: ago(2) } }],
    ['that does not cover the body', { sign: { components: ['@method', '@authority', '@path'] } }],
    ['over another body', { sign: { digestOf: '{}' } }],
    ['that does not cover the path', { sign: { components: ['@method', '@authority', 'content-digest'] } }],
  ])('%s', async (_what, more) => {
    const keyid = more?.sign && more.sign.keyid === 'published' ? { keyid: tools.key.kid } : {}
    const sign = more?.sign === false ? false : { ...more?.sign, ...keyid }
    const name = fresh()
    const reply = await tools.register(authority, name, { sign })
    expect([reply.status, reply.body.error]).toEqual([401, 'invalid_client'])
    expect(reply.body.error_description).toMatch(/\w+ \w+/)
    expect(await server(name)).toBeUndefined()
  })

  it('a key that was rotated in since the keys were read is looked for once more', async () => {
    const next = importPrivateJwk(generatePrivateJwk())
    const name = fresh()
    await tools.register(authority, name)
    tools.twists[name] = { keys: () => ({ keys: [publicJwk(next)] }) }
    // They were read a moment ago: within 30 s nobody makes us read them again.
    expect((await tools.register(authority, name, { sign: { key: next } })).status).toBe(401)
    expect(tools.server.to(`/jwks/${name}`)).toHaveLength(1)
  })
})

describe('register-documents: error-registration-unreachable: 400 with the reason', () => {
  const elsewhere = 'https://keys.example.com/jwks'
  it.each<[string, string, Twists]>([
    [
      'claims another resource',
      'document_inconsistent',
      { document: plain => ({ ...plain, resource: 'https://x.example/mcp' }) },
    ],
    [
      'claims the resource with a slash more',
      'document_inconsistent',
      { document: plain => ({ ...plain, resource: `${String(plain['resource'])}/` }) },
    ],
    [
      'names another authorization server',
      'document_inconsistent',
      { document: plain => ({ ...plain, authorization_servers: ['https://other.example'] }) },
    ],
    [
      'names our address with a slash more',
      'document_inconsistent',
      { document: plain => ({ ...plain, authorization_servers: [`${ISSUER}/`] }) },
    ],
    [
      'names no authorization server',
      'document_inconsistent',
      { document: plain => ({ ...plain, authorization_servers: undefined }) },
    ],
    ['names no keys', 'document_inconsistent', { document: plain => ({ ...plain, jwks_uri: undefined }) }],
    [
      'has its keys at another origin',
      'document_inconsistent',
      { document: plain => ({ ...plain, jwks_uri: elsewhere }) },
    ],
    [
      'has authorization_servers of the wrong type',
      'document_malformed',
      { document: plain => ({ ...plain, authorization_servers: ISSUER }) },
    ],
    ['has no resource', 'document_malformed', { document: plain => ({ ...plain, resource: undefined }) }],
    ['publishes no JWKS', 'keys_malformed', { keys: () => ({ ours: [] }) }],
  ])('the document %s', async (_what, reason, twists) => {
    const name = fresh(twists)
    const reply = await tools.register(authority, name)
    expect([reply.status, reply.body.error, reply.body.reason]).toEqual([400, 'invalid_request', reason])
    expect(reply.body.error_description).toMatch(/\w+ \w+/)
    expect(await server(name)).toBeUndefined()
  })

  it.each<[string, string, Parameters<TestResourceServer['server']['script']>[1]]>([
    ['is missing', 'document_status', { status: 404 }],
    ['fails', 'document_status', { status: 500, body: {} }],
    ['is no JSON', 'document_media_type', { body: '<html>', headers: { 'content-type': 'text/html' } }],
    [
      'is malformed',
      'document_malformed',
      { body: '{"a":1,"a":2}', headers: { 'content-type': 'application/json' } },
    ],
    ['is over 64 KiB', 'document_too_large', { body: { resource: 'x'.repeat(70_000) } }],
    ['breaks off', 'document_broken', { write: response => void response.destroy() }],
    ['never comes', 'document_timeout', { write: () => undefined }],
  ])('the document %s', async (_what, reason, script) => {
    const name = fresh()
    tools.server.script(tools.documentPath(name), script)
    const reply = await tools.register(authority, name)
    expect([reply.status, reply.body.reason]).toEqual([400, reason])
    expect(reply.body.error_description).toContain(tools.documentPath(name))
  })

  it('a redirect is not followed', async () => {
    const [name, good] = [fresh(), fresh()]
    tools.server.script(tools.documentPath(name), {
      status: 302,
      headers: { location: tools.origin + tools.documentPath(good) },
    })
    const reply = await tools.register(authority, name)
    expect([reply.status, reply.body.reason]).toEqual([400, 'document_status'])
    expect(tools.server.to(tools.documentPath(good))).toEqual([])
  })

  it('the keys redirect to another origin, and are not followed there', async () => {
    const name = fresh()
    tools.server.script(`/jwks/${name}`, { status: 307, headers: { location: elsewhere } })
    const reply = await tools.register(authority, name)
    expect([reply.status, reply.body.reason]).toEqual([400, 'keys_status'])
  })

  it('a document that nobody serves', async () => {
    const gone = await startResourceServer(ISSUER)
    await gone.close()
    const reply = await gone.register(authority, 'alice')
    expect([reply.status, reply.body.reason]).toEqual([400, 'document_unreachable'])
  })

  it('what was missing is not asked for again within 30 s, what was there not within 300 s', async () => {
    const [missing, there] = [fresh(), fresh()]
    tools.server.script(tools.documentPath(missing), { status: 404 })
    for (const name of [missing, missing, there, there]) await tools.register(authority, name)
    expect(tools.server.to(tools.documentPath(missing))).toHaveLength(1)
    expect(tools.server.to(tools.documentPath(there))).toHaveLength(1)
    expect(tools.server.to(`/jwks/${there}`)).toHaveLength(1)
  })
})

describe('Only public addresses are fetched from', () => {
  it.each([
    'https://10.0.0.1/mcp/alice',
    'https://169.254.169.254/mcp/alice',
    'https://192.168.1.1/mcp/alice',
    'https://[fd00::1]/mcp/alice',
    'https://0.0.0.0/mcp/alice',
  ])('%s is refused', async resource_uri => {
    const reply = await tools.register(authority, fresh(), { claim: { resource_uri } })
    expect([reply.status, reply.body.reason]).toEqual([400, 'document_forbidden_address'])
  })

  it('without UMA_DEV_LOOPBACK loopback is refused too, and nothing is asked there', async () => {
    const strict = await startTestAuthority()
    const name = fresh()
    const reply = await tools.register(strict, name)
    expect([reply.status, reply.body.reason]).toEqual([400, 'document_forbidden_url'])
    const secure = tools.resource(name).replace('http:', 'https:')
    const other = await tools.register(strict, name, { claim: { resource_uri: secure } })
    expect([other.status, other.body.reason]).toEqual([400, 'document_forbidden_address'])
    expect(tools.server.to(tools.documentPath(name))).toEqual([])
    await strict.close()
  })
})

describe('A resource server that was provisioned', () => {
  it('keeps its secret: no registration touches its record', async () => {
    const name = 'provisioned'
    const other = await startTestAuthority({
      environment: { UMA_DEV_LOOPBACK: 'true' },
      provision: document => {
        document.owners[0]!.resource_servers[0]!.client_id = tools.resource(name)
        for (const resource of document.owners[0]!.resources) resource.client_id = tools.resource(name)
        return document
      },
    })
    const reply = await tools.register(other, name)
    expect([reply.status, reply.body.error]).toEqual([409, 'conflict'])
    await other.close()
  })
})
