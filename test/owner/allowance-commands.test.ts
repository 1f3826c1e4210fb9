/**
 * `usher owner allowance list|show|edit|end`: contract, "Owner API". What is shown is escaped, and what
 * changes is said before her yes.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { parse, stringify } from 'yaml'
import { runOwner } from '../../src/owner/main.ts'
import { capturedTerminal } from '../support/captured-terminal.ts'
import { ownerCommand } from '../support/owner-command.ts'

const { answers, api, directory, owner } = ownerCommand()

const gauge = (used: string, left: string, held = '0') => ({
  of: 'price',
  per: 'day',
  max: '200',
  used,
  held,
  left,
  starts: '2026-03-07T23:00:00Z',
  ends: '2026-03-08T23:00:00Z',
})
const CONTENT = {
  zone: 'Europe/Zurich',
  among: 'all',
  until: null as string | null,
  hold_s: 300,
  amounts: [{ name: 'price', unit: 'CHF', each_max: '50' }],
  windows: [{ of: 'price', per: 'day', max: '200' }],
  tiers: {
    shopping: {
      tools: ['place_order\u202e'],
      amounts: { price: { pointer: '/price', as: 'number', unit_pointer: '/currency' } },
      only: [{ pointer: '/payee', one_of: ['Corner\u202e'] }],
      free: ['/note'],
    },
  } as object,
}
const WEEKEND = { id: 'weekend', version: 3, ...CONTENT, use: [{ windows: [gauge('150.5', '49.5', '12')] }] }
const TIER = {
  id: 'shopping',
  rules: [{ when: ['operation.beyond:weekend'], then: 'refuse' }],
  terms: { template_id: 'alice/shopping/v3' },
}
const PATH = '/owner/allowances/weekend'

const file = (changes: object = {}): string => {
  const path = join(directory(), 'weekend.yaml')
  writeFileSync(path, stringify({ id: 'weekend', ...CONTENT, ...changes }))
  return path
}
const saved = () =>
  api
    .to(PATH)
    .filter(({ method }) => method === 'PUT')
    .map(({ headers, body }) => ({
      match: headers['if-match'],
      body: JSON.parse(String(body)) as Record<string, unknown>,
    }))
/** Runs it for a person who answers so. */
async function atTerminal(answer: boolean, ...args: string[]) {
  const terminal = capturedTerminal(120)
  const confirm = async (): Promise<boolean> => answer
  const code = await runOwner(args, Object.defineProperty(terminal, 'confirm', { value: confirm }))
  return { code, printed: terminal.printed, said: terminal.said }
}

beforeEach(() => {
  answers['/owner/policies'] = { body: { tiers: [TIER] } }
  answers['/owner/allowances'] = { body: [WEEKEND] }
  answers['/owner/connections'] = { body: [] }
  api.script(PATH, ({ method, body }) =>
    method === 'GET'
      ? { body: WEEKEND }
      : { body: { id: 'weekend', version: 4, ...(JSON.parse(String(body)) as object) } },
  )
})

