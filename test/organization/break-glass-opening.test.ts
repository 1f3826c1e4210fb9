/**
 * The order in which her server is told of an emergency: contract, "The organization's authority"
 * (`/break-glass`), "Events". Alone in its file, as it leaves her server with a notice that it does not
 * answer.
 */
import { describe, expect, it } from 'vitest'
import { parseJws } from '../../src/wire/signatures/jws.ts'
import { until } from '../support/until.ts'
import { kinds, redeem, stand, startEmergencies, voucher } from './emergencies.ts'

startEmergencies()

describe('What her server must be told of emergencies', () => {
  it('holds up nothing that ends her access, if it takes no more of them within the hour', async () => {
    const decided = stand.first.decide
    const kindOf = (notice: string) => parseJws(notice).payload['kind'] as string
    stand.first.decide = notice => (kindOf(notice).startsWith('break_glass') ? { status: 429 } : undefined)
    for (let n = 0; n < 3; n++) await voucher()
    await until(() => kinds().filter(kind => kind === 'break_glass_opened').length >= 3)
    const move = { method: 'POST', target: '/admin/members/amy/role', json: { role: null } } as const
    await stand.organization.admin(move)
    await until(() => kinds().includes('role_changed'))
    const waiting = async () => {
      const { body } = await stand.organization.admin({ target: '/admin/members' })
      const [amy] = (body as unknown as { owner: string; notices_waiting: number }[]).filter(
        ({ owner }) => owner === 'amy',
      )
      return amy!.notices_waiting
    }
    await until(async () => (await waiting()) === 3)
    // They are told in the end.
    stand.first.decide = decided
    await until(async () => (await waiting()) === 0)
  })
})

describe('The yes to an emergency', () => {
  it('is asked for once her server has taken that the window was opened, or two seconds later', async () => {
    const accepting = stand.first.decide
    stand.first.decide = notice =>
      parseJws(notice).payload['kind'] === 'break_glass_opened' ? 'hang' : accepting?.(notice)
    const window = await voucher()
    await until(() => kinds().includes('break_glass_opened'))
    const began = performance.now()
    expect((await redeem({ voucher: window })).status).toBe(200)
    expect(performance.now() - began).toBeGreaterThan(1_900)
    const told = kinds().filter(kind => kind === 'break_glass_opened' || kind === 'break_glass')
    expect(told).toEqual(['break_glass_opened', 'break_glass'])
  })
})
