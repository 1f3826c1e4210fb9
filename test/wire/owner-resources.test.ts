/** The owner-bound listing: contract, "Registry materialization". */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseOwnerListing } from '../../src/wire/resources/owner-resources.ts'
import { refusalOf } from '../support/refusals.ts'

const notes = { _id: 'alice/notes', name: 'Notes', resource_scopes: ['read'] }
const listing = (...resources: unknown[]) => ({ owner: 'alice', resources })

describe('a listing', () => {
  it('reads back as written, without members that nobody knows', () => {
    const tools = [{ tool: 'read_notes', consequence: 'anything' }, { tool: '読む' }]
    const whole = { ...notes, type: 'tool', consequence: 'anything', tools, approval: 'signed' }
    expect(
      parseOwnerListing({ ...listing({ ...whole, tier: 'mine' }, { ...notes, _id: 'alice/x' }), x: 1 }),
    ).toEqual(listing(whole, { ...notes, _id: 'alice/x' }))
  })

  it('may be empty', () => {
    expect(parseOwnerListing(listing())).toEqual(listing())
  })

  it('may name ids below the namespaces that are listed for her, and below no other', () => {
    const read = (_id: string) => parseOwnerListing(listing({ ...notes, _id }), ['treasury', 'vault'])
    for (const id of ['alice/notes', 'treasury/notes', 'vault/notes'])
      expect(read(id).resources[0]!._id).toBe(id)
    for (const id of ['treasury', 'treasury/', 'treasury2/notes', 'bea/notes', 'x/treasury/notes'])
      expect(refusalOf(() => read(id)).code).toBe('invalid_request')
  })

  it('names each scope once', () => {
    const { resources } = parseOwnerListing(listing({ ...notes, resource_scopes: ['read', 'write', 'read'] }))
    expect(resources[0]!.resource_scopes).toEqual(['read', 'write'])
  })

  it.each<[string, unknown]>([
    ['no object', []],
    ['no owner', { resources: [] }],
    ['an approval of another kind', listing({ ...notes, approval: 'spoken' })],
    ['an empty owner', { owner: '', resources: [] }],
    ['an owner of another type', { owner: 1, resources: [] }],
    ['no resources', { owner: 'alice' }],
    ['resources that are no list', { owner: 'alice', resources: { notes } }],
    ['a resource that is no object', listing('alice/notes')],
    [
      'more than 10,000 resources',
      listing(...Array.from({ length: 10_001 }, (_, n) => ({ ...notes, _id: `alice/${n}` }))),
    ],
    ['one id twice', listing(notes, notes)],
    ['no id', listing({ ...notes, _id: undefined })],
    ["an id below another's name", listing({ ...notes, _id: 'bea/notes' })],
    ['an id below a longer name', listing({ ...notes, _id: 'alice2/notes' })],
    ['the name alone', listing({ ...notes, _id: 'alice/' })],
    ['an id with a blank', listing({ ...notes, _id: 'alice/my notes' })],
    ['an id that is not ASCII', listing({ ...notes, _id: 'alice/é' })],
    ['an id over 400 characters', listing({ ...notes, _id: `alice/${'x'.repeat(400)}` })],
    ['no name', listing({ ...notes, name: undefined })],
    ['a name over 200 characters', listing({ ...notes, name: 'x'.repeat(201) })],
    ['a NUL in the name', listing({ ...notes, name: 'a\0b' })],
    ['a NUL in the type', listing({ ...notes, type: '\0' })],
    ['a type of another type', listing({ ...notes, type: 7 })],
    ['a consequence of another type', listing({ ...notes, consequence: ['reversible'] })],
    ['tools that are no list', listing({ ...notes, tools: { read: 'reversible' } })],
    ['a tool that is a name alone', listing({ ...notes, tools: ['read'] })],
    ['a tool without a name', listing({ ...notes, tools: [{ consequence: 'reversible' }] })],
    ['a tool named by what cannot be seen', listing({ ...notes, tools: [{ tool: 're\u202ead' }] })],
    ['a tool over 200 characters', listing({ ...notes, tools: [{ tool: 'x'.repeat(201) }] })],
    [
      'a tool with a consequence of another type',
      listing({ ...notes, tools: [{ tool: 'read', consequence: 1 }] }),
    ],
    [
      'one tool twice',
      listing({ ...notes, tools: [{ tool: 'read' }, { tool: 'read', consequence: 'reversible' }] }),
    ],
    [
      'more than 1,000 tools of one resource',
      listing({ ...notes, tools: Array.from({ length: 1_001 }, (_, n) => ({ tool: `t${n}` })) }),
    ],
    ['no scopes', listing({ ...notes, resource_scopes: [] })],
    [
      'more than 50 scopes',
      listing({ ...notes, resource_scopes: Array.from({ length: 51 }, (_, n) => `s${n}`) }),
    ],
    ['a scope with a blank', listing({ ...notes, resource_scopes: ['read all'] })],
    ['a scope with a quote', listing({ ...notes, resource_scopes: ['"'] })],
    ['scopes that are no list', listing({ ...notes, resource_scopes: 'read' })],
  ])('with %s is refused as a whole', (_what, json) => {
    expect(refusalOf(() => parseOwnerListing(json)).code).toBe('invalid_request')
  })

  it('is read or refused, whatever it holds', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.json().map(text => JSON.parse(text) as unknown),
          resourcesOfAnything(),
        ),
        json => {
          try {
            const { owner, resources } = parseOwnerListing(json)
            for (const { _id, resource_scopes } of resources) {
              expect(_id.startsWith(`${owner}/`)).toBe(true)
              expect(resource_scopes.length).toBeGreaterThan(0)
            }
          } catch (error) {
            expect(
              refusalOf(() => {
                throw error
              }).code,
            ).toBe('invalid_request')
          }
        },
      ),
    )
  })
})

function resourcesOfAnything(): fc.Arbitrary<unknown> {
  const member = fc.oneof(
    fc.string(),
    fc.constantFrom('alice/x', 'read', ['read'], null),
    fc.array(fc.string()),
  )
  const resource = fc.record({ _id: member, name: member, resource_scopes: member, consequence: member })
  return fc.record({ owner: fc.constantFrom('alice', ''), resources: fc.array(resource) })
}
