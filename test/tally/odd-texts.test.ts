/**
 * Contract, "Tally for a jointly held resource", "Protection API" (/audit/access): text that no database
 * holds is refused where it is read, or told in a form that can be kept, and costs nobody else anything.
 */
import { describe, expect, test } from 'vitest'
import { parseJointAccesses } from '../../src/wire/documents/joint-accesses.ts'
import { signAccessesRequest } from '../../src/wire/joint/joint-accesses.ts'
import { TALLY } from '../support/joint.ts'
import { startJointStand } from '../support/joint-stand.ts'
import { startedForEach } from '../support/started.ts'

const stand = startedForEach(() => startJointStand())
const withdraw = async (extent: object, changes: object = {}) => {
  const withdrawal = stand.holders[0].withdrawal('bea', extent, changes)
  const reply = await stand.tally.request('/joint/withdrawal', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ withdrawal }),
  })
  return reply.status
}
const familyOf = async (token: unknown) =>
  (await stand.protection('/introspect', { token })).body.family as string

describe('A withdrawal', () => {
  test.each<[string, object, object]>([
    ['NUL in its account', { all: true }, { account: 'family-1\0' }],
    ['NUL in its issuer', { all: true }, { iss: 'https://as.example/\0' }],
    ['NUL in its holder', { all: true }, { holder: 'bea\0' }],
    ['NUL in its jti', { all: true }, { jti: 'wd\0' }],
    ['NUL in a negotiation', { negotiations: ['fam_1', 'fam\0'] }, {}],
    ['a negotiation of 300 characters', { negotiations: ['x'.repeat(300)] }, {}],
    ['a negotiation that is a number', { negotiations: [7] }, {}],
    ['half a character in a negotiation', { negotiations: ['fam_\ud800'] }, {}],
  ])('with %s is refused as one of no good form', async (_what, extent, changes) => {
    expect(await withdraw(extent, changes)).toBe(400)
  })
})

test('A grant is for no tool with NUL in its name: no holder could take back what she allowed', async () => {
  stand.holders[0].terms = { bea: { ask_me: true, per_operation: true } }
  const refused = await stand.ask(undefined, { operation: { tool: 'trade\0', params: {} } })
  expect([refused.status, refused.body.error]).toEqual([403, 'request_denied'])
  const { body } = await stand.ask(undefined, { operation: { tool: 'trade', params: { note: 'a\0' } } })
  expect(await withdraw({ negotiations: [await familyOf(body.access_token)] })).toBe(200)
})

describe('A report', () => {
  test('with NUL, or of a time that is none, is told as it can be kept, and costs no other report', async () => {
    const granted = await stand.ask()
    const family = await familyOf(granted.body.access_token)
    const entries = [
      { id: 'a', family, tool: 'read' },
      { id: 'b', family, tool: 're\0ad', summary: 'what\0' },
      { id: 'c', family, tool: 'read', at: 9e15 },
      { id: 'd', family, tool: 'read', at: 253_402_300_800 },
      { id: 'f', family, tool: 'read', at: 1_700_000_000 },
    ]
    const { status, body } = await stand.protection('/audit/access', { entries })
    expect([status, body]).toEqual([200, { recorded: 5 }])
    const [holder] = stand.holders
    const iat = Math.floor(Date.now() / 1_000)
    const claims = { iss: holder.issuer, aud: TALLY, holder: 'bea', account: 'family-1', iat, exp: iat + 60 }
    const token = signAccessesRequest(claims as Parameters<typeof signAccessesRequest>[0], holder.key)
    const read = await stand.tally.request('/joint/accesses/family-1', {
      headers: { authorization: `Bearer ${token}` },
    })
    const { accesses } = parseJointAccesses(read.body)
    const told = accesses.reverse().map(({ tool, summary }) => [tool, summary])
    expect(told.slice(0, 2)).toEqual([
      ['read', null],
      ['re\ufffdad', 'what\ufffd'],
    ])
    const years = accesses.map(({ at }) => new Date(at).getUTCFullYear())
    const now = new Date().getUTCFullYear()
    expect(years).toEqual([now, now, now, now, 2023])
  })
})
