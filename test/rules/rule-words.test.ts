/** Her tiers, rules and the reasons why she is asked, in plain words (contract, "Owner API"). */
import { beforeEach, describe, expect, it } from 'vitest'
import { CONDITIONS } from '../../src/rules/conditions.ts'
import { becauseText, conditionText } from '../../src/rules/words/rule-words.ts'
import { ownerCommand } from '../support/owner-command.ts'

const { answers, owner } = ownerCommand()

const READING = {
  id: 'reading',
  name: 'Reading\u001b',
  resources: ['alice/notes', 'alice/portfolio'],
  ask_me: false,
  rules: [
    { when: ['standing.age_below:90d', 'request.reason_absent'], then: 'ask' },
    { when: ['standing.denials_above:3'], then: 'refuse' },
    { when: ['request.from_the_future:7'], then: 'ask' },
  ],
  clearance: { department: ['tax', 'audit'] },
  terms: {
    template_id: 'alice/reading/v3',
    purpose: 'Answer questions',
    scope: ['read', 'search'],
    expires_in: 300,
    prohibited: ['leverage', 'resale'],
    per_operation: false,
  },
}
const TRADING = {
  ...READING,
  id: 'trading',
  name: 'Trading',
  resources: [],
  ask_me: true,
  rules: [],
  clearance: {},
  terms: {
    ...READING.terms,
    template_id: 'alice/trading/v1',
    expires_in: 90,
    prohibited: [],
    per_operation: true,
  },
}
beforeEach(() => {
  answers['/owner/policies'] = { body: { tiers: [READING, TRADING] } }
})

describe('tier show', () => {
  it('shows one tier whole: its terms, when it asks her, and its rules in plain words', async () => {
    expect((await owner('tier', 'show', 'reading')).printed.split('\n')).toEqual([
      'tier          Reading\\u{1b} (reading)',
      'version       alice/reading/v3',
      'governs       alice/notes, alice/portfolio',
      'purpose       Answer questions',
      'allows        read, search',
      'lasts         at most 5 minutes',
      'good for      any number of calls until then',
      'must promise  not: leverage, resale',
      'must prove    department: tax or audit',
      'asks you      about an agent that you do not know, and when a rule says so',
      '',
      'Rules; of those that fit, the strictest decides:',
      '  - ask you when you have known this agent for less than 90 days and it gives no reason',
      '  - refuse it when its recent denials are more than 3',
      '  - ask you when request.from_the_future:7',
      '',
    ])
  })

  it('says that a tier asks about each operation, governs nothing and has no rules', async () => {
    expect((await owner('tier', 'show', 'trading')).printed.split('\n')).toEqual([
      'tier          Trading (trading)',
      'version       alice/trading/v1',
      'governs       nothing',
      'purpose       Answer questions',
      'allows        read, search',
      'lasts         at most 90 seconds',
      'good for      one operation, once',
      'must promise  nothing more',
      'asks you      about each operation, unless a rule lets it through',
      '',
      'It has no rules.',
      '',
    ])
  })

  it('as JSON is the tier as `policies --json` shows it', async () => {
    const { printed } = await owner('tier', 'show', 'trading', '--json')
    const listed = JSON.parse((await owner('policies', '--json')).printed) as { tiers: unknown[] }
    expect(JSON.parse(printed)).toEqual(listed.tiers[1])
  })

  it('of a tier that she does not have ends with 1 and says so', async () => {
    expect(await owner('tier', 'show', 'nothing')).toEqual({
      code: 1,
      printed: '',
      said: 'not_found: You have no tier nothing.\n',
    })
  })
})

