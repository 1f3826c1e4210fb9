/**
 * contract, "Agreement (claim_token, beat 3)": what a person agreed a tool to be is noted on the disk, which
 * several windows of one client share. A note of anything else about the tool leaves that as it is.
 */
import { afterEach, beforeEach, expect, it } from 'vitest'
import { bridgeState } from '../../../src/agent/bridge/negotiation/state.ts'
import { openedBridge } from '../../support/opened-bridge.ts'
import { document, startScriptedTools, type ScriptedTools } from '../../support/scripted-tools.ts'

let tools: ScriptedTools
let opened: Awaited<ReturnType<typeof openedBridge>>
beforeEach(async () => {
  tools = await startScriptedTools()
  opened = await openedBridge(tools.url.href)
})
afterEach(async () => {
  await opened.close()
  await tools.close()
})

const called = () =>
  opened.bridge.calls.enter({
    resource: tools.url.href,
    call: { tool: 'read' },
    signal: new AbortController().signal,
  })

it('A window that notes a refusal keeps what a person agreed to in another window meanwhile', async () => {
  const state = bridgeState(opened.folder, 'client')
  const of = { resource: tools.url.href, tool: 'read' }
  await called()
  expect(await state.tool(of.resource, of.tool)).toMatchObject({ access: 'free' })
  await state.keepTool({ ...of, access: 'terms', definition: 'as it is now' })
  tools.script('tools/call', (_came, response) => document(response, { error: 'access_revoked' }, 403))
  await expect(called()).rejects.toMatchObject({ code: 'access_revoked' })
  expect(await state.tool(of.resource, of.tool)).toEqual({
    ...of,
    access: 'closed',
    definition: 'as it is now',
  })
})
