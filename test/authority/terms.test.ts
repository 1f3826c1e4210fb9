/** Terms in three representations, every version ever: contract, "Terms document", "Versioning". */
import { describe, expect, it } from 'vitest'
import { inTransaction } from '../../src/storage/core/database.ts'
import {
  deleteTier,
  insertTier,
  updateTier,
  type NewTier,
} from '../../src/storage/authority/policies/tiers.ts'
import { startTestAuthority } from '../support/authority.ts'
import { asOwner } from '../../src/wire/identifiers.ts'
import { authorityStand } from '../support/stands.ts'

const authority = authorityStand({ owners: ['alice', 'bea'] })

const get = (target: string, headers: Record<string, string> = {}) =>
  authority.request('GET', target, { headers })
const READING = '/terms/alice/reading/v1'
const tier = (tier_id: string, purpose: string): NewTier => ({
  owner: asOwner('alice'),
  tier_id,
  name: tier_id,
  ask_me: false,
  rules: [],
  clearance: {},
  resources: [],
  terms: { purpose, scope: ['read'], expires_in: 60, prohibited: [], per_operation: false },
})

describe('GET /terms', () => {
  it('answers the roster of the owner named', async () => {
    const { status, body } = await get('/terms?owner=alice')
    expect(status).toBe(200)
    expect(body).toMatchObject({ owner: 'alice', proffered_by: 'https://as.example' })
    expect(body.terms.map((terms: { template_id: string }) => terms.template_id)).toEqual([
      'alice/reading/v1',
      'alice/statements/v1',
      'alice/trading/v1',
    ])
  })

  it('is paged, the link keeping the owner', async () => {
    const { body, headers } = await get('/terms?owner=alice&limit=1')
    expect(body.terms).toHaveLength(1)
    expect(headers.get('link')).toBe('</terms?owner=alice&after=reading&limit=1>; rel="next"')
  })

  it('needs the owner if several are served, and 404 is the answer for an unknown one', async () => {
    expect(await get('/terms')).toMatchObject({ status: 400, body: { error: 'invalid_request' } })
    expect(await get('/terms?owner=nobody')).toMatchObject({ status: 404, body: { error: 'not_found' } })
  })

  it('may leave the owner out if one alone is served', async () => {
    const alone = await startTestAuthority()
    expect((await alone.request('GET', '/terms')).body.owner).toBe('alice')
    await alone.close()
  })

  it.each(['owner=%00', 'owner=a&owner=b', 'limit=0', 'other=1'])('?%s is 400', async query => {
    expect(await get(`/terms?${query}`)).toMatchObject({ status: 400, body: { error: 'invalid_request' } })
  })
})

