/**
 * Who may speak for an owner: contract, "Authentication" (owner at the owner API), "Limits" (clock window).
 */
import { request as httpRequest } from 'node:http'
import { describe, expect, it } from 'vitest'
import { readConnection } from '../../src/storage/authority/connections/connections.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import { insertDeviceKey, revokeDeviceKey } from '../../src/storage/authority/credentials/device-keys.ts'
import { generatePrivateJwk, importPrivateJwk, publicJwk } from '../../src/wire/signatures/keys.ts'
import type { OwnerCall, PreparedCall } from '../support/authority.ts'
import * as seed from '../support/seed.ts'
import { asHandle, asOwner, type Handle } from '../../src/wire/identifiers.ts'
import { authorityStand } from '../support/stands.ts'

const authority = authorityStand({ owners: ['alice', 'bea'] })

const now = () => Math.floor(Date.now() / 1000)
const newKey = () => importPrivateJwk(generatePrivateJwk())
const PENDING = '/owner/pending'
const revoke = (handle: string): OwnerCall => ({
  method: 'POST',
  target: '/owner/connections/revoke',
  json: { handle },
})

describe('A signed owner request', () => {
  it('is accepted with an enrolled device key over the issuer’s authority', async () => {
    expect(await authority.call(authority.alice, { target: PENDING })).toMatchObject({
      status: 200,
      body: [],
    })
  })

  it('may cover authorization while it is absent, which counts as the empty string', async () => {
    const components = ['@method', '@authority', '@path', 'authorization']
    const reply = await authority.call(authority.alice, { target: PENDING, sign: { components } })
    expect(reply.status).toBe(200)
  })

  it.each([59, -59])('is accepted with created %i s off the clock', async offset => {
    const reply = await authority.call(authority.alice, {
      target: PENDING,
      sign: { created: now() + offset },
    })
    expect(reply.status).toBe(200)
  })

  it('over another address is told the @authority to sign, the issuer’s, whatever address it was sent to', async () => {
    const sign = { issuer: 'https://127.0.0.1:9101' }
    const headers = { 'x-forwarded-host': 'inner.example' }
    const { status, body } = await authority.call(authority.alice, { target: PENDING, sign, headers })
    expect(status).toBe(401)
    const told = (body as { error_description: string }).error_description
    expect(told).toContain(`The @authority to sign is ${new URL(authority.issuer).host}.`)
    expect(told).not.toMatch(/127\.0\.0\.1|inner/)
  })

  const REFUSED: [string, Partial<OwnerCall> | (() => Partial<OwnerCall>)][] = [
    ['without a signature', { sign: false }],
    ['without @method covered', { sign: { components: ['@authority', '@path'] } }],
    ['without @authority covered', { sign: { components: ['@method', '@path'] } }],
    ['without @path covered', { sign: { components: ['@method', '@authority'] } }],
    [
      'with a query that is not covered',
      { target: `${PENDING}?limit=1`, sign: { components: ['@method', '@authority', '@path'] } },
    ],
    ['without a keyid', { sign: { keyid: false } }],
    ['by a key that nobody enrolled', { sign: { key: newKey() } }],
    ['created 62 s ago', { sign: { created: now() - 62 } }],
    // Only now: a table is made long before its last test.
    ['created 70 s ahead', () => ({ sign: { created: now() + 70 } })],
    ['past its expires', { sign: { created: now() - 20, expires: now() - 10 } }],
    ['over the address of the listener', { sign: { issuer: 'https://127.0.0.1:9101' } }],
    ['with a malformed signature', { headers: { signature: 'sig1=:AAAA:' }, sign: false }],
    [
      'whose Signature field is no dictionary',
      { sign: false, headers: { signature: '((', 'signature-input': '((' } },
    ],
  ]
  it.each(REFUSED)('is refused 401 with a sentence when it is sent %s', async (_case, call) => {
    const changed = typeof call === 'function' ? call() : call
    const reply = await authority.call(authority.alice, { target: PENDING, ...changed })
    expect(reply).toMatchObject({ status: 401, body: { error: 'invalid_credential' } })
    expect(reply.body.error_description).toMatch(/\.$/)
    expect(reply.headers.get('cache-control')).toBe('no-store')
    expect(reply.headers.get('www-authenticate')).toMatch(/^Signature/)
  })

  const BODIES: [string, OwnerCall][] = [
    [
      'whose digest is not covered',
      { ...revoke(asHandle('x')), sign: { components: ['@method', '@authority', '@path'] } },
    ],
    ['whose digest is another body’s', { ...revoke(asHandle('x')), sign: { digestOf: '{}' } }],
  ]
  it.each(BODIES)('is refused 401 with a body %s', async (_case, call) => {
    expect(await authority.call(authority.alice, call)).toMatchObject({
      status: 401,
      body: { error: 'invalid_credential' },
    })
  })

  it('is refused when the key of one owner signs under the keyid of another', async () => {
    const { alice, owners } = authority
    const sign = { key: alice.key, keyid: owners['bea']!.key.thumbprint }
    expect((await authority.call(alice, { target: PENDING, sign })).status).toBe(401)
  })

  it('is refused when its method, path or query was changed on the way', async () => {
    const prepared = authority.prepare(authority.alice, { target: `${PENDING}?limit=1` })
    const changed: PreparedCall[] = [
      { ...prepared, url: prepared.url.replace('limit=1', 'limit=2') },
      { ...prepared, url: prepared.url.replace('pending', 'ledger') },
      { ...prepared, url: prepared.url.replace('?limit=1', '') },
    ]
    for (const call of changed) expect((await authority.send(call)).status).toBe(401)
    expect((await authority.send(prepared)).status).toBe(200)
  })

  it('is refused with two Authorization lines, of which Node would show only the first', async () => {
    const { url, headers } = authority.prepare(authority.alice, { target: PENDING })
    const status = await new Promise<number | undefined>((resolve, reject) => {
      const lines = [...Object.entries(headers).flat(), 'authorization', 'a', 'authorization', 'b']
      httpRequest(url, { headers: ['host', 'x', ...lines] }, answer => {
        answer.resume()
        resolve(answer.statusCode)
      })
        .on('error', reject)
        .end()
    })
    expect(status).toBe(400)
  })

  it.each(['Bearer', 'PoP'])('is not replaced by a token: %s credentials prove no owner', async scheme => {
    const headers = { authorization: `${scheme} ${await authority.pat()}` }
    expect((await authority.call(authority.alice, { target: PENDING, headers, sign: false })).status).toBe(
      401,
    )
  })

  it('acts on the owner whose key signed it, whatever it names', async () => {
    const { alice, owners, database } = authority
    const handle = seed.name('jkt:')
    await seed.seedConnection(database.db, asOwner('bea'), handle)
    expect((await authority.call(alice, revoke(handle))).status).toBe(404)
    expect((await authority.call(owners['bea']!, revoke(handle))).status).toBe(200)
  })

  it('is refused at once when its key is revoked, with the code of one never enrolled', async () => {
    const { alice, database } = authority
    const key = newKey()
    const row = { owner: asOwner('alice'), kid: key.thumbprint, jwk: publicJwk(key), name: 'phone' }
    await inTransaction(database.db, tx => insertDeviceKey(tx, row))
    const call = { target: PENDING, sign: { key } }
    expect((await authority.call(alice, call)).status).toBe(200)
    await inTransaction(database.db, tx => revokeDeviceKey(tx, asOwner('alice'), key.thumbprint))
    const revoked = await authority.call(alice, call)
    const unknown = await authority.call(alice, { target: PENDING, sign: { key: newKey() } })
    const refusal = ({ status, body }: typeof revoked) => ({ status, error: body.error })
    expect(refusal(revoked)).toEqual({ status: 401, error: 'invalid_credential' })
    expect(refusal(unknown)).toEqual(refusal(revoked))
  })
})

