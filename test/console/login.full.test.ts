/**
 * A login at her realm in the page, in a real browser, at a real OpenID provider: contract, "Authentication"
 * (owner at the owner API: an OIDC access token). What ends a credential ends what it has open.
 */
import type { Page, Request } from 'playwright-core'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { startTestAuthority } from '../support/authority.ts'
import { installedBrowser, type Device } from '../support/browser.ts'
import {
  card,
  DESK,
  enrolled,
  expectSound,
  pageStand,
  PHONE,
  WAYS,
  type Way,
} from '../support/console-stand.ts'
import { realmEnvironment, startRealmAuthority, type RealmAuthority } from '../support/realm-authority.ts'
import { AUDIENCE, PAGE } from '../support/realm.ts'
import { describeWith } from '../support/requirement.ts'
import { decide, testAgent } from '../support/test-agent.ts'

/** Long enough for a login to be seen, short enough for its end to be. */
const TOKEN_SECONDS = 33

describeWith(installedBrowser(), 'A login at her realm', path => {
  const browser = pageStand(path)
  let stand: RealmAuthority
  beforeAll(async () => {
    stand = await startRealmAuthority({
      realm: { seconds: TOKEN_SECONDS },
      logins: { alice: 'alice-at-work' },
      environment: { UMA_AS_CONSOLE_CLIENT: PAGE, UMA_AS_CONSOLE_SCOPE: 'openid owner' },
    })
  })
  afterAll(() => stand.close())
  // It knows nobody of the test before.
  beforeEach(() => stand.realm.admitPage(`${stand.authority.ownerUrl}/`))

  const [touch, keyboard] = WAYS as [Way, Way]
  /** At the provider's own pages, which are not ours to work by finger or key. */
  async function passes(page: Page, subject: string): Promise<void> {
    await page.locator('input[name=login]').fill(subject)
    await page.locator('input[name=password]').fill('any')
    await page.locator('button[type=submit]').click()
    await page.getByRole('button', { name: 'Continue' }).click()
  }
  /** `stream` is the event stream that the page opens once it is back. */
  async function loggedIn(
    { device, press }: Way = keyboard,
    subject = 'alice-at-work',
  ): Promise<Device & { stream: Promise<Request> }> {
    const opened = await browser.open(stand.authority.ownerUrl, device)
    // Waited for before she leaves: it may be open before anybody asks for it.
    const stream = opened.page.waitForRequest(/\/owner\/events$/, { timeout: 60_000 })
    stream.catch(() => undefined)
    await press(opened.page.getByRole('button', { name: 'Log in' }))
    await passes(opened.page, subject)
    return { ...opened, stream }
  }
  /** What the browser keeps of the page. */
  const kept = (page: Page): Promise<string[]> =>
    page.evaluate(() => [...Object.keys(sessionStorage), ...Object.keys(localStorage)])
  /** When this stream ends, from either side. */
  const endOf = (page: Page, stream: Request): { ended: Promise<unknown> } => {
    const isIt = { predicate: (one: unknown) => one === stream, timeout: 90_000 }
    return {
      ended: Promise.race([
        page.waitForEvent('requestfailed', isIt),
        page.waitForEvent('requestfinished', isIt),
      ]),
    }
  }

  describe.each([touch, keyboard])('by $name', way => {
    it('comes back from there signed in, with nothing of it in the address, and decides', async () => {
      const agent = testAgent(stand.authority)
      const { ticket } = (await agent.ask('portfolio_read')).body as { ticket: string }
      const { page, ...opened } = await loggedIn(way)
      const one = card(page, await familyOf(agent.handle))
      await one.waitFor()
      expect(new URL(page.url()).search).toBe('')
      expect(await kept(page)).toEqual([])
      await way.press(one.getByRole('button', { name: 'Approve', exact: true }))
      await one.getByText('Approved by you, on this device').waitFor()
      expect((await agent.present(ticket)).status).toBe(200)
      const { body } = await stand.authority.call(stand.authority.alice, {
        target: `/owner/ledger?kind=approved&handle=${agent.handle}`,
      })
      // Bound to what was shown; a login signs nothing.
      expect(body.entries).toMatchObject([{ binding: 'digest', actor: { credential: 'login' } }])
      await opened.close()
    })

    it('signs out, which ends the stream and leaves nothing behind', async () => {
      const { page, stream, ...opened } = await loggedIn(way)
      const { ended } = endOf(page, await stream)
      await page.getByRole('heading', { name: 'Waiting' }).waitFor()
      await page.goto(`${stand.authority.ownerUrl}/#/keys`)
      await way.press(page.getByRole('button', { name: 'Sign out here' }))
      await way.press(page.getByRole('button', { name: 'Sign out', exact: true }))
      await ended
      await page.getByText('You are signed out here').waitFor()
      expect(await kept(page)).toEqual([])
      await opened.close()
    })
  })

  async function familyOf(handle: string): Promise<string> {
    const { body } = await stand.authority.call(stand.authority.alice, { target: '/owner/pending' })
    return (body as { family: string; handle: string }[]).find(one => one.handle === handle)!.family
  }

  it('may be asked there, and nowhere else', async () => {
    const answer = await fetch(stand.authority.ownerUrl)
    const policy = answer.headers.get('content-security-policy')!
    expect(policy).toContain(`connect-src 'self' ${stand.realm.issuer};`)
    expect(policy.match(/https?:/g)).toHaveLength(1)
    const settings = (await (await fetch(`${stand.authority.ownerUrl}/console.json`)).json()) as object
    expect(settings).toMatchObject({
      device_keys: true,
      realm: { client_id: PAGE, resource: AUDIENCE, token_endpoint: `${stand.realm.issuer}/token` },
    })
  })

  it('of a login that is nobody’s there says so, and shows nothing', async () => {
    const { page, ...opened } = await loggedIn(keyboard, 'a-stranger')
    await page.getByText('Bind this login first').waitFor()
    await page.getByRole('button', { name: 'Log in' }).waitFor()
    expect(await page.locator('.cards').count()).toBe(0)
    await opened.close()
  })

  it('takes no code that it did not ask for', async () => {
    const { page, ...opened } = await browser.open(
      `${stand.authority.ownerUrl}/?code=stolen&state=theirs`,
      DESK,
    )
    await page.getByText('This page did not begin that login').waitFor()
    expect(page.url()).not.toContain('stolen')
    // Nor another one, while its own is under way.
    await page.getByRole('button', { name: 'Log in' }).click()
    await page.locator('input[name=login]').waitFor()
    await page.goto(`${stand.authority.ownerUrl}/?code=stolen&state=theirs`)
    await page.getByText('This page did not begin that login').waitFor()
    await opened.close()
  })

  it('goes on by itself when a token ends, and ends when the realm ends it', async () => {
    const { page, ...opened } = await loggedIn()
    await page.getByRole('heading', { name: 'Waiting' }).waitFor()
    const renewed = await page.waitForResponse(`${stand.realm.issuer}/token`, { timeout: 60_000 })
    expect(renewed.status()).toBe(200)
    const agent = testAgent(stand.authority)
    await agent.ask('portfolio_read')
    await card(page, await familyOf(agent.handle)).waitFor()
    // The realm forgets her: no token follows the last.
    stand.realm.admitPage(`${stand.authority.ownerUrl}/`)
    await page.getByText('Your login has ended').waitFor({ timeout: 90_000 })
    await decide(stand.authority, agent.handle, 'denied')
    await opened.close()
  }, 180_000)

  it('is over at once if the login is removed, and so is the stream', async () => {
    const { page, stream, ...opened } = await loggedIn()
    const { ended } = endOf(page, await stream)
    const { alice } = stand.authority
    const { body } = await stand.authority.call(alice, { target: '/owner/logins' })
    const [login] = body as { id: string; name: string; issuer: string; subject: string }[]
    const target = `/owner/logins/${encodeURIComponent(login!.id)}`
    expect((await stand.authority.call(alice, { method: 'DELETE', target })).status).toBe(200)
    await ended
    await page.getByText('Bind this login first').waitFor()
    await opened.close()
  })

  it('is offered without a fault that axe finds, and no wider than any screen', async () => {
    for (const options of [PHONE, DESK]) {
      const { page, ...opened } = await browser.open(stand.authority.ownerUrl, options)
      await page.getByRole('button', { name: 'Log in' }).waitFor()
      await expectSound(page, 'sign-in-realm')
      await opened.close()
    }
  })

  it('is not offered while the realm does not answer, which is said, and a key is taken meanwhile', async () => {
    const environment = { ...realmEnvironment('http://127.0.0.1:1'), UMA_AS_CONSOLE_CLIENT: PAGE }
    const alone = await startTestAuthority({ environment })
    const device = await browser.open(alone.ownerUrl, PHONE)
    await device.page.getByText('Where you log in does not answer now').waitFor()
    expect(await device.page.getByRole('button', { name: 'Log in' }).count()).toBe(0)
    await expectSound(device.page, 'sign-in-silent')
    await enrolled(device, { authority: alone, owner: alone.alice })
    await device.close()
    await alone.close()
  })
})
