/**
 * Two numbers of an allowance that she lowers on her page, both begun at once: contract, "Owner API" (stale
 * 412); an addition (docs/details/owner-api.md).
 */
import { expect, it } from 'vitest'
import type { OwnerCall } from '../support/authority.ts'
import { installedBrowser } from '../support/browser.ts'
import { consoleStand, DESK } from '../support/console-stand.ts'
import { describeWith } from '../support/requirement.ts'

const allowanceWith = (max: string) => ({
  amounts: [{ name: 'qty', unit: 'shares', each_max: '10' }],
  windows: [{ of: 'qty', per: 'day', max }],
  tiers: { trading: { tools: ['place_trade'], amounts: { qty: { pointer: '/qty' } } } },
})
const STALE = 'This allowance was changed since you were shown it'

describeWith(installedBrowser(), 'Two numbers that she is about to lower', path => {
  const stand = consoleStand(path)
  const { authority } = stand
  const own = (call: OwnerCall) => authority.call(authority.alice, call)
  const save = async (id: string, max: string): Promise<void> => {
    const json = allowanceWith(max)
    expect((await own({ method: 'PUT', target: `/owner/allowances/${id}`, json })).status).toBeLessThan(300)
  }
  /** Both forms are open, 5 is written into the one of an operation, and the one of a day is stored. */
  const begun = async (id: string) => {
    await save(id, '20')
    const device = await stand.deviceOf(DESK)
    await device.page.goto(`${authority.ownerUrl}/#/allowances`)
    const one = device.page.locator(`li[data-allowance="${id}"]`)
    const [each, day] = [one.locator('[data-limit="each qty"]'), one.locator('[data-limit="qty day"]')]
    const lower = { name: 'Lower it', exact: true }
    for (const [limit, number] of [
      [each, '5'],
      [day, '12'],
    ] as const) {
      await limit.getByRole('button', { name: /^Lower: / }).click()
      await limit.getByLabel(/^New number for/).fill(number)
    }
    await day.getByRole('button', lower).click()
    await one.getByText('It is lowered, from now on.').waitFor()
    await day.getByText('qty: at most 12 shares').waitFor()
    const stored = async (): Promise<unknown> => (await own({ target: `/owner/allowances/${id}` })).body
    return { device, one, each, lowerEach: each.getByRole('button', lower), stored }
  }

  it('are stored one after the other: her own first edit is no change of another device', async () => {
    const { device, one, each, lowerEach, stored } = await begun('both-begun')
    expect(await each.getByLabel(/^New number for/).inputValue()).toBe('5')
    await lowerEach.click()
    await each.getByText('qty: at most 5 shares').waitFor()
    expect(await one.getByText(STALE).count()).toBe(0)
    expect(await stored()).toMatchObject({
      version: 3,
      amounts: [{ name: 'qty', each_max: '5' }],
      windows: [{ of: 'qty', per: 'day', max: '12' }],
    })
    await device.close()
  })

  it('are not both stored if another device changed the allowance after the first', async () => {
    const id = 'changed-between'
    const { device, one, lowerEach, stored } = await begun(id)
    await save(id, '11')
    await one.getByText('qty: at most 11 shares').waitFor()
    await lowerEach.click()
    await one.getByRole('alert').getByText(STALE).waitFor()
    expect(await stored()).toMatchObject({
      version: 3,
      amounts: [{ name: 'qty', each_max: '10' }],
      windows: [{ of: 'qty', per: 'day', max: '11' }],
    })
    await device.close()
  })
})
