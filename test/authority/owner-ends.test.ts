/**
 * `judged` in what an authority answers about a grant: docs/choices.md, "What judged a call". Contract:
 * "Introspection and consume answers", "Events" (row 2).
 */
import { describe, expect, it } from 'vitest'
import { readRptClaims } from '../../src/wire/negotiation/tokens.ts'
import { withLogKeys } from '../support/log-keys.ts'
import { authorityStand } from '../support/stands.ts'
import { protectionCall, testAgent } from '../support/test-agent.ts'

const authority = authorityStand({ environment: withLogKeys().environment })
const without = authorityStand()

const TRADE = { operation: { tool: 'place_trade', params: {} } }
const introspected = async (rpt: string, at = authority) =>
  (await protectionCall(at, '/introspect', { token: rpt })).body as Record<string, unknown>
const consumed = async (rpt: string, at = authority) =>
  (await protectionCall(at, '/consume', { token: rpt })).body as Record<string, unknown>
const own = (method: 'GET' | 'POST' | 'PUT', target: string, json?: object) =>
  authority.call(authority.alice, { method, target, ...(json && { json }) })

describe('Judged', () => {
  it('is in an active introspection answer and in a consume that won, and in no other', async () => {
    const { rpt } = await testAgent(authority).granted('place_trade', TRADE)
    const { judged } = await introspected(rpt)
    expect(judged).toEqual({ ends: expect.any(Number), at: expect.any(Number) })
    expect(await consumed(rpt)).toMatchObject({ consumed: true, judged: { ends: expect.any(Number) } })
    for (const answer of [await introspected(rpt), await consumed(rpt), await introspected('unknown')])
      expect(answer).not.toHaveProperty('judged')
  })

  it('is in each of several answers', async () => {
    const agents = [testAgent(authority), testAgent(authority)]
    const tokens = await Promise.all(agents.map(async agent => (await agent.granted()).rpt))
    const { body } = await protectionCall(authority, '/introspect', { tokens })
    const { answers } = body as { answers: Record<string, unknown>[] }
    expect(answers).toHaveLength(2)
    for (const answer of answers) expect(answer).toMatchObject({ judged: { ends: expect.any(Number) } })
  })

  it('is in no answer where there are no keys of the log', async () => {
    const { rpt } = await testAgent(without).granted('place_trade', TRADE)
    expect(await introspected(rpt, without)).toMatchObject({ active: true })
    expect(await introspected(rpt, without)).not.toHaveProperty('judged')
    expect(await consumed(rpt, without)).toEqual({ consumed: true, family: readRptClaims(rpt).family })
  })

  it('counts one more after each act that ended something of hers, and none after what ended nothing', async () => {
    const agent = testAgent(authority)
    const { rpt } = await agent.granted()
    const ends = async () => (await introspected(rpt))['judged'] as { ends: number }
    const { ends: before } = await ends()
    await own('PUT', '/owner/connections/label', { handle: agent.handle, label: 'Reader' })
    expect((await ends()).ends).toBe(before)
    const other = testAgent(authority)
    await other.granted()
    expect((await ends()).ends).toBe(before)
    const { status } = await own('POST', '/owner/connections/revoke', { handle: other.handle })
    expect(status).toBe(200)
    expect((await ends()).ends).toBe(before + 1)
    expect((await own('POST', '/owner/connections/block', { handle: other.handle })).status).toBe(200)
    expect((await ends()).ends).toBe(before + 2)
  })
})

describe('The entry of a call', () => {
  it('has what the enforcement point was told when the call was judged', async () => {
    const { rpt } = await testAgent(authority).granted()
    const { jti, family } = readRptClaims(rpt)
    const { judged } = await introspected(rpt)
    const report = { id: family, family, jti, tool: 'portfolio_read', judged }
    expect((await protectionCall(authority, '/audit/access', report)).body).toEqual({ recorded: 1 })
    const { body } = await own('GET', '/owner/ledger?kind=touched&limit=1000')
    const entries = body.entries as { family: string }[]
    expect(entries.find(entry => entry.family === family)).toMatchObject({ judged })
  })

  it.each<[string, unknown]>([
    ['text', 'soon'],
    ['a count below 0', { ends: -1, at: 1 }],
  ])('is refused with a `judged` of %s', async (_what, judged) => {
    const { rpt } = await testAgent(authority).granted()
    const { jti, family } = readRptClaims(rpt)
    const report = { id: family, family, jti, tool: 'portfolio_read', judged }
    expect(await protectionCall(authority, '/audit/access', report)).toMatchObject({
      status: 400,
      body: { error: 'invalid_request' },
    })
  })
})