describe('GET /terms/{template_id}', () => {
  it('is JSON by default, with what the service enforces and what is only promised', async () => {
    const { body, headers } = await get(READING)
    expect(headers.get('content-type')).toBe('application/json; charset=utf-8')
    expect(body).toMatchObject({
      template_id: 'alice/reading/v1',
      terms_uri: `https://as.example${READING}`,
      proffered_by: 'https://as.example',
      purpose: 'For reading only',
      scope: ['read'],
      expires_in: 3600,
      prohibited: ['training models on it'],
      name: 'The reading tier',
      tier: 'reading',
      enforced: { scope: ['read'] },
    })
    expect((await get('/terms/alice/trading/v1')).body.per_operation).toBe(true)
  })

  it.each([
    ['text/html', 'text/html; charset=utf-8'],
    ['text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8', 'text/html; charset=utf-8'],
    ['application/json', 'application/json; charset=utf-8'],
    ['*/*', 'application/json; charset=utf-8'],
    ['application/json;q=0.5, text/html;q=0.4', 'application/json; charset=utf-8'],
    ['application/ld+json', 'application/ld+json'],
    ['text/html;q=0', 'application/json; charset=utf-8'],
    ['image/png', 'application/json; charset=utf-8'],
    [';;q=,,', 'application/json; charset=utf-8'],
  ])('Accept %s gets %s', async (accept, type) => {
    const { status, headers } = await get(READING, { accept })
    expect({ status, type: headers.get('content-type') }).toEqual({ status: 200, type })
    expect(headers.get('vary')).toBe('accept')
  })

  it('?format=jsonld is an ODRL offer, whatever Accept says', async () => {
    const { body, headers } = await get(`${READING}?format=jsonld`, { accept: 'text/html' })
    expect(headers.get('content-type')).toBe('application/ld+json')
    expect(body).toMatchObject({
      '@type': 'Offer',
      uid: `https://as.example${READING}`,
      conflict: 'prohibit',
    })
    expect(body.permission).toHaveLength(1)
    expect(body.prohibition).toHaveLength(1)
  })

  it('its HTML runs, loads and submits nothing', async () => {
    const { text, headers } = await get(READING, { accept: 'text/html' })
    expect(headers.get('content-security-policy')).toMatch(/^default-src 'none'/)
    expect(headers.get('x-content-type-options')).toBe('nosniff')
    expect(text).toMatch(/^<!doctype html>/)
    expect(text).not.toMatch(/<script|<link|<img|<form/i)
  })

  it('markup in terms stays text', async () => {
    const evil = '<script>alert(1)</script>" onload="x'
    await inTransaction(authority.database.db, tx => insertTier(tx, tier('evil', evil)))
    const { text } = await get('/terms/alice/evil/v1', { accept: 'text/html' })
    expect(text).not.toContain('<script>')
    expect(text).toContain('&#60;script&#62;')
    expect((await get('/terms/alice/evil/v1')).body.purpose).toBe(evil)
  })

  it('may be kept for ever, and is not sent again to who has it', async () => {
    const { headers } = await get(READING)
    expect(headers.get('cache-control')).toBe('public, max-age=31536000, immutable')
    const etag = headers.get('etag')!
    const again = await get(READING, { 'if-none-match': etag })
    expect({ status: again.status, text: again.text }).toEqual({ status: 304, text: '' })
    expect((await get(READING, { accept: 'text/html', 'if-none-match': etag })).status).toBe(200)
    for (const known of [`W/${etag}`, `"other", ${etag}`, '*'])
      expect((await get(READING, { 'if-none-match': known })).status).toBe(304)
    for (const unknown of ['"other"', etag.slice(1, -1), ''])
      expect((await get(READING, { 'if-none-match': unknown })).status).toBe(200)
  })

  it('every version stays dereferenceable and immutable, also of a tier that is deleted', async () => {
    const { db } = authority.database
    const [one, two] = ['/terms/alice/passing/v1', '/terms/alice/passing/v2']
    await inTransaction(db, tx => insertTier(tx, tier('passing', 'first')))
    const before = await get(one)
    await inTransaction(db, tx => updateTier(tx, tier('passing', 'second'), undefined))
    await inTransaction(db, tx => deleteTier(tx, asOwner('alice'), 'passing', undefined))
    expect((await get(one)).text).toBe(before.text)
    expect((await get(two)).body.purpose).toBe('second')
    const { body } = await get('/terms?owner=alice')
    expect(body.terms.map((terms: { tier: string }) => terms.tier)).not.toContain('passing')
  })

  it.each([
    '/terms/alice/reading/v2',
    '/terms/alice/reading/v0',
    '/terms/alice/reading/v01',
    '/terms/alice/reading/1',
    '/terms/alice/reading/v99999999999',
    '/terms/alice/unknown/v1',
    '/terms/nobody/reading/v1',
    '/terms/alice/reading',
    '/terms/alice/reading/v1/more',
    '/terms/alice%2Freading/v1',
    '/terms/alice%00/reading/v1',
    '/terms/../reading/v1',
  ])('%s is 404 with a code', async target => {
    const reply = await get(target)
    expect(reply).toMatchObject({ status: 404, body: { error: 'not_found' } })
    expect(reply.headers.get('cache-control')).toBe('no-store')
  })

  it('an unknown format is 400', async () => {
    expect(await get(`${READING}?format=pdf`)).toMatchObject({
      status: 400,
      body: { error: 'invalid_request' },
    })
  })
})
