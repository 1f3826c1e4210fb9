/**
 * A tool that the configuration splits by constant arguments: which part a call is of is read from what was
 * signed, and what any server could read otherwise is judged as the whole tool. contract, "Authorized call"
 * and "Single-use grant"; docs/choices.md, "Authorized call".
 */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Allowed, Denied } from '../../src/enforcement/call.ts'
import { toolParts } from '../../src/enforcement/request/tool-parts.ts'
import { parseChallenge } from '../../src/wire/negotiation/challenge.ts'
import { s256Json } from '../../src/wire/encoding.ts'
import { NOTHING_OPEN, read, toolCall } from '../support/mcp-calls.ts'
import { refusalOf } from '../support/refusals.ts'
import { toldReports } from '../support/told-reports.ts'
import { until } from '../support/until.ts'
import { verdict, type CallParts } from './calls.ts'
import { coreStand, permissionOf } from './core.ts'

const PARTS = [
  { tool: 'edit_file' },
  { tool: 'edit_preview', of: { tool: 'edit_file', when: { '/dryRun': true } } },
  { tool: 'edit_draft', of: { tool: 'edit_file', when: { '/dryRun': false, '/to/a~1b~0c': 'draft' } } },
  { tool: 'only_preview', of: { tool: 'deploy', when: { '/options/mode': 'plan' } } },
]
const settings = { ...NOTHING_OPEN, parts: toolParts(PARTS) }
const judgedAs = (name: string, args: unknown, more: object = {}): string => {
  const request = read(toolCall({ name, arguments: args, ...more }), {}, settings)
  return request.kind === 'tool' ? request.tool : request.kind
}
const ofText = (args: string): string => {
  const text = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"edit_file","arguments":${args}}}`
  const request = read(text, {}, settings)
  return request.kind === 'tool' ? request.tool : request.kind
}

describe('A call is one of a part', () => {
  test.each<[string, string, object, string]>([
    ['if its argument is the constant', 'edit_file', { dryRun: true }, 'edit_preview'],
    ['whatever else it carries', 'edit_file', { path: '/x', edits: [1], dryRun: true }, 'edit_preview'],
    ['if all constants are there', 'edit_file', { dryRun: false, to: { 'a/b~c': 'draft' } }, 'edit_draft'],
    ['of a tool whose rest nobody may call', 'deploy', { options: { mode: 'plan' } }, 'only_preview'],
  ])('%s', (_what, tool, args, part) => {
    expect(judgedAs(tool, args)).toBe(part)
  })

  test('with the parameters of the call itself, so that exactly they are approved', () => {
    const args = { dryRun: true, path: '/x' }
    expect(read(toolCall({ name: 'edit_file', arguments: args }), {}, settings)).toEqual({
      kind: 'tool',
      tool: 'edit_preview',
      params: args,
      params_s256: s256Json(args),
    })
  })
})

describe('A call is one of the whole tool, which is the graver,', () => {
  test.each<[string, string]>([
    ['without arguments', '{}'],
    ['with another constant', '{"dryRun":false}'],
    ['with a text that reads like the constant', '{"dryRun":"true"}'],
    ['with a number that reads like the constant', '{"dryRun":1}'],
    ['with null', '{"dryRun":null}'],
    ['with the constant in an array', '{"dryRun":[true]}'],
    ['with the constant somewhere else', '{"options":{"dryRun":true}}'],
    ['with a member in another case', '{"DRYRUN":true}'],
    [
      'with a second member in another case, which a server that folds case may take',
      '{"dryRun":true,"DryRun":false}',
    ],
    ['with a second member that folds to it by Unicode', '{"dryRun":true,"dryＲun":false}'],
    ['with a second member that some servers take for an alias', '{"dryRun":true,"dry_run":false}'],
    ['with a second member that is cut at a NUL', '{"dryRun":true,"dryRun\\u0000x":false}'],
    ['with a second member that looks the same', '{"dryRun":true,"dry\\u200bRun":false}'],
    ['with only one of two constants', '{"dryRun":false,"to":{}}'],
    ['with an array where an object is needed', '{"dryRun":false,"to":[["a/b~c","draft"]]}'],
    ['with __proto__ that a careless reader would inherit from', '{"__proto__":{"dryRun":true}}'],
  ])('%s', (_what, args) => {
    expect(ofText(args)).toBe('edit_file')
  })

  test('without any arguments member', () => {
    expect(judgedAs('edit_file', undefined)).toBe('edit_file')
  })

  test.each([{ inputResponses: { a: 1 } }, { requestState: 's' }])(
    'if it answers a tool that asked back, because the answer may change what it does: %j',
    more => {
      expect(judgedAs('edit_file', { dryRun: true }, more)).toBe('edit_file')
    },
  )

  test('and refused if the argument comes twice', () => {
    const twice = refusalOf(() => ofText('{"dryRun":true,"dryRun":false}'))
    expect(twice.code).toBe('invalid_request')
  })

  test('whatever its arguments are, unless the one place has exactly the constant', () => {
    const value = fc.oneof(fc.jsonValue(), fc.constantFrom<unknown>(true, 'true', 1, [true], null))
    const name = fc.oneof(fc.string(), fc.constantFrom('dryRun', 'dryrun', 'DryRun', 'dry_run', 'to'))
    fc.assert(
      fc.property(fc.dictionary(name, value, { maxKeys: 4 }), args => {
        const text = JSON.stringify(args)
        const sent = JSON.parse(text) as Record<string, unknown>
        const spelt = Object.keys(sent).filter(
          key => key.toLowerCase().replaceAll(/[_.\s-]/g, '') === 'dryrun',
        )
        const isPreview = sent['dryRun'] === true && spelt.length === 1
        fc.pre(!Object.keys(sent).some(key => key.startsWith('usher/')))
        expect(ofText(text) === 'edit_preview').toBe(isPreview)
      }),
    )
  })
})

describe('The name of a part', () => {
  test('is no tool that anybody can call', () => {
    expect(refusalOf(() => judgedAs('edit_preview', { dryRun: true })).code).toBe('unknown_tool')
    expect(refusalOf(() => judgedAs('only_preview', {})).code).toBe('unknown_tool')
  })
})

const { agent, authority, decide, singleUse, standing } = coreStand({
  tools: [
    { tool: 'edit_file', resource_id: 'alice/edits', scopes: ['write'], consequence: 'irreversible' },
    {
      tool: 'edit_preview',
      of: { tool: 'edit_file', when: { '/dryRun': true } },
      resource_id: 'alice/previews',
      scopes: ['read'],
      consequence: 'reversible',
    },
    {
      tool: 'only_preview',
      of: { tool: 'deploy', when: { '/dryRun': true } },
      resource_id: 'alice/previews',
      scopes: ['read'],
    },
  ],
})
const DRY = { path: '/x', dryRun: true }
const dry = (parts: CallParts = {}): CallParts => ({
  tool: 'edit_file',
  args: DRY,
  ...(parts.token === undefined ? {} : { signer: agent }),
  ...parts,
})
const wet = (parts: CallParts = {}): CallParts => dry({ args: { path: '/x' }, ...parts })
const previews = () => standing({ permissions: permissionOf('previews', 'read') })
const edits = () => standing({ permissions: permissionOf('edits', 'write') })

const challengeTo = async (parts: CallParts) => {
  const { headers } = (await decide(parts)) as Denied
  return parseChallenge(headers.filter(([name]) => name === 'www-authenticate').map(([, value]) => value))
}

describe('A call of a split tool', () => {
  test('is challenged for the part that its arguments make it, with that part’s scopes', async () => {
    expect(await challengeTo(dry())).toMatchObject({
      scope: 'read',
      authorization_remediation: { authorization_details: [{ identifier: 'alice/edit_preview' }] },
    })
    expect(await challengeTo(wet())).toMatchObject({
      scope: 'write',
      authorization_remediation: { authorization_details: [{ identifier: 'alice/edit_file' }] },
    })
  })

  test('passes under a standing grant of its part, by whose name server and ledger know it', async () => {
    const outcome = (await decide(dry({ token: previews() }))) as Allowed
    expect(outcome).toMatchObject({ kind: 'allow', headers: { 'x-uma-tool': 'edit_preview' } })
    await until(() => authority.count('/audit/access') === 1)
    expect(toldReports(authority.received)).toMatchObject([{ tool: 'edit_preview', summary: s256Json(DRY) }])
  })

  test('does not pass under a grant of the other part', async () => {
    expect(verdict(await decide(wet({ token: previews() })))).toBe('401 insufficient_authorization')
    expect(verdict(await decide(dry({ token: edits() })))).toBe('401 insufficient_authorization')
    expect(verdict(await decide(wet({ token: edits() })))).toBe('allow')
  })

  test('is spent once under an approval of the part and exactly its parameters', async () => {
    const operation = { tool: 'edit_preview', params_s256: s256Json(DRY) }
    const permissions = permissionOf('previews', 'read')
    const approved = singleUse({ operation, permissions, consequence: 'reversible' })
    const other = { ...DRY, path: '/y' }
    expect(verdict(await decide(dry({ token: approved, args: other })))).toBe('403 operation_mismatch')
    expect(verdict(await decide(dry({ token: approved })))).toBe('allow')
    expect(authority.count('/consume')).toBe(1)
  })

  test('does not pass under an approval of the whole with the same parameters', async () => {
    const operation = { tool: 'edit_file', params_s256: s256Json(DRY) }
    const permissions = [...permissionOf('previews', 'read'), ...permissionOf('edits', 'write')]
    const token = singleUse({ operation, permissions })
    expect(verdict(await decide(dry({ token })))).toBe('403 operation_mismatch')
    expect(authority.count('/consume')).toBe(0)
  })

  test('is refused if it fits no part, and the whole is not configured', async () => {
    const token = previews()
    expect(verdict(await decide(dry({ tool: 'deploy', token })))).toBe('allow')
    expect(verdict(await decide(wet({ tool: 'deploy', token })))).toBe('403 unknown_tool')
  })
})
