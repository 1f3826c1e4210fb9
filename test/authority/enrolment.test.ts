/**
 * How an owner gets her first credential: contract, "Authentication" (owner at the owner API; no static owner
 * credential exists).
 */
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { inTransaction } from '../../src/storage/core/database.ts'
import { issueCode } from '../../src/authority/administration/recovery.ts'
import { insertDeviceKey, listDeviceKeys } from '../../src/storage/authority/credentials/device-keys.ts'
import {
  generatePrivateJwk,
  importPrivateJwk,
  publicJwk,
  type PrivateKey,
} from '../../src/wire/signatures/keys.ts'
import { startTestAuthority, type OwnerCall, type Reply } from '../support/authority.ts'
import { realmEnvironment, startRealmAuthority } from '../support/realm-authority.ts'
import * as seed from '../support/seed.ts'
import { asOwner, type Owner } from '../../src/wire/identifiers.ts'
import { startedOnce } from '../support/started.ts'
import { usherProgram } from '../support/usher-program.ts'

const CLI = usherProgram()
const run = promisify(execFile)

/** Served, and without any credential yet. */
let owner: Owner
const both = startedOnce(startRealmAuthority)
beforeEach(async () => {
  owner = await seed.seedOwner(both.authority.database.db)
})

const newKey = () => importPrivateJwk(generatePrivateJwk())
const issueFor = (whom: Owner, enrolmentSeconds: number) =>
  inTransaction(both.authority.database.db, tx =>
    issueCode(
      tx,
      { enrolmentSeconds, recoverySeconds: 0, accepted: { deviceKeys: true, issuer: undefined } },
      { owner: whom, recover: false, actor: { kind: 'authority' } },
    ),
  )
const issue = async (lifetimeSeconds = 3600) => (await issueFor(owner, lifetimeSeconds)).code
const enrolment = (code: string, key: PrivateKey): OwnerCall => ({
  method: 'POST',
  target: '/owner/enrolment',
  json: { code, name: 'laptop', jwk: publicJwk(key) },
  sign: { key },
})
const call = (request: OwnerCall) => both.authority.call(both.authority.alice, request)
const pendingOf = (key: PrivateKey) => call({ target: '/owner/pending', sign: { key } })
const keysOf = () => listDeviceKeys(both.authority.database.db, owner, { limit: 100 })
const refused = (reply: Reply) =>
  expect(reply).toMatchObject({ status: 401, body: { error: 'invalid_credential' } })

describe('A one-time code', () => {
  it('enrols the key that signs the request, which is hers from then on', async () => {
    const key = newKey()
    const reply = await call(enrolment(await issue(), key))
    expect(reply).toMatchObject({ status: 201, body: { owner, kid: key.thumbprint, name: 'laptop' } })
    expect((await pendingOf(key)).status).toBe(200)
    expect((await keysOf()).find(({ kid }) => kid === key.thumbprint)?.jwk).toEqual(publicJwk(key))
    const { body } = await call({ target: '/owner/ledger', sign: { key } })
    expect(body.entries).toMatchObject([
      {
        kind: 'credential_added',
        credential: 'device_key',
        kid: key.thumbprint,
        by: 'enrolment_code',
        actor: { kind: 'owner', credential: 'enrolment_code' },
      },
    ])
  })

  it('enrols the login that the request’s access token proves', async () => {
    const { access_token } = await both.realm.login(`of-${owner}`)
    const json = { code: await issue(), name: 'realm' }
    const reply = await both.bearing(access_token, { method: 'POST', target: '/owner/enrolment', json })
    expect(reply).toMatchObject({ status: 201, body: { owner, name: 'realm', subject: `of-${owner}` } })
    expect((await both.bearing(access_token, { target: '/owner/pending' })).status).toBe(200)
  })

  it('is used once', async () => {
    const code = await issue()
    expect((await call(enrolment(code, newKey()))).status).toBe(201)
    refused(await call(enrolment(code, newKey())))
    expect(await keysOf()).toHaveLength(1)
  })

  it('enrols one of many that present it at once', async () => {
    const code = await issue()
    const replies = await Promise.all(Array.from({ length: 8 }, () => call(enrolment(code, newKey()))))
    expect(replies.map(({ status }) => status).sort()).toEqual([201, ...Array.from({ length: 7 }, () => 401)])
    expect(await keysOf()).toHaveLength(1)
  })

  it('expires', async () => {
    const code = await issue(0)
    refused(await call(enrolment(code, newKey())))
  })

  it('enrols nothing once she has a credential by another way: that takes a recovery', async () => {
    const code = await issue()
    const hers = newKey()
    await inTransaction(both.authority.database.db, tx =>
      insertDeviceKey(tx, { owner, kid: hers.thumbprint, jwk: publicJwk(hers), name: 'hers' }),
    )
    refused(await call(enrolment(code, newKey())))
    expect(await keysOf()).toHaveLength(1)
  })

  it('ends the one before', async () => {
    const first = await issue()
    const second = await issue()
    refused(await call(enrolment(first, newKey())))
    expect((await call(enrolment(second, newKey()))).status).toBe(201)
  })

  it('is kept only as a hash', async () => {
    const code = await issue()
    const { rows } = await sql<{ row: string }>`
      SELECT enrolment_codes::text AS row FROM enrolment_codes WHERE owner = ${owner}`.execute(
      both.authority.database.db,
    )
    expect(rows).toHaveLength(1)
    expect(rows[0]!.row).not.toContain(code.split('.')[1]!)
  })

  it('does not name her, and has 256 random bits', async () => {
    const code = await issue()
    expect(code).not.toContain(owner)
    expect(code).toMatch(/^enrol_[\w-]+\.[\w-]{43}$/)
    expect(await issue()).not.toBe(code)
  })

  it('is not spent by what it could not enrol: a key that is enrolled already is 409', async () => {
    const code = await issue()
    expect((await call(enrolment(code, both.authority.alice.key))).status).toBe(409)
    expect((await call(enrolment(code, newKey()))).status).toBe(201)
  })

  it('is not to be had for an owner who is not served', async () => {
    await expect(issueFor(asOwner('nobody'), 60)).rejects.toMatchObject({ code: 'not_found' })
  })
})

