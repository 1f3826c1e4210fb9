/** Owns an allowance that tests begin with: at most 50 francs a purchase and 200 a day, at two payees. */
import { OWNER_ALLOWANCE, type OwnerAllowance } from '../../src/wire/documents/allowance.ts'

/** As she saves it, with the members that have no default. */
export const SHOPPING = {
  zone: 'Europe/Zurich',
  amounts: [{ name: 'price', unit: 'CHF', each_max: '50' }],
  windows: [{ of: 'price', per: 'day', max: '200' }],
  tiers: {
    shopping: {
      tools: ['place_order'],
      amounts: { price: { pointer: '/price', unit_pointer: '/currency' } },
      only: [{ pointer: '/payee/name', one_of: ['Zoë', 'Corner Bakery'] }],
      free: ['/note'],
    },
  },
}

/** The same as it is read, with other members. */
export function allowance(changes: object = {}): OwnerAllowance {
  const members = { id: 'weekend', version: 1, among: 'all', until: null, hold_s: 300 }
  return OWNER_ALLOWANCE.parse({ ...members, ...SHOPPING, ...changes })
}
