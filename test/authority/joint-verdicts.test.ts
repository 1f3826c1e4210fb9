/** Her signed answer to a tally: contract, "Tally for a jointly held resource". */
import { sql } from 'kysely'
import { afterEach, describe, expect, it } from 'vitest'
import { resumeOwner } from '../../src/storage/authority/owners/owner-lives.ts'
import { lockQueue } from '../../src/storage/authority/owners/owners.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import { s256 } from '../../src/wire/encoding.ts'
import { parseJwks } from '../../src/wire/signatures/keys.ts'
import { verifyVerdict } from '../../src/wire/joint/verdict.ts'
import { row } from '../support/contract-row.ts'
import { ACCOUNT, JOINT_TIER, SAVINGS, startJointStand } from '../support/joint-holder.ts'
import { lockWaiters } from '../support/lock-waiters.ts'
import { startedOnce } from '../support/started.ts'
import { askedHolder } from '../support/tally-requests.ts'
import { until } from '../support/until.ts'

const stand = startedOnce(() => startJointStand())
const she = askedHolder(stand)
const { question, asked, pending, decide, known } = she
async function read(verdict: string) {
  const { body } = await stand.authority.request('GET', '/jwks')
  return verifyVerdict(verdict, parseJwks(body), { issuer: stand.authority.issuer, audience: stand.tally })
}
const OPERATOR = 'https://operator.test'
const actOn = (act: 'block' | 'unblock') =>
  stand.authority.call(stand.bea, {
    method: 'POST',
    target: `/owner/operators/${act}`,
    json: { origin: OPERATOR },
  })
afterEach(async () => {
  stand.served.mandate = stand.mandate
  await stand.own('DELETE', `/${ACCOUNT}`)
  await stand.authority.call(stand.bea, { method: 'DELETE', target: '/owner/policies/savings' })
})

