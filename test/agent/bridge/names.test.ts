/**
 * contract, "What the service does": each tool that a resource lists can be called through the bridge,
 * whatever the bridge and the client put before its name: clients drop names of more than 60 to 64
 * characters.
 */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Tool } from '@modelcontextprotocol/client'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { lastPart, openPrefixes, plainName } from '../../../src/agent/bridge/listing/prefixes.ts'
import { listedTools } from '../../../src/agent/bridge/listing/tools.ts'
import { configure } from '../../../src/agent/bridge/setup/client-config.ts'
import { bridgeFolder, startBridge } from '../../support/bridge.ts'
import { capturedTerminal } from '../../support/captured-terminal.ts'
import { document, resultOf, startScriptedTools, type ScriptedTools } from '../../support/scripted-tools.ts'

const ALICE = 'https://resource.example/mcp/alice'
const BOB = `https://resource.example/mcp/${'b'.repeat(60)}`
const CLIENTS = /^mcp__usher__[A-Za-z0-9_-]{1,48}$/
/** The strictest of what clients take. */
const STRICTEST = /^[A-Za-z][A-Za-z0-9_-]{0,47}$/
const tool = (name: string): Tool => ({ name, inputSchema: { type: 'object' } })
const prefixOf = (resources: string[], resource: string): string =>
  resources.length < 2 ? '' : `${plainName(lastPart(resource))}_`