describe('usher owner allowance list', () => {
  it('has a line for each window: how much of it is used, held and left, and when it begins anew', async () => {
    expect((await owner('allowance', 'list')).printed.split('\n')).toEqual([
      'ALLOWANCE  WINDOW       WHOSE  USED              HELD  LEFT  BEGINS ANEW           UNTIL',
      'weekend    price a day  -      150.5 of 200 CHF  12    49.5  2026-03-08 23:00:00Z  -',
      '',
    ])
    expect(JSON.parse((await owner('--json', 'allowance', 'list')).printed)).toEqual([WEEKEND])
  })

  it('has a line for each lineage that used it, and says if there are more', async () => {
    const lineage = (whose: string, used: string) => ({ whose, windows: [gauge(used, '1')] })
    const use = [lineage('jkt:one', '199'), lineage('jkt:two\u001b', '7')]
    answers['/owner/allowances'] = { body: [{ ...WEEKEND, among: 'lineage', use, more: true }] }
    const { printed } = await owner('allowance', 'list')
    expect(printed).toMatch(/^weekend +price a day +jkt:one +199 of 200 CHF /m)
    expect(printed).toMatch(/^weekend +price a day +jkt:two\\u\{1b\} +7 of 200 CHF /m)
    expect(printed).toContain('More agents than these used weekend.\n')
  })

  it('says of an amount whose unit no tier compares that it is as the tool counts', async () => {
    const tiers = { shopping: { tools: ['buy'], amounts: { price: { pointer: '/price', as: 'number' } } } }
    answers['/owner/allowances'] = { body: [{ ...WEEKEND, tiers }] }
    const { printed } = await owner('allowance', 'list')
    expect(printed).toContain(' 150.5 of 200 CHF (as the tool counts) ')
  })

  it('says of what the authority cannot tell that it is unknown, and of what is held that it may be more', async () => {
    answers['/owner/allowances'] = { body: [{ ...WEEKEND, use: [] }] }
    expect((await owner('allowance', 'list')).printed).toMatch(
      /^weekend +price a day +- +\? of 200 CHF +- +- /m,
    )
    answers['/owner/allowances'] = { body: [{ ...WEEKEND, held_more: true }] }
    expect((await owner('allowance', 'list')).printed).toMatch(/ 150\.5 of 200 CHF +12 or more +49\.5 /)
  })

  it('shows the lower limit of her organization beside hers, and that what is left is by hers', async () => {
    const windows = [{ of: 'price', per: 'day', max: '200', ceiling: '160' }]
    answers['/owner/allowances'] = { body: [{ ...WEEKEND, windows }] }
    const { printed } = await owner('allowance', 'list')
    expect(printed).toMatch(/ 150\.5 of 200 CHF, your organization: 160 CHF +12 +49\.5 /)
    expect(printed).toContain(
      'What is left of weekend is by your own limit; at what your organization governs, less may be left.\n',
    )
  })

  it('has a line for what nobody used, for what has no windows, and for an authority that tells no use', async () => {
    const { use: _use, ...untold } = WEEKEND
    const unused = { ...WEEKEND, id: 'unused', among: 'lineage', use: [] }
    const bare = { ...WEEKEND, id: 'bare', windows: [], use: [{ windows: [] }] }
    answers['/owner/allowances'] = { body: [bare, unused, untold] }
    const { printed } = await owner('allowance', 'list')
    expect(printed).toMatch(/^bare +- +- +- +- +- /m)
    expect(printed).toMatch(/^unused +price a day +each +- of 200 CHF +- +- +- +- *$/m)
    expect(printed).toContain(
      'No agent has used unused yet in its present windows, or your authority cannot tell how much.\n',
    )
    expect(printed).not.toContain('No agent has used weekend')
    expect(printed).toMatch(/^weekend +price a day +- +\? of 200 CHF +- +- /m)
    answers['/owner/allowances'] = { body: [] }
    expect((await owner('allowance', 'list')).printed).toContain('usher owner allowance add <file>')
  })
})

describe('usher owner allowance show', () => {
  it('is the card in words, what becomes of what is beyond, and the windows', async () => {
    const { code, printed } = await owner('allowance', 'show', 'weekend')
    expect(code).toBe(0)
    expect(printed).toMatch(/^allowance +weekend\nversion +3\n- all your agents together have this\n/)
    expect(printed).toContain('- at shopping: the tools "place_order\\u{202e}"\n')
    expect(printed).toContain(
      '- at shopping: price stands at /price as a number, and /currency must be exactly "CHF"\n',
    )
    expect(printed).toContain('- at shopping: /payee must be exactly "Corner\\u{202e}"\n')
    expect(printed).toContain('- at shopping: /note may say anything\n')
    expect(printed).toContain('twice its limit can pass within minutes\n')
    expect(printed).toContain('Beyond it at shopping: an operation is refused.\n')
    expect(printed).toMatch(/^weekend +price a day +- +150\.5 of 200 CHF /m)
  })

  it('says of a tier without a rule on it that it bounds nothing there', async () => {
    answers['/owner/policies'] = { body: { tiers: [{ ...TIER, rules: [] }] } }
    expect((await owner('allowance', 'show', 'weekend')).printed).toContain(
      'No rule of shopping goes by it: it lets nothing through there, and bounds nothing.\n',
    )
    answers['/owner/policies'] = { body: { tiers: [] } }
    expect((await owner('allowance', 'show', 'weekend')).printed).toContain('You have no tier shopping.\n')
  })

  it('prints as YAML what `edit` takes back, without its version and its use', async () => {
    const shopping = { tools: ['place_order'], amounts: { price: { pointer: '/price', as: 'string' } } }
    const plain = { ...WEEKEND, tiers: { shopping: { ...shopping, only: [], free: [] } } }
    api.script(PATH, { body: plain })
    const { printed } = await owner('allowance', 'show', 'weekend', '--yaml')
    expect(parse(printed)).toEqual({ id: 'weekend', ...CONTENT, tiers: plain.tiers })
    const edited = await owner('allowance', 'edit', 'weekend', file({ tiers: { shopping } }), '--yes')
    expect(edited).toMatchObject({ code: 0, printed: 'It says this already.\n' })
  })

  it('is refused for an allowance that she does not have', async () => {
    const { code, said } = await owner('allowance', 'show', 'other')
    expect([code, said]).toEqual([1, expect.stringContaining('not_found')])
  })
})

