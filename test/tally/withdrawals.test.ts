/**
 * Contract, "Tally for a jointly held resource" and "Grant (RPT) liveness": what ends a grant of a tally, and
 * what is granted once, on a real Postgres and with two replicas.
 */
import { describe, expect, test } from 'vitest'
import type { Reply } from '../support/authority.ts'
import { startJointStand } from '../support/joint-stand.ts'
import { startedForEach } from '../support/started.ts'
import { startTestTally } from '../support/tally.ts'
import { until } from '../support/until.ts'

const stand = startedForEach(() => startJointStand({ rule: { kind: 'all' } }))
const introspect = async ({ body }: Reply) =>
  (await stand.protection('/introspect', { token: body.access_token })).body
const withdraw = (withdrawal: string) =>
  stand.tally.request('/joint/withdrawal', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ withdrawal }),
  })

describe('a withdrawal', () => {
  test('ends a grant whose allowances left are too few, and is taken once', async () => {
    const granted = await stand.ask()
    const { family } = await introspect(granted)
    const withdrawal = stand.holders[0].withdrawal('bea', { negotiations: [family] })
    const first = await withdraw(withdrawal)
    expect([first.status, first.body]).toEqual([200, { withdrawn: 1 }])
    expect(await introspect(granted)).toMatchObject({ active: false, reason: 'connection_revoked' })
    expect((await withdraw(withdrawal)).status).toBe(409)
  })

  test('of everything ends what is being negotiated too', async () => {
    stand.holders[1].says = { dora: 'ask' }
    const first = await stand.agree(await stand.offer())
    const { status, body } = await withdraw(stand.holders[1].withdrawal('carl', { all: true }))
    expect([status, body]).toEqual([200, { withdrawn: 1 }])
    const settled = await stand.settled(first)
    expect([settled.status, settled.body.error]).toEqual([403, 'request_denied'])
  })

  test('is taken from a holder of the account alone, signed by her own server', async () => {
    const [first, second] = stand.holders
    const status = async (withdrawal: string) => (await withdraw(withdrawal)).status
    expect(await status(first.withdrawal('mallory', { all: true }))).toBe(401)
    expect(await status(first.withdrawal('carl', { all: true }))).toBe(401)
    expect(await status(first.withdrawal('carl', { all: true }, { iss: second.issuer }))).toBe(401)
    expect(await status(first.withdrawal('bea', { all: true }, { aud: 'https://other.example' }))).toBe(401)
    expect(await status(first.withdrawal('bea', { all: true }, { account: 'family-2' }))).toBe(404)
    expect(await status(first.withdrawal('bea', {}))).toBe(400)
  })

  test('against the spending of a grant: whichever comes first, no use follows a withdrawal that returned', async () => {
    const operation = { operation: { tool: 'trade', params: { qty: 3 } } }
    stand.holders[0].terms = { bea: { ask_me: true, per_operation: true } }
    const granted = await stand.ask(undefined, operation)
    const { family } = await introspect(granted)
    const spend = async () => (await stand.protection('/consume', { token: granted.body.access_token })).body
    const [, spent] = await Promise.all([
      withdraw(stand.holders[0].withdrawal('bea', { negotiations: [family] })),
      spend(),
    ])
    expect([true, false]).toContain(spent.consumed)
    expect(await spend()).toEqual({ consumed: false, error: 'connection_revoked' })
  })
})

describe('another mandate', () => {
  test('ends what was counted under the one before', async () => {
    const granted = await stand.ask()
    stand.tally.rewrite({ ...stand.account, rule: { kind: 'threshold', threshold: 2 } })
    const replica = await startTestTally({ beside: stand.tally })
    try {
      expect(await introspect(granted)).toMatchObject({ active: false, reason: 'revoked' })
    } finally {
      await replica.close()
    }
  })
})

describe('another mandate while holders are asked', () => {
  test('ends the negotiation, and nobody is waited for any more', async () => {
    stand.holders[1].says = { dora: 'ask' }
    const first = await stand.agree(await stand.offer())
    const ofDora = () => stand.holders[1].questions().filter(({ owner }) => owner === 'dora')
    await until(async () => ofDora().length > 0)
    stand.tally.rewrite({ ...stand.account, rule: { kind: 'threshold', threshold: 2 } })
    const replica = await startTestTally({ beside: stand.tally })
    try {
      const settled = await stand.settled(first)
      expect([settled.status, settled.body.error]).toEqual([403, 'request_denied'])
      await until(async () => ofDora().some(({ closed }) => closed === true))
    } finally {
      await replica.close()
    }
  })
})

describe('two replicas', () => {
  test('make one grant of one negotiation, whoever polls where, and ask each holder for one signature', async () => {
    const replica = await startTestTally({ beside: stand.tally })
    try {
      const first = await stand.agree(await stand.offer())
      let replies: Reply[] = [first]
      while (
        replies.every(({ body }) => body.error === 'request_submitted' || body.error === 'invalid_grant')
      ) {
        const ticket = replies.find(({ body }) => body.error === 'request_submitted')!.body.ticket as string
        replies = await Promise.all([
          stand.present(ticket),
          stand.present(ticket, {}, replica),
          stand.present(ticket),
        ])
      }
      expect(replies.map(({ status }) => status).sort()).toEqual([200, 400, 400])
      const granted = replies.find(({ status }) => status === 200)!
      expect(await introspect(granted)).toMatchObject({ active: true })
      for (const holder of stand.holders) {
        const finals = holder.questions().filter(({ final }) => final === true)
        expect(new Set(finals.map(({ owner }) => owner)).size).toBe(finals.length)
      }
    } finally {
      await replica.close()
    }
  })
})
