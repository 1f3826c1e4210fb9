/**
 * Another credential for an owner who can use none of her own: contract, "Authentication" (owner at the owner
 * API; no static owner credential exists).
 */
import { sql } from 'kysely'
import { beforeEach, describe, expect, it } from 'vitest'
import { issueCode } from '../../src/authority/administration/recovery.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import { insertDeviceKey, listDeviceKeys } from '../../src/storage/authority/credentials/device-keys.ts'
import {
  generatePrivateJwk,
  importPrivateJwk,
  publicJwk,
  type PrivateKey,
} from '../../src/wire/signatures/keys.ts'
import { asOwner, type Owner } from '../../src/wire/identifiers.ts'
import type { OwnerCall, Reply } from '../support/authority.ts'
import * as seed from '../support/seed.ts'
import { authorityStand } from '../support/stands.ts'

const DELAY = 86_400
const authority = authorityStand()

/** Hers is enrolled. */
let owner: Owner
let hers: PrivateKey
beforeEach(async () => {
  owner = await seed.seedOwner(authority.database.db)
  hers = newKey()
  const jwk = publicJwk(hers)
  await inTransaction(authority.database.db, tx =>
    insertDeviceKey(tx, { owner, kid: hers.thumbprint, jwk, name: 'lost' }),
  )
})

const newKey = () => importPrivateJwk(generatePrivateJwk())
const issue = (recover: boolean, whom = owner) =>
  inTransaction(authority.database.db, tx =>
    issueCode(
      tx,
      { enrolmentSeconds: 3_600, recoverySeconds: DELAY, accepted: { deviceKeys: true, issuer: undefined } },
      { owner: whom, recover, actor: { kind: 'authority', admin: 'olga' } },
    ),
  )
const call = (key: PrivateKey, request: OwnerCall) =>
  authority.call(authority.alice, { ...request, sign: { key } })
const enrol = (code: string, key: PrivateKey) =>
  call(key, { method: 'POST', target: '/owner/enrolment', json: { code, name: 'new', jwk: publicJwk(key) } })
const cancel = () => call(hers, { method: 'DELETE', target: '/owner/recovery' })
const refused = (reply: Reply) =>
  expect(reply).toMatchObject({ status: 401, body: { error: 'invalid_credential' } })
/** As if so many seconds had passed. */
const pass = (seconds: number) =>
  sql`
  UPDATE recoveries SET in_force_at = in_force_at - ${seconds} * interval '1 second',
    expires_at = expires_at - ${seconds} * interval '1 second' WHERE owner = ${owner}`.execute(
    authority.database.db,
  )

describe('A code for an owner who has a credential', () => {
  it('is refused but as a recovery', async () => {
    await expect(issue(false)).rejects.toMatchObject({ code: 'conflict' })
    expect(await issue(true)).toMatchObject({ owner, in_force_at: expect.any(String) as string })
  })

  it('is told to her at once, by ledger and event', async () => {
    const { in_force_at, expires_at } = await issue(true)
    const { body } = await call(hers, { target: '/owner/ledger?kind=recovery_started' })
    const data = { in_force_at, expires_at, by: 'authority', actor: { kind: 'authority', admin: 'olga' } }
    expect(body.entries).toMatchObject([{ kind: 'recovery_started', ...data }])
    const { rows } = await authority.database.pool.query(
      `SELECT event, data FROM events WHERE owner = $1 AND event = 'recovery'`,
      [owner],
    )
    expect(rows).toEqual([{ event: 'recovery', data: { what: 'started', ...data } }])
    const waiting = await call(hers, { target: '/owner/recovery' })
    expect(waiting.body.recovery).toMatchObject({ in_force_at, expires_at })
  })

  it('is good only once the delay has passed, once, and until it expires', async () => {
    const { code } = await issue(true)
    const key = newKey()
    refused(await enrol(code, key))
    await pass(DELAY - 60)
    refused(await enrol(code, key))
    await pass(60)
    expect(await enrol(code, key)).toMatchObject({ status: 201, body: { owner } })
    refused(await enrol(code, newKey()))
    const { body } = await call(key, { target: '/owner/ledger?kind=credential_added' })
    expect(body.entries).toMatchObject([{ kid: key.thumbprint, by: 'recovery' }])
    const late = await issue(true)
    await pass(DELAY + 3_601)
    refused(await enrol(late.code, newKey()))
  })

  it('is ended by any credential of hers, which the ledger tells', async () => {
    const { code } = await issue(true)
    expect((await cancel()).status).toBe(200)
    await pass(DELAY)
    refused(await enrol(code, newKey()))
    expect((await cancel()).status).toBe(404)
    const { body } = await call(hers, { target: '/owner/ledger?kind=recovery_cancelled' })
    expect(body.entries).toMatchObject([{ by: 'owner', actor: { kid: hers.thumbprint } }])
    expect((await call(hers, { target: '/owner/recovery' })).body).toEqual({ recovery: null })
  })

  it('is not ended by another owner’s', async () => {
    const { code } = await issue(true)
    expect(
      (await authority.call(authority.alice, { method: 'DELETE', target: '/owner/recovery' })).status,
    ).toBe(404)
    await pass(DELAY)
    expect((await enrol(code, newKey())).status).toBe(201)
  })

  it('ends the one before', async () => {
    const first = await issue(true)
    const second = await issue(true)
    await pass(DELAY)
    refused(await enrol(first.code, newKey()))
    expect((await enrol(second.code, newKey())).status).toBe(201)
  })

  it('ended at the moment at which it comes in force is used or ended, never both', async () => {
    for (let round = 0; round < 10; round++) {
      const { code } = await issue(true)
      const before = (await listDeviceKeys(authority.database.db, owner, { limit: 1_000 })).length
      await pass(DELAY)
      const [enrolled, cancelled] = await Promise.all([enrol(code, newKey()), cancel()])
      const after = (await listDeviceKeys(authority.database.db, owner, { limit: 1_000 })).length
      expect([
        [201, 404, 1],
        [401, 200, 0],
      ]).toContainEqual([enrolled.status, cancelled.status, after - before])
    }
  })

  it('of an owner without one is good at once, whether or not it is called a recovery', async () => {
    const fresh = await seed.seedOwner(authority.database.db)
    const { code, in_force_at } = await issue(true, fresh)
    expect(in_force_at).toBeUndefined()
    expect(await enrol(code, newKey())).toMatchObject({ status: 201, body: { owner: fresh } })
    await expect(issue(true, asOwner('nobody'))).rejects.toMatchObject({ code: 'not_found' })
  })
})

describe('GET /owner/export', () => {
  it('gives her all that is stored of hers, at any time, page by page', async () => {
    const whole = await call(hers, { target: '/owner/export?limit=1000' })
    expect(whole).toMatchObject({ status: 200, body: { next: null } })
    expect(whole.body.lines).toContainEqual({
      part: 'device_keys',
      row: expect.objectContaining({ kid: hers.thumbprint, name: 'lost' }) as object,
    })
    const first = await call(hers, { target: '/owner/export?limit=2' })
    const second = await call(hers, { target: `/owner/export?limit=1000&after=${first.body.next as string}` })
    expect([...first.body.lines, ...second.body.lines]).toEqual(whole.body.lines)
    expect((await call(hers, { target: '/owner/export?after=x' })).status).toBe(400)
  })
})
