/** contract, "The organization's authority": what a charter may say when it is saved. */
import { describe, expect, it } from 'vitest'
import { charterFault, roleFault } from '../../src/rules/organization/charter.ts'
import { charterDigest, parseCharter, type AllowanceCeiling } from '../../src/wire/organization/charter.ts'
import { Refusal } from '../../src/wire/refusal.ts'
import { CHARTER, charterWith } from './charters.ts'

const refusalOf = (value: unknown): string | undefined => {
  try {
    parseCharter(value)
    return undefined
  } catch (error) {
    return error instanceof Refusal ? error.detail : String(error)
  }
}

describe('a charter as it is read', () => {
  it('has everything that was left out filled in, narrowly', () => {
    expect(parseCharter({ name: 'A', claims: [], envelope: { max_expires_in: 60 } })).toEqual({
      name: 'A',
      claims: [],
      roles: {},
      default_role: null,
      envelope: {
        max_expires_in: 60,
        allowed_scopes: null,
        require_prohibited: [],
        always_ask: [],
        require_clearance: {},
      },
      conditions: {
        min_binding: 0,
        min_provenance: 0,
        min_accountability: 0,
        require_reason: false,
        require_mission: false,
      },
      rules: [],
      break_glass: { enabled: false, resources: [], max_expires_in: 900, require_reason: true, invokers: [] },
      identity_provider: null,
    })
  })

  it('is read to the same charter, and the same digest, from what it is written as', () => {
    const again = parseCharter(JSON.parse(JSON.stringify(CHARTER)))
    expect(again).toEqual(CHARTER)
    expect(charterDigest(again)).toBe(charterDigest(CHARTER))
    expect(charterDigest(charterWith({ name: 'Other' }))).not.toBe(charterDigest(CHARTER))
  })

  it('bounds allowances only if it says so: null is as left out, with the same digest', () => {
    const bounding = (max_allowance?: unknown) =>
      parseCharter({
        name: 'A',
        claims: [],
        envelope: { max_expires_in: 60, ...(max_allowance !== undefined && { max_allowance }) },
      })
    expect(bounding(null)).toEqual(bounding())
    expect(bounding(null).envelope).not.toHaveProperty('max_allowance')
    expect(charterDigest(bounding(null))).toBe(charterDigest(bounding()))
    expect(bounding([]).envelope.max_allowance).toEqual([])
    const entries = [{ unit: 'EUR', per: 'day', max: '200.50' }]
    expect(bounding(entries).envelope.max_allowance).toEqual(entries)
    expect(charterDigest(bounding([]))).not.toBe(charterDigest(bounding()))
  })

  it.each<[object, string]>([
    [{ per: 'year' }, '.per: give hour or day or week or month or all'],
    [{ max: 200 }, '.max: give a decimal number as text'],
    [{ max: '1e3' }, '.max'],
    [{ max: '-1' }, '.max'],
    [{ max: '007' }, '.max'],
    [{ max: '1.0000000001' }, '.max'],
    [{ unit: '' }, '.unit'],
    [{ unit: 'E\u0000' }, '.unit'],
    [{ zone: 'UTC' }, '."zone"'],
  ])('is refused where it bounds allowances by %j', (entry, path) => {
    const max_allowance = [{ unit: 'EUR', per: 'day', max: '200', ...entry }]
    expect(refusalOf({ name: 'A', claims: [], envelope: { max_expires_in: 1, max_allowance } })).toContain(
      `charter.envelope.max_allowance[0]${path}`,
    )
  })

  it.each([
    [undefined, 'charter'],
    [[], 'charter'],
    [{ claims: [], envelope: { max_expires_in: 1 } }, 'charter.name'],
    [{ name: 'A\u0007', claims: [], envelope: { max_expires_in: 1 } }, 'charter.name'],
    [{ name: 'A', claims: ['a/b', 7], envelope: { max_expires_in: 1 } }, 'charter.claims[1]'],
    [{ name: 'A', claims: ['a/b', 'a/b'], envelope: { max_expires_in: 1 } }, 'charter.claims'],
    [{ name: 'A', claims: [], envelope: { max_expires_in: 1.5 } }, 'charter.envelope.max_expires_in'],
    [{ name: 'A', claims: [], envelope: { max_expires_in: 1, more: 1 } }, 'charter.envelope."more"'],
    [
      {
        name: 'A',
        claims: [],
        envelope: { max_expires_in: 1 },
        roles: { x: { name: 'X', grants: [], delegation: 'all' } },
      },
      'charter.roles.x.delegation',
    ],
    [
      { name: 'A', claims: [], envelope: { max_expires_in: 1, require_clearance: { level: 'a' } } },
      'charter.envelope.require_clearance.level',
    ],
  ])('%j is refused at %s', (value, path) => expect(refusalOf(value)).toContain(path))

  it('takes no member named __proto__ for anything', () => {
    const text =
      '{"name":"A","claims":[],"envelope":{"max_expires_in":1},"roles":{"__proto__":{"name":"X","grants":[],"delegation":"none"}}}'
    const read = JSON.parse(text) as { roles: object }
    expect(refusalOf(read)).toContain('charter.roles')
  })
})

