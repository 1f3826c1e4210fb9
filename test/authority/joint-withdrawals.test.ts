/**
 * What a holder takes back, told to her tally until it has taken it: contract, "Tally for a jointly held
 * resource".
 */
import { sql } from 'kysely'
import { beforeEach, describe, expect, it } from 'vitest'
import { endAfterRestore } from '../../src/authority/administration/after-restore.ts'
import type { JsonObject } from '../../src/wire/json.ts'
import {
  generatePrivateJwk,
  importPrivateJwk,
  parseJwks,
  type PrivateKey,
} from '../../src/wire/signatures/keys.ts'
import { verifyVerdict, verifyWithdrawal, type VerdictRequest } from '../../src/wire/joint/verdict.ts'
import type { Reply } from '../support/authority.ts'
import { startAuthorityProcess } from '../support/authority-process.ts'
import { ACCOUNT, startJointStand } from '../support/joint-holder.ts'
import { startedForEach } from '../support/started.ts'
import { ask, questionOf } from '../support/tally-requests.ts'
import { until } from '../support/until.ts'
import { DUE_CHANNEL } from '../../src/storage/authority/due.ts'
import { dueAtOnce } from '../support/due.ts'

const WITHDRAWAL = '/joint/withdrawal'

const stand = startedForEach(() => startJointStand())
let agent: PrivateKey

const rows = async <Row>(text: string) =>
  (await sql.raw<Row & JsonObject>(text).execute(stand.authority.database.db)).rows
const waiting = () => rows<{ id: string; attempts: number }>('SELECT id, attempts FROM joint_withdrawals')
/** What is due is due now; a replica that finds nothing more to tell says that nothing is due. */
const settled = async () => {
  await rows("UPDATE due SET at = now() WHERE kind = 'withdraw' AND at < now() + interval '5 seconds'")
  await rows(`SELECT pg_notify('${DUE_CHANNEL}', 'withdraw')::text`)
  return (await rows("SELECT 1 FROM due WHERE kind = 'withdraw'")).length === 0
}
const keys = async () => parseJwks((await stand.authority.request('GET', '/jwks')).body)
/** All that came to the tally, each verified as it does. */
async function told() {
  const published = await keys()
  const expected = {
    issuer: stand.authority.issuer,
    audience: stand.tally,
    now: Math.floor(Date.now() / 1_000),
  }
  return stand.server.to(WITHDRAWAL).map(({ body }) => {
    const { withdrawal } = JSON.parse(body.toString()) as { withdrawal: string }
    return verifyWithdrawal(withdrawal, published, expected)
  })
}
const own = (method: 'POST' | 'PUT' | 'DELETE', target: string, json?: object): Promise<Reply> =>
  stand.authority.call(stand.bea, { method, target, ...(json === undefined ? {} : { json }) })
const revoke = () => own('POST', '/owner/connections/revoke', { handle: `jkt:${agent.thumbprint}` })
const edit = (changes: object) => own('PUT', '/owner/policies/savings', changes)

/** A question that bea allowed, by her yes where the agent is new to her. */
async function allowed(terms: object = {}): Promise<VerdictRequest> {
  const question = questionOf(stand, agent, terms)
  const { body } = await ask(stand, 'verdict', { ...question, final: false })
  expect(body.pending).toBe(true)
  if (body.ready === false)
    await own('POST', `/owner/pending/${body.family}/decision`, { decision: 'approved' })
  expect((await effectOf(question)).effect).toBe('allow')
  return question
}
async function effectOf(question: VerdictRequest) {
  const { body } = await ask(stand, 'verdict', question)
  return verifyVerdict(body.verdict, await keys(), { issuer: stand.authority.issuer, audience: stand.tally })
}

beforeEach(async () => {
  agent = importPrivateJwk(generatePrivateJwk())
  await stand.agreed()
  await stand.tier()
})

