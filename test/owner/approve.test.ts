/**
 * Contract, "Owner API" (`/owner/pending`): a person at a terminal is shown what she opens before she is
 * asked.
 */
import { beforeEach, describe, expect, it } from 'vitest'
import { runOwner } from '../../src/owner/main.ts'
import { boundApproval } from '../../src/owner/signed-approval.ts'
import { itemDigest, type DecisionItem } from '../../src/wire/owner/decision-item.ts'
import { asFamily, asHandle } from '../../src/wire/identifiers.ts'
import { parseJws } from '../../src/wire/signatures/jws.ts'
import type { PendingItem } from '../../src/wire/owner/owner-api.ts'
import { capturedTerminal } from '../support/captured-terminal.ts'
import { ITEM as SIGNABLE } from '../support/decision-samples.ts'
import { ownerCommand } from '../support/owner-command.ts'

const { answers, api, owner } = ownerCommand()

const ITEM = {
  family: 'fam_abcdefgh',
  kind: 'connection',
  resource_id: 'alice/notes',
  tier: 'reading',
  tier_name: 'Reading',
  handle: 'jkt:one',
  purpose: 'Read',
  prohibited: [],
  enforced: {},
  expires_in: 300,
  because: ['first_contact'],
  opens: ['reading', 'quotes'],
  requested_at: '2026-11-23T09:00:00Z',
}
const DECISION = `/owner/pending/${ITEM.family}/decision`

beforeEach(() => {
  answers['/owner/pending'] = { body: [ITEM] }
  answers[DECISION] = { body: { family: ITEM.family, decision: 'approved' } }
})

/** Runs it for a person who answers so. */
async function atTerminal(answer: boolean, ...args: string[]) {
  const asked: string[] = []
  const terminal = capturedTerminal(80)
  const confirm = async (question: string): Promise<boolean> => {
    asked.push(question)
    // It was shown before she is asked.
    expect(terminal.said).toContain('without asking you again: reading, quotes')
    return answer
  }
  const code = await runOwner(args, Object.defineProperty(terminal, 'confirm', { value: confirm }))
  return { code, asked, printed: terminal.printed, said: terminal.said }
}

describe('usher owner approve', () => {
  it('shows what approving opens, asks, and decides after a yes', async () => {
    const { code, asked, printed } = await atTerminal(true, 'approve', 'fam_abcd')
    expect({ code, asked, printed }).toEqual({
      code: 0,
      asked: ['Approve fam_abcdefgh?'],
      printed: 'fam_abcdefgh approved.\n',
    })
    expect(api.to(DECISION)).toHaveLength(1)
  })

  it('decides nothing after a no', async () => {
    expect(await atTerminal(false, 'approve', ITEM.family)).toMatchObject({ code: 1, printed: '' })
    expect(api.to(DECISION)).toEqual([])
  })

  it('asks nothing with --yes', async () => {
    const approved = await owner('approve', ITEM.family, '--yes')
    expect(approved).toMatchObject({ code: 0, printed: 'fam_abcdefgh approved.\n' })
    expect(api.received).toHaveLength(1)
  })

  it.each([[['approve', ITEM.family]], [['--json', 'approve', ITEM.family]]])(
    'decides nothing if nobody can be asked, and says how to: %j',
    async args => {
      const { code, said } = await owner(...args)
      expect({ code, said }).toMatchObject({ code: 2, said: expect.stringContaining('--yes') as string })
      expect(api.received).toEqual([])
    },
  )
})

