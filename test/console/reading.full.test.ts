/**
 * How her page is read by people whom motion makes ill, and by those whose language runs from right to left:
 * contract, "Owner API" (the page on which she decides).
 */
import type { Locator, Page } from 'playwright-core'
import { afterEach, expect, it } from 'vitest'
import { installedBrowser } from '../support/browser.ts'
import { card, consoleStand, DESK, PHONE, WAYS, writeDirection } from '../support/console-stand.ts'
import { describeWith } from '../support/requirement.ts'
import { denyAll, testAgent } from '../support/test-agent.ts'

describeWith(installedBrowser(), 'A page that is read by everybody', path => {
  const stand = consoleStand(path)
  const { authority } = stand
  afterEach(() => denyAll(authority))

  const trade = { operation: { tool: 'place_trade', params: { symbol: 'VTI', qty: 7 } } }
  const waiting = () => stand.waits(testAgent(authority), 'place_trade', trade)
  const animations = (page: Page): Promise<number> =>
    page.locator('html').evaluate(node => node.ownerDocument.getAnimations().length)
  const boxOf = async (of: Locator) => (await of.boundingBox())!

  it.each(WAYS)('moves nothing where motion is to be reduced, held by $name, and approves', async way => {
    const { family } = await waiting()
    const { page, ...device } = await stand.deviceOf({ ...way.device, reducedMotion: 'reduce' })
    const one = card(page, family)
    const button = one.getByRole('button', { name: /^(Hold to approve|Keep holding)/ })
    await button.waitFor()
    const fill = one.locator('.grave .fill')
    await way.hold(button, async () => {
      await one.locator('.grave.holding').waitFor()
      expect(await animations(page)).toBe(0)
      // It still shows that it is held.
      expect(
        await fill.evaluate(node => node.ownerDocument.defaultView.getComputedStyle(node).transform),
      ).toBe('none')
      await one.getByText('Approved by you, on this device').waitFor()
    })
    await device.close()
  })

  it('moves the bar of a held button where nobody asked otherwise', async () => {
    const [touch] = WAYS
    const { family } = await waiting()
    const { page, ...device } = await stand.deviceOf(touch!.device)
    const one = card(page, family)
    await touch!.hold(one.getByRole('button', { name: 'Hold to approve' }), async () => {
      await expect.poll(() => animations(page)).toBe(1)
      await one.getByText('Approved by you, on this device').waitFor()
    })
    await device.close()
  })

  it('names the resource as its server does, with the id that her decision is bound to', async () => {
    const { family } = await waiting()
    const { page, ...device } = await stand.deviceOf(PHONE)
    const named = card(page, family)
      .locator('.field', { hasText: /^Resource/ })
      .locator('dd')
    await expect.poll(() => named.textContent()).toBe('trades (alice/trades)')
    await device.close()
  })

  it('says in words who vouches for an agent', async () => {
    const { family } = await waiting()
    const { page, ...device } = await stand.deviceOf(PHONE)
    const vouched = card(page, family).locator('.field', { hasText: 'Vouched for' }).locator('dd')
    expect(await vouched.textContent()).toBe('by nobody')
    await device.close()
  })

  it('begins at the right where it is read from right to left, and keeps names as they are', async () => {
    const { family } = await waiting()
    const { page, ...device } = await stand.deviceOf(DESK)
    const one = card(page, family)
    const heading = one.locator('.title-what')
    await heading.waitFor()
    const [nav, main] = [page.locator('nav'), page.locator('main')]
    expect((await boxOf(nav)).x).toBeLessThan((await boxOf(main)).x)
    const name = await heading.textContent()
    await writeDirection(page, 'rtl')
    expect((await boxOf(nav)).x).toBeGreaterThan((await boxOf(main)).x)
    const [words, all] = [await boxOf(one.locator('.tag').first()), await boxOf(one)]
    expect(words.x - all.x).toBeGreaterThan(all.x + all.width - (words.x + words.width))
    expect(await heading.textContent()).toBe(name)
    // An identifier is written from left to right in any language.
    const handle = one.locator('.mono').first()
    expect(
      await handle.evaluate(node => node.ownerDocument.defaultView.getComputedStyle(node).direction),
    ).toBe('ltr')
    await page.setViewportSize(PHONE.viewport)
    await one.getByRole('button', { name: 'Deny', exact: true }).click()
    await one.getByRole('button', { name: 'Deny it' }).click()
    await one.getByText('Denied by you, on this device').waitFor()
    await device.close()
  })
})