describe('Unknown, used, expired and another’s codes', () => {
  it('are refused alike: 401, the same words', async () => {
    const used = await issue()
    await call(enrolment(used, newKey()))
    const tag = /^enrol_(.+)\./.exec(used)![1]!
    const secret = 'A'.repeat(43)
    const codes = [used, `enrol_${tag}.${secret}`, `enrol_unknown.${secret}`, 'enrol', 'x'.repeat(200)]
    const replies = []
    for (const code of codes) replies.push(await call(enrolment(code, newKey())))
    for (const reply of replies) refused(reply)
    expect(new Set(replies.map(({ text }) => text)).size).toBe(1)
  })
})

describe('Enrolment proves possession', () => {
  const CASES: [string, (request: OwnerCall, key: PrivateKey) => OwnerCall][] = [
    ['without a signature', request => ({ ...request, sign: false })],
    ['signed by another key', request => ({ ...request, sign: { key: newKey() } })],
    [
      'signed by another key under its kid',
      (request, key) => ({ ...request, sign: { key: newKey(), keyid: key.thumbprint } }),
    ],
    [
      'without its body covered',
      (request, key) => ({ ...request, sign: { key, components: ['@method', '@authority', '@path'] } }),
    ],
    ['with another body’s digest', (request, key) => ({ ...request, sign: { key, digestOf: '{}' } })],
    ['over another authority', (request, key) => ({ ...request, sign: { key, issuer: 'https://other' } })],
    [
      'signed long ago',
      (request, key) => ({ ...request, sign: { key, created: Math.floor(Date.now() / 1000) - 90 } }),
    ],
  ]
  it.each(CASES)('a request %s is 401, and the code stays good', async (_case, change) => {
    const code = await issue()
    const key = newKey()
    refused(await call(change(enrolment(code, key), key)))
    expect(await keysOf()).toEqual([])
    expect((await call(enrolment(code, key))).status).toBe(201)
  })

  it('a signature without the key it is by is 401; with a bearer token beside it, 400', async () => {
    const code = await issue()
    const key = newKey()
    const bare = { ...enrolment(code, key), json: { code, name: 'laptop' } }
    refused(await call(bare))
    const { access_token } = await both.realm.login('sub-x')
    const headers = { authorization: `Bearer ${access_token}` }
    expect((await call({ ...enrolment(code, key), headers })).status).toBe(400)
    refused(await both.bearing(access_token, { ...enrolment(code, key) }))
  })

  it.each([
    ['no code', { name: 'laptop' }],
    ['no name', { code: 'x' }],
    ['a private key', { code: 'x', name: 'laptop', jwk: generatePrivateJwk() }],
    ['an unknown member', { code: 'x', name: 'laptop', owner: 'alice' }],
  ])('a body with %s is 400', async (_case, json) => {
    const reply = await call({ method: 'POST', target: '/owner/enrolment', json })
    expect(reply).toMatchObject({ status: 400, body: { error: 'invalid_request' } })
  })

  it('is not there on the public listener', async () => {
    expect((await both.authority.request('POST', '/owner/enrolment')).status).toBe(404)
  })
})

