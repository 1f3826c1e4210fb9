/**
 * contract, "Introspection and consume answers" (RFC 7662 shape): which answers are enough. Every OAuth
 * server can be asked, but not every one says enough: `active`, `permissions` and `cnf` must be in the
 * answer, and what it leaves out beside these must be in the token, a JWS that the authority signed. Of what
 * both say, the stricter counts.
 */
import { describe, expect, test } from 'vitest'
import { s256Json } from '../../src/wire/encoding.ts'
import type { PrivateKey } from '../../src/wire/signatures/keys.ts'
import { readRptClaims, signRpt, type RptClaims } from '../../src/wire/negotiation/tokens.ts'
import { toldReports } from '../support/told-reports.ts'
import { until } from '../support/until.ts'
import { newKey, nowSeconds, verdict, type CallParts } from './calls.ts'
import { coreStand, permissionOf, TRADE_PARAMS } from './core.ts'

const { agent, authority, decide, singleUse, standing } = coreStand()
const claimsIn = (token: string): RptClaims => ({ ...readRptClaims(token) })
const call = (token: string, parts: CallParts = {}) => decide({ token, signer: agent, ...parts })
const trade = (token: string) => call(token, { tool: 'place_trade', args: TRADE_PARAMS })

test('introspection and consume are asked as RFC 7662 has it: a form, with the token as presented', async () => {
  const token = singleUse()
  expect(verdict(await trade(token))).toBe('allow')
  for (const path of ['/introspect', '/consume']) {
    const { headers, body } = authority.received.find(one => one.path === path)!
    expect(headers['content-type']).toBe('application/x-www-form-urlencoded')
    expect([...new URLSearchParams(body)]).toEqual([['token', token]])
  }
})

describe('A member that an active answer lacks or nulls is the one of the RPT', () => {
  const shared = ['iss', 'sub', 'aud', 'owner', 'family', 'contract', 'exp']

  test.each(shared.flat())('%s', async member => {
    for (const left of [undefined, null]) {
      const outcome = await call(standing({}, { [member]: left }))
      expect(outcome).toMatchObject({
        kind: 'allow',
        headers: { 'x-uma-owner': 'alice', 'x-uma-family': 'fam_test' },
      })
    }
  })

  test('all that the RPT says too may be left out at once', async () => {
    const bare = Object.fromEntries(shared.map(member => [member, undefined]))
    expect(verdict(await call(standing({}, { ...bare, sub: null })))).toBe('allow')
  })

  test.each<[string, { by?: PrivateKey; claims?: Record<string, unknown> }]>([
    ['by a stranger', { by: newKey() }],
    ['for another resource', { claims: { aud: 'https://tools.example.com/mcp/bea' } }],
    ['by another issuer', { claims: { iss: 'https://as.evil.example' } }],
    ['without an end', { claims: { exp: undefined } }],
  ])('but an RPT made %s is an outage, and not the caller’s fault', async (_what, { by, claims = {} }) => {
    const made = standing({}, { owner: undefined })
    const token = signRpt(Object.assign(claimsIn(made), claims), by ?? authority.key)
    authority.script('/introspect', {
      status: 200,
      body: { ...claimsIn(made), active: true, owner: undefined },
    })
    expect(verdict(await call(token))).toBe('503 temporarily_unavailable')
  })

  test('so is an authority whose keys cannot be had', async () => {
    authority.script('/jwks', { status: 500, body: {} })
    expect(verdict(await call(standing({}, { owner: undefined })))).toBe('503 temporarily_unavailable')
  })

  test('a whole answer needs no key of the authority', async () => {
    expect(verdict(await call(standing()))).toBe('allow')
    expect(authority.count('/jwks')).toBe(0)
  })
})

describe('Not enough, and an outage, is an active answer', () => {
  const OUTAGE = '503 temporarily_unavailable'

  test.each(['permissions', 'cnf'].flatMap(member => [undefined, null].map(left => [member, left] as const)))(
    'with %s %s, although the RPT has it',
    async (member, left) => {
      expect(verdict(await call(standing({}, { [member]: left })))).toBe(OUTAGE)
    },
  )

  test('as a server that knows RFC 7662 and nothing else gives it', async () => {
    const token = standing()
    const { sub, aud, iss, exp, iat, jti, client_id } = claimsIn(token)
    const plain = { sub, aud, iss, exp, iat, jti, client_id, scope: 'read', token_type: 'PoP' }
    authority.script('/introspect', { status: 200, body: { active: true, ...plain } })
    expect(verdict(await call(token))).toBe(OUTAGE)
  })

  test.each(['opaque-token', 'a.b.c'])(
    'about a token that is no JWS, whatever else it says: %s',
    async token => {
      authority.script('/introspect', { status: 200, body: { ...claimsIn(standing()), active: true } })
      expect(verdict(await call(token))).toBe(OUTAGE)
    },
  )

  test.each(['iss', 'sub', 'aud', 'owner', 'family', 'contract', 'exp'])(
    'if neither it nor the token has %s',
    async member => {
      const left = { [member]: undefined }
      const permissions = [{ resource_id: 'alice/portfolio', resource_scopes: ['read'] }]
      const lie = member === 'exp' ? { ...left, permissions } : left
      expect(verdict(await call(standing({ claims: left }, lie)))).toBe(OUTAGE)
    },
  )
})

test('an inactive answer without a reason is enough to end the access', async () => {
  authority.script('/introspect', { status: 200, body: { active: false } })
  expect(verdict(await call(standing()))).toBe('403 access_revoked')
})

