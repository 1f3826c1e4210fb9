/** In which order her page lists her agents: contract, "Owner API" (`/owner/connections`). */
import { describe, expect, it } from 'vitest'
import { inListOrder, type FirstListed } from '../../src/console/agent-order.ts'
import { asHandle } from '../../src/wire/identifiers.ts'
import type { Connection } from '../../src/wire/owner/owner-api.ts'

const agent = (name: string, day: number, status: Connection['status'] = 'active'): Connection => ({
  handle: asHandle(`jkt:${name}`),
  identity: 'pseudonymous',
  status,
  revocations: 0,
  label: null,
  operators: [],
  tiers_approved: [],
  tiers_granted: [],
  introduced_by: null,
  first_seen: `2026-11-0${day}T09:00:00.000Z`,
  last_access: null,
})
const listed = (agents: readonly Connection[], firstListed: FirstListed = new Map()): string[] =>
  inListOrder(agents, firstListed).map(({ handle }) => handle.slice('jkt:'.length))

describe('The list of her agents', () => {
  it('has those with access first, and of each half the newest first', () => {
    const all = [agent('a', 1), agent('b', 4, 'revoked'), agent('c', 2), agent('d', 3, 'revoked')]
    expect(listed(all)).toEqual(['c', 'a', 'b', 'd'])
  })

  it('keeps the order of handles among those that she first saw at one time', () => {
    const all = ['c', 'a', 'b'].map(name => agent(name, 1))
    expect(listed(all)).toEqual(['a', 'b', 'c'])
    expect(listed(all.toReversed())).toEqual(['a', 'b', 'c'])
  })

  it('keeps an agent where it was when its access ends, until the page is opened again', () => {
    const firstListed: FirstListed = new Map()
    expect(listed([agent('a', 2), agent('b', 1)], firstListed)).toEqual(['a', 'b'])
    const after = [agent('a', 2, 'revoked'), agent('b', 1), agent('c', 3)]
    expect(listed(after, firstListed)).toEqual(['c', 'a', 'b'])
    expect(listed(after)).toEqual(['c', 'b', 'a'])
  })
})
