/**
 * Contract, "Protection API" (/audit/access) and "Events" (row 2): what enforcement points report of allowed
 * calls.
 */
import { describe, expect, it } from 'vitest'
import type { Handle } from '../../src/wire/identifiers.ts'
import { readRptClaims } from '../../src/wire/negotiation/tokens.ts'
import { authorityStand } from '../support/stands.ts'
import { protectionCall, testAgent } from '../support/test-agent.ts'

const authority = authorityStand({ owners: ['alice', 'bea'] })

describe('/audit/access', () => {
  const touched = async () =>
    (await authority.call(authority.alice, { target: '/owner/ledger?kind=touched&limit=1000' })).body
      .entries as object[]

  it('feeds the touched entries, each report once, singly or in a batch', async () => {
    const agent = testAgent(authority)
    const { rpt } = await agent.granted()
    const { jti, family } = readRptClaims(rpt)
    const report = { id: 'r1', family, jti, tool: 'portfolio_read', summary: 's256:x', at: 1_700_000_000 }
    const before = (await touched()).length
    expect((await protectionCall(authority, '/audit/access', report)).body).toEqual({ recorded: 1 })
    expect((await protectionCall(authority, '/audit/access', report)).body).toEqual({ recorded: 0 })
    const batch = { entries: [report, { ...report, id: 'r2' }, { ...report, id: 'r3', jti: 'rpt_other' }] }
    expect((await protectionCall(authority, '/audit/access', batch)).body).toEqual({
      recorded: 1,
      error: 'unknown_token',
      unknown: ['r3'],
    })
    expect(await touched()).toHaveLength(before + 2)
    const connections = (await authority.call(authority.alice, { target: '/owner/connections?limit=1000' }))
      .body as {
      handle: Handle
      last_access: string | null
    }[]
    expect(connections.find(entry => entry.handle === agent.handle)?.last_access).not.toBeNull()
  })

  it('without an id every report is recorded, and the answer says that it is not idempotent', async () => {
    const { rpt } = await testAgent(authority).granted()
    const { jti, family } = readRptClaims(rpt)
    const bare = { family, tool: 'portfolio_read' }
    const before = Math.floor(Date.now() / 1000)
    for (const _ of [1, 2])
      expect((await protectionCall(authority, '/audit/access', bare)).body).toEqual({
        recorded: 1,
        idempotent: false,
      })
    const batch = { entries: [{ ...bare, id: family }, bare, { ...bare, family: 'fam_none' }] }
    expect((await protectionCall(authority, '/audit/access', batch)).body).toEqual({
      recorded: 2,
      idempotent: false,
      error: 'unknown_token',
      unknown: ['fam_none'],
    })
    const entries = (await touched()).filter(entry => (entry as { family: string }).family === family)
    expect(entries).toHaveLength(4)
    for (const entry of entries) {
      // The grant of the family, and the time of the report, stand in for what was left out.
      expect(entry).toMatchObject({ jti, tool: 'portfolio_read' })
      expect((entry as { at: number }).at).toBeGreaterThanOrEqual(before)
    }
  })

  it('says at which millisecond it was, if the enforcement point does, beside when it was reported', async () => {
    const { rpt } = await testAgent(authority).granted()
    const { family } = readRptClaims(rpt)
    const at_ms = Date.now() - 200
    const call = { family, tool: 'portfolio_read', at: Math.floor(at_ms / 1_000), at_ms }
    const entries = [call, { ...call, at_ms: 9e15 }]
    expect((await protectionCall(authority, '/audit/access', { entries })).body).toMatchObject({
      recorded: 2,
    })
    const told = (await touched()).filter(entry => (entry as { family: string }).family === family)
    expect(told.map(entry => (entry as { at_ms?: number }).at_ms)).toEqual([at_ms, undefined])
    expect(Date.parse((told[0] as { ts: string }).ts)).toBeGreaterThanOrEqual(at_ms)
  })

  it('with NUL, or with an impossible time, is recorded all the same, and costs no other report', async () => {
    const { rpt } = await testAgent(authority).granted()
    const { family } = readRptClaims(rpt)
    const entries = [
      { id: 'odd-1', family, tool: 'portfolio_read' },
      { id: 'odd-2', family, tool: 'portfolio\0', summary: 'what\0' },
      { id: 'odd-3', family, tool: 'portfolio_read', at: 9e15 },
    ]
    expect((await protectionCall(authority, '/audit/access', { entries })).body).toEqual({ recorded: 3 })
    const told = (await touched()).filter(entry => (entry as { family: string }).family === family)
    expect(told.map(entry => (entry as { tool: string }).tool)).toContain('portfolio\0')
    for (const entry of told) expect((entry as { at: number }).at).toBeLessThan(Date.now() / 1000 + 60)
  })

  it("another owner's resource server cannot report on a grant", async () => {
    const { rpt } = await testAgent(authority).granted()
    const { jti, family } = readRptClaims(rpt)
    for (const report of [
      { id: 'x', family, jti, tool: 't', at: 1 },
      { family, tool: 't' },
    ])
      expect((await protectionCall(authority, '/audit/access', report, 'bea')).body).toMatchObject({
        recorded: 0,
        unknown: [report.id ?? family],
      })
  })

  it.each<[string, unknown]>([
    ['no entries', { entries: [] }],
    ['a summary over 1 KiB', { id: '1', family: 'f', jti: 'j', tool: 't', at: 1, summary: 'é'.repeat(513) }],
    ['a time of the wrong type', { id: '1', family: 'f', jti: 'j', tool: 't', at: 'now' }],
    ['a NUL in an id', { id: '\0', family: 'f', jti: 'j', tool: 't', at: 1 }],
    ['nothing', {}],
  ])('%s is 400', async (_, body) => {
    const reply = await protectionCall(authority, '/audit/access', body)
    expect([reply.status, reply.body.error]).toEqual([400, 'invalid_request'])
  })
})
