/**
 * contract, "Grant (RPT) liveness" and "Permission ticket": a grant that ends soon is renewed where nobody
 * has to be asked, and else used until its end. The authority and the resource are scripted.
 */
import { beforeEach, describe, expect, it } from 'vitest'
import { TOOL, useScriptedBridge } from '../../support/scripted-bridge.ts'

const stand = useScriptedBridge()
const DONE = { content: [{ type: 'text', text: 'done' }] }

/** Every call finds that its grant ends soon, and none that it has ended. */
const SECONDS = 29

describe('A grant that ends soon, and whose owner would be asked for the next', () => {
  beforeEach(async () => {
    stand.terms(false)
    stand.answers = (_call, signed) => (signed ? DONE : undefined)
    stand.peers.twists.rpt = plain => ({ ...plain, exp: plain.iat + SECONDS })
    await stand.start({ capabilities: { elicitation: { form: {} } }, args: ['--hold', '5'] })
  })

  it('is used until its end, and she is asked once, and told at once that nobody needs it', async () => {
    const { call } = stand.client
    expect((await call(TOOL, { qty: 1 })).text).toBe('done')
    stand.peers.twists.owner = { polls: 1_000, kind: 'connection', interval: 1 }
    const signed = stand.peers.agreements.length
    const presented = () => stand.peers.tokenForms().length
    expect((await call(TOOL, { qty: 2 })).text).toBe('done')
    const declined = stand.peers.tokenForms().filter(({ decline }) => decline === 'true')
    expect([stand.peers.agreements.length, declined.length]).toEqual([signed + 1, 1])
    const before = presented()
    for (const qty of [3, 4, 5]) expect((await call(TOOL, { qty })).text).toBe('done')
    expect(presented()).toBe(before)
    expect(stand.client.elicited).toHaveLength(1)
  })
})
