/**
 * The judgement of histories, by histories made for it: for each rule one that is right and one that is
 * wrong.
 */
import { describe, expect, it } from 'vitest'
import { violationsOf } from './check.ts'
import {
  call,
  CAST,
  decide,
  edit,
  ends,
  granted,
  history,
  present,
  read,
  single,
  submitted,
  waiting,
  type Made,
} from './made.ts'

const GOOD: Record<string, Made[]> = {
  'a single-use grant that passes once, and is refused afterwards': [
    single,
    call(),
    call({ code: 'insufficient_authorization' }),
  ],
  'a single-use grant whose first call had no answer': [
    single,
    call({ outcome: 'outage' }),
    call({ code: 'already_consumed' }),
  ],
  'a ticket presented again, and refused': [
    present('t', { answer: 'need_info' }),
    present('t', { code: 'invalid_grant' }),
  ],
  'a ticket whose answer was lost, presented again': [
    present('t', { outcome: 'unknown' }),
    present('t', { code: 'invalid_grant' }),
  ],
  'a call that began before the revoke was answered': [
    granted(),
    ends('revoke', 'a', { at: 100, until: 130 }),
    call({ at: 120, until: 150 }),
  ],
  'a grant after a revoke, once the owner let the agent in again': [
    ends('revoke', 'a'),
    submitted(),
    decide('approved'),
    granted(),
    call(),
  ],
  'a grant after a block was lifted and the agent let in again': [
    ends('block', 'https://one'),
    ends('unblock', 'https://one'),
    submitted(),
    decide('approved'),
    granted(),
  ],
  'a block of another operator': [granted(), ends('block', 'https://two'), call()],
  'a revoke that had no answer, and no effect': [
    granted(),
    ends('revoke', 'a', { outcome: 'unknown' }),
    call(),
  ],
  'a revoke that was answered late to who asked, and refuses already': [
    granted(),
    ends('revoke', 'a', { outcome: 'unknown' }),
    call({ code: 'access_revoked' }),
  ],
  'one decision, and a second one refused': [
    submitted(),
    decide('approved'),
    decide('denied', { code: 'conflict' }),
    granted(),
  ],
  'an edit during which a grant is given under the old terms': [
    edit(2, { at: 0, until: 50 }),
    { ...granted(), at: 40, until: 60 },
  ],
  'a request sent twice and accepted once': [
    ends('revoke', 'a', { request: 'r' }),
    ends('revoke', 'a', { request: 'r', code: 'invalid_credential' }),
  ],
  'an outage while a sidecar was killed': [
    granted(),
    { op: 'fault', what: 'kill', via: 'sidecar-1', at: 0, until: 100 },
    call({ via: 'sidecar-1', outcome: 'unknown', until: 60, code: 'UNAVAILABLE' }),
  ],
  'a decision on a family that was offered edited terms since it was decided': [
    submitted(),
    decide('approved'),
    present('u', { answer: 'need_info', family: 'f' }),
    present('v', { answer: 'submitted', family: 'f' }),
    decide('denied'),
  ],
  'a grant under edited terms that were agreed to anew, once another approval let the agent in': [
    submitted(),
    submitted({ ticket: 'x', family: 'h' }),
    decide('approved', { family: 'h' }),
    present('u', { answer: 'need_info', family: 'f' }),
    granted(),
  ],
  'a grant on an approval from after a block': [
    submitted(),
    decide('approved', { outcome: 'outage' }),
    ends('block', 'https://one'),
    ends('unblock', 'https://one'),
    decide('approved'),
    granted(),
  ],
  'an approval of what was shown as an operation, and asks for the connection since a revoke and an edit': [
    submitted({ kind: 'operation' }),
    ends('revoke', 'a'),
    present('u', { answer: 'need_info', family: 'f' }),
    submitted({ ticket: 'v', kind: 'connection' }),
    decide('approved', { kind: 'operation' }),
    granted(),
    call(),
  ],
  'a poll that is told to wait, for its terms were edited since they were approved': [
    submitted(),
    decide('approved'),
    edit(2),
    present('u', { answer: 'submitted', family: 'f' }),
  ],
  'a ledger with each write once, read from then on by all': [
    edit(2, { tier: 'trading' }),
    submitted(),
    decide('approved'),
    granted(),
    call(),
    ends('revoke', 'a'),
    read(0, [
      { kind: 'policy_changed', template_id: 'alice/trading/v2' },
      { kind: 'approved', family: 'f', by: 'owner' },
      { kind: 'promised', family: 'f' },
      { kind: 'revoked', handle: 'a', by: 'owner' },
    ]),
    read(4, [{ kind: 'touched', family: 'f' }]),
  ],
  'a write that had no answer, told or not': [
    decide('denied', { outcome: 'unknown' }),
    edit(2, { outcome: 'unknown', version: undefined }),
    read(0, [{ kind: 'denied', family: 'f', by: 'owner' }]),
  ],
}

