/** contract, "Owner API" and "Authentication" (owner at the owner API), seen from the owner's client. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createOwnerClient, readAll, type OwnerClient } from '../../src/owner/index.ts'
import { ApiError } from '../../src/client/api-error.ts'
import { readNumbered } from '../../src/client/exchange.ts'
import type { Received, Reply } from '../support/scripted-http.ts'
import { startScriptedOwnerApi, type ScriptedOwnerApi } from '../support/scripted-owner-api.ts'
import { newKey } from '../support/wire-samples.ts'

const issuer = 'https://as.example.com'
const key = newKey()
let answers: Map<string, (received: Received) => Reply>
let api: ScriptedOwnerApi
let client: OwnerClient
beforeEach(async () => {
  answers = new Map()
  api = await startScriptedOwnerApi({ issuer, key }, received => answers.get(received.path)?.(received))
  client = createOwnerClient({ api: api.origin, issuer, key })
})
afterEach(() => api.close())

const answer = (path: string, reply: Reply | ((received: Received) => Reply)) =>
  answers.set(path, typeof reply === 'function' ? reply : () => reply)

describe('every request', () => {
  it("is signed by the device key over the issuer's authority, wherever the API is reached", async () => {
    answer('/owner/connections', { body: [] })
    expect(await readAll(client.connections())).toEqual([])
    expect(api.received[0]!.headers.host).toBe(new URL(api.origin).host)
    const other = createOwnerClient({ api: api.origin, issuer: 'https://other.example', key })
    await expect(readAll(other.connections())).rejects.toMatchObject({
      code: 'invalid_credential',
      status: 401,
    })
  })

  it('with a body carries its digest, covered', async () => {
    answer('/owner/pending/fam_1/decision', { body: { family: 'fam_1', decision: 'approved', by: 'owner' } })
    expect(await client.decide('fam_1', 'approved')).toEqual({
      family: 'fam_1',
      decision: 'approved',
      by: 'owner',
    })
    const [{ body, headers }] = api.received as [Received]
    expect(JSON.parse(body.toString())).toEqual({ decision: 'approved' })
    expect(headers['signature-input']).toContain('"content-digest"')
  })

  it('is signed anew, so that an equal request in the same second is not taken for a replay', async () => {
    answer('/owner/connections/revoke', { body: { handle: 'h', status: 'revoked', rpts_deactivated: 0 } })
    const still = createOwnerClient({
      api: api.origin,
      issuer,
      key,
      now: () => Math.floor(Date.now() / 1000),
    })
    await still.revoke('h')
    await still.revoke('h')
    expect(api.signatures.size).toBe(2)
  })

  it('names a family as one path segment, whatever characters it has', async () => {
    answer('/owner/pending/..%2Fconnections%2Frevoke/decision', { body: { family: 'x' } })
    await client.decide('../connections/revoke', 'denied')
    expect(api.received[0]!.path).toBe('/owner/pending/..%2Fconnections%2Frevoke/decision')
  })

  it('may go to an API that stands below a path', async () => {
    const below = createOwnerClient({ api: `${api.origin}/base/`, issuer, key })
    answer('/base/owner/policies', { body: { tiers: [] } })
    expect(await below.policies()).toEqual([])
  })
})

describe('a list is read to its end', () => {
  it('by its Link, whose query alone is followed', async () => {
    answer('/owner/pending', ({ query }) =>
      query === undefined
        ? {
            headers: {
              link: `<https://elsewhere.example/owner/pending?after=fam_2&limit=2>; rel="next", <x>; rel="last"`,
            },
            body: [{ family: 'fam_1' }, { family: 'fam_2' }],
          }
        : { headers: { link: '</other>; rel=prev' }, body: [{ family: 'fam_3' }] },
    )
    expect((await readAll(client.pending())).map(item => item.family)).toEqual(['fam_1', 'fam_2', 'fam_3'])
    expect(api.to('/owner/pending').map(one => one.query)).toEqual([undefined, 'after=fam_2&limit=2'])
  })

  it('by the `next` of the ledger, its filters kept', async () => {
    answer('/owner/ledger', ({ query }) => {
      const after = Number(new URLSearchParams(query).get('after') ?? 0)
      return { body: { entries: [{ seq: after + 1, kind: 'touched' }], next: after < 2 ? after + 1 : null } }
    })
    const entries = await readAll(client.ledger({ handle: 'jkt:a b', kind: 'touched' }))
    expect(entries.map(entry => entry.seq)).toEqual([1, 2, 3])
    expect(api.received.map(one => one.query)).toEqual([
      'handle=jkt%3Aa+b&kind=touched',
      'handle=jkt%3Aa+b&kind=touched&after=1',
      'handle=jkt%3Aa+b&kind=touched&after=2',
    ])
  })

  it('but no further than was asked for', async () => {
    answer('/owner/ledger', { body: { entries: [{ seq: 1 }, { seq: 2 }], next: 2 } })
    expect(await readAll(client.ledger({ limit: 3 }))).toHaveLength(3)
    expect(api.received).toHaveLength(2)
  })

  it('and is said to be cut if it does not end after as many pages as may be', async () => {
    answer('/owner/ledger', ({ query }) => {
      const after = Number(new URLSearchParams(query).get('after') ?? 0)
      return { body: { entries: [{ seq: after + 1 }], next: after + 1 } }
    })
    const read: number[] = []
    const reading = async (): Promise<void> => {
      const entries = readNumbered<{ seq: number }>(client.access, '/owner/ledger', 'entries', {
        pagesMax: 3,
      })
      for await (const { seq } of entries) read.push(seq)
    }
    await expect(reading()).rejects.toMatchObject({ code: 'list_endless', temporary: false })
    expect([read, api.received.at(-1)!.query]).toEqual([[1, 2, 3], 'after=2'])
  })

  it('and is said to be cut at a page that names itself as the one after it', async () => {
    answer('/owner/resources', { headers: { link: '<?after=x>; rel="next"' }, body: [{ id: 'x' }] })
    await expect(readAll(client.resources())).rejects.toMatchObject({ code: 'list_endless' })
    expect(api.received).toHaveLength(2)
  })

  it('and ends at an empty page, even one that names another', async () => {
    answer('/owner/resources', { headers: { link: '<?after=x>; rel="next"' }, body: [] })
    expect(await readAll(client.resources())).toEqual([])
  })
})

describe('a refusal', () => {
  it.each([
    [
      404,
      { error: 'not_found', error_description: 'Nothing waits.' },
      { code: 'not_found', detail: 'Nothing waits.', temporary: false },
    ],
    [409, { error: 'conflict' }, { code: 'conflict', temporary: false }],
    [503, { error: 'temporarily_unavailable' }, { code: 'temporarily_unavailable', temporary: true }],
    [502, '<h1>bad gateway</h1>', { code: 'http_502', temporary: true }],
  ])('%i keeps its own words', async (status, body, expected) => {
    answer('/owner/pending/f/decision', { status, body })
    const refusal: unknown = await client.decide('f', 'denied').catch((error: unknown) => error)
    expect(refusal).toBeInstanceOf(ApiError)
    expect(refusal).toMatchObject({ ...expected, status })
  })

  it.each([
    ['no JSON', { body: 'hello' }, 'answer_malformed'],
    ['no list', { body: {} }, 'answer_malformed'],
    ['too much', { body: `["${'x'.repeat(5 << 20)}"]` }, 'answer_too_large'],
    ['a redirect', { status: 302, headers: { location: '/owner/x' } }, 'redirect_refused'],
  ])('of ours meets an answer with %s', async (_what, reply, code) => {
    answer('/owner/connections', reply)
    await expect(readAll(client.connections())).rejects.toMatchObject({ code })
    expect(api.received).toHaveLength(1)
  })

  it('of nobody is the API being out of reach', async () => {
    await api.close()
    await expect(client.policies()).rejects.toMatchObject({ code: 'unreachable', temporary: true })
  })
})

describe('an address', () => {
  it.each([
    'http://as.example.com',
    'http://10.0.0.1:9101',
    'http://localhost:9101',
    'http://127.0.0.1.nip.io:9101',
    'ftp://127.0.0.1',
    'https://u:p@as.example.com',
    'https://as.example.com?x',
  ])('%s is no place to send an owner’s decisions to', url => {
    expect(() => createOwnerClient({ api: url, issuer, key })).toThrow('address_refused')
    expect(() => createOwnerClient({ api: url, issuer, token: 'realm-token' })).toThrow('address_refused')
  })
})
