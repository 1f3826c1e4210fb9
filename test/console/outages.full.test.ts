/**
 * What her page does while nobody answers: contract, "Events" (a reconnect resumes), "Errors" (an outage is
 * no denial). In a real browser, over an authority whose Postgres fails over to its standby.
 */
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { PostgresPair } from '../../src/dev/stack/embedded-postgres.ts'
import { AUTHORITY_DATABASE } from '../../src/storage/authority/database.ts'
import { Client } from 'pg'
import { installedBrowser, type Device } from '../support/browser.ts'
import { startTestAuthority, type TestAuthority } from '../support/authority.ts'
import { card, consoleStand, DESK, enrolled, expectSound, pageStand, WAYS } from '../support/console-stand.ts'
import { embeddedPair } from '../support/embedded-pair.ts'
import { describeWith } from '../support/requirement.ts'
import { severableLink, type SeverableLink } from '../support/severable-link.ts'
import { denyAll, pendingAt, testAgent } from '../support/test-agent.ts'
import { until } from '../support/until.ts'

const OFFLINE = 'Offline. What is shown may be old'

describeWith(installedBrowser(), 'A page without a network', path => {
  const stand = consoleStand(path)
  const { authority } = stand

  it.each(WAYS)(
    'says so, decides nothing, and is told all that it missed once it is back, by $name',
    async ({ device: options, press }) => {
      const device = await stand.deviceOf(options)
      const { page } = device
      const known = testAgent(authority)
      const before = await stand.waits(known)
      await card(page, before.family).waitFor()
      const resumed: (string | undefined)[] = []
      page.on('request', request => {
        if (request.url().endsWith('/owner/events')) resumed.push(request.headers()['last-event-id'])
      })
      await page.context().setOffline(true)
      const missed = [testAgent(authority), testAgent(authority), testAgent(authority)]
      const asked = []
      for (const agent of missed) asked.push(await stand.waits(agent))
      await press(card(page, before.family).getByRole('button', { name: 'Approve', exact: true }))
      const said = card(page, before.family).getByRole('alert').getByText('Nobody answers')
      expect(await said.textContent()).toContain('nothing was decided or changed, and it sends nothing again')
      expect((await pendingAt(authority)).map(({ family }) => family)).toContain(before.family)
      await page.getByText(OFFLINE).waitFor()
      await expectSound(page, 'offline')
      await page.context().setOffline(false)
      for (const { family } of asked) await card(page, family).waitFor()
      await page.getByText(OFFLINE).waitFor({ state: 'detached' })
      expect(resumed.at(-1)).toMatch(/./)
      // Nothing of what she pressed meanwhile is sent by itself.
      expect((await pendingAt(authority)).map(({ family }) => family)).toContain(before.family)
      await press(card(page, before.family).getByRole('button', { name: 'Approve', exact: true }))
      await card(page, before.family).getByText('Approved by you, on this device').waitFor()
      expect((await known.present(before.ticket)).status).toBe(200)
      await denyAll(authority)
      // Nothing of it is kept where another page of this browser could read it.
      expect(await page.evaluate('JSON.stringify([{ ...localStorage }, { ...sessionStorage }])')).toBe(
        '[{},{}]',
      )
      await device.close()
    },
  )
})

describeWith(installedBrowser(), 'A card whose agreement cannot be read', path => {
  const stand = consoleStand(path)

  it('says so, and shows the agent’s own words once the server answers', async () => {
    const agent = testAgent(stand.authority)
    const { family } = await stand.waits(agent, 'portfolio_read', { reason: 'To tell you how it stands' })
    const device = await stand.deviceOf(DESK)
    const { page } = device
    await page.route('**/owner/pending/fam_*', route => route.abort())
    await page.reload()
    const claims = card(page, family).locator('.claims')
    await claims.getByText('Nobody answers').waitFor()
    await expectSound(page, 'waiting-unread')
    expect(await claims.textContent()).not.toContain('To tell you how it stands')
    await page.unroute('**/owner/pending/fam_*')
    await claims.getByText('To tell you how it stands').waitFor()
    await device.close()
  })
})

const servers = await embeddedPair()

describeWith('found' in servers ? installedBrowser() : servers, 'A page whose database fails over', path => {
  const { primary, standby, ...running } = (servers as { found: PostgresPair }).found
  const browser = pageStand(path)
  let link: SeverableLink
  let authority: TestAuthority
  let device: Device
  // The standby ends before this does if the test fails, which is then no failure of its own.
  const away = new Client({ connectionString: standby.url }).on('error', () => undefined)

  beforeAll(async () => {
    await AUTHORITY_DATABASE.migrate(primary.url)
    link = await severableLink(primary.url)
    authority = await startTestAuthority({ environment: { DATABASE_URL: link.url } })
    device = await browser.open(authority.ownerUrl, DESK)
    await enrolled(device, { authority, owner: authority.alice })
  })
  afterAll(async () => {
    await away.end()
    await authority?.close()
    await link?.close()
    await running.stop()
  })

  it('calls it an outage, keeps what waits, and goes on at the standby with no event lost', async () => {
    const { page } = device
    const [waiting, later] = [testAgent(authority), testAgent(authority)]
    const { ticket } = (await waiting.ask()).body as { ticket: string }
    const [{ family } = { family: '' }] = await pendingAt(authority)
    await card(page, family).waitFor()
    await away.connect()
    // The standby has all that the primary has told anybody.
    const known = async () =>
      (await away.query<{ n: number }>('SELECT count(*)::int AS n FROM families')).rows[0]!.n
    await until(async () => (await known()) === 1)
    link.cut()
    const one = card(page, family)
    await one.getByRole('button', { name: 'Approve', exact: true }).click()
    const said = one.getByRole('alert')
    await said.waitFor()
    expect(await said.textContent()).not.toMatch(/denied|refused/i)
    expect(await page.getByText('Approved by you').count()).toBe(0)
    // Who opens the page now is told the same, and not that nothing waits.
    const second = await page.context().newPage()
    await second.goto(`${authority.ownerUrl}/#/waiting`)
    await second.getByRole('alert').waitFor()
    expect(await second.getByText('Nothing waits for you').count()).toBe(0)
    link.leadTo(standby.url)
    link.mend()
    await away.query('SELECT pg_promote()')
    await until(
      async () => (await authority.call(authority.alice, { target: '/owner/pending' })).status === 200,
    )
    await card(second, family).waitFor()
    const asked = await later.ask()
    expect(asked.body).toMatchObject({ error: 'request_submitted' })
    const next = (await pendingAt(authority)).find(({ handle }) => handle === later.handle)!
    for (const open of [page, second]) await card(open, next.family).waitFor()
    await one.getByRole('button', { name: 'Approve', exact: true }).click()
    await one.getByText('Approved by you, on this device').waitFor()
    await card(second, family).getByText('Approved by you, elsewhere').waitFor()
    expect((await waiting.present(ticket)).status).toBe(200)
  })
})
