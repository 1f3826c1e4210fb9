/**
 * The judgement of what allowances let through, by histories made for it: for each verdict one that is right
 * and one that is wrong. contract, "Policy vocabulary and tiers".
 */
import { describe, expect, it } from 'vitest'
import { allowanceRules } from './check-allowances.ts'
import { violationsOf } from './check.ts'
import { indexOf } from './indexed.ts'
import {
  allow,
  call,
  CAST,
  decide,
  ends,
  history,
  present,
  submitted,
  taken,
  uses,
  type Made,
} from './made.ts'

/** Lasting ten milliseconds, so many seconds after the history began. */
const after = (seconds: number) => ({ at: seconds * 1_000, until: seconds * 1_000 + 10 })
const share = (price: number) => ({ allowance: 'shop', price, agreed: 10, beyond: false })
const ofHour = { windows: [{ of: 'calls', per: 'hour', max: 9 }] }

const GOOD: Record<string, Made[]> = {
  'grants that take all that there is, and are spent': [
    allow(1, 100),
    taken('g', 60),
    taken('h', 40),
    call(),
    call({ jti: 'h' }),
    uses(100),
  ],
  'a share that came back when its grant had expired, and was taken again': [
    allow(1, 100),
    taken('g', 100, { grant: { exp: 1 } }),
    uses(100),
    taken('h', 100, after(20)),
    uses(100, after(30)),
  ],
  'a grant from while an edit lowered what there is': [
    allow(1, 100),
    taken('g', 60),
    allow(2, 10, { at: 40, until: 200 }),
    taken('h', 40, { at: 100, until: 120 }),
    uses(100, after(1)),
  ],
  'a grant before an edit that lowered what there is below what was used': [
    allow(1, 100),
    taken('g', 60),
    call(),
    allow(2, 10),
    uses(60),
  ],
  'a grant under an edit whose answer was lost': [
    allow(1, 10),
    allow(2, 100, { outcome: 'unknown' }),
    taken('g', 60),
  ],
  'what she approved, which takes nothing': [
    allow(1, 10),
    submitted({ family: 'of g', kind: 'operation', share: share(50) }),
    decide('approved', { family: 'of g', kind: 'operation' }),
    taken('g', 50),
    call(),
    uses(0),
  ],
  'an answer that was lost, and whose share is counted or is not': [
    allow(1, 100),
    present('t', { outcome: 'unknown', share: share(60) }),
    uses(60),
    uses(0),
    uses(60, after(90)),
  ],
  'a refusal, which takes nothing': [
    allow(1, 100),
    present('t', { answer: 'need_info' }),
    present('t', { code: 'invalid_grant', share: share(60) }),
    uses(0),
  ],
  'agents that each have windows of their own': [
    allow(1, 100, { among: 'lineage' }),
    taken('g', 100),
    taken('h', 100, { handle: 'b', grant: { handle: 'b' } }),
    uses(100, { windows: [{ of: 'price', per: 'all', whose: 'b', starts: 0, used: 100 }] }),
  ],
  'six grants of an agent, of which one was maybe spent before the last': [
    allow(1, 100),
    ...['g', 'h', 'i', 'j', 'k'].map(jti => taken(jti, 1)),
    call({ outcome: 'outage' }),
    taken('l', 1),
  ],
  'six grants of an agent that was let in again': [
    allow(1, 100),
    ...['g', 'h', 'i', 'j', 'k'].map(jti => taken(jti, 1)),
    ends('revoke', 'a'),
    submitted({ family: 'again' }),
    decide('approved', { family: 'again' }),
    taken('l', 1),
  ],
  'a grant that ends with its hour, and one that is counted in the next': [
    allow(1, 100, ofHour),
    taken('g', 1, { grant: { exp: 1_800, agreed: 1_900 } }),
    taken('h', 1, { ...after(1_801), grant: { exp: 1_900, agreed: 1_900 } }),
  ],
}

