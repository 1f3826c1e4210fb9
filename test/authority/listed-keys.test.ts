/**
 * A resource server that proves itself by a key which the provisioning file lists, in place of a secret.
 * Contract: "Authentication" (resource server at the token endpoint), "Resource server establishment" (if the
 * pair was provisioned together).
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { parse, stringify } from 'yaml'
import { beforeEach, describe, expect, it } from 'vitest'
import { planOf } from '../../src/authority/administration/plan.ts'
import { provision } from '../../src/authority/provision.ts'
import { loadProvisionFile } from '../../src/config/provisioning/provision.ts'
import {
  generatePrivateJwk,
  importPrivateJwk,
  publicJwk,
  type PrivateKey,
} from '../../src/wire/signatures/keys.ts'
import { CLIENT_ID, ISSUER, type ProvisionDocument } from '../support/authority.ts'
import { startAuthorityProcess } from '../support/authority-process.ts'
import { decideServer, startResourceServer } from '../support/resource-server.ts'
import { authorityStand } from '../support/stands.ts'
import { startedOnce } from '../support/started.ts'
import { until } from '../support/until.ts'

const authority = authorityStand({ environment: { UMA_DEV_LOOPBACK: 'true' } })
/** Where keys could be fetched, were any looked for: its own key is published there, and is in no file. */
const tools = startedOnce(() => startResourceServer(ISSUER))
const [FIRST, SECOND] = [importPrivateJwk(generatePrivateJwk()), importPrivateJwk(generatePrivateJwk())]

let document: ProvisionDocument
const file = () => authority.environment['UMA_AS_PROVISION']!
const entry = (): Record<string, unknown> => document.owners[0]!.resource_servers[0]!
let started: string
beforeEach(() => {
  started ??= readFileSync(file(), 'utf8')
  document = parse(started) as ProvisionDocument
  entry()['resource_uri'] = tools.resource('alice')
})

const read = () => {
  writeFileSync(file(), stringify(document))
  return loadProvisionFile(file(), true)
}
/** Writes the file, and applies it as a start does. */
const start = () => provision(authority.database.db, read())
const lists = (...keys: PrivateKey[]): void => {
  delete entry()['client_secret']
  entry()['jwks'] = { keys: keys.map(key => publicJwk(key)) }
}

const bySignature = (key: PrivateKey, client_id: string = CLIENT_ID) =>
  tools.token(authority, 'alice', { form: { client_id }, sign: { key } })
const bySecret = (client_secret: string) =>
  tools.token(authority, 'alice', { form: { client_id: CLIENT_ID, client_secret }, sign: false })
const signs = async (key: PrivateKey) => (await bySignature(key)).status === 200
const taken = async (secret: string) => (await bySecret(secret)).status === 200

