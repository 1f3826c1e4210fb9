/** Contract, "Events" (row 5): what was promised, decided, done and refused, as the owner reads it. */
import { describe, expect, it } from 'vitest'
import type { EmergencyFault } from '../../src/rules/organization/emergency.ts'
import { happenedAt, ledgerSentence, reportedText } from '../../src/rules/words/ledger-sentences.ts'
import { LEDGER_KINDS } from '../../src/storage/authority/ledger/ledger.ts'
import type { LedgerEntry } from '../../src/wire/owner/owner-api.ts'

const TS = '2026-11-28T17:34:05.400Z'
const MS = Date.parse(TS)
const entry = (kind: string, members: object = {}): LedgerEntry => ({ seq: 1, ts: TS, kind, ...members })
const hers = { handle: 'jkt:abc', resource_id: 'alice/portfolio', tier: 'reading' }
/** What an entry says of an emergency that her authority found a fault in. */
const found = { issuer: 'https://acme.example', jti: 'rpt_1', resource_id: 'alice/portfolio' }
const sentence = (one: LedgerEntry): string | undefined => ledgerSentence(one, () => '"Tax bot"')

const EMERGENCY_FAULTS: Record<EmergencyFault, string> = {
  outside_clause: 'what you agreed to does not cover it',
  invoker: 'you did not agree that this party may ask',
  reason: 'no reason was given',
  lifetime: 'its end had passed, or was later than you agreed to',
  scope: 'what it asked for is not among the scopes that are allowed there',
  operator_blocked: 'you blocked its operator',
  key_revoked: 'you ended the access of this agent',
}

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
    ['org_left', { name: 'Acme', by: 'organization' }, 'Acme ended your membership.'],
    ['org_left', { name: 'Acme', by: 'administrator' }, 'An administrator of Acme ended your membership.'],
    ['org_left', { by: 'organization' }, 'Your organization ended your membership.'],
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
    ['org_acted', { what: 'newer' }, 'Your organization did this: newer.'],
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
      'break_glass',
      { what: 'opened', reason: null, by: 'organization', actor: { name: 'Acme', admin: 'carla' } },
      'carla of Acme opened an emergency.',
    ],
    [
      'break_glass',
      { what: 'used_again', ...found },
      'Your authority found that an emergency grant of https://acme.example at alice/portfolio was used again: more than one call was reported under it.',
    ],
    [
      'break_glass',
      { what: 'unreported', ...found },
      'Your authority found that no call was reported under an emergency grant of https://acme.example at alice/portfolio, which was used according to the organization.',
    ],
    [
      'break_glass',
      { what: 'unannounced', ...found },
      'Your authority found that a call was reported under an emergency grant of https://acme.example at alice/portfolio, and that the organization did not tell of it.',
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
    [
      'joint_refused',
      { strangers: true, reason: 'policy', families: ['fam_1'], count: 3 },
      'Your no, as a holder of a joint account, was given to what an agent that you do not know asked: policy (3 times).',
    ],
  ])('of %s %j says who did what', (kind, members, told) => {
    expect(sentence(entry(kind, members))).toBe(told)
  })

  const refusedEmergency = (members: object) =>
    sentence(
      entry('break_glass', {
        what: 'refused',
        resource_id: 'alice/portfolio',
        by: 'organization',
        actor: { kind: 'organization', name: 'Acme', admin: 'carla' },
        ...members,
      }),
    )

  it.each(Object.entries(EMERGENCY_FAULTS))(
    'says why her authority refused an emergency, before what it was for: %s',
    (because, why) => {
      expect(refusedEmergency({ because: [because], reason: 'incident 7' })).toBe(
        `Your authority refused an emergency of carla of Acme at alice/portfolio: ${why}. The reason that was given for it: incident 7.`,
      )
    },
  )

  it.each([[null], [undefined], ['  ']])(
    'of an emergency for which no reason was given has none: %j',
    reason => {
      expect(refusedEmergency({ because: ['reason'], reason })).toBe(
        'Your authority refused an emergency of carla of Acme at alice/portfolio: no reason was given.',
      )
      expect(refusedEmergency({ because: ['newer'], reason })).toMatch(/ at alice\/portfolio: newer\.$/)
      expect(refusedEmergency({ reason })).toMatch(/ at alice\/portfolio\.$/)
    },
  )

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
