/**
 * Contract, "Tally for a jointly held resource": a real tally and the real servers of its holders, each in
 * two replicas.
 */
import { describe, expect, test } from 'vitest'
import { decodeBase64url } from '../../src/wire/encoding.ts'
import { parseJson } from '../../src/wire/json.ts'
import type { Reply } from '../support/authority.ts'
import { changeMandate, finalQuestions, startRealHolders, type HolderName } from '../support/real-holders.ts'
import { startedForEach } from '../support/started.ts'

const stand = startedForEach(() => startRealHolders())
const told = ({ status, body }: Reply) => [status, body.error]
const claims = (compact: string) => JSON.parse(decodeBase64url(compact.split('.')[1]!).toString())

describe('two replicas of each party', () => {
  test('a verdict that one replica was asked for is collected at another, and is the same bytes wherever it is asked for', async () => {
    await stand.holds('bea')
    await stand.holds('carl', {
      terms: { purpose: 'ours', scope: ['read'], expires_in: 300, prohibited: ['resale'] },
    })
    const asked = finalQuestions(stand)
    const offer = await stand.offer()
    expect(offer.template).toMatchObject({
      scope: ['read'],
      expires_in: 300,
      prohibited: ['passing it on', 'resale'],
    })
    const first = await stand.agree(offer)
    expect(told(first)).toEqual([403, 'request_submitted'])
    expect(await stand.decides('bea', 'approved', 1)).toMatchObject({ kind: 'joint', account: 'family-1' })
    await stand.decides('carl', 'approved', 0)
    const granted = await stand.settled(first, stand.tallies[1])
    expect(granted.status).toBe(200)
    const { active, joint } = (await stand.introspected(granted)) as {
      active: boolean
      joint: { verdicts: string[] }
    }
    expect([active, joint.verdicts.length]).toEqual([true, 2])
    const last = asked.findLast(
      body => claims((parseJson(body) as { request: string }).request).final === true,
    )!
    const again = await Promise.all(
      stand.authorities[0].map(at =>
        at.request('POST', '/joint/verdict', { headers: { 'content-type': 'application/json' }, body: last }),
      ),
    )
    const [one, other] = again.map(({ body }) => body.verdict)
    expect(one).toBe(other)
    expect(joint.verdicts).toContain(one)
    expect(stand.doors.bea.answered.every(count => count > 0)).toBe(true)
  })
})

/** bea and carl hold it, and dora has agreed to nothing, so both must allow. */
async function heldByTwo(): Promise<void> {
  await stand.holds('bea')
  await stand.holds('carl')
}

/** Each replica of everybody's server has read the mandate just now. */
async function readEverywhere(): Promise<void> {
  const json = { tally: stand.doors.tally.url, account: 'family-1' }
  for (const name of ['bea', 'carl'] as const)
    for (const replica of [0, 1] as const)
      await stand.own(name, { method: 'POST', target: '/owner/joint/preview', json }, replica)
}

const ledger = async (name: HolderName, kind: string) =>
  (await stand.own(name, { target: `/owner/ledger?kind=${kind}` })).body.entries as object[]

describe('an answer of a holder', () => {
  test('that refuses, if the others are too few, ends it at once', async () => {
    await heldByTwo()
    const first = await stand.agree(await stand.offer())
    await stand.decides('bea', 'denied', 1)
    expect(told(await stand.settled(first))).toEqual([403, 'request_denied'])
  })

  test('is not waited for if the agreement does not name the resource: the agent learns what to name', async () => {
    await heldByTwo()
    const reply = await stand.agree(await stand.offer(), { resource_id: undefined })
    expect([told(reply), reply.body.error_description]).toEqual([
      [403, 'request_denied'],
      expect.stringContaining('resource_id'),
    ])
  })
})

describe('a mandate that changes', () => {
  test('ends what a holder allowed under the one before, though her server has not read the new one yet', async () => {
    await heldByTwo()
    await readEverywhere()
    const replica = await changeMandate(stand, { rule: { kind: 'threshold', threshold: 1 } })
    try {
      const first = await stand.agree(await stand.offer())
      await stand.decides('bea', 'approved')
      await stand.decides('carl', 'approved')
      expect(told(await stand.settled(first))).toEqual([403, 'request_denied'])
    } finally {
      await replica.close()
    }
  })

  test('and that she agreed to at one replica is no change at another, which had read the one before', async () => {
    await heldByTwo()
    await readEverywhere()
    const replica = await changeMandate(stand, { rule: { kind: 'threshold', threshold: 1 } })
    try {
      for (const name of ['bea', 'carl'] as const) await stand.holds(name)
      const first = await stand.agree(await stand.offer())
      await stand.decides('bea', 'approved')
      expect((await stand.settled(first)).status).toBe(200)
      for (const name of ['bea', 'carl'] as const) expect(await ledger(name, 'joint_changed')).toEqual([])
    } finally {
      await replica.close()
    }
  })
})

describe('what a holder ends while her verdict is asked for', () => {
  test.each<[string, (handle: string) => Parameters<typeof stand.own>[1]]>([
    ['the connection', handle => ({ method: 'POST', target: '/owner/connections/revoke', json: { handle } })],
    ['the tier', () => ({ method: 'DELETE', target: '/owner/policies/savings' })],
    ['the holding', () => ({ method: 'DELETE', target: '/owner/joint/family-1' })],
  ])('%s: no grant outlives it', async (_what, end) => {
    await heldByTwo()
    const replies: Reply[] = []
    for (const agent of [stand.stranger(), stand.stranger(), stand.stranger()]) {
      const first = await agent.agree(await agent.offer())
      await Promise.all([agent.decides('bea', 'approved'), agent.decides('carl', 'approved')])
      const polls = agent.settled(first, stand.tallies[replies.length % 2]).catch(() => undefined)
      // One of each, at another moment of the collection.
      for (let n = 0; n < replies.length; n++) await agent.introspected(first)
      const ended = await agent.own('carl', end(`jkt:${agent.agent.thumbprint}`), 1)
      expect([ended.status, ended.body.joint_withdrawals_waiting]).toEqual([200, undefined])
      const reply = await polls
      if (reply?.status === 200)
        expect(await agent.introspected(reply)).toMatchObject({ active: false, reason: 'connection_revoked' })
      replies.push(reply ?? first)
      await stand.holds('carl')
    }
  })
})
