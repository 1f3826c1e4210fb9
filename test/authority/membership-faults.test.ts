/**
 * What is lost, held back or late between a member's authority and her organization, and a clock that is
 * wrong: contract, "Organization membership, on the member's authorization server", "Events" (organization
 * notice), "Errors" (503).
 */
import { sql } from 'kysely'
import { afterEach, describe, expect, it, onTestFinished } from 'vitest'
import type { Notice } from '../../src/wire/organization/notice.ts'
import type { Passage } from '../support/alternating-door.ts'
import { startTestAuthority } from '../support/authority.ts'
import { startFaultyStand } from '../support/faulty-membership.ts'
import { membershipCalls } from '../support/membership.ts'
import { startTestOrganization } from '../support/organization.ts'
import { startedOnce } from '../support/started.ts'
import { denyAll, protectionCall, testAgent, type ToolName } from '../support/test-agent.ts'
import { until } from '../support/until.ts'

const stand = startedOnce(() => startFaultyStand())
const introspect = async (token: string) => {
  const { body } = await protectionCall(stand.authority, '/introspect', { token })
  return body.active === true ? 'active' : (body.reason as string)
}
const first = async (tool: ToolName) => {
  const agent = testAgent(stand.authority)
  return agent.present(await agent.ticket(tool))
}

afterEach(async () => {
  stand.toOrganization.replicas.splice(0, 1, stand.organization.publicUrl)
  await denyAll(stand.authority)
  await stand.own('DELETE')
  await stand.takeBackJoins()
  await until(async () => (await stand.listed()) === undefined)
  await stand.publish({})
})

describe('A notice', () => {
  it('that is lost on the way is told until it arrives, and what it took away is gone then', async () => {
    await stand.joined()
    const { rpt } = await testAgent(stand.authority).granted('portfolio_read')
    const own = await testAgent(stand.authority).granted('statement_read')
    const [address] = stand.toAuthority.replicas.splice(0)
    await stand.move('traders')
    await until(async () => {
      await stand.hurryNotices()
      return (await stand.listed())!.notices_waiting === 1
    })
    expect(await introspect(rpt)).toBe('active')
    stand.toAuthority.replicas.push(address!)
    await stand.hurryNotices()
    await until(async () => {
      await stand.hurryNotices()
      return (await introspect(rpt)) === 'organization_revoked'
    })
    expect(await introspect(own.rpt)).toBe('active')
    await until(async () => (await stand.listed())!.notices_waiting === 0)
  })

  it('of a membership that has ended does nothing to the one that she has now', async () => {
    await stand.joined()
    const late = await stand.noticeOf({ kind: 'membership_ended', by: 'administrator' })
    await stand.own('DELETE')
    await until(async () => (await stand.listed()) === undefined)
    await stand.joined()
    const { rpt } = await testAgent(stand.authority).granted('portfolio_read')
    const before = await stand.epoch()
    const told = await stand.post(late)
    expect([told.status, told.body.error]).toEqual([409, 'conflict'])
    expect([await stand.isEnrolled(), await stand.epoch(), await introspect(rpt)]).toEqual([
      true,
      before,
      'active',
    ])
  })
})

describe('An organization that is down for eleven minutes', () => {
  it('is relied on no more: what it governs is 503 with a ticket to go on with, her own is unaffected', async () => {
    await stand.joined()
    const agent = testAgent(stand.authority)
    const governed = await agent.granted('portfolio_read')
    const own = await agent.granted('statement_read')
    const ticket = await agent.ticket('portfolio_read')
    const [address] = stand.toOrganization.replicas.splice(0)
    await stand.unheardFor(660)
    await stand.hurry('view')
    // It was asked in vain, and is to be asked again.
    await until(
      async () => (await stand.sql("SELECT 1 FROM due WHERE kind = 'view' AND at <= now()")).length === 0,
    )
    expect((await stand.own('GET')).body.stale).toBe(true)
    const out = await agent.present(ticket)
    expect([out.status, out.body.error, out.body.ticket]).toEqual([503, 'temporarily_unavailable', ticket])
    expect((await agent.granted('statement_read')).rpt).toBeDefined()
    expect((await first('statement_read')).body.error).toBe('need_info')
    // Nobody took anything away: what was granted is as it was.
    expect([await introspect(governed.rpt), await introspect(own.rpt)]).toEqual(['active', 'active'])
    stand.toOrganization.replicas.push(address!)
    await until(async () => {
      await stand.hurry('view')
      return (await stand.own('GET')).body.stale === false
    })
    expect((await agent.present(out.body.ticket)).body.error).toBe('need_info')
    expect(await introspect(governed.rpt)).toBe('active')
  })
})

