/** Contract, "Events" (row 5): what was promised, decided, done and refused, as the owner reads it. */
import { describe, expect, it } from 'vitest'
import { happenedAt, ledgerSentence, reportedText } from '../../src/rules/words/ledger-sentences.ts'
import { LEDGER_KINDS } from '../../src/storage/authority/ledger/ledger.ts'
import type { LedgerEntry } from '../../src/wire/owner/owner-api.ts'

const TS = '2026-11-28T17:34:05.400Z'
const MS = Date.parse(TS)
const entry = (kind: string, members: object = {}): LedgerEntry => ({ seq: 1, ts: TS, kind, ...members })
const hers = { handle: 'jkt:abc', resource_id: 'alice/portfolio', tier: 'reading' }
const sentence = (one: LedgerEntry): string | undefined => ledgerSentence(one, () => '"Tax bot"')

describe('A sentence of the ledger', () => {
  it('has the name of the resource with its id, if it has one', () => {
    const names = new Map([['alice/portfolio', 'Portfolio']])
    expect(ledgerSentence(entry('promised', hers), () => '"Tax bot"', names)).toBe(
      '"Tax bot" signed your terms "reading" for "Portfolio" (alice/portfolio).',
    )
  })

  it.each<[string, object, string]>([
    ['touched', { ...hers, tool: 'portfolio_read' }, '"Tax bot" used portfolio_read.'],
    ['promised', hers, '"Tax bot" signed your terms "reading" for alice/portfolio.'],
    ['approved', { ...hers, by: 'owner' }, 'You approved what "Tax bot" asked at alice/portfolio.'],
    [
      'approved',
      { ...hers, by: 'administrator', actor: { kind: 'organization', name: 'Acme', admin: 'carla' } },
      'carla of Acme approved what "Tax bot" asked at alice/portfolio.',
    ],
    ['denied', { ...hers, by: 'owner' }, 'You denied what "Tax bot" asked at alice/portfolio.'],
    ['denied', { by: 'revocation' }, 'A request ended, because you ended the access of its agent.'],
    ['revoked', { ...hers, by: 'owner' }, 'You ended the access of "Tax bot".'],
    [
      'refused',
      { strangers: true, reason: 'policy', count: 12 },
      'An agent that you do not know was refused: your rules refuse it (12 times).',
    ],
    [
      'refused',
      { strangers: true, reason: 'ungoverned', count: 1 },
      'An agent was refused: no tier of yours says on which terms it may use what it asked for.',
    ],
    ['refused', { ...hers, reason: 'agent_blocked' }, '"Tax bot" was refused: you blocked it.'],
    ['refused', { ...hers, reason: 'declined' }, '"Tax bot" declined your terms, or took its request back.'],
    ['refused', { ...hers, reason: 'newer_reason' }, '"Tax bot" was refused: newer_reason.'],
    ['blocked', { operator: 'https://op.example' }, 'You blocked https://op.example.'],
    ['blocked', hers, 'You blocked "Tax bot".'],
    ['policy_changed', { ...hers, by: 'owner' }, 'You changed the tier "reading".'],
    ['allowance_changed', { allowance: 'trading', by: 'owner' }, 'You changed the allowance "trading".'],
    ['credential_removed', { name: 'laptop' }, '"laptop" may decide for you no more.'],
    [
      'subscription_added',
      { name: null, origin: 'https://push.example' },
      'Notifications go to https://push.example.',
    ],
    ['org_joined', { name: 'Acme', by: 'owner' }, 'You joined Acme.'],
    ['org_left', { name: 'Acme', by: 'owner' }, 'You left Acme.'],
    ['org_role', { name: 'Acme', what: 'role_changed', by: 'organization' }, 'Acme changed your role.'],
    [
      'org_acted',
      {
        ...hers,
        what: 'revoked',
        by: 'administrator',
        actor: { kind: 'organization', name: 'Acme', admin: 'carla' },
      },
      'carla of Acme ended the access of "Tax bot" to what your organization governs.',
    ],
    ['org_acted', { what: 'newer', name: 'Acme' }, 'Acme did this: newer.'],
    [
      'break_glass',
      {
        what: 'accepted',
        resource_id: 'alice/portfolio',
        reason: 'incident 7',
        by: 'organization',
        actor: { kind: 'organization', name: 'Acme', admin: 'carla' },
      },
      'Your authority let carla of Acme into alice/portfolio in an emergency: incident 7.',
    ],
    [
      'break_glass',
      { what: 'used', by: 'organization', actor: { kind: 'organization', name: 'Acme' } },
      'An emergency of Acme was used.',
    ],
    [
      'joint_allowed',
      { ...hers, account: 'house' },
      'Your yes, as a holder of house, was given to what "Tax bot" asked at alice/portfolio.',
    ],
    [
      'joint_refused',
      { account: 'house', resource_id: 'house/door', reason: 'policy', count: 3 },
      'Your no, as a holder of house, was given to what an agent that you do not know asked at house/door: policy (3 times).',
    ],
  ])('of %s %j says who did what', (kind, members, told) => {
    expect(sentence(entry(kind, members))).toBe(told)
  })

  it('names an agent without a label as a sentence does', () => {
    const nameless = (kind: string) => ledgerSentence(entry(kind, hers), () => 'Agent jkt:abc')
    expect(nameless('revoked')).toBe('You ended the access of agent jkt:abc.')
    expect(nameless('promised')).toBe('Agent jkt:abc signed your terms "reading" for alice/portfolio.')
  })

  it.each(LEDGER_KINDS)('is there for each kind that is written: %s', kind => {
    expect(sentence(entry(kind))).toMatch(/\.$/)
  })

  it('is not invented for a kind that is not known', () => {
    expect(sentence(entry('newer'))).toBeUndefined()
    expect(sentence(entry('constructor'))).toBeUndefined()
  })
})

describe('The time of an entry', () => {
  it('is that of the call, and says how much later it was reported', () => {
    const at = happenedAt(entry('touched', { at: Math.floor(MS / 1_000), at_ms: MS - 200 }))
    expect(at.ms).toBe(MS - 200)
    expect(reportedText(at)).toBe(' Reported 0.2 s later.')
  })

  it('says so if the clocks of the two differ', () => {
    expect(reportedText(happenedAt(entry('touched', { at_ms: MS + 300 })))).toMatch(
      /0\.3 s before.*clocks differ/,
    )
  })

  it('is known to the second alone from an enforcement point that tells no more', () => {
    const at = happenedAt(entry('touched', { at: 1_700_000_000 }))
    expect(at).toEqual({ ms: 1_700_000_000_000, isWholeSecond: true, reportedAfterMs: undefined })
    expect(reportedText(at)).toBe('')
  })

  it('is for anything else the time at which it was written', () => {
    expect(happenedAt(entry('revoked', { at_ms: 1 }))).toMatchObject({ ms: MS, reportedAfterMs: undefined })
  })
})
