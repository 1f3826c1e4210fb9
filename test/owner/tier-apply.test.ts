/**
 * Contract, "Owner API" (`/owner/policies*`): an owner keeps her tiers in a file, as YAML or JSON, and has
 * them made what it says.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { stringify } from 'yaml'
import { ownerCommand } from '../support/owner-command.ts'

const { answers, api, directory, owner } = ownerCommand()

const READING = {
  id: 'reading',
  name: 'Reading',
  resources: ['alice/notes'],
  ask_me: false,
  rules: [{ when: ['standing.calls_above:100'], then: 'ask' }],
  clearance: {},
  terms: { purpose: 'Read', scope: ['read'], expires_in: 300, prohibited: [], per_operation: false },
}
const asStored = { ...READING, terms: { template_id: 'alice/reading/v3', ...READING.terms } }
const TRADING = { ...READING, id: 'trading', name: 'Trading', rules: [] }

const stored = (): void => void (answers['/owner/policies'] = { body: { tiers: [asStored] } })
const file = (content: unknown): string => {
  const path = join(directory(), 'tiers.yaml')
  writeFileSync(path, typeof content === 'string' ? content : stringify(content))
  return path
}
const posted = (): string[] => api.received.filter(({ method }) => method !== 'GET').map(({ path }) => path)

describe('usher owner tier show --yaml', () => {
  it('prints what `tier diff` finds unchanged', async () => {
    stored()
    const { code, printed } = await owner('tier', 'show', 'reading', '--yaml')
    expect(code).toBe(0)
    expect(printed).not.toContain('template_id')
    expect(await owner('tier', 'diff', '-f', file(printed))).toMatchObject({
      code: 0,
      printed: 'reading is as the file says.\n',
    })
  })
})

describe('usher owner tier diff', () => {
  it('names each member that would change, and changes nothing', async () => {
    stored()
    const changed = { ...READING, terms: { ...READING.terms, expires_in: 600, prohibited: ['resale'] } }
    const { printed } = await owner('tier', 'diff', '-f', file({ tiers: [changed, TRADING] }))
    expect(printed).toBe(
      'reading is edited:\n  terms.expires_in: 300 → 600\n  terms.prohibited: - → resale\ntrading is added.\n',
    )
    expect(posted()).toEqual([])
  })

  it('takes a member that is left out and one that is empty for the same', async () => {
    stored()
    const { clearance: _clearance, ask_me: _ask, ...less } = READING
    expect((await owner('tier', 'diff', '-f', file(less))).printed).toBe('reading is as the file says.\n')
  })
})

describe('usher owner tier apply', () => {
  it('adds what is new, edits what differs in the version that it was compared with, and leaves the rest', async () => {
    stored()
    const saved = {
      ...asStored,
      terms: { ...asStored.terms, template_id: 'alice/reading/v4' },
      warnings: ['w'],
    }
    answers['/owner/policies/reading'] = { body: saved }
    const changed = { ...READING, name: 'Reading aloud' }
    const { code, printed } = await owner('tier', 'apply', '-f', file(changed))
    expect({ code, printed }).toEqual({
      code: 0,
      printed: 'reading is edited: alice/reading/v4 is offered from now on.\nNote: w\n',
    })
    const [put] = api.to('/owner/policies/reading')
    expect(put).toMatchObject({ method: 'PUT' })
    expect(put!.lines.get('if-match')).toEqual(['"alice/reading/v3"'])
    expect(JSON.parse(put!.body.toString())).toEqual(changed)
  })

  it('asks for nothing but the tiers if they are as the file says', async () => {
    stored()
    expect(await owner('tier', 'apply', '-f', file(READING))).toMatchObject({ code: 0 })
    expect(posted()).toEqual([])
  })

  it.each([
    ['tiers: []', /lists none/],
    ['name: Reading', /Give each tier an id/],
    [stringify({ tiers: [READING, READING] }), /reading is listed twice/],
    ['id: [', /Give tiers as YAML or JSON/],
    ['- id: reading', /holds something else/],
    ['id: reading\nid: other', /Give tiers as YAML or JSON/],
  ])('refuses %j, and changes nothing', async (content, said) => {
    stored()
    const ended = await owner('tier', 'apply', '-f', file(content))
    expect(ended.code).toBe(2)
    expect(ended.said).toMatch(said)
    expect(posted()).toEqual([])
  })

  it('shows in its help how rules are written', async () => {
    expect((await owner('tier', 'apply', '--help')).printed).toContain('standing.calls_above:100')
  })
})
