/** What an owner is told of what her terms enforce: contract, "Owner API" (pending) and "Terms document". */
import { expect, it } from 'vitest'
import { authorityStand } from '../support/stands.ts'
import { pendingAt, testAgent } from '../support/test-agent.ts'

const authority = authorityStand()

it('an item that waits tells what keeps each prohibition, and the document claims no check for any', async () => {
  await authority.database.pool.query(
    `UPDATE resources SET resource_scopes = '{trade,withdraw}', tools = '{"place_trade": null, "cancel_trade": null}'
     WHERE resource_id = 'alice/trades'`,
  )
  const prohibited = ['withdraw', 'cancel_trade', 'leverage']
  const edited = await authority.call(authority.alice, {
    method: 'PUT',
    target: '/owner/policies/trading',
    json: { terms: { purpose: 'One trade', scope: ['trade'], expires_in: 300, prohibited } },
  })
  expect(edited.status).toBe(200)
  const agent = testAgent(authority)
  const held = await agent.ask('place_trade', {
    operation: { tool: 'place_trade', params: { symbol: 'VTI', qty: 2 } },
  })
  expect(held.body.error).toBe('request_submitted')
  const item = (await pendingAt(authority)).find(({ handle }) => handle === agent.handle)!
  expect(item).toMatchObject({
    prohibited,
    enforced: {
      scope: ['trade'],
      expires_in: 300,
      single_use: true,
      operation_bound: true,
      prohibited: [
        { prohibition: 'withdraw', by: 'scope' },
        { prohibition: 'cancel_trade', by: 'operation' },
        { prohibition: 'leverage', by: 'promise' },
      ],
    },
  })
  const document = await authority.request('GET', '/terms/alice/trading/v2')
  expect(document.body.enforced.prohibited).toEqual(
    prohibited.map(prohibition => ({ prohibition, by: 'promise' })),
  )
})
