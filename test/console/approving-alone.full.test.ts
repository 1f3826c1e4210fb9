/**
 * A call whose approval opens its tier, on her page in a real browser: contract, "Owner API" (`item`,
 * `/owner/pending/{family}/decision`), "Permission ticket". By touch and by keyboard.
 */
import { describe, expect, it } from 'vitest'
import { installedBrowser } from '../support/browser.ts'
import { card, consoleStand, expectSound, WAYS } from '../support/console-stand.ts'
import { ITEM } from '../support/decision-samples.ts'
import { describeWith } from '../support/requirement.ts'

describeWith(installedBrowser(), 'A call whose approval opens its tier', path => {
  const stand = consoleStand(path)

  describe.each(WAYS)('decided by $name', ({ device: options, press, tick }) => {
    it('says so, and is approved alone if she wants that', async () => {
      const { page, ...device } = await stand.deviceOf(options)
      const because = ['baseline:ask_me', 'ask:operation.beyond:weekend', 'limit:each_max:qty']
      const waiting = { ...ITEM, opens: ['trading'], because }
      const { family, agent } = waiting
      const bodies: unknown[] = []
      await page.route(
        url => url.pathname === '/owner/pending',
        route => route.fulfill({ json: [{ family, handle: agent.handle, item: waiting }] }),
      )
      await page.route(`**/owner/pending/${family}`, route =>
        route.fulfill({ status: 404, json: { error: 'not_found', error_description: 'Nothing.' } }),
      )
      await page.route(`**/owner/pending/${family}/decision`, route => {
        bodies.push(route.request().postDataJSON())
        return route.fulfill({ json: { family, decision: 'approved', by: 'owner' } })
      })
      await page.reload()
      const one = card(page, family)
      await one.getByText('Approving also opens a tier to this agent.').waitFor()
      expect(await one.locator('.opens li').allTextContents()).toEqual(['trading'])
      const why = await one.locator('.facts', { hasText: 'Why you are asked' }).textContent()
      // The limit that the call did not keep follows the rule that asks.
      expect(why).toMatch(/not within your allowance weekend.*qty/)
      await expectSound(page, 'waiting-opens')
      await tick(one.getByLabel(/^This call only/))
      await one.getByText('Approving this call alone counts as no approval at its tier.').waitFor()
      expect(await one.locator('.opens').count()).toBe(0)
      await press(one.getByRole('button', { name: 'Approve', exact: true }))
      await one.getByText('Approved by you, on this device').waitFor()
      expect(bodies).toMatchObject([{ decision: 'approved', only: true }])
      await device.close()
    })
  })
})
