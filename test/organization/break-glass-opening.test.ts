/**
 * The order in which her server is told of an emergency: contract, "The organization's authority"
 * (`/break-glass`), "Events". Alone in its file, as it leaves her server with a notice that it does not
 * answer.
 */
import { describe, expect, it } from 'vitest'
import { parseJws } from '../../src/wire/jws.ts'
import { until } from '../support/until.ts'
import { kinds, redeem, stand, startEmergencies, voucher } from './emergencies.ts'

startEmergencies()

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