describe('Revoking an agent', () => {
  it('takes back what she allowed it, once it is acknowledged never again', async () => {
    const [first, second] = [await allowed(), await allowed()]
    const { status, body } = await revoke()
    expect([status, body.joint_withdrawals_waiting]).toEqual([200, undefined])
    await until(settled)
    const [withdrawal, ...more] = await told()
    expect(more).toEqual([])
    expect(withdrawal).toEqual({
      iss: stand.authority.issuer,
      aud: stand.tally,
      holder: 'bea',
      account: ACCOUNT,
      iat: expect.any(Number) as number,
      exp: withdrawal!.iat + 300,
      jti: expect.any(String) as string,
      negotiations: expect.arrayContaining([first.negotiation, second.negotiation]) as string[],
    })
    expect(withdrawal).toHaveProperty('negotiations.length', 2)
    // What she signed is given to nobody any more; the refusal in its place is the same at each asking.
    const refused = (await ask(stand, 'verdict', first)).body
    expect(await effectOf(first)).toMatchObject({ effect: 'deny' })
    expect((await ask(stand, 'verdict', first)).body).toEqual(refused)
    expect(await revoke()).toMatchObject({ status: 200 })
    expect(await told()).toHaveLength(1)
  })

  it('tells nobody of an agent that she allowed nothing', async () => {
    await allowed()
    const other = importPrivateJwk(generatePrivateJwk())
    await ask(stand, 'verdict', questionOf(stand, other))
    await own('POST', '/owner/connections/revoke', { handle: `jkt:${other.thumbprint}` })
    expect(await settled()).toBe(true)
    expect(await told()).toEqual([])
  })

  it('names at most 100 negotiations at a time', async () => {
    const { negotiation } = await allowed()
    await rows(`INSERT INTO joint_questions (owner, tally, account, negotiation, family, resource_id, contract,
        effect, verdict, handle, relied_until)
      SELECT owner, tally, account, 'fam_many_' || n, 'fam_hers_' || n, resource_id, contract, effect, verdict, handle,
        relied_until FROM joint_questions, generate_series(1, 120) n WHERE negotiation = '${negotiation}'`)
    await revoke()
    const extents = (await told()).map(one => ('all' in one ? [] : one.negotiations))
    expect(extents.map(({ length }) => length)).toEqual([100, 21])
    expect(new Set(extents.flat()).size).toBe(121)
  })

  it('leaves no verdict that is signed meanwhile out', async () => {
    await allowed()
    const questions = Array.from({ length: 12 }, () => questionOf(stand, agent))
    const asked = questions.map(question => ask(stand, 'verdict', question))
    await asked[0]
    await revoke()
    await Promise.all(asked)
    await until(settled)
    const gone = new Set((await told()).flatMap(one => ('all' in one ? [] : one.negotiations)))
    const left = await rows<{ negotiation: string }>(
      "SELECT negotiation FROM joint_questions WHERE effect = 'allow' AND withdrawn_at IS NULL",
    )
    expect(left).toEqual([])
    const taken = await rows<{ negotiation: string }>(
      'SELECT negotiation FROM joint_questions WHERE withdrawn_at IS NOT NULL',
    )
    expect(new Set(taken.map(({ negotiation }) => negotiation))).toEqual(gone)
  })
})

