/**
 * Other names for what a tally sends and receives, which are accepted only if its operator lists them
 * (`UMA_TALLY_ALIASES`). Contract: "Tally for a jointly held resource".
 */
import { describe, expect, it } from 'vitest'
import { parseJws, signJws } from '../../src/wire/signatures/jws.ts'
import { TALLY_ALIAS, TYP } from '../../src/wire/names.ts'
import { TALLY } from '../support/joint.ts'
import { startJointStand, type JointStand } from '../support/joint-stand.ts'
import { startedOnce } from '../support/started.ts'
import { until } from '../support/until.ts'

const { tally: tallyMember, mandateEndpoint, verdictTyp, verdictWithdrawalTyp } = TALLY_ALIAS
const listed = [tallyMember, mandateEndpoint, verdictTyp, verdictWithdrawalTyp].join(',')
const plain = startedOnce(() => startJointStand({ rule: { kind: 'all' } }))
const aliased = startedOnce(() => startJointStand({ rule: { kind: 'all' } }, { UMA_TALLY_ALIASES: listed }))

const metadata = async (stand: JointStand) =>
  (await stand.tally.request('/.well-known/agents-configuration')).body as Record<string, unknown>

/** Whether bea's verdict is taken, signed anew under this `typ`. */
async function isTaken(stand: JointStand, typ: string, changes: object = {}): Promise<boolean> {
  const { key } = stand.holders[0]
  stand.holders[0].resigned = compact =>
    signJws({ typ, payload: { ...parseJws(compact).payload, ...changes } }, key)
  try {
    const before = stand.tally.lines.length
    const wasRefused = () =>
      stand.tally.lines.slice(before).some(line => line.includes('a verdict was not taken'))
    let poll = await stand.agree(await stand.offer())
    await until(async () => {
      if (wasRefused()) return true
      if (poll.body.error === 'request_submitted') poll = await stand.present(poll.body.ticket as string)
      return poll.body.error !== 'request_submitted'
    })
    return poll.status === 200
  } finally {
    stand.holders[0].resigned = undefined
  }
}

async function withdrawn(stand: JointStand, typ: string): Promise<number> {
  const { payload } = parseJws(stand.holders[0].withdrawal('bea', { all: true }))
  const withdrawal = signJws({ typ, payload }, stand.holders[0].key)
  const headers = { 'content-type': 'application/json' }
  const body = JSON.stringify({ withdrawal })
  return (await stand.tally.request('/joint/withdrawal', { method: 'POST', headers, body })).status
}

describe('The metadata of a tally', () => {
  it('says so under other names too where those are listed, and under the contract’s always', async () => {
    const own = { ext_tally: true, ext_mandate_endpoint: `${TALLY}/mandate` }
    expect(await metadata(aliased)).toMatchObject({
      ...own,
      [tallyMember]: true,
      [mandateEndpoint]: `${TALLY}/mandate`,
    })
    const said = await metadata(plain)
    expect(said).toMatchObject(own)
    expect(Object.keys(said).filter(name => name.startsWith('u4a'))).toEqual([])
  })
})

describe('A verdict', () => {
  it('is taken under another name where that is listed, and may leave out aud under that alone', async () => {
    expect(await isTaken(aliased, TYP.verdict)).toBe(true)
    expect(await isTaken(aliased, verdictTyp)).toBe(true)
    expect(await isTaken(aliased, verdictTyp, { aud: undefined })).toBe(true)
    expect(await isTaken(aliased, TYP.verdict, { aud: undefined })).toBe(false)
    expect(await isTaken(aliased, verdictTyp, { aud: 'https://other.example' })).toBe(false)
    expect(await isTaken(aliased, verdictWithdrawalTyp)).toBe(false)
  })

  it('is taken under the contract’s name alone if nothing is listed', async () => {
    expect(await isTaken(plain, TYP.verdict)).toBe(true)
    expect(await isTaken(plain, verdictTyp)).toBe(false)
  })
})

describe('A withdrawal', () => {
  it('is taken under another name where that is listed, and one kind passes for no other', async () => {
    for (const typ of [TYP.verdictWithdrawal, verdictWithdrawalTyp])
      expect(await withdrawn(aliased, typ)).toBe(200)
    expect(await withdrawn(aliased, verdictTyp)).toBe(401)
    expect([
      await withdrawn(plain, TYP.verdictWithdrawal),
      await withdrawn(plain, verdictWithdrawalTyp),
    ]).toEqual([200, 401])
  })
})
