/**
 * Contract, "Events": security events in the Common Event Format (ArcSight CEF, version 0), whose rules for
 * escaping differ between head and extension. That the command prints the events of the log is in
 * security-events.test.ts.
 */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { cefLine, type AuditEvent } from '../../src/authority/administration/cef.ts'
import { usherProgram } from '../support/usher-program.ts'

const PLAIN: AuditEvent = {
  id: 'alice/ledger/7',
  at: '2026-11-28T12:00:00.125Z',
  event: 'revoked',
  owner: 'alice',
}

describe('An event in CEF', () => {
  it('has seven members in its head, and those that it lacks are left out of its extension', () => {
    expect(cefLine(PLAIN, '0.2.0')).toBe(
      'CEF:0|usher|usher authority|0.2.0|revoked|revoked|5|rt=1795867200125 externalId=alice/ledger/7 duser=alice',
    )
  })

  it('names what members of its own are', () => {
    const whole = { ...PLAIN, seq: 7, handle: 'jkt:abc', family: 'fam_1', jti: 'rpt_2', count: 3 }
    expect(cefLine(whole, '0.2.0')).toContain(
      'suser=jkt:abc cnt=3 cn1Label=seq cn1=7 cs1Label=family cs1=fam_1 cs2Label=jti cs2=rpt_2',
    )
  })

  it.each<[what: string, change: Partial<AuditEvent>, version: string, written: string]>([
    ['a bar in the head is escaped', {}, '0|2', '|0\\|2|'],
    ['a backslash in the head is escaped', {}, '0\\2', '|0\\\\2|'],
    ['an equals sign in the head is not', {}, '0=2', '|0=2|'],
    ['an end of line in the head is a space', { event: 'a\nb' }, '1', '|a b|a b|3|'],
    ['an equals sign in the extension is escaped', { handle: 'a=b' }, '1', 'suser=a\\=b'],
    ['a backslash in the extension is escaped', { handle: 'a\\b' }, '1', 'suser=a\\\\b'],
    ['a bar in the extension is not', { handle: 'a|b' }, '1', 'suser=a|b'],
    ['ends of line in the extension are written out', { handle: 'a\r\nb' }, '1', 'suser=a\\r\\nb'],
    ['a backslash before an n is no end of line', { handle: 'a\\nb' }, '1', 'suser=a\\\\nb'],
    ['another control character is a space', { handle: 'a\u0000\u001bb' }, '1', 'suser=a  b'],
    ['letters of any script stay', { owner: 'zoë' }, '1', 'duser=zoë'],
    ['words of a kind are apart in the name', { event: 'recovery_started' }, '1', '|recovery started|8|'],
  ])('%s', (_what, change, version, written) => {
    const line = cefLine({ ...PLAIN, ...change }, version)
    expect(line).toContain(written)
    expect(line).not.toMatch(/\p{Cc}/u)
  })
})

it.each([
  [['--since', 'yesterday'], /2026-11-21T09:00Z, not yesterday/],
  [[], /--since/],
  [['--since', '1h', '--format', 'xml'], /json, cef/],
])('usher authority audit %j is refused, with what to give', async (options, remedy) => {
  const run = promisify(execFile)(process.execPath, [usherProgram(), 'authority', 'audit', ...options])
  await expect(run).rejects.toMatchObject({ code: 2, stderr: expect.stringMatching(remedy) as string })
})
