/**
 * `usher sidecar tools` for what a server has beside tools, and with `--diff`; `usher authority provision`.
 * contract, "Authorized call" (the tool maps to a resource), "Policy vocabulary and tiers". Of real servers
 * of the official SDK.
 */
import { writeFileSync } from 'node:fs'
import type { RequestListener } from 'node:http'
import { join } from 'node:path'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { parse, stringify } from 'yaml'
import { z } from 'zod'
import {
  runProvisionProposal,
  runToolsSurvey,
  type ProvisionOptions,
  type SurveyOptions,
} from '../../src/agent/bridge/survey/main.ts'
import { readSidecarConfig } from '../../src/config.ts'
import { loadProvisionFile } from '../../src/config/provisioning/provision.ts'
import { capturedTerminal } from '../support/captured-terminal.ts'
import { configFolder } from '../support/config-files.ts'
import { serve } from '../support/embedded.ts'

const { folder, keysFile } = configFolder()

interface Listed {
  description?: string
  annotations?: { readOnlyHint?: boolean; destructiveHint?: boolean }
}
/** What the server has now. */
let listed: Record<string, Listed>
let hasObjects: boolean
let url: string
const open: (() => Promise<void>)[] = []

beforeEach(async () => {
  listed = {
    list_files: { description: 'Lists files.', annotations: { readOnlyHint: true } },
    edit_file: { annotations: { readOnlyHint: false, destructiveHint: true } },
    say: {},
  }
  hasObjects = true
  const handler = createMcpHandler(() => {
    const server = new McpServer(
      { name: 'files', version: '1' },
      hasObjects ? { capabilities: { logging: {} } } : {},
    )
    for (const [name, hints] of Object.entries(listed))
      server.registerTool(name, { ...hints, inputSchema: z.object({}) }, () => ({ content: [] }))
    if (hasObjects) {
      server.registerResource('readme', 'file:///readme', {}, uri => ({
        contents: [{ uri: uri.href, text: '' }],
      }))
      server.registerPrompt('poem', {}, () => ({ messages: [] }))
    }
    return server
  })
  const { port, close } = await serve(toNodeHandler(handler) as RequestListener)
  url = `http://127.0.0.1:${port}/mcp`
  open.push(close, () => handler.close())
})
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close()
})

const survey = async (options: SurveyOptions = {}) => {
  const terminal = capturedTerminal()
  const code = await runToolsSurvey(url, options, terminal)
  return { code, text: terminal.printed }
}
const written = (name: string, text: string): string => {
  const file = join(folder, name)
  writeFileSync(file, text)
  return file
}
/** A sidecar's file with these entries of the owner alice. */
const sidecarFile = (entry: object, more: object = {}): string =>
  written(
    'sidecar.yaml',
    stringify({
      public_url: 'https://tools.example.com',
      listen: { check: '127.0.0.1:9191', http: '127.0.0.1:9192' },
      keys_file: keysFile,
      realm: 'tools',
      owners: [
        {
          owner: 'alice',
          authority: 'https://as.example.com',
          client_id: 'files',
          client_secret: 'a secret of alice',
          ...entry,
        },
      ],
      ...more,
    }),
  )

describe('usher sidecar tools', () => {
  test('writes what methods need beside the tools, so that the block is a whole entry of the file', async () => {
    const { text } = await survey({ owner: 'alice' })
    const block = parse(text) as { tools: object[]; methods: object }
    expect(block.methods).toMatchObject({
      'resources/read': { tool: 'read_resource' },
      'prompts/get': { tool: 'get_prompt' },
      'logging/setLevel': 'free',
    })
    const [alice] = readSidecarConfig(sidecarFile(block), {}).owners
    expect(alice!.methods).toEqual(block.methods)
    expect(alice!.tools).toContainEqual({
      tool: 'read_resource',
      resource_id: 'alice/resources',
      scopes: ['read'],
      consequence: 'reversible',
    })
  })

  test('writes no methods of a server that has tools alone', async () => {
    hasObjects = false
    expect(parse((await survey()).text)).not.toHaveProperty('methods')
  })

  test('gives the objects of a method another name than that of a tool of the server', async () => {
    listed['read_resource'] = {}
    const { methods } = parse((await survey()).text) as { methods: Record<string, unknown> }
    expect(methods['resources/read']).toEqual({ tool: 'read_resource-method' })
  })
})

