/**
 * Which requests her page lets her decide together: contract, "Owner API" (`/owner/pending/decisions`): what
 * cannot be undone is approved by a deliberate act for each call.
 */
import { describe, expect, it } from 'vitest'
import { groupsOf, isGrave } from '../../src/console/waiting/groups.ts'
import type { DecisionItem } from '../../src/wire/owner/decision-item.ts'
import { asFamily, asHandle } from '../../src/wire/identifiers.ts'
import { ITEM } from '../support/decision-samples.ts'

const item = (family: string, changes: Partial<DecisionItem> = {}): DecisionItem => ({
  ...ITEM,
  family: asFamily(family),
  consequence: 'reversible',
  ...changes,
})
const undeclared = (family: string): DecisionItem => {
  const { consequence: _none, ...rest } = item(family)
  return rest
}
const families = (items: readonly DecisionItem[]): string[] => items.map(({ family }) => family)

describe('Requests that she can decide together', () => {
  it('are approved together only if each can be undone or made good', () => {
    const all = [
      item('fam_1'),
      item('fam_2', { consequence: 'irreversible' }),
      item('fam_3', { consequence: 'compensatable' }),
      undeclared('fam_4'),
      item('fam_5', { consequence: 'a word of tomorrow' }),
    ]
    const [group, ...others] = groupsOf(all)
    expect(others).toEqual([])
    expect(families(group!.approvable)).toEqual(['fam_1', 'fam_3'])
    expect(families(group!.deniable)).toEqual(families(all))
    expect(group!.graveCount).toBe(3)
  })

  it('are of one agent, one tool and one resource, and at least two', () => {
    const other = { ...ITEM.agent, handle: asHandle('jkt:other') }
    const groups = groupsOf([
      item('fam_1'),
      item('fam_2', { agent: other }),
      item('fam_3', { resource_id: 'bea/other' }),
      item('fam_4', { operation: { tool: 'cancel_trade', params: {} } }),
      item('fam_5'),
    ])
    expect(groups.map(({ all }) => families(all))).toEqual([['fam_1', 'fam_5']])
  })

  it('are no first contacts, and nothing that others have a say in', () => {
    const { operation: _none, ...first } = item('fam_1', { kind: 'connection' })
    expect(groupsOf([first, { ...first, family: asFamily('fam_2') }])).toEqual([])
    expect(groupsOf([item('fam_3', { kind: 'joint' }), item('fam_4', { kind: 'joint' })])).toEqual([])
  })

  it('are as many as the API accepts at once, the oldest', () => {
    const all = Array.from({ length: 53 }, (_, at) => item(`fam_${at}`))
    const [group] = groupsOf(all)
    expect(families(group!.approvable)).toEqual(families(all.slice(0, 50)))
    expect(families(group!.deniable)).toEqual(families(all.slice(0, 50)))
  })
})

describe('A request needs a deliberate act', () => {
  it('unless it is a call that can be undone or made good, or is no call and of no class', () => {
    const { operation: _call, ...noCall } = undeclared('fam_1')
    expect([isGrave(item('fam_1')), isGrave(item('fam_1', { consequence: 'compensatable' }))]).toEqual([
      false,
      false,
    ])
    expect(isGrave(noCall)).toBe(false)
    expect([isGrave(undeclared('fam_1')), isGrave(item('fam_1', { consequence: 'irreversible' }))]).toEqual([
      true,
      true,
    ])
  })
})
