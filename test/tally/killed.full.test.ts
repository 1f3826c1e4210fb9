/**
 * A tally that is killed in the middle of something: another replica, or the same one after a restart,
 * continues from what is stored. Contract: "Tally for a jointly held resource", "Single-use grant", "Grant
 * (RPT) liveness".
 */
import { Client } from 'pg'
import { afterEach, describe, expect, test } from 'vitest'
import type { Reply } from '../support/authority.ts'
import { startJointStand } from '../support/joint-stand.ts'
import { rowsOfLayer } from '../support/layer.ts'
import { startedForEach } from '../support/started.ts'
import { startTallyProcess, type TallyProcess } from '../support/tally-process.ts'
import { until } from '../support/until.ts'

const stand = startedForEach(() => startJointStand({ rule: { kind: 'all' } }))
let doomed: TallyProcess | undefined
afterEach(async () => {
  await doomed?.close()
  doomed = undefined
})
const startDoomed = async (killAt: string) => (doomed = await startTallyProcess(stand.tally, killAt))

async function sql<Row>(text: string): Promise<Row[]> {
  const client = new Client({ connectionString: stand.tally.environment['DATABASE_URL']! })
  await client.connect()
  try {
    return (await client.query(text)).rows as Row[]
  } finally {
    await client.end()
  }
}
/** Grants by negotiation: none ever has two. */
const grants = async () =>
  (await sql<{ n: number }>('SELECT count(*)::int AS n FROM grants GROUP BY account, family')).map(
    ({ n }) => n,
  )
const introspect = async ({ body }: Reply) =>
  (await stand.protection('/introspect', { token: body.access_token })).body
/** Nobody may wait for a replica that leased a question and ended. */
const leasesEnd = () => sql('UPDATE answers SET due_at = now()')

/** An agreement that a replica has answered: what it goes on with is beside any poll. */
async function agreedAt(replica: Pick<TallyProcess, 'request' | 'pat'>): Promise<Reply> {
  let answer: () => void
  const answered = new Promise<void>(resolve => (answer = resolve))
  for (const { server } of stand.holders)
    server.script('/joint/verdict', async () => {
      await answered
      return undefined
    })
  const { ticket, template } = await stand.offer()
  const reply = await stand.agree({ ticket, template }, {}, replica)
  expect(reply.body.error).toBe('request_submitted')
  answer!()
  return reply
}

describe('Killed between the verdicts and the grant', () => {
  const verdicts = [
    ['before a verdict is kept', 'commit UPDATE answers SET state'],
    ['before it is written that they are enough', 'statement UPDATE negotiations SET decision'],
    ['before that is committed', 'commit UPDATE negotiations SET decision'],
  ] as const
  test.each(rowsOfLayer(verdicts, row => row === verdicts[2]))(
    '%s: the next poll goes on, and each holder signed once',
    async (_when, killAt) => {
      const replica = await startDoomed(killAt)
      const first = await agreedAt(replica)
      await replica.killed
      await leasesEnd()
      const granted = await stand.settled(first)
      expect(granted.status).toBe(200)
      expect(await introspect(granted)).toMatchObject({ active: true })
      expect(await grants()).toEqual([1])
      const { verdicts } = (await introspect(granted)).joint
      expect(new Set(verdicts).size).toBe(3)
    },
  )

  const collections: [string, string, number[]][] = [
    ['before the grant is written', 'statement INSERT INTO grants', []],
    ['before it is committed', 'commit INSERT INTO grants', []],
    ['after it is committed, before the agent has it', 'answer /token', [1]],
  ]
  test.each(rowsOfLayer(collections, row => row === collections[2]))(
    '%s: nothing is granted twice, and the agent starts anew',
    async (_when, killAt, made) => {
      const poll = await agreedAt(stand.tally)
      await until(async () => {
        const [row] = await sql<{ decision: string | null }>('SELECT decision FROM negotiations')
        return row!.decision === 'approved'
      })
      const replica = await startDoomed(killAt)
      await expect(stand.present(poll.body.ticket as string, {}, replica)).rejects.toThrow()
      await replica.killed
      expect(await grants()).toEqual(made)
      expect((await stand.present(poll.body.ticket as string)).body.error).toBe('invalid_grant')
      expect(await grants()).toEqual(made)
      const again = await stand.ask()
      expect([again.status, (await introspect(again)).active]).toEqual([200, true])
      expect(await grants()).toEqual([...made, 1])
    },
  )
})

describe('Killed while a single-use grant is spent', () => {
  const operation = { operation: { tool: 'trade', params: { qty: 3 } } }
  async function singleUse(): Promise<Reply> {
    stand.holders[0].terms = { bea: { ask_me: true, per_operation: true } }
    const granted = await stand.ask(undefined, operation)
    expect(granted.status).toBe(200)
    return granted
  }
  const spend = ({ body }: Reply, at?: TallyProcess) =>
    stand.protection('/consume', { token: body.access_token }, at)

  test('before it was: it is spent once, later', async () => {
    const granted = await singleUse()
    const replica = await startDoomed('statement UPDATE grants g SET consumed_at')
    await expect(spend(granted, replica)).rejects.toThrow()
    expect((await spend(granted)).body).toMatchObject({ consumed: true })
    expect((await spend(granted)).body).toEqual({ consumed: false, error: 'already_consumed' })
  })

  test('after it was, before the answer: it is spent, and whoever asks again is told so', async () => {
    const granted = await singleUse()
    const replica = await startDoomed('answer /consume')
    await expect(spend(granted, replica)).rejects.toThrow()
    await replica.killed
    for (const _again of [1, 2])
      expect((await spend(granted)).body).toEqual({ consumed: false, error: 'already_consumed' })
  })
})

describe('Killed while a holder takes back what she allowed', () => {
  const tells = (withdrawal: string, at: Pick<TallyProcess, 'request'> = stand.tally) =>
    at.request('/joint/withdrawal', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ withdrawal }),
    })

  const withdrawals: [string, string, boolean][] = [
    ['before anything is written', 'statement INSERT INTO withdrawals', true],
    ['between its receipt and its effect', 'statement UPDATE answers SET withdrawn', true],
    ['before that is committed', 'commit UPDATE answers SET withdrawn', true],
    ['after it is committed, before she is answered', 'answer /joint/withdrawal', false],
  ]
  test.each(rowsOfLayer(withdrawals, row => withdrawals.indexOf(row) % 3 > 0))(
    '%s: told again it is as if it came once, and nothing is allowed after',
    async (_when, killAt, lives) => {
      const granted = await stand.ask()
      const { family } = await introspect(granted)
      const withdrawal = stand.holders[0].withdrawal('bea', { negotiations: [family] })
      const replica = await startDoomed(killAt)
      await expect(tells(withdrawal, replica)).rejects.toThrow()
      await replica.killed
      // Nobody was told that it is done, and either all of it is or nothing.
      expect((await introspect(granted)).active).toBe(lives)
      const again = await tells(withdrawal)
      expect([again.status, again.body.withdrawn]).toEqual(lives ? [200, 1] : [409, undefined])
      expect(await introspect(granted)).toMatchObject({ active: false, reason: 'connection_revoked' })
      expect((await tells(withdrawal)).status).toBe(409)
    },
  )
})
