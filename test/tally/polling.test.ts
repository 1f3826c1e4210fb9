/**
 * Replicas of a tally that wake one another by nothing, over an engine that has no NOTIFY. Contract, "Tally
 * for a jointly held resource" and "Permission ticket".
 */
import { expect, it, onTestFinished } from 'vitest'
import { startJointStand } from '../support/joint-stand.ts'
import { connected } from '../support/postgres.ts'
import { startTestTally } from '../support/tally.ts'

it('With UMA_TALLY_NOTIFY=false what is collected and taken back at one replica holds at the other, and nobody is notified', async () => {
  const stand = await startJointStand({ rule: { kind: 'all' } }, { UMA_TALLY_NOTIFY: 'false' })
  onTestFinished(() => stand.close())
  await connected(stand.tally.environment['DATABASE_URL']!, administrator =>
    administrator.query('REVOKE EXECUTE ON FUNCTION pg_notify(text, text) FROM PUBLIC'),
  )
  const other = await startTestTally({ beside: stand.tally })
  onTestFinished(() => other.close())

  const granted = await stand.settled(await stand.agree(await stand.offer()), other)
  expect(granted.status).toBe(200)
  const introspected = async () =>
    (await stand.protection('/introspect', { token: granted.body.access_token }, other)).body
  const { active, family } = await introspected()
  expect(active).toBe(true)
  const withdrawal = stand.holders[0].withdrawal('bea', { negotiations: [family] })
  const taken = await stand.tally.request('/joint/withdrawal', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ withdrawal }),
  })
  expect([taken.status, taken.body]).toEqual([200, { withdrawn: 1 }])
  expect(await introspected()).toMatchObject({ active: false })
})