describe('a verdict', () => {
  row('joint-verdict', async () => {
    const first = question()
    const { status, body } = await asked({ ...first, final: false })
    expect([status, body]).toEqual([200, { pending: true, family: expect.any(String), ready: false }])
    // An agent unknown to her waits for her, whatever the tier, and the same answer is given finally.
    expect((await asked(first)).body).toEqual(body)
    expect(await pending()).toMatchObject([
      {
        family: body.family,
        kind: 'joint',
        account: ACCOUNT,
        rule: { kind: 'threshold', threshold: 2, total_weight: 3 },
        holders: stand.mandate['holders'],
        resource_id: SAVINGS,
        opens: [],
      },
    ])
    await decide(body.family)
    expect((await asked({ ...first, final: false })).body).toEqual({ ...body, ready: true })
    const signed = (await asked(first)).body
    const verdict = await read(signed.verdict)
    expect(verdict).toMatchObject({
      holder: 'bea',
      account: ACCOUNT,
      negotiation: first.negotiation,
      resource_id: SAVINGS,
      contract: first.contract,
      effect: 'allow',
      cnf_jkt: she.agent.thumbprint,
      scope: ['read'],
      expires_in: 300,
    })
    // Once per negotiation: asked again, she sends the same bytes.
    expect((await asked({ ...first, iat: first.iat - 1 })).body).toEqual(signed)
    const { body: connections } = await stand.authority.call(stand.bea, { target: '/owner/connections' })
    expect(connections).toContainEqual(
      expect.objectContaining({ handle: `jkt:${she.agent.thumbprint}`, reach: `joint:${ACCOUNT}` }),
    )
  })

  it('is given at once to an agent that she let in for the account', async () => {
    await known()
    const second = question()
    const { body } = await asked({ ...second, final: false })
    expect(body).toMatchObject({ pending: true, ready: true })
    expect(await pending()).toEqual([])
    expect(await read((await asked(second)).body.verdict)).toMatchObject({ effect: 'allow' })
  })

  it('is bound to the operation where she is asked about each use', async () => {
    await stand.authority.call(stand.bea, {
      method: 'PUT',
      target: '/owner/policies/savings',
      json: { ask_me: true },
    })
    const first = question({ per_operation: true })
    const { body } = await asked(first)
    await decide(body.family)
    expect(await read((await asked(first)).body.verdict)).toMatchObject({
      effect: 'allow',
      operation: { tool: 'pay', params_s256: expect.any(String) as unknown },
    })
    const again = await asked(question({ per_operation: true }))
    expect(again.body).toMatchObject({ pending: true, ready: false })
  })

  it('refuses what she denied, even if it is not asked finally', async () => {
    const first = question()
    const { body } = await asked({ ...first, final: false })
    await decide(body.family, 'denied')
    const answered = await asked({ ...first, final: false })
    expect(await read(answered.body.verdict)).toMatchObject({ effect: 'deny', because: 'denied' })
  })

  it('is for the question that was asked first under a negotiation', async () => {
    const first = question()
    await asked(first)
    const other = question({ family: first.negotiation, expires_in: 200 }, { negotiation: first.negotiation })
    expect((await asked(other)).status).toBe(409)
  })

  it('is not waited for any more if it is closed', async () => {
    const first = question()
    await asked(first)
    expect(await pending()).toHaveLength(1)
    for (const _again of [1, 2])
      expect((await asked({ ...first, closed: true })).body).toEqual({ closed: true })
    expect(await pending()).toEqual([])
  })

  it('refuses what she denied, even if it was closed before that was collected', async () => {
    const first = question()
    const { body } = await asked({ ...first, final: false })
    await decide(body.family, 'denied')
    await asked({ ...first, closed: true })
    const answered = await asked(first)
    expect(await read(answered.body.verdict)).toMatchObject({ effect: 'deny', because: 'denied' })
    expect(await pending()).toEqual([])
  })

  it('that refuses a stranger is counted in her ledger, minute by minute, and does not fill it', async () => {
    const entries = async () =>
      (await stand.authority.call(stand.bea, { target: '/owner/ledger?kind=joint_refused&limit=1000' })).body
        .entries as object[]
    const { length } = await entries()
    for (const _each of Array.from({ length: 6 })) await asked(question({ scope: ['close'] }))
    const added = (await entries()).slice(length)
    // The first of a minute at once, and its others as one: of two minutes, if the minute just changed.
    expect(added.length).toBeLessThan(4)
    expect(added.every(entry => 'strangers' in entry)).toBe(true)
  })

  it.each([
    ['a scope that she does not offer', { scope: ['read', 'close'] }],
    ['a longer time', { expires_in: 601 }],
    ['without what she prohibits', { prohibited: [] }],
    ['a purpose of the tally’s own', { purpose: 'whatever she likes to read' }],
    ['another resource', { resource_id: `${ACCOUNT}/other` }],
    ['another negotiation', { family: 'fam_other' }],
    ['another authorization server', { aud: 'https://as.elsewhere.example' }],
    ['a week ago', { iat: Math.floor(Date.now() / 1_000) - 8 * 86_400 }],
  ])('refuses an agreement to %s', async (_name, terms) => {
    await known()
    const { body } = await asked(question(terms))
    expect(await read(body.verdict)).toMatchObject({ effect: 'deny', because: 'terms' })
  })

  it('refuses an agreement that is not the one of the digest', async () => {
    await known()
    const { body } = await asked(question({}, { contract: s256('another') }))
    expect(await read(body.verdict)).toMatchObject({ effect: 'deny', because: 'terms' })
  })

  it.each<[because: string, change: () => Promise<unknown>, terms?: object]>([
    [
      'no_tier',
      () => stand.authority.call(stand.bea, { method: 'DELETE', target: '/owner/policies/savings' }),
    ],
    [
      'policy',
      () =>
        stand.authority.call(stand.bea, {
          method: 'PUT',
          target: '/owner/policies/savings',
          json: { rules: [{ when: ['request.reason_absent'], then: 'refuse' }] },
        }),
    ],
    [
      'mandate_changed',
      async () => {
        stand.served.mandate = { ...stand.mandate, rule: { kind: 'any', threshold: 1 } }
        await stand.own('POST', '/preview', { tally: stand.tally, account: ACCOUNT })
      },
    ],
    ['operator', () => actOn('block'), { client_id: `${OPERATOR}/client.json` }],
    [
      'clearance',
      () =>
        stand.authority.call(stand.bea, {
          method: 'PUT',
          target: '/owner/policies/savings',
          json: { clearance: { desk: ['markets'] } },
        }),
    ],
  ])('refuses, as %s, by what stands when it is asked', async (because, change, terms) => {
    await known()
    await change()
    const { body } = await asked({ ...question(terms), final: false })
    expect(await read(body.verdict)).toMatchObject({ effect: 'deny', because })
    expect(await pending()).toEqual([])
    await actOn('unblock')
  })

  it('waits for her again if she revoked the agent between her yes and the signing', async () => {
    const first = question()
    const { body } = await asked(first)
    await decide(body.family)
    await stand.authority.call(stand.bea, {
      method: 'POST',
      target: '/owner/connections/revoke',
      json: { handle: `jkt:${she.agent.thumbprint}` },
    })
    const answered = await asked(first)
    expect(await read(answered.body.verdict)).toMatchObject({ effect: 'deny', because: 'denied' })
  })

  it('is told as expired, and not given again, once she took it back', async () => {
    await known()
    const one = question()
    expect(await read((await asked(one)).body.verdict)).toMatchObject({ effect: 'allow' })
    await stand.authority.call(stand.bea, {
      method: 'POST',
      target: '/owner/connections/revoke',
      json: { handle: `jkt:${she.agent.thumbprint}` },
    })
    const { body } = await asked(one)
    expect(await read(body.verdict)).toMatchObject({ effect: 'deny', because: 'expired' })
  })

  it('is given to nobody for an account that she left', async () => {
    const first = question()
    await asked(first)
    await stand.own('DELETE', `/${ACCOUNT}`)
    const { status, body } = await asked(first)
    expect([status, body.reason]).toEqual([403, 'not_agreed'])
    expect(await pending()).toEqual([])
  })
})