describe('Every operation of the owner API', () => {
  const OPERATIONS: ['GET' | 'POST', string][] = [
    ['GET', '/owner/pending'],
    ['POST', '/owner/pending/fam_x/decision'],
    ['GET', '/owner/ledger'],
    ['GET', '/owner/events'],
    ['GET', '/owner/policies'],
    ['GET', '/owner/policy-vocabulary'],
    ['GET', '/owner/resources'],
    ['GET', '/owner/connections'],
    ['POST', '/owner/connections/revoke'],
    ['GET', '/owner/operators'],
    ['POST', '/owner/operators/block'],
    ['POST', '/owner/operators/unblock'],
  ]
  it.each(OPERATIONS)('%s %s needs her credential', async (method, target) => {
    const json = method === 'POST' ? { json: {} } : {}
    const reply = await authority.call(authority.alice, { method, target, sign: false, ...json })
    expect(reply).toMatchObject({ status: 401, body: { error: 'invalid_credential' } })
    expect(reply.headers.get('content-type')).toMatch(/^application\/json/)
  })

  it('is guarded under every spelling that reaches it', async () => {
    for (const target of ['/owner/%70ending', '/owner//pending', '/owner/pending/', '/%6fwner/pending']) {
      const { status } = await authority.call(authority.alice, { target, sign: false })
      expect([401, 404]).toContain(status)
    }
  })

  it('answers HEAD under the same guard', async () => {
    expect(
      (await authority.call(authority.alice, { method: 'HEAD', target: PENDING, sign: false })).status,
    ).toBe(401)
    expect((await authority.call(authority.alice, { method: 'HEAD', target: PENDING })).status).toBe(200)
  })
})