const EUROS: AllowanceCeiling = { unit: 'EUR', per: 'day', max: '200' }

describe('a charter as it is meant', () => {
  it('may be saved as it stands', () => expect(charterFault(CHARTER)).toBeUndefined())

  it.each([
    [{ claims: ['*/x'] }, 'charter.claims[0]'],
    [{ claims: ['acme'] }, 'charter.claims[0]'],
    [{ claims: ['acme/mail'] }, 'charter.roles.staff.grants[0]'],
    [{ default_role: 'toString' }, 'charter.default_role'],
    [{ envelope: { ...CHARTER.envelope, max_expires_in: 0 } }, 'charter.envelope.max_expires_in'],
    [{ envelope: { ...CHARTER.envelope, allowed_scopes: ['a b'] } }, 'charter.envelope.allowed_scopes[0]'],
    [
      { envelope: { ...CHARTER.envelope, require_clearance: { level: [] } } },
      'charter.envelope.require_clearance.level',
    ],
    [{ envelope: { ...CHARTER.envelope, always_ask: ['other/x'] } }, 'charter.envelope.always_ask[0]'],
    [
      { envelope: { ...CHARTER.envelope, max_allowance: [EUROS, { ...EUROS, unit: 'x'.repeat(65) }] } },
      'charter.envelope.max_allowance[1].unit',
    ],
    [
      { envelope: { ...CHARTER.envelope, max_allowance: [EUROS, { ...EUROS, max: '300' }] } },
      'charter.envelope.max_allowance[1]',
    ],
    [
      { conditions: { ...CHARTER.conditions, min_accountability: 3 } },
      'charter.conditions.min_accountability',
    ],
    [{ rules: [{ when: [], then: 'ask' as const, resources: [] }] }, 'charter.rules[0].when'],
    [
      { rules: [{ when: ['standing.first_party'], then: 'ask' as const, resources: [] }] },
      'charter.rules[0].when[0]',
    ],
    [
      { rules: [{ when: ['standing.none'], then: 'ask' as const, resources: ['x/y'] }] },
      'charter.rules[0].resources[0]',
    ],
    [{ break_glass: { ...CHARTER.break_glass, max_expires_in: 3601 } }, 'charter.break_glass.max_expires_in'],
    [
      { break_glass: { ...CHARTER.break_glass, invokers: ['https://ops.example:443'] } },
      'charter.break_glass.invokers[0]',
    ],
    [
      { break_glass: { ...CHARTER.break_glass, invokers: ['https://Ops.example'] } },
      'charter.break_glass.invokers[0]',
    ],
    [{ break_glass: { ...CHARTER.break_glass, resources: ['other/*'] } }, 'charter.break_glass.resources[0]'],
    [
      { identity_provider: { issuer: 'http://idp.example', subjects: {} } },
      'charter.identity_provider.issuer',
    ],
  ])('with %j is refused at %s', (changes, path) =>
    expect(charterFault(charterWith(changes))).toMatch(
      new RegExp(`^${path.replaceAll(/[.[\]]/g, String.raw`\$&`)}: `),
    ),
  )

  it('covers a grant by one claim, never by several together', () => {
    const claims = ['acme/a*', 'acme/b*']
    expect(
      roleFault('x', { name: 'X', grants: ['acme/*'], delegation: 'none' }, { claims, at: 'role' }),
    ).toContain('role.grants[0]')
    expect(
      roleFault(
        'x',
        { name: 'X', grants: ['acme/a1', 'acme/b*'], delegation: 'none' },
        { claims, at: 'role' },
      ),
    ).toBeUndefined()
    expect(
      roleFault('../x', { name: 'X', grants: [], delegation: 'none' }, { claims, at: 'role' }),
    ).toContain('role: ')
  })
})