describe('A kind of credential that is switched off', () => {
  it.each(['device-key', 'oidc'])('is not enrolled where %s alone is taken', async only => {
    const environment = { ...realmEnvironment(both.realm.issuer), UMA_AS_OWNER_AUTH: only }
    const replica = await startTestAuthority({ beside: both.authority, environment })
    const code = await issue()
    const { access_token } = await both.realm.login(`of-${owner}`)
    const byKey = await replica.call(replica.alice, enrolment(code, newKey()))
    const byToken = await replica.call(replica.alice, {
      method: 'POST',
      target: '/owner/enrolment',
      json: { code, name: 'realm' },
      headers: { authorization: `Bearer ${access_token}` },
      sign: false,
    })
    expect([byKey.status, byToken.status].sort()).toEqual([201, 401])
    expect(byKey.status).toBe(only === 'device-key' ? 201 : 401)
    await replica.close()
  })
})

describe('Guessing', () => {
  it('is slowed down per source: 429 with Retry-After, also for the right code, until it has waited', async () => {
    const replica = await startTestAuthority({ beside: both.authority })
    const code = await issue()
    const statuses: number[] = []
    for (let n = 0; n < 25; n++)
      statuses.push((await replica.call(replica.alice, enrolment(`enrol_x.${n}`, newKey()))).status)
    expect(statuses.slice(0, 20)).toEqual(Array.from({ length: 20 }, () => 401))
    expect(statuses.at(-1)).toBe(429)
    const reply = await replica.call(replica.alice, enrolment(code, newKey()))
    expect(reply).toMatchObject({ status: 429, body: { error: 'temporarily_unavailable' } })
    expect(Number(reply.headers.get('retry-after'))).toBeGreaterThan(0)
    // Her other requests are not slowed down with it.
    expect((await replica.call(replica.alice, { target: '/owner/pending' })).status).toBe(200)
    await replica.close()
  })
})

describe('usher authority enrol, and usher owner enrol', () => {
  let directory: string
  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), 'usher-enrol-'))
  })
  afterAll(() => rmSync(directory, { recursive: true }))
  const usher = (args: string[], env: Record<string, string>) =>
    run(process.execPath, [CLI, ...args], { env: { PATH: process.env['PATH'] ?? '', ...env } })
  const operator = () => ({ DATABASE_URL: both.authority.database.url })

  it('take an owner from nothing to her first decision', async () => {
    const printed = await usher(['authority', 'enrol', '--owner', owner], operator())
    expect(printed.stdout).toMatch(/^enrol_[\w-]+\.[\w-]{43}\n$/)
    expect(printed.stderr).toContain(`For ${owner} alone, once, until `)
    const hers = {
      UMA_OWNER_API: both.authority.ownerUrl,
      UMA_OWNER_ISSUER: both.authority.issuer,
      UMA_OWNER_KEY: join(directory, 'key.json'),
    }
    const code = printed.stdout.trim()
    const enrolled = await usher(['owner', 'enrol', '--code', code, '--name', 'laptop'], hers)
    expect(enrolled.stdout).toBe(`laptop decides for ${owner} now.\n`)
    expect(enrolled.stderr).toContain('Made a device key')
    expect((await usher(['owner', 'pending'], hers)).stdout).toBe('Nothing waits for you.\n')
    const keys = JSON.parse((await usher(['owner', '--json', 'keys'], hers)).stdout) as object[]
    expect(keys).toMatchObject([{ name: 'laptop', revoked_at: null }])
  })

  it('print JSON for scripts, with the life that the settings give', async () => {
    const env = { ...operator(), UMA_AS_ENROLMENT_SECONDS: '120' }
    const { stdout } = await usher(['authority', 'enrol', '--owner', owner, '--json'], env)
    const { code, expires_at, ...rest } = JSON.parse(stdout) as Record<string, string>
    expect(rest).toEqual({ owner })
    expect(code).toMatch(/^enrol_/)
    const left = (Date.parse(expires_at!) - Date.now()) / 1000
    expect(left).toBeGreaterThan(60)
    expect(left).toBeLessThan(121)
  })

  it('say who is not served, and fail', async () => {
    const failed = usher(['authority', 'enrol', '--owner', 'nobody'], operator())
    await expect(failed).rejects.toMatchObject({
      code: 2,
      stderr: expect.stringContaining('usher authority owner add nobody') as string,
    })
  })
})
