/**
 * An allowance on her page, in words and numbers: contract, "Policy vocabulary and tiers"; an addition
 * (docs/details/owner-api.md): nothing passes that the words of its card would not let through.
 */
import { describe, expect, it } from 'vitest'
import {
  amountText,
  limitsOf,
  tierLines,
  timeSentences,
  unboundedOf,
  useText,
} from '../../src/console/allowances/allowance-card.ts'
import { membersIn, newForm, type AllowanceForm } from '../../src/console/allowances/draft.ts'
import {
  barOf,
  endedAt,
  isLower,
  isOver,
  membersOf,
  standingAt,
  withNumber,
  type LimitPlace,
} from '../../src/console/allowances/record.ts'
import {
  hasOtherWay,
  isOpen,
  mayName,
  missingRules,
  openedAgents,
} from '../../src/console/allowances/tier-rules.ts'
import { whenText } from '../../src/console/parts/time.ts'
import { asHandle } from '../../src/wire/identifiers.ts'
import type { Connection, Tier } from '../../src/wire/owner/owner-api.ts'
import { allowance, SHOPPING } from '../support/allowance.ts'

const textsOf = (changes: object) => limitsOf(allowance(changes)).map(({ text }) => text)
const NOW = 1_800_000_000
/** The tier takes the tool's word for what the number means. */
const UNCOMPARED = {
  tiers: { shopping: { tools: ['place_order'], amounts: { price: { pointer: '/price', as: 'query' } } } },
}

describe('The card of an allowance', () => {
  it('says each number with its unit, for one operation and for each window', () => {
    const windows = [
      { of: 'price', per: 'day', max: '200' },
      { of: 'price', per: 'all', max: '1000.5' },
      { of: 'calls', per: 'week', max: '3' },
      { of: 'calls', per: 'hour', max: '1' },
    ]
    expect(textsOf({ windows })).toEqual([
      'price: at most 50 CHF in one operation',
      'price: at most 200 CHF in a day',
      'price: at most 1000.5 CHF in all',
      'At most 3 calls in a week, from Monday',
      'At most 1 call in an hour',
    ])
  })

  it('says “each” of what every agent has for itself, and “as the tool counts” of what no unit is compared with', () => {
    expect(textsOf({ among: 'lineage' })).toEqual([
      'price: at most 50 CHF in one operation',
      'price: at most 200 CHF in a day, each',
    ])
    expect(textsOf(UNCOMPARED)).toEqual([
      'price: at most 50 CHF (as the tool counts) in one operation',
      'price: at most 200 CHF (as the tool counts) in a day',
    ])
    const { amounts, tiers } = allowance({ amounts: [{ name: 'price' }], ...UNCOMPARED })
    expect(amountText({ amounts, tiers }, 'price', '50')).toBe('50 (as the tool counts)')
    expect(amountText({ amounts, tiers }, 'calls', '7')).toBe('7')
  })

  it('says of a window what her organization lets through at most, and that what is left is by her own number', () => {
    const day = { of: 'price', per: 'day' as const, max: '200' }
    const [, limit] = limitsOf({ ...allowance(), windows: [{ ...day, ceiling: '100' }] })
    expect(limit).toMatchObject({ most: '200', text: 'price: at most 200 CHF in a day' })
    expect(limit?.ceiling).toBe(
      'Your organization lets less through at what it governs: at most 100 CHF. How much is left is told by your own number, not by that one.',
    )
    expect(limitsOf({ ...allowance(), windows: [day] })[1]?.ceiling).toBeUndefined()
  })

  it('says what nothing bounds', () => {
    expect(unboundedOf(allowance())).toEqual([])
    const boundless = allowance({ amounts: [{ name: 'price' }], windows: [], ...UNCOMPARED })
    expect(unboundedOf(boundless)).toEqual([
      'No window bounds how often it is used, or how much in all.',
      'Nothing bounds price.',
    ])
  })

  it('says whose calendar counts, that twice as much can pass across a midnight, and when it ends', () => {
    const sentences = timeSentences(allowance(), NOW)
    expect(sentences).toContain('All your agents use it together.')
    expect(sentences).toContain('It has no end.')
    expect(sentences).toContain(
      'Windows begin anew by the calendar of Europe/Zurich. So across a midnight, twice as much can pass within minutes.',
    )
    expect(sentences).toContain('A window that an edit adds counts from then on.')
    expect(sentences).toContain('What is let through is a grant for one call, good for at most 5 minutes.')
    const [of, max] = ['price', '9']
    const once = timeSentences(allowance({ among: 'lineage', windows: [{ of, per: 'all', max }] }), NOW)
    expect(once).toContain('Each agent has it for itself, together with those that it introduced.')
    expect(once.join(' ')).not.toContain('midnight')
    const until = '2027-01-15T08:00:00.000Z'
    const at = Date.parse(until) / 1_000
    expect(timeSentences(allowance({ until }), at - 1)).toContain(`It ends ${whenText(until)}.`)
    expect(timeSentences(allowance({ until }), at)).toContain(
      `It ended ${whenText(until)}. Every operation is beyond it.`,
    )
  })

  it('says of a tier each tool, place, value and free parameter', () => {
    expect(tierLines(allowance(), 'shopping')).toEqual({
      tools: ['place_order'],
      amounts: ['price is what stands at /price; at /currency stands CHF.'],
      only: [{ pointer: '/payee/name', values: ['"Zoë"', '"Corner Bakery"'] }],
      free: ['/note'],
    })
    expect(tierLines(allowance(UNCOMPARED), 'shopping')?.amounts).toEqual([
      'price is what stands at /price, as the only value of that parameter, as the tool counts.',
    ])
    expect(tierLines(allowance(), 'constructor')).toBeUndefined()
  })
})

