/**
 * Her ledger is whole: what agents gave as their reasons, under which tier they called, and whatever she or
 * somebody for her changed, each with who did it. Contract, "Agreement (claim_token, beat 3)" (recorded),
 * "Events" (rows 2 and 5), "Owner API" (`/owner/ledger`).
 */
import { describe, expect, it } from 'vitest'
import type { LedgerKind } from '../../src/storage/authority/ledger/ledger.ts'
import { readRptClaims } from '../../src/wire/negotiation/tokens.ts'
import type { OwnerCall, Reply } from '../support/authority.ts'
import { authorityStand } from '../support/stands.ts'
import { decide, protectionCall, testAgent } from '../support/test-agent.ts'

const authority = authorityStand({ owners: ['alice', 'bea'] })

type Entry = Record<string, unknown> & { kind: string }
const own = (method: NonNullable<OwnerCall['method']>, target: string, json?: unknown): Promise<Reply> =>
  authority.call(authority.alice, { method, target, ...(json === undefined ? {} : { json }) })
const told = async (kind: LedgerKind): Promise<Entry[]> =>
  (await own('GET', `/owner/ledger?kind=${kind}&limit=1000`)).body.entries as Entry[]
const byHer = () => ({
  by: 'owner',
  actor: { kind: 'owner', credential: 'device_key', kid: authority.alice.key.thumbprint },
})
/** Told by what happens, in order. */
async function toldBy(kind: LedgerKind, act: () => Promise<unknown>): Promise<Entry[]> {
  const before = (await told(kind)).length
  await act()
  return (await told(kind)).slice(before)
}

describe('What an agent says of itself is recorded with its promise', () => {
  const said = {
    reason: 'To \u202eprepare\0 the quarter',
    mission: { approver: 'https://work.example/q', s256: 'x'.repeat(43) },
  }

  it('reason and mission stand in `promised`, whether she is asked or not', async () => {
    const agent = testAgent(authority)
    const held = await toldBy('promised', () => agent.ask('portfolio_read', said))
    expect(held).toMatchObject([{ handle: agent.handle, effect: 'ask', ...said }])
    await decide(authority, agent.handle, 'approved')
    const granted = await toldBy('promised', () => agent.granted('portfolio_read', said))
    expect(granted).toMatchObject([{ handle: agent.handle, effect: 'grant', ...said }])
  })

  it('both are null if it gives none', async () => {
    const agent = testAgent(authority)
    expect(await toldBy('promised', () => agent.ask())).toMatchObject([{ reason: null, mission: null }])
    await decide(authority, agent.handle, 'denied')
  })
})

it('a call is told with the tier that its grant was given under, whatever its summary holds', async () => {
  const { rpt } = await testAgent(authority).granted('portfolio_read')
  const { jti, family } = readRptClaims(rpt)
  const report = { id: 'r1', family, jti, tool: 'portfolio_read', summary: 'a\0b', at: 1_700_000_000 }
  const touched = await toldBy('touched', () => protectionCall(authority, '/audit/access', report))
  expect(touched).toMatchObject([{ tier: 'reading', tool: 'portfolio_read', summary: 'a\0b', jti, family }])
})

describe('Her policy', () => {
  const tier = {
    id: 'closing',
    name: 'Closing',
    resources: ['alice/account'],
    ask_me: false,
    rules: [{ when: ['request.reason_absent'], then: 'ask' }],
    clearance: {},
    terms: { purpose: 'Close', scope: ['close'], expires_in: 60, prohibited: [] },
  }
  const { id: _id, name: tier_name, terms: _terms, ...content } = tier

  it('policy_changed tells a tier that she adds, and each edit of it, whole, with the terms before and after', async () => {
    expect(await toldBy('policy_changed', () => own('POST', '/owner/policies', tier))).toEqual([
      expect.objectContaining({
        tier: 'closing',
        tier_name,
        was: null,
        template_id: 'alice/closing/v1',
        ...content,
        ...byHer(),
      }),
    ])
    const edited = () => own('PUT', '/owner/policies/closing', { ...tier, rules: [] })
    expect(await toldBy('policy_changed', edited)).toEqual([
      expect.objectContaining({
        was: 'alice/closing/v1',
        template_id: 'alice/closing/v2',
        ...content,
        rules: [],
        ...byHer(),
      }),
    ])
  })

  it('policy_removed tells what is ungoverned now', async () => {
    const removed = await toldBy('policy_removed', () => own('DELETE', '/owner/policies/closing'))
    expect(removed).toEqual([
      expect.objectContaining({ tier: 'closing', ungoverned: ['alice/account'], ...byHer() }),
    ])
  })

  it('what is refused is not told', async () => {
    const refused = async () => {
      expect((await own('POST', '/owner/policies', { ...tier, resources: ['alice/nothing'] })).status).toBe(
        400,
      )
      expect((await own('DELETE', '/owner/policies/closing')).status).toBe(404)
    }
    expect(await toldBy('policy_changed', refused)).toEqual([])
  })
})

describe('Operators', () => {
  const origin = 'https://operator.example'
  const act = (verb: 'block' | 'unblock') => own('POST', `/owner/operators/${verb}`, { origin })

  it('blocked and unblocked tell the operator, once however many ask at once, and not if nothing changes', async () => {
    const race = (verb: 'block' | 'unblock') => () => Promise.all(Array.from({ length: 8 }, () => act(verb)))
    const once = [expect.objectContaining({ operator: origin, ...byHer() })]
    expect(await toldBy('blocked', race('block'))).toEqual(once)
    expect(await toldBy('unblocked', race('unblock'))).toEqual(once)
  })

  it('what a block ends is told beside it as revoked, and the block is none of these', async () => {
    const { client_id, handle } = await connectedOf(origin)
    const revoked = await toldBy('revoked', () => act('block'))
    expect(revoked).toEqual([expect.objectContaining({ handle, operator: origin, ...byHer() })])
    await act('unblock')
    expect(client_id).toContain(origin)
  })
})

/** A connected agent that this operator stands behind, as named when she approved it. */
async function connectedOf(origin: string): Promise<{ client_id: string; handle: string }> {
  const client_id = `${origin}/agent`
  const agent = testAgent(authority, { client_id })
  await agent.granted('portfolio_read')
  return { client_id, handle: agent.handle }
}

it('server_approved and server_withdrawn tell her decisions about resource servers, and nothing if she decides the same again', async () => {
  const decideServer = (decision: 'approved' | 'revoked') =>
    own('POST', '/owner/resource-servers/decision', { client_id: 'demo-tools', decision })
  const one = [expect.objectContaining({ client_id: 'demo-tools', ...byHer() })]
  expect(await toldBy('server_withdrawn', () => decideServer('revoked'))).toEqual(one)
  expect(await toldBy('server_withdrawn', () => decideServer('revoked'))).toEqual([])
  expect(await toldBy('server_approved', () => decideServer('approved'))).toEqual(one)
})