describe('usher sidecar tools --diff', () => {
  test('says that a block which was just written says what the server lists', async () => {
    const diff = written('block.yaml', (await survey()).text)
    const { code, text } = await survey({ diff, check: true })
    expect({ code, text }).toEqual({ code: 0, text: expect.stringContaining('says what') as string })
  })

  test('says what is new, gone and changed, and ends with 1 where --check is given', async () => {
    const diff = written('block.yaml', (await survey()).text)
    delete listed['say']
    listed['list_files'] = { description: 'Lists and deletes.', annotations: { readOnlyHint: true } }
    listed['edit_file'] = { annotations: { readOnlyHint: false, destructiveHint: true } }
    listed['remove'] = { annotations: { destructiveHint: true } }
    const { code, text } = await survey({ diff, check: true })
    expect(code).toBe(1)
    expect(text.split('\n').map(line => line.split(':')[0])).toEqual(
      expect.arrayContaining(['changed tool "list_files"', 'new tool "remove"', 'gone tool "say"']),
    )
    expect(text).not.toContain('"edit_file"')
    expect(parse(text.slice(text.indexOf('# To add')))).toMatchObject([
      { tool: 'remove', consequence: 'irreversible' },
    ])
    expect((await survey({ diff })).code).toBe(0)
  })

  test('says that a tool is graver than the file has it, without any hash', async () => {
    const tools = [
      { tool: 'list_files', resource_id: 'alice/files', scopes: ['list'], consequence: 'reversible' },
      { tool: 'edit_file', resource_id: 'alice/edits', scopes: ['edit'], consequence: 'reversible' },
      { tool: 'say', resource_id: 'alice/say', scopes: ['say'], consequence: 'irreversible' },
    ]
    hasObjects = false
    const { text } = await survey({ diff: sidecarFile({ tools }) })
    expect(text).toMatch(
      /^changed tool "edit_file": the server says that it is irreversible.*reversible\.\n$/,
    )
  })

  test('takes a tool for known that a comment leaves out, one that is split, and one that methods name', async () => {
    const block = [
      'tools:',
      '  # left out: say',
      '  # left out: "logging/setLevel"',
      '  - { tool: list_files, resource_id: alice/files, scopes: [list] }',
      '  - { tool: edit_file, when: { /dryRun: true }, as: edit_preview, resource_id: alice/previews, scopes: [list] }',
      '  - { tool: objects, resource_id: alice/objects, scopes: [list] }',
      'methods:',
      '  resources/read: { tool: objects }',
      '  prompts/get: { tool: objects }',
    ]
    const diff = written('block.yaml', block.join('\n'))
    const { text } = await survey({ diff })
    expect(text).not.toMatch(/tool /)
    expect(text).not.toContain('logging')
  })

  test('says which methods are new and gone', async () => {
    const tools = Object.keys(listed).map(tool => ({ tool, resource_id: `alice/${tool}`, scopes: ['use'] }))
    const mapped = { 'resources/read': { tool: 'say' }, 'completion/complete': 'free' }
    hasObjects = false
    const { text: gone } = await survey({ diff: sidecarFile({ tools, methods: mapped }) })
    expect(gone).toMatch(/^gone method "resources\/read"/m)
    hasObjects = true
    const { text } = await survey({ diff: sidecarFile({ tools, methods: mapped }) })
    expect(text).toMatch(/^new method "prompts\/get"/m)
    expect(text).not.toMatch(/method "resources\/read"/)
  })

  test('compares the resource whose path is given, and asks which one if there are several', async () => {
    const tools = [{ tool: 'other', resource_id: 'alice/other', scopes: ['use'] }]
    const files = Object.keys(listed).map(tool => ({ tool, resource_id: `alice/${tool}`, scopes: ['use'] }))
    hasObjects = false
    const diff = sidecarFile({
      resources: [
        { path: '/mcp/{owner}/other', client_id: 'other', tools },
        { path: '/mcp/{owner}/files', tools: files },
      ],
    })
    expect((await survey({ diff, path: '/mcp/alice/files', check: true })).code).toBe(0)
    await expect(survey({ diff })).rejects.toThrow(
      '--path: say which resource of ' + diff + ' is meant: /mcp/alice/other, /mcp/alice/files.',
    )
  })

  test.each<SurveyOptions>([{ check: true }, { path: '/mcp' }])(
    'is needed for options that are about it: %j',
    async options => {
      await expect(survey(options)).rejects.toMatchObject({ name: 'UsageError' })
    },
  )
})

