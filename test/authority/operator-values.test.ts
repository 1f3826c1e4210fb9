/**
 * What is the operator's to say in a provisioning file is applied at every start and on SIGHUP; what is the
 * owner's is left alone, with a warning. Contract: "Authentication" (resource server at the token endpoint),
 * "Policy vocabulary and tiers".
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { parse, stringify } from 'yaml'
import { beforeEach, describe, expect, it } from 'vitest'
import { provision } from '../../src/authority/provision.ts'
import { loadProvisionFile } from '../../src/config/provisioning/provision.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import { takeServerValues } from '../../src/storage/authority/policies/operator-values.ts'
import { readResourceServer } from '../../src/storage/authority/registry/resources.ts'
import { sha256 } from '../../src/wire/encoding.ts'
import { asClientId, asOwner } from '../../src/wire/identifiers.ts'
import { CLIENT_ID, type ProvisionDocument } from '../support/authority.ts'
import { startAuthorityProcess } from '../support/authority-process.ts'
import { authorityStand } from '../support/stands.ts'
import { protectionCall, testAgent } from '../support/test-agent.ts'
import { until } from '../support/until.ts'

const authority = authorityStand()
const ALICE = asOwner('alice')
const [FIRST, SECOND, THIRD] = ['the first secret of alice', 'the second secret of alice', 'the third secret']

/** The file as it was at first, with her former secret known. */
let document: ProvisionDocument
const file = () => authority.environment['UMA_AS_PROVISION']!
let started: string
beforeEach(async () => {
  started ??= readFileSync(file(), 'utf8')
  document = parse(started) as ProvisionDocument
  await start()
  // The one that stands is used, so that no other is left in force.
  await patBy(document.owners[0]!.resource_servers[0]!.client_secret)
})

/** Writes the file, and applies it as a start does. */
async function start() {
  writeFileSync(file(), stringify(document))
  return provision(authority.database.db, loadProvisionFile(file(), false))
}

const server = () => document.owners[0]!.resource_servers[0]!

async function patBy(client_secret: string, client_id: string = CLIENT_ID) {
  const form = { grant_type: 'client_credentials', scope: 'uma_protection', owner: 'alice' }
  return authority.request('POST', '/token', {
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams({ ...form, client_id, client_secret }).toString(),
  })
}
const taken = async (secret: string) => (await patBy(secret)).status === 200

describe('A client secret that was changed in the file', () => {
  it('is taken after the next start, beside the former one until it was used', async () => {
    const before = server().client_secret
    server().client_secret = FIRST
    expect(await start()).toEqual([
      { owner: 'alice', kind: 'resource_server', item: CLIENT_ID, outcome: 'changed', because: 'secret' },
    ])
    expect(await taken(before)).toBe(true)
    expect(await taken(before)).toBe(true)
    expect(await taken(FIRST)).toBe(true)
    expect((await patBy(before)).body).toMatchObject({ error: 'invalid_client' })
    expect(await taken(FIRST)).toBe(true)
  })

  it('and changed again before it was used leaves in force what the server has', async () => {
    server().client_secret = FIRST
    await start()
    await patBy(FIRST)
    server().client_secret = SECOND
    await start()
    server().client_secret = THIRD
    await start()
    expect(await taken(SECOND)).toBe(false)
    expect(await taken(FIRST)).toBe(true)
    expect(await taken(THIRD)).toBe(true)
    expect(await taken(FIRST)).toBe(false)
  })

  it('and changed back before it was used is taken again, with the other until then', async () => {
    const before = server().client_secret
    server().client_secret = FIRST
    await start()
    server().client_secret = before
    await start()
    expect([await taken(FIRST), await taken(before), await taken(FIRST)]).toEqual([true, true, false])
  })

  it('is changed once by many replicas that start together', async () => {
    server().client_secret = SECOND
    writeFileSync(file(), stringify(document))
    const owners = loadProvisionFile(file(), false)
    const done = await Promise.all(Array.from({ length: 8 }, () => provision(authority.database.db, owners)))
    expect(done.flat()).toHaveLength(1)
  })
})

it('a changed resource_uri is in the next grant, and ends those for the former address', async () => {
  const agent = testAgent(authority)
  const { rpt } = await agent.granted()
  const introspect = async (token: string) =>
    (await protectionCall(authority, '/introspect', { token })).body as { active: boolean; aud?: string }
  expect(await introspect(rpt)).toMatchObject({ active: true })
  server().resource_uri = 'https://moved.example/mcp/alice'
  expect(await start()).toMatchObject([
    {
      outcome: 'changed',
      because: expect.stringMatching(
        /^resource_uri \("\S+" → "https:\/\/moved\.example\/mcp\/alice"\)$/,
      ) as string,
    },
  ])
  expect(await introspect(rpt)).toMatchObject({ active: false })
  const again = await agent.granted()
  expect(await introspect(again.rpt)).toMatchObject({ active: true, aud: 'https://moved.example/mcp/alice' })
})

