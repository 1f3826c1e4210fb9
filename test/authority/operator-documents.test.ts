/**
 * Contract, "Operator documents" and "Agreement (claim_token, beat 3)" (client_id, signature_agent): what
 * operators publish.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { publicJwk, type PrivateKey } from '../../src/wire/signatures/keys.ts'
import { WELL_KNOWN } from '../../src/wire/names.ts'
import { startTestAuthority, type TestAuthority } from '../support/authority.ts'
import {
  directory,
  DIRECTORY_TYPE,
  newKey,
  startIssuer,
  startOperator,
  type TestIssuer,
  type TestOperator,
} from '../support/operators.ts'
import type { Reply } from '../support/scripted-http.ts'
import { decide, testAgent, type TestAgentOptions } from '../support/test-agent.ts'

const DIRECTORY = WELL_KNOWN.signatureDirectory
let issuer: TestIssuer
let authority: TestAuthority
const started: TestOperator[] = []

/** In one minute an authority looks up 60 new operators, so these tests take turns at two. */
const start = () =>
  startTestAuthority({ environment: { UMA_AS_AGENT_ISSUERS: issuer.iss, UMA_DEV_LOOPBACK: 'true' } })

beforeAll(async () => {
  issuer = await startIssuer()
  authority = await start()
})
afterAll(async () => {
  await authority.close()
  await Promise.all([issuer, ...started].map(server => server.close()))
})

async function operatorOf(...keys: PrivateKey[]): Promise<TestOperator> {
  const operator = await startOperator({ keys })
  started.push(operator)
  return operator
}

const get = async (target: string) =>
  (await authority.call(authority.alice, { target })).body as Record<string, any>[] // oxlint-disable-line typescript/no-explicit-any

/** Asks once, answers what the owner is shown of it, and clears the queue again. */
async function shown(options: TestAgentOptions) {
  const agent = testAgent(authority, options)
  const reply = await agent.ask()
  expect(reply.body).toMatchObject({ error: 'request_submitted', kind: 'connection' })
  const item = (await get('/owner/pending?limit=1000')).find(entry => entry['handle'] === agent.handle)!
  await decide(authority, agent.handle, 'denied')
  return item
}
const accountability = async (options: TestAgentOptions) =>
  (await shown(options))['assurance'].accountability as number

describe('The three axes of assurance', () => {
  const rows: [
    string,
    [number, number, number],
    { token?: true; document?: true; directory?: true; unnamed?: true },
  ][] = [
    ['a bare key that names no operator', [1, 0, 0], { unnamed: true }],
    ['a bare key whose operator publishes nothing', [1, 0, 0], {}],
    ['a bare key with a client document that claims its URL', [1, 0, 1], { document: true }],
    ['a bare key that the directory lists', [1, 0, 2], { directory: true }],
    ['a bare key with both', [1, 0, 2], { document: true, directory: true }],
    ['an agent token alone', [1, 1, 0], { token: true, unnamed: true }],
    ['an agent token and a client document', [1, 1, 1], { token: true, document: true }],
    [
      'an agent token whose key the directory lists',
      [1, 1, 2],
      { token: true, document: true, directory: true },
    ],
  ]
  it.each(rows)('of %s are %j', async (_, [binding, provenance, level], has) => {
    const key = newKey()
    const operator = await operatorOf(...(has.directory ? [key] : []))
    if (!has.document) operator.server.script('/client.json', { status: 404 })
    const item = await shown({
      key,
      ...(has.unnamed ? {} : { client_id: operator.client_id }),
      ...(has.token
        ? { identified: issuer.identify(key, `axes-${operator.origin.split(':').at(-1)!}`) }
        : {}),
    })
    expect(item['assurance']).toEqual({ binding, provenance, accountability: level })
    expect(item['assurance_notes'].length).toBeGreaterThanOrEqual(3)
  })
})

