/**
 * Several requests that she decides together on her page: contract, "Owner API" (`/owner/pending/decisions`).
 * Each story by touch and by keyboard, in a real browser over a real authority.
 */
import { beforeAll, describe, expect, it } from 'vitest'
import { installedBrowser } from '../support/browser.ts'
import { card, consoleStand, expectSound, WAYS } from '../support/console-stand.ts'
import { describeWith } from '../support/requirement.ts'
import { testAgent } from '../support/test-agent.ts'

describeWith(installedBrowser(), 'What she decides together', path => {
  const stand = consoleStand(path)
  const { authority } = stand
  beforeAll(async () => {
    const json = { ask_me: true }
    const edited = await authority.call(authority.alice, {
      method: 'PUT',
      target: '/owner/policies/statements',
      json,
    })
    expect(edited.status).toBe(200)
  })

  /** An agent that she let in, and calls of it that wait for her. */
  async function asking(tool: 'statement_read' | 'place_trade', all: readonly object[]) {
    const agent = testAgent(authority)
    await stand.admit(agent)
    const waiting: { ticket: string; family: string }[] = []
    for (const params of all) waiting.push(await stand.waits(agent, tool, { operation: { tool, params } }))
    return { agent, waiting }
  }

  describe.each(WAYS)('by $name', ({ device: options, press, write }) => {
    it('is approved at once if it can be undone, each for its own parameters, which are shown as on a card', async () => {
      const hidden = { month: '2026-10', note: 'p\u0430ypal \u202ella evorppa\u200b' }
      const { agent, waiting } = await asking('statement_read', [{ month: '2026-09' }, hidden])
      const { page, ...device } = await stand.deviceOf(options)
      const group = page.locator('.together').filter({ hasText: agent.handle })
      await press(group.getByRole('button', { name: 'Approve together' }))
      await group.getByText('\\u{202e}').first().waitFor()
      expect(await group.textContent()).not.toMatch(/[\u200b\u202e]/)
      expect(await group.locator('.each [data-flag=unseen]').count()).toBeGreaterThan(0)
      expect(await group.locator('.each [data-flag=mixed]').count()).toBeGreaterThan(0)
      expect(await group.locator('.each > li').count()).toBe(2)
      await expectSound(page, 'waiting-together')
      // What comes meanwhile is not among what she was shown.
      const late = await stand.waits(agent, 'statement_read', {
        operation: { tool: 'statement_read', params: { month: '2026-11' } },
      })
      await card(page, late.family).waitFor()
      await press(group.getByRole('button', { name: 'Approve all 2' }))
      for (const { family } of waiting)
        await card(page, family).getByText('Approved by you, on this device').waitFor()
      for (const { ticket } of waiting) expect((await agent.present(ticket)).status).toBe(200)
      expect(
        await card(page, late.family).getByRole('button', { name: 'Approve', exact: true }).count(),
      ).toBe(1)
      const { body } = await authority.call(authority.alice, {
        target: `/owner/ledger?kind=approved&handle=${encodeURIComponent(agent.handle)}&first=newest&limit=2`,
      })
      expect(body.entries).toMatchObject([{ binding: 'signed' }, { binding: 'signed' }])
      await device.close()
    })

    it('leaves out what another device decides meanwhile, and approves the others', async () => {
      const months = ['2026-01', '2026-02', '2026-03'].map(month => ({ month }))
      const { agent, waiting } = await asking('statement_read', months)
      const { page, ...device } = await stand.deviceOf(options)
      const group = page.locator('.together').filter({ hasText: agent.handle })
      await press(group.getByRole('button', { name: 'Approve together' }))
      await group.getByRole('button', { name: 'Approve all 3' }).waitFor()
      const [gone, ...left] = waiting
      const target = `/owner/pending/${gone!.family}/decision`
      const json = { decision: 'denied' }
      expect((await authority.call(authority.alice, { method: 'POST', target, json })).status).toBe(200)
      await press(group.getByRole('button', { name: 'Approve all 2' }))
      for (const { family } of left)
        await card(page, family).getByText('Approved by you, on this device').waitFor()
      await card(page, gone!.family).getByText('Denied by you, elsewhere').waitFor()
      for (const { ticket } of left) expect((await agent.present(ticket)).status).toBe(200)
      expect((await agent.present(gone!.ticket)).body).toMatchObject({ error: 'request_denied' })
      await device.close()
    })

    it('cannot be approved together if it cannot be undone, and is denied together with one reason', async () => {
      const { agent, waiting } = await asking('place_trade', [
        { symbol: 'VTI', qty: 7 },
        { symbol: 'VTI', qty: 8 },
      ])
      const { page, ...device } = await stand.deviceOf(options)
      const group = page.locator('.together').filter({ hasText: agent.handle })
      await group.getByText('approve each on its own card').waitFor()
      expect(await group.getByRole('button', { name: /^Approve/ }).count()).toBe(0)
      await press(group.getByRole('button', { name: 'Deny together' }))
      await write(group.getByLabel('Why (the agent reads this)'), 'Not before Monday')
      await expectSound(page, 'waiting-deny-together')
      await press(group.getByRole('button', { name: 'Deny all 2' }))
      for (const { family } of waiting)
        await card(page, family).getByText('Denied by you, on this device').waitFor()
      for (const { ticket } of waiting)
        expect((await agent.present(ticket)).body).toMatchObject({
          error: 'request_denied',
          owner_reason: 'Not before Monday',
        })
      await device.close()
    })
  })
})
