/**
 * contract, "Authorized call", order 4, and "Owner API" (`/owner/pending/{family}/decision`): a call must
 * match the decision that the owner signed, whatever her authority says.
 */
import { describe, expect, it } from 'vitest'
import { approvalFault, type ApprovalFault, type CallToApprove } from '../../src/rules/approved-call.ts'
import { withoutParameters, type DecisionItem } from '../../src/wire/owner/decision-item.ts'
import { verifyStatement, type StatementClaims } from '../../src/wire/owner/decision-statement.ts'
import { s256, s256Json } from '../../src/wire/encoding.ts'
import type { JsonObject } from '../../src/wire/json.ts'
import { approvalOf, ITEM, PARAMS } from '../support/decision-samples.ts'
import { ISSUER, newKey, NOW } from '../support/wire-samples.ts'

const key = newKey()

const CALL: CallToApprove = {
  owner: 'bea',
  resource: ITEM.resource,
  resource_id: 'bea/trading',
  tool: 'place_trade',
  params: PARAMS,
  params_s256: s256Json(PARAMS),
  consequence: 'compensatable',
  grant: {
    family: 'fam_1',
    handle: ITEM.agent.handle,
    contract: ITEM.agreement_s256,
    jkt: ITEM.agent.jkt,
    scopes: ['trade'],
    lifetimeSeconds: 300,
    single_use: true,
    isBreakGlass: false,
  },
}

interface Presented {
  /** What she was shown, and signed. */
  signed?: object
  claims?: Partial<StatementClaims>
  /** What introspection tells of it, where that is another. */
  told?: JsonObject
  call?: Partial<CallToApprove>
  grant?: Partial<CallToApprove['grant']>
}

function faultOf({ signed, claims, told, call, grant }: Presented = {}): ApprovalFault | undefined {
  const item = JSON.parse(JSON.stringify({ ...ITEM, ...signed })) as DecisionItem
  const compact = approvalOf(item, key, claims)
  return approvalFault(
    verifyStatement(compact, { devices: [key], passkeys: [] }, { audience: ISSUER, now: NOW }),
    told ?? withoutParameters(item),
    { ...CALL, ...call, grant: { ...CALL.grant, ...grant } },
  )
}

const OTHER_PARAMS = { ...PARAMS, qty: 500 }

describe('A decision that the owner signed', () => {
  it('is of the call that she was shown', () => {
    expect(faultOf()).toBeUndefined()
  })

  it('is of the parameters of the call, whatever stands among those of the item', () => {
    const told = { ...ITEM, operation: { tool: 'place_trade', params: OTHER_PARAMS } }
    expect(faultOf({ told })).toBeUndefined()
    expect(faultOf({ told, call: { params: OTHER_PARAMS } })).toBe('item_s256')
  })

  it.each<[string, Presented, ApprovalFault]>([
    ['a denial', { claims: { decision: 'denied' } }, 'decision'],
    ['another item', { claims: { item_s256: s256('other') } }, 'item_s256'],
    ['parameters that she was not shown', { call: { params: OTHER_PARAMS } }, 'item_s256'],
    ['a record of another form', { signed: { v: 2 } }, 'v'],
    ['another owner’s item', { signed: { owner: 'bob' }, claims: { owner: 'bea' as never } }, 'owner'],
    ['another owner’s statement', { claims: { owner: 'bob' as never } }, 'owner'],
    ['a route of another owner', { call: { owner: 'bob' } }, 'owner'],
    ['another resource', { signed: { resource: 'https://other.example/mcp/bea' } }, 'resource'],
    ['another route', { call: { resource: 'https://other.example/mcp/bea' } }, 'resource'],
    ['an item of another family', { signed: { family: 'fam_2' }, claims: { family: ITEM.family } }, 'family'],
    ['a statement of another family', { claims: { family: 'fam_2' as never } }, 'family'],
    ['a grant of another family', { grant: { family: 'fam_2' } }, 'family'],
    ['another agent', { grant: { handle: `jkt:${'b'.repeat(43)}` } }, 'agent.handle'],
    ['another key of the agent', { grant: { jkt: 'b'.repeat(43) } }, 'agent.jkt'],
    ['an agent that is none', { signed: { agent: null } }, 'agent.handle'],
    ['another agreement', { grant: { contract: s256('other') } }, 'agreement_s256'],
    ['another tool', { call: { tool: 'withdraw' } }, 'operation.tool'],
    ['an item with another hash of the parameters', { signed: { params_s256: s256('x') } }, 'params_s256'],
    ['a call with another hash of the parameters', { call: { params_s256: s256('x') } }, 'params_s256'],
    ['another resource id', { call: { resource_id: 'bea/savings' } }, 'resource_id'],
    ['a grant of more scopes', { grant: { scopes: ['trade', 'withdraw'] } }, 'scopes'],
    ['scopes that are no list', { signed: { scopes: 'trade withdraw' } }, 'scopes'],
    ['a statement that lets it be used again', { claims: { single_use: false } }, 'single_use'],
    ['a grant that can be used again', { grant: { single_use: false } }, 'single use'],
    ['a statement of a longer life', { claims: { expires_in: 301 } }, 'expires_in'],
    ['a grant of a longer life', { grant: { lifetimeSeconds: 301 } }, 'expires_in'],
    ['a grant that does not say how long it lives', { grant: { lifetimeSeconds: undefined } }, 'expires_in'],
    ['a tool that is graver by now', { call: { consequence: 'irreversible' } }, 'consequence'],
    ['an item without a class', { signed: { consequence: undefined } }, 'consequence'],
    ['an item with a word that is no class', { signed: { consequence: 'harmless' } }, 'consequence'],
    ['a grant of an emergency', { grant: { isBreakGlass: true } }, 'break-glass'],
  ])('is none for %s', (_what, presented, fault) => {
    expect(faultOf(presented)).toBe(fault)
  })

  it.each<[string, Presented]>([
    ['a tool that is milder', { call: { consequence: 'reversible' } }],
    ['a tool that declares no class', { call: { consequence: undefined } }],
    ['a grant of fewer scopes and a shorter life', { grant: { scopes: [], lifetimeSeconds: 1 } }],
    [
      'whatever else she was shown',
      { signed: { tier: 'other', because: ['x'], opens: ['all'], new_member: 1 } },
    ],
  ])('is good for %s', (_what, presented) => {
    expect(faultOf(presented)).toBeUndefined()
  })

  it.each(Object.keys(ITEM).filter(name => name !== 'operation'))(
    'is none once %s of the item is told otherwise',
    name => {
      const told = { ...withoutParameters(ITEM), [name]: 'changed' }
      expect(faultOf({ told })).toBe('item_s256')
    },
  )
})
