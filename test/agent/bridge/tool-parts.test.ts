/**
 * A tool that its resource splits by its arguments, through the bridge: each part has terms and a grant of
 * its own. contract, "What the service does", beats 1 to 4, and "Challenge (beat 1)" (`identifier` names the
 * tool).
 */
import { expect, it } from 'vitest'
import { isJsonObject } from '../../../src/wire/json.ts'
import { useMappedBridges } from '../../support/mapped-bridges.ts'

const { bridge, map, negotiated } = useMappedBridges()

const TOOLS = [{ name: 'edit_file', inputSchema: { type: 'object' } }]

/** `edit_file` with `dryRun: true` is `edit_preview`. */
function splitTool(): void {
  map({
    capabilities: { tools: {} },
    free: { 'tools/list': { tools: TOOLS } },
    toolOf: ({ method, params }) => {
      if (method !== 'tools/call') return undefined
      const args = params['arguments']
      return isJsonObject(args) && args['dryRun'] === true ? 'edit_preview' : 'edit_file'
    },
    result: (_message, part) => ({ content: [{ type: 'text', text: part }] }),
  })
}

it('each part is negotiated for once, and keeps its grant while the other is called', async () => {
  splitTool()
  const bridged = await bridge()
  const client = bridged.client as unknown as {
    callTool(params: object): Promise<{ content: { text: string }[] }>
  }
  const answers: string[] = []
  for (const dryRun of [true, false, true, false]) {
    const { content } = await client.callTool({ name: 'edit_file', arguments: { path: '/x', dryRun } })
    answers.push(content[0]!.text)
  }
  expect(answers).toEqual(['edit_preview', 'edit_file', 'edit_preview', 'edit_file'])
  expect(negotiated()).toEqual(['alice/edit_preview', 'alice/edit_file'])
})
