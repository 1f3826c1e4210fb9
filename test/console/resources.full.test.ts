/**
 * Resources and servers on the page, in a real browser: contract, "Resource server registration", "Owner API"
 * (`/owner/resource-servers*`, `/owner/resources`).
 */
import { describe, expect, it } from 'vitest'
import type { BannedOrigin, ResourceServerEntry } from '../../src/wire/owner/owner-api.ts'
import { consoleStand, DESK, expectSound, PHONE, WAYS } from '../support/console-stand.ts'
import { installedBrowser, type Device } from '../support/browser.ts'
import { describeWith } from '../support/requirement.ts'

describeWith(installedBrowser(), 'Resources and servers on the page', path => {
  const stand = consoleStand(path)
  const { authority } = stand
  const opened = async (options: object): Promise<Device> => {
    const device = await stand.deviceOf(options)
    await device.page.goto(`${authority.ownerUrl}/#/resources`)
    await device.page.getByRole('heading', { name: 'Registered resources' }).waitFor()
    return device
  }
  const read = async <T>(target: string): Promise<T> => {
    const { body }: { body: unknown } = await authority.call(authority.alice, { target })
    return body as T
  }

  it('each resource says where it is, which tier governs it, and whether it takes only what she signs', async () => {
    await authority.database.pool.query(
      "UPDATE resources SET approval = 'signed' WHERE resource_id = 'alice/trades'",
    )
    const browser = await opened(DESK)
    const { page } = browser
    const signed = page.locator('[data-resource="alice/trades"]')
    await signed.getByText('Takes only what you sign').waitFor()
    await signed.getByRole('link', { name: 'The trading tier' }).waitFor()
    const [server] = await read<ResourceServerEntry[]>('/owner/resource-servers')
    await signed.getByText(new URL(server!.resource_uri).origin).waitFor()
    const other = page.locator('[data-resource="alice/portfolio"]')
    expect(await other.getByText('Takes only what you sign').count()).toBe(0)
    await browser.close()
  })

  describe.each(WAYS)('by $name', ({ device, press, write }) => {
    it('a server is withdrawn, and approved again', async () => {
      const browser = await opened(device)
      const { page } = browser
      const status = async (): Promise<string> =>
        (await read<ResourceServerEntry[]>('/owner/resource-servers'))[0]!.status
      const server = page.locator('li[data-server]').first()
      await press(server.getByRole('button', { name: 'Withdraw', exact: true }))
      await press(server.getByRole('button', { name: 'Withdraw now' }))
      await server.getByText('Withdrawn').waitFor()
      expect(await status()).toBe('revoked')
      await press(server.getByRole('button', { name: 'Approve', exact: true }))
      await press(server.getByRole('button', { name: 'Approve it' }))
      await server.getByText('Serves you').waitFor()
      expect(await status()).toBe('active')
      await browser.close()
    })

    it('an origin is banned, and admitted again', async () => {
      const browser = await opened(device)
      const { page } = browser
      await write(page.getByLabel('Ban an origin'), 'https://spam.example')
      await press(page.getByRole('button', { name: 'Ban', exact: true }))
      const one = page.locator('[data-banned="https://spam.example"]')
      await one.waitFor()
      expect(await read<BannedOrigin[]>('/owner/resource-servers/banned')).toMatchObject([
        { origin: 'https://spam.example' },
      ])
      await press(one.getByRole('button', { name: 'Admit again' }))
      await one.waitFor({ state: 'detached' })
      expect(await read<BannedOrigin[]>('/owner/resource-servers/banned')).toEqual([])
      await browser.close()
    })
  })

  it('has no fault that axe finds, and is no wider than any screen', async () => {
    const json = { origin: 'https://spam.example' }
    await authority.call(authority.alice, { method: 'POST', target: '/owner/resource-servers/ban', json })
    for (const options of [PHONE, DESK]) {
      const browser = await opened(options)
      const { page } = browser
      await page.locator('[data-banned]').waitFor()
      await expectSound(page, 'resources')
      await browser.close()
    }
  })
})
