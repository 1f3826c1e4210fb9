/**
 * The owner's page about an organization: contract, "Organization membership, on the member's authorization
 * server". What a code commits her to is read before it is agreed to, by touch and by keyboard.
 */
import type { Page } from 'playwright-core'
import { afterEach, beforeAll, describe, expect, it } from 'vitest'
import { installedBrowser, type Device } from '../support/browser.ts'
import { DESK, enrolled, expectSound, pageStand, PHONE, WAYS, type Way } from '../support/console-stand.ts'
import { CLAIMING, startMembershipStand } from '../support/membership.ts'
import { describeWith } from '../support/requirement.ts'
import { startedOnce } from '../support/started.ts'
import { until } from '../support/until.ts'

const isStanding = (url: URL): boolean => url.pathname === '/owner/organization'

describeWith(installedBrowser(), 'The page about an organization', path => {
  const browser = pageStand(path)
  const stand = startedOnce(() => startMembershipStand({ authority: { owners: ['alice', 'bea', 'carl'] } }))
  const devices = {} as Record<'touch' | 'keyboard', Device>
  const members = async () =>
    ((await stand.organization.admin({ target: '/admin/members' })).body as { owner: string }[]).length

  beforeAll(async () => {
    const { authority, alice: owner } = stand
    for (const [name, options] of [['touch', PHONE] as const, ['keyboard', DESK] as const]) {
      devices[name] = await browser.open(authority.ownerUrl, options)
      await enrolled(devices[name], { authority, owner })
    }
  })
  afterEach(async () => {
    await stand.own('DELETE')
    await until(async () => (await members()) === 0)
  })

  /** The page anew: what an organization answers about invitations is kept for a minute. */
  const shown = async (page: Page): Promise<void> => {
    await page.goto(`${stand.authority.ownerUrl}/#/operators`)
    await page.goto(`${stand.authority.ownerUrl}/#/organization`)
    await page.getByRole('heading', { name: 'Organization', exact: true }).waitFor()
  }

  describe.each(WAYS)('by $name', ({ name, press, tick, write }) => {
    const page = () => devices[name].page

    it('tells what a code would commit her to, which has no effect, and makes her a member of exactly that once she agreed', async () => {
      const code = await stand.invited()
      await shown(page())
      await write(page().getByLabel('Code of your invitation'), code)
      await press(page().getByRole('button', { name: 'Read what it means' }).last())
      const read = page().locator('form.preview')
      await read.getByText('It shares alice/portfolio, alice/account with you.').waitFor()
      await read.getByText('It cannot allow anything that you do not allow.').waitFor()
      await read.getByText('alice/trades', { exact: true }).waitFor()
      expect(await read.getByText('900').count()).toBeGreaterThan(0)
      expect(await members()).toBe(0)
      const join = read.getByRole('button', { name: 'Join' })
      expect(await join.isDisabled()).toBe(true)
      const approve = read.getByLabel('Approve requests')
      const agreed = read.getByLabel(/^I have read this and agree to version \d+ of Acme at work/)
      for (const box of [approve, agreed]) await tick(box)
      await press(join)
      await page().getByText('Member since').waitFor()
      expect((await stand.own('GET')).body).toMatchObject({
        enrolled: true,
        administrators_may: ['revoke', 'restore', 'block', 'unblock'],
      })
    })

    it('takes a power of its administrators away, and leaves', async () => {
      await stand.joined()
      await shown(page())
      await press(page().getByRole('button', { name: 'Take away: Approve requests' }))
      await expectSound(page(), 'organization-taking')
      await press(page().getByRole('button', { name: 'Take it away' }))
      await page().getByRole('button', { name: 'Take away: Approve requests' }).waitFor({ state: 'detached' })
      const { body } = await stand.own('GET')
      expect(body.administrators_may).toEqual(['revoke', 'restore', 'block', 'unblock'])
      await press(page().getByRole('button', { name: 'Leave', exact: true }))
      await expectSound(page(), 'organization-leaving')
      await press(page().getByRole('button', { name: 'Leave now' }))
      await page().getByText('You have left.').waitFor()
      expect((await stand.own('GET')).body).toMatchObject({ enrolled: false })
    })

    it('agrees to nothing but what it showed: a charter that moved is read again', async () => {
      const code = await stand.invited()
      await shown(page())
      await write(page().getByLabel('Code of your invitation'), code)
      await press(page().getByRole('button', { name: 'Read what it means' }).last())
      const agreed = page().getByLabel(/^I have read this and agree/)
      await agreed.check()
      const approve = page().getByLabel('Approve requests')
      await approve.uncheck()
      await stand.publish({ envelope: { ...CLAIMING.envelope, max_expires_in: 800 } })
      await press(page().getByRole('button', { name: 'Join' }))
      await page().getByText('It has changed since you read it').waitFor()
      await page().getByText('Access to them lasts at most 800 seconds.').waitFor()
      expect(await agreed.isChecked()).toBe(false)
      // What she wants to let its administrators do is no part of the charter, and stays as she chose it.
      expect(await approve.isChecked()).toBe(false)
      expect((await stand.own('GET')).body).toMatchObject({ enrolled: false })
      await agreed.check()
      await press(page().getByRole('button', { name: 'Join' }))
      await page().getByText('Member since').waitFor()
      await stand.publish({})
    })

    it('shows an invitation with what it says, and declines it on record', async () => {
      // What an organization answers is kept for a minute: for each way somebody who has not asked yet.
      const owner = stand.authority.owners[name === 'touch' ? 'bea' : 'carl']!
      const json = { owner: owner.owner, as_uri: stand.authority.issuer, note: 'For your new desk' }
      await stand.organization.admin({ method: 'POST', target: '/admin/invites', json })
      const device = await browser.open(stand.authority.ownerUrl, name === 'touch' ? PHONE : DESK)
      await enrolled(device, { authority: stand.authority, owner })
      await shown(device.page)
      await device.page.getByText('For your new desk').waitFor()
      await expectSound(device.page, 'organization-invited')
      await press(device.page.getByRole('button', { name: 'Decline', exact: true }))
      await press(device.page.getByRole('button', { name: 'Decline now' }))
      await device.page.getByText('Declined. The organization is told.').waitFor()
      const { body } = await stand.authority.call(owner, { target: '/owner/ledger?kind=org_declined' })
      expect(body.entries).toMatchObject([{ kind: 'org_declined', issuer: stand.issuer }])
      await device.close()
    })
  })

  it('shows what a wrong code is answered, and goes on', async () => {
    const { page } = devices.keyboard
    await shown(page)
    await page.getByLabel('Code of your invitation').fill('inv_1.wrong')
    await page.getByRole('button', { name: 'Read what it means' }).last().click()
    await page.getByRole('alert').waitFor()
    expect(await page.locator('form.preview').count()).toBe(0)
  })

  it('binds her to a later version that enlarges what it reaches only once she agreed again', async () => {
    await stand.joined()
    await stand.publish({ claims: [...CLAIMING.claims, 'alice/statements'] })
    await until(async () => (await stand.own('GET')).body.waiting !== null, 90_000)
    const { page } = devices.touch
    await shown(page)
    await page.getByRole('heading', { name: 'A later version waits for you' }).waitFor()
    await expectSound(page, 'organization-later')
    expect((await stand.own('GET')).body.governed_resources).not.toContain('alice/statements')
    await page.getByLabel(/^I have read this and agree/).tap()
    await page.getByRole('button', { name: 'Agree to it' }).tap()
    await page.getByRole('heading', { name: 'A later version waits for you' }).waitFor({ state: 'detached' })
    expect((await stand.own('GET')).body.governed_resources).toContain('alice/statements')
    await stand.publish({})
  })

  it('takes a tick for no still later version, which comes while she reads: she reads it, and ticks again', async () => {
    await stand.joined()
    const { body: standing } = await stand.own('GET')
    const { page } = devices.keyboard
    let version = 2
    await page.route(isStanding, route => {
      const waiting = { version, changes: [`It reaches what version ${version} names.`] }
      const charter_version = version
      return route.fulfill({ json: { ...standing, charter_version, binds_s256: `of-${version}`, waiting } })
    })
    await shown(page)
    await page.getByText('It reaches what version 2 names.').waitFor()
    const agreed = page.getByLabel(/^I have read this and agree/)
    const agree = page.getByRole('button', { name: 'Agree to it' })
    await agreed.check()
    expect(await agree.isEnabled()).toBe(true)
    version = 3
    // The page reads again at whatever happens to her membership.
    await stand.own('PUT', '', { administrators_may: [] })
    await page.getByText('It reaches what version 3 names.').waitFor()
    await page.getByRole('alert').getByText('It has changed since you read it').waitFor()
    expect([await agreed.isChecked(), await agree.isEnabled()]).toEqual([false, false])
    await agreed.check()
    expect(await agree.isEnabled()).toBe(true)
    expect(await page.getByText('It has changed since you read it').count()).toBe(0)
    await page.unroute(isStanding)
  })

  it('says once that a later version has moved when she agreed to it, and hands the focus on when none waits any more', async () => {
    await stand.joined()
    const { body: standing } = await stand.own('GET')
    const { page } = devices.keyboard
    const { press, tick } = WAYS.find(({ name }) => name === 'keyboard') as Way
    const moved = { error: 'conflict', error_description: 'The charter has moved.', reason: 'charter_moved' }
    let version: number | undefined = 2
    await page.route(isStanding, route => {
      if (route.request().method() === 'POST') {
        const isMoved = version === 2
        version = isMoved ? 3 : undefined
        return route.fulfill(isMoved ? { status: 409, json: moved } : { json: standing })
      }
      if (version === undefined) return route.fulfill({ json: standing })
      const waiting = { version, changes: [`It reaches what version ${version} names.`] }
      const charter_version = version
      return route.fulfill({ json: { ...standing, charter_version, binds_s256: `of-${version}`, waiting } })
    })
    await shown(page)
    const form = page.locator('form.invited')
    await form.getByText('It reaches what version 2 names.').waitFor()
    const agreed = form.getByLabel(/^I have read this and agree/)
    const agree = form.getByRole('button', { name: 'Agree to it' })
    await tick(agreed)
    await press(agree)
    await form.getByText('It reaches what version 3 names.').waitFor()
    await form.getByRole('alert').getByText('It has changed since you read it').waitFor()
    expect(await form.getByRole('alert').count()).toBe(1)
    await tick(agreed)
    await press(agree)
    await form.waitFor({ state: 'detached' })
    const heading = page.getByRole('heading', { name: 'Organization', exact: true })
    await expect.poll(() => heading.evaluate(node => node.matches(':focus'))).toBe(true)
    await page.unroute(isStanding)
  })

  it.each(['touch', 'keyboard'] as const)('has no fault that axe finds, by %s', async name => {
    const { page } = devices[name]
    await shown(page)
    await expectSound(page, 'organization-none')
    await page.getByLabel('Code of your invitation').fill(await stand.invited())
    await page.getByRole('button', { name: 'Read what it means' }).last().click()
    await page.locator('form.preview').waitFor()
    await expectSound(page, 'organization-preview')
    await stand.joined()
    await shown(page)
    await page.getByText('Member since').waitFor()
    await expectSound(page, 'organization')
  })
})
