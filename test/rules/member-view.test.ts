/**
 * What an organization binds a member to, in sentences: contract, "The organization's authority" (the charter
 * in sentences, before joining).
 */
import { describe, expect, it } from 'vitest'
import { memberView } from '../../src/rules/member-view.ts'
import { parseCharter } from '../../src/wire/charter.ts'
import { charterOf } from '../support/organization.ts'

const summary = (envelope: object): string[] =>
  memberView({
    organization: { id: 'acme', name: 'Acme' },
    issuer: 'https://org.example',
    charter: parseCharter(JSON.parse(JSON.stringify(charterOf({ envelope })))),
    charter_version: 3,
    published_at: '2026-11-21T09:00:00.000Z',
    owner: 'alice',
    role: 'staff',
    view: 1,
  }).summary

describe('A charter in sentences', () => {
  it('says of each prohibition that agents must promise not to do it', () => {
    const said = summary({
      max_expires_in: 900,
      require_prohibited: ['passing it on', 'keeping a copy'],
    })
    expect(said.filter(one => one.includes('promise'))).toEqual([
      'Agents must promise not to: passing it on.',
      'Agents must promise not to: keeping a copy.',
    ])
    expect(summary({ max_expires_in: 900 }).join(' ')).not.toContain('promise')
  })
})