describe('Views that overtake each other', () => {
  it('leave the later one in force, and the earlier one confirms nothing', async () => {
    await stand.joined()
    const asked: string[] = []
    const isView = ({ path }: Passage): boolean => {
      if (path === '/member/envelope') asked.push(path)
      return path === '/member/envelope'
    }
    await stand.publish({ envelope: { max_expires_in: 600 } })
    // The answer of now is on its way until a later one has come.
    const letThrough = stand.toOrganization.holdAnswers(isView)
    await stand.hurry('view')
    await until(() => asked.length > 0)
    await stand.publish({ envelope: { max_expires_in: 60 } })
    stand.toOrganization.holdAnswers(() => false)
    await stand.hurry('view')
    await until(async () => (await stand.own('GET')).body.max_expires_in === 60)
    await stand.unheardFor(30)
    letThrough()
    await until(() => stand.toOrganization.busy.every(busy => busy === 0))
    const { body } = await stand.own('GET')
    expect(body.max_expires_in).toBe(60)
  })

  it('and one that has not changed is confirmed by 304, with nothing settled anew', async () => {
    await stand.joined()
    await stand.unheardFor(300)
    const before = await stand.own('GET')
    await stand.hurry('view')
    await until(async () => (await stand.own('GET')).body.last_read !== before.body.last_read)
    const { body } = await stand.own('GET')
    expect([body.view, body.stale]).toEqual([before.body.view, false])
  })
})

describe('Of notices beyond six hundred in an hour', () => {
  const spentAgo = (minutes: number, count: number) =>
    sql`INSERT INTO spent_signatures (owner, digest, expires_at)
      SELECT 'alice', sha256((${`${minutes} `} || n)::bytea), now() + interval '8 days' - ${minutes} * interval '1 minute'
      FROM generate_series(1, ${count}::int) n`.execute(stand.authority.database.db)
  const forget = () =>
    sql`DELETE FROM spent_signatures WHERE owner = 'alice'`.execute(stand.authority.database.db)
  const told = async (notice: Notice) => stand.post(await stand.noticeOf(notice))

  it('what changes nothing by itself is told again later, and what ends something is taken', async () => {
    await stand.joined()
    const word: Notice = { kind: 'charter_changed', charter_version: 1 }
    await forget()
    onTestFinished(async () => void (await forget()))
    await spentAgo(61, 1_000)
    await spentAgo(10, 598)
    for (let times = 0; times < 2; times++) expect((await told(word)).status).toBe(200)
    const later = await stand.noticeOf(word)
    const refused = await stand.post(later)
    expect([refused.status, refused.body.error]).toEqual([429, 'temporarily_unavailable'])
    expect(refused.headers.get('retry-after')).toBe('600')
    expect((await told({ kind: 'role_changed', role: null })).status).toBe(200)
    await sql`UPDATE spent_signatures SET expires_at = expires_at - interval '1 hour' WHERE owner = 'alice'`.execute(
      stand.authority.database.db,
    )
    expect((await stand.post(later)).status).toBe(200)
  })
})

describe.each([30, -30])('An organization’s machine whose clock is off by %d s', seconds => {
  it('lets nobody join and tells nothing, while what others may not do without goes on', async () => {
    const wrong = await startTestOrganization({
      beside: stand.organization,
      localClock: () => Date.now() + seconds * 1_000,
    })
    const agreeing = await stand.agreeing(await stand.invited())
    stand.toOrganization.replicas.splice(0, 1, wrong.publicUrl)
    const refused = await stand.own('POST', '', agreeing)
    expect([refused.status, refused.body.error]).toEqual([503, 'temporarily_unavailable'])
    expect((await wrong.request('/ready')).status).toBe(503)
    expect(await stand.listed(wrong)).toBeUndefined()
    await wrong.close()
  })

  it('or which is judged by a server’s that is: its notices and calls are taken', async () => {
    await stand.joined()
    const iat = Math.floor(Date.now() / 1_000) + seconds
    const notice = await stand.noticeOf(
      { kind: 'charter_changed', charter_version: 1 },
      { iat, exp: iat + 300 },
    )
    expect((await stand.post(notice)).status).toBe(200)
  })
})

describe.each([30, -30])('A replica of her authority whose clock is off by %d s', seconds => {
  it('signs its calls by the time of the database: she joins, is asked about and leaves through it', async () => {
    const wrong = await startTestAuthority({
      beside: stand.authority,
      localClock: () => Date.now() + seconds * 1_000,
    })
    onTestFinished(() => wrong.close())
    expect((await wrong.request('GET', '/ready')).status).toBe(503)
    const own = membershipCalls(wrong, stand.alice)
    const code = await stand.invited()
    const { status, body } = await own('POST', '/preview', { code })
    expect([status, body.org]).toEqual([200, 'acme'])
    const { charter_version, binds_s256 } = body
    const joined = await own('POST', '', { code, agreed: true, charter_version, binds_s256 })
    expect([joined.status, joined.body.enrolled]).toEqual([200, true])
    expect((await stand.listed())!.owner).toBe('alice')
    expect((await own('DELETE')).status).toBe(200)
    await until(async () => (await stand.listed()) === undefined)
  })
})
