/**
 * An authority that is a process and is killed outright between the two halves of a join, the organization
 * having said yes: contract, "Organization membership, on the member's authorization server".
 */
import { describe, expect, it } from 'vitest'
import type { Reply } from '../support/authority.ts'
import { startAuthorityProcess, type AuthorityProcess } from '../support/authority-process.ts'
import { isJoin, startFaultyStand } from '../support/faulty-membership.ts'
import { startedForEach } from '../support/started.ts'
import { protectionCall, testAgent } from '../support/test-agent.ts'
import { until } from '../support/until.ts'

const stand = startedForEach(async () => {
  const faulty = await startFaultyStand()
  const doomed = await startAuthorityProcess(faulty.authority)
  const close = async (): Promise<void> => {
    await doomed.close()
    await faulty.close()
  }
  return { ...faulty, doomed, close }
})

const TARGET = '/owner/organization'
const joinsAt = (replica: AuthorityProcess, json: object) =>
  replica.own({ method: 'POST', target: TARGET, json })
const underWay = () => stand.sql<{ id: string; kind: string }>('SELECT id, kind FROM organization_calls')
const memberships = () => stand.sql<{ join_id: string }>('SELECT join_id FROM memberships')
/** What the organization has on record of her joins, in their order. */
const activity = async () => {
  const { body } = await stand.organization.admin({ target: '/admin/activity' })
  const entries = body.entries as { kind: string; data: { join_id?: string } }[]
  return entries
    .filter(({ kind }) => kind === 'joined' || kind === 'left')
    .map(({ kind, data }) => [kind, data.join_id])
}

/** She joins at the replica that is killed once the organization has let her in. */
async function killedWhileJoining(agreeing: object): Promise<void> {
  stand.toOrganization.loseAnswer(isJoin, () => stand.doomed.kill())
  await expect(joinsAt(stand.doomed, agreeing)).rejects.toThrow()
}

describe('An authority that is killed between the organization’s yes and its own', () => {
  it('made her no member: another replica takes the join back until that is acknowledged, and she joins once', async () => {
    await killedWhileJoining(await stand.agreeing(await stand.invited()))
    expect(await stand.isEnrolled()).toBe(false)
    expect(await stand.listed()).toBeDefined()
    const [intent] = await underWay()
    expect(intent).toMatchObject({ kind: 'join' })

    // Who comes again at once is told to wait, whatever code she brings, and nothing changes by it.
    const next = await stand.agreeing(await stand.invited())
    const early = await stand.own('POST', '', next)
    expect([early.status, early.body.reason]).toEqual([409, 'join_in_progress'])
    expect(await underWay()).toEqual([intent])

    // The queue that the intent itself was written to sees to it, after a minute, until that is heard.
    const there = stand.toOrganization.replicas.splice(0)
    await stand.sql("UPDATE organization_calls SET since = now() - interval '61 seconds'")
    const due = "UPDATE due SET at = now() WHERE kind = 'tell' RETURNING owner"
    expect(await stand.sql(due)).toHaveLength(1)
    const unheard = 'SELECT 1 FROM organization_calls WHERE attempts > 0'
    await until(async () => (await stand.sql(unheard)).length === 1)
    expect(await underWay()).toEqual([{ ...intent, kind: 'leave' }])
    stand.toOrganization.replicas.push(...there)
    await until(async () => (await underWay()).length === 0)
    expect(await stand.listed()).toBeUndefined()
    expect(await stand.isEnrolled()).toBe(false)

    expect((await stand.own('POST', '', next)).status).toBe(200)
    const [membership, ...others] = await memberships()
    expect(others).toEqual([])
    expect(membership!.join_id).not.toBe(intent!.id)
    expect(await activity()).toEqual([
      ['joined', intent!.id],
      ['left', intent!.id],
      ['joined', membership!.join_id],
    ])
    const { rpt } = await testAgent(stand.authority).granted('portfolio_read')
    const { body } = await protectionCall(stand.authority, '/introspect', { token: rpt })
    expect(body.active).toBe(true)
  })

  it('and joins again while that is not done yet is a member by the later join, which ends no other', async () => {
    await killedWhileJoining(await stand.agreeing(await stand.invited()))
    const [intent] = await underWay()
    const next = await stand.agreeing(await stand.invited())
    // The organization has heard that the join before is none, and hears it once more after the later one.
    let joined: Reply | undefined
    stand.toOrganization.loseAnswer(
      ({ path }) => path === '/member/leave',
      async () => {
        joined = await stand.own('POST', '', next)
      },
    )
    await stand.sql("UPDATE organization_calls SET since = now() - interval '61 seconds'")
    await stand.hurry('tell')
    await until(async () => joined !== undefined)
    await until(async () => {
      await stand.hurry('tell')
      return (await underWay()).length === 0
    })
    expect(joined!.status).toBe(200)
    const [membership, ...others] = await memberships()
    expect([others, membership!.join_id === intent!.id]).toEqual([[], false])
    expect(await stand.listed()).toBeDefined()
    expect((await activity()).at(-1)).toEqual(['joined', membership!.join_id])
  })
})