describe('what she is asked about an account', () => {
  it('opens nothing else of hers', async () => {
    await known()
    const { rows } = { rows: await stand.authority.call(stand.bea, { target: '/owner/connections' }) }
    expect(rows.body).toContainEqual(expect.objectContaining({ reach: `joint:${ACCOUNT}` }))
    await stand.own('DELETE', `/${ACCOUNT}`)
    const { body } = await stand.authority.call(stand.bea, { target: '/owner/connections' })
    expect(body).toContainEqual(
      expect.objectContaining({ handle: `jkt:${she.agent.thumbprint}`, status: 'revoked' }),
    )
  })

  it('is signed once, however many ask at one time', async () => {
    await known()
    const one = question()
    const answers = await Promise.all(Array.from({ length: 8 }, () => asked(one)))
    expect(new Set(answers.map(({ body }) => body.verdict as string)).size).toBe(1)
  })

  it('is allowed or left, and never allowed after she left', async () => {
    await known()
    const one = question()
    const [answered, left] = await Promise.all([asked(one), stand.own('DELETE', `/${ACCOUNT}`)])
    expect(left.status).toBe(200)
    expect([200, 403, 503]).toContain(answered.status)
    expect((await asked(one)).status).toBe(403)
  })

  it.each<[string, () => Promise<unknown>]>([
    ['allowed', () => Promise.resolve()],
    [
      'refused',
      () => stand.authority.call(stand.bea, { method: 'DELETE', target: '/owner/policies/savings' }),
    ],
  ])(
    'that was taken back is not given to who asked at the same time, if it would be %s',
    async (_what, change) => {
      await known()
      await change()
      const { db } = stand.authority.database
      const one = question()
      const answering = await inTransaction(db, async tx => {
        await lockQueue(tx, stand.bea.owner)
        const under = asked(one)
        await until(async () => (await lockWaiters(stand.authority.database)) > 0)
        await sql`
        UPDATE joint_questions SET effect = 'allow', verdict = 'taken.back.now', signed_at = now(),
          collect_until = now() + interval '5 minutes', withdrawn_at = now()
        WHERE negotiation = ${one.negotiation}`.execute(tx)
        return { under }
      })
      const { body } = await answering.under
      expect(await read(body.verdict)).toMatchObject({ effect: 'deny', because: 'expired' })
      expect((await asked(one)).body).toEqual(body)
    },
  )

  it('is not given where access to what is hers was suspended while it was weighed', async () => {
    await known()
    const { db } = stand.authority.database
    const waits = async () => (await lockWaiters(stand.authority.database)) > 0
    const answering = await inTransaction(db, async tx => {
      await lockQueue(tx, stand.bea.owner)
      const under = asked(question())
      await until(waits)
      await sql`UPDATE owners SET suspended_at = now() WHERE owner = 'bea'`.execute(tx)
      return { under }
    })
    const { body } = await answering.under
    await inTransaction(db, tx => resumeOwner(tx, stand.bea.owner))
    expect(await read(body.verdict)).toMatchObject({ effect: 'deny', because: 'no_tier' })
  })

  it('is told by the metadata of the server', async () => {
    const { body } = await stand.authority.request('GET', '/.well-known/agents-configuration')
    expect(body).toMatchObject({
      joint_quote_endpoint: `${stand.authority.issuer}/joint/quote`,
      joint_verdict_endpoint: `${stand.authority.issuer}/joint/verdict`,
    })
    expect(JOINT_TIER.resources).toEqual([SAVINGS])
  })
})
