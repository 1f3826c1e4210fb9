/**
 * An allowance on her page, in numbers: contract, "Policy vocabulary and tiers"; an addition
 * (docs/details/owner-api.md). test/rules/allowance-words.test.ts has the words of its card.
 */
import { describe, expect, it } from 'vitest'
import { membersIn, newForm, type AllowanceForm } from '../../src/console/allowances/draft.ts'
import {
  barOf,
  baseAfter,
  endedAt,
  isBoundless,
  isLower,
  isOver,
  membersOf,
  nextTurnMs,
  saysSame,
  standingAt,
  useText,
  withNumber,
  type ListedAllowance,
} from '../../src/console/allowances/record.ts'
import {
  hasOtherWay,
  isOpen,
  mayName,
  missingRules,
  openedAgents,
  unnamedAt,
  type WaitingOperation,
} from '../../src/console/allowances/tier-rules.ts'
import type { LimitPlace } from '../../src/rules/words/allowance-words.ts'
import { asHandle } from '../../src/wire/identifiers.ts'
import type { Connection, Tier } from '../../src/wire/owner/owner-api.ts'
import { allowance, SHOPPING } from '../support/allowance.ts'

const NOW = 1_800_000_000

describe('What nothing bounds', () => {
  const sum = { of: 'price', per: 'day', max: '200' }
  const calls = { of: 'calls', per: 'day', max: '3' }
  it.each<[string, object, boolean]>([
    ['an amount that an operation and a window bound', {}, false],
    ['an amount that a window alone bounds', { amounts: [{ name: 'price', unit: 'CHF' }] }, false],
    ['an amount that is bounded in one operation alone', { windows: [calls] }, false],
    ['an amount without a number', { amounts: [{ name: 'price' }], windows: [calls] }, true],
    ['one amount of two', { amounts: [{ name: 'price' }, { name: 'tip' }], windows: [sum] }, true],
    ['an allowance without a window', { windows: [] }, true],
  ])('is told apart from what something bounds: %s', (_what, changes, expected) => {
    expect(isBoundless({ ...allowance(), ...changes })).toBe(expected)
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

describe('What is stored is what she wanted', () => {
  const wanted = membersOf(allowance())
  it.each<[string, object, object, boolean]>([
    ['if it says the very same, whatever its version', { version: 7 }, {}, true],
    ['not if a number differs', {}, { windows: [] }, false],
    ['not if one has ended alone', { until: '2020-01-01T00:00:00.000Z' }, {}, false],
    [
      'not if it is to end later',
      { until: '2099-01-01T00:00:00.000Z' },
      { until: '2099-01-02T00:00:00.000Z' },
      false,
    ],
    [
      'if both have ended, at whatever time',
      { until: '2020-01-01T00:00:00.000Z' },
      { until: '2020-01-01T00:00:05.000Z' },
      true,
    ],
  ])('%s', (_when, stored, changes, expected) => {
    expect(saysSame(allowance(stored), { ...wanted, ...changes }, NOW)).toBe(expected)
  })
})

describe('A second edit that she began before her first was stored', () => {
  const shown: ListedAllowance = { ...allowance(), use: [] }
  const stored = allowance({ version: 2, amounts: [{ name: 'price', unit: 'CHF', each_max: '5' }] })
  it('is stored over the first, if she was shown the same when she began it', () => {
    expect(baseAfter(shown, { over: allowance(), stored })).toBe(stored)
  })
  it('is stored over nothing that she was not shown: another device had changed it before her first', () => {
    const windows = [{ of: 'price', per: 'day', max: '900' }]
    const over = allowance({ version: 2, windows })
    expect(baseAfter(shown, { over, stored: { ...stored, version: 3, windows: over.windows } })).toBe(shown)
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

describe('The clock makes untrue what the page shows of allowances', () => {
  const at = (seconds: number): string => new Date((NOW + seconds) * 1_000).toISOString()
  const numbers = { max: '9', used: '0', held: '0', left: '9' }
  const begins = (seconds: number | null) => {
    const ends = seconds === null ? null : at(seconds)
    return {
      ...allowance(),
      use: [{ windows: [{ of: 'price', per: 'day' as const, ...numbers, starts: at(-9), ends }] }],
    }
  }
  it.each<[string, ListedAllowance[], number | undefined]>([
    ['when the first window begins anew', [begins(60), begins(30), allowance({ until: at(90) })], 30],
    ['when one ends', [begins(60), allowance({ until: at(20) })], 20],
    ['not by what is over', [begins(-1), allowance({ until: at(0) }), begins(70)], 70],
    ['never, if nothing ends', [begins(null), allowance()], undefined],
  ])('%s', (_when, allowances, seconds) => {
    const expected = seconds === undefined ? undefined : (NOW + seconds) * 1_000
    expect(nextTurnMs(allowances, NOW * 1_000)).toBe(expected)
  })
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

describe('Parameters that an allowance names nowhere', () => {
  const waits = (params: object, changes: Partial<WaitingOperation> = {}): WaitingOperation => ({
    kind: 'operation',
    tier: 'shopping',
    operation: { tool: 'place_order', params },
    ...changes,
  })
  const unnamed = (...waiting: WaitingOperation[]) => unnamedAt(allowance(), 'shopping', waiting)

  it('are those of operations of its tools that wait at the tier, each once', () => {
    const named = { price: 5, currency: 'CHF', payee: { name: 'Zoë' }, note: { any: 1 } }
    expect(unnamed()).toBeUndefined()
    expect(unnamed(waits(named))).toBeUndefined()
    const tipped = { ...named, tip: 1, payee: { name: 'Zoë', iban: 'x' } }
    expect(unnamed(waits(tipped), waits({ tip: 2, 'a/b~': 3 }))).toEqual(['/payee/iban', '/tip', '/a~1b~0'])
  })

  it.each<[string, Partial<WaitingOperation>]>([
    ['at another tier', { tier: 'other' }],
    ['of a tool that is beyond it anyway', { operation: { tool: 'close_account', params: { tip: 1 } } }],
    ['that she decides with others', { kind: 'joint' }],
    ['that names no operation', { operation: null }],
  ])('are not those of a request %s', (_which, changes) => {
    expect(unnamed(waits({ tip: 1 }, changes))).toBeUndefined()
  })

  it('are all, if it names none, whether something waits or not', () => {
    const bare = allowance({
      amounts: [],
      windows: [],
      tiers: { shopping: { tools: ['place_order'], amounts: {} } },
    })
    expect(unnamedAt(bare, 'shopping', [])).toBe('none')
    expect(unnamedAt(bare, 'shopping', [waits({ tip: 1 })])).toEqual(['/tip'])
    expect(unnamedAt(bare, 'other', [])).toBeUndefined()
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