describe('A client identity document', () => {
  const claims = (client_id: string, more: object = {}): Reply => ({ body: { client_id, ...more } })
  const json = { 'content-type': 'application/json' }

  it('counts if it claims its own URL, and names the operator to the owner', async () => {
    const key = newKey()
    const operator = await operatorOf(key)
    operator.server.script('/client.json', claims(operator.client_id, { client_name: 'Acme <b>Bots</b>' }))
    const agent = testAgent(authority, { key, client_id: operator.client_id })
    await agent.granted()
    const [listed] = (await get('/owner/operators?limit=1000')).filter(
      one => one['origin'] === operator.origin,
    )
    expect(listed).toMatchObject({
      name: 'Acme <b>Bots</b>',
      agents: 1,
      active: 1,
      blocked: false,
      mine: false,
    })
  })

  it('is read as application/json and as every +json type', async () => {
    const operator = await operatorOf()
    const headers = { 'content-type': 'application/cimd+json; charset=utf-8' }
    const body = Buffer.from(JSON.stringify({ client_id: operator.client_id }))
    operator.server.script('/client.json', { headers, body })
    expect(await accountability({ client_id: operator.client_id })).toBe(1)
  })

  it.each<[string, (operator: TestOperator) => Reply]>([
    ['is not there', () => ({ status: 404 })],
    ['is answered with another success than 200', ({ client_id }) => ({ ...claims(client_id), status: 203 })],
    ['is a redirect to itself', ({ client_id }) => ({ status: 302, headers: { location: client_id } })],
    ['claims another URL', ({ origin }) => claims(`${origin}/other.json`)],
    [
      'claims its URL in another spelling',
      ({ client_id }) => claims(client_id.replace('/client', '//client')),
    ],
    ['claims no URL', () => ({ body: { client_name: 'x' } })],
    ['is no object', () => ({ body: ['x'] })],
    ['carries a secret', ({ client_id }) => claims(client_id, { client_secret: 'x' })],
    ['says when its secret expires', ({ client_id }) => claims(client_id, { client_secret_expires_at: 0 })],
    [
      'authenticates by a shared secret',
      ({ client_id }) => claims(client_id, { token_endpoint_auth_method: 'client_secret_post' }),
    ],
    [
      'has another media type',
      ({ client_id }) => ({ body: JSON.stringify({ client_id }), headers: { 'content-type': 'text/html' } }),
    ],
    ['has no media type', ({ client_id }) => ({ body: JSON.stringify({ client_id }) })],
    [
      'names a member twice',
      ({ client_id }) => ({ body: `{"client_id":"x","client_id":"${client_id}"}`, headers: json }),
    ],
    ['is no JSON', () => ({ body: '<html>', headers: json })],
    ['is over 64 KiB', ({ client_id }) => claims(client_id, { filler: 'x'.repeat(66_000) })],
    [
      'ends in the middle',
      ({ client_id }) => ({
        write: response =>
          void response
            .writeHead(200, { ...json, 'content-length': 1000 })
            .write(client_id, () => response.destroy()),
      }),
    ],
  ])('that %s proves nothing, and is no fault of the request', async (_, script) => {
    const operator = await operatorOf()
    operator.server.script('/client.json', script(operator))
    const item = await shown({ client_id: operator.client_id })
    expect(item['assurance'].accountability).toBe(0)
    expect(item['identity']).toMatchObject({ operator: operator.origin, operator_name: null })
    expect(item['assurance_notes'].join('\n')).toMatch(/accountability: the client document \w+/)
    // No redirect was followed.
    expect(operator.server.to('/client.json')).toHaveLength(1)
  })

  it.each([
    'https://10.0.0.1/client.json',
    'https://169.254.169.254/latest/meta-data',
    'https://localhost/client.json',
  ])('at a private address is not fetched: %s', async client_id => {
    const item = await shown({ client_id })
    expect(item['assurance'].accountability).toBe(0)
    expect(item['assurance_notes'].join('\n')).toMatch(/public address/)
  })
})

