import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  CONSEQUENCES,
  consequenceRank,
  grantLifetimeSeconds,
  grantScope,
  matchPermission,
  operationMatches,
  parseConsequence,
  worseConsequence,
  type Permission,
} from '../../src/rules/permission.ts'

const READ: Permission = {
  resource_id: 'bea/portfolio',
  resource_scopes: ['read', 'list'],
  exp: 1000,
  nbf: 500,
}
const covers = (permission: Permission, scopes: string[], now: number): boolean =>
  matchPermission([permission], { resource_id: 'bea/portfolio', scopes }, now) === permission

describe('the tool maps to a resource_id in permissions', () => {
  it.each([
    ['with the needed scope', ['read'], 700, true],
    ['with every needed scope', ['list', 'read'], 700, true],
    ['unless one scope is missing', ['read', 'trade'], 700, false],
    ['unless a scope differs in case', ['Read'], 700, false],
    ['from its nbf on', ['read'], 500, true],
    ['not a second before its nbf', ['read'], 499, false],
    ['until just before its exp', ['read'], 999, true],
    ['not at its exp', ['read'], 1000, false],
  ])('%s', (_when, scopes, now, expected) => {
    expect(covers(READ, scopes, now)).toBe(expected)
  })

  it('without nbf it holds from the beginning', () => {
    const { nbf: _nbf, ...open } = READ
    expect(covers(open, ['read'], 0)).toBe(true)
  })

  it('another resource never covers it', () => {
    expect(matchPermission([READ], { resource_id: 'bea/portfolio/x', scopes: [] }, 700)).toBeUndefined()
    expect(matchPermission([], { resource_id: 'bea/portfolio', scopes: [] }, 700)).toBeUndefined()
  })

  it('entries are not added up', () => {
    const entries = [
      { ...READ, resource_scopes: ['read'] },
      { ...READ, resource_scopes: ['list'] },
    ]
    expect(
      matchPermission(entries, { resource_id: READ.resource_id, scopes: ['read', 'list'] }, 700),
    ).toBeUndefined()
  })

  it('the first open entry answers, a closed one before it does not hide it', () => {
    const later = { ...READ, exp: 2000 }
    expect(matchPermission([READ, later], { resource_id: READ.resource_id, scopes: ['read'] }, 1500)).toBe(
      later,
    )
  })

  it('an entry without a readable exp never covers', () => {
    const broken = { ...READ, exp: undefined } as unknown as Permission
    expect(covers(broken, ['read'], 700)).toBe(false)
  })
})

describe('consequence classes', () => {
  it('are ordered by the remedy left', () => {
    expect(CONSEQUENCES).toEqual(['reversible', 'compensatable', 'forward_recoverable', 'irreversible'])
    expect(CONSEQUENCES.map(consequenceRank)).toEqual([0, 1, 2, 3])
  })

  it.each(CONSEQUENCES.flatMap(declared => CONSEQUENCES.map(granted => [declared, granted] as const)))(
    'declared %s against a grant for %s is changed only when worse',
    (declared, granted) => {
      expect(worseConsequence(declared, granted)).toBe(
        CONSEQUENCES.indexOf(declared) > CONSEQUENCES.indexOf(granted),
      )
    },
  )

  it('an unknown word is undeclared, and nothing changed where either side declares nothing', () => {
    const undeclared = fc
      .oneof(fc.string(), fc.constantFrom(undefined, null, 3, 'Irreversible', 'grave'))
      .filter(word => !CONSEQUENCES.some(known => known === word))
    fc.assert(
      fc.property(undeclared, fc.constantFrom(...CONSEQUENCES), (word, known) => {
        expect(parseConsequence(word)).toBeUndefined()
        expect(worseConsequence(word, known)).toBe(false)
        expect(worseConsequence(known, word)).toBe(false)
      }),
    )
  })
})

describe('the approved operation', () => {
  const operation = { tool: 'place_trade', params_s256: 's256:abc' }

  it.each([
    ['the same tool and the same parameters pass', 'place_trade', 's256:abc', true],
    ['another tool does not', 'close_account', 's256:abc', false],
    ['other parameters do not', 'place_trade', 's256:abd', false],
    ['a hash that only begins alike does not', 'place_trade', 's256:ab', false],
  ])('%s', (_what, tool, params_s256, expected) => {
    expect(operationMatches(operation, tool, params_s256)).toBe(expected)
  })

  it('a grant without an operation matches nothing', () => {
    expect(operationMatches(undefined, 'place_trade', 's256:abc')).toBe(false)
  })
})

describe("a grant's scopes", () => {
  const scopes = fc.array(fc.constantFrom('read', 'list', 'trade', 'close', ''), { maxLength: 8 })

  it('are those of the ticket that terms and agreement both name, in the order of the ticket', () => {
    expect(grantScope(['trade', 'read', 'list'], ['list', 'read', 'trade'], ['read', 'trade'])).toEqual([
      'trade',
      'read',
    ])
    expect(grantScope(['read', 'read'], ['read'], ['read'])).toEqual(['read'])
    expect(grantScope(['read'], ['list'], ['read', 'list'])).toEqual([])
  })

  it('never widen: an agreement adding scopes gains nothing', () => {
    fc.assert(
      fc.property(scopes, scopes, scopes, (ticket, terms, agreement) => {
        const granted = grantScope(ticket, terms, agreement)
        for (const scope of granted)
          for (const list of [ticket, terms, agreement]) expect(list).toContain(scope)
        expect(new Set(granted).size).toBe(granted.length)
        expect(granted).toEqual([...new Set(ticket)].filter(scope => granted.includes(scope)))
      }),
    )
  })

  it('are the same whoever is asked first, but for order, and stay so when asked again', () => {
    fc.assert(
      fc.property(scopes, scopes, scopes, (ticket, terms, agreement) => {
        const granted = grantScope(ticket, terms, agreement)
        for (const other of [
          grantScope(terms, agreement, ticket),
          grantScope(agreement, ticket, terms),
          grantScope(ticket, agreement, terms),
        ])
          expect(other.sort()).toEqual([...granted].sort())
        expect(grantScope(granted, granted, granted)).toEqual(granted)
        expect(grantScope(granted, terms, agreement)).toEqual(granted)
      }),
    )
  })
})

it('a grant never outlives its agreement nor its terms', () => {
  expect(grantLifetimeSeconds(3600, 600)).toBe(600)
  expect(grantLifetimeSeconds(300, 600)).toBe(300)
})
