/**
 * Owners by a named administrator: contract, "Parties" (owner's authorization server), "Authentication" (a
 * change is accepted once).
 */
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Validator } from '@seriousme/openapi-schema-validator'
import { stringify } from 'yaml'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startAuthority } from '../../src/authority/main.ts'
import { readAuthorityConfig } from '../../src/config.ts'
import { beginRemoval } from '../../src/storage/authority/owners/removals.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import { asOwner } from '../../src/wire/identifiers.ts'
import { generatePrivateJwk, importPrivateJwk, publicJwk } from '../../src/wire/signatures/keys.ts'
import { onUndeclared, prepare, startTestAuthority, type TestAuthority } from '../support/authority.ts'
import { exchange, type OwnerCall } from '../support/authority.ts'
import * as seed from '../support/seed.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'

const olga = importPrivateJwk(generatePrivateJwk())

let authority: TestAuthority
let running: Awaited<ReturnType<typeof startAuthority>>
const directory = temporaryFolder('administration')
let adminUrl: string
let environment: Record<string, string>
beforeAll(async () => {
  authority = await startTestAuthority()
  const file = join(directory, 'administrators.yaml')
  writeFileSync(file, stringify({ administrators: [{ name: 'Olga', device_keys: [publicJwk(olga)] }] }))
  environment = {
    ...authority.environment,
    UMA_AS_ADMIN_LISTEN: '127.0.0.1:0',
    UMA_AS_ADMINISTRATORS: file,
    UMA_AS_ARCHIVES: join(directory, 'archives'),
  }
  running = await startAuthority(readAuthorityConfig(environment), { onUndeclared })
  adminUrl = `http://${running.adminAddress}`
})
afterAll(async () => {
  await running.close()
  await authority.close()
})

const signed = (call: OwnerCall) => prepare(adminUrl, authority.issuer, { key: olga }, call)
const ask = (call: OwnerCall) => exchange(signed(call))
const post = (target: string, json: unknown = {}) => ask({ method: 'POST', target, json })
const get = (target: string) => ask({ target })

describe('The administration of owners', () => {
  it('adds, shows, enrols, suspends, resumes and removes an owner, by a named administrator', async () => {
    expect(await post('/admin/owners', { owner: 'bea' })).toMatchObject({
      status: 201,
      body: { owner: 'bea', state: 'active', enrolled: false },
    })
    expect((await post('/admin/owners', { owner: 'bea' })).status).toBe(409)
    expect(await post('/admin/owners/bea/enrolment')).toMatchObject({
      status: 201,
      body: { owner: 'bea', code: expect.stringMatching(/^enrol_/) as string },
    })
    expect((await post('/admin/owners/bea/suspend')).body).toMatchObject({ state: 'suspended' })
    expect((await post('/admin/owners/bea/suspend')).status).toBe(409)
    expect((await post('/admin/owners/bea/resume')).body).toMatchObject({ state: 'active' })
    const { rows } = await authority.database.pool.query<{ data: unknown }>(
      `SELECT data FROM ledger WHERE owner = 'bea' AND kind = 'suspended'`,
    )
    expect(rows).toEqual([{ data: { by: 'authority', actor: { kind: 'authority', admin: 'Olga' } } }])
    expect(await ask({ method: 'DELETE', target: '/admin/owners/bea' })).toMatchObject({ status: 202 })
    await until(async () => (await get('/admin/owners/bea')).body.state === 'removed')
    expect(readdirSync(join(directory, 'archives'))).toEqual([expect.stringMatching(/^bea-.*\.ndjson$/)])
    expect((await ask({ method: 'DELETE', target: '/admin/owners/bea' })).status).toBe(409)
    expect((await get('/admin/owners?limit=1')).body).toMatchObject([{ owner: 'alice' }])
    expect((await get('/admin/owners?limit=1')).headers.get('link')).toContain('after=alice')
  })

  it('starts a recovery for an owner who has a credential, and no code that works at once', async () => {
    expect((await post('/admin/owners/alice/enrolment')).status).toBe(409)
    const { status, body } = await post('/admin/owners/alice/enrolment', { recover: true })
    expect(status).toBe(201)
    const waits = Date.parse(body.in_force_at as string) - Date.now()
    expect(waits).toBeGreaterThan(23 * 3_600_000)
    expect((await get('/admin/owners/alice')).body.recovery_at).toBe(body.in_force_at)
  })

  it('goes on at a start with a removal that was broken off', async () => {
    expect((await post('/admin/owners', { owner: 'zoe' })).status).toBe(201)
    const { db } = authority.database
    await inTransaction(db, tx => beginRemoval(tx, asOwner('zoe'), { kind: 'authority' }))
    expect((await get('/admin/owners/zoe')).body.state).toBe('removing')
    const started = await startAuthority(readAuthorityConfig(environment), { onUndeclared })
    try {
      await until(async () => (await get('/admin/owners/zoe')).body.state === 'removed')
    } finally {
      await started.close()
    }
    expect(readdirSync(join(directory, 'archives')).some(name => name.startsWith('zoe-'))).toBe(true)
  })

  it('accepts a change once', async () => {
    const prepared = signed({ method: 'POST', target: '/admin/owners', json: { owner: seed.name('once-') } })
    expect((await exchange(prepared)).status).toBe(201)
    expect(await exchange(prepared)).toMatchObject({ status: 401 })
  })

  it('adds an owner once, of many who ask at once', async () => {
    const owner = seed.name('race-')
    const replies = await Promise.all(Array.from({ length: 8 }, () => post('/admin/owners', { owner })))
    expect(replies.map(({ status }) => status).sort()).toEqual([201, ...Array.from({ length: 7 }, () => 409)])
  })

  it('takes no owner’s credential, and none at all', async () => {
    const byAlice = prepare(adminUrl, authority.issuer, authority.alice, { target: '/admin/owners' })
    expect((await exchange(byAlice)).status).toBe(401)
    expect((await ask({ target: '/admin/owners', sign: false })).status).toBe(401)
    const asOwner = prepare(authority.ownerUrl, authority.issuer, { key: olga }, { target: '/owner/pending' })
    expect((await exchange(asOwner)).status).toBe(401)
  })

  it('says 404 of who is not served', async () => {
    expect((await get('/admin/owners/nobody')).status).toBe(404)
    expect((await post('/admin/owners/nobody/suspend')).status).toBe(404)
    expect((await ask({ method: 'DELETE', target: '/admin/owners/nobody' })).status).toBe(404)
  })

  it('reads no ledger, decides nothing and edits no policy: it serves nothing else', async () => {
    const { body } = await ask({ target: '/openapi.json', sign: false })
    const { valid, errors } = await new Validator().validate(body as Record<string, unknown>)
    expect([valid, errors ?? []]).toEqual([true, []])
    expect(Object.keys(body.paths).sort()).toEqual([
      '/admin/owners',
      '/admin/owners/{owner}',
      '/admin/owners/{owner}/enrolment',
      '/admin/owners/{owner}/resume',
      '/admin/owners/{owner}/suspend',
      '/health',
      '/openapi.json',
      '/ready',
    ])
    for (const target of ['/owner/ledger', '/owner/policies', '/owner/pending'])
      expect((await get(target)).status).toBe(404)
  })

  it('is served nowhere unless it is configured', async () => {
    for (const base of [authority.publicUrl, authority.ownerUrl]) {
      const call = prepare(base, authority.issuer, { key: olga }, { target: '/admin/owners' })
      expect((await exchange(call)).status).toBe(404)
    }
  })
})