describe('A key directory', () => {
  beforeAll(async () => {
    await authority.close()
    authority = await start()
  })

  it('at the origin of client_id is found by its well-known path, where signature_agent is absent', async () => {
    const key = newKey()
    const operator = await operatorOf(key)
    expect(await accountability({ key, client_id: operator.client_id })).toBe(2)
    expect(operator.directoryRequests()).toBe(1)
  })

  it.each<[string, (operator: TestOperator) => string]>([
    ['the bare origin', operator => operator.origin],
    ['the bare origin with a slash', operator => `${operator.origin}/`],
    ['the well-known path', operator => operator.origin + DIRECTORY],
    ['another path of the origin', operator => `${operator.origin}/keys/directory`],
  ])('is found where signature_agent is %s', async (_, signatureAgent) => {
    const key = newKey()
    const operator = await operatorOf(key)
    operator.server.script('/keys/directory', directory(key))
    const signature_agent = signatureAgent(operator)
    expect(await accountability({ key, client_id: operator.client_id, signature_agent })).toBe(2)
  })

  it('at any other origin attests nothing, and is not even fetched', async () => {
    const key = newKey()
    const [operator, other] = [await operatorOf(), await operatorOf(key)]
    const item = await shown({ key, client_id: operator.client_id, signature_agent: other.origin })
    expect(item['assurance'].accountability).toBe(1)
    expect(item['assurance_notes'].join('\n')).toMatch(/another origin/)
    expect(other.server.received).toEqual([])
    expect(operator.directoryRequests()).toBe(0)
  })

  it('that is a redirect to a directory that lists the key attests nothing', async () => {
    const key = newKey()
    const [operator, other] = [await operatorOf(), await operatorOf(key)]
    operator.server.script(DIRECTORY, { status: 301, headers: { location: other.origin + DIRECTORY } })
    expect(await accountability({ key, client_id: operator.client_id })).toBe(1)
    expect(other.server.received).toEqual([])
  })

  it('without client_id attests nothing: the operator is the origin of client_id', async () => {
    const key = newKey()
    const operator = await operatorOf(key)
    const item = await shown({ key, signature_agent: operator.origin })
    expect([item['assurance'].accountability, item['identity'].operator]).toEqual([0, null])
    expect(operator.server.received).toEqual([])
  })

  it('lists a key by its thumbprint, whatever kid it stands under, among keys that are of no use', async () => {
    const key = newKey()
    const operator = await operatorOf()
    const keys = [
      { kty: 'RSA' },
      'x',
      null,
      { ...publicJwk(newKey()), kid: key.thumbprint },
      { ...key.jwk, kid: '1' },
    ]
    operator.server.script(DIRECTORY, { body: { keys } })
    expect(await accountability({ key, client_id: operator.client_id })).toBe(2)
  })

  const seconds = () => Math.floor(Date.now() / 1000)
  it.each<[string, (key: PrivateKey) => Reply]>([
    ['lists another key', () => directory(newKey())],
    [
      'lists another key under the kid of this one',
      key => ({ body: { keys: [{ ...publicJwk(newKey()), kid: key.thumbprint }] } }),
    ],
    ['lists it with its private half', key => ({ body: { keys: [{ ...key.jwk, d: 'x' }] } })],
    ['lists it for encryption', key => ({ body: { keys: [{ ...key.jwk, use: 'enc' }] } })],
    ['lists it as expired', key => ({ body: { keys: [{ ...key.jwk, exp: seconds() - 1 }] } })],
    ['lists it from tomorrow on', key => ({ body: { keys: [{ ...key.jwk, nbf: seconds() + 86_400 }] } })],
    [
      'lists it with an expiry that is no number',
      key => ({ body: { keys: [{ ...key.jwk, exp: 'never' }] } }),
    ],
    [
      'lists it beside two `keys`',
      key => ({
        headers: { 'content-type': DIRECTORY_TYPE },
        body: `{"keys":[],"keys":[${JSON.stringify(key.jwk)}]}`,
      }),
    ],
    ['lists it in an array alone', key => ({ body: [key.jwk] })],
    [
      'is no JSON type',
      key => ({ headers: { 'content-type': 'text/plain' }, body: JSON.stringify({ keys: [key.jwk] }) }),
    ],
    ['is over 64 KiB', key => ({ body: { keys: [key.jwk], filler: 'x'.repeat(66_000) } })],
    ['is not there', () => ({ status: 404 })],
    ['fails', () => ({ status: 500 })],
  ])('that %s attests nothing', async (_, script) => {
    const key = newKey()
    const operator = await operatorOf()
    operator.server.script(DIRECTORY, script(key))
    const item = await shown({ key, client_id: operator.client_id })
    expect(item['assurance'].accountability).toBe(1)
    expect(item['assurance_notes'].join('\n')).toMatch(/accountability: the key directory (?!lists)\w+/)
  })

  it('may list hundreds of keys', async () => {
    const key = newKey()
    const operator = await operatorOf(...Array.from({ length: 400 }, newKey), key)
    expect(await accountability({ key, client_id: operator.client_id })).toBe(2)
  })
})

