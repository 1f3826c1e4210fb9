/** What the owner reads of her policy: contract, "Policy vocabulary and tiers", "Owner API". */
import { describe, expect, it } from 'vitest'
import { authorityStand } from '../support/stands.ts'

const authority = authorityStand({ owners: ['alice', 'bea'] })

const get = (target: string, owner = authority.alice) => authority.call(owner, { target })

describe('GET /owner/policies', () => {
  it('answers her tier policy with the terms in force', async () => {
    const { body } = await get('/owner/policies')
    expect(body.tiers.map((tier: { id: string }) => tier.id)).toEqual(['reading', 'statements', 'trading'])
    expect(body.tiers[2]).toEqual({
      id: 'trading',
      name: 'The trading tier',
      resources: ['alice/trades'],
      ask_me: true,
      rules: [],
      clearance: {},
      terms: {
        template_id: 'alice/trading/v1',
        purpose: 'For trading only',
        scope: ['trade'],
        expires_in: 300,
        prohibited: ['training models on it'],
        per_operation: true,
      },
    })
  })

  it('is paged by tier id', async () => {
    const first = await get('/owner/policies?limit=2')
    expect(first.body.tiers).toHaveLength(2)
    expect(first.headers.get('link')).toBe('</owner/policies?after=statements&limit=2>; rel="next"')
    const second = await get('/owner/policies?after=statements&limit=2')
    expect(second.body.tiers.map((tier: { id: string }) => tier.id)).toEqual(['trading'])
    expect(second.headers.get('link')).toBeNull()
  })

  it('holds nothing of another owner', async () => {
    const { body } = await get('/owner/policies', authority.owners['bea'])
    for (const tier of body.tiers) expect(tier.resources[0]).toMatch(/^bea\//)
  })
})

describe('GET /owner/resources', () => {
  it('answers registered resources joined with the tier of each; an ungoverned one has none', async () => {
    const { body } = await get('/owner/resources')
    expect(body.map((resource: { _id: string }) => resource._id)).toEqual([
      'alice/account',
      'alice/portfolio',
      'alice/statements',
      'alice/trades',
    ])
    expect(body[0]).toEqual({
      _id: 'alice/account',
      name: 'account',
      type: 'account',
      resource_scopes: ['close'],
      consequence: 'irreversible',
      tier: null,
      tier_name: null,
      ask_me: null,
      source: 'provisioned',
      client_id: 'demo-tools',
      approval: null,
    })
    expect(body[3]).toMatchObject({ tier: 'trading', tier_name: 'The trading tier', ask_me: true })
  })

  it('is paged by id', async () => {
    const { body, headers } = await get('/owner/resources?after=alice/portfolio&limit=1')
    expect(body.map((resource: { _id: string }) => resource._id)).toEqual(['alice/statements'])
    expect(headers.get('link')).toBe('</owner/resources?after=alice%2Fstatements&limit=1>; rel="next"')
  })
})

describe('GET /owner/policy-vocabulary', () => {
  it('answers usable conditions and which may relax', async () => {
    const { body } = await get('/owner/policy-vocabulary')
    const relaxing = body.filter((word: { may_relax: boolean }) => word.may_relax)
    expect(relaxing.map((word: { condition: string }) => word.condition).sort()).toEqual([
      'standing.age_above',
      'standing.approved_at_tier',
      'standing.first_party',
      'standing.never_revoked',
    ])
    for (const word of body)
      expect(word).toEqual({
        condition: expect.any(String),
        label: expect.any(String),
        may_relax: expect.any(Boolean),
        takes: expect.toBeOneOf([null, 'duration', 'count', 'level', 'class', 'allowance']),
      })
  })
})
