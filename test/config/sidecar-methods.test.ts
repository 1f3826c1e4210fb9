/**
 * What the sidecar's file says about MCP methods other than `tools/call`. contract, "Authorized call": the
 * tool whose grant a method needs is configured, never taken from a request.
 */
import { describe, expect, test } from 'vitest'
import { readEmbeddedConfig } from '../../src/config.ts'
import { faultsOf, SIDECAR_OWNER as alice, sidecarFiles } from '../support/config-files.ts'

const files = sidecarFiles()

const tools = ['read_file', 'use_prompt'].map(tool => ({
  tool,
  resource_id: `alice/${tool}`,
  scopes: ['use'],
}))
const read = (owners: object[], more: object = {}) =>
  files.read(owners, more).owners.map(({ methods }) => methods)
const methods = {
  'resources/read': { tool: 'read_file', uris: { 'file:///reports/{name}': 'read_file' } },
  'prompts/get': { tool: 'use_prompt', names: { 'pay roll': 'use_prompt' } },
  'logging/setLevel': 'free',
}

describe('The methods of a resource', () => {
  test('stand in the entry of an owner who has one resource, or in that of each resource', () => {
    expect(read([{ ...alice, tools, methods }])).toEqual([methods])
    const resources = [
      { path: '/mcp/files', tools, methods },
      { path: '/mcp/more', client_id: 'more', tools },
    ]
    expect(read([{ ...alice, resources }])).toEqual([methods, undefined])
  })

  test('stand in the resources that everybody has', () => {
    const everybody = tools.map(tool => ({ ...tool, resource_id: `{owner}/${tool.tool}` }))
    expect(read([alice], { resources: [{ tools: everybody, methods }] })).toEqual([methods])
  })

  test('are the same for an enforcement point inside a resource', () => {
    const { listen: _listen, ...file } = files.fileOf([{ ...alice, tools, methods }])
    expect(readEmbeddedConfig(file, {}).owners[0]!.methods).toEqual(methods)
  })
})

const with_ = (mapped: object, more: object = {}): string =>
  faultsOf(() => read([{ ...alice, tools, methods: mapped, ...more }], {})).join('\n')

describe('It is a fault, with a sentence that says what to do,', () => {
  test.each<[string, object, RegExp]>([
    [
      'to map to a tool that is not listed',
      { 'prompts/get': { tool: 'no' } },
      /prompts\/get names no, which is none of tools/,
    ],
    [
      'to map a template to a tool that is not listed',
      { 'resources/read': { tool: 'read_file', uris: { 'file:///{+path}': 'no' } } },
      /resources\/read names no, which is none of tools/,
    ],
    [
      'to map tools/call',
      { 'tools/call': 'free' },
      /tools\/call passes, or is judged by the tool that it names, whatever is said here: leave it out/,
    ],
    ['to map a notification', { 'notifications/cancelled': 'free' }, /leave it out/],
    ['to map an HTTP method', { DELETE: 'free' }, /DELETE is no JSON-RPC method of MCP/],
    [
      'to map the stream of a session to a tool',
      { GET: { tool: 'read_file' } },
      /GET is the stream of a session, which is no call of a tool: say free, or name it in open_methods/,
    ],
    ['to map a family', { 'resources/*': 'free' }, /resources\/\* is no JSON-RPC method of MCP/],
    ['to say something else than free', { 'prompts/get': 'open' }, /give free, or \{tool: …\}/],
    [
      'to give a template with an escape',
      { 'resources/read': { tool: 'read_file', uris: { 'file:///a%20b': 'read_file' } } },
      /give "file:\/\/\/a%20b" as an absolute URI template/,
    ],
    [
      'to give a template with a dot segment',
      { 'resources/read': { tool: 'read_file', uris: { 'file:///a/../b': 'read_file' } } },
      /without escapes, dot segments and empty segments/,
    ],
    [
      'to give a segment two placeholders',
      { 'resources/read': { tool: 'read_file', uris: { 'file:///{year}-{month}': 'read_file' } } },
      /with at most one placeholder in a segment and one \{\+path\}/,
    ],
    [
      'to give a template two paths',
      { 'resources/read': { tool: 'read_file', uris: { 'file:///{+from}/to/{+to}': 'read_file' } } },
      /with at most one placeholder in a segment and one \{\+path\}/,
    ],
    [
      'to give a prompt templates',
      { 'prompts/get': { tool: 'use_prompt', uris: { 'file:///{+path}': 'read_file' } } },
      /prompts\/get is not about a resource: leave uris out/,
    ],
    [
      'to give a resource names',
      { 'resources/read': { tool: 'read_file', names: { x: 'read_file' } } },
      /resources\/read is not about a prompt: leave names out/,
    ],
  ])('%s', (_what, mapped, sentence) => {
    expect(with_(mapped)).toMatch(sentence)
  })

  test('to open the stream of a session that is free, which is none by itself', () => {
    const entry = { ...alice, tools, methods: { GET: 'free' } }
    expect(read([entry])).toEqual([{ GET: 'free' }])
    const faults = faultsOf(() => read([entry], { open_methods: ['GET'] }))
    expect(faults.join('\n')).toMatch(/GET is in open_methods, too; keep one of the two/)
  })

  test('to open a mapped method, too', () => {
    const faults = faultsOf(() => read([{ ...alice, tools, methods }], { open_methods: ['resources/read'] }))
    expect(faults.join('\n')).toMatch(/resources\/read is in open_methods, too; keep one of the two/)
  })

  test('to map methods of a plain API', () => {
    const api = tools.map(({ tool }) => ({ method: 'GET', path: `/${tool}`, tool }))
    expect(with_(methods, { api })).toMatch(/methods of alice: leave them out, a plain API has none/)
  })

  test('to leave the methods beside resources that are listed', () => {
    const faults = faultsOf(() => read([{ ...alice, methods, resources: [{ path: '/mcp/files', tools }] }]))
    expect(faults.join('\n')).toMatch(/with resources, methods belongs into one of them/)
  })
})
