/**
 * A link (`resource_link`) of a tool, followed by a client of the bridge at a resource that maps the reading
 * of such links to that tool. contract, "What the service does", beats 1 to 4, and "Challenge (beat 1)"
 * (`identifier` names the tool).
 */
import { describe, expect, it } from 'vitest'
import type { JsonObject } from '../../../src/wire/json.ts'
import type { BridgedClient } from '../../support/bridge.ts'
import { UNCACHED, useMappedBridges } from '../../support/mapped-bridges.ts'

const { bridge, map, negotiated } = useMappedBridges()

const LISTS: Record<string, JsonObject> = {
  'tools/list': { tools: ['report', 'secret'].map(name => ({ name, inputSchema: { type: 'object' } })) },
  'resources/list': { resources: [] },
}

/** `demo://report/…` is mapped to the tool `report`, `demo://secret/…` to `secret`. */
function mapLinks(): void {
  map({
    capabilities: { tools: {}, resources: {} },
    free: LISTS,
    toolOf: ({ method, params }) => {
      if (method === 'tools/call') return params['name'] as string
      if (method !== 'resources/read') return undefined
      return (params['uri'] as string).startsWith('demo://secret/') ? 'secret' : 'report'
    },
    result: ({ method, params }, tool) =>
      method === 'tools/call'
        ? { content: [{ type: 'resource_link', uri: `demo://${tool}/1`, name: 'One' }] }
        : { contents: [{ uri: params['uri']!, text: tool }], ...UNCACHED },
  })
}

interface Reading {
  callTool(params: { name: string }): Promise<{ content: { uri: string }[] }>
  readResource(params: { uri: string }): Promise<{ contents: { text: string }[] }>
}

async function clientAt(): Promise<{ client: Reading; elicited: BridgedClient['elicited'] }> {
  const { client, elicited } = await bridge()
  return { client: client as unknown as Reading, elicited }
}

describe('A client of the bridge that follows a link of a tool', () => {
  it('reads it under the standing grant of the tool, and nobody is asked again', async () => {
    mapLinks()
    const { client, elicited } = await clientAt()
    const { content } = await client.callTool({ name: 'report' })
    const { uri } = content[0]!
    for (let i = 0; i < 2; i++)
      expect((await client.readResource({ uri })).contents).toEqual([{ uri, text: 'report' }])
    expect(negotiated()).toEqual(['alice/report'])
    expect(elicited).toHaveLength(1)
  })

  it('is asked about the terms of what is mapped to another tool, and the first grant lives on', async () => {
    mapLinks()
    const { client, elicited } = await clientAt()
    await client.callTool({ name: 'report' })
    await client.readResource({ uri: 'demo://secret/1' })
    expect((await client.readResource({ uri: 'demo://report/1' })).contents[0]!.text).toBe('report')
    await client.callTool({ name: 'report' })
    expect(negotiated()).toEqual(['alice/report', 'alice/secret'])
    expect(elicited).toHaveLength(2)
  })
})
