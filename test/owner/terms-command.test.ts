/**
 * contract, "Terms document" and "Owner API" (`/owner/policies`): an owner tells somebody which terms her
 * agents are offered, and by which hash they are accepted beforehand.
 */
import { describe, expect, it } from 'vitest'
import { s256Json } from '../../src/wire/encoding.ts'
import { ownerCommand } from '../support/owner-command.ts'

const { answers, issuer, owner } = ownerCommand(() => ({ keys: [] }))

const tierOf = (id: string, ask_me = false) => ({
  id,
  name: id,
  resources: [`alice/${id}`],
  ask_me,
  rules: [],
  clearance: {},
  terms: {
    template_id: `alice/${id}/v3`,
    purpose: 'Read',
    scope: ['read'],
    expires_in: 300,
    prohibited: [],
    per_operation: ask_me,
  },
})
const documentOf = (id: string) => ({
  template_id: `alice/${id}/v3`,
  terms_uri: `${issuer()}/terms/alice/${id}/v3`,
  proffered_by: issuer(),
  purpose: 'Read',
  scope: ['read'],
  expires_in: 300,
  prohibited: [],
  tier: id,
})
const offer = (): void => {
  answers['/owner/policies'] = { body: { tiers: [tierOf('reading'), tierOf('trading', true)] } }
  for (const id of ['reading', 'trading']) answers[`/terms/alice/${id}/v3`] = { body: documentOf(id) }
}

describe('usher owner terms', () => {
  it('names for each tier the terms and the hash of the published document, which a bridge compares', async () => {
    offer()
    const { code, printed } = await owner('terms')
    expect(code).toBe(0)
    expect(printed).toMatch(/reading +alice\/reading\/v3 .*about new agents/)
    expect(printed).toMatch(/trading +alice\/trading\/v3 .*about each call/)
    for (const id of ['reading', 'trading']) expect(printed).toContain(s256Json(documentOf(id)))
    expect(printed).toContain(`--accept-terms ${s256Json(documentOf('reading'))}`)
  })

  it('prints the hashes alone for a file, of one tier if it is named', async () => {
    offer()
    expect((await owner('terms', '--hashes')).printed).toBe(
      `${s256Json(documentOf('reading'))}\n${s256Json(documentOf('trading'))}\n`,
    )
    expect((await owner('terms', 'trading', '--hashes')).printed).toBe(`${s256Json(documentOf('trading'))}\n`)
  })

  it('gives a script the documents, too', async () => {
    offer()
    const { printed } = await owner('--json', 'terms', 'reading')
    expect(JSON.parse(printed)).toEqual([
      {
        tier: 'reading',
        template_id: 'alice/reading/v3',
        terms_s256: s256Json(documentOf('reading')),
        ask_me: false,
        terms: documentOf('reading'),
      },
    ])
  })

  it('refuses a tier that she does not have, and a document of other terms', async () => {
    offer()
    expect((await owner('terms', 'banking')).said).toContain('You have no tier banking.')
    answers['/terms/alice/reading/v3'] = { body: documentOf('trading') }
    const { code, said } = await owner('terms', 'reading')
    expect(code).not.toBe(0)
    expect(said).toContain('The authority publishes other terms under alice/reading/v3.')
  })
})