describe('A number of an allowance', () => {
  const price: LimitPlace = { each: 'price' }
  const calls: LimitPlace = { of: 'calls', per: 'day' }
  it.each<[string, string, string, LimitPlace]>([
    ['by a billionth', '49.999999999', '50', price],
    ['to nothing', '0', '50', price],
    ['by less than a double tells apart', '900719925474099.2', '900719925474099.25', price],
    ['of calls to a whole number', '2', '3', calls],
  ])('is lowered %s', (_how, to, present, place) => {
    expect(isLower(place, to, present)).toBe(true)
  })

  it.each<[string, string, string, LimitPlace]>([
    ['the same', '50', '50', price],
    ['the same in another spelling', '50.000', '50', price],
    ['a billionth more', '50.000000001', '50', price],
    ['more than a double tells apart', '900719925474099.25', '900719925474099.2', price],
    ['an exponent', '1e1', '50', price],
    ['less than nothing', '-1', '50', price],
    ['no number', '', '50', price],
    ['a part of a call', '2.5', '3', calls],
  ])('is not lowered to %s', (_what, to, present, place) => {
    expect(isLower(place, to, present)).toBe(false)
  })

  it('is stored alone: everything else of the allowance stays', () => {
    const windows = [{ of: 'price', per: 'day' as const, max: '200', ceiling: '100' }]
    const before = { ...allowance(), windows, use: [], more: true as const }
    expect(membersOf(before)).toEqual(membersOf(allowance()))
    const kept = { ...SHOPPING, among: 'all', until: null, hold_s: 300, tiers: before.tiers }
    expect(withNumber(before, price, '5')).toEqual({
      ...kept,
      amounts: [{ name: 'price', unit: 'CHF', each_max: '5' }],
    })
    expect(withNumber(before, { of: 'price', per: 'day' }, '5')).toEqual({
      ...kept,
      windows: [{ of: 'price', per: 'day', max: '5' }],
    })
  })

  it('goes with an end in the past, also by a clock that is behind', () => {
    const members = endedAt(allowance(), NOW)
    expect(members).toEqual({ ...membersOf(allowance()), until: members.until })
    expect(isOver(members, NOW - 4)).toBe(true)
  })
})

