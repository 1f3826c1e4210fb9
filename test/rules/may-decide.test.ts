/**
 * Who may decide a request that waits with an owner: contract, "Owner API"
 * (`/owner/pending/{family}/decision`), "Organization membership, on the member's authorization server"
 * (`/org/admin/{owner}/...`).
 */
import { describe, expect, it } from 'vitest'
import { mayDecide, type Obstacle } from '../../src/rules/organization/may-decide.ts'

const OBSTACLES: readonly Obstacle[] = ['blocked', 'ended', 'refused']

/** Who of the two may make the decision. */
function deciders(decision: 'approved' | 'denied', obstacle: Obstacle | false): string[] {
  return (['owner', 'administrator'] as const).filter(by => mayDecide(by, decision, obstacle))
}

describe('A request that waits with an owner', () => {
  it('may be denied by her and by an administrator, whatever stands against an approval', () => {
    for (const obstacle of [false, ...OBSTACLES] as const)
      expect(deciders('denied', obstacle)).toEqual(['owner', 'administrator'])
  })

  it('may be approved by her and by an administrator if nothing stands against it', () => {
    expect(deciders('approved', false)).toEqual(['owner', 'administrator'])
  })

  it('may be approved by nobody as long as she blocks its agent or the operator', () => {
    expect(deciders('approved', 'blocked')).toEqual([])
  })

  it('may be approved by her alone if the access of its agent was ended or her tier refuses it', () => {
    expect(deciders('approved', 'ended')).toEqual(['owner'])
    expect(deciders('approved', 'refused')).toEqual(['owner'])
  })
})
