/**
 * Contract, "Tally for a jointly held resource": a negotiation at a tally, from folded terms to a grant that
 * carries what the holders signed. The holders sign with keys of their own, over real sockets.
 */
import { describe, expect, test } from 'vitest'
import { parseJws, signJws } from '../../src/wire/signatures/jws.ts'
import { parseJwks } from '../../src/wire/signatures/keys.ts'
import { TYP } from '../../src/wire/names.ts'
import { verifyReceipt } from '../../src/wire/negotiation/receipt.ts'
import { row } from '../support/contract-row.ts'
import type { Reply } from '../support/authority.ts'
import { claimsOf } from '../support/holder.ts'
import { startJointStand } from '../support/joint-stand.ts'
import { TALLY } from '../support/joint.ts'
import { recount } from '../support/recount.ts'
import { connected } from '../support/postgres.ts'
import type { Reply as ScriptedReply } from '../support/scripted-http.ts'
import { startedForEach } from '../support/started.ts'
import { until } from '../support/until.ts'

const stand = startedForEach(() => startJointStand())
const told = (reply: Reply) => [reply.status, reply.body.error]
/** Whether a verdict came and did not count. */
const wasNotTaken = () => stand.tally.lines.some(line => line.includes('a verdict was not taken'))
const introspect = async ({ body }: Reply) =>
  (await stand.protection('/introspect', { token: body.access_token })).body

describe('the terms that a tally offers', () => {
  row('tally-terms', async () => {
    stand.holders[0].terms = { bea: { expires_in: 300, scope: ['read'], prohibited: ['training'] } }
    const { template } = await stand.offer()
    expect(template).toMatchObject({
      template_id: 'family-1/joint/v1',
      scope: ['read'],
      expires_in: 300,
      prohibited: ['resale', 'training'],
    })
    const at = new URL(template.terms_uri).pathname
    const json = await stand.tally.request(at)
    expect(json.body).toMatchObject({ template_id: template.template_id, expires_in: 300 })
    expect(json.body.holders).toHaveLength(3)
    const html = await stand.tally.request(at, { headers: { accept: 'text/html' } })
    const odrl = await stand.tally.request(`${at}?format=jsonld`)
    for (const { issuer } of stand.holders)
      for (const { text } of [html, odrl]) expect(text).toContain(issuer)
  })

  test('the same terms are the same version, and others the next', async () => {
    expect((await stand.offer()).template.template_id).toBe('family-1/joint/v1')
    expect((await stand.offer()).template.template_id).toBe('family-1/joint/v1')
    stand.holders[1].terms = { dora: { scope: ['read'] } }
    // Quotes are kept for a while, each for its resource.
    const other = await stand.present(await stand.ticket('family-1/deposit', 'open'))
    expect(other.body.required_claims[0].terms_template.template_id).toBe('family-1/joint/v2')
    const [first, second] = await Promise.all(
      [1, 2].map(version => stand.tally.request(`/terms/family-1/joint/v${version}`)),
    )
    expect([first!.body.scope, second!.body.scope]).toEqual([['read', 'trade'], ['read']])
  })

  test('a holder without terms counts as refusing: too few are left, and nothing is offered', async () => {
    stand.holders[1].terms = { carl: null, dora: null }
    expect(told(await stand.present(await stand.ticket()))).toEqual([403, 'request_denied'])
  })

  test('a holder who cannot be asked for terms: 503, and the sealed ticket is unspent', async () => {
    stand.holders[0].server.script('/joint/quote', { status: 500, body: {} })
    const ticket = await stand.ticket()
    const refused = await stand.present(ticket)
    expect([...told(refused), refused.body.ticket]).toEqual([503, 'temporarily_unavailable', ticket])
    stand.holders[0].server.script('/joint/quote', () => undefined)
    expect(told(await stand.present(ticket))).toEqual([403, 'need_info'])
  })
})

