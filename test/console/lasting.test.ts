/**
 * What a card says of the time after a grant: contract, "Owner API" (`item`): she is never shown less than
 * she opens.
 */
import { describe, expect, it } from 'vitest'
import {
  lastingText,
  laterText,
  mayApproveOnly,
  opensBy,
  opensText,
} from '../../src/console/waiting/lasting.ts'
import type { DecisionItem } from '../../src/wire/owner/decision-item.ts'
import { ITEM } from '../support/decision-samples.ts'

const first = { kind: 'connection', tier: 'reading' } as const
const hour = { single_use: false, expires_in: 3_600 }
const ONCE = 'For one call. It must be made within 5 minutes.'
const AGAIN = 'Then it must ask again.'
const UNASKED = 'Then it gets a new grant without asking you.'
const WITHIN = 'Then it gets new grants there without asking you, as far as your rules and your allowance go.'
const KNOWN = 'The agent stays known to you until you revoke it.'

describe('A card says how long what is asked for lasts', () => {
  it.each<[string, Partial<DecisionItem>, string[], string]>([
    [
      'a first contact at a tier that it opens',
      { ...first, ...hour },
      ['reading', 'statements'],
      `For 1 hour. ${UNASKED} ${KNOWN}`,
    ],
    [
      'a first contact that opens another tier alone',
      { ...first, ...hour },
      ['statements'],
      `For 1 hour. ${AGAIN} ${KNOWN}`,
    ],
    ['a first contact for one call', first, [], `${ONCE} ${AGAIN} ${KNOWN}`],
    [
      'a first contact for one call, if a rule lets it through',
      first,
      ['reading'],
      `${ONCE} ${UNASKED} ${KNOWN}`,
    ],
    ['an operation of an agent that she knows', { kind: 'operation' }, [], `${ONCE} ${AGAIN}`],
    [
      'an operation that is asked about as the first at its tier',
      { kind: 'operation', because: ['baseline:auto', 'ask:standing.first_at_tier'] },
      [],
      `${ONCE} A rule of this tier asks you about the first grant: after this one, the agent may go on there without asking you, unless another rule asks.`,
    ],
    [
      'an operation whose approval opens its tier',
      { kind: 'operation', tier: 'trading' },
      ['trading'],
      `${ONCE} ${WITHIN}`,
    ],
    ['what is held jointly', { kind: 'joint', ...hour }, [], `For 1 hour. ${AGAIN}`],
  ])('of %s', (_what, changes, opens, says) => {
    expect(lastingText({ ...ITEM, ...changes }, opens)).toBe(says)
  })
})

describe('An approval', () => {
  const call = { ...ITEM, kind: 'operation' as const, tier: 'trading', opens: ['trading'] }
  const contact = { ...ITEM, kind: 'connection' as const, tier: 'reading', opens: ['reading', 'trading'] }
  const jointly = { ...contact, kind: 'joint' as const, account: 'family', because: ['first_contact'] }

  it('may be of one call alone where it opens a tier, and of a first contact for its tier alone', () => {
    expect([call, contact].map(mayApproveOnly)).toEqual([true, true])
    expect([{ ...call, opens: [] }, jointly].map(mayApproveOnly)).toEqual([false, false])
    expect([opensBy(call, false), opensBy(call, true)]).toEqual([['trading'], []])
    expect([opensBy(contact, false), opensBy(contact, true)]).toEqual([['reading', 'trading'], ['reading']])
  })

  it('of a first contact says what it opens later, as she chose it; of an operation nothing opens later', () => {
    expect(laterText(contact, false)).toBe(
      'A tier that is added later and does not ask you is open to it, too. To rule that out, choose “Just for this tier”.',
    )
    expect(laterText(contact, true)).toBe(
      'At any other tier you are asked first, also at one that is added later.',
    )
    expect([call, jointly].map(item => laterText(item, false))).toEqual([undefined, undefined])
  })

  it('says that it opens a tier, unless all that asked of an agent let through before is about the call', () => {
    const because = ['baseline:ask_me', 'auto:standing.approved_at_tier', 'ask:operation.beyond:a']
    const before = { ...call, because }
    expect(opensText([call])).toContain('Approving also opens a tier to this agent')
    expect(opensText([before])).toContain('a tier that may be open to this agent already')
    const limited = { ...call, because: [...because, 'limit:each_max:price', 'ask:request.reason_absent?'] }
    expect(opensText([limited])).toContain('a tier that may be open to this agent already')
    for (const word of [
      'ask:standing.first_at_tier',
      'ask:request.reason_absent+standing.first_at_tier',
      'organization:always_ask',
    ])
      expect(opensText([{ ...before, because: [...because, word] }])).toContain('Approving also opens a tier')
    expect(opensText([before, call])).toContain('Approving also opens a tier to this agent')
    expect(opensText([contact])).toBe('Approving lets it through without asking you at')
  })
})
