/**
 * A tier that is opened within an allowance, on her page, while it cannot be read: contract, "Policy
 * vocabulary and tiers", "Owner API"; an addition (docs/details/owner-api.md).
 */
import { expect, it } from 'vitest'
import type { OwnerCall } from '../support/authority.ts'
import { installedBrowser } from '../support/browser.ts'
import { consoleStand, DESK } from '../support/console-stand.ts'
import { describeWith } from '../support/requirement.ts'
import { testAgent } from '../support/test-agent.ts'

const allowanceWith = (max: string) => ({
  amounts: [{ name: 'qty', unit: 'shares', each_max: '10' }],
  windows: [{ of: 'qty', per: 'day', max }],
  tiers: { trading: { tools: ['place_trade'], amounts: { qty: { pointer: '/qty' } } } },
})
const OUTAGE = {
  status: 503,
  json: { error: 'temporarily_unavailable', error_description: 'Nobody is there now.' },
}
const isConnections = (url: URL): boolean => url.pathname === '/owner/connections'

describeWith(installedBrowser(), 'A tier that she is about to open within an allowance', path => {
  const stand = consoleStand(path)
  const { authority } = stand
  const own = (call: OwnerCall) => authority.call(authority.alice, call)
  const save = async (id: string, max: string): Promise<void> => {
    const json = allowanceWith(max)
    expect((await own({ method: 'PUT', target: `/owner/allowances/${id}`, json })).status).toBeLessThan(300)
  }
  const opened = async (id: string) => {
    await own({ method: 'PUT', target: '/owner/policies/trading', json: { rules: [] } })
    await save(id, '20')
    const device = await stand.deviceOf(DESK)
    await device.page.goto(`${authority.ownerUrl}/#/allowances`)
    const one = device.page.locator(`li[data-allowance="${id}"]`)
    // Each button says what it is about, for whoever hears the page.
    const read = one.getByRole('button', {
      name: `Read what opening it means: ${id}, The trading tier`,
      exact: true,
    })
    await read.waitFor()
    return { device, one, read, opening: one.getByRole('form') }
  }

  it('can be left while nobody answers to whom it would open', async () => {
    const { device, one, read, opening } = await opened('unanswered')
    await device.page.route(isConnections, route => route.fulfill(OUTAGE))
    await read.click()
    await one.getByRole('alert').getByText('Nobody is there now.').waitFor()
    expect(await opening.count()).toBe(0)
    await one.getByRole('button', { name: 'Close', exact: true }).click()
    await device.page.unroute(isConnections)
    await read.click()
    await opening.getByText('It opens to nobody at once').waitFor()
    await device.close()
  })

  it('names the parameters of what waits there that the allowance names nowhere', async () => {
    const { device, read, opening } = await opened('unnamed')
    const agent = testAgent(authority)
    const operation = { tool: 'place_trade', params: { qty: 1, '/symbol': 'VTI' } }
    const asked = await agent.ask('place_trade', { operation })
    expect(asked.body).toMatchObject({ error: 'request_submitted' })
    await read.click()
    await opening.getByText('have parameters that it names nowhere').waitFor()
    const names = opening.locator('.notice li')
    expect(await names.allTextContents()).toEqual(['/~1symbol'])
    await device.close()
  })

  it('is not opened while the page cannot read what has changed, and her yes is to what she reads then', async () => {
    const id = 'unreadable'
    const { device, one, read, opening } = await opened(id)
    await read.click()
    const yes = opening.getByLabel(/^I have read this/)
    await yes.check()
    const open = opening.getByRole('button', { name: 'Open', exact: true })
    await expect.poll(() => open.isEnabled()).toBe(true)
    await device.page.route(isConnections, route => route.fulfill(OUTAGE))
    await save(id, '900')
    await opening.getByRole('alert').getByText('Nobody is there now.').waitFor()
    expect(await open.isDisabled()).toBe(true)
    await device.page.unroute(isConnections)
    await one.getByText('qty: at most 900 shares').first().waitFor()
    await expect.poll(() => yes.isChecked()).toBe(false)
    await yes.check()
    await open.click()
    await opening.getByText(`${id} is in force at The trading tier.`).waitFor()
    await device.close()
  })
})
