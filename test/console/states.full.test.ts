/**
 * What her pages show between two presses, and when something is refused or does not answer: contract, "Owner
 * API", "Errors" (an outage is no denial). Each such state stands without a fault that axe finds, in light
 * and in dark, and no wider than any screen.
 */
import type { BrowserContextOptions, Locator, Page } from 'playwright-core'
import { afterEach, describe, expect, it } from 'vitest'
import { installedBrowser } from '../support/browser.ts'
import { card, consoleStand, DESK, expectSound, PHONE } from '../support/console-stand.ts'
import { describeWith } from '../support/requirement.ts'
import { decide, denyAll, testAgent } from '../support/test-agent.ts'

const SCREENS: readonly [string, BrowserContextOptions][] = [
  ['a phone', PHONE],
  ['a desk', DESK],
]

describeWith(installedBrowser(), 'Between two presses', path => {
  const stand = consoleStand(path)
  const { authority, browser } = stand
  const button = (within: Page | Locator, name: string) =>
    within.getByRole('button', { name, exact: true }).first()
  const trade = { operation: { tool: 'place_trade', params: { symbol: 'VTI', qty: 7 } } }
  afterEach(() => denyAll(authority))

  describe.each(SCREENS)('on %s', (_screen, options) => {
    it('a card that is typed for, denied, blocked, refused an answer and settled is sound', async () => {
      const agent = testAgent(authority, { client_id: 'https://agents.example/client.json' })
      const { family } = await stand.waits(agent, 'place_trade', trade)
      const { page, ...device } = await stand.deviceOf(options)
      const one = card(page, family)
      await button(one, 'Type instead').click()
      await one.getByLabel('Type place_trade to approve').fill('place')
      expect(await button(one, 'Approve').isDisabled()).toBe(true)
      await expectSound(page, 'state-typing')
      await page.keyboard.press('Escape')
      await button(one, 'Hold to approve').waitFor()
      await button(one, 'Deny').click()
      await expectSound(page, 'state-denying')
      await page.keyboard.press('Escape')
      await button(one, 'Block operator').click()
      await one.getByText('Every agent of https://agents.example loses its access now').waitFor()
      await expectSound(page, 'state-blocking')
      await page.keyboard.press('Escape')
      await page.route('**/owner/pending/*/decision', route =>
        route.fulfill({
          status: 503,
          json: {
            error: 'temporarily_unavailable',
            error_description: 'The database does not answer. \u202eelet',
          },
        }),
      )
      await button(one, 'Type instead').click()
      await one.getByLabel('Type place_trade to approve').fill('place_trade')
      await button(one, 'Approve').click()
      const fault = one.getByRole('alert')
      await fault.getByText('The database does not answer. \\u{202e}elet').waitFor()
      expect(await one.textContent()).not.toMatch(/Approved by you|Denied by you/)
      await expectSound(page, 'state-outage')
      await page.unroute('**/owner/pending/*/decision')
      await button(one, 'Approve').click()
      await one.getByText('Approved by you, on this device').waitFor()
      await expectSound(page, 'state-settled')
      await device.close()
    })

    it('an agent that is renamed, read about and revoked is sound', async () => {
      const agent = testAgent(authority)
      await agent.granted()
      const { page, ...device } = await stand.deviceOf(options)
      await page.goto(`${authority.ownerUrl}/#/agents?handle=${agent.handle}`)
      const item = page.locator(`li[data-handle="${agent.handle}"]`)
      await item.locator('li.line').first().waitFor()
      await item.locator('li.line summary').first().click()
      await expectSound(page, 'state-deeds')
      await button(item, 'Rename').click()
      await expectSound(page, 'state-renaming')
      await button(item, 'Back').click()
      await button(item, 'Revoke').click()
      await expectSound(page, 'state-revoking')
      await button(item, 'Revoke now').click()
      await item.getByText('1 live grant ended.').waitFor()
      await item.getByText('no approval is in force').waitFor()
      await expectSound(page, 'state-revoked')
      await device.close()
    })

    it('keys that are added, removed and destroyed are sound, and a removed key signs out at once', async () => {
      const { page, ...device } = await stand.deviceOf(options)
      const other = await stand.deviceOf(options)
      await page.goto(`${authority.ownerUrl}/#/keys`)
      await button(page, 'Add a device').click()
      await page.getByLabel('Request of the new device').fill('key_nonsense')
      await expectSound(page, 'state-adding')
      await page.getByLabel('Request of the new device').fill(`key_${'A'.repeat(43)}`)
      await page.locator('.check-word').waitFor()
      await expectSound(page, 'state-comparing')
      await button(page, 'Back').click()
      // The newest is the other browser: no key but this one is called `here`.
      const newest = page.locator('li.item').first()
      await newest.getByRole('button', { name: /^Remove/ }).click()
      await expectSound(page, 'state-removing')
      await button(newest, 'Remove now').click()
      await other.page.getByText('The key of this browser is not good any more').waitFor()
      await expectSound(other.page, 'state-signed-out')
      await other.close()
      await page.locator('details.past-credentials summary').first().click()
      await expectSound(page, 'state-past')
      await button(page, 'Sign out here').click()
      await expectSound(page, 'state-destroying')
      const ended = page.waitForEvent('requestfailed', one => one.url().endsWith('/owner/events'))
      await button(page, 'Destroy the key').click()
      await ended
      await button(page, 'Make a request').waitFor()
      await page.reload()
      // It is gone for good.
      await button(page, 'Make a request').waitFor()
      await device.close()
    })

    it('a wrong code is answered on a page that is sound', async () => {
      const { page, ...device } = await browser.open(authority.ownerUrl, options)
      await page.getByLabel('One-time code').fill('enrol_wrong')
      await button(page, 'Enrol this browser').click()
      await page.getByRole('alert').waitFor()
      await expectSound(page, 'state-wrong-code')
      await device.close()
    })

    it('a tier that is made, saved untried and deleted, and a server that is withdrawn, are sound', async () => {
      const { page, ...device } = await stand.deviceOf(options)
      await page.goto(`${authority.ownerUrl}/#/rules`)
      await button(page, 'New tier').click()
      const form = page.getByRole('form', { name: 'A new tier' })
      await form.getByLabel('Short name').fill('unsaved')
      await form.getByLabel('Name', { exact: true }).fill('Unsaved')
      await form.getByLabel('Purpose').fill('None')
      await expectSound(page, 'state-new-tier')
      await button(form, 'Save').click()
      await expectSound(page, 'state-untried')
      await button(form, 'Back').click()
      await button(page.locator('li[data-tier="reading"]'), 'Delete').click()
      await expectSound(page, 'state-deleting')
      await page.goto(`${authority.ownerUrl}/#/resources`)
      const server = page.locator('li[data-server]').first()
      await button(server, 'Withdraw').click()
      await expectSound(page, 'state-withdrawing')
      await device.close()
    })

    it('a ledger that is read closely, and lists that cannot be read, are sound', async () => {
      const agent = testAgent(authority)
      await stand.waits(agent, 'place_trade', trade)
      await decide(authority, agent.handle, 'denied')
      const { page, ...device } = await stand.deviceOf(options)
      await page.goto(`${authority.ownerUrl}/#/ledger`)
      await page.locator('li.line summary').first().click()
      await expectSound(page, 'state-ledger-details')
      for (const name of ['connections', 'operators', 'policies', 'resources', 'notifications', 'pending'])
        await page.route(
          url => url.pathname === `/owner/${name}`,
          route =>
            route.fulfill({
              status: 503,
              json: { error: 'temporarily_unavailable', error_description: 'Nobody is there now.' },
            }),
        )
      const names = ['waiting', 'agents', 'operators', 'rules', 'allowances', 'resources', 'notifications']
      for (const name of names) {
        await page.goto(`${authority.ownerUrl}/#/${name}`)
        await page.getByRole('alert').getByText('Nobody is there now.').first().waitFor()
        // An outage is no empty list.
        expect(await page.locator('.nothing').count()).toBe(0)
        await expectSound(page, `state-unread-${name}`)
      }
      await device.close()
    })
  })
})
