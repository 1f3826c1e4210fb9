/**
 * Contract, "Permission ticket" (awaiting-owner) and "Single-use grant", for an agent that was killed while
 * the answer to its poll was on its way: a ticket is presented once, so it negotiates anew and says so
 * (`answer_lost`), and the owner is asked once all the same.
 */
import { afterEach, describe, expect, it } from 'vitest'
import { consumeGrant } from '../../src/storage/authority/grants/consume.ts'
import { sha256 } from '../../src/wire/encoding.ts'
import { parseJws } from '../../src/wire/signatures/jws.ts'
import { CLIENT_ID, type Reply } from '../support/authority.ts'
import { decide, denyAll, pendingAt, testAgent, type TestAgent } from '../support/test-agent.ts'
import { asClientId, asOwner } from '../../src/wire/identifiers.ts'
import { authorityStand } from '../support/stands.ts'

const authority = authorityStand()
let qty = 0
afterEach(() => denyAll(authority))

const trade = () => ({ operation: { tool: 'place_trade', params: { symbol: 'VTI', qty: ++qty } } })
const LOST = { answer_lost: true }
const consume = async (rpt: string) => {
  const by = { client_id: asClientId(CLIENT_ID) }
  return (await consumeGrant(authority.database.calls, asOwner('alice'), by, sha256(rpt)))?.family
}
const familyOf = (rpt: string) => parseJws(rpt).payload['family']

/** A trade that she approved, and the grant of it, which the agent never received. */
async function collected(): Promise<{ agent: TestAgent; claims: ReturnType<typeof trade>; rpt: string }> {
  const agent = testAgent(authority)
  await agent.granted()
  const claims = trade()
  const { rpt } = await agent.granted('place_trade', claims)
  return { agent, claims, rpt }
}

async function collect(agent: TestAgent, asked: Reply): Promise<string> {
  expect(asked.body).toMatchObject({ error: 'request_submitted' })
  expect(await pendingAt(authority)).toEqual([])
  const reply = await agent.present(asked.body.ticket as string)
  expect(reply.status).toBe(200)
  return reply.body.access_token as string
}

describe('An agent whose answer was lost after the owner approved', () => {
  it('collects what she approved under another grant; the lost one is spent by that, and she is not asked again', async () => {
    const { agent, claims, rpt } = await collected()
    const again = await collect(agent, await agent.ask('place_trade', { ...claims, ...LOST }))
    expect(familyOf(again)).toBe(familyOf(rpt))
    expect(await consume(rpt)).toBeUndefined()
    expect(await consume(again)).toBe(familyOf(rpt))
  })

  it('asks her if it does not say so: the same operation again is another one', async () => {
    const { agent, claims, rpt } = await collected()
    expect((await agent.ask('place_trade', claims)).body.error).toBe('request_submitted')
    expect(await pendingAt(authority)).toHaveLength(1)
    expect(await consume(rpt)).toBe(familyOf(rpt))
  })

  it('asks her if the grant was spent, whatever it says', async () => {
    const { agent, claims, rpt } = await collected()
    await consume(rpt)
    expect((await agent.ask('place_trade', { ...claims, ...LOST })).body.error).toBe('request_submitted')
    expect(await pendingAt(authority)).toHaveLength(1)
  })

  it('asks her for other parameters, and where another agent says so', async () => {
    const { agent, claims, rpt } = await collected()
    const other = testAgent(authority)
    await other.granted()
    await agent.ask('place_trade', { ...trade(), ...LOST })
    await other.ask('place_trade', { ...claims, ...LOST })
    expect(await pendingAt(authority)).toHaveLength(2)
    expect(await consume(rpt)).toBe(familyOf(rpt))
  })

  it('asks her after a revocation, which ends what she approved', async () => {
    const { agent, claims } = await collected()
    await authority.alice.client.revoke(agent.handle)
    expect((await agent.ask('place_trade', { ...claims, ...LOST })).body).toMatchObject({
      kind: 'connection',
    })
    expect(await pendingAt(authority)).toHaveLength(1)
  })

  it('has one call of it against a consume that races, whoever wins', async () => {
    for (let round = 0; round < 10; round++) {
      const { agent, claims, rpt } = await collected()
      const [spent, asked] = await Promise.all([
        consume(rpt),
        agent.ask('place_trade', { ...claims, ...LOST }),
      ])
      const waiting = await pendingAt(authority)
      // Either the call was made, and she is asked about another; or the lost grant ended, and the approval
      // is collected.
      expect(waiting).toHaveLength(spent === undefined ? 0 : 1)
      if (spent === undefined) expect(await consume(await collect(agent, asked))).toBe(familyOf(rpt))
      await denyAll(authority)
    }
  })

  it('is not asked about again if its earlier poll collects her approval at the same moment', async () => {
    for (let round = 0; round < 20; round++) {
      const agent = testAgent(authority)
      await agent.granted()
      const claims = trade()
      const held = await agent.ask('place_trade', claims)
      const offer = await agent.offer('place_trade')
      await decide(authority, agent.handle, 'approved')
      const [earlier, asked] = await Promise.all([
        agent.present(held.body.ticket as string),
        agent.agree(offer, { ...claims, ...LOST }),
      ])
      expect(asked.body).toMatchObject({ error: 'request_submitted' })
      expect(await pendingAt(authority)).toEqual([])
      // Whichever of the two comes later finds the approval collected, or collects it once more.
      const later = await agent.present(asked.body.ticket as string)
      const rpts = [earlier, later].filter(({ status }) => status === 200)
      expect(rpts.length).toBeGreaterThan(0)
      if (later.status !== 200) expect([later.status, later.body.error]).toEqual([400, 'invalid_grant'])
      const spent = await Promise.all(rpts.map(({ body }) => consume(body.access_token as string)))
      expect(spent.filter(Boolean)).toHaveLength(1)
    }
  })

  it('that asks twice at once has one grant that can be spent', async () => {
    const { agent, claims, rpt } = await collected()
    const asked = await Promise.all([1, 2].map(() => agent.ask('place_trade', { ...claims, ...LOST })))
    expect(await pendingAt(authority)).toEqual([])
    const polls = await Promise.all(asked.map(({ body }) => agent.present(body.ticket as string)))
    const rpts = polls.flatMap(({ status, body }) => (status === 200 ? [body.access_token as string] : []))
    expect(rpts).toHaveLength(1)
    expect((await Promise.all([rpt, ...rpts].map(consume))).filter(Boolean)).toHaveLength(1)
  })
})
