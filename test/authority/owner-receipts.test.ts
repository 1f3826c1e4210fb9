/**
 * `GET /owner/receipts`. Contract, "Grant answer (beat 4)": both sides hold the receipt, the authority's side
 * for ever.
 */
import { sql } from 'kysely'
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { sweepOwner } from '../../src/storage/authority/sweep.ts'
import { parseJwks } from '../../src/wire/signatures/keys.ts'
import { verifyReceipt } from '../../src/wire/negotiation/receipt.ts'
import type { Reply } from '../support/authority.ts'
import { connected } from '../support/postgres.ts'
import { testAgent, type PendingItem, type TestAgent } from '../support/test-agent.ts'
import { asOwner } from '../../src/wire/identifiers.ts'
import { authorityStand } from '../support/stands.ts'

const authority = authorityStand({ owners: ['alice', 'bob'] })

const listed = (owner: string, query = ''): Promise<Reply> =>
  authority.call(authority.owners[owner]!, { target: `/owner/receipts${query}` })

/** What the agent holds of so many grants of an owner, in order. */
async function granted(agent: TestAgent, owner: string, count: number): Promise<string[]> {
  const held: string[] = []
  while (held.length < count) {
    let reply = await agent.ask('portfolio_read', {}, owner)
    if (reply.body.error === 'request_submitted') {
      const her = authority.owners[owner]!
      const pending = (await authority.call(her, { target: '/owner/pending' })).body as PendingItem[]
      const { family } = pending.find(({ handle }) => handle === agent.handle)!
      const target = `/owner/pending/${family}/decision`
      await authority.call(her, { method: 'POST', target, json: { decision: 'approved' } })
      reply = await agent.present(reply.body.ticket)
    }
    expect(reply.status).toBe(200)
    held.push(reply.body.receipt)
  }
  return held
}

describe('GET /owner/receipts', () => {
  const agent = () => testAgent(authority)
  let alices: string[] = []
  let bobs: string[] = []
  beforeAll(async () => {
    const both = agent()
    alices = await granted(both, 'alice', 3)
    bobs = await granted(both, 'bob', 2)
  })
  const receiptsOf = ({ body }: Reply): string[] =>
    (body.receipts as { receipt: string }[]).map(({ receipt }) => receipt)

  it('lists what the agents hold, too, oldest first, and each verifies by the published keys', async () => {
    const reply = await listed('alice')
    expect([reply.status, receiptsOf(reply), reply.body.next]).toEqual([200, alices, null])
    const keys = parseJwks((await authority.request('GET', '/jwks')).body)
    for (const [at, record] of reply.body.receipts.entries()) {
      const now = Math.floor(Date.now() / 1_000)
      const { claims } = verifyReceipt(record.receipt, keys, { issuer: authority.issuer, now })
      const { family, rpt: jti, sub: handle } = claims
      expect(record).toMatchObject({ seq: at + 1, family, jti, handle, issued_at: expect.any(String) })
      expect(Math.abs(Date.parse(record.issued_at) / 1_000 - claims.iat)).toBeLessThan(60)
    }
  })

  it('is paged by position, each receipt on one page, and by family', async () => {
    const first = await listed('alice', '?limit=2')
    expect([receiptsOf(first), first.body.next]).toEqual([alices.slice(0, 2), 2])
    const second = await listed('alice', `?limit=2&after=${first.body.next}`)
    expect([receiptsOf(second), second.body.next]).toEqual([alices.slice(2), null])
    const { family } = first.body.receipts[1]
    expect(receiptsOf(await listed('alice', `?family=${family}`))).toEqual([alices[1]])
    expect((await listed('alice', '?after=3')).body).toEqual({ receipts: [], next: null })
  })

  it('has no more on a page than a client can take', async () => {
    const { url } = authority.database
    const grow = (bytes: number) =>
      connected(url, client =>
        client.query(`UPDATE receipts SET receipt = receipt || repeat('x', $1) WHERE owner = 'alice'`, [
          bytes,
        ]),
      )
    await grow(1_600_000)
    onTestFinished(() =>
      connected(url, async client => {
        for (const receipt of alices)
          await client.query('UPDATE receipts SET receipt = $1 WHERE receipt LIKE $2', [
            receipt,
            `${receipt}%`,
          ])
      }),
    )
    const pages = [await listed('alice', '?limit=1000')]
    while (pages.at(-1)!.body.next !== null)
      pages.push(await listed('alice', `?limit=1000&after=${pages.at(-1)!.body.next}`))
    expect(pages.map(({ body }) => body.receipts.map(({ seq }: { seq: number }) => seq))).toEqual([
      [1],
      [2],
      [3],
    ])
  })

  it.each(['?limit=0', '?limit=1001', '?after=-1', '?after=first', '?handle=x'])(
    'answers 400 to %s',
    async query => {
      expect((await listed('alice', query)).status).toBe(400)
    },
  )

  it("shows each owner her own, also to one who names another's family", async () => {
    expect(receiptsOf(await listed('bob'))).toEqual(bobs)
    const { family } = (await listed('alice')).body.receipts[0]
    expect((await listed('bob', `?family=${family}`)).body).toEqual({ receipts: [], next: null })
  })

  it('is for the owner alone: 401 without her signature, 404 where agents ask', async () => {
    const unsigned = await authority.call(authority.alice, { target: '/owner/receipts', sign: false })
    const elsewhere = await authority.request('GET', '/owner/receipts')
    expect([unsigned.status, elsewhere.status]).toEqual([401, 404])
  })

  it('shows them still when their connection was revoked, and grants and negotiations swept', async () => {
    const before = (await listed('alice')).body
    const { handle } = before.receipts[0]
    const revoke = { method: 'POST', target: '/owner/connections/revoke', json: { handle } } as const
    expect((await authority.call(authority.alice, revoke)).status).toBe(200)
    const { db, pool } = authority.database
    const past = sql`now() - interval '30 days'`
    await sql`UPDATE grants SET expires_at = ${past} WHERE owner = 'alice'`.execute(db)
    await sql`UPDATE families SET sealed_expires_at = ${past}, ticket_expires_at = ${past},
      negotiation_expires_at = ${past} WHERE owner = 'alice'`.execute(db)
    await sweepOwner(db, asOwner('alice'), 1_000)
    for (const table of ['grants', 'families'])
      expect((await pool.query(`SELECT 1 FROM ${table} WHERE owner = 'alice'`)).rows).toEqual([])
    expect((await listed('alice')).body).toEqual(before)
  })
})
