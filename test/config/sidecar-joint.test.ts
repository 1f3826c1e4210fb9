/** An account that several hold, in the sidecar's file: contract, "Tally for a jointly held resource". */
import { describe, expect, test } from 'vitest'
import { sidecarFiles } from '../support/config-files.ts'

const { read } = sidecarFiles()

describe('The file of the sidecar, of an account that several hold,', () => {
  const tool = { tool: 'portfolio_read', resource_id: 'family-1/savings', scopes: ['read'] }
  const DIGEST = `s256:${'a'.repeat(43)}`
  const joint = { tally: 'https://tally.example', account: 'family-1', mandate_s256: [DIGEST] }
  const family = {
    owner: 'family-1',
    client_id: 'demo-tools',
    client_secret: 'shh',
    tools: [tool],
    joint,
  }
  const held = (changes: object = {}) => read([{ ...family, ...changes }]).owners[0]!

  test('an account that several hold is asked about at its tally, under the mandates that are pinned', () => {
    expect(held({ joint: undefined, authority: 'https://as.example.com' }).joint).toBeUndefined()
    expect(held()).toMatchObject({
      owner: 'family-1',
      authority: 'https://tally.example',
      joint: { tally: 'https://tally.example', pinned: [DIGEST] },
    })
    expect(held({ joint: { ...joint, mandate_s256: 'any' } }).joint).toMatchObject({ pinned: 'any' })
  })

  test.each<[string, object, string]>([
    ['an authority beside the tally', { authority: 'https://as.example.com' }, 'leave authority out'],
    ['the tally as authority, too', { authority: joint.tally }, 'leave authority out'],
    ['neither', { joint: undefined }, 'give the authority, or joint'],
    ['another account', { joint: { ...joint, account: 'family-2' } }, 'account: give family-1'],
    ['no pinned mandate', { joint: { ...joint, mandate_s256: [] } }, 'mandate_s256'],
    ['no word of the mandate', { joint: { ...joint, mandate_s256: undefined } }, 'mandate_s256'],
    ['another word than any', { joint: { ...joint, mandate_s256: 'all' } }, 'mandate_s256'],
    ['a digest that is none', { joint: { ...joint, mandate_s256: ['s256:x'] } }, 'mandate_s256'],
    ['a digest twice', { joint: { ...joint, mandate_s256: [DIGEST, DIGEST] } }, 'is listed twice'],
    ['a tally that is not https', { joint: { ...joint, tally: 'http://tally.example' } }, 'is not https'],
    ['a tally with a slash', { joint: { ...joint, tally: 'https://tally.example/' } }, 'tally'],
    ['an unknown member', { joint: { ...joint, mandates: [] } }, 'unknown member'],
    [
      'an organization above it',
      {
        organization: {
          issuer: 'https://org.example',
          credential: 'c'.repeat(32),
          resources: ['family-1/x'],
        },
      },
      'leave organization out',
    ],
    ['a registration', { register: true, signature: true, client_secret: undefined }, 'leave register out'],
    ['namespaces', { namespaces: ['house'] }, 'leave namespaces out'],
    [
      'a resource of somebody else',
      { tools: [{ ...tool, resource_id: 'bea/x' }] },
      'must start with family-1/',
    ],
  ])('refuses an account that several hold with %s', (_what, changes, fault) => {
    expect(() => held(changes)).toThrow(fault)
  })
})