const provision = async (options: ProvisionOptions): Promise<string> => {
  const terminal = capturedTerminal()
  await runProvisionProposal(options, terminal)
  return terminal.printed
}
/** What an authority makes of it, once the secrets are where it says. */
const provisioned = (text: string) => {
  const secret = join(folder, 'secret')
  writeFileSync(secret, 'a secret of sixteen characters and more', { mode: 0o600 })
  const file = written(
    'provision.yaml',
    text.replaceAll(/client_secret_file: .*/g, `client_secret_file: ${secret}`),
  )
  return loadProvisionFile(file, false)
}

describe('usher authority provision --from', () => {
  test('a sidecar’s file writes its servers, resources and tiers as an authority takes them', async () => {
    const files = [
      { tool: 'list_files', resource_id: 'alice/files', scopes: ['list'], consequence: 'reversible' },
      { tool: 'read_file', resource_id: 'alice/files', scopes: ['read'], consequence: 'reversible' },
      { tool: 'edit_file', resource_id: 'alice/edits', scopes: ['edit'], consequence: 'irreversible' },
      { tool: 'say', resource_id: 'alice/say', scopes: ['say'] },
    ]
    const notes = [
      { tool: 'note', resource_id: 'alice/notes', scopes: ['note'], consequence: 'compensatable' },
    ]
    const from = sidecarFile({
      resources: [
        { path: '/mcp/alice/files', tools: files },
        { path: '/mcp/alice/notes', client_id: 'notes', tools: notes },
      ],
    })
    const text = await provision({ from })
    expect(text).not.toContain('a secret of alice')
    const [alice] = provisioned(text)
    expect(alice!.resource_servers).toMatchObject([
      { client_id: 'files', resource_uri: 'https://tools.example.com/mcp/alice/files' },
      { client_id: 'notes', resource_uri: 'https://tools.example.com/mcp/alice/notes' },
    ])
    expect(alice!.resources).toMatchObject([
      { id: 'alice/files', client_id: 'files', resource_scopes: ['list', 'read'], consequence: 'reversible' },
      { id: 'alice/edits', consequence: 'irreversible' },
      { id: 'alice/say' },
      { id: 'alice/notes', client_id: 'notes', consequence: 'compensatable' },
    ])
    expect(alice!.resources[2]).not.toHaveProperty('consequence')
    expect(alice!.tiers.map(({ id, ask_me, resources }) => ({ id, ask_me, resources }))).toEqual([
      { id: 'reading', ask_me: false, resources: ['alice/files'] },
      { id: 'asking', ask_me: true, resources: ['alice/edits', 'alice/say'] },
      { id: 'asking-notes', ask_me: true, resources: ['alice/notes'] },
    ])
  })

  test('a server that is added to the file later adds tiers and changes none that was proposed before', async () => {
    const files = {
      path: '/mcp/alice/files',
      tools: [
        { tool: 'list_files', resource_id: 'alice/files', scopes: ['list'], consequence: 'reversible' },
      ],
    }
    const events = {
      path: '/mcp/alice/events',
      client_id: `https://tools.example.com/${'calendar/'.repeat(9)}`,
      name: 'Calendar',
      tools: [
        { tool: 'list_events', resource_id: 'alice/events', scopes: ['read'], consequence: 'reversible' },
        { tool: 'add_event', resource_id: 'alice/added', scopes: ['write'], consequence: 'compensatable' },
      ],
    }
    const [before] = provisioned(await provision({ from: sidecarFile({ resources: [files] }) }))
    const [after] = provisioned(await provision({ from: sidecarFile({ resources: [files, events] }) }))
    expect(after!.tiers.slice(0, 1)).toEqual(before!.tiers)
    expect(after!.tiers.map(({ id, name }) => [id.slice(0, 28), name])).toEqual([
      ['reading', 'Reading'],
      ['reading-https-tools.example.', 'Reading (Calendar)'],
      ['asking-https-tools.example.c', 'Asked each time (Calendar)'],
    ])
  })

  test('a resource with a tool that nobody has described is none that only reads', async () => {
    const tools = [
      { tool: 'list_files', resource_id: 'alice/files', scopes: ['list'], consequence: 'reversible' },
      { tool: 'say', resource_id: 'alice/files', scopes: ['list'] },
    ]
    const [alice] = provisioned(await provision({ from: sidecarFile({ tools }) }))
    expect(alice!.resources[0]).not.toHaveProperty('consequence')
    expect(alice!.tiers.map(({ id }) => id)).toEqual(['asking'])
  })

  test('a server that registers itself is left to the owner, with a sentence that says so', async () => {
    const tools = [{ tool: 'say', resource_id: 'alice/say', scopes: ['say'] }]
    const entry = { tools, client_id: undefined, client_secret: undefined, signature: true, register: true }
    const text = await provision({ from: sidecarFile(entry) })
    expect(text).toContain('https://tools.example.com/mcp/alice proves itself by a signature')
    expect(parse(text)).toEqual({ owners: [] })
  })

  test('a server that signs and does not register is proposed with the file of its public keys', async () => {
    const tools = [{ tool: 'say', resource_id: 'alice/say', scopes: ['say'] }]
    const text = await provision({ from: sidecarFile({ tools, client_secret: undefined, signature: true }) })
    const owners = (parse(text) as { owners: { resource_servers: object[] }[] }).owners
    expect(owners[0]!.resource_servers).toEqual([
      {
        client_id: 'files',
        name: 'files',
        jwks_file: '/run/secrets/files-jwks.json',
        resource_uri: 'https://tools.example.com/mcp/alice',
      },
    ])
  })

  test('a server writes what its tools and objects need', async () => {
    const resource = 'https://tools.example.com/mcp/alice'
    const text = await provision({ from: url, owner: 'alice', resource, clientId: 'files' })
    const [alice] = provisioned(text)
    expect(alice!.resource_servers).toMatchObject([{ client_id: 'files', resource_uri: resource }])
    expect(alice!.resources.map(({ id }) => id)).toEqual([
      'alice/list_files',
      'alice/edit_file',
      'alice/say',
      'alice/resources',
      'alice/prompts',
    ])
    expect(alice!.tiers.map(({ id, resources }) => [id, resources])).toEqual([
      ['reading', ['alice/list_files', 'alice/resources', 'alice/prompts']],
      ['asking', ['alice/edit_file', 'alice/say']],
    ])
  })

  test.each<Omit<ProvisionOptions, 'from'>>([
    {},
    { owner: 'alice' },
    { owner: '../bob', resource: 'https://x.example/' },
    { owner: 'alice', resource: 'https://x.example/', clientId: 'a b' },
  ])('a server needs an owner, the URL that agents call, and a plain client id: %j', async options => {
    await expect(provision({ from: url, ...options })).rejects.toMatchObject({ name: 'UsageError' })
  })
})
