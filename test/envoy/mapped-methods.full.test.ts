/**
 * MCP methods that are mapped to tools, through a real Envoy as shipped, to a server that nobody told of
 * usher: each request under the grant of the tool that its method names. contract, "Authorized call",
 * "Single-use grant" and "What the service does".
 */
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parse, stringify } from 'yaml'
import { createAgent, type AgentEvent } from '../../src/agent/index.ts'
import type { Stack } from '../../src/dev/stack/stack.ts'
import type { OwnerClient, PendingItem } from '../../src/owner/index.ts'
import { generatePrivateJwk } from '../../src/wire/signatures/keys.ts'
import { ownerOf, pendingOf } from '../support/bridge.ts'
import { startConformanceTools } from '../support/conformance-server.ts'
import { envoy } from '../support/envoy.ts'
import { describeWith } from '../support/requirement.ts'
import { startStack } from '../support/stack.ts'

const TEXT = 'test://static-text'

/** Reads under standing grants, and a prompt that she is asked about each time. */
function withMappedMethods(yaml: string): Promise<string> {
  const settings = parse(yaml) as { owners: [Record<string, unknown>] }
  const tools = [
    { tool: 'read_text', resource_id: 'alice/portfolio', scopes: ['read'], consequence: 'reversible' },
    { tool: 'linked_report', resource_id: 'alice/statements', scopes: ['read'], consequence: 'reversible' },
    { tool: 'use_prompt', resource_id: 'alice/trades', scopes: ['trade'], consequence: 'irreversible' },
  ]
  const methods = {
    'resources/read': {
      tool: 'read_text',
      uris: { 'test://template/{id}/data': 'linked_report', 'test://{name}': 'read_text' },
    },
    'prompts/get': { tool: 'use_prompt' },
  }
  return Promise.resolve(stringify({ ...settings, owners: [{ ...settings.owners[0], tools, methods }] }))
}

describeWith(await envoy(), 'A mapped method', found => {
  describe.each([
    ['asks by gRPC', false],
    ['asks by HTTP', true],
  ])('through an Envoy that %s', (_how, checksByHttp) => {
    let stack: Stack
    let owner: OwnerClient
    let client: Client
    const events: AgentEvent[] = []
    beforeAll(async () => {
      const toolServer = startConformanceTools
      stack = await startStack({ envoy: found, checksByHttp, toolServer, changeSidecar: withMappedMethods })
      owner = ownerOf(stack)
      const { resource } = stack
      const agent = createAgent({
        key: generatePrivateJwk(),
        reason: 'Read',
        confirmTerms: () => true,
        allowLoopback: true,
        onEvent: event => events.push(event),
      })
      client = new Client({ name: 'mapped', version: '1' })
      const fetch = agent.fetchFor(resource)
      await client.connect(new StreamableHTTPClientTransport(new URL(resource), { fetch }))
    }, 240_000)
    afterAll(async () => {
      await client?.close()
      await stack?.stop()
    })

    /** How many requests of that method reached the server. */
    const reached = (method: string): number =>
      stack.toolServer.record.arrivals.filter(
        ({ body }) => (JSON.parse(body) as { method?: string } | null)?.method === method,
      ).length
    const approved = async (): Promise<PendingItem> => {
      await expect.poll(() => pendingOf(owner)).toHaveLength(1)
      const [item] = await pendingOf(owner)
      await owner.decide(item!.family, 'approved')
      return item!
    }

    test('reads a resource once she approved its tool, then again under the same grant', async () => {
      const first = client.readResource({ uri: TEXT })
      first.catch(() => undefined)
      await expect.poll(() => pendingOf(owner)).toHaveLength(1)
      expect(reached('resources/read')).toBe(0)
      await approved()
      expect((await first).contents).toMatchObject([{ uri: TEXT, mimeType: 'text/plain' }])
      expect((await client.readResource({ uri: TEXT })).contents).toHaveLength(1)
      expect(await pendingOf(owner)).toEqual([])
      expect(reached('resources/read')).toBe(2)
    })

    test('follows a link of a tool without asking her again, where its URI is mapped to the tool', async () => {
      const call = client.callTool({ name: 'linked_report' })
      const state = { ended: false }
      void call.finally(() => (state.ended = true)).catch(() => undefined)
      await expect
        .poll(async () => {
          for (const { family } of await pendingOf(owner)) await owner.decide(family, 'approved')
          return state.ended
        })
        .toBe(true)
      const [link] = (await call).content as { type: string; uri: string }[]
      expect(link).toMatchObject({ type: 'resource_link' })
      events.length = 0
      expect((await client.readResource({ uri: link!.uri })).contents).toMatchObject([{ uri: link!.uri }])
      // By the grant of the tool, and not by another one on the same terms.
      expect(events.filter(({ type }) => type === 'waiting' || type === 'agreement_signed')).toEqual([])
    })

    test('is named on the card of a request that she is asked about, whose grant is for that one', async () => {
      for (const uses of [1, 2]) {
        const prompt = client.getPrompt({ name: 'test_simple_prompt' })
        prompt.catch(() => undefined)
        const item = await approved()
        expect(JSON.stringify(item)).toContain('prompts/get')
        expect((await prompt).messages).toHaveLength(1)
        expect(reached('prompts/get')).toBe(uses)
      }
    })

    test('that nobody mapped is refused as one that the server does not have, and never reaches it', async () => {
      const ref = { type: 'ref/prompt' as const, name: 'test_prompt_with_arguments' }
      const completed = client.complete({ ref, argument: { name: 'arg1', value: 'par' } })
      // A gateway that asks by HTTP must not take a 200 for a denial, so it answers by the status alone.
      await expect(completed).rejects.toMatchObject({ code: checksByHttp ? 403 : -32_601 })
      expect(reached('completion/complete')).toBe(0)
    })

    test('lists resources, templates and prompts without a grant', async () => {
      expect((await client.listResources()).resources).toHaveLength(3)
      expect((await client.listResourceTemplates()).resourceTemplates).toHaveLength(1)
      expect((await client.listPrompts()).prompts).toHaveLength(4)
    })
  })
})