describe('usher owner allowance edit', () => {
  it('says in words what changes, and saves the version that was shown after a yes', async () => {
    const raised = [{ of: 'price', per: 'day', max: '300' }]
    const refused = await atTerminal(false, 'allowance', 'edit', 'weekend', file({ windows: raised }))
    expect(refused).toMatchObject({ code: 1, printed: '' })
    expect(refused.said).toContain('No longer:\n- price: at most 200 CHF a day\n')
    expect(refused.said).toContain('From then on:\n+ price: at most 300 CHF a day\n')
    expect(saved()).toEqual([])
    const path = file({ windows: raised })
    const { code, printed } = await atTerminal(true, 'allowance', 'edit', 'weekend', path)
    expect([code, printed]).toEqual([0, 'Saved: weekend is version 4 now.\n'])
    expect(saved()).toEqual([{ match: '"3"', body: { ...CONTENT, windows: raised } }])
  })

  it('takes the limit of one window in place of a file, and names the windows if it has no such one', async () => {
    expect((await owner('allowance', 'edit', 'weekend', '--max', 'day:price=75.5', '--yes')).code).toBe(0)
    expect(saved()[0]!.body['windows']).toEqual([{ of: 'price', per: 'day', max: '75.5' }])
    for (const [given, sentence] of [
      ['week:price=5', 'Its windows: day:price (price a day).'],
      ['price=5', 'Its windows: day:price (price a day).'],
      ['day:price=5e1', 'give a decimal number'],
    ] as const) {
      const { code, said } = await owner('allowance', 'edit', 'weekend', '--max', given, '--yes')
      expect({ code, said }).toMatchObject({ code: 2, said: expect.stringContaining(sentence) as string })
    }
    expect(saved()).toHaveLength(1)
  })

  it('neither compares nor sends the ceiling of her organization', async () => {
    const windows = [{ of: 'price', per: 'day', max: '200', ceiling: '100' }]
    api.script(PATH, ({ method }) => ({ body: { ...WEEKEND, windows, version: method === 'GET' ? 3 : 4 } }))
    const same = await owner('allowance', 'edit', 'weekend', file(), '--yes')
    expect(same).toMatchObject({ code: 0, printed: 'It says this already.\n' })
    expect((await owner('allowance', 'edit', 'weekend', '--max', 'day:price=75', '--yes')).code).toBe(0)
    expect(saved().map(({ body }) => body['windows'])).toEqual([[{ of: 'price', per: 'day', max: '75' }]])
  })

  it.each<[string, object, string]>([
    ['changes what is fixed', { among: 'lineage' }, 'among: it is fixed when an allowance is made'],
    ['is about another one', { id: 'other' }, 'is about the allowance other'],
  ])('saves nothing of a file that %s', async (_what, changes, sentence) => {
    const { code, said } = await owner('allowance', 'edit', 'weekend', file(changes), '--yes')
    expect({ code, said }).toMatchObject({ code: 2, said: expect.stringContaining(sentence) as string })
    expect(saved()).toEqual([])
  })

  it('takes a file or a limit, not both and not neither', async () => {
    expect((await owner('allowance', 'edit', 'weekend', '--yes')).code).toBe(2)
    const both = [file(), '--max', 'day:price=5', '--yes']
    expect((await owner('allowance', 'edit', 'weekend', ...both)).code).toBe(2)
    expect(saved()).toEqual([])
  })

  it.each<[string, object[], string]>([
    [
      'lets agents through that she approved',
      [{ when: ['standing.approved_at_tier'], then: 'auto' }],
      'The rules of market go by it already: market opens at once to "Shopper".\n' +
        'Without asking you each may then use place_order: price: at most 50 CHF',
    ],
    [
      'lets agents through that she approved, and others by another rule',
      [
        { when: ['standing.approved_at_tier'], then: 'auto' },
        { when: ['standing.never_revoked'], then: 'auto' },
      ],
      'Another rule of market lets agents through, too. It opens to those who pass by it, within the allowance, whether they are named here or not.\n',
    ],
    [
      'lets agents through by something else',
      [{ when: ['standing.approved_at_tier', 'standing.first_party'], then: 'auto' }],
      'The rules of market go by it already: it opens at once to each agent that they let through.\n',
    ],
    [
      'lets nobody through',
      [],
      'The rules of market go by it already, but none lets anything through, so nothing opens there.\n',
    ],
  ])('says what it opens at a tier that comes, goes by it already and %s', async (_what, auto, sentence) => {
    const rules = [...auto, { when: ['operation.beyond:weekend'], then: 'ask' }]
    answers['/owner/policies'] = { body: { tiers: [TIER, { ...TIER, id: 'market', rules }] } }
    const handle = `jkt:parent${'p'.repeat(37)}`
    const agent = { handle, label: 'Shopper', status: 'active', introduced_by: null, reach: null }
    answers['/owner/connections'] = { body: [{ ...agent, tiers_approved: ['market'] }] }
    const tiers = { market: { tools: ['place_order'], amounts: { price: { pointer: '/price' } } } }
    const { code, said } = await atTerminal(false, 'allowance', 'edit', 'weekend', file({ tiers }))
    expect(said).toContain(sentence)
    expect(said).not.toContain('No rule of market goes by it yet')
    expect([code, saved()]).toEqual([1, []])
  })

  it('says of a tier that comes that it needs the rules, and of one that goes that nothing opens there', async () => {
    answers['/owner/policies'] = { body: { tiers: [TIER, { ...TIER, id: 'market', rules: [] }] } }
    const tiers = { market: { tools: ['place_order'], amounts: { price: { pointer: '/price' } } } }
    const { said } = await atTerminal(false, 'allowance', 'edit', 'weekend', file({ tiers }))
    expect(said).toContain('At shopping every operation is beyond it then, and nothing opens.\n')
    expect(said).toContain('No rule of market goes by it yet: `usher owner allowance add`')
  })
})

