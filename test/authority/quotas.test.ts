/**
 * Contract, "Limits": what one owner may have at a time, and what happens above the limit.
 */
import { describe, expect, it } from 'vitest'
import { quotaRefusals } from '../support/quota-refusals.ts'
import { authorityStand } from '../support/stands.ts'
import { decide, testAgent } from '../support/test-agent.ts'
import type { Reply } from '../support/authority.ts'

const authority = authorityStand({
  owners: ['alice', 'bea'],
  environment: { UMA_AS_GRANTS_PER_OWNER: '2' },
})
const refusals = () => quotaRefusals(authority, 'grants')
const endGrant = () =>
  authority.database.pool.query(
    `UPDATE grants SET expires_at = now() - interval '1 second' WHERE owner = 'alice' AND jti IN
      (SELECT jti FROM grants WHERE owner = 'alice' AND expires_at > now() LIMIT 1)`,
  )

describe('Grants beyond UMA_AS_GRANTS_PER_OWNER', () => {
  const agent = () => testAgent(authority)
  let waiting: Reply

  it('are refused, 429 request_denied with its reason, which the ledger and a metric count', async () => {
    const known = agent()
    await known.granted()
    await known.granted()
    const refused = await known.ask()
    expect([refused.status, refused.body]).toEqual([
      429,
      {
        error: 'request_denied',
        reason: 'too_many_grants',
        error_description: expect.stringMatching(/as many live grants/),
      },
    ])
    expect(await refusals()).toBe(1)
    const { body } = await authority.call(authority.alice, { target: '/owner/ledger?kind=refused' })
    expect(body.entries).toMatchObject([{ kind: 'refused', reason: 'too_many_grants' }])
  })

  it('wait if she approved them: the approval stays, and is collected once there is room', async () => {
    const newcomer = agent()
    const asked = await newcomer.ask()
    expect(asked.body.error).toBe('request_submitted')
    await decide(authority, newcomer.handle, 'approved')
    waiting = await newcomer.present(asked.body.ticket)
    expect([waiting.status, waiting.body.error]).toEqual([403, 'request_submitted'])
    expect(await refusals()).toBe(2)
    await endGrant()
    const granted = await newcomer.present(waiting.body.ticket)
    expect(granted.status).toBe(200)
  })

  it('of another owner are given as ever', async () => {
    const bea = authority.owners['bea']!
    const { rows } = await authority.database.pool.query(
      `SELECT count(*)::int AS n FROM grants WHERE owner = 'alice' AND expires_at > now()`,
    )
    expect(rows).toEqual([{ n: 2 }])
    const newcomer = agent()
    const asked = await newcomer.ask('portfolio_read', {}, 'bea')
    expect(asked.body.error).toBe('request_submitted')
    const { body: pending } = await authority.call(bea, { target: '/owner/pending' })
    await authority.call(bea, {
      method: 'POST',
      target: `/owner/pending/${pending[0].family}/decision`,
      json: { decision: 'approved' },
    })
    expect((await newcomer.present(asked.body.ticket)).status).toBe(200)
  })
})