describe('why a request came before her, in plain words', () => {
  const waiting = (kind: string, because?: string[]) => ({
    family: 'fam_7',
    kind,
    tier: 'reading',
    tier_name: 'Reading',
    resource_id: 'alice/notes',
    handle: 'jkt:abc',
    prohibited: [],
    enforced: {},
    expires_in: 60,
    because,
  })
  const shown = async (kind: string, because?: string[]) => {
    answers['/owner/pending'] = { body: [waiting(kind, because)] }
    const { printed } = await owner('pending', 'fam_7')
    return /^because +(.*)$/m.exec(printed)?.[1]
  }

  it.each([
    [
      'connection',
      ['baseline:auto'],
      'you do not know this agent yet; its tier does not ask you about each operation',
    ],
    ['connection', ['first_contact'], 'you do not know this agent yet'],
    [
      'connection',
      ['first_contact', 'revoked_before'],
      'you know this agent, and its access was ended; approving lets it in again',
    ],
    ['connection', undefined, 'you do not know this agent yet'],
    ['operation', ['baseline:ask_me'], 'its tier asks you about each operation'],
    [
      'operation',
      ['baseline:auto', 'ask:standing.age_below:12h+request.reason_absent'],
      'its tier does not ask you about each operation; a rule asks you, as you have known this agent for less than 12 hours and it gives no reason',
    ],
    [
      'operation',
      ['baseline:ask_me', 'auto:standing.never_revoked', 'ask:standing.calls_above:100?'],
      'its tier asks you about each operation; a rule lets it through, as you never revoked this agent; a rule asks you, as its recent calls are more than 100 (not known)',
    ],
    [
      'operation',
      ['ask:from.the_future:7', 'newer\u001b'],
      'a rule asks you, as from.the_future:7; newer\\u{1b}',
    ],
    [
      'operation',
      ['baseline:ask_me', 'ask:operation.beyond:weekend', 'limit:window:price:day'],
      'its tier asks you about each operation; a rule asks you, as the operation is not within your allowance weekend; too little is left of price this day',
    ],
    [
      'operation',
      ['ask:operation.beyond:weekend?'],
      'a rule asks you, as the operation is not within your allowance weekend (not known)',
    ],
    ['operation', ['ask:'], 'a rule asks you'],
    [
      'operation',
      ['baseline:auto', 'organization:always_ask', 'organization:ask:request.reason_absent'],
      'its tier does not ask you about each operation; your organization has each operation there approved; your organization says: a rule asks you, as it gives no reason',
    ],
    ['operation', [], undefined],
  ])('%s, %j', async (kind, because, words) => {
    expect(await shown(kind, because)).toBe(words)
  })

  it('is the words of the API in JSON', async () => {
    await shown('connection', ['baseline:auto'])
    expect(JSON.parse((await owner('pending', 'fam_7', '--json')).printed)).toEqual(
      waiting('connection', ['baseline:auto']),
    )
  })
})

describe('the first limit of an allowance that an operation does not keep, in plain words', () => {
  it.each([
    ['until', 'the allowance has ended'],
    ['tiers', 'the allowance says nothing of this tier'],
    ['tools', 'the allowance does not name this tool'],
    ['amount:price', 'the operation has no price that can be counted'],
    ['each_max:price', 'price is more than each operation may have'],
    ['unit:price', 'price is in another unit'],
    ['only:/payee/a:b', '/payee/a:b is nothing that the allowance lists'],
    ['members', 'the operation has a parameter that the allowance does not name'],
    ['window:calls:hour', 'too little is left of calls this hour'],
    ['window:price:all', 'too little is left of price in all'],
    ['approval', 'the resource takes only what you approve'],
    ['unspent', 'the agent has as many unspent grants as an allowance lets it have'],
    ['ends', 'a grant would end at once'],
    ['issue', 'nothing was left when it was to be granted'],
    ['window:price:fortnight', 'too little is left of price fortnight'],
    ['from_the_future:7', 'it does not keep the limit from_the_future:7'],
  ])('%s', (limit, words) => {
    expect(becauseText({ because: [`limit:${limit}`] })).toBe(words)
  })
})

describe('a condition in plain words', () => {
  const VALUES = { duration: '1d', count: '3', level: '1', class: 'irreversible', allowance: 'trading' }

  it.each([...CONDITIONS.values()])('$condition', ({ condition, takes, label }) => {
    const written = takes === null ? condition : `${condition}:${VALUES[takes]}`
    const value = { ...VALUES, duration: '1 day' }
    expect(conditionText(written)).toBe(takes === null ? label : `${label} ${value[takes]}`)
  })
})