describe('A resource server whose keys the file lists', () => {
  beforeEach(async () => {
    lists(FIRST)
    await start()
    await bySignature(FIRST)
  })

  it('gets its PAT by signature, and nothing is fetched from it', async () => {
    const { status, body } = await bySignature(FIRST)
    expect([status, body.resource_uri]).toEqual([200, tools.resource('alice')])
    const perm = await authority.request('POST', '/perm', {
      headers: { authorization: `Bearer ${body.access_token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ resource_id: 'alice/portfolio', resource_scopes: ['read'] }),
    })
    expect(perm.status).toBe(201)
    expect(tools.server.received).toEqual([])
  })

  it('is refused with any other key, also with the one that it publishes', async () => {
    const stranger = importPrivateJwk(generatePrivateJwk())
    const replies = [await bySignature(tools.key), await bySignature(stranger), await bySignature(SECOND)]
    expect(replies.map(({ status, body }) => [status, body.error])).toEqual(
      Array.from({ length: 3 }, () => [401, 'invalid_client']),
    )
    expect(tools.server.received).toEqual([])
  })

  it('takes no secret, and no PAT is given for its origin', async () => {
    expect(await taken(authority.alice.clientSecret)).toBe(false)
    expect((await bySignature(FIRST, tools.origin)).status).toBe(401)
  })

  it('may sign with each of several keys', async () => {
    lists(FIRST, SECOND)
    expect(await start()).toEqual([
      { owner: 'alice', kind: 'resource_server', item: CLIENT_ID, outcome: 'changed', because: 'jwks' },
    ])
    expect([await signs(FIRST), await signs(SECOND), await signs(FIRST)]).toEqual([true, true, true])
    expect(await start()).toEqual([])
  })

  it('is taken by a key that was replaced until the new one was used', async () => {
    lists(SECOND)
    await start()
    expect([await signs(FIRST), await signs(FIRST)]).toEqual([true, true])
    expect([await signs(SECOND), await signs(FIRST), await signs(SECOND)]).toEqual([true, false, true])
  })

  it('is taken by the newer key, too, if a replica with an older file starts again', async () => {
    lists(SECOND)
    await start()
    lists(FIRST)
    await start()
    expect([await signs(SECOND), await signs(FIRST), await signs(SECOND)]).toEqual([true, true, false])
  })

  it('is taken by its keys until a secret in their place was used', async () => {
    const secret = 'a secret that the file has again'
    delete entry()['jwks']
    entry()['client_secret'] = secret
    expect(await start()).toMatchObject([{ outcome: 'changed', because: 'secret' }])
    expect([await signs(FIRST), await signs(SECOND)]).toEqual([true, false])
    expect([await taken(secret), await signs(FIRST), await taken(secret)]).toEqual([true, false, true])
  })

  it('cannot register, and the owner alone lets it back in', async () => {
    const named = { client_id: tools.resource('listed'), resource_uri: tools.resource('listed') }
    const servers: Record<string, unknown>[] = document.owners[0]!.resource_servers
    servers.push({ ...entry(), ...named })
    await start()
    const status = async () => {
      const { body } = await authority.call(authority.alice, { target: '/owner/resource-servers' })
      const records = body as { client_id: string; status: string; auth: string }[]
      const found = records.find(({ client_id }) => client_id === named.client_id)
      return [found?.status, found?.auth]
    }
    expect((await tools.register(authority, 'listed')).status).toBe(409)
    await decideServer(authority, named.client_id, 'revoked')
    expect((await bySignature(FIRST, named.client_id)).body.error).toBe('access_denied')
    expect((await tools.register(authority, 'listed')).status).toBe(409)
    expect(await status()).toEqual(['revoked', 'keys'])
    await decideServer(authority, named.client_id, 'approved')
    expect(await status()).toEqual(['active', 'keys'])
    expect((await bySignature(FIRST, named.client_id)).status).toBe(200)
  })
})

describe('A secret that keys replace in the file', () => {
  it('is taken until a key was used, also if the keys change meanwhile', async () => {
    const secret = 'the secret before the keys'
    entry()['client_secret'] = secret
    await start()
    expect(await taken(secret)).toBe(true)
    lists(FIRST)
    expect(await start()).toMatchObject([{ outcome: 'changed', because: 'jwks' }])
    expect([await taken(secret), await taken(secret)]).toEqual([true, true])
    lists(SECOND)
    await start()
    expect([await taken(secret), await signs(FIRST)]).toEqual([true, false])
    expect(await signs(SECOND)).toBe(true)
    expect(await taken(secret)).toBe(false)
    expect(await signs(SECOND)).toBe(true)
  })

  it('and is written again before a key was used is taken, with the key until then', async () => {
    const secret = 'the secret that stays'
    entry()['client_secret'] = secret
    await start()
    expect(await taken(secret)).toBe(true)
    lists(FIRST)
    await start()
    delete entry()['jwks']
    entry()['client_secret'] = secret
    await start()
    expect([await signs(FIRST), await taken(secret), await signs(FIRST)]).toEqual([true, true, false])
  })
})

it('a plan names the keys as what changes, and changes nothing', async () => {
  const secret = 'the secret that was planned about'
  entry()['client_secret'] = secret
  await start()
  lists(FIRST)
  expect(await planOf(authority.database.db, read())).toEqual([
    { owner: 'alice', kind: 'resource_server', item: CLIENT_ID, plan: 'changed', because: 'jwks' },
  ])
  expect([await signs(SECOND), await taken(secret)]).toEqual([false, true])
  await start()
  expect(await planOf(authority.database.db, read())).toEqual([])
})

it('a proof that is not the one on record is one line for the operator, with what to do', async () => {
  lists(FIRST)
  await start()
  const replica = await startAuthorityProcess(authority, { environment: { UMA_AS_LOG_LEVEL: 'info' } })
  const sent = async (fields: Record<string, string>): Promise<number> => {
    const grant = { grant_type: 'client_credentials', scope: 'uma_protection', owner: 'alice' }
    const body = new URLSearchParams({ ...grant, client_id: CLIENT_ID, ...fields })
    return (await fetch(`${replica.publicUrl}/token`, { method: 'POST', body })).status
  }
  try {
    const wrong = 'a secret that nobody ever gave'
    for (let nth = 0; nth < 3; nth++) expect(await sent({ client_secret: wrong })).toBe(401)
    const warned = () => replica.lines().filter(({ level }) => level === 'warn')
    await until(async () => warned().some(({ msg }) => /proves itself by its keys/.test(String(msg))))
    expect(warned().filter(({ client_id }) => client_id === CLIENT_ID)).toMatchObject([
      { owner: 'alice', msg: expect.stringContaining('write signature: true for it') },
    ])
    expect(JSON.stringify(replica.lines())).not.toContain(wrong)
  } finally {
    await replica.close()
  }
})
