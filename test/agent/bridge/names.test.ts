/**
 * contract, "What the service does": each tool that a resource lists can be called through the bridge,
 * whatever the bridge and the client put before its name: clients drop names of more than 60 to 64
 * characters.
 */
import type { Tool } from '@modelcontextprotocol/client'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { listedTools, prefixes } from '../../../src/agent/bridge/tools.ts'
import { configure } from '../../../src/agent/bridge/client-config.ts'
import { bridgeFolder, startBridge } from '../../support/bridge.ts'
import { capturedTerminal } from '../../support/captured-terminal.ts'
import { resultOf, startScriptedTools, type ScriptedTools } from '../../support/scripted-tools.ts'

const ALICE = 'https://resource.example/mcp/alice'
const BOB = `https://resource.example/mcp/${'b'.repeat(60)}`
const CLIENTS = /^mcp__usher__[A-Za-z0-9_.-]{1,48}$/
const tool = (name: string): Tool => ({ name, inputSchema: { type: 'object' } })
const namesOf = (resources: string[], names: string[], resource = resources[0]!): string[] =>
  listedTools(resource, prefixes(resources).get(resource)!, names.map(tool)).map(({ name }) => name)

describe('The name of a tool', () => {
  it.each([
    ['69 characters, of several resources', [ALICE, BOB], 69 - 'alice_'.length],
    ['69 characters, of one resource', [ALICE], 69],
    ['128 characters, of several resources', [ALICE, BOB], 128],
    ['49 characters, of one resource', [ALICE], 49],
    ['43 characters, of several resources', [ALICE, BOB], 43],
    ['20 characters, of a resource with a name of 60', [BOB, ALICE], 40],
  ])('fits with what clients put before it: %s', (_what, resources, length) => {
    const [name] = namesOf(resources, ['n'.repeat(length)])
    expect(`mcp__usher__${name}`).toMatch(CLIENTS)
    expect(`mcp__usher__${name}`).toHaveLength(60)
    expect(name!.slice(0, -9)).toMatch(/n{8,}$/)
  })

  it.each([
    ['48 characters, of one resource', [ALICE], 48],
    ['42 characters, of several resources', [ALICE, BOB], 42],
  ])('is left as it is where it fits: %s', (_what, resources, length) => {
    expect(namesOf(resources, ['n'.repeat(length)])).toEqual([
      `${prefixes(resources).get(ALICE)}${'n'.repeat(length)}`,
    ])
  })

  it('stays another than one that begins alike, and the same from list to list', () => {
    const long = 'read_'.repeat(20)
    const names = namesOf([ALICE], [`${long}one`, `${long}two`])
    expect(new Set(names).size).toBe(2)
    expect(namesOf([ALICE], [`${long}two`, `${long}one`])).toEqual(names.toReversed())
  })

  it('that another tool has already costs the later one its place, which is named', () => {
    const [short] = namesOf([ALICE], ['n'.repeat(69)])
    const hidden: object[] = []
    const tools = [tool('n'.repeat(69)), tool(short!), tool('read')]
    expect(listedTools(ALICE, '', tools, one => void hidden.push(one)).map(one => one.tool)).toEqual([
      'n'.repeat(69),
      'read',
    ])
    expect(hidden).toEqual([{ name: short, why: 'another tool before it has the same name' }])
  })

  it('is told to be at risk where the name of the entry is long', async () => {
    const terminal = capturedTerminal()
    const options = { resources: [ALICE], client: 'cursor' }
    await configure({ ...options, name: 'usher' }, terminal)
    expect(terminal.said).not.toContain('at most 9 characters')
    await configure({ ...options, name: 'usher-for-trades' }, terminal)
    expect(terminal.said).toContain('at most 9 characters')
  })
})

describe('A tool with a long name', () => {
  let tools: ScriptedTools
  let folder: Awaited<ReturnType<typeof bridgeFolder>>
  beforeEach(async () => {
    tools = await startScriptedTools()
    folder = await bridgeFolder()
  })
  afterEach(async () => {
    await tools.close()
    await folder.remove()
  })

  it('is called by its own name, by a client that calls it by the one that it was shown', async () => {
    const own = 'n'.repeat(100)
    const called: unknown[] = []
    tools.script('tools/list', resultOf({ tools: [tool(own)] }))
    tools.script('tools/call', (came, response) => {
      called.push(came.params?.['name'])
      resultOf({ content: [{ type: 'text', text: 'done' }] })(came, response)
    })
    const other = new URL('/mcp/bob', tools.url).href
    const bridge = await startBridge({
      name: 'long',
      resources: [tools.url.href, other],
      state: folder.folder,
    })
    try {
      const names = (await bridge.tools()).map(({ name }) => name as string)
      expect(names.map(name => `mcp__usher__${name}`.length)).toEqual([60, 60])
      for (const name of names) expect((await bridge.call(name)).text).toBe('done')
      expect(called).toEqual([own, own])
    } finally {
      await bridge.close()
    }
  })
})
