/**
 * `usher owner allowance add`: contract, "Policy vocabulary and tiers", "Owner API". She reads to whom an
 * allowance opens what before it does, and what was stopped half can be run again.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { stringify } from 'yaml'
import { runOwner } from '../../src/owner/main.ts'
import { capturedTerminal } from '../support/captured-terminal.ts'
import { ownerCommand } from '../support/owner-command.ts'
import type { Reply } from '../support/scripted-http.ts'

const { answers, api, directory, owner } = ownerCommand()

const AUTO = { when: ['standing.approved_at_tier'], then: 'auto' }
const beyond = (then: string) => ({ when: ['operation.beyond:weekend'], then })
const NEVER = { when: ['standing.revoked_before'], then: 'refuse' }
const BY_PAST = { when: ['standing.never_revoked'], then: 'auto' }
const TIER = {
  id: 'shopping',
  name: 'Shopping',
  resources: ['alice/shop'],
  ask_me: true,
  rules: [NEVER] as object[],
  clearance: {},
  terms: {
    template_id: 'alice/shopping/v3',
    purpose: 'Shop',
    scope: ['order'],
    expires_in: 300,
    prohibited: [],
    per_operation: true,
  },
}
const AT_SHOPPING = {
  tools: ['place_order'],
  amounts: { price: { pointer: '/price', unit_pointer: '/currency' } },
  only: [{ pointer: '/payee', one_of: ['Corner Bakery'] }],
  free: ['/note'],
}
const WEEKEND = {
  id: 'weekend',
  zone: 'Europe/Zurich',
  until: '2099-03-08T22:00:00Z',
  amounts: [{ name: 'price', unit: 'CHF', each_max: '50' }],
  windows: [{ of: 'price', per: 'day', max: '200' }],
  tiers: { shopping: AT_SHOPPING as object },
}
const agent = (handle: string, more: object = {}) => ({
  handle,
  label: null,
  status: 'active',
  tiers_approved: [],
  introduced_by: null,
  reach: null,
  ...more,
})
const PARENT = `jkt:parent${'p'.repeat(37)}`
const AGENTS = [
  agent(PARENT, { label: 'Shopper\u202e', tiers_approved: ['shopping'] }),
  agent(`jkt:child${'c'.repeat(38)}`, { introduced_by: PARENT }),
  agent(`jkt:narrow${'n'.repeat(37)}`, { introduced_by: PARENT, reach: 'organization' }),
  agent(`jkt:ended${'e'.repeat(38)}`, { status: 'revoked', tiers_approved: ['shopping'] }),
  agent(`jkt:other${'o'.repeat(38)}`, { tiers_approved: ['reading'] }),
]

/** What the scripted authority has. */
let stored: Record<string, unknown> | undefined
let tier = TIER

const file = (changes: object = {}): string => {
  const path = join(directory(), 'weekend.yaml')
  writeFileSync(path, stringify({ ...WEEKEND, ...changes }))
  return path
}
const changes = () =>
  api.received
    .filter(({ method }) => method !== 'GET')
    .map(({ path, query, headers, body }) => ({
      path,
      query,
      match: headers['if-match'] ?? headers['if-none-match'],
      body: JSON.parse(String(body)) as Record<string, unknown>,
    }))
/** Runs it for a person who answers so. */
async function atTerminal(answer: boolean, ...args: string[]) {
  const questions: string[] = []
  const terminal = capturedTerminal(100)
  const confirm = async (question: string): Promise<boolean> => (questions.push(question), answer)
  const code = await runOwner(args, Object.defineProperty(terminal, 'confirm', { value: confirm }))
  return { code, questions, printed: terminal.printed, said: terminal.said }
}

