/**
 * contract, "Permission ticket" (awaiting-owner), in the words of a task: they name the tool as its client
 * calls it, also after a start. The resource and the authority are scripted.
 */
import type { Client } from '@modelcontextprotocol/client'
import { expect, it } from 'vitest'
import { TASKS, withTasks } from '../../support/bridge-tasks.ts'
import { useScriptedBridge } from '../../support/scripted-bridge.ts'

const stand = useScriptedBridge()
const started = async () => {
  const capabilities = { elicitation: { form: {} }, ...TASKS }
  const { client, call, tools, kill } = await stand.start({
    kind: '2.x 2026-07-28',
    capabilities,
    args: ['--hold', '20'],
  })
  return { call, tools, kill, tasks: withTasks(client as Client) }
}

it('A task says which tool to call again by the name that its client was shown', async () => {
  stand.terms(true)
  stand.peers.twists.owner = { polls: 1_000, kind: 'operation', interval: 1 }
  stand.listing = () => ({ tools: [{ name: 'place.trade', inputSchema: { type: 'object' } }] })
  const first = await started()
  const [tool] = await first.tools()
  const shown = tool!['name'] as string
  expect(shown).not.toBe('place.trade')
  first.call(shown, { qty: 1 }).catch(() => undefined)
  await expect.poll(first.tasks.latest).toBeDefined()
  const id = first.tasks.latest()!
  const words = expect.stringContaining(`Call ${shown} again`)
  await expect.poll(async () => (await first.tasks.ask(id))['statusMessage']).toEqual(words)
  await first.kill()
  const second = await started()
  await expect.poll(async () => (await second.tasks.ask(id))['statusMessage']).toEqual(words)
})
