/**
 * contract, "What the service does": a client of the bridge is told when a call of a tool needs something
 * else than before, and finds it in the list.
 */
import { expect, it } from 'vitest'
import { CLIENTS } from '../../support/bridge.ts'
import { useBridges } from '../../support/bridge-stand.ts'
import { rowsOfLayer } from '../../support/layer.ts'

const stand = useBridges({ args: ['--hold', '20'] })
const { bridge, waiting } = stand

const kinds = rowsOfLayer(CLIENTS, kind => kind === '1.x 2025-11-25')

it.each(kinds)('The SDK client %s is told after a grant, and when it ended', async kind => {
  const { call, changes, tools } = await bridge({ kind, capabilities: { elicitation: {} } })
  const mark = async (): Promise<unknown> =>
    ((await tools())[0]!['_meta'] as Record<string, unknown>)['usher/access']
  expect(await mark()).toBe('unknown')
  const answer = call('portfolio_read')
  answer.catch(() => undefined)
  const item = await waiting()
  expect(await mark()).toBe('asks')
  const before = changes()
  // Once, though the terms were offered and agreed to meanwhile.
  expect(before).toBe(1)
  await stand.owner.decide(item.family, 'approved')
  expect((await answer).text).toBe('12 VTI, 40 BND')
  await expect.poll(changes).toBeGreaterThan(before)
  expect(await mark()).toBe('free')
  const held = changes()
  await stand.owner.revoke(item.handle)
  expect((await call('portfolio_read')).reason).toBe('access_revoked')
  await expect.poll(changes).toBeGreaterThan(held)
  expect(await mark()).toBe('closed')
})
