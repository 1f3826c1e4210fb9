/**
 * What administrators of an organization see at a member's authority, and by which tokens: contract,
 * "Organization membership, on the member's authorization server" (`/org/admin/{owner}/...`).
 */
import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { signJws } from '../../src/wire/signatures/jws.ts'
import { generatePrivateJwk, importPrivateJwk } from '../../src/wire/signatures/keys.ts'
import { exchange } from '../support/authority.ts'
import { startMembershipStand } from '../support/membership.ts'
import { askAdmin, organizationKey, prepareAdmin, type AdminCall } from '../support/organization-admin.ts'
import { startedOnce } from '../support/started.ts'
import { decide, pendingAt, protectionCall, testAgent, type TestAgent } from '../support/test-agent.ts'

const SECRET = `planted-${randomBytes(6).toString('hex')}`
const SINCE = { seconds: 0 }
let own: TestAgent
let known: TestAgent
let asking: TestAgent

const stand = startedOnce(async () => {
  const started = await startMembershipStand({ authority: { owners: ['alice', 'bea'] } })
  const { authority } = started
  const { alice } = authority
  own = testAgent(authority)
  await own.granted('statement_read', { reason: `${SECRET} of her own` })
  known = testAgent(authority)
  await known.granted('portfolio_read')
  const joined = await started.joined()
  if (joined.status !== 200) throw new Error(joined.text)
  SINCE.seconds = Math.floor(Date.now() / 1000)
  const { rpt } = await known.granted('portfolio_read')
  const json = { handle: known.handle, label: SECRET }
  await authority.call(alice, { method: 'PUT', target: '/owner/connections/label', json })
  await authority.call(alice, {
    method: 'PUT',
    target: '/owner/policies/reading',
    json: { name: `${SECRET} tier` },
  })
  const jti = JSON.parse(Buffer.from(rpt.split('.')[1]!, 'base64url').toString()) as Record<string, string>
  await protectionCall(authority, '/audit/access', {
    family: jti['family']!,
    tool: 'portfolio_read',
    jti: jti['jti']!,
    summary: SECRET,
  })
  asking = testAgent(authority)
  await asking.ask('portfolio_read', { reason: 'the report is due' })
  await own.ask('place_trade', {}).catch(() => undefined)
  await testAgent(authority).ask('statement_read', { reason: SECRET })
  return started
})

const get = (target: string, call: Partial<AdminCall> = {}) => askAdmin(stand, { target, ...call })
/** Every name of a member, however deep. */
const names = (value: unknown): string[] => {
  if (Array.isArray(value)) return value.flatMap(names)
  if (value === null || typeof value !== 'object') return []
  return Object.entries(value).flatMap(([name, below]) => [name, ...names(below)])
}

describe('An administrator of her organization sees', () => {
  it('of the requests that wait those for what it governs, without how she judges them', async () => {
    const { status, body } = await get('/pending')
    expect(status).toBe(200)
    const hers = (await pendingAt(stand.authority)).find(({ handle }) => handle === asking.handle)!
    const { because, tier_name, assurance_notes, opens, item, item_s256, standing, ...rest } = hers
    expect([because, tier_name, assurance_notes, opens, item, item_s256]).not.toContain(undefined)
    expect(body).toEqual([rest])
    expect(standing === undefined || !names(body).includes('standing')).toBe(true)
  })

  it('of her connections those that reached what it governs since she joined, and how', async () => {
    const { status, body } = await get('/connections')
    expect(status).toBe(200)
    expect(body).toEqual([
      {
        handle: known.handle,
        identity: 'pseudonymous',
        status: 'active',
        first_used: expect.any(String),
        last_used: expect.any(String),
        resources: ['alice/portfolio'],
      },
    ])
    expect(Date.parse(body[0].first_used)).toBeGreaterThanOrEqual(SINCE.seconds * 1000)
  })

  it('of the ledger what is about it since she joined, without facts and parameters', async () => {
    const { status, body } = await get('/ledger')
    expect(status).toBe(200)
    const entries = body.entries as Record<string, unknown>[]
    expect(entries.map(({ kind }) => kind)).toEqual(['promised', 'touched', 'promised'])
    for (const { resource_id } of entries) expect(resource_id).toBe('alice/portfolio')
    const shown = new Set(entries.flatMap(names))
    expect([...shown].sort()).toEqual(
      'at effect family handle kind resource_id scopes seq template_id tool ts'.split(' '),
    )
  })

  it('nothing of what is hers alone, whatever he asks for', async () => {
    const pages = await Promise.all(
      ['/pending', '/connections', '/operators', '/ledger', '/ledger?after=1&limit=2'].map(target =>
        get(target),
      ),
    )
    for (const { status, text } of pages) {
      expect(status).toBe(200)
      expect(text).not.toContain(SECRET)
      expect(text).not.toContain(own.handle)
      expect(text).not.toContain('statement')
      expect(text).not.toContain(stand.alice.key.thumbprint)
    }
  })

  it('page by page, and of an item that is not for him no more than of one that never was', async () => {
    const [first] = (await get('/ledger?limit=1')).body.entries as { seq: number }[]
    const page = await get(`/ledger?after=${first!.seq}&limit=1`)
    expect(page.body.entries).toHaveLength(1)
    expect(page.body.next).toBe(page.body.entries[0].seq)
    const hers = (await pendingAt(stand.authority)).find(({ resource_id }) =>
      String(resource_id).includes('statements'),
    )!
    const asked = await get(`/pending?after=${hers.family}`)
    const unknown = await get(`/pending?after=${hers.family.slice(0, -1)}0`)
    expect([asked.status, asked.text]).toEqual([400, unknown.text])
  })
})

