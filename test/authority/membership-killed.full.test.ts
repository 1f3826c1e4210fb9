/**
 * An organization that is a process and is killed outright: contract, "Organization membership, on the
 * member's authorization server", "Events" (organization notice), "Errors" (503).
 */
import { describe, expect, it } from 'vitest'
import { beginRemoval } from '../../src/storage/authority/owners/removals.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import { parseJws } from '../../src/wire/signatures/jws.ts'
import type { Passage } from '../support/alternating-door.ts'
import { isJoin, startFaultyStand } from '../support/faulty-membership.ts'
import { startedForEach } from '../support/started.ts'
import { protectionCall, testAgent } from '../support/test-agent.ts'
import { until } from '../support/until.ts'

const stand = startedForEach(() => startFaultyStand({ asProcess: true }))
const introspect = async (token: string) => {
  const { body } = await protectionCall(stand.authority, '/introspect', { token })
  return body.active === true ? 'active' : (body.reason as string)
}

/**
 * The notices that come to the door of the authority, attempt by attempt, as whoever passes by reads them.
 */
function overheard(lose: (nth: number) => boolean, meanwhile?: () => Promise<void>) {
  const jtis: unknown[] = []
  const hear = (passage: Passage): boolean => {
    if (passage.path !== '/org/notice') return false
    const { notice } = JSON.parse(passage.body) as { notice: string }
    jtis.push(parseJws(notice).payload['jti'])
    return lose(jtis.length)
  }
  const again = (): void =>
    stand.toAuthority.loseAnswer(hear, async () => {
      await meanwhile?.()
      again()
    })
  again()
  return jtis
}

describe('An organization that is killed between its join and ours', () => {
  it('makes nobody a member here: 503, the join is taken back, and she joins anew', async () => {
    const agreeing = await stand.agreeing(await stand.invited())
    stand.toOrganization.loseAnswer(isJoin, () => stand.organization.kill())
    const lost = await stand.own('POST', '', agreeing)
    expect([lost.status, lost.body.error]).toEqual([503, 'temporarily_unavailable'])
    expect(await stand.isEnrolled()).toBe(false)
    const survivor = await stand.another()
    // It had made her one before it was killed, and nobody else knows.
    expect(await stand.listed(survivor)).toBeDefined()
    expect((await stand.own('POST', '', agreeing)).body.reason).toBe('join_in_progress')
    await stand.takeBackJoins()
    expect(await stand.listed(survivor)).toBeUndefined()
    const json = { owner: 'alice', as_uri: stand.authority.issuer }
    const invited = await survivor.admin({ method: 'POST', target: '/admin/invites', json })
    const { status } = await stand.own('POST', '', await stand.agreeing(invited.body.code as string))
    expect([status, await stand.isEnrolled()]).toEqual([200, true])
    expect(await stand.listed(survivor)).toBeDefined()
  })

  it('and is back before we ask again gives the same join: one membership, one token', async () => {
    const agreeing = await stand.agreeing(await stand.invited())
    stand.toOrganization.loseAnswer(isJoin, async () => {
      await stand.organization.kill()
      await stand.another()
    })
    expect((await stand.own('POST', '', agreeing)).status).toBe(200)
    expect(await stand.sql('SELECT 1 FROM organization_calls')).toEqual([])
    const { rpt } = await testAgent(stand.authority).granted('portfolio_read')
    expect(await introspect(rpt)).toBe('active')
    await stand.hurry('view')
    await stand.unheardFor(60)
    await until(async () => (await stand.own('GET')).body.stale === false)
  })
})

describe('An owner who is removed while she joins', () => {
  it('is a member on neither side, and nothing is written of her any more', async () => {
    const agreeing = await stand.agreeing(await stand.invited())
    const release = stand.toOrganization.holdAnswers(isJoin)
    const joining = stand.own('POST', '', agreeing)
    await until(async () => (await stand.listed()) !== undefined)
    const { db } = stand.authority.database
    await inTransaction(db, tx => beginRemoval(tx, stand.alice.owner, { kind: 'authority' }))
    release()
    const { status, body } = await joining
    expect([status, body.error]).toEqual([503, 'temporarily_unavailable'])
    expect(await stand.sql('SELECT FROM memberships WHERE issuer IS NOT NULL')).toEqual([])
    expect(await stand.sql("SELECT FROM ledger WHERE kind = 'org_joined'")).toEqual([])
    await stand.takeBackJoins()
    expect(await stand.listed()).toBeUndefined()
  })
})

describe('A notice', () => {
  it('whose sender is killed before it learns the answer is told again under its id, and done once', async () => {
    await stand.joined()
    const before = await stand.epoch()
    const jtis = overheard(
      nth => nth === 1,
      () => stand.organization.kill(),
    )
    await stand.move('traders')
    await until(async () => (await stand.epoch()) > before)
    const survivor = await stand.another()
    await until(async () => (await stand.own('GET')).body.role === 'traders')
    const after = await stand.epoch()
    await stand.hurryNotices()
    await until(async () => (await stand.listed(survivor))!.notices_waiting === 0)
    expect(jtis).toEqual([jtis[0], jtis[0]])
    expect((await stand.listed(survivor))!.notices_stopped).toEqual([])
    expect(await stand.epoch()).toBe(after)
  })
})