beforeEach(() => {
  stored = undefined
  tier = TIER
  answers['/owner/connections'] = { body: AGENTS }
  api.script('/owner/policies', () => ({ body: { tiers: [tier] } }))
  api.script('/owner/allowances/weekend', ({ method, body }) => {
    if (method === 'GET') return stored && { body: stored }
    stored = { id: 'weekend', version: 1, ...(JSON.parse(String(body)) as object) }
    return { status: 201, body: stored }
  })
  api.script('/owner/policies/shopping', ({ body }) => {
    const { rules } = JSON.parse(String(body)) as { rules: object[] }
    tier = { ...tier, rules, terms: { ...tier.terms, template_id: 'alice/shopping/v4' } }
    return { body: { ...tier, warnings: ['`alice/shop` takes only what you sign\u202e.'] } }
  })
})

describe('usher owner allowance add', () => {
  it('shows the card and to whom it opens what, then saves it, and both rules in one edit of the tier', async () => {
    const { code, questions, said, printed } = await atTerminal(true, 'allowance', 'add', file())
    expect([code, questions]).toEqual([0, ['Save the allowance weekend, and these rules?']])
    expect(said).toContain('- price: at most 50 CHF in one operation\n- price: at most 200 CHF a day\n')
    expect(said).toContain('- at shopping: /payee must be exactly "Corner Bakery"\n')
    expect(said).toContain('shopping opens at once to "Shopper\\u{202e}", Agent jkt:childccc.\n')
    expect(said).toMatch(
      /Without asking you each may then use place_order: price: at most 50 CHF.*200 CHF a day/,
    )
    expect(said).toContain('Approving an operation there opens it to that agent, too.')
    expect(said).toContain('What is beyond it comes to you.')
    const [made, edited, ...none] = changes()
    expect(none).toEqual([])
    expect(made).toMatchObject({ path: '/owner/allowances/weekend', match: '*', body: { hold_s: 300 } })
    expect(edited).toEqual({
      path: '/owner/policies/shopping',
      query: 'allowance_version=1',
      match: '"alice/shopping/v3"',
      body: { rules: [NEVER, AUTO, beyond('ask')] },
    })
    expect(printed).toBe(
      'Saved: the allowance weekend.\n' +
        'shopping goes by it: alice/shopping/v4 is offered from now on.\n' +
        'Note: `alice/shop` takes only what you sign\\u{202e}.\n',
    )
  })

  it('changes nothing after a no, and asks a script for --yes', async () => {
    expect(await atTerminal(false, 'allowance', 'add', file())).toMatchObject({ code: 1, printed: '' })
    expect(changes()).toEqual([])
    for (const args of [[], ['--json']]) {
      const { code, said } = await owner(...args, 'allowance', 'add', file())
      expect({ code, said }).toMatchObject({ code: 2, said: expect.stringContaining('--yes') as string })
    }
    expect(changes()).toEqual([])
    const { code, printed } = await owner('--json', 'allowance', 'add', file(), '--yes')
    expect(code).toBe(0)
    expect(JSON.parse(printed)).toMatchObject({ allowance: { id: 'weekend' }, tiers: [{ id: 'shopping' }] })
  })

  it('names nobody if she approved nobody there, and says what happens at the first approval', async () => {
    answers['/owner/connections'] = { body: [AGENTS[4]] }
    const { said } = await atTerminal(false, 'allowance', 'add', file())
    expect(said).toContain('shopping opens to nobody yet: you approved no agent there.\n')
    expect(said).toContain('Approving an operation there opens it to that agent, too.')
  })

  it.each<[string, object[]]>([
    ['no rule goes by her approval yet', [BY_PAST]],
    ['one goes by her approval, too', [BY_PAST, AUTO]],
  ])('never says “to nobody” where agents pass by another rule, and %s', async (_what, rules) => {
    tier = { ...TIER, rules }
    const others =
      'Another rule of shopping lets agents through already. Those who pass by it go on passing, within the allowance, whether they are named here or not.'
    expect((await atTerminal(false, 'allowance', 'add', file())).said).toContain(others)
    answers['/owner/connections'] = { body: [AGENTS[4]] }
    const { said } = await atTerminal(false, 'allowance', 'add', file())
    expect(said).toContain('By an approval of yours at shopping, nobody passes so far.')
    expect(said).toContain(others)
    expect(said).not.toMatch(/to nobody|approved nobody|no agent there/)
  })

  it('opens nothing at a tier that is open already, and adds the bound alone', async () => {
    tier = { ...TIER, rules: [AUTO] }
    const at = { shopping: { ...AT_SHOPPING, beyond: 'refuse' } }
    const { said } = await atTerminal(true, 'allowance', 'add', file({ tiers: at }))
    expect(said).toContain('shopping is open already to each agent that you approved there; this bounds it.')
    expect(said).toContain('Its rules let through "Shopper\\u{202e}", Agent jkt:childccc now.')
    expect(said).toContain('What is beyond it is refused.')
    expect(changes()[1]!.body).toEqual({ rules: [AUTO, beyond('refuse')] })
    expect(JSON.stringify(changes()[0]!.body)).not.toContain('beyond')
  })

  it('says what is stored if the tier was edited meanwhile, and goes on when it is run again', async () => {
    const stale = { error: 'precondition_failed', error_description: 'Read it again.' }
    api.script('/owner/policies/shopping', { status: 412, body: stale })
    const path = file()
    const { code, said } = await owner('allowance', 'add', path, '--yes')
    expect(code).toBe(1)
    expect(said).toContain('Stored: the allowance weekend.\n')
    expect(said).toContain(
      'Not stored: the rules of shopping. They were changed meanwhile; read them: usher owner tier show shopping\n',
    )
    expect(said).not.toContain('You are asked there')
    expect(said).toContain(`To go on: usher owner allowance add ${path}\n`)
    api.script('/owner/policies/shopping', { body: { ...TIER, warnings: [] } })
    const again = await owner('allowance', 'add', path, '--yes')
    expect(again).toMatchObject({ code: 0, printed: expect.stringContaining('was there already') as string })
    expect(changes().map(one => one.path)).toEqual([
      '/owner/allowances/weekend',
      '/owner/policies/shopping',
      '/owner/policies/shopping',
    ])
  })

  it('names the version that she read with the rules, and says so if the allowance was edited meanwhile', async () => {
    api.script('/owner/policies/shopping', { status: 502, body: 'Bad gateway' })
    const path = file()
    await owner('allowance', 'add', path, '--yes')
    api.script('/owner/allowances/weekend', () => ({ body: { ...stored, version: 3 } }))
    const body = {
      error: 'precondition_failed',
      error_description: 'Another device changed the allowance.',
      reason: 'allowance_moved',
    }
    api.script('/owner/policies/shopping', { status: 412, body })
    const { code, said } = await atTerminal(true, 'allowance', 'add', path)
    expect(code).toBe(1)
    expect(changes().at(-1)).toMatchObject({
      path: '/owner/policies/shopping',
      query: 'allowance_version=3',
    })
    expect(said).toContain(
      'The allowance was edited after you read it. Read it: usher owner allowance show weekend\n' +
        'Not stored: the rules of shopping. You are asked there as before.\n' +
        `To go on: write what it says now into the file, then usher owner allowance add ${path}\n`,
    )
    expect(said).not.toContain('They were changed meanwhile')
  })

  it.each<[string, object[], string]>([
    ['asks', [NEVER], 'You are asked there as before.'],
    ['is open', [AUTO], 'It is still open, and not bounded by the allowance.'],
    ['goes by it', [AUTO, beyond('refuse')], 'It is open as before, within the allowance.'],
  ])('says how a tier stands that %s and whose rules were refused', async (_what, rules, sentence) => {
    tier = { ...TIER, rules }
    const body = { error: 'invalid_request', error_description: 'Correct the rules.' }
    api.script('/owner/policies/shopping', { status: 400, body })
    const { said } = await owner('allowance', 'add', file(), '--yes')
    expect(said).toContain(`Not stored: the rules of shopping. ${sentence}\n`)
  })

  it('goes on although her organization lets less through than the file says', async () => {
    api.script('/owner/policies/shopping', { status: 502, body: 'Bad gateway' })
    const path = file()
    expect((await owner('allowance', 'add', path, '--yes')).code).not.toBe(0)
    const windows = WEEKEND.windows.map(window => ({ ...window, ceiling: '100' }))
    api.script('/owner/allowances/weekend', () => ({ body: { ...stored, windows } }))
    api.script('/owner/policies/shopping', { body: { ...TIER, warnings: [] } })
    expect((await owner('allowance', 'add', path, '--yes')).code).toBe(0)
    expect(changes().at(-1)!.body).toEqual({ rules: [NEVER, AUTO, beyond('ask')] })
  })

  it.each<[string, Reply]>([
    ['no answer came', { write: response => void response.destroy() }],
    ['a gateway answered', { status: 502, body: 'Bad gateway' }],
  ])('says that nobody knows whether the rules are stored if %s', async (_what, reply) => {
    api.script('/owner/policies/shopping', reply)
    const { code, said } = await owner('allowance', 'add', file(), '--yes')
    expect(code).toBe(3)
    expect(said).toContain('It is not known whether the rules of shopping were stored.\n')
    expect(said).not.toContain('Not stored')
  })

  it('is safe to run again: what is there already is not saved a second time, and she is not asked', async () => {
    const path = file()
    expect((await owner('allowance', 'add', path, '--yes')).code).toBe(0)
    const again = await owner('allowance', 'add', path)
    expect(again.printed).toBe(
      'The allowance weekend was there already.\nEach of its tiers goes by it already.\n',
    )
    expect(changes()).toHaveLength(2)
  })

  it.each<[string, object, object, RegExp]>([
    [
      'a number that is not text',
      { windows: [{ of: 'price', per: 'day', max: 200 }] },
      {},
      /windows\.0\.max: give a decimal/,
    ],
    [
      'an amount without a place',
      { amounts: [...WEEKEND.amounts, { name: 'tip' }] },
      {},
      /give the pointer of `tip`/,
    ],
    ['a member that nobody knows', { units: [] }, {}, /Correct .*units/],
    ['no id', { id: undefined }, {}, /an `id`/],
    [
      'another effect',
      { tiers: { shopping: { ...AT_SHOPPING, beyond: 'auto' } } },
      {},
      /`beyond` at shopping/,
    ],
    ['no tier', { tiers: {} }, {}, /Name a tier/],
    ['a tier that she does not have', { tiers: { other: AT_SHOPPING } }, {}, /You have no tier other/],
    ['a tier that does not ask', {}, { ask_me: false }, /does not ask you about each operation/],
    [
      'a tier of another allowance',
      {},
      { rules: [AUTO, { when: ['operation.beyond:other'], then: 'ask' }] },
      /goes by the allowance other/,
    ],
  ])('saves nothing of a file with %s, and says what to correct', async (_what, content, at, sentence) => {
    tier = { ...TIER, ...at }
    const { code, said } = await owner('allowance', 'add', file(content), '--yes')
    expect(code).toBe(2)
    expect(said).toMatch(sentence)
    expect(changes()).toEqual([])
  })

  it('says at once that the authority has no allowances, and saves nothing', async () => {
    const body = { error: 'not_found', error_description: 'Nothing is served at this path.' }
    api.script('/owner/allowances/weekend', { status: 404, body })
    expect(await owner('allowance', 'add', file(), '--yes')).toEqual({
      code: 1,
      printed: '',
      said: 'not_found: Nothing is served at this path.\n',
    })
    expect(changes()).toEqual([])
  })

  it('leaves an allowance of hers that says something else, and says how to change it', async () => {
    expect((await owner('allowance', 'add', file(), '--yes')).code).toBe(0)
    const path = file({ windows: [{ of: 'price', per: 'day', max: '300' }] })
    const { code, said } = await owner('allowance', 'add', path, '--yes')
    expect(code).toBe(2)
    expect(said).toContain(`usher owner allowance edit weekend ${path}`)
    expect(changes()).toHaveLength(2)
  })
})
