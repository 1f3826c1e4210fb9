/**
 * Her rules on the page, in a real browser: contract, "Policy vocabulary and tiers", "Owner API"
 * (`/owner/policies*`). Each story is told by touch and by keyboard.
 */
import type { Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import type { LedgerEntry, Tier } from '../../src/wire/owner/owner-api.ts'
import { consoleStand, DESK, expectSound, PHONE, pictured, WAYS } from '../support/console-stand.ts'
import { installedBrowser } from '../support/browser.ts'
import { describeWith } from '../support/requirement.ts'
import { testAgent } from '../support/test-agent.ts'

describeWith(installedBrowser(), 'Her rules on the page', path => {
  const stand = consoleStand(path)
  const { authority } = stand
  const tierOf = async (id: string): Promise<Tier> => {
    const { body } = await authority.call(authority.alice, { target: '/owner/policies' })
    return (body as unknown as { tiers: Tier[] }).tiers.find(one => one.id === id)!
  }
  const edit = (id: string, json: object) =>
    authority.call(authority.alice, { method: 'PUT', target: `/owner/policies/${id}`, json })
  const item = (page: Page, id: string) => page.locator(`li[data-tier="${id}"]`)

  describe.each(WAYS)('by $name', ({ name, device, press, write }) => {
    it('a rule is edited after a try on the past, and answers the next request', async () => {
      await edit('reading', { rules: [], ask_me: false })
      const agent = testAgent(authority)
      await agent.granted('portfolio_read')
      expect((await agent.ask('portfolio_read')).status).toBe(200)
      const before = await tierOf('reading')
      const browser = await stand.deviceOf(device)
      const { page } = browser
      await page.goto(`${authority.ownerUrl}/#/rules`)
      const tier = item(page, 'reading')
      await press(tier.getByRole('button', { name: 'Edit' }))
      await press(tier.getByRole('button', { name: 'Add a rule' }))
      // A list is worked by the browser's own means, which neither finger nor key shows a test.
      await tier.getByLabel('Rule 1, condition 1', { exact: true }).selectOption('standing.calls_above')
      await write(tier.getByLabel('Rule 1, condition 1: value'), '0')
      await press(tier.getByRole('button', { name: 'And another condition' }))
      await tier.getByLabel('Rule 1, condition 2', { exact: true }).selectOption('request.reason_absent')
      await tier.getByLabel('Rule 1: what is answered').selectOption('refuse')
      await press(tier.getByRole('button', { name: 'Take out: Rule 1, condition 1' }))
      await press(tier.getByRole('button', { name: 'Try on my past' }))
      await tier.getByText(/requests of your past would have been answered otherwise/).waitFor()
      await tier.locator('[data-would="refuse"]').first().waitFor()
      await pictured(page, `rules-tried-${name}`)
      // Nothing is stored by a try.
      expect(await tierOf('reading')).toEqual(before)
      expect((await agent.ask('portfolio_read')).status).toBe(200)
      await press(tier.getByRole('button', { name: 'Save', exact: true }))
      await page.getByText('The reading tier is saved').waitFor()
      await tier.getByText('Refuse it when it gives no reason.').waitFor()
      const after = await tierOf('reading')
      expect(after.rules).toEqual([{ when: ['request.reason_absent'], then: 'refuse' }])
      expect(after.terms.template_id).not.toBe(before.terms.template_id)
      expect((await agent.ask('portfolio_read')).body).toMatchObject({ error: 'request_denied' })
      await browser.close()
    })

    it('what another device changes meanwhile is shown, and neither change is lost', async () => {
      await edit('statements', { name: 'Statements', rules: [], terms: { prohibited: ['training'] } })
      const browser = await stand.deviceOf(device)
      const { page } = browser
      await page.goto(`${authority.ownerUrl}/#/rules`)
      const tier = item(page, 'statements')
      await press(tier.getByRole('button', { name: 'Edit' }))
      await press(tier.getByRole('button', { name: 'Prohibit something' }))
      await write(tier.getByLabel('Prohibition 2', { exact: true }), 'selling it')
      await edit('statements', {
        rules: [{ when: ['request.mission_absent'], then: 'ask' }],
        terms: { expires_in: 120 },
      })
      // It is told by the stream, before she saves over it.
      await tier.getByText('Another device changed this tier').waitFor()
      await tier.getByRole('alert').getByText('Ask you when it names no mission', { exact: false }).waitFor()
      await pictured(page, `rules-meanwhile-${name}`)
      expect(await tier.getByRole('button', { name: 'Save', exact: true }).count()).toBe(0)
      await press(tier.getByRole('button', { name: 'Go on with both changes' }))
      await press(tier.getByRole('button', { name: 'Try on my past' }))
      // Until the try has ended, saving asks her first whether she means it untried.
      await tier.getByText(/of your past/).waitFor()
      await press(tier.getByRole('button', { name: 'Save', exact: true }))
      await page.getByText('Statements is saved').waitFor()
      const { rules, terms } = await tierOf('statements')
      expect(rules).toEqual([{ when: ['request.mission_absent'], then: 'ask' }])
      expect(terms).toMatchObject({ expires_in: 120, prohibited: ['training', 'selling it'] })
      await browser.close()
    })

    it('a tier is made over what none governs, and deleted', async () => {
      const id = `made-by-${name}`
      await edit('trading', { resources: [] })
      const browser = await stand.deviceOf(device)
      const { page } = browser
      await page.goto(`${authority.ownerUrl}/#/rules`)
      await press(page.getByRole('button', { name: 'New tier' }))
      const form = page.getByRole('form', { name: 'A new tier' })
      await write(form.getByLabel('Short name'), id)
      await write(form.getByLabel('Name', { exact: true }), `Made by ${name}`)
      await write(form.getByLabel('Purpose'), 'Trading on my behalf')
      const resource = form.getByLabel('alice/trades')
      await (name === 'touch' ? resource.tap() : resource.press(' '))
      const scope = form.getByRole('group', { name: 'Allows' }).getByLabel('trade')
      await (name === 'touch' ? scope.tap() : scope.press(' '))
      await press(form.getByRole('button', { name: 'Save', exact: true }))
      await press(form.getByRole('button', { name: 'Save untried' }))
      await page.getByText(`Made by ${name} is saved`).waitFor()
      expect(await tierOf(id)).toMatchObject({
        ask_me: true,
        resources: ['alice/trades'],
        terms: { scope: ['trade'], expires_in: 3600, per_operation: true },
      })
      await press(item(page, id).getByRole('button', { name: 'Delete' }))
      await press(item(page, id).getByRole('button', { name: 'Delete the tier' }))
      await item(page, id).waitFor({ state: 'detached' })
      expect(await tierOf(id)).toBeUndefined()
      await edit('trading', { resources: ['alice/trades'] })
      await browser.close()
    })
  })

  it('a resource that another tier governs cannot be chosen, and the form says which tier to take it out of', async () => {
    await edit('trading', { resources: ['alice/trades'] })
    const browser = await stand.deviceOf(DESK)
    const { page } = browser
    await page.goto(`${authority.ownerUrl}/#/rules`)
    const tier = item(page, 'reading')
    await tier.getByRole('button', { name: 'Edit' }).click()
    const governed = tier.getByLabel('alice/trades')
    expect([await governed.isDisabled(), await governed.isChecked()]).toEqual([true, false])
    const label = tier.locator('label', { has: page.locator('input[value="alice/trades"]') })
    expect(await label.textContent()).toContain('governed by The trading tier: take it out there first')
    const own = tier.locator('input[value="alice/portfolio"]')
    expect([await own.isDisabled(), await own.isChecked()]).toEqual([false, true])
    await browser.close()
  })

  it('a resource that another tier takes while it is chosen here can be taken out, and not chosen again', async () => {
    await edit('trading', { resources: [] })
    const browser = await stand.deviceOf(DESK)
    const { page } = browser
    await page.goto(`${authority.ownerUrl}/#/rules`)
    await page.getByRole('button', { name: 'New tier' }).click()
    const resource = page.getByRole('form', { name: 'A new tier' }).getByLabel('alice/trades')
    await resource.check()
    await edit('trading', { resources: ['alice/trades'] })
    await page.getByText('governed by The trading tier: take it out there first').first().waitFor()
    expect([await resource.isDisabled(), await resource.isChecked()]).toEqual([false, true])
    await resource.uncheck()
    await expect.poll(() => resource.isDisabled()).toBe(true)
    await browser.close()
  })

  it('a tier that another device removes while it is edited stays on the page, and is said to be gone', async () => {
    await edit('trading', { resources: [] })
    const json = {
      id: 'fleeting',
      name: 'Fleeting',
      resources: ['alice/trades'],
      terms: { purpose: 'p', scope: ['trade'], expires_in: 60 },
    }
    await authority.call(authority.alice, { method: 'POST', target: '/owner/policies', json })
    const browser = await stand.deviceOf(DESK)
    const { page } = browser
    await page.goto(`${authority.ownerUrl}/#/rules`)
    const tier = item(page, 'fleeting')
    await tier.getByRole('button', { name: 'Edit' }).click()
    await tier.getByLabel('Purpose').fill('What took me an hour')
    await authority.call(authority.alice, { method: 'DELETE', target: '/owner/policies/fleeting' })
    await tier.getByText('Another device removed this tier').waitFor()
    expect(await tier.getByLabel('Purpose').inputValue()).toBe('What took me an hour')
    await edit('trading', { resources: ['alice/trades'] })
    await browser.close()
  })

  it('a condition that she does not answer for herself cannot let anybody through', async () => {
    const browser = await stand.deviceOf(DESK)
    const { page } = browser
    await page.goto(`${authority.ownerUrl}/#/rules`)
    const tier = item(page, 'trading')
    await tier.getByRole('button', { name: 'Edit' }).click()
    await tier.getByRole('button', { name: 'Add a rule' }).click()
    const then = tier.getByLabel('Rule 1: what is answered')
    const condition = tier.getByLabel('Rule 1, condition 1', { exact: true })
    expect(await then.locator('option[value=auto]').isDisabled()).toBe(true)
    await condition.selectOption('standing.age_above')
    await then.selectOption('auto')
    // The four that are her own acts.
    expect(await condition.locator('option').count()).toBe(4)
    await browser.close()
  })

  it('has no fault that axe finds, and is no wider than any screen', async () => {
    await edit('trading', {
      rules: [
        { when: ['standing.age_above:90d', 'standing.never_revoked'], then: 'auto' },
        { when: ['request.consequence_at_or_above:irreversible', 'request.reason_absent'], then: 'refuse' },
      ],
      clearance: { employed: ['yes', 'retired'] },
    })
    const agent = testAgent(authority)
    await agent.ask('portfolio_read')
    for (const options of [PHONE, DESK]) {
      const browser = await stand.deviceOf(options)
      const { page } = browser
      await page.goto(`${authority.ownerUrl}/#/rules`)
      await item(page, 'trading').waitFor()
      await expectSound(page, 'rules')
      await item(page, 'trading').getByRole('button', { name: 'Edit' }).click()
      await item(page, 'trading').getByLabel('Purpose').fill('Small trades alone')
      await item(page, 'trading').getByRole('button', { name: 'Try on my past' }).click()
      await item(page, 'trading').locator('.trial').waitFor()
      await expectSound(page, 'rules-edit')
      await browser.close()
    }
  })

  it('each change stands in her ledger with the key that made it', async () => {
    const { body } = await authority.call(authority.alice, { target: '/owner/ledger?kind=policy_changed' })
    const { entries } = body as unknown as { entries: LedgerEntry[] }
    expect(entries.at(-1)).toMatchObject({ tier: 'trading', actor: { credential: 'device_key' } })
  })
})