describe('A yes at a terminal', () => {
  const record: DecisionItem = {
    ...SIGNABLE,
    family: asFamily(ITEM.family),
    kind: 'connection',
    resource_id: ITEM.resource_id,
    tier: ITEM.tier,
    agent: { ...SIGNABLE.agent, handle: asHandle(ITEM.handle) },
    terms: { ...SIGNABLE.terms, purpose: ITEM.purpose, prohibited: [] },
    expires_in: ITEM.expires_in,
    because: ITEM.because,
    opens: ITEM.opens,
  }
  delete record.operation
  const shown = {
    ...ITEM,
    enforced: { scope: record.scopes, expires_in: ITEM.expires_in, single_use: true },
    identity: { kind: 'pseudonymous', operator: null },
    assurance: record.assurance,
    item: record,
    item_s256: itemDigest(record),
  } as unknown as PendingItem
  const sent = () => JSON.parse(String(api.to(DECISION)[0]!.body)) as Record<string, string>

  it('is signed over the item that was shown, by her device key', async () => {
    answers['/owner/pending'] = { body: [shown] }
    expect((await atTerminal(true, 'approve', ITEM.family)).code).toBe(0)
    const { item_s256, statement } = sent()
    expect(item_s256).toBe(shown.item_s256)
    expect(parseJws(statement!).payload).toMatchObject({ decision: 'approved', item_s256, admits: 'all' })
    expect(parseJws(statement!).payload['iss']).toMatch(/^jkt:[\w-]{43}$/)
  })

  it('is answered with what the agent may do now, and how to end it', async () => {
    answers['/owner/pending'] = { body: [shown] }
    answers['/owner/connections'] = { body: [] }
    const { printed } = await atTerminal(true, 'approve', ITEM.family)
    expect(printed).toBe(
      'fam_abcdefgh approved.\n' +
        'Agent jkt:one may trade and read "alice/notes" for 5 minutes from when it collects its grant.\n' +
        'After that it gets a new one without asking you, unless a rule of reading asks.\n' +
        'A tier that is added later and does not ask you is open to it, too.\n' +
        'To end it: usher owner revoke jkt:one\n',
    )
  })

  it('for one tier alone says and signs so', async () => {
    answers['/owner/pending'] = { body: [shown] }
    const { code, printed, said } = await atTerminal(true, 'approve', '--only', ITEM.family)
    expect(code).toBe(0)
    const elsewhere = 'At any other tier you are asked first, also at one that is added later.\n'
    expect(said).toContain(`With --only you let it in for reading alone. ${elsewhere}`)
    expect(printed).toContain(elsewhere)
    expect(printed).not.toContain('is open to it, too')
    expect(sent()).toMatchObject({ only: true })
    expect(parseJws(sent().statement!).payload).toMatchObject({ admits: 'tier' })
    await owner('approve', '--yes', '--only', ITEM.family)
    expect(JSON.parse(String(api.to(DECISION).at(-1)!.body))).toEqual({ decision: 'approved', only: true })
  })

  /** A call that waits, as the authority lists it, and its record. */
  const waitingCall = (because: string[], opens: string[]): DecisionItem => {
    const { handle } = record.agent
    const agent = { ...SIGNABLE.agent, handle }
    const call: DecisionItem = { ...SIGNABLE, family: record.family, agent, because, opens }
    const { kind, resource_id, tier, terms, operation, expires_in, assurance, scopes } = call
    const { purpose, prohibited } = terms
    const enforced = { scope: scopes, expires_in, single_use: true }
    const beside = { kind, resource_id, tier, purpose, prohibited, operation, expires_in, because, opens }
    const request = { ...shown, ...beside, enforced, assurance, item: call, item_s256: itemDigest(call) }
    answers['/owner/pending'] = { body: [request] }
    return call
  }
  const approves = async (...options: string[]) => {
    const terminal = capturedTerminal(80)
    const confirm = async (): Promise<boolean> => true
    const args = ['approve', ...options, ITEM.family]
    expect(await runOwner(args, Object.defineProperty(terminal, 'confirm', { value: confirm }))).toBe(0)
    return { said: terminal.said, printed: terminal.printed }
  }

  it('to one operation alone says that nothing else opens; without that it says what does', async () => {
    const call = waitingCall(['baseline:ask_me'], [SIGNABLE.tier])
    const alone = await approves('--only')
    expect(alone.said).toContain('With --only you approve this call alone: nothing else opens at trading.\n')
    expect(alone.printed).not.toContain('from now on')
    expect(sent()).toMatchObject({ only: true, item_s256: itemDigest(call) })
    expect(parseJws(sent().statement!).payload).toMatchObject({ admits: null })
    const whole = await approves()
    expect(whole.said).not.toContain('--only you approve')
    expect(whole.printed).toContain(
      'What your rules and allowance at trading let through, it may do without asking you from now on.\n',
    )
  })

  it('to one operation that a rule asks about as the first says how its grant lets it go on', async () => {
    waitingCall(['baseline:ask_me', 'auto:standing.never_revoked', 'ask:standing.first_at_tier'], [])
    const goesOn =
      'At trading a rule asks you about the first grant: after this one it may go on there without asking you, unless another rule asks.\n'
    const alone = await approves('--only')
    expect(alone.said).toContain(
      `With --only this counts as no approval at trading, but it is a grant. ${goesOn}`,
    )
    expect(alone.printed).toContain(goesOn)
    expect((await approves()).printed).toContain(goesOn)
  })

  it('with a token names the item, and signs nothing', () => {
    const access = { api: 'https://as.example', issuer: 'https://as.example', token: 't' }
    expect(boundApproval(access, shown, { now: 1 })).toEqual({ item_s256: shown.item_s256 })
  })

  it('is bound to nothing if the authority gives no record', async () => {
    expect((await atTerminal(true, 'approve', ITEM.family)).code).toBe(0)
    expect(sent()).toEqual({ decision: 'approved' })
  })

  it.each([
    ['operation', { operation: { tool: 'place_trade', params: {} } }],
    ['what it opens', { opens: ['reading', 'quotes', 'trading'] }],
    ['agent', { agent: { ...record.agent, handle: 'jkt:two' } }],
    ['purpose', { terms: { ...record.terms, purpose: 'Write' } }],
    ['life', { expires_in: 301 }],
    ['family', { family: 'fam_other' }],
    ['scope', { scopes: [...record.scopes, 'withdraw'] }],
    ['how often it is used', { single_use: false }],
    ['operator', { operator: { origin: 'https://other.example', attested: true } }],
    ['identity', { agent: { ...record.agent, identity: 'identified' } }],
    ['assurance', { assurance: { ...record.assurance, binding: 3 } }],
    [
      'organization',
      { organization: { issuer: 'https://o.example', org: 'o', name: 'O', effect: 'ask', because: [] } },
    ],
    ['co-holders', { holders: [{ owner: 'bob', issuer: 'https://b.example', weight: 1 }] }],
    ['how many it takes', { rule: { kind: 'any', threshold: 1, total_weight: 2 } }],
  ])('decides nothing where the record has another %s than was shown', async (what, changes) => {
    const other = { ...record, ...changes } as DecisionItem
    answers['/owner/pending'] = { body: [{ ...shown, item: other, item_s256: itemDigest(other) }] }
    const { code } = await atTerminal(true, 'approve', ITEM.family)
    expect(code).not.toBe(0)
    expect(api.to(DECISION)).toEqual([])
    const lie = { ...shown, item: other, item_s256: itemDigest(other) }
    const access = { api: 'https://as.example', issuer: 'https://as.example', token: 't' }
    expect(() => boundApproval(access, lie, { now: 1 })).toThrow(what)
    expect(() => boundApproval(access, { ...lie, item: record }, { now: 1 })).toThrow('hash')
  })
})

describe('usher owner deny', () => {
  it('sends the reason that she gives', async () => {
    await owner('deny', ITEM.family, '--reason', 'Not this month')
    expect(JSON.parse(String(api.to(DECISION)[0]!.body))).toEqual({
      decision: 'denied',
      reason: 'Not this month',
    })
  })
})
