/**
 * What a card says beyond the request itself, and how narrowly it lets an agent in: contract, "Owner API"
 * (`/owner/pending/{family}`, `only`), over a real authority in a real browser.
 */
import { describe, expect, it } from 'vitest'
import { itemDigest } from '../../src/wire/owner/decision-item.ts'
import { s256 } from '../../src/wire/encoding.ts'
import { signJws } from '../../src/wire/signatures/jws.ts'
import { TYP } from '../../src/wire/names.ts'
import type { Connection, PendingItem } from '../../src/wire/owner/owner-api.ts'
import { installedBrowser } from '../support/browser.ts'
import { card, consoleStand, DESK, expectSound, PHONE, WAYS } from '../support/console-stand.ts'
import { describeWith } from '../support/requirement.ts'
import { decide, testAgent } from '../support/test-agent.ts'
import { newKey } from '../support/wire-samples.ts'

describeWith(installedBrowser(), 'A card of the page', path => {
  const stand = consoleStand(path)
  const { authority } = stand
  const trade = (params: object) => ({ operation: { tool: 'place_trade', params } })

  it('shows what differs from the last call of that tool that she approved', async () => {
    const agent = testAgent(authority)
    const first = await stand.waits(agent, 'place_trade', trade({ symbol: 'VTI', qty: 7, note: 'as agreed' }))
    for (const options of [PHONE, DESK]) {
      const { page, ...device } = await stand.deviceOf(options)
      await card(page, first.family).getByText('You have approved no call of this tool').waitFor()
      await device.close()
    }
    await decide(authority, agent.handle, 'approved')
    await agent.present(first.ticket)
    const other = await stand.waits(agent, 'place_trade', trade({ symbol: 'VTI', qty: 700, limit: 5 }))
    const same = await stand.waits(agent, 'place_trade', trade({ symbol: 'VTI', qty: 7, note: 'as agreed' }))
    for (const options of [PHONE, DESK]) {
      const { page, ...device } = await stand.deviceOf(options)
      const changed = card(page, other.family).locator('[data-difference]')
      await changed.filter({ hasText: 'qty' }).getByText('was 7').waitFor()
      await changed.filter({ hasText: 'limit' }).getByText('was not there').waitFor()
      await changed.filter({ hasText: 'note' }).getByText('left out').waitFor()
      expect(await changed.count()).toBe(3)
      await card(page, same.family).getByText('Exactly the call that you approved last').waitFor()
      expect(await card(page, same.family).locator('[data-difference]').count()).toBe(0)
      await card(page, same.family).getByText('Last used').waitFor()
      await expectSound(page, 'waiting-compared')
      await device.close()
    }
    await decide(authority, agent.handle, 'denied')
    await decide(authority, agent.handle, 'denied')
  })

  it('does not show words that the agent did not sign, whatever the server says their hash is', async () => {
    const agent = testAgent(authority)
    const { family } = await stand.waits(agent, 'portfolio_read', { reason: 'To tell you how it stands' })
    const { page, ...device } = await stand.deviceOf(DESK)
    const one = card(page, family)
    await one.locator('.claims').getByText('To tell you how it stands').waitFor()
    const payload = { reason: 'Because your bank says so' }
    // The header names the agent's key, and another one signed.
    const header = { jwk: agent.key.jwk }
    const agreement_jws = signJws({ typ: TYP.agreement, kid: false, header, payload }, newKey())
    const lie = (pending: PendingItem): object => {
      const item = { ...pending.item, agreement_s256: s256(agreement_jws) }
      return { ...pending, item, item_s256: itemDigest(item), agreement_jws }
    }
    await page.route('**/owner/pending', async route => {
      const all = (await (await route.fetch()).json()) as PendingItem[]
      await route.fulfill({ json: all.map(lie) })
    })
    await page.route('**/owner/pending/fam_*', async route =>
      route.fulfill({ json: lie((await (await route.fetch()).json()) as PendingItem) }),
    )
    await page.reload()
    await one.getByText('The server gave other words than this agent signed.').waitFor()
    expect(await one.textContent()).not.toContain('Because your bank says so')
    await expectSound(page, 'waiting-other-words')
    await device.close()
    await decide(authority, agent.handle, 'denied')
  })

  describe.each(WAYS)('by $name', ({ device, press }) => {
    it('lets a new agent in just for its tier, with a signature that says so', async () => {
      const agent = testAgent(authority)
      const { ticket, family } = await stand.waits(agent, 'portfolio_read')
      const browser = await stand.deviceOf(device)
      const { page } = browser
      const one = card(page, family)
      await one.getByText('Approving lets it through without asking you at').waitFor()
      await one.getByText('Then it gets a new grant without asking you.').waitFor()
      expect(await one.locator('.opens li').allTextContents()).toEqual(['reading', 'statements'])
      const only = one.getByRole('checkbox', { name: 'Just for this tier' })
      await (device.hasTouch === true ? only.tap() : only.press(' '))
      // What it opens is told as she chose it.
      expect(await one.locator('.opens li').allTextContents()).toEqual(['reading'])
      await expectSound(page, 'waiting-only')
      await press(one.getByRole('button', { name: 'Approve', exact: true }))
      await one.getByText('Approved by you, on this device').waitFor()
      expect((await agent.present(ticket)).status).toBe(200)
      const list: { body: unknown } = await authority.call(authority.alice, {
        target: '/owner/connections?limit=1000',
      })
      const connection = (list.body as Connection[]).find(({ handle }) => handle === agent.handle)
      expect(connection).toMatchObject({ admits: 'tier' })
      const { body } = await authority.call(authority.alice, {
        target: `/owner/ledger?kind=approved&handle=${agent.handle}`,
      })
      expect(body.entries).toMatchObject([{ binding: 'signed' }])
      // At its own tier it goes on unasked, and at any other she is asked.
      expect((await agent.ask('portfolio_read')).status).toBe(200)
      expect((await agent.ask('statement_read')).body).toMatchObject({ error: 'request_submitted' })
      await page.goto(`${authority.ownerUrl}/#/agents?handle=${agent.handle}`)
      await page.locator(`li[data-handle="${agent.handle}"]`).getByText('the tier that it asked at').waitFor()
      await browser.close()
      await decide(authority, agent.handle, 'denied')
    })

    it('calls an agent by a name of hers', async () => {
      const agent = testAgent(authority)
      await agent.granted('portfolio_read')
      const browser = await stand.deviceOf(device)
      const { page } = browser
      await page.goto(`${authority.ownerUrl}/#/agents`)
      const item = page.locator(`li[data-handle="${agent.handle}"]`)
      await press(item.getByRole('button', { name: 'Rename' }))
      await item.getByLabel('What you call it').fill('My broker')
      await press(item.getByRole('button', { name: 'Save' }))
      await item.getByRole('heading', { name: 'My broker' }).waitFor()
      await browser.close()
    })
  })
})