describe('The bar of a window', () => {
  it.each<[string, { max: string; used: string; held: string }, { spent: number; open: number }]>([
    ['is divided into what is spent and what may come back', win('200', '150', '50'), part(50, 25)],
    ['is empty where nothing is used', win('200', '0', '0'), { spent: 0, open: 0 }],
    ['is full, and no longer, where more is used than a lowered number', win('10', '40', '5'), part(50, 50)],
    ['is full where nothing may be used', win('0', '0', '0'), part(100, 0)],
    ['is full where its number cannot be read', win('?', '1', '0'), part(100, 0)],
  ])('%s', (_what, standing, parts) => {
    expect(barOf(standing)).toEqual(parts)
  })

  it('has its numbers beside it as they came, and is looked up by its window', () => {
    const at = { of: 'price', per: 'day' as const, starts: '', ends: null }
    const standing = { ...at, ...win('200', '149.9', '0'), left: '50.1' }
    const listed = { ...allowance(), use: [{ windows: [standing] }] }
    expect(useText(listed, standing)).toBe('149.9 of 200 CHF used, 50.1 left')
    expect(standingAt(listed, { of: 'price', per: 'day' })).toBe(standing)
    expect(standingAt(listed, { of: 'price', per: 'week' })).toBeUndefined()
    expect(standingAt({ ...listed, among: 'lineage' }, { of: 'price', per: 'day' })).toBeUndefined()
    expect(standingAt(allowance(), { of: 'price', per: 'day' })).toBeUndefined()
  })

  function win(max: string, used: string, held: string) {
    return { max, used, held }
  }
  function part(spent: number, open: number) {
    return { spent, open }
  }
})

describe('A tier that is opened within an allowance', () => {
  const AUTO: Tier['rules'][number] = { when: ['standing.approved_at_tier'], then: 'auto' }
  const beyond = (id: string, then: 'ask' | 'refuse' = 'ask'): Tier['rules'][number] => ({
    when: [`operation.beyond:${id}`],
    then,
  })

  it('gets the rules that it lacks: one that lets through, and one that asks about what is beyond', () => {
    expect(missingRules([], 'weekend')).toEqual([AUTO, beyond('weekend')])
    expect(missingRules([AUTO], 'weekend')).toEqual([beyond('weekend')])
    expect(missingRules([beyond('weekend', 'refuse')], 'weekend')).toEqual([AUTO])
  })

  it('is one that asks her, and that names no other allowance', () => {
    expect(mayName({ ask_me: true, rules: [AUTO, beyond('weekend')] }, 'weekend')).toBe(true)
    expect(mayName({ ask_me: true, rules: [beyond('other')] }, 'weekend')).toBe(false)
    expect(mayName({ ask_me: false, rules: [] }, 'weekend')).toBe(false)
  })

  it('is open only if a rule lets through, and another takes back what is beyond', () => {
    expect(isOpen({ ask_me: true, rules: [AUTO, beyond('weekend')] }, 'weekend')).toBe(true)
    for (const rules of [[AUTO], [beyond('weekend')], [AUTO, beyond('other')]])
      expect(isOpen({ ask_me: true, rules }, 'weekend')).toBe(false)
  })

  it('lets agents through by another rule, too, if one does not go by her approval alone', () => {
    const aged = (then: 'auto' | 'ask'): Tier['rules'][number] => ({ when: ['standing.age_above:7d'], then })
    expect(hasOtherWay([AUTO, aged('auto')])).toBe(true)
    expect(hasOtherWay([{ when: [...AUTO.when, 'standing.never_revoked'], then: 'auto' }])).toBe(true)
    for (const rules of [[], [AUTO, beyond('weekend')], [aged('ask')]]) expect(hasOtherWay(rules)).toBe(false)
  })

  it('opens at once to the agents that she approved there, and to their lineage, and to no others', () => {
    const agent = (handle: string, changes: Partial<Connection> = {}): Connection => ({
      handle: asHandle(handle),
      identity: 'pseudonymous',
      label: null,
      status: 'active',
      first_seen: '',
      last_access: null,
      tiers_granted: [],
      tiers_approved: [],
      revocations: 0,
      introduced_by: null,
      operators: [],
      ...changes,
    })
    const by = (handle: string) => ({ introduced_by: asHandle(handle) })
    const approved = { tiers_approved: ['trading'] }
    const opened = openedAgents(
      [
        agent('approved', approved),
        agent('introduced', by('approved')),
        agent('stranger'),
        agent('elsewhere', { tiers_approved: ['reading'] }),
        agent('revoked', { ...approved, status: 'revoked' }),
        agent('of revoked', by('revoked')),
        agent('parent'),
        agent('child', { ...by('parent'), ...approved }),
        agent('sibling', by('parent')),
        agent('grandchild', by('child')),
        agent('by others', { ...approved, reach: 'organization' }),
      ],
      'trading',
    )
    expect(opened.map(({ handle }) => handle)).toEqual([
      'approved',
      'introduced',
      'parent',
      'child',
      'sibling',
      'grandchild',
    ])
  })
})