const BAD: [string, says: string, Made[]][] = [
  [
    'a grant takes more than there is',
    '110 of 100 were used',
    [allow(1, 100), taken('g', 60), taken('h', 50)],
  ],
  [
    'two at once both take the last share',
    '120 of 100 were used',
    [allow(1, 100), taken('g', 60, { at: 20, until: 60 }), taken('h', 60, { at: 30, until: 70 })],
  ],
  [
    'more is spent than there is, because a share was given back that is spent later',
    '120 of 100 were spent',
    [
      allow(1, 100),
      taken('g', 60, { grant: { exp: 5 } }),
      taken('h', 60, after(4)),
      call(after(4.5)),
      call({ jti: 'h', ...after(5) }),
    ],
  ],
  [
    'a grant is given under what an edit lowered',
    '60 of 50 were used',
    [allow(1, 100), allow(2, 50), taken('g', 60)],
  ],
  [
    'a grant is given after the end',
    '60 of 0 were used',
    [allow(1, 100), allow(2, 100, { open: false }), taken('g', 60)],
  ],
  [
    'an agent takes more than is there for each',
    '110 of 100 were used',
    [allow(1, 100, { among: 'lineage' }), taken('g', 60), taken('h', 50)],
  ],
  [
    'more calls are let through in an hour than there are',
    '10 of 9 were used in the window of calls per hour',
    [
      allow(1, 100, ofHour),
      ...Array.from({ length: 10 }, (_, n) =>
        taken(`g${n}`, 1, { handle: `a${n}`, grant: { handle: `a${n}` } }),
      ),
    ],
  ],
  [
    'what is beyond it is let through unasked',
    'was let through unasked',
    [allow(1, 100), taken('g', 60, { share: { ...share(60), beyond: true } })],
  ],
  [
    'an agent holds six grants',
    'holds 6 unspent grants',
    [allow(1, 100), ...['g', 'h', 'i', 'j', 'k', 'l'].map(jti => taken(jti, 1))],
  ],
  [
    'a call passes when its grant has expired',
    'after it had expired',
    [allow(1, 100), taken('g', 60, { grant: { exp: 1 } }), call(after(10))],
  ],
  [
    'a grant outlives its hour',
    'outlives the window',
    [allow(1, 100, ofHour), taken('g', 60, { grant: { exp: 1_801 } })],
  ],
  [
    'the share of a spent grant is given back',
    '0 used in the window of price per all, where 60 were taken and kept',
    [allow(1, 100), taken('g', 60, { grant: { exp: 1 } }), call(), uses(0, after(20))],
  ],
  [
    'a share is given back twice',
    '10 used in the window of price per all, where 40 were taken and kept',
    [allow(1, 100), taken('g', 30, { grant: { exp: 1 } }), taken('h', 40), uses(10, after(20))],
  ],
  [
    'a share is not taken',
    '0 used in the window of price per all, where 60 were taken and kept',
    [allow(1, 100), taken('g', 60), uses(0)],
  ],
  [
    'a share is counted a minute after its grant expired',
    '60 used in the window of price per all, where 0 may still be counted',
    [allow(1, 100), taken('g', 60, { grant: { exp: 1 } }), uses(60, after(70))],
  ],
  [
    'what she approved is counted',
    '50 used in the window of price per all, where 0 may still be counted',
    [
      allow(1, 10),
      submitted({ family: 'of g', kind: 'operation' }),
      decide('approved', { family: 'of g', kind: 'operation' }),
      taken('g', 50),
      uses(50),
    ],
  ],
  [
    'what was refused is counted',
    '60 used in the window of price per all, where 0 may still be counted',
    [allow(1, 100), present('t', { code: 'invalid_grant', share: share(60) }), uses(60)],
  ],
  [
    'a lost answer is counted for ever',
    '60 used in the window of price per all, where 0 may still be counted',
    [allow(1, 100), present('t', { outcome: 'unknown', share: share(60) }), uses(60, after(120))],
  ],
]

describe('The judgement of allowances', () => {
  it.each(Object.entries(GOOD))('finds nothing wrong with %s', (_, made) => {
    expect(violationsOf(history(...made), CAST)).toEqual([])
  })

  it.each(BAD)('finds that %s', (_, says, made) => {
    const found = violationsOf(history(...made), CAST).filter(({ rule }) => rule === 'allowance')
    expect(found.map(one => one.says)).toContainEqual(expect.stringContaining(says))
    for (const { ops } of found) expect(ops.every(n => n < made.length)).toBe(true)
  })

  it('waits a minute for a share to be given back, or less if it is told so', () => {
    const ops = history(allow(1, 100), taken('g', 60, { grant: { exp: 1 } }), uses(60, after(10)))
    const indexed = indexOf(ops, CAST)
    expect(allowanceRules(indexed)).toEqual([])
    expect(allowanceRules(indexed, 0).map(({ says }) => says)).toEqual([
      expect.stringContaining('where 0 may still be counted'),
    ])
  })
})