describe('Documents that cannot be had in time', () => {
  it('are not waited for beyond three seconds in all: the request is held, not attested, and no error', async () => {
    const key = newKey()
    const operator = await operatorOf(key)
    const seen: string[] = []
    const write: Reply['write'] = response => {
      seen.push('asked')
      response.once('close', () => seen.push('given up'))
    }
    for (const path of ['/client.json', DIRECTORY]) operator.server.script(path, { write })
    const item = await shown({ key, client_id: operator.client_id })
    // That both are asked at once, and the time is one for both, operator-document-times.test.ts shows.
    await expect.poll(() => seen.includes('given up')).toBe(true)
    expect(item['assurance'].accountability).toBe(0)
    expect(item['assurance_notes'].join('\n')).toMatch(/did not come in time/)
  })

  it('if an operator is gone, nothing is an error', async () => {
    const operator = await startOperator()
    await operator.close()
    expect(await accountability({ client_id: operator.client_id })).toBe(0)
  })
})

describe('What is fetched is kept', () => {
  it('a directory that lists the key is asked for once, for any number of requests', async () => {
    const keys = [newKey(), newKey(), newKey()]
    const operator = await operatorOf(...keys)
    await Promise.all(keys.map(key => shown({ key, client_id: operator.client_id })))
    for (const key of keys) await shown({ key, client_id: operator.client_id })
    expect(operator.directoryRequests()).toBe(1)
    expect(operator.server.to('/client.json')).toHaveLength(1)
  })
})

describe('Without UMA_DEV_LOOPBACK', () => {
  it('nothing is fetched from this machine, whatever URL a stranger names', async () => {
    const operator = await operatorOf()
    const strict = await startTestAuthority()
    for (const client_id of [operator.client_id, operator.client_id.replace('https:', 'http:')]) {
      const reply = await testAgent(strict, { client_id }).ask()
      expect(reply.body.error).toBe('request_submitted')
    }
    expect(operator.server.received).toEqual([])
    await strict.close()
  })
})

describe('An operator that the owner blocked', () => {
  const post = (word: 'block' | 'unblock', origin: string) =>
    authority.call(authority.alice, { method: 'POST', target: `/owner/operators/${word}`, json: { origin } })

  it('is refused, and nothing is fetched from it', async () => {
    const key = newKey()
    const operator = await operatorOf(key)
    await post('block', operator.origin)
    const reply = await testAgent(authority, { key, client_id: operator.client_id }).ask()
    expect([reply.status, reply.body.error]).toEqual([403, 'request_denied'])
    expect(operator.server.received).toEqual([])
    await post('unblock', operator.origin)
    expect(await accountability({ key, client_id: operator.client_id })).toBe(2)
  })

  it('is not evaded by an agent of its that leaves client_id out, or names another operator', async () => {
    const key = newKey()
    const [operator, other] = [await operatorOf(key), await operatorOf(key)]
    await testAgent(authority, { key, client_id: operator.client_id }).granted()
    await post('block', operator.origin)
    for (const options of [{ key }, { key, client_id: other.client_id }]) {
      const reply = await testAgent(authority, options).ask()
      expect([reply.status, reply.body.error]).toEqual([403, 'request_denied'])
    }
  })
})