const soon = () => Math.floor(Date.now() / 1000)

describe('A token of an organization', () => {
  it.each<[string, NonNullable<AdminCall['claims']>, number]>([
    ['of another issuer', { iss: 'https://elsewhere.example' }, 401],
    ['of no issuer', { iss: undefined }, 401],
    ['for another server', { aud: 'https://elsewhere.example' }, 401],
    ['for no server', { aud: undefined }, 401],
    ['about another owner', { sub: 'bea' }, 401],
    ['about nobody', { sub: undefined }, 401],
    ['that has expired', { iat: soon() - 100, exp: soon() - 1 }, 401],
    ['without an end', { exp: undefined }, 401],
    ['for longer than five minutes', { exp: soon() + 400 }, 401],
    ['that begins only later', { iat: soon() + 200, exp: soon() + 300 }, 401],
    ['without a beginning', { iat: undefined }, 401],
    ['for another method', { htm: 'POST' }, 401],
    ['for no method', { htm: undefined }, 401],
    ['for another address', { htu: 'https://elsewhere.example/org/admin/alice/pending' }, 401],
    ['for no address', { htu: undefined }, 401],
    ['for a body where there is none', { body_s256: 's256:of-something' }, 401],
    ['of no administrator', { admin: undefined }, 401],
    ['of an administrator with a NUL', { admin: 'in\0es' }, 401],
    ['without a name of its own', { jti: undefined }, 401],
    ['of no membership', { membership: undefined }, 401],
    ['of a membership that has ended', { membership: 'another' }, 409],
  ])('%s opens nothing', async (_, claims, status) => {
    const reply = await get('/pending', { claims })
    expect(reply.status).toBe(status)
    expect(reply.body.error).toBe(status === 401 ? 'invalid_token' : 'conflict')
  })

  it('is for one path alone, whatever its query', async () => {
    const prepared = await prepareAdmin(stand, { target: '/pending' })
    const other = prepared.url.replace('/pending', '/connections')
    expect((await exchange({ ...prepared, url: other })).status).toBe(401)
    expect((await exchange({ ...prepared, url: `${prepared.url}?limit=5` })).status).toBe(200)
    const beside = prepared.url.replace('/alice/', '/bea/')
    expect((await exchange({ ...prepared, url: beside })).status).toBe(401)
  })

  it('is by a key that it publishes, and of its own kind', async () => {
    expect((await get('/pending', { key: importPrivateJwk(generatePrivateJwk()) })).status).toBe(401)
    const prepared = await prepareAdmin(stand, { target: '/pending' })
    const [, payload] = prepared.headers['authorization']!.split('.')
    const claims = JSON.parse(Buffer.from(payload!, 'base64url').toString()) as object
    const notice = signJws({ typ: 'ext-org-notice+jwt', payload: claims }, organizationKey(stand))
    for (const authorization of [`Bearer ${notice}`, 'Bearer x', 'Bearer', 'Basic eDp5', '']) {
      const reply = await exchange({ ...prepared, headers: { authorization } })
      expect([authorization, reply.status]).toEqual([authorization, 401])
      expect(reply.headers.get('www-authenticate')).toContain('Bearer')
    }
  })

  it('about an owner who is no member is 403, and about one who is not here 404', async () => {
    expect((await get('/pending', { owner: 'bea' })).status).toBe(403)
    expect((await get('/pending', { owner: 'nobody' })).status).toBe(404)
  })

  it('is good at the address that the metadata names', async () => {
    const { body } = await stand.authority.request('GET', '/.well-known/agents-configuration')
    expect(body.org_admin_endpoint).toBe(`${stand.authority.ownerUrl}/org/admin`)
    expect((await stand.authority.request('GET', '/org/admin/alice/pending')).status).toBe(404)
  })
})

describe('Once she has left', () => {
  it('no administrator sees anything, nor what was before when she joins again', async () => {
    await decide(stand.authority, asking.handle, 'approved')
    await stand.own('DELETE')
    expect((await get('/connections')).status).toBe(403)
    await stand.joined()
    for (const list of ['/pending', '/connections', '/operators']) expect((await get(list)).body).toEqual([])
    expect((await get('/ledger')).body.entries).toEqual([])
  })
})
