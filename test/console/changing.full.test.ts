/**
 * What changes under her hands, and what another device of hers does at the same time: contract, "Owner API"
 * (`/owner/pending/{family}/decision`, 409 `item_changed`), "Events". In a real browser, over a real
 * authority.
 */
import type { Locator, Page } from 'playwright-core'
import { afterEach, describe, expect, it } from 'vitest'
import { installedBrowser } from '../support/browser.ts'
import { card, consoleStand, DESK, expectSound, WAYS, type Way } from '../support/console-stand.ts'
import { describeWith } from '../support/requirement.ts'
import { denyAll, pendingAt, testAgent } from '../support/test-agent.ts'

const CHANGED = 'What waits has changed since you were shown it.'

describeWith(installedBrowser(), 'A card that changes while she looks', path => {
  const stand = consoleStand(path)
  const { authority } = stand
  afterEach(() => denyAll(authority))

  /** Whether the tier of statements asks about each call: if not, letting an agent in opens it. */
  const statementsAsk = (ask_me: boolean) =>
    authority.call(authority.alice, { method: 'PUT', target: '/owner/policies/statements', json: { ask_me } })
  const opens = (one: Locator) => one.locator('.opens li').allTextContents()
  const approve = (one: Locator) => one.getByRole('button', { name: 'Approve', exact: true })
  /** From now on the page hears nothing of what happens. */
  const deafen = async (page: Page): Promise<void> => {
    await page.route('**/owner/events', route => route.abort())
    await page.reload()
  }
  const decisionsOn = async (family: string) => {
    const { body } = await authority.call(authority.alice, { target: '/owner/ledger?limit=1000' })
    const entries = body.entries as { kind: string; family?: string }[]
    return entries.flatMap(one =>
      one.family === family && /^(approved|denied)$/.test(one.kind) ? [one.kind] : [],
    )
  }

  describe.each(WAYS)('looked at by $name', ({ device: options, press }) => {
    it('says so as soon as it is told, and is approved only after she has looked again', async () => {
      await statementsAsk(true)
      const { ticket, family, agent } = await waiting()
      const { page, ...device } = await stand.deviceOf(options)
      const one = card(page, family)
      await expect.poll(() => opens(one)).toEqual(['reading'])
      await statementsAsk(false)
      await one.getByRole('alert').getByText(CHANGED).waitFor()
      expect(await opens(one)).toEqual(['reading', 'statements'])
      expect(await approve(one).count()).toBe(0)
      expect(await one.getByRole('button', { name: 'Deny', exact: true }).isEnabled()).toBe(true)
      await expectSound(page, 'waiting-changed')
      await press(one.getByRole('button', { name: 'I have looked again' }))
      await press(approve(one))
      await one.getByText('Approved by you, on this device').waitFor()
      expect((await agent.present(ticket)).status).toBe(200)
      await device.close()
    })

    it('is not approved as it was before, of which nothing was told, and shows how it is now', async () => {
      await statementsAsk(true)
      const { ticket, family, agent } = await waiting()
      const { page, ...device } = await stand.deviceOf(options)
      await deafen(page)
      const one = card(page, family)
      await expect.poll(() => opens(one)).toEqual(['reading'])
      await statementsAsk(false)
      await press(approve(one))
      await one.getByRole('alert').getByText(CHANGED).waitFor()
      await expect.poll(() => opens(one)).toEqual(['reading', 'statements'])
      expect(await decisionsOn(family)).toEqual([])
      await press(one.getByRole('button', { name: 'I have looked again' }))
      await press(approve(one))
      await one.getByText('Approved by you, on this device').waitFor()
      expect((await agent.present(ticket)).status).toBe(200)
      await device.close()
    })

    it('is not decided again by a device that was told nothing, which then says who decided', async () => {
      const { ticket, family, agent } = await waiting()
      const [first, second] = [await stand.deviceOf(options), await stand.deviceOf(DESK)]
      await deafen(second.page)
      const late = card(second.page, family)
      await late.getByRole('button', { name: 'Deny', exact: true }).click()
      await press(approve(card(first.page, family)))
      await card(first.page, family).getByText('Approved by you, on this device').waitFor()
      await late.getByRole('button', { name: 'Deny it' }).click()
      await late.getByText('Approved by you, elsewhere').waitFor()
      expect(await decisionsOn(family)).toEqual(['approved'])
      expect((await agent.present(ticket)).status).toBe(200)
      await first.close()
      await second.close()
    })
  })

  it('is decided once by two devices at the same moment, and both say how', async () => {
    const [one, other] = [await stand.deviceOf(DESK), await stand.deviceOf(DESK)]
    for (let round = 0; round < 4; round++) {
      const { family } = await waiting()
      const cards = [card(one.page, family), card(other.page, family)] as const
      await cards[1].getByRole('button', { name: 'Deny', exact: true }).click()
      // Each button is found first and pressed where it is: a click that waits for its moment may come so
      // late that the other device's decision has already taken the button away.
      const buttons = await Promise.all([
        approve(cards[0]).elementHandle(),
        cards[1].getByRole('button', { name: 'Deny it' }).elementHandle(),
      ])
      await Promise.all(
        buttons.map(button =>
          button.evaluate(node => {
            ;(node as unknown as { click: () => void }).click()
          }),
        ),
      )
      for (const each of cards) await each.locator('.outcome').waitFor()
      const [decision] = await decisionsOn(family)
      const words = decision === 'approved' ? 'Approved by you' : 'Denied by you'
      for (const each of cards) expect(await each.locator('.outcome').textContent()).toContain(words)
      expect(await decisionsOn(family)).toHaveLength(1)
    }
    await one.close()
    await other.close()
  })

  it('keeps the place of somebody who works by keys, whatever she decides, leaves or dismisses', async () => {
    const { press } = WAYS.find(({ name }) => name === 'keyboard') as Way
    const { page, ...device } = await stand.deviceOf(DESK)
    const count = page.locator('header [role=status]')
    const [first, second, third] = [await waiting(), await waiting(), await waiting()]
    // A screen reader says how many wait.
    await count.getByText('3 requests wait for you').waitFor()
    const hasFocus = (family: string) => card(page, family).evaluate(node => node.matches(':focus'))
    const key = async (name: string, family: string): Promise<void> => {
      await page.keyboard.press(name)
      await expect.poll(() => hasFocus(family)).toBe(true)
    }
    await press(approve(card(page, second.family)))
    await card(page, second.family).getByText('Approved by you, on this device').waitFor()
    await count.getByText('2 requests wait for you').waitFor()
    await expect.poll(() => hasFocus(second.family)).toBe(true)
    await key('k', first.family)
    await key('j', second.family)
    await key('j', third.family)
    await page.keyboard.press('d')
    const why = card(page, third.family).getByLabel('Why (the agent reads this)')
    await expect.poll(() => why.evaluate(node => node.matches(':focus'))).toBe(true)
    await page.keyboard.type('Not yet')
    await key('Escape', third.family)
    await why.waitFor({ state: 'detached' })
    await press(card(page, second.family).getByRole('button', { name: 'Dismiss' }))
    await expect.poll(() => hasFocus(third.family)).toBe(true)
    await key('k', first.family)
    // A decision that fails leaves her where she is.
    await page.route('**/owner/pending/*/decision', route => route.abort())
    await press(approve(card(page, first.family)))
    await card(page, first.family).getByRole('alert').getByText('Nobody answers').waitFor()
    await expect.poll(() => hasFocus(first.family)).toBe(true)
    expect((await pendingAt(authority)).map(({ family }) => family)).toContain(first.family)
    await device.close()
  })

  it('is not missed if it came between the list and the stream of what happens', async () => {
    const { page, ...device } = await stand.deviceOf(DESK)
    let open: (() => void) | undefined
    const opened = new Promise<void>(resolve => (open = resolve))
    await page.route('**/owner/events', async route => {
      await opened
      await route.continue()
    })
    await page.reload()
    await page.getByText('Nothing waits for you').waitFor()
    const { family } = await waiting()
    // Reading the ledger numbers her events: a stream that begins now does not bring this one.
    await authority.call(authority.alice, { target: '/owner/ledger?limit=1' })
    expect(await card(page, family).count()).toBe(0)
    open!()
    await card(page, family).waitFor()
    await device.close()
  })

  async function waiting() {
    const agent = testAgent(authority)
    return { agent, ...(await stand.waits(agent)) }
  }
})
