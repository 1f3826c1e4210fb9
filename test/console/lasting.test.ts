/**
 * What a card says of the time after a grant: contract, "Owner API" (`item`): she is never shown less than
 * she opens.
 */
import { describe, expect, it } from 'vitest'
import { lastingText } from '../../src/console/waiting/lasting.ts'
import type { DecisionItem } from '../../src/wire/owner/decision-item.ts'
import { ITEM } from '../support/decision-samples.ts'

const first = { kind: 'connection', tier: 'reading' } as const
const hour = { single_use: false, expires_in: 3_600 }
const ONCE = 'For one call. It must be made within 5 minutes.'
const AGAIN = 'Then it must ask again.'
const UNASKED = 'Then it gets a new grant without asking you.'
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
    ['what is held jointly', { kind: 'joint', ...hour }, [], `For 1 hour. ${AGAIN}`],
  ])('of %s', (_what, changes, opens, says) => {
    expect(lastingText({ ...ITEM, ...changes }, opens)).toBe(says)
  })
})
