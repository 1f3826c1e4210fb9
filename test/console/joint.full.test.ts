/**
 * The owner's page about what she holds with others: contract, "Tally for a jointly held resource" (on each
 * holder's authorization server). A mandate is read before it is agreed to, by touch and by keyboard.
 */
import type { Page } from 'playwright-core'
import { afterEach, beforeAll, describe, expect, it } from 'vitest'
import { installedBrowser, type Device } from '../support/browser.ts'
import {
  consoleStand,
  DESK,
  enrolled,
  expectSound,
  pageStand,
  PHONE,
  WAYS,
} from '../support/console-stand.ts'
import { ACCOUNT, startJointStand } from '../support/joint-holder.ts'
import { describeWith } from '../support/requirement.ts'
import { startedOnce } from '../support/started.ts'

const CALL = {
  client_id: 'family-tools',
  resource_id: `${ACCOUNT}/savings`,
  agent: 'jkt:agent',
  family: 'fam_1',
  tool: 'place_trade',
  at: '2026-01-02T03:04:05.000Z',
  summary: null,
}

describeWith(installedBrowser(), 'The page about joint accounts', path => {
  const browser = pageStand(path)
  const stand = startedOnce(() => startJointStand())
  const devices = {} as Record<'touch' | 'keyboard', Device>

  beforeAll(async () => {
    const { authority, bea: owner } = stand
    for (const [name, options] of [['touch', PHONE] as const, ['keyboard', DESK] as const]) {
      devices[name] = await browser.open(authority.ownerUrl, options)
      await enrolled(devices[name], { authority, owner })
    }
  })
  afterEach(async () => {
    stand.served.mandate = stand.mandate
    await stand.own('DELETE', `/${ACCOUNT}`)
  })

  const shown = async (page: Page): Promise<void> => {
    await page.goto(`${stand.authority.ownerUrl}/#/operators`)
    await page.goto(`${stand.authority.ownerUrl}/#/joint`)
    await page.getByRole('heading', { name: 'Joint accounts', exact: true }).waitFor()
  }
  const item = (page: Page) => page.locator(`li[data-account="${ACCOUNT}"]`)
  const accounts = async () =>
    (await stand.own('GET')).body.accounts as { account: string; mandate_s256: string; state: string }[]

  describe.each(WAYS)('by $name', ({ name, press, tick, write }) => {
    const page = () => devices[name].page
    const read = async (): Promise<void> => {
      await shown(page())
      await write(page().getByLabel(/^Account/), ACCOUNT)
      await write(page().getByLabel(/^Tally/), stand.tally)
      await press(page().getByRole('button', { name: 'Read what it means' }))
      await page().locator('form.preview').waitFor()
    }

    it('tells what a mandate would commit her to, which has no effect, and has her hold under exactly that once she agreed', async () => {
      await read()
      const preview = page().locator('form.preview')
      await preview.getByText('Holders with a weight of 2 out of 3 must allow.').waitFor()
      await preview.getByText('dora at https://as.dora.test', { exact: true }).waitFor()
      await preview.getByText('One who has not agreed to it, or has left, is still named').waitFor()
      await preview.getByText('Your terms over it').waitFor()
      expect(await accounts()).toEqual([])
      expect(await preview.getByRole('button', { name: 'Agree', exact: true }).isDisabled()).toBe(true)
      await tick(preview.getByLabel(/^I have read this and agree to hold family-1/))
      await press(preview.getByRole('button', { name: 'Agree', exact: true }))
      await page().getByText('You hold family-1 from now on.').waitFor()
      await item(page()).waitFor()
      expect(await accounts()).toMatchObject([{ account: ACCOUNT, state: 'agreed' }])
    })

    it('agrees to nothing but what it showed: a mandate that moved is read again', async () => {
      await read()
      await page()
        .getByLabel(/^I have read this/)
        .check()
      stand.served.mandate = { ...stand.mandate, rule: { kind: 'all' } }
      await press(page().getByRole('button', { name: 'Agree', exact: true }))
      await page().getByText('The mandate has changed since you read it.').waitFor()
      await page().locator('form.preview').getByText('Every holder must allow.').waitFor()
      expect(
        await page()
          .getByLabel(/^I have read this/)
          .isChecked(),
      ).toBe(false)
      expect(await accounts()).toEqual([])
    })

    it('shows what was called there, page by page, and leaves', async () => {
      stand.server.script(`/joint/accesses/${ACCOUNT}`, {
        body: { accesses: [{ n: 2, ...CALL }], next: 2 },
      })
      await stand.agreed()
      await shown(page())
      await press(item(page()).getByText('What was called there'))
      await item(page()).getByText('place_trade').waitFor()
      stand.server.script(`/joint/accesses/${ACCOUNT}`, {
        body: { accesses: [{ n: 1, ...CALL, tool: 'read' }], next: null },
      })
      await press(item(page()).getByRole('button', { name: 'Show older' }))
      await item(page()).getByText('read', { exact: true }).waitFor()
      expect(stand.server.to(`/joint/accesses/${ACCOUNT}`).at(-1)!.query).toContain('before=2')
      await press(item(page()).getByRole('button', { name: 'Leave', exact: true }))
      await expectSound(page(), 'joint-leaving')
      await press(item(page()).getByRole('button', { name: 'Leave now' }))
      await page().getByText('You hold family-1 no more.').waitFor()
      expect(await accounts()).toEqual([])
    })
  })

  it('shows what she reads anew without her tick and without what went wrong when she agreed before', async () => {
    const { page } = devices.keyboard
    await stand.agreed()
    const held = (await accounts()).map(one => ({ ...one, state: 'changed' }))
    const outage = { error: 'temporarily_unavailable', error_description: 'Nobody is there now.' }
    const isJoint = (url: URL): boolean => url.pathname === '/owner/joint'
    await page.route(isJoint, route =>
      route.request().method() === 'POST'
        ? route.fulfill({ status: 503, json: outage })
        : route.fulfill({ json: { accounts: held } }),
    )
    await shown(page)
    const again = item(page).getByRole('button', { name: 'Read the new mandate', exact: true })
    await again.click()
    const form = page.locator('form.preview')
    const yes = form.getByLabel(/^I have read this/)
    await yes.check()
    await form.getByRole('button', { name: 'Agree', exact: true }).click()
    await form.getByRole('alert').getByText('Nobody is there now.').waitFor()
    await again.click()
    await form.getByRole('alert').waitFor({ state: 'detached' })
    await form.waitFor()
    expect(await yes.isChecked()).toBe(false)
    await page.unroute(isJoint)
  })

  it.each(['touch', 'keyboard'] as const)('has no fault that axe finds, by %s', async name => {
    const { page } = devices[name]
    await shown(page)
    await expectSound(page, 'joint-none')
    await page.getByLabel(/^Account/).fill(ACCOUNT)
    await page.getByLabel(/^Tally/).fill(stand.tally)
    await page.getByRole('button', { name: 'Read what it means' }).click()
    await page.locator('form.preview').waitFor()
    await expectSound(page, 'joint-preview')
    await stand.tier()
    await stand.agreed()
    stand.server.script(`/joint/accesses/${ACCOUNT}`, { body: { accesses: [{ n: 2, ...CALL }], next: null } })
    await shown(page)
    await item(page).getByText('What was called there').click()
    await item(page).getByText('place_trade').waitFor()
    await expectSound(page, 'joint')
  })
})

describeWith(installedBrowser(), 'Where the authority works with nobody else', path => {
  const stand = consoleStand(path)

  it.each([
    ['organization', 'so there is none to join'],
    ['joint', 'so there is no joint account to hold'],
  ])('the page %s says so', async (name, text) => {
    const device = await stand.deviceOf(PHONE)
    const { page } = device
    await page.goto(`${stand.authority.ownerUrl}/#/${name}`)
    await page.getByText(text).waitFor()
    await expectSound(page, `${name}-unserved`)
    await device.close()
  })
})
