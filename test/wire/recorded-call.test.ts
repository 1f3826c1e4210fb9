/**
 * A call as the decision log has it: docs/operating.md, "Log". Contract: "Events" (one log line per
 * decision).
 */
import { describe, expect, it } from 'vitest'
import { readRecordedCall } from '../../src/wire/ledger/recorded-call.ts'
import { Refusal } from '../../src/wire/refusal.ts'

const LINE = {
  level: 'info',
  time: '2026-11-29T09:30:00.125Z',
  name: 'sidecar',
  decision: 'allow',
  reason: 'granted',
  status: 200,
  step: 'allow',
  owner: 'alice',
  tool: 'portfolio_read',
  family: 'fam_one',
  handle: 'jkt:one',
  ms: 3,
  peer: '203.0.113.7',
  issuer: 'https://as.example',
  iat: 1_795_000_000,
  judged: { ends: 4, at: 1_795_000_100_000 },
  msg: 'decided',
}
const line = (members: object): string => JSON.stringify({ ...LINE, ...members })
const CALL = {
  time: Date.parse(LINE.time),
  decision: 'allow',
  owner: 'alice',
  handle: 'jkt:one',
  issuer: LINE.issuer,
  iat: LINE.iat,
  judged: LINE.judged,
}

describe('A line of a decision log', () => {
  it('tells of a call, with the time of the enforcement point in milliseconds', () => {
    expect(readRecordedCall(line({}))).toEqual(CALL)
    expect(readRecordedCall(line({ decision: 'deny', leased: true }))).toEqual({ ...CALL, decision: 'deny' })
  })

  it('may have a prefix of a container runtime, and another end', () => {
    expect(readRecordedCall(`2026-11-29T09:30:00.2Z stdout F ${line({})}\r`)).toEqual(CALL)
  })

  it('says nothing of what is absent or null in it', () => {
    const { issuer: _issuer, iat: _iat, judged: _judged, ...without } = LINE
    const unknown = { ...CALL, issuer: undefined, iat: undefined, judged: undefined }
    expect(readRecordedCall(JSON.stringify(without))).toEqual(unknown)
    const nobody = { owner: undefined, handle: undefined }
    const { judged } = CALL
    expect(readRecordedCall(line({ owner: null, handle: null, issuer: null, iat: null }))).toEqual({
      ...unknown,
      ...nobody,
      judged,
    })
  })

  it.each([1.5, 1e300])('has no iat if an authority answered %s: the call stays readable', iat => {
    expect(readRecordedCall(line({ iat }))).toEqual({ ...CALL, iat: undefined })
  })

  it.each([
    ['is empty', ''],
    ['is text', 'Listening on 127.0.0.1:9191 {soon}'],
    ['is another line of the log', JSON.stringify({ time: LINE.time, msg: 'serving' })],
    ['is an access report', JSON.stringify({ family: 'fam_one', tool: 'x', at: 1, judged: LINE.judged })],
    ["is another party's decision", JSON.stringify({ decision: 'approved', family: 'fam_one' })],
    ['is another line that names a member twice', '{"name":"one","name":"two","msg":"serving"}'],
    ['is a list', '[1]'],
  ])('tells of no call if it %s', (_what, text) => {
    expect(readRecordedCall(text)).toBeUndefined()
  })

  it.each<[string, string]>([
    ['is cut off', line({}).slice(0, 80)],
    ['is cut off before its decision', line({}).slice(0, 40)],
    ['is cut off, and has its members in another order', '{"time":"2026-11-29T09:30:00.125Z","owner":"al'],
    ['has lost its beginning', line({}).slice(40)],
    ['has lost its beginning, and its decision with it', line({}).slice(90)],
    ['is cut off behind a prefix, before its decision', `stdout P ${line({}).slice(0, 40)}`],
    ['is cut off behind a prefix', `stdout P ${line({}).slice(0, 120)}`],
    ['names a member twice', line({}).replace('{', '{"owner":"bob",')],
    ['has no time', line({ time: undefined })],
    ['has a time in seconds', line({ time: 1_795_000_000 })],
    ['has a time that is none', line({ time: '2026-13-29T09:30:00.125Z' })],
    ['has a time of another zone', line({ time: '2026-11-29T09:30:00.125+01:00' })],
    ['has another decision', line({ decision: 'maybe' })],
    ['has no decision', line({ decision: undefined })],
    ['has an owner that is a number', line({ owner: 7 })],
    ['has a handle that is empty', line({ handle: '' })],
    ['has an issuer that is no text', line({ issuer: ['https://as.example'] })],
    ['has an iat that is text', line({ iat: '1795000000' })],
    ['has a `judged` that is a number', line({ judged: 4 })],
    ['has a `judged` without a time', line({ judged: { ends: 4 } })],
    ['has a count below 0', line({ judged: { ends: -1, at: 1 } })],
  ])('is refused if it %s', (_what, text) => {
    expect(() => readRecordedCall(text)).toThrow(Refusal)
  })
})
