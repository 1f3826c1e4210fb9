/**
 * Contract, "Permission ticket" (awaiting-owner): how long an agent waits, and what it collects at the end.
 */
import { expect, it } from 'vitest'
import { waitingText } from '../../src/agent/bridge/answers/answers.ts'
import { createAgent } from '../../src/agent/index.ts'
import { teller } from '../../src/agent/narrate.ts'
import { capturedTerminal } from '../support/captured-terminal.ts'
import { startScriptedPeers } from '../support/scripted-resource.ts'
import { startedForEach } from '../support/started.ts'
import { newKey } from '../support/wire-samples.ts'

const peers = startedForEach(startScriptedPeers)

it('a wait that is shorter than the interval still collects what she has decided', async () => {
  peers.twists.owner = { polls: 1, kind: 'operation', interval: 3600 }
  const agent = createAgent({ key: newKey(), allowLoopback: true, waitSecondsMax: 1 })
  const called = agent.call({ resource: peers.resource, tool: 'portfolio_read' })
  await expect(called).resolves.toMatchObject({ grant: { jti: expect.any(String) } })
})

it('if nobody says what she is asked, the command says only that she is asked', async () => {
  const terminal = capturedTerminal()
  peers.twists.owner = { polls: 1, kind: undefined, interval: 1 }
  const agent = createAgent({ key: newKey(), allowLoopback: true, onEvent: teller(terminal) })
  await agent.call({ resource: peers.resource, tool: 'portfolio_read' })
  expect(terminal.said).toContain('… the owner is being asked (negotiation ')
})

it('the command says that the owner reads the reason of an earlier request, if she does', async () => {
  for (const [reason_shown, isTold] of [
    [undefined, false],
    [false, true],
  ] as const) {
    const terminal = capturedTerminal()
    peers.twists.owner = {
      polls: 1,
      kind: 'operation',
      interval: 1,
      ...(reason_shown === false && { reason_shown }),
    }
    const agent = createAgent({ key: newKey(), allowLoopback: true, onEvent: teller(terminal) })
    await agent.call({ resource: peers.resource, tool: 'portfolio_read' })
    expect(terminal.said.includes('the owner reads the reason of that one, and not this one')).toBe(isTold)
  }
})

it('a bridge says no more of what she is asked than the authority did', () => {
  const told = (kind: 'connection' | 'operation' | undefined) =>
    waitingText('trade', { name: 'waiting', owner: 'alice', since: 0, family: 'fam_x', kind })
  expect(told('connection')).toContain('The owner (alice) decides whether this agent may use her tools; she')
  expect(told('operation')).toContain('The owner (alice) decides about this very call; she')
  expect(told(undefined)).toContain('The owner (alice) decides; she was asked')
})