describe('A signed owner request that changes anything is accepted once', () => {
  async function connected(): Promise<Handle> {
    const handle = seed.name('jkt:')
    await seed.seedConnection(authority.database.db, asOwner('alice'), handle)
    return handle
  }

  it('a second presentation of the same signature is refused 401, and changes nothing', async () => {
    const handle = await connected()
    const prepared = authority.prepare(authority.alice, revoke(handle))
    expect((await authority.send(prepared)).status).toBe(200)
    await seed.seedConnection(authority.database.db, asOwner('alice'), handle)
    const replayed = await authority.send(prepared)
    expect(replayed).toMatchObject({ status: 401, body: { error: 'invalid_credential' } })
    expect((await readConnection(authority.database.db, asOwner('alice'), handle))?.status).toBe('active')
  })

  it('of many presentations at once one alone changes something', async () => {
    for (let round = 0; round < 10; round++) {
      const prepared = authority.prepare(authority.alice, revoke(await connected()))
      const replies = await Promise.all(Array.from({ length: 16 }, () => authority.send(prepared)))
      expect(replies.map(reply => reply.status).sort()).toEqual([
        200,
        ...Array.from({ length: 15 }, () => 401),
      ])
    }
  })

  it('even if the label was renamed: the signature counts, not its spelling', async () => {
    const prepared = authority.prepare(authority.alice, revoke(await connected()))
    const renamed = {
      ...prepared,
      headers: {
        ...prepared.headers,
        signature: prepared.headers['signature']!.replace('sig1', 'other'),
        'signature-input': prepared.headers['signature-input']!.replace('sig1', 'other'),
      },
    }
    expect((await authority.send(prepared)).status).toBe(200)
    expect((await authority.send(renamed)).status).toBe(401)
  })

  it('one that was refused changed nothing and is not spent', async () => {
    const handle = seed.name('jkt:')
    const prepared = authority.prepare(authority.alice, revoke(handle))
    expect((await authority.send(prepared)).status).toBe(404)
    await seed.seedConnection(authority.database.db, asOwner('alice'), handle)
    expect((await authority.send(prepared)).status).toBe(200)
  })

  it('a request that only reads may be sent again', async () => {
    const prepared = authority.prepare(authority.alice, { target: PENDING })
    expect((await authority.send(prepared)).status).toBe(200)
    expect((await authority.send(prepared)).status).toBe(200)
  })
})
