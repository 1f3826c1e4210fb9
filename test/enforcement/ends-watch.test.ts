/**
 * What an enforcement point holds against `judged` in an authority's answers: docs/choices.md, "What judged a
 * call". Contract: "Grant (RPT) liveness", "Enforcement order (normative)" (a refusal before the last step
 * leaves the grant unspent).
 */
import { describe, expect, it } from 'vitest'
import { createEndsWatch } from '../../src/enforcement/authorities/ends-watch.ts'
import { readRecord, recordLine } from '../../src/enforcement/reports/segment.ts'
import { asFamily } from '../../src/wire/identifiers.ts'
import { until } from '../support/until.ts'
import { coreStand, TRADE_PARAMS } from './core.ts'

const stand = coreStand()
const { agent, authority, standing, singleUse } = stand

const trade = { tool: 'place_trade', args: TRADE_PARAMS, digest: true }
const decide = (token: string, more: object = {}) => stand.decide({ token, signer: agent, ...more })
const lastLine = () => stand.core.lines.at(-1)!
const judgedNow = (ends: number, awayMs = 0) => ({ judged: { ends, at: Date.now() + awayMs } })
const reported = async () => {
  await until(() => authority.count('/audit/access') > 0)
  return authority.received
    .filter(({ path }) => path === '/audit/access')
    .flatMap(({ body }) => {
      const sent = JSON.parse(body) as Record<string, unknown>
      return (sent['entries'] as Record<string, unknown>[] | undefined) ?? [sent]
    })
}

describe('An answer about a grant is an outage, and the grant stays unspent,', () => {
  it.each([
    ['ahead', 61_000],
    ['behind', -61_000],
  ])('if the clock of the database is over a minute %s', async (_way, awayMs) => {
    const outcome = await decide(singleUse({}, judgedNow(1, awayMs)), trade)
    expect(outcome).toMatchObject({ kind: 'deny', status: 503 })
    expect(authority.count('/consume')).toBe(0)
    expect(lastLine()['detail']).toMatch(/clock of the authority's database is 6[01] s from the clock here/)
  })

  it.each([
    ['ahead', 55_000],
    ['behind', -55_000],
  ])('but not if that clock is less than a minute %s', async (_way, awayMs) => {
    expect(await decide(standing({}, judgedNow(1, awayMs)))).toMatchObject({ kind: 'allow' })
  })

  it('if it counts fewer ends than an answer that came before the question', async () => {
    expect(await decide(standing({}, judgedNow(5)))).toMatchObject({ kind: 'allow' })
    expect(await decide(singleUse({}, judgedNow(4)), trade)).toMatchObject({ kind: 'deny', status: 503 })
    expect(authority.count('/consume')).toBe(0)
    expect(lastLine()['detail']).toMatch(/knows of 4 acts .*, and knew of 5 before/)
    expect(await decide(singleUse({}, judgedNow(5)), trade)).toMatchObject({ kind: 'allow' })
  })

  it('if it counts fewer ends than a consume that won before', async () => {
    authority.script('/consume', { status: 200, body: { consumed: true, ...judgedNow(9) } })
    expect(await decide(singleUse({}, judgedNow(7)), trade)).toMatchObject({ kind: 'allow' })
    expect(await decide(standing({}, judgedNow(8)))).toMatchObject({ kind: 'deny', status: 503 })
  })

  it('but not if it counts fewer ends than an answer that came after the question', async () => {
    const late = standing({}, judgedNow(1))
    let answer: () => void = () => undefined
    const later = new Promise<void>(resolve => (answer = resolve))
    authority.script('/introspect', (_received, nth) =>
      nth === 1 ? { after: later } : { after: Promise.resolve() },
    )
    const first = decide(late)
    await until(() => authority.count('/introspect') === 1)
    expect(await decide(standing({}, judgedNow(2)))).toMatchObject({ kind: 'allow' })
    answer()
    expect(await first).toMatchObject({ kind: 'allow' })
  })

  it.each<[string, unknown]>([
    ['no object', 'soon'],
    ['without a time', { ends: 1 }],
    ['with a count below 0', { ends: -1, at: 1 }],
    ['with a time that is no whole number', { ends: 1, at: 1.5 }],
  ])('but not if its `judged` is %s, because that says nothing', async (_what, judged) => {
    expect(await decide(standing({}, { judged }))).toMatchObject({ kind: 'allow' })
    expect(lastLine()).not.toHaveProperty('judged')
  })

  it('but not because of what was said about another owner', () => {
    const clock = Date.now
    const [one, other] = [createEndsWatch({ clock }), createEndsWatch({ clock })]
    one.takeLive(judgedNow(5).judged, one.expected())
    expect(other.takeLive(judgedNow(1).judged, other.expected())).toMatchObject({ ends: 1 })
  })
})

describe('The record of a call has `judged`', () => {
  it('in the decision log, with iat, and in the report: of a standing grant, what introspection said', async () => {
    const { judged } = judgedNow(3)
    await decide(standing({}, { judged }))
    expect(lastLine()).toMatchObject({ decision: 'allow', judged })
    expect(lastLine()['iat']).toEqual(expect.any(Number))
    expect(await reported()).toEqual([expect.objectContaining({ judged })])
  })

  it('of a grant for a single use, what the consume said, or introspection if the consume says nothing', async () => {
    const [first, { judged }] = [judgedNow(3), judgedNow(4)]
    await decide(singleUse({}, first), trade)
    expect(lastLine()).toMatchObject(first)
    authority.script('/consume', { status: 200, body: { consumed: true, judged } })
    await decide(singleUse({}, first), trade)
    expect(lastLine()).toMatchObject({ decision: 'allow', judged })
    await until(async () => (await reported()).length === 2)
    expect((await reported()).map(report => report['judged'])).toEqual([first.judged, judged])
  })

  it('of introspection, if the consume names a time that would convict us', async () => {
    const [first, old] = [judgedNow(3), judgedNow(4, -61_000)]
    authority.script('/consume', { status: 200, body: { consumed: true, ...old } })
    expect(await decide(singleUse({}, first), trade)).toMatchObject({ kind: 'allow' })
    expect(lastLine()).toMatchObject({ decision: 'allow', ...first })
    const ahead = judgedNow(5, 61_000)
    authority.script('/consume', { status: 200, body: { consumed: true, ...ahead } })
    expect(await decide(singleUse({}, judgedNow(4)), trade)).toMatchObject({ kind: 'allow' })
    expect(lastLine()).toMatchObject(ahead)
  })

  it('also if the call is refused after its grant was found live', async () => {
    const { judged } = judgedNow(3)
    await decide(standing({}, { judged }), { signer: undefined })
    expect(lastLine()).toMatchObject({ decision: 'deny', judged })
  })

  it('also in reports that wait in files', () => {
    const { judged } = judgedNow(3)
    const record = { n: 1, family: asFamily('fam_test'), tool: 'portfolio_read', summary: 'x', at: 1, judged }
    expect(readRecord(recordLine(record).slice(0, -1))).toEqual(record)
  })

  it('but not if the authority says nothing of it', async () => {
    await decide(standing())
    expect(lastLine()).not.toHaveProperty('judged')
    expect(lastLine()).not.toHaveProperty('iat')
    expect((await reported())[0]).not.toHaveProperty('judged')
  })
})