it('a resource that another client serves keeps its tier and her approval of the agent', async () => {
  const agent = testAgent(authority)
  await agent.granted('portfolio_read')
  const [alice] = document.owners
  alice!.resource_servers.push({ ...server(), client_id: 'new-tools', client_secret: THIRD })
  for (const one of alice!.resources) one.client_id = 'new-tools'
  const done = await start()
  expect(done.filter(({ kind }) => kind === 'resource')).toEqual(
    alice!.resources.map(({ id: item }) => ({
      owner: 'alice',
      kind: 'resource',
      item,
      outcome: 'changed',
      because: expect.stringMatching(/^client_id \(".+" → "new-tools"\)$/) as string,
    })),
  )
  const { body } = await patBy(THIRD, 'new-tools')
  const ticket = await authority.request('POST', '/perm', {
    headers: { authorization: `Bearer ${body.access_token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ resource_id: 'alice/portfolio', resource_scopes: ['read'] }),
  })
  expect(ticket.status).toBe(201)
  const offered = await agent.present(ticket.body.ticket as string)
  const template = offered.body.required_claims[0].terms_template
  expect((await agent.agree({ ticket: offered.body.ticket, template })).status).toBe(200)
})

it('a server that proves itself by its published key takes no secret from the file', async () => {
  const { db } = authority.database
  const named = { owner: ALICE, client_id: asClientId('https://signed.example') }
  await db
    .insertInto('resource_servers')
    .values({
      ...named,
      name: 'Signed',
      resource_uri: 'https://signed.example',
      status: 'active',
      auth: 'signature',
    })
    .execute()
  const given = { ...named, name: 'X', resource_uri: 'https://x.example', secret_sha256: sha256(FIRST) }
  expect(await inTransaction(db, tx => takeServerValues(tx, given))).toEqual([])
  expect(await readResourceServer(db, ALICE, named.client_id)).toMatchObject({
    auth: 'signature',
    secret_sha256: null,
    name: 'Signed',
  })
})

it('on SIGHUP the file is applied, one warning names what differs of the owner’s, and a fault changes nothing', async () => {
  const replica = await startAuthorityProcess(authority, { environment: { UMA_AS_LOG_LEVEL: 'info' } })
  try {
    const told = (words: RegExp) =>
      replica.lines().filter(({ msg }) => typeof msg === 'string' && words.test(msg))
    const before = server().client_secret
    server().client_secret = SECOND
    document.owners[0]!.tiers[0]!.name = 'Another name'
    document.owners[0]!.tiers[1]!.terms.expires_in = 7
    writeFileSync(file(), stringify(document))
    replica.hangup()
    await until(async () => told(/was read anew/).length === 1)
    await until(async () => told(/differs from the file/).length === 2)
    expect(told(/provisioning: changed/)).toMatchObject([{ item: CLIENT_ID, because: 'secret' }])
    expect(told(/differs from the file/)).toMatchObject([
      { kind: 'tier', item: 'reading', because: expect.stringMatching(/^name: /) },
      { kind: 'tier', item: 'statements', because: expect.stringMatching(/^expires_in: /) },
    ])
    expect([await taken(before), await taken(SECOND)]).toEqual([true, true])
    expect(JSON.stringify(replica.lines())).not.toContain(SECOND)

    document.owners[0]!.resource_servers[0]!.client_secret = 'short'
    writeFileSync(file(), stringify(document))
    replica.hangup()
    await until(async () => told(/was not applied/).length === 1)
    expect(JSON.stringify(told(/was not applied/))).toContain('the secret must be 16')
    expect(await taken(SECOND)).toBe(true)
  } finally {
    await replica.close()
  }
})

it('a wrong secret of a server on record is one line for the operator, with its id and no secret', async () => {
  const replica = await startAuthorityProcess(authority, { environment: { UMA_AS_LOG_LEVEL: 'info' } })
  const sent = async (client_id: string, client_secret: string): Promise<number> => {
    const grant = { grant_type: 'client_credentials', scope: 'uma_protection', owner: 'alice' }
    const body = new URLSearchParams({ ...grant, client_id, client_secret })
    return (await fetch(`${replica.publicUrl}/token`, { method: 'POST', body })).status
  }
  try {
    const wrong = 'a secret that nobody ever gave'
    expect(await sent('nobodys-tools', wrong)).toBe(401)
    for (let nth = 0; nth < 3; nth++) expect(await sent(CLIENT_ID, wrong)).toBe(401)
    const told = () => replica.lines().filter(({ msg }) => String(msg).startsWith('a wrong client secret'))
    await until(async () => told().length > 0)
    expect(await sent(CLIENT_ID, server().client_secret)).toBe(200)
    expect(told()).toMatchObject([{ level: 'warn', owner: 'alice', client_id: CLIENT_ID }])
    expect(JSON.stringify(replica.lines())).not.toMatch(/nobody ever gave|nobodys-tools/)
  } finally {
    await replica.close()
  }
})