describe('A call under an RPT that has the claims of the contract and no more', () => {
  /** Neither is among the contract's claims of an RPT. */
  const contractsOwn = { iat: undefined, family: undefined }
  const answered = { iat: undefined, family: 'fam_theirs', jti: undefined }
  const told = async () => {
    await until(() => toldReports(authority.received).length === 1)
    return toldReports(authority.received)[0]!
  }

  test('is reported under the id that the token has, if the answer has none', async () => {
    const jti = 'rpt_theirs'
    for (const token of [
      standing({ claims: { ...contractsOwn, jti } }, answered),
      standing({ claims: { ...contractsOwn, jti } }, { ...answered, exp: undefined, owner: undefined }),
    ]) {
      authority.received.length = 0
      expect(verdict(await call(token))).toBe('allow')
      expect(await told()).toMatchObject({ family: 'fam_theirs', jti, tool: 'portfolio_read' })
    }
  })

  test.each([undefined, '', 7])('and under the family alone where the id in the token is %j', async jti => {
    expect(verdict(await call(standing({ claims: { ...contractsOwn, jti } }, answered)))).toBe('allow')
    expect(await told()).toMatchObject({ family: 'fam_theirs' })
    expect(await told()).not.toHaveProperty('jti')
  })
})

describe('Of what answer and RPT both say, the stricter counts', () => {
  test.each([undefined, null, false])(
    'a grant that the RPT makes single-use is spent if the answer says %s',
    async said => {
      expect(verdict(await trade(singleUse({}, { single_use: said, operation: null })))).toBe('allow')
      expect(authority.count('/consume')).toBe(1)
    },
  )

  test('a grant that only the answer makes single-use is spent, too', async () => {
    const token = singleUse({ claims: { single_use: undefined, operation: undefined } })
    authority.script('/introspect', {
      status: 200,
      body: {
        ...claimsIn(token),
        active: true,
        single_use: true,
        operation: { tool: 'place_trade', params_s256: s256Json(TRADE_PARAMS) },
      },
    })
    expect(verdict(await trade(token))).toBe('allow')
    expect(authority.count('/consume')).toBe(1)
  })

  test('the operation of the RPT binds if the answer names none', async () => {
    const operation = { tool: 'place_trade', params_s256: s256Json({ qty: 3 }) }
    expect(verdict(await trade(singleUse({ operation }, { operation: undefined })))).toBe(
      '403 operation_mismatch',
    )
    expect(authority.count('/consume')).toBe(0)
  })

  test('two different operations are an outage', async () => {
    const operation = { tool: 'place_trade', params_s256: s256Json({ qty: 3 }) }
    expect(verdict(await trade(singleUse({}, { operation })))).toBe('503 temporarily_unavailable')
  })

  const ended = nowSeconds() - 1
  test.each([
    ['expired by the RPT', { claims: { exp: ended } }, { exp: nowSeconds() + 600 }],
    ['expired by the answer', {}, { exp: ended }],
    ['of another scope by the RPT', {}, { permissions: permissionOf('portfolio', 'write') }],
    [
      'of another scope by the answer',
      { permissions: permissionOf('portfolio', 'write') },
      { permissions: permissionOf('portfolio', 'read') },
    ],
    [
      'of another resource by the RPT',
      { permissions: permissionOf('trades', 'read') },
      { permissions: permissionOf('portfolio', 'read') },
    ],
    [
      'not yet valid by the RPT',
      { permissions: permissionOf('portfolio', 'read', { nbf: nowSeconds() + 300 }) },
      { permissions: permissionOf('portfolio', 'read') },
    ],
  ])('a grant that is %s is challenged', async (_what, changes, lie) => {
    expect(verdict(await call(standing(changes, lie)))).toBe('401 insufficient_authorization')
  })

  test('a permission whose times the answer leaves out lives as long as the RPT', async () => {
    const permissions = [{ resource_id: 'alice/portfolio', resource_scopes: ['read'] }]
    expect(verdict(await call(standing({}, { permissions })))).toBe('allow')
    const over = { claims: { exp: ended } }
    expect(verdict(await call(standing(over, { permissions, exp: undefined })))).toBe(
      '401 insufficient_authorization',
    )
  })
})

describe('The class that a call is compared with is that of its own tool', () => {
  const classes = { portfolio_read: 'reversible', other: 'irreversible' }

  test('a mild tool made grave beside a grave one is a changed consequence', async () => {
    const token = standing(
      { consequence: 'irreversible' },
      { consequences: { ...classes, portfolio_read: 'reversible' } },
    )
    expect(verdict(await call(token))).toBe('allow')
    const trades = { permissions: permissionOf('trades', 'trade'), consequence: 'irreversible' }
    const mild = standing(trades, { consequences: { place_trade: 'reversible', other: 'irreversible' } })
    expect(verdict(await trade(mild))).toBe('403 consequence_changed')
  })

  test('a tool that the grant does not know is compared with the gravest that it was given for', async () => {
    const trades = { permissions: permissionOf('trades', 'trade') }
    const mild = standing({ ...trades, consequence: 'reversible' }, { consequences: classes })
    expect(verdict(await trade(mild))).toBe('403 consequence_changed')
    const grave = standing({ ...trades, consequence: 'irreversible' }, { consequences: classes })
    expect(verdict(await trade(grave))).toBe('allow')
  })
})
