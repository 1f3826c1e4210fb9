/**
 * A stream that stays open at the resource of an account that several hold. contract, "Authorized
 * call" (enforcement order, 2) and "Grant (RPT) liveness".
 */
import { expect, it } from 'vitest'
import { nowSeconds } from './calls.ts'
import { permissionOf } from './core.ts'
import { jointStand } from './joint-stand.ts'

const { stand, restart, says, both, grantOf } = jointStand()

it('A stream that stays open under a grant is held to the verdicts of its holders as long as it does', async () => {
  const iat = nowSeconds()
  const changes = {
    permissions: permissionOf('portfolio', 'read'),
    claims: { jti: 'rpt_open', iat, exp: iat + 600 },
  }
  await restart({}, { openMethods: ['GET'] })
  const token = grantOf(both(), {}, changes)
  const opened = { method: 'GET', body: { state: 'absent' as const }, tool: '', token, signer: stand.agent }
  const outcome = await stand.decide(opened)
  if (outcome.kind === 'deny') throw new Error(`denied: ${JSON.stringify(outcome.body)}`)
  const isStillLive = (): Promise<boolean> => outcome.isStillLive!()
  expect(await isStillLive()).toBe(true)
  // The tally tells of the same grant that one of the holders does not stand by it any more.
  expect(grantOf([says('bea')], {}, changes)).toBe(token)
  await expect(isStillLive()).rejects.toMatchObject({ code: 'joint_mandate_unsatisfied' })
  stand.authority.end(token, 'connection_revoked')
  expect(await isStillLive()).toBe(false)
})
