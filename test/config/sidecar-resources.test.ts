/**
 * Several resources of an owner in the sidecar's file: contract, "Resource server enforcement point" and
 * "Authorized call".
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { configurationWarnings } from '../../src/config.ts'
import { faultsOf, sidecarFiles } from '../support/config-files.ts'
import { ROOT } from '../support/repository.ts'

const { folder, read, write } = sidecarFiles()
writeFileSync(join(folder, 'alice'), 'of alice\n', { mode: 0o600 })
writeFileSync(join(folder, 'bea'), 'of bea\n', { mode: 0o600 })

const toolsOf = (owner: string) => [{ tool: 'read', resource_id: `${owner}/files`, scopes: ['read'] }]
const notes = { path: '/mcp/notes/{owner}', client_id: 'notes', tools: toolsOf('alice') }
const bank = {
  client_id: 'bank',
  tools: [{ tool: 'balance', resource_id: 'alice/account', scopes: ['read'] }],
  api: [{ method: 'GET', path: '/balance', tool: 'balance' }],
}
const alice = { owner: 'alice', authority: 'https://as.example.com', client_secret: 'shh' }

const faults = (owners: object[], more: object = {}) => faultsOf(() => read(owners, more))

describe('Several resources of an owner', () => {
  test('the examples of docs/owners.md are files without a fault', () => {
    const page = readFileSync(join(ROOT, 'docs/owners.md'), 'utf8')
    const examples = [...page.matchAll(/```yaml\n(.*?)```/gs)]
      .map(([, text]) => parse(text!.replace('/run/secrets/', `${folder}/`)) as { owners?: object[] })
      .filter(one => one.owners !== undefined)
    expect(examples.map(({ owners, ...more }) => read(owners!, more).owners.map(one => one.path))).toEqual([
      ['/mcp/alice', '/api/alice'],
      ['/mcp/alice', '/mcp/bea'],
    ])
  })

  test('an MCP server and a plain API stand side by side, each with its own path and client_id', () => {
    expect(read([{ ...alice, resources: [notes, bank] }]).owners).toMatchObject([
      { owner: 'alice', path: '/mcp/notes/alice', client_id: 'notes', api: undefined },
      { owner: 'alice', path: '/api/alice', client_id: 'bank', api: bank.api },
    ])
  })

  test('each proves itself as is said once for all of them, or as it says itself', () => {
    const signing = { ...bank, client_id: undefined, signature: true, register: true }
    expect(read([{ ...alice, resources: [notes, signing] }]).owners).toMatchObject([
      { credential: { kind: 'secret', secret: 'shh' }, register: undefined },
      { credential: { kind: 'signature' }, client_id: 'https://tools.example.com/api/alice' },
    ])
  })

  test('resources of the file are those of every owner who lists none, by her own name', () => {
    const shared = {
      client_id: 'tools',
      client_secret_file: join(folder, '{owner}'),
      tools: toolsOf('{owner}'),
    }
    const { client_secret: _secret, ...plain } = alice
    const own = { ...alice, owner: 'carol', client_id: 'hers', tools: toolsOf('carol'), path: '/mcp/c' }
    expect(read([plain, { ...plain, owner: 'bea' }, own], { resources: [shared] }).owners).toMatchObject([
      { owner: 'alice', path: '/mcp/alice', credential: { secret: 'of alice' } },
      {
        owner: 'bea',
        path: '/mcp/bea',
        client_id: 'tools',
        credential: { secret: 'of bea' },
        tools: toolsOf('bea'),
      },
      { owner: 'carol', path: '/mcp/c', client_id: 'hers', tools: toolsOf('carol') },
    ])
  })

  test('resources of the file that no owner gets are warned of, and one owner who gets them is enough', () => {
    const shared = { resources: [{ client_id: 'tools', tools: toolsOf('{owner}') }] }
    const own = { ...alice, client_id: 'hers', tools: toolsOf('alice') }
    const listing = { ...alice, owner: 'bea', resources: [{ ...notes, tools: toolsOf('bea') }] }
    const warnings = (owners: object[], more?: object) =>
      configurationWarnings('sidecar', write(owners, more), {})
    expect(warnings([own, listing], shared)).toEqual([
      expect.stringMatching(/^resources: no owner gets them, because every entry of owners has tools or/),
    ])
    expect(warnings([own, listing])).toEqual([])
    expect(warnings([own, listing, { ...alice, owner: 'carol' }], shared)).toEqual([])
  })

  test.each<[string, object[], object, RegExp]>([
    ['neither tools nor resources', [alice], {}, /owner alice: give her tools, or resources/],
    [
      'tools beside resources',
      [{ ...alice, tools: toolsOf('alice'), resources: [notes] }],
      {},
      /owner alice: with resources, tools belongs into one of them/,
    ],
    [
      'two at one path',
      [{ ...alice, resources: [notes, { ...notes, client_id: 'other' }] }],
      {},
      /two resources have the path \/mcp\/notes\/alice/,
    ],
    [
      'two with one client_id',
      [{ ...alice, resources: [notes, { ...bank, client_id: 'notes' }] }],
      {},
      /resources of alice: two of them have the client_id notes/,
    ],
    [
      'a pattern without her name, for two owners',
      [
        { ...alice, client_id: 'a' },
        { ...alice, owner: 'bea' },
      ],
      { resources: [{ path: '/mcp/all', client_id: 'a', tools: toolsOf('{owner}') }] },
      /two resources have the path \/mcp\/all/,
    ],
    [
      'keys that would decide for everybody',
      [{ ...alice, client_id: 'a' }],
      {
        resources: [
          {
            tools: toolsOf('{owner}').map(tool => ({
              ...tool,
              owner_approval: { keys_file: '/etc/keys', state_dir: '/var/marks' },
            })),
          },
        ],
      },
      /keys_file of owner_approval of read must hold \{owner\}/,
    ],
    [
      "a tool of somebody else's",
      [{ ...alice, resources: [{ ...notes, tools: toolsOf('bea') }] }],
      {},
      /tools of alice: the resource_id of read must start with alice\//,
    ],
    [
      'the sign for her name within a segment',
      [{ ...alice, resources: [{ ...notes, path: '/mcp/x-{owner}' }] }],
      {},
      /owners\[0\]\.resources\[0\]\.path: give a path of plain segments/i,
    ],
    [
      'a name that would leave its segment',
      [{ ...alice, owner: '../bea', resources: [notes] }],
      {},
      /owners\[0\]\.owner: give 1 to 64 letters/i,
    ],
    [
      'an operation of no tool, of one of several',
      [{ ...alice, resources: [notes, { ...bank, api: [{ method: 'GET', path: '/x', tool: 'no' }] }] }],
      {},
      /api of alice at \/api\/alice: GET \/x names no/,
    ],
  ])('%s is a fault that says what to do', (_what, owners, more, sentence) => {
    expect(faults(owners, more).join('\n')).toMatch(sentence)
  })
})