describe('a grant of a tally', () => {
  row('party-tally', async () => {
    const offer = await stand.offer()
    const first = await stand.agree(offer)
    expect(first.body).toMatchObject({ error: 'request_submitted', kind: 'operation' })
    const granted = await stand.settled(first)
    expect(granted.status).toBe(200)
    const rpt = parseJws(granted.body.access_token as string).payload as {
      joint: { mandate_s256: string; verdicts_s256: string[] }
    }
    const live = await introspect(granted)
    expect(live).toMatchObject({ active: true, owner: 'family-1', joint: { account: 'family-1' } })
    const { mandate, count } = await recount(stand, live)
    expect(count(live.joint.verdicts)).toMatchObject({ isSatisfied: true, faults: [] })
    // Signatures were asked for only once enough would allow.
    const asked = stand.holders[0].questions().map(({ final }) => final)
    expect(asked.slice(0, 2)).toEqual([false, true])
    expect(rpt.joint.verdicts_s256).toHaveLength(live.joint.verdicts.length)
    expect(rpt.joint.mandate_s256).toBe(mandate.mandate_s256)
    const keys = parseJwks((await stand.tally.request('/jwks')).body)
    const receipt = verifyReceipt(granted.body.receipt as string, keys, {
      issuer: TALLY,
      now: Math.floor(Date.now() / 1000),
    })
    expect(receipt.claims.joint).toEqual(live.joint)
  })

  test('polls wait for no holder, and nothing is granted while too few would allow', async () => {
    stand.holders[1].says = { carl: 'ask', dora: 'ask' }
    const first = await stand.agree(await stand.offer())
    const poll = await stand.present(first.body.ticket as string)
    expect(poll.body.error).toBe('request_submitted')
    expect(stand.holders.flatMap(one => one.questions()).every(({ final }) => final === false)).toBe(true)
    stand.holders[1].says = { carl: 'allow', dora: 'ask' }
    expect((await stand.settled(poll)).status).toBe(200)
  })

  test('it is refused as soon as the outstanding weight cannot reach the threshold', async () => {
    stand.holders[1].says = { carl: 'deny', dora: 'deny' }
    stand.holders[0].says = { bea: 'ask' }
    expect(told(await stand.ask())).toEqual([403, 'request_denied'])
  })

  test('one who refuses is outweighed by two who allow', async () => {
    stand.holders[0].says = { bea: 'deny' }
    const granted = await stand.ask()
    expect(granted.status).toBe(200)
    const { joint } = await introspect(granted)
    expect(joint.tally).toEqual({ weight: 2, threshold: 2, total_weight: 3 })
  })

  test.each<[string, ScriptedReply]>([
    ['falls silent', { status: 500, body: {} }],
    ['answers junk', { body: {} }],
    ['signs junk', { body: { verdict: 'e30.e30.AA' } }],
  ])(
    'one who was ready, and then %s, stops nobody: who is undecided goes on being asked',
    async (_what, reply) => {
      const [first, second] = stand.holders
      first.server.script('/joint/verdict', ({ body }) => (claimsOf(body).final === true ? reply : undefined))
      second.says = { carl: 'allow', dora: 'ask' }
      const submitted = await stand.agree(await stand.offer())
      await until(() => first.questions().some(({ final }) => final === true))
      second.says = { carl: 'allow', dora: 'allow' }
      const granted = await stand.settled(submitted)
      expect(told(granted)).toEqual([200, undefined])
      const asked = second.questions().filter(({ owner, closed }) => owner === 'dora' && closed !== true)
      expect(asked.map(({ final }) => final)).toEqual([...asked.slice(1).map(() => false), true])
    },
  )

  const ENDS: [string, Record<string, 'allow' | 'deny' | 'ask'>, (poll: Reply) => Promise<Reply>, string?][] =
    [
      ['it was granted', { bea: 'allow', carl: 'allow', dora: 'ask' }, poll => stand.settled(poll)],
      [
        'it was denied',
        { bea: 'deny', carl: 'deny', dora: 'ask' },
        poll => stand.settled(poll),
        'request_denied',
      ],
      [
        'the agent declined',
        { bea: 'ask', carl: 'ask', dora: 'ask' },
        poll => stand.present(poll.body.ticket as string, { decline: 'true' }),
        'request_denied',
      ],
    ]
  test.each(ENDS)(
    'after %s, who was still asked is told that nothing more will be',
    async (_what, says, end, error) => {
      for (const holder of stand.holders) holder.says = says
      const submitted = await stand.agree(await stand.offer())
      const questions = () => stand.holders.flatMap(one => one.questions())
      await until(() => new Set(questions().map(({ owner }) => owner)).size === 3)
      expect((await end(submitted)).body.error).toBe(error)
      const closed = () =>
        [...new Set(questions().flatMap(one => (one.closed === true ? [one.owner as string] : [])))].sort()
      const open = Object.keys(says).filter(owner => says[owner] === 'ask')
      await until(() => closed().length >= open.length)
      expect(closed()).toEqual(open)
    },
  )

  test.each(ENDS.filter(([, says]) => says['dora'] === 'ask'))(
    'after %s, who is reached by a question only then is told once more, and waits for nothing',
    async (_what, says, end, error) => {
      const [first, second] = stand.holders
      for (const holder of [first, second]) holder.says = says
      const ofDora = () => second.questions().filter(({ owner }) => owner === 'dora')
      const closings = () => ofDora().filter(({ closed }) => closed === true).length
      second.server.script('/joint/verdict', async ({ body }) => {
        const { owner, closed } = claimsOf(body)
        if (owner === 'dora' && closed !== true) await until(() => closings() > 0)
        return undefined
      })
      const submitted = await stand.agree(await stand.offer())
      await until(() => ofDora().length > 0)
      expect((await end(submitted)).body.error).toBe(error)
      await until(() => closings() > 1)
      expect(ofDora().map(({ closed }) => closed === true)).toEqual([false, true, true])
    },
  )

  test('it ends when the first of the verdicts that it rests on ends', async () => {
    stand.holders[0].allowance = { expires_in: 60 }
    stand.holders[1].says = { dora: 'ask' }
    const granted = await stand.ask()
    expect(granted.body.expires_in).toBeLessThanOrEqual(60)
  })

  /** Once she is among those by whom the one negotiation is approved. */
  const allowanceOfBeaRunsOut = () =>
    connected(stand.tally.environment['DATABASE_URL']!, async client => {
      await until(
        async () =>
          (await client.query(`SELECT FROM negotiations WHERE decision = 'approved'`)).rowCount === 1,
      )
      await client.query(
        `UPDATE answers SET allowed_until = extract(epoch FROM now()) - 1 WHERE holder = 'bea'`,
      )
    })

  test('an allowance that runs out before it is collected costs nothing where others suffice without it', async () => {
    const [, second] = stand.holders
    second.says = { dora: 'ask' }
    const submitted = await stand.agree(await stand.offer())
    await allowanceOfBeaRunsOut()
    second.says = {}
    const granted = await stand.settled(submitted)
    expect(told(granted)).toEqual([200, undefined])
    const { joint } = await introspect(granted)
    const by = (joint.verdicts as string[]).map(one => (parseJws(one).payload as { holder: string }).holder)
    expect(by).toEqual(['carl', 'dora'])
  })

  test('allowances that run out before they are collected are denied where too few are left', async () => {
    stand.holders[1].says = { dora: 'deny' }
    const submitted = await stand.agree(await stand.offer())
    await allowanceOfBeaRunsOut()
    expect(told(await stand.settled(submitted))).toEqual([403, 'request_denied'])
  })

  test.each([
    ['of another key', { cnf_jkt: 'somebody-else' }],
    ['that is narrower', { scope: ['trade'] }],
    ['to another tally', { aud: 'https://other.example' }],
    ['of another holder', { holder: 'carl' }],
  ])('a verdict %s is not taken', async (_name, allowance) => {
    stand.holders[0].allowance = allowance
    stand.holders[1].says = { dora: 'deny' }
    const submitted = await stand.agree(await stand.offer())
    await until(wasNotTaken)
    const poll = await stand.present(submitted.body.ticket as string)
    expect(poll.body.error).toBe('request_submitted')
  })

  test('a verdict under another mandate is a refusal: she signs once, so there will be no other', async () => {
    stand.holders[0].allowance = { mandate_s256: 's256:other' }
    stand.holders[1].says = { dora: 'deny' }
    expect(told(await stand.ask())).toEqual([403, 'request_denied'])
  })

  test('what one holder signed is no answer of her co-holder at the same server', async () => {
    const [first, second] = stand.holders
    first.says = { bea: 'deny' }
    second.resigned = compact => {
      const { payload } = parseJws(compact)
      return signJws({ typ: TYP.verdict, payload: { ...payload, holder: 'carl' } }, second.key)
    }
    const submitted = await stand.agree(await stand.offer())
    await until(wasNotTaken)
    const poll = await stand.present(submitted.body.ticket as string)
    expect(poll.body.error).toBe('request_submitted')
  })

  test('terms per operation make it single-use, bound to the parameters, and spent once', async () => {
    stand.holders[0].terms = { bea: { ask_me: true, per_operation: true } }
    const granted = await stand.ask(undefined, { operation: { tool: 'trade', params: { qty: 3 } } })
    expect(granted.status).toBe(200)
    expect(await introspect(granted)).toMatchObject({ single_use: true, operation: { tool: 'trade' } })
    const spend = async () =>
      (await stand.protection('/consume', { token: granted.body.access_token })).body as object
    expect(await spend()).toMatchObject({ consumed: true })
    expect(await spend()).toEqual({ consumed: false, error: 'already_consumed' })
  })

  test('a report of a call is kept once', async () => {
    const granted = await stand.ask()
    const { family } = await introspect(granted)
    const report = { entries: [{ id: 'call-1', family, tool: 'read' }] }
    expect((await stand.protection('/audit/access', report)).body).toEqual({ recorded: 1 })
    expect((await stand.protection('/audit/access', report)).body).toEqual({ recorded: 0 })
  })
})
