/**
 * Her allowances on the page, in a real browser: contract, "Policy vocabulary and tiers", "Owner API"; an
 * addition (docs/details/owner-api.md). Each act is told by touch and by keyboard.
 */
import type { Page } from 'playwright-core'
import { beforeEach, describe, expect, it } from 'vitest'
import type { Tier } from '../../src/wire/owner/owner-api.ts'
import type { OwnerCall } from '../support/authority.ts'
import { installedBrowser } from '../support/browser.ts'
import { consoleStand, DESK, expectSound, PHONE, WAYS } from '../support/console-stand.ts'
import { describeWith } from '../support/requirement.ts'
import { testAgent } from '../support/test-agent.ts'

const MEMBERS = {
  amounts: [{ name: 'qty', unit: 'shares', each_max: '10' }],
  windows: [{ of: 'qty', per: 'day', max: '20' }],
  tiers: {
    trading: { tools: ['place_trade'], amounts: { qty: { pointer: '/qty' } }, only: [], free: ['/note'] },
  },
}
const LOWER_DAY = 'Lower: qty: at most 20 shares (as the tool counts) a day'

describeWith(installedBrowser(), 'Her allowances on the page', path => {
  const stand = consoleStand(path)
  const { authority } = stand
  const own = (call: OwnerCall) => authority.call(authority.alice, call)
  const save = async (id: string, changes: object = {}): Promise<void> => {
    const json = { ...MEMBERS, ...changes }
    const { status, text } = await own({ method: 'PUT', target: `/owner/allowances/${id}`, json })
    if (status >= 300) throw new Error(text)
  }
  const stored = async (id: string): Promise<Record<string, unknown>> =>
    (await own({ target: `/owner/allowances/${id}` })).body
  const rulesOfTrading = async (): Promise<Tier['rules']> => {
    const { body } = await own({ target: '/owner/policies' })
    return (body as unknown as { tiers: Tier[] }).tiers.find(({ id }) => id === 'trading')!.rules
  }
  const item = (page: Page, id: string) => page.locator(`li[data-allowance="${id}"]`)
  const opened = async (options: object) => {
    const device = await stand.deviceOf(options)
    await device.page.goto(`${authority.ownerUrl}/#/allowances`)
    await device.page.getByRole('heading', { name: 'Allowances', exact: true }).waitFor()
    return device
  }
  beforeEach(async () => {
    await own({ method: 'PUT', target: '/owner/policies/trading', json: { rules: [] } })
  })

  describe.each(WAYS)('worked by $name', ({ name, device: options, press, tick, write }) => {
    it('one of its numbers is lowered, and by no press is it raised', async () => {
      const id = `lowered-by-${name}`
      await save(id)
      const { page, ...device } = await opened(options)
      const one = item(page, id)
      await press(one.getByRole('button', { name: LOWER_DAY }))
      await one.getByText('Lower than 20 shares (as the tool counts).').waitFor()
      const [field, button] = [
        one.getByLabel(/^New number for/),
        one.getByRole('button', { name: 'Lower it', exact: true }),
      ]
      for (const number of ['20', '20.5', '1e1', 'less']) {
        await write(field, number)
        expect(await button.isDisabled()).toBe(true)
      }
      await write(field, '12.5')
      await press(button)
      await one.getByText('It is lowered, from now on.').waitFor()
      await one.getByText('qty: at most 12.5 shares').waitFor()
      expect(await stored(id)).toMatchObject({
        version: 2,
        amounts: MEMBERS.amounts,
        windows: [{ of: 'qty', per: 'day', max: '12.5' }],
      })
      const again = one.getByRole('button', { name: LOWER_DAY.replace('20', '12.5') })
      await expect.poll(() => again.evaluate(node => node.matches(':focus'))).toBe(true)
      await device.close()
    })

    it('is ended, and every operation is beyond it', async () => {
      const id = `ended-by-${name}`
      await save(id)
      const { page, ...device } = await opened(options)
      const one = item(page, id)
      await press(one.getByRole('button', { name: `End: ${id}` }))
      await press(one.getByRole('button', { name: 'End it now' }))
      await one.getByText(/^It ended at .*; every operation is beyond it\.$/).waitFor()
      expect(await one.getByRole('button', { name: /^(Lower|End)/ }).count()).toBe(0)
      const { version, until } = await stored(id)
      expect([version, Date.parse(String(until)) <= Date.now()]).toEqual([2, true])
      await device.close()
    })

    it('what another device stored meanwhile is not overwritten, and is shown before she acts again', async () => {
      const id = `stale-by-${name}`
      await save(id)
      const { page, ...device } = await opened(options)
      const one = item(page, id)
      await press(one.getByRole('button', { name: LOWER_DAY }))
      await save(id, { windows: [{ of: 'qty', per: 'day', max: '15' }] })
      await write(one.getByLabel(/^New number for/), '17')
      await press(one.getByRole('button', { name: 'Lower it', exact: true }))
      await one.getByRole('alert').getByText('This allowance was changed since you were shown it').waitFor()
      await one.getByText('qty: at most 15 shares').waitFor()
      expect(await stored(id)).toMatchObject({ version: 2, windows: [{ max: '15' }] })
      await device.close()
    })

    it('opens at no number that another device stored since she read it: she reads that, and says yes again', async () => {
      const id = `moved-by-${name}`
      await save(id)
      const { page, ...device } = await opened(options)
      const one = item(page, id)
      await press(one.getByRole('button', { name: 'Read what opening it means' }))
      const opening = one.getByRole('form', { name: `What ${id} opens at The trading tier` })
      const yes = opening.getByLabel(/^I have read this/)
      await tick(yes)
      // At the last moment: when the page stores the rules.
      await page.route(
        '**/owner/policies/trading**',
        async route => {
          await save(id, { windows: [{ of: 'qty', per: 'day', max: '900' }] })
          await route.continue()
        },
        { times: 1 },
      )
      await press(opening.getByRole('button', { name: 'Open', exact: true }))
      await opening.getByRole('alert').getByText('so nothing was opened').waitFor()
      expect(await rulesOfTrading()).toEqual([])
      await one.getByText('qty: at most 900 shares').first().waitFor()
      await expect.poll(() => yes.isChecked()).toBe(false)
      await tick(yes)
      await press(opening.getByRole('button', { name: 'Open', exact: true }))
      await opening.getByText(`${id} is in force at The trading tier.`).waitFor()
      expect((await rulesOfTrading()).length).toBe(2)
      await device.close()
    })

    it('is made, read and opened to the agents that are named; what fails half way is said and offered again', async () => {
      const id = `made-by-${name}`
      const agent = testAgent(authority)
      const trade = (qty: number) => ({ operation: { tool: 'place_trade', params: { qty } } })
      await agent.granted('place_trade', trade(11))
      const { page, ...device } = await opened(options)
      await press(page.getByRole('button', { name: 'New allowance' }))
      const form = page.getByRole('form', { name: 'A new allowance' })
      await write(form.getByLabel('Short name'), id)
      await write(form.getByLabel('Tool 1', { exact: true }), 'place_trade')
      await press(form.getByRole('button', { name: 'Count an amount' }))
      const amount = form.getByRole('group', { name: 'Amount 1', exact: true })
      await write(amount.getByLabel('Name', { exact: true }), 'qty')
      await write(amount.getByLabel('Where it stands', { exact: true }), '/qty')
      await write(amount.getByLabel('At most in one operation'), '10')
      const bound = form.getByRole('group', { name: 'Window 1', exact: true })
      await bound.getByRole('combobox', { name: 'Of', exact: true }).selectOption('qty')
      await write(bound.getByLabel('At most', { exact: true }), '20')
      await press(form.getByRole('button', { name: 'Leave a parameter free' }))
      await write(form.getByLabel('Free parameter 1', { exact: true }), '/note')
      await expectSound(page, 'allowance-form')
      await press(form.getByRole('button', { name: 'Read what it means' }))
      const opening = page.getByRole('form', { name: `What ${id} opens at The trading tier` })
      await opening.locator(`[data-agent="${agent.handle}"]`).waitFor()
      await opening.getByText('qty: at most 10 (as the tool counts) in one operation').waitFor()
      await opening.getByText('/note may say anything').waitFor()
      await expectSound(page, 'allowance-opening')
      const yes = opening.getByRole('button', { name: 'Save and open' })
      expect(await yes.isDisabled()).toBe(true)
      await tick(opening.getByLabel(/^I have read this/))
      await page.route('**/owner/policies/trading**', route =>
        route.fulfill({
          status: 503,
          json: { error: 'temporarily_unavailable', error_description: 'The database does not answer.' },
        }),
      )
      // The answer is lost: at the next attempt, the very same is stored already.
      await page.route(
        `**/owner/allowances/${id}`,
        async route => {
          await route.fetch()
          await route.abort()
        },
        { times: 1 },
      )
      await press(yes)
      await opening.getByRole('alert').waitFor()
      expect(await opening.getByText('Nothing has happened yet').count()).toBe(0)
      await press(yes)
      await opening.getByText(`${id} is stored. The rules of The trading tier do not name it yet`).waitFor()
      await opening.getByRole('alert').getByText('The database does not answer.').waitFor()
      expect([(await stored(id))['version'], await rulesOfTrading()]).toEqual([1, []])
      expect((await agent.ask('place_trade', trade(1))).body).toMatchObject({ error: 'request_submitted' })
      await page.unroute('**/owner/policies/trading**')
      const [amounts, windows] = [[{ name: 'qty', each_max: '10' }], [{ of: 'qty', per: 'day', max: '30' }]]
      await save(id, { amounts, windows })
      await opening.getByText('qty: at most 30 (as the tool counts) a day').waitFor()
      await tick(opening.getByLabel(/^I have read this/))
      await press(opening.getByRole('button', { name: 'Open', exact: true }))
      await opening.getByText(`${id} is in force at The trading tier.`).waitFor()
      expect(await rulesOfTrading()).toEqual([
        { when: ['standing.approved_at_tier'], then: 'auto' },
        { when: [`operation.beyond:${id}`], then: 'ask' },
      ])
      expect((await agent.ask('place_trade', trade(2))).status).toBe(200)
      expect((await agent.ask('place_trade', trade(11))).body).toMatchObject({ error: 'request_submitted' })
      await press(opening.getByRole('button', { name: 'Close' }))
      await item(page, id).getByText('In force', { exact: true }).waitFor()
      await device.close()
    })
  })

  it('never says “to nobody” of a tier where agents pass by another rule: they go on within the allowance', async () => {
    const id = 'beside-another-rule'
    await save(id)
    const { page, ...device } = await stand.deviceOf(DESK)
    await page.route(
      url => url.pathname === '/owner/connections',
      route => route.fulfill({ json: [] }),
    )
    for (const [rules, text] of [
      [[], 'It opens to nobody at once'],
      [[{ when: ['standing.never_revoked'], then: 'auto' }], 'Those who pass by it go on passing'],
    ] as const) {
      const json = { rules }
      await own({ method: 'PUT', target: '/owner/policies/trading', json })
      await page.goto(`${authority.ownerUrl}/#/allowances`)
      await page.reload()
      await item(page, id).getByRole('button', { name: 'Read what opening it means' }).click()
      const opening = item(page, id).getByRole('form')
      await opening.getByText(text).waitFor()
      expect(await opening.getByText('nobody at once').count()).toBe(rules.length === 0 ? 1 : 0)
    }
    await device.close()
  })

  it('what she stored is no change of another device, although its answer was lost', async () => {
    const id = 'answer-lost'
    await save(id)
    const { page, ...device } = await opened(DESK)
    const one = item(page, id)
    await one.getByRole('button', { name: LOWER_DAY }).click()
    await one.getByLabel(/^New number for/).fill('12')
    await page.route(
      `**/owner/allowances/${id}`,
      async route => {
        await route.fetch()
        await route.abort()
      },
      { times: 1 },
    )
    const lower = one.getByRole('button', { name: 'Lower it', exact: true })
    await lower.click()
    await one.getByRole('alert').waitFor()
    await lower.click()
    await one.getByText('It is lowered, from now on.').waitFor()
    expect(await one.getByText('Another device changed').count()).toBe(0)
    expect(await stored(id)).toMatchObject({ version: 2, windows: [{ max: '12' }] })
    await device.close()
  })

  it('begins no act over what she has changed herself, until it has read that', async () => {
    const id = 'read-late'
    await save(id)
    const { page, ...device } = await opened(DESK)
    const one = item(page, id)
    const lower = one.getByRole('button', { name: /^Lower: qty: at most .* a day$/ })
    await lower.click()
    await one.getByLabel(/^New number for/).fill('12')
    const { promise: isAllowed, resolve: allow } = Promise.withResolvers<void>()
    await page.route(
      url => url.pathname === '/owner/allowances',
      async route => {
        await isAllowed
        await route.continue()
      },
    )
    await one.getByRole('button', { name: 'Lower it', exact: true }).click()
    await one.getByText('It is lowered, from now on.').waitFor()
    expect(await lower.getAttribute('aria-disabled')).toBe('true')
    await lower.press('Enter')
    expect(await one.getByLabel(/^New number for/).count()).toBe(0)
    allow()
    await one.getByText('qty: at most 12 shares').waitFor()
    await lower.click()
    await one.getByLabel(/^New number for/).fill('11')
    await one.getByRole('button', { name: 'Lower it', exact: true }).click()
    await one.getByText('qty: at most 11 shares').waitFor()
    expect(await stored(id)).toMatchObject({ version: 3, windows: [{ max: '11' }] })
    await device.close()
  })

  it('shows by itself that an allowance ends while she looks, and that a window begins anew', async () => {
    const { page, ...device } = await stand.deviceOf(DESK)
    let turn: number | undefined
    const members = { version: 1, zone: 'UTC', among: 'all', until: null, hold_s: 300, ...MEMBERS }
    await page.route(
      url => url.pathname === '/owner/allowances',
      async route => {
        turn ??= Date.now() + 2_000
        const ends = new Date(turn).toISOString()
        const used = Date.now() < turn ? '12.5' : '0'
        const day = { of: 'qty', per: 'day', max: '20', used, held: '0', left: '7.5', starts: ends, ends }
        await route.fulfill({
          json: [
            { id: 'ending', ...members, until: ends, use: [] },
            { id: 'beginning', ...members, use: [{ windows: [day] }] },
          ],
        })
      },
    )
    await page.goto(`${authority.ownerUrl}/#/allowances`)
    await item(page, 'ending')
      .getByText(/^It ended at/)
      .waitFor()
    await item(page, 'beginning').getByText('0 of 20 shares (as the tool counts) used').waitFor()
    await device.close()
  })

  it('says how much of each window is used in numbers beside its bar, without a fault that axe finds', async () => {
    const listed = (id: string, changes: object) => ({
      id,
      version: 3,
      zone: 'Europe/Zurich',
      among: 'all',
      until: null,
      hold_s: 300,
      ...MEMBERS,
      ...changes,
    })
    const day = { of: 'qty', per: 'day', max: '20', used: '12.5', held: '2.5', left: '7.5' }
    const starts = '2026-01-02T00:00:00.000Z'
    const use = { windows: [{ ...day, starts, ends: '2026-01-03T00:00:00.000Z' }] }
    for (const options of [PHONE, DESK]) {
      const { page, ...device } = await stand.deviceOf(options)
      await page.route(
        url => url.pathname === '/owner/allowances',
        route =>
          route.fulfill({
            json: [
              listed('together', { use: [use], windows: [{ ...MEMBERS.windows[0], ceiling: '15' }] }),
              listed('apart', { among: 'lineage', use: [{ whose: 'jkt:first', ...use }], more: true }),
              listed('untold', { among: 'lineage', use: [] }),
              listed('unsaid', {}),
              listed('over', { until: starts, use: [use] }),
            ],
          }),
      )
      await page.goto(`${authority.ownerUrl}/#/allowances`)
      const together = item(page, 'together')
      await together.getByText('12.5 of 20 shares (as the tool counts) used, 7.5 left').waitFor()
      await together.getByText('2.5 shares (as the tool counts) of that is in grants').waitFor()
      const widthOf = (part: string) => together.locator(part).getAttribute('width')
      expect([await widthOf('.bar-spent'), await widthOf('.bar-open')]).toEqual(['50', '12.5'])
      const apart = item(page, 'apart').locator('[data-lineage="jkt:first"]')
      await apart.getByText('12.5 of 20 shares (as the tool counts) used, 7.5 left').waitFor()
      await item(page, 'apart').getByText('a day, each').waitFor()
      await item(page, 'apart').getByText('Only the latest are shown.').waitFor()
      await together.getByText('at what it governs: at most 15 shares (as the tool counts).').waitFor()
      await item(page, 'untold').getByText('Either nothing of its present windows is used, or').waitFor()
      await item(page, 'unsaid').getByText('Your authority does not say how much of it is used.').waitFor()
      expect(await item(page, 'over').getByRole('button').count()).toBe(0)
      await expectSound(page, 'allowances')
      await together.getByRole('button', { name: LOWER_DAY }).click()
      await together.getByRole('button', { name: 'Lower it', exact: true }).waitFor()
      await expectSound(page, 'allowances-lowering')
      await device.close()
    }
  })
})