const BAD: [says: string, rule: string, made: Made[]][] = [
  ['a single-use grant passes twice', 'single-use', [single, call(), call()]],
  ['a single-use grant passes for another operation', 'single-use', [single, call({ exact: false })]],
  [
    'a ticket is rotated twice',
    'ticket-once',
    [present('t', { answer: 'need_info' }), present('t', { answer: 'need_info' })],
  ],
  ['a call passes after the revoke was answered', 'ended', [granted(), ends('revoke', 'a'), call()]],
  ['a call passes after the block was answered', 'ended', [granted(), ends('block', 'https://one'), call()]],
  [
    'a grant from before a revoke lives again when the agent is let in again',
    'ended',
    [granted(), ends('revoke', 'a'), submitted({ family: 'h' }), decide('approved', { family: 'h' }), call()],
  ],
  ['a grant is given after a revoke, and nobody let the agent in', 'ended', [ends('revoke', 'a'), granted()]],
  [
    'an approval of an operation lets in whose connection was revoked',
    'ended',
    [
      submitted({ kind: 'operation' }),
      ends('revoke', 'a'),
      submitted({ ticket: 'u', kind: 'operation' }),
      decide('approved', { kind: 'operation' }),
      granted(),
    ],
  ],
  [
    'a grant is given on an approval from before the block',
    'ended',
    [
      submitted(),
      decide('approved'),
      ends('block', 'https://one'),
      ends('unblock', 'https://one'),
      granted(),
    ],
  ],
  [
    'a grant is given to a blocked operator',
    'ended',
    [ends('block', 'https://one'), submitted(), decide('approved'), granted()],
  ],
  ['a family is decided twice', 'decided-once', [submitted(), decide('approved'), decide('denied')]],
  ['a family is granted twice', 'decided-once', [granted(), granted({ jti: 'h' })]],
  ['a family is granted though it was denied', 'decided-once', [submitted(), decide('denied'), granted()]],
  [
    'an approval outlives a revoke, once another lets the agent in again',
    'decided-once',
    [
      submitted(),
      decide('approved'),
      ends('revoke', 'a'),
      submitted({ ticket: 'x', family: 'h' }),
      decide('approved', { family: 'h' }),
      granted(),
    ],
  ],
  ['a family is granted though nobody approved it', 'decided-once', [submitted(), granted()]],
  [
    'a decision is forgotten',
    'decided-once',
    [submitted(), decide('approved'), present('u', { answer: 'submitted', family: 'f' })],
  ],
  ['a grant is given under replaced terms', 'terms', [edit(2), granted()]],
  ['a grant outlives its agreement', 'terms', [granted({ agreed: 60 })]],
  [
    'a signed request is accepted twice',
    'request-once',
    [ends('revoke', 'a', { request: 'r' }), ends('revoke', 'a', { request: 'r' })],
  ],
  [
    'a signed request is looked at again',
    'request-once',
    [
      submitted(),
      decide('approved', { request: 'r' }),
      decide('approved', { request: 'r', code: 'conflict' }),
    ],
  ],
  ['two items wait for the same', 'joined', [waiting('a portfolio', 'a portfolio')]],
  ['an outage is told as spent', 'refused', [single, call({ code: 'already_consumed' })]],
  ['an outage is told as revoked', 'refused', [granted(), call({ code: 'access_revoked' })]],
  ['a fresh ticket is refused', 'refused', [present('t', { code: 'invalid_grant' })]],
  [
    'an agreement is refused though nothing speaks against it',
    'refused',
    [present('t', { code: 'request_denied', family: 'f' })],
  ],
  [
    'a call that was refused for its operation costs its grant',
    'refused',
    [
      single,
      call({ exact: false, code: 'operation_mismatch' }),
      call({ code: 'insufficient_authorization' }),
    ],
  ],
  ['a sidecar that is there does not answer', 'outage', [granted(), call({ outcome: 'unknown', until: 60 })]],
  [
    'a call has no answer though nothing is disturbed',
    'outage',
    [granted(), call({ outcome: 'outage', quiet: true })],
  ],
  ['a fault of ours is shown', 'refused', [edit(2, { code: 'server_error 500' })]],
  ['a position is left out', 'ledger', [read(0, [{ kind: 'connected' }, { seq: 3, kind: 'connected' }])]],
  [
    'a position has two entries',
    'ledger',
    [read(0, [{ kind: 'connected', family: 'f' }]), read(0, [{ kind: 'connected', family: 'h' }])],
  ],
  ['an acknowledged decision is not in the ledger', 'ledger', [submitted(), decide('denied'), read(0, [])]],
  ['an acknowledged revoke is not in the ledger', 'ledger', [ends('revoke', 'a'), read(0, [])]],
  [
    'an acknowledged edit is in the ledger twice',
    'ledger',
    [
      edit(2),
      read(0, [
        { kind: 'policy_changed', template_id: 'alice/reading/v2' },
        { kind: 'policy_changed', template_id: 'alice/reading/v2' },
      ]),
    ],
  ],
  [
    'a reader does not find what was acknowledged before',
    'ledger',
    [edit(2), read(0, []), read(0, [{ kind: 'policy_changed', template_id: 'alice/reading/v2' }])],
  ],
  [
    'a call is told twice',
    'ledger',
    [
      granted(),
      call(),
      read(0, [
        { kind: 'promised', family: 'f' },
        { kind: 'touched', family: 'f' },
        { kind: 'touched', family: 'f' },
      ]),
    ],
  ],
  [
    'a call is told that was not let through',
    'ledger',
    [
      granted(),
      call({ outcome: 'outage' }),
      read(0, [
        { kind: 'promised', family: 'f' },
        { kind: 'touched', family: 'f' },
      ]),
    ],
  ],
  ['a call is not told', 'ledger', [granted(), call(), read(0, [{ kind: 'promised', family: 'f' }])]],
]

describe('The judgement of a history', () => {
  it.each(Object.entries(GOOD))('finds nothing wrong with %s', (_, made) => {
    expect(violationsOf(history(...made), CAST, { final: made.some(({ op }) => op === 'read') })).toEqual([])
  })

  it.each(BAD)('finds that %s', (_, rule, made) => {
    const found = violationsOf(history(...made), CAST, { final: made.some(({ op }) => op === 'read') })
    expect(found.map(one => one.rule)).toContain(rule)
    for (const { ops } of found) expect(ops.every(n => n < made.length)).toBe(true)
  })

  it('takes the order that is right if the times leave it open', () => {
    const ops = history(
      granted(),
      ends('revoke', 'a', { at: 100, until: 200 }),
      call({ at: 199, until: 300 }),
    )
    expect(violationsOf(ops, CAST)).toEqual([])
    expect(violationsOf(history(granted(), ends('revoke', 'a'), call({ at: 51 })), CAST)).not.toEqual([])
  })
})