describe('What she allowed is taken back, too, where', () => {
  it('she blocks the operator that the agent named', async () => {
    const client_id = 'https://op.test/agent.json'
    const { negotiation } = await allowed({ client_id })
    await own('POST', '/owner/operators/block', { origin: 'https://op.test' })
    expect(await told()).toMatchObject([{ negotiations: [negotiation] }])
  })

  it('she leaves the account: all of it', async () => {
    await allowed()
    const { body } = await stand.own('DELETE', `/${ACCOUNT}`)
    expect(body).toEqual({ left: ACCOUNT })
    const [withdrawal, ...more] = await told()
    expect(withdrawal).toMatchObject({ holder: 'bea', account: ACCOUNT, all: true })
    expect(more).toEqual([])
  })

  it('her server was restored to a time before it, and so knows nothing of it: all of it', async () => {
    const [before, after] = [await allowed(), await allowed()]
    await rows(`DELETE FROM joint_questions WHERE negotiation = '${after.negotiation}'`)
    await endAfterRestore(stand.authority.database.db, new Date())
    await until(settled)
    expect(await told()).toMatchObject([{ holder: 'bea', account: ACCOUNT, all: true }])
    expect((await effectOf(before)).effect).toBe('deny')
  })

  it('she deletes the tier', async () => {
    const { negotiation } = await allowed()
    await own('DELETE', '/owner/policies/savings')
    expect(await told()).toMatchObject([{ negotiations: [negotiation] }])
  })

  it('her tier lets it through no more, and not if it still does', async () => {
    const [short, long] = [await allowed(), await allowed({ expires_in: 500 })]
    expect((await edit({ name: 'Family savings', terms: { scope: ['read'] } })).status).toBe(200)
    expect(await told()).toEqual([])
    await edit({ terms: { expires_in: 400 } })
    expect(await told()).toMatchObject([{ negotiations: [long.negotiation] }])
    await edit({ rules: [{ when: ['request.reason_absent'], then: 'refuse' }] })
    expect(await told()).toMatchObject([{}, { negotiations: [short.negotiation] }])
  })

  it('the tally serves another mandate than she agreed to', async () => {
    const { negotiation } = await allowed()
    stand.served.mandate = { ...stand.mandate, rule: { kind: 'any', threshold: 1 } }
    await stand.own('POST', '/preview', { tally: stand.tally, account: ACCOUNT })
    expect(await effectOf(questionOf(stand, agent))).toMatchObject({ because: 'mandate_changed' })
    await until(settled)
    expect(await told()).toMatchObject([{ negotiations: [negotiation] }])
  })

  it('she agrees to another mandate', async () => {
    const { negotiation } = await allowed()
    stand.served.mandate = { ...stand.mandate, rule: { kind: 'any', threshold: 1 } }
    expect((await stand.agreed()).status).toBe(200)
    await until(settled)
    expect(await told()).toMatchObject([{ negotiations: [negotiation] }])
  })
})

describe('A tally that does not take it', () => {
  it('is told again after its outage, under the same jti, and she knows how many wait', async () => {
    await allowed()
    stand.server.script(WITHDRAWAL, { status: 503 })
    const { status, body } = await revoke()
    expect([status, body.joint_withdrawals_waiting]).toEqual([200, 1])
    const [kept] = await waiting()
    await until(async () => {
      await settled()
      return (await waiting())[0]!.attempts > 1
    })
    stand.server.script(WITHDRAWAL, { body: { withdrawn: 1 } })
    await until(async () => {
      await dueAtOnce(stand.authority.database, 'withdraw')
      return (await waiting()).length === 0
    })
    await until(settled)
    const attempts = await told()
    expect(attempts.length).toBeGreaterThan(2)
    expect(new Set(attempts.map(({ jti }) => jti))).toEqual(new Set([kept!.id]))
  })

  it('keeps her call for 2 s', async () => {
    await allowed()
    stand.server.script(WITHDRAWAL, { write: () => {} })
    const { body } = await revoke()
    expect(body.joint_withdrawals_waiting).toBe(1)
  })

  it('has taken it if it says that it came before', async () => {
    await allowed()
    stand.server.script(WITHDRAWAL, { status: 409, body: { error: 'conflict' } })
    expect((await revoke()).body.joint_withdrawals_waiting).toBeUndefined()
    expect(await waiting()).toEqual([])
  })

  it('is told until nothing can rest on what she took back', async () => {
    await allowed()
    stand.server.script(WITHDRAWAL, { status: 401, body: { error: 'invalid_token' } })
    expect((await revoke()).body.joint_withdrawals_waiting).toBe(1)
    await rows("UPDATE joint_withdrawals SET matters_until = now() - interval '1 second'")
    await until(async () => {
      await dueAtOnce(stand.authority.database, 'withdraw')
      return (await waiting()).length === 0
    })
  })

  it('is told by another replica if the one that wrote it is killed', async () => {
    const doomed = await startAuthorityProcess(stand.authority)
    const { negotiation } = await allowed()
    stand.server.script(WITHDRAWAL, (_received, nth) =>
      nth === 1 ? { write: () => doomed.kill() } : { body: { withdrawn: 1 } },
    )
    const call = {
      method: 'POST' as const,
      target: '/owner/connections/revoke',
      json: { handle: `jkt:${agent.thumbprint}` },
    }
    await expect(doomed.own(call)).rejects.toThrow()
    await until(async () => (await waiting()).length === 0)
    const [first, second, ...more] = await told()
    expect(more).toEqual([])
    expect(second).toMatchObject({ jti: first!.jti, negotiations: [negotiation] })
    await doomed.close()
  })
})