describe('The form of a new allowance', () => {
  const form = (changes: Partial<AllowanceForm> = {}): AllowanceForm => ({
    ...newForm('shopping', 'Europe/Zurich'),
    id: 'weekend',
    tools: ['place_order'],
    amounts: [
      {
        name: 'price',
        pointer: '/price',
        as: 'number',
        eachMax: '50',
        unit: 'CHF',
        unitPointer: '/currency',
      },
    ],
    windows: [{ of: 'price', per: 'day', max: '200' }],
    only: [{ pointer: '/payee/name', kind: 'text', values: 'Zoë\nCorner Bakery\n' }],
    free: ['/note'],
    ...changes,
  })
  const faultOf = (changes: Partial<AllowanceForm>) => {
    const made = membersIn(form(changes))
    return 'fault' in made ? made.fault : undefined
  }

  it('makes what she means, and leaves out what she left empty', () => {
    expect(membersIn(form())).toEqual({ members: membersOf(allowance()) })
    const empty = { eachMax: '', unit: ' ', unitPointer: '' }
    const amount = { name: 'qty', pointer: '/qty', as: 'string' as const, ...empty }
    const made = membersIn(form({ amounts: [amount], windows: [], only: [], free: [] }))
    expect(made).toMatchObject({
      members: {
        amounts: [{ name: 'qty' }],
        tiers: { shopping: { amounts: { qty: { pointer: '/qty', as: 'string' } }, only: [], free: [] } },
      },
    })
    expect(JSON.stringify(made)).not.toContain('unit')
  })

  it('reads values as texts, or each as JSON, and takes an end by the clock of the device', () => {
    const only = [{ pointer: '/account', kind: 'json' as const, values: '12\n"12"\n{"a":1}' }]
    expect(membersIn(form({ only, until: '2027-01-15T08:00' }))).toMatchObject({
      members: {
        until: new Date('2027-01-15T08:00').toISOString(),
        tiers: { shopping: { only: [{ pointer: '/account', one_of: [12, '12', { a: 1 }] }] } },
      },
    })
  })

  it('says why nothing can be made of it', () => {
    expect(faultOf({ only: [{ pointer: '/a', kind: 'json', values: 'Zoë' }] })).toContain('“Zoë” is no JSON')
    expect(faultOf({ until: 'tomorrow' })).toContain('Until: give a day and a time')
    expect(faultOf({ amounts: [] })).toContain('windows[0].of')
    expect(faultOf({ tools: ['a', 'a'] })).toContain('listed twice')
    expect(faultOf({})).toBeUndefined()
  })
})
