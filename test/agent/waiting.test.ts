/**
 * Contract, "Permission ticket" (awaiting-owner): how long an agent waits, and what it collects at the end.
 */
import { afterEach, beforeEach, expect, it } from 'vitest'
import { createAgent } from '../../src/agent/index.ts'
import { startScriptedPeers, type ScriptedPeers } from '../support/scripted-resource.ts'
import { newKey } from '../support/wire-samples.ts'

let peers: ScriptedPeers
beforeEach(async () => {
  peers = await startScriptedPeers()
})
afterEach(() => peers.close())

it('a wait that is shorter than the interval still collects what she has decided', async () => {
  peers.twists.owner = { polls: 1, kind: 'operation', interval: 3600 }
  const agent = createAgent({ key: newKey(), allowLoopback: true, waitSecondsMax: 1 })
  const called = agent.call({ resource: peers.resource, tool: 'portfolio_read' })
  await expect(called).resolves.toMatchObject({ grant: { jti: expect.any(String) } })
})
