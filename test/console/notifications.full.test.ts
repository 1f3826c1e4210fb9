/**
 * The owner's page about notifications: contract, "Owner API", "Events" (row 1). What a browser does for
 * itself, which is to ask a push service, is scripted; the rest is real.
 */
import type { Page } from 'playwright-core'
import { afterEach, beforeAll, describe, expect, it } from 'vitest'
import { notificationBody, pushBody } from '../../src/wire/owner/notification.ts'
import { installedBrowser, type Device } from '../support/browser.ts'
import { card, consoleStand, DESK, expectSound, overhang, PHONE, WAYS } from '../support/console-stand.ts'
import { notifying, testBrowser, verifiedWebhook } from '../support/notifications.ts'
import { describeWith } from '../support/requirement.ts'
import { startScriptedServer } from '../support/scripted-http.ts'
import { startedOnce } from '../support/started.ts'
import { testAgent } from '../support/test-agent.ts'
import { until } from '../support/until.ts'

describeWith(installedBrowser(), 'The page about notifications', path => {
  const stand = consoleStand(path, { environment: notifying() })
  const { authority, browser } = stand
  const receiver = startedOnce(() => startScriptedServer(() => ({ status: 204 })))
  const devices = {} as Record<'touch' | 'keyboard', Device>
  const listed = async () =>
    (await authority.call(authority.alice, { target: '/owner/notifications' })).body as {
      id: string
      kind: string
    }[]

  beforeAll(async () => {
    devices.touch = await stand.deviceOf(PHONE)
    devices.keyboard = await stand.deviceOf(DESK)
  })
  afterEach(async () => {
    for (const { id } of await listed())
      await authority.call(authority.alice, { method: 'DELETE', target: `/owner/notifications/${id}` })
  })

  /** The page anew, with nothing open. */
  const shown = async (page: Page): Promise<void> => {
    await page.goto(`${authority.ownerUrl}/#/operators`)
    await page.getByRole('heading', { name: 'Operators', exact: true }).waitFor()
    await page.goto(`${authority.ownerUrl}/#/notifications`)
    await page.getByRole('heading', { name: 'Notifications', exact: true }).waitFor()
  }

  describe.each(WAYS)('by $name', ({ name, press, write }) => {
    const page = () => devices[name].page

    it('adds a webhook, whose secret is shown once and verifies what comes, tries it and removes it', async () => {
      await shown(page())
      await page().getByText('You are told nowhere but here').waitFor()
      await press(page().getByRole('button', { name: 'Add a webhook' }))
      await write(page().getByLabel('Address'), `${receiver.origin}/${name}`)
      await write(page().getByLabel('What you call it'), '<b>relay</b>')
      await press(page().getByRole('button', { name: 'Add it' }))
      const secret = (await page()
        .getByText(/^whsec_/)
        .textContent())!
      await expectSound(page(), 'notifications-secret')
      await press(page().getByRole('button', { name: 'Send a test' }))
      await page().getByText('The test was taken.').waitFor()
      const [test] = receiver.to(`/${name}`)
      expect(verifiedWebhook(secret, test!)).toMatchObject({ type: 'test' })
      receiver.script(`/${name}`, { status: 500 })
      await press(page().getByRole('button', { name: 'Send a test' }))
      await page().getByText('The test was not taken: it answered 500.').waitFor()
      receiver.script(`/${name}`, { status: 204 })
      await page().reload()
      await page().getByText('<b>relay</b>').waitFor()
      expect(
        await page()
          .getByText(/^whsec_/)
          .count(),
      ).toBe(0)
      await press(page().getByRole('button', { name: 'Remove', exact: true }))
      await press(page().getByRole('button', { name: 'Remove now' }))
      await page().getByText('You are told nowhere but here').waitFor()
      expect(await listed()).toEqual([])
    })

    it('sets quiet hours in the time zone of the browser, and a digest, and takes both back', async () => {
      const url = `${receiver.origin}/timed-${name}`
      const json = { kind: 'webhook', name: 'my relay', url }
      await authority.call(authority.alice, { method: 'POST', target: '/owner/notifications', json })
      await shown(page())
      const when = page().getByRole('button', { name: 'When it is told' })
      const field = (label: string) => page().getByLabel(label, { exact: true })
      // By its keys, a browser in English takes the hour, the minute and the half of the day.
      const time = (of: string, typed: string) => (name === 'touch' ? of : typed)
      await page().getByText('Requests that can be undone: at once').waitFor()
      await press(when)
      const zone = await page().evaluate('Intl.DateTimeFormat().resolvedOptions().timeZone')
      expect(await field('Time zone').inputValue()).toBe(zone)
      await write(field('From'), time('22:00', '1000PM'))
      await write(field('Until'), time('22:00', '1000PM'))
      await press(page().getByRole('button', { name: 'Save' }))
      await page().getByText('give an end that differs from the beginning').waitFor()
      await write(field('Until'), time('07:00', '0700AM'))
      await write(field('Time zone'), 'Europe/Zurich')
      await write(field('Minutes until requests are told together'), '30')
      await press(page().getByRole('button', { name: 'Save' }))
      await page()
        .getByText('not from 22:00 until 07:00 (Europe/Zurich), together, 30 min after the first')
        .waitFor()
      await until(() => when.evaluate(node => node.matches(':focus')))
      const quiet_hours = { from: '22:00', until: '07:00', time_zone: 'Europe/Zurich' }
      expect(await listed()).toMatchObject([{ quiet_hours, digest_minutes: 30 }])
      await press(when)
      await field('From').fill('')
      await field('Until').fill('')
      await field('Minutes until requests are told together').fill('')
      await press(page().getByRole('button', { name: 'Save' }))
      await page().getByText('Requests that can be undone: at once').waitFor()
      expect(await listed()).toMatchObject([{ quiet_hours: null, digest_minutes: null }])
    })

    it('says what was refused, in the words of the authority', async () => {
      await shown(page())
      await press(page().getByRole('button', { name: 'Add a webhook' }))
      await write(page().getByLabel('Address'), 'https://10.0.0.1/x')
      await write(page().getByLabel('What you call it'), 'x')
      await press(page().getByRole('button', { name: 'Add it' }))
      await page().getByText('Give a public https address').waitFor()
      expect(await listed()).toEqual([])
    })
  })

  it('adds a browser that shows messages by itself, under the key of the authority, and needs no worker', async () => {
    const own = testBrowser()
    const device = await stand.deviceOf(PHONE)
    const { page } = device
    await page.addInitScript(
      ([endpoint, keys]) => {
        const asked: unknown[] = []
        const subscribe = async (options: unknown) => {
          asked.push(options)
          return { toJSON: () => ({ endpoint, keys }) }
        }
        Object.assign(globalThis, { asked, pushManager: { getSubscription: async () => null, subscribe } })
      },
      [`${receiver.origin}/declarative`, own.keys] as const,
    )
    await page.goto('about:blank')
    await shown(page)
    await page.getByRole('button', { name: 'Tell this browser' }).tap()
    await page.getByText('This browser is told from now on.').waitFor()
    const { body } = await authority.call(authority.alice, { target: '/owner/notifications/push-key' })
    expect(await page.evaluate('globalThis.asked')).toEqual([
      { userVisibleOnly: true, applicationServerKey: (body as { key: string }).key },
    ])
    expect(await page.evaluate('navigator.serviceWorker.controller')).toBe(null)
    const { family } = await stand.waits(testAgent(authority))
    await until(() => receiver.to('/declarative').length === 1)
    const { notification } = own.read(receiver.to('/declarative')[0]!) as {
      notification: { navigate: string }
    }
    // Its link opens the card.
    await page.goto('about:blank')
    await page.goto(notification.navigate)
    await card(page, family).waitFor()
    await until(() => card(page, family).evaluate(node => node.matches(':focus')))
    await device.close()
  })

  it('gives any other browser the worker of the page, under its one policy, which shows what comes', async () => {
    const own = testBrowser()
    const device = await stand.deviceOf(DESK)
    const { page } = device
    await page.context().grantPermissions(['notifications'])
    const subscription = JSON.stringify({ endpoint: `${receiver.origin}/worker`, keys: own.keys })
    await page.addInitScript(`Object.assign(PushManager.prototype, {
      getSubscription: async () => null,
      subscribe: async () => ({ toJSON: () => (${subscription}) }),
    })`)
    const session = await page.context().newCDPSession(page)
    const registered = new Promise<string>(resolve =>
      session.on('ServiceWorker.workerRegistrationUpdated', ({ registrations }) => {
        if (registrations[0] !== undefined) resolve(registrations[0].registrationId)
      }),
    )
    await session.send('ServiceWorker.enable')
    await page.goto('about:blank')
    await shown(page)
    await page.getByRole('button', { name: 'Tell this browser' }).click()
    await page.getByText('This browser is told from now on.').waitFor()
    const { family } = await stand.waits(testAgent(authority))
    await until(() => receiver.to('/worker').length === 1)
    const data = JSON.stringify(own.read(receiver.to('/worker')[0]!))
    const registrationId = await registered
    // The browser forgets a message that is looked for while it is about to be shown.
    const [worker] = page.context().serviceWorkers()
    await worker!.evaluate(`(() => {
      const show = self.registration.showNotification.bind(self.registration)
      self.shown = 0
      self.registration.showNotification = (...said) => show(...said).then(() => void (self.shown += 1))
    })()`)
    const shownIn = (messages: number) =>
      until(async () => (await worker!.evaluate('self.shown')) === messages)
    await session.send('ServiceWorker.deliverPushMessage', {
      origin: authority.ownerUrl,
      registrationId,
      data,
    })
    const told = (): Promise<unknown[]> =>
      page.evaluate(`navigator.serviceWorker.ready.then(one => one.getNotifications()).then(all =>
        all.map(({ title, body, tag }) => ({ title, body, tag })))`)
    await shownIn(1)
    await until(async () => (await told()).length === 1)
    const single = {
      title: 'A request waits for you',
      body: expect.stringContaining('alice/portfolio') as string,
      tag: family,
    }
    expect(await told()).toEqual([single])
    // And one message about several.
    const several = notificationBody({ count: 3 }, authority.ownerUrl, 0)
    await session.send('ServiceWorker.deliverPushMessage', {
      origin: authority.ownerUrl,
      registrationId,
      data: JSON.stringify(pushBody(several)),
    })
    await shownIn(2)
    await until(async () => (await told()).length === 2)
    const digest = {
      title: '3 requests wait for you',
      body: 'The page shows who asks, and for what.',
      tag: '',
    }
    expect(await told()).toEqual(expect.arrayContaining([single, digest]))
    await device.close()
  })

  it('is sound by axe and on narrow screens, with and without anything listed', async () => {
    for (const { page } of [devices.touch, devices.keyboard]) {
      await shown(page)
      await page.getByText('You are told nowhere but here').waitFor()
      await expectSound(page, 'notifications-none')
    }
    await authority.call(authority.alice, {
      method: 'POST',
      target: '/owner/notifications',
      json: { kind: 'webhook', name: 'my relay', url: `${receiver.origin}/sound` },
    })
    for (const { page } of [devices.touch, devices.keyboard]) {
      await page.getByText('my relay').waitFor()
      await page.getByRole('button', { name: 'Add a webhook' }).click()
      await page.getByRole('button', { name: 'When it is told' }).click()
      await expectSound(page, 'notifications')
      expect(await overhang(page)).toBe(0)
    }
    expect(browser.faults).toEqual([])
  })
})
