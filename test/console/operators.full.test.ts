/**
 * The operators behind her agents, on the page: blocked and let go again, claimed and disclaimed. Contract,
 * "Owner API" (operators), over a real authority in a real browser.
 */
import type { Locator } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import type { Connection } from '../../src/wire/owner/owner-api.ts'
import { installedBrowser } from '../support/browser.ts'
import { card, consoleStand, expectSound, WAYS } from '../support/console-stand.ts'
import { newKey, startOperator, type TestOperator } from '../support/operators.ts'
import { describeWith } from '../support/requirement.ts'
import { testAgent, type TestAgent } from '../support/test-agent.ts'

/** What she does to an operator, as the ledger calls it. */
const HERS = ['blocked', 'unblocked', 'claimed', 'disclaimed']

describeWith(installedBrowser(), 'The page of operators', path => {
  const stand = consoleStand(path, { environment: { UMA_DEV_LOOPBACK: 'true' } })
  const { authority } = stand

  const statusOf = async ({ handle }: TestAgent) => {
    const { body } = await authority.call(authority.alice, { target: '/owner/connections?limit=1000' })
    return (body as Connection[]).find(one => one.handle === handle)?.status
  }
  const kindsOf = async ({ origin }: TestOperator) => {
    const { body } = await authority.call(authority.alice, { target: '/owner/ledger?limit=1000' })
    const entries = body.entries as { kind: string; operator?: string }[]
    return entries.flatMap(({ kind, operator }) => (operator === origin && HERS.includes(kind) ? [kind] : []))
  }
  /** An operator, and an agent of its that she lets in. */
  async function known() {
    const key = newKey()
    const operator = await startOperator({ keys: [key], name: 'Example Agents' })
    const agent = testAgent(authority, { key, client_id: operator.client_id })
    await agent.granted()
    return { operator, agent }
  }
  const button = (within: Locator, name: string) => within.getByRole('button', { name, exact: true })

  describe.each(WAYS)('by $name', ({ device, press }) => {
    it('blocks one once she has said so twice, ends its agents, and takes that back', async () => {
      const { operator, agent } = await known()
      const { page, ...browser } = await stand.deviceOf(device)
      await page.goto(`${authority.ownerUrl}/#/operators`)
      const item = page.locator(`li[data-origin="${operator.origin}"]`)
      await item.getByText('1 active of 1 agent').waitFor()
      await press(button(item, 'Block'))
      await item.getByText(`Every agent of ${operator.origin} loses its access now`).waitFor()
      expect(await statusOf(agent)).toBe('active')
      await expectSound(page, 'operators-asking')
      await press(button(item, 'Block now'))
      await item.locator('.tag.bad').getByText('Blocked since').waitFor()
      await item.getByText('0 active of 1 agent').waitFor()
      expect(await statusOf(agent)).toBe('revoked')
      expect((await agent.ask()).status).toBe(403)
      await expectSound(page, 'operators-blocked')
      await press(button(item, 'Unblock'))
      await button(item, 'Block').waitFor()
      // What ended stays ended: it must ask her again.
      expect(await statusOf(agent)).toBe('revoked')
      expect(await kindsOf(operator)).toEqual(['blocked', 'unblocked'])
      await browser.close()
      await operator.close()
    })

    it('marks one as hers, and takes the mark away', async () => {
      const { operator, agent } = await known()
      const { page, ...browser } = await stand.deviceOf(device)
      await page.goto(`${authority.ownerUrl}/#/operators`)
      const item = page.locator(`li[data-origin="${operator.origin}"]`)
      await press(button(item, 'It is mine'))
      await item.locator('.tag.good').getByText('Yours').waitFor()
      await expectSound(page, 'operators-claimed')
      await press(button(item, 'It is not mine'))
      await button(item, 'It is mine').waitFor()
      expect(await item.locator('.tag.good').count()).toBe(0)
      expect(await statusOf(agent)).toBe('active')
      expect(await kindsOf(operator)).toEqual(['claimed', 'disclaimed'])
      await browser.close()
      await operator.close()
    })

    it('is not needed to block the operator of what waits: the card does it', async () => {
      const { operator, agent } = await known()
      const { family } = await stand.waits(agent, 'place_trade', {
        operation: { tool: 'place_trade', params: { symbol: 'VTI', qty: 1 } },
      })
      const { page, ...browser } = await stand.deviceOf(device)
      const one = card(page, family)
      await press(button(one, 'Block operator'))
      await one.getByText(`Every agent of ${operator.origin} loses its access now`).waitFor()
      await press(button(one, 'Block, and end all it runs'))
      await expect.poll(() => statusOf(agent)).toBe('revoked')
      await expect.poll(() => button(one, 'Approve').count()).toBe(0)
      await browser.close()
      await operator.close()
    })
  })
})
