/**
 * Contract, "Tally for a jointly held resource": the tally and the enforcement point come to the same,
 * whatever the holders say. Each set of answers is given over real sockets, and collected by a real tally;
 * what its grant carries is then counted as an enforcement point counts.
 */
import { describe, expect, test } from 'vitest'
import { parseJws } from '../../src/wire/signatures/jws.ts'
import { claimsOf } from '../support/holder.ts'
import { newKey } from '../support/wire-samples.ts'
import { startJointStand } from '../support/joint-stand.ts'
import { connected } from '../support/postgres.ts'
import { recount } from '../support/recount.ts'
import { startedForEach } from '../support/started.ts'
import { negotiating } from '../support/tally-negotiation.ts'
import { until } from '../support/until.ts'

const HOLDERS = ['bea', 'carl', 'dora'] as const
const EACH_SET = Array.from({ length: 8 }, (_, bits) => HOLDERS.map((_holder, at) => (bits & (1 << at)) > 0))

/** The weights of the three, and how much must allow. */
const MANDATES: [string, number[], { kind: string; threshold: number }][] = [
  ['two of three', [1, 1, 1], { kind: 'threshold', threshold: 2 }],
  ['all', [1, 1, 1], { kind: 'all', threshold: 3 }],
  ['any', [1, 1, 1], { kind: 'any', threshold: 1 }],
  ['one alone, or the two others together', [2, 1, 1], { kind: 'threshold', threshold: 2 }],
  ['one with either of the others', [3, 1, 1], { kind: 'threshold', threshold: 4 }],
]

type Allowed = { holder: string; iat: number; expires_in: number }

const weightOf = (weights: number[], allows: boolean[]): number =>
  weights.reduce((sum, weight, at) => (allows[at] === true ? sum + weight : sum), 0)

describe.each(MANDATES)('where %s must allow', (_what, weights, rule) => {
  const stand = startedForEach(() => startJointStand({ weights, rule }))

  test('the tally grants where enough of them allow, and what it carries is enough for whoever counts again', async () => {
    for (const allows of EACH_SET) {
      const said = Object.fromEntries(HOLDERS.map((name, at) => [name, allows[at] ? 'allow' : 'deny']))
      for (const holder of stand.holders) holder.says = said as typeof holder.says
      const agent = newKey()
      const reply = await negotiating(stand.tally, agent).ask()
      const isEnough = weightOf(weights, allows) >= rule.threshold
      expect([said, reply.status, reply.body.error]).toEqual([
        said,
        ...(isEnough ? [200, undefined] : [403, 'request_denied']),
      ])
      if (!isEnough) continue
      const { body: live } = await stand.protection('/introspect', { token: reply.body.access_token })
      const { count } = await recount({ ...stand, agent }, live)
      const verdicts = live.joint.verdicts as string[]
      const carried = count(verdicts)
      expect(carried).toEqual({ isSatisfied: true, weight: live.joint.tally.weight, faults: [] })
      // A tally that leaves one out is believed no further than what is left.
      for (const dropped of verdicts) {
        const { weight, isSatisfied } = count(verdicts.filter(one => one !== dropped))
        expect(weight).toBeLessThan(carried.weight)
        expect(isSatisfied).toBe(weight >= rule.threshold)
      }
    }
  })

  test('the grant lasts as long as the set of allowances that lasts longest, and carries those that last as long', async () => {
    const lives = { bea: 60, carl: 300, dora: 200 }
    for (const holder of stand.holders) holder.lifetimes = lives
    // All are asked to sign before anybody did, so that all of them are kept before the agent collects.
    const signing = () => stand.holders.flatMap(one => one.questions()).filter(({ final }) => final === true)
    for (const { server } of stand.holders)
      server.script('/joint/verdict', async ({ body }) => {
        if (claimsOf(body).final === true) await until(() => signing().length === HOLDERS.length)
        return undefined
      })
    const submitted = await stand.agree(await stand.offer())
    await connected(stand.tally.environment['DATABASE_URL']!, client =>
      until(async () => (await client.query(`SELECT FROM answers WHERE state = 'allowed'`)).rowCount === 3),
    )
    const granted = await stand.settled(submitted)
    const { body: live } = await stand.protection('/introspect', { token: granted.body.access_token })
    const longest = Math.max(
      ...EACH_SET.filter(set => weightOf(weights, set) >= rule.threshold).map(set =>
        Math.min(...HOLDERS.filter((_, at) => set[at]).map(name => lives[name])),
      ),
    )
    const carried = (live.joint.verdicts as string[]).map(one => parseJws(one).payload as unknown as Allowed)
    expect(carried.map(({ holder }) => holder)).toEqual(HOLDERS.filter(name => lives[name] >= longest))
    expect(live.exp).toBe(Math.min(...carried.map(({ iat, expires_in }) => iat + expires_in)))
  })
})