describe('usher owner allowance end', () => {
  it('says that every operation is beyond it then and that nothing opens, and ends it after a yes', async () => {
    const kept = await atTerminal(false, 'allowance', 'end', 'weekend')
    expect(kept.said).toContain('From then on every operation at shopping is beyond it')
    expect(kept.said).toContain(
      'Nothing opens. What was granted before is good until its end, within 5 minutes.',
    )
    expect([kept.code, saved()]).toEqual([1, []])
    const before = Date.now()
    const { code, printed } = await atTerminal(true, 'allowance', 'end', 'weekend')
    expect([code, printed]).toEqual([0, 'weekend has ended: every operation is beyond it from now on.\n'])
    const [{ match, body }] = saved() as [{ match: string; body: { until: string } }]
    expect([match, { ...body, until: null }]).toEqual(['"3"', CONTENT])
    expect(Math.abs(Date.parse(body.until) + 60_000 - before)).toBeLessThan(30_000)
  })

  it('asks no script, because nothing opens; and does nothing about one that has ended', async () => {
    expect((await owner('allowance', 'end', 'weekend')).code).toBe(0)
    expect(saved()).toHaveLength(1)
    api.script(PATH, { body: { ...WEEKEND, until: '2020-01-01T00:00:00.000Z' } })
    const { code, printed } = await owner('allowance', 'end', 'weekend')
    expect([code, printed]).toEqual([0, 'weekend has ended already.\n'])
    expect(saved()).toHaveLength(1)
  })
})