const namesOf = (resources: string[], names: string[], resource = resources[0]!): string[] =>
  listedTools(resource, prefixOf(resources, resource), names.map(tool)).map(({ name }) => name)

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
      `${prefixOf(resources, ALICE)}${'n'.repeat(length)}`,
    ])
  })

  it('stays another than one that begins alike, and the same from list to list', () => {
    const long = 'read_'.repeat(20)
    const names = namesOf([ALICE], [`${long}one`, `${long}two`])
    expect(new Set(names).size).toBe(2)
    expect(namesOf([ALICE], [`${long}two`, `${long}one`])).toEqual(names.toReversed())
  })

  it.each([
    ['_read', 'tool_read_'],
    ['-read', 'tool-read_'],
    ['3d_render', 'tool_3d_render_'],
    ['7', 'tool_7_'],
    ['__', 'tool___'],
    ['files.read', 'files_read_'],
    ['.well-known', 'tool_well-known_'],
    ['...', 'tool____'],
    [`_${'n'.repeat(127)}`, 'tool_nnnn'],
  ])('is one that every client takes: %s', (own, begins) => {
    const [shown] = namesOf([ALICE], [own])
    expect(shown).toMatch(STRICTEST)
    expect(shown!.startsWith(begins)).toBe(true)
    expect(namesOf([ALICE], [own, 'read'])).toEqual([shown, 'read'])
    expect(namesOf([ALICE, BOB], [own])[0]).toMatch(STRICTEST)
  })

  it('that every client takes stays another where two come to the same', () => {
    const own = ['files.read', 'files_read', 'files-read', '_files_read', 'tool_files_read', '.files.read']
    const names = namesOf([ALICE], own)
    expect([names.length, new Set(names).size]).toEqual([own.length, own.length])
    expect(namesOf([ALICE], own.toReversed())).toEqual(names.toReversed())
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

describe('Of several resources, a tool', () => {
  const [work, home, bobs] = [
    'https://work.example/tools',
    'https://home.example/tools',
    'https://bob.example/tools',
  ] as const
  const owners = new Map<string, string>([
    [work, 'alice'],
    [home, 'alice'],
    [bobs, 'bob'],
  ])
  let folder: Awaited<ReturnType<typeof bridgeFolder>>
  beforeEach(async () => void (folder = await bridgeFolder()))
  afterEach(() => folder.remove())
  const down = async (): Promise<never> => {
    throw new Error('nobody answers')
  }
  const prefixes = (resources: readonly string[], ownerNameOf = async (one: string) => owners.get(one)) =>
    openPrefixes({ resources, folder: folder.folder, ownerNameOf })
  const all = async (
    resources: readonly string[],
    ownerNameOf?: (one: string) => Promise<string | undefined>,
  ) => {
    const opened = prefixes(resources, ownerNameOf)
    return Promise.all(resources.map(opened.of))
  }

  it('has the name of its owner before it, as the metadata has it, and a number where she has several', async () => {
    expect(await all([work, bobs, home])).toEqual(['alice_', 'bob_', 'alice-2_'])
  })

  it('keeps what is before it, whichever resources are down later, and in whatever order they come', async () => {
    expect(await all([work, home, bobs])).toEqual(['alice_', 'alice-2_', 'bob_'])
    expect(await all([bobs, home, work], down)).toEqual(['bob_', 'alice-2_', 'alice_'])
    expect(await all([home, 'https://new.example/mcp/alice'])).toEqual(['alice-2_', 'alice-3_'])
  })

  it('has the last part of the address where no metadata names an owner', async () => {
    const nameless = async () => undefined
    expect(await all([work, 'https://b.example/mcp/bob%20b', 'https://c.example/'], nameless)).toEqual([
      'tools_',
      'bob-b_',
      'c-example_',
    ])
  })

  it('of one that does not answer has nothing before it yet, and takes no name from others', async () => {
    const opened = prefixes([work, home, bobs], async one => (one === work ? down() : owners.get(one)))
    expect(await opened.of(bobs)).toBe('bob_')
    expect(await Promise.all([work, home, bobs].map(opened.storedPrefix))).toEqual([
      undefined,
      'alice_',
      'bob_',
    ])
  })

  it('of one whose metadata is away or slow has the last part of the address, until the metadata is read', async () => {
    const away = async (one: string) => (one === bobs ? down() : owners.get(one))
    expect(await all([work, bobs], away)).toEqual(['alice_', 'tools_'])
    const silent = (one: string) => (one === bobs ? new Promise<never>(() => undefined) : away(one))
    expect(await all([work, bobs], silent)).toEqual(['alice_', 'tools_'])
    expect(await all([work, bobs])).toEqual(['alice_', 'bob_'])
    expect(await all([work, bobs], down)).toEqual(['alice_', 'bob_'])
  })

  it('has no name before it that another had in a list, even if it was not kept', async () => {
    const readable = new Set<string>()
    const opened = prefixes([home, work, bobs], async one => (readable.has(one) ? 'tools' : down()))
    expect([await opened.of(home), await opened.of(home), await opened.of(work)]).toEqual([
      'tools_',
      'tools_',
      'tools-2_',
    ])
    readable.add(bobs)
    expect(await opened.of(bobs)).toBe('tools-3_')
    readable.add(work)
    expect(await opened.of(work)).toBe('tools-2_')
    // Nor does it get the one that another process kept meanwhile.
    const later = prefixes([home, work, bobs, 'https://new.example/tools-2'], down)
    expect(await later.of('https://new.example/tools-2')).toBe('tools-2-2_')
  })

  it('has a letter at its head, whatever the owner is called, and stays apart from those of others', async () => {
    const odd = ['李小龍', '3com', 'Ärzte', '_bob', '-', '孫中山', 'owner', '']
    const resources = odd.map((_, at) => `https://odd.example/${at}`)
    const given = await all(resources, async one => odd[Number(lastPart(one))])
    expect(given).toEqual([
      'owner_',
      'owner-3com_',
      'rzte_',
      'bob_',
      'owner-2_',
      'owner-3_',
      'owner-4_',
      'owner-7_',
    ])
    for (const prefix of given) expect(`${prefix}7`).toMatch(STRICTEST)
    expect(await all(resources, down)).toEqual(given)
  })

  it('has another before it than a release before kept, where some clients take no such name', async () => {
    const place = join(folder.folder, 'prefixes')
    await mkdir(place, { recursive: true, mode: 0o700 })
    await writeFile(join(place, '---_.json'), JSON.stringify({ prefix: '---_', resource: work }), {
      mode: 0o600,
    })
    expect(await all([work, home])).toEqual(['alice_', 'alice-2_'])
  })

  it('has at most 20 harmless characters before it and the number, whatever the name is', async () => {
    const odd = ['../../etc/passwd', 'x'.repeat(100), '\u0000\u202e', 'ALICE', 'Alice']
    const resources = odd.map((_, at) => `https://odd.example/${at}`)
    const given = await all(resources, async one => odd[Number(lastPart(one))])
    for (const prefix of given) expect(prefix).toMatch(/^[A-Za-z0-9-]{1,22}_$/)
    expect(new Set(given.map(prefix => prefix.toLowerCase())).size).toBeGreaterThanOrEqual(4)
    expect(new Set(given).size).toBe(odd.length)
  })

  it('waits for no other resource once something stands before it', async () => {
    await all([work, home, bobs])
    expect(await all([work, home, bobs], () => new Promise(() => undefined))).toEqual([
      'alice_',
      'alice-2_',
      'bob_',
    ])
  })

  it('has the same before it in two processes that begin at once', async () => {
    const [one, other] = await Promise.all([all([work, home, bobs]), all([work, home, bobs])])
    const later = await all([work, home, bobs])
    expect(new Set(later).size).toBe(3)
    expect(later).toEqual(one)
    expect(later).toEqual(other)
  })

  it('of one resource alone has nothing before it, and nobody is asked', async () => {
    const asked: string[] = []
    const opened = prefixes([work], async one => void asked.push(one))
    expect([await opened.of(work), await opened.storedPrefix(work), asked]).toEqual(['', '', []])
  })

  it('is named so by a bridge, by the document of the resource', async () => {
    const tools = await startScriptedTools()
    const other = new URL('/mcp/second', tools.url).href
    const asked: string[] = []
    tools.script('GET', ({ path }, response) => {
      asked.push(path)
      if (!path.startsWith('/.well-known/')) return void response.writeHead(405).end()
      const resource = path.endsWith('/mcp/second') ? other : tools.url.href
      const owner = resource === other ? 'carol' : 'dora'
      document(response, {
        resource,
        owner_resources_endpoint: new URL(`/owner-resources/${owner}`, tools.url).href,
      })
    })
    const options = { name: 'owners', resources: [tools.url.href, other], state: folder.folder }
    const bridge = await startBridge(options)
    try {
      expect((await bridge.tools()).map(({ name }) => name)).toEqual(['dora_read', 'carol_read'])
      expect((await bridge.call('carol_read')).text).toBe('done')
    } finally {
      await bridge.close()
      await tools.close()
    }
    expect(asked.some(path => path.startsWith('/.well-known/oauth-protected-resource'))).toBe(true)
  })
})

describe('A resource whose metadata comes late', () => {
  it('is listed under its owner once that is read, and is called by either name', async () => {
    const folder = await bridgeFolder()
    const tools = await startScriptedTools()
    const other = new URL('/mcp/second', tools.url).href
    let isAway = true
    tools.script('GET', ({ path }, response) => {
      if (!path.startsWith('/.well-known/')) return void response.writeHead(405).end()
      if (!path.endsWith('/mcp/second')) return void response.writeHead(404).end()
      const owner_resources_endpoint = new URL('/owner-resources/carol', tools.url).href
      document(response, { resource: other, owner_resources_endpoint }, isAway ? 503 : 200)
    })
    const options = { name: 'late', resources: [tools.url.href, other], state: folder.folder }
    const bridge = await startBridge(options)
    const names = async () => (await bridge.tools()).map(({ name }) => name)
    try {
      const [own, lent] = await names()
      expect(lent).toBe('second_read')
      isAway = false
      await expect.poll(bridge.changes).toBe(1)
      expect(await names()).toEqual([own, 'carol_read'])
      expect((await bridge.call('second_read')).text).toBe('done')
      expect((await bridge.call('carol_read')).text).toBe('done')
    } finally {
      await bridge.close()
      await tools.close()
      await folder.remove()
    }
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
