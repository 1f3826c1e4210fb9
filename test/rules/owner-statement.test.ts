/**
 * contract, "Owner API" (`/owner/pending/{family}/decision`): what a signed decision must say of
 * its item.
 */
import { describe, expect, it } from 'vitest'
import { admissionIn, isFirstContact, statementFault } from '../../src/rules/owner-statement.ts'
import { itemDigest, type DecisionItem } from '../../src/wire/owner/decision-item.ts'
import { verifyStatement } from '../../src/wire/owner/decision-statement.ts'
import { approvalOf, ITEM } from '../support/decision-samples.ts'
import { ISSUER, newKey, NOW } from '../support/wire-samples.ts'

const key = newKey()
const claimsFor = (item: DecisionItem, changes: object = {}) =>
  verifyStatement(
    approvalOf(item, key, changes),
    { devices: [key], passkeys: [] },
    { audience: ISSUER, now: NOW },
  )

describe('A statement at the authority', () => {
  const { owner, family, single_use, expires_in } = ITEM
  const decidable = { owner, family, single_use, expires_in, item_s256: itemDigest(ITEM) }
  it.each(['owner', 'family', 'item_s256', 'single_use', 'expires_in'] as const)(
    'says the %s of the item',
    name => {
      expect(statementFault(claimsFor(ITEM), decidable)).toBeUndefined()
      const other = typeof decidable[name] === 'boolean' ? !decidable[name] : 'x'
      expect(statementFault(claimsFor(ITEM), { ...decidable, [name]: other })).toBe(name)
    },
  )

  it.each([
    ['approved', true, false, 'all'],
    ['approved', true, true, 'tier'],
    ['approved', false, false, null],
    ['approved', false, true, null],
    ['denied', true, true, null],
  ] as const)(
    '%s, of a first contact %s, for its tier only %s, admits %s',
    (decision, isFirstContact, only, admits) => {
      expect(admissionIn({ decision, isFirstContact, only })).toBe(admits)
    },
  )
})

describe('A first contact', () => {
  it.each([
    ['connection', [], true],
    ['operation', ['first_contact'], false],
    ['joint', ['first_contact', 'tier_asks'], true],
    ['joint', ['tier_asks', 'first_contact'], false],
  ])('of kind %s, for %j: %s', (kind, because, is) => {
    expect(isFirstContact({ kind, because })).toBe(is)
  })
})
