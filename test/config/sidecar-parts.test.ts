/**
 * What the sidecar's file says about a tool that is split by constant arguments. contract, "Authorized call":
 * the tool maps to a resource, and the configuration says how.
 */
import { describe, expect, test } from 'vitest'
import { readEmbeddedConfig } from '../../src/config.ts'
import { faultsOf, SIDECAR_OWNER as alice, sidecarFiles } from '../support/config-files.ts'

const files = sidecarFiles()

const whole = {
  tool: 'edit_file',
  resource_id: 'alice/edits',
  scopes: ['write'],
  consequence: 'irreversible',
}
const preview = {
  tool: 'edit_file',
  when: { '/dryRun': true },
  as: 'edit_file_preview',
  resource_id: 'alice/previews',
  scopes: ['read'],
  consequence: 'reversible',
}
const read = (owners: object[], more: object = {}) => files.read(owners, more).owners[0]!.tools
const READ = [
  whole,
  {
    tool: 'edit_file_preview',
    of: { tool: 'edit_file', when: { '/dryRun': true } },
    resource_id: 'alice/previews',
    scopes: ['read'],
    consequence: 'reversible',
  },
]

describe('A part of a tool', () => {
  test('is judged under its own name, and says which calls of which tool it is', () => {
    expect(read([{ ...alice, tools: [whole, preview] }])).toEqual(READ)
    expect(read([{ ...alice, resources: [{ tools: [preview, whole] }] }])).toEqual(READ.toReversed())
  })

  test('may stand in the resources that everybody has', () => {
    const tools = [whole, preview].map(tool => ({
      ...tool,
      resource_id: tool.resource_id.replace('alice', '{owner}'),
    }))
    expect(read([alice], { resources: [{ tools }] })).toEqual(READ)
  })

  test('is the same for an enforcement point inside a resource', () => {
    const { listen: _listen, ...file } = files.fileOf([{ ...alice, tools: [whole, preview] }])
    expect(readEmbeddedConfig(file, {}).owners[0]!.tools).toEqual(READ)
  })

  test('may be all of the tool that anybody may call', () => {
    expect(read([{ ...alice, tools: [preview] }])).toEqual(READ.slice(1))
  })

  test('may be one of several that no call fits together', () => {
    const sent = { ...preview, when: { '/dryRun': false, '/mode': 'x' }, as: 'edit_file_x' }
    const faults = faultsOf(() => read([{ ...alice, tools: [whole, preview, sent] }]))
    expect(faults).toEqual([])
  })

  test('may share its resource with another tool', () => {
    const reading = { tool: 'read_file', resource_id: 'alice/previews', scopes: ['read'] }
    expect(read([{ ...alice, tools: [whole, preview, reading] }])).toHaveLength(3)
  })
})

const fault = (tools: object[], more: object = {}): string =>
  faultsOf(() => read([{ ...alice, tools, ...more }])).join('\n')

describe('It is a fault, with a sentence that says what to do,', () => {
  test.each<[string, object[], RegExp]>([
    [
      'to give when without as',
      [whole, { ...preview, as: undefined }],
      /tools of alice: give both when and as for edit_file, or neither/,
    ],
    [
      'to give as without when',
      [whole, { ...preview, when: undefined }],
      /give both when and as for edit_file, or neither/,
    ],
    ['to give no constant', [whole, { ...preview, when: {} }], /give at least one constant/],
    [
      'to give a name in place of a pointer',
      [whole, { ...preview, when: { dryRun: true } }],
      /give a JSON Pointer into the arguments/,
    ],
    [
      'to give a number, which servers read in several spellings',
      [whole, { ...preview, when: { '/level': 1 } }],
      /give true, false or a text as the constant/,
    ],
    [
      'to give null, which servers take for absent',
      [whole, { ...preview, when: { '/dryRun': null } }],
      /give true, false or a text as the constant/,
    ],
    [
      'to have both below one resource, where a grant for one covers the other',
      [whole, { ...preview, resource_id: whole.resource_id }],
      /edit_file_preview needs another resource_id than edit_file, because a grant for one would cover the other/,
    ],
    [
      'to make the part the graver one, which a misspelt argument would avoid',
      [
        { ...whole, consequence: 'reversible' },
        { ...preview, consequence: 'irreversible' },
      ],
      /edit_file_preview is graver than edit_file, which every call is that does not fit/,
    ],
    [
      'to declare the consequence of the part alone',
      [{ ...whole, consequence: undefined }, preview],
      /edit_file_preview and edit_file both need a consequence, or neither/,
    ],
    [
      'to declare the consequence of the whole alone',
      [whole, { ...preview, consequence: undefined }],
      /both need a consequence, or neither/,
    ],
    [
      'to have two parts that one call may fit',
      [whole, preview, { ...preview, when: { '/path': 'x' }, as: 'edit_x' }],
      /edit_x and edit_file_preview may fit one call: give both another constant at one place/,
    ],
    [
      'to name a part like a tool that is listed',
      [whole, { ...preview, as: 'edit_file' }],
      /edit_file is listed twice/,
    ],
    [
      'to name a part like a tool that is split itself',
      [whole, preview, { ...preview, tool: 'edit_file_preview', as: 'edit_again' }],
      /edit_file_preview is the name of a tool that is split itself/,
    ],
    [
      'to have a person sign for the part alone',
      [whole, { ...preview, owner_approval: { keys_file: files.keysFile, state_dir: files.folder } }],
      /edit_file_preview has owner_approval, and edit_file, which every call is that does not fit, has none/,
    ],
  ])('%s', (_what, tools, sentence) => {
    expect(fault(tools)).toMatch(sentence)
  })

  test('to split a tool of a plain API', () => {
    const api = [
      { method: 'GET', path: '/x', tool: 'edit_file' },
      { method: 'GET', path: '/y', tool: 'edit_file_preview' },
    ]
    expect(fault([whole, preview], { api })).toMatch(
      /leave when out, a plain API is split by method and path/,
    )
  })
})
