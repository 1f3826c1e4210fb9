/** How a browser comes to decide for its owner: contract, "Authentication". By touch and by keyboard. */
import { expect, it } from 'vitest'
import { qrCode } from '../../src/console/parts/qr.ts'
import { issueCode } from '../../src/authority/administration/recovery.ts'
import { listDeviceKeys } from '../../src/storage/authority/credentials/device-keys.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import { asOwner } from '../../src/wire/identifiers.ts'
import { publicJwk } from '../../src/wire/signatures/keys.ts'
import { installedBrowser } from '../support/browser.ts'
import { consoleStand, expectSound, WAYS } from '../support/console-stand.ts'
import { describeWith } from '../support/requirement.ts'
import { newKey } from '../support/wire-samples.ts'

/** What a camera sees of a text: src/console/parts/qr.ts, which its own test reads back. */
function drawnOf(text: string): string {
  const dark = qrCode(text)!.flatMap((row, down) =>
    row.flatMap((isDark, across) => (isDark ? [`M${across + 4} ${down + 4}h1v1h-1z`] : [])),
  )
  return `<path d="${dark.join('')}"></path>`
}

describeWith(installedBrowser(), 'A browser that is enrolled', path => {
  // Their first keys are made in the browser.
  const owners = { touch: 'bea', keyboard: 'carl' }
  const stand = consoleStand(path, {
    owners: ['alice', 'bea', 'carl'],
    provision: document => {
      for (const one of document.owners) if (one.owner !== 'alice') one.device_keys = []
      return document
    },
  })
  const { authority, browser } = stand

  /** As `usher owner` or the operator of the authority hands it out. */
  const codeFor = async (owner: string): Promise<string> => {
    const settings = {
      enrolmentSeconds: 600,
      recoverySeconds: 0,
      accepted: { deviceKeys: true, issuer: undefined },
    }
    const wanted = { owner: asOwner(owner), recover: false, actor: { kind: 'authority' } } as const
    return (await inTransaction(authority.database.db, tx => issueCode(tx, settings, wanted))).code
  }

  /** Where her keys, or those that she calls so, were made, as they say for who pins one. */
  const surfacesOf = async (owner: string, called?: string): Promise<unknown[]> => {
    const keys = await listDeviceKeys(authority.database.db, asOwner(owner), { limit: 100 })
    return keys.filter(({ name }) => called === undefined || name === called).map(({ jwk }) => jwk['surface'])
  }

  it.each(WAYS)(
    'uses a one-time code in its link, which does not stay in the address, by $name',
    async ({ name, device: options, press }) => {
      const code = await codeFor(owners[name])
      const device = await browser.open(`${authority.ownerUrl}/#code=${code}`, options)
      const { page } = device
      expect(page.url()).not.toContain(code)
      await page.getByRole('button', { name: 'Enrol this browser' }).waitFor()
      await expectSound(page, 'sign-in-code')
      await press(page.getByRole('button', { name: 'Enrol this browser' }))
      await page.getByText('Nothing waits for you').waitFor()
      await page.reload()
      await page.getByText('Nothing waits for you').waitFor()
      expect(await surfacesOf(owners[name])).toEqual(['served'])
      await device.close()
    },
  )

  it.each(WAYS)(
    'is accepted on another device of hers, by a request that is compared and carried there, by $name',
    async ({ device: options, press, write }) => {
      const known = await stand.deviceOf(options)
      const device = await browser.open(authority.ownerUrl, options)
      await press(device.page.getByRole('button', { name: 'Make a request' }))
      const request = (await device.page.locator('code').first().textContent())!
      const link = (await device.page.locator('code').nth(1).textContent())!
      expect(link).toBe(`${authority.ownerUrl}/#add=${request}`)
      expect(await device.page.getByRole('img', { name: 'QR code of the link' }).innerHTML()).toBe(
        drawnOf(link),
      )
      const word = await device.page.locator('.check-word').textContent()
      await expectSound(device.page, 'sign-in-request')
      const { page } = known
      await press(page.getByRole('link', { name: 'Keys' }))
      await press(page.getByRole('button', { name: 'Add a device' }))
      await write(page.getByLabel('Request of the new device'), request)
      await write(page.getByLabel('What you call it'), 'the other one')
      expect(await page.locator('.check-word').textContent()).toBe(word)
      await press(page.getByRole('button', { name: 'Accept this device' }))
      await page.getByText('the other one decides for you now.').waitFor()
      expect(new Set(await surfacesOf('alice', 'the other one'))).toEqual(new Set(['served']))
      await device.page.getByRole('heading', { name: 'Waiting' }).waitFor()
      await device.close()
      await known.close()
    },
  )

  it.each(WAYS)(
    'accepts the key of a command line of hers, which no page made, by $name',
    async ({ device: options, press, write }) => {
      const { page, ...device } = await stand.deviceOf(options)
      const key = newKey()
      await press(page.getByRole('link', { name: 'Keys' }))
      await press(page.getByRole('button', { name: 'Add a device' }))
      await write(page.getByLabel('Request of the new device'), JSON.stringify(publicJwk(key)))
      await write(page.getByLabel('What you call it'), 'command line')
      const word = await page.locator('.check-word').textContent()
      expect(key.thumbprint.startsWith(word!.replace(' ', ''))).toBe(true)
      await expectSound(page, 'keys-command-line')
      await press(page.getByRole('button', { name: 'Accept this device' }))
      await page.getByText('command line decides for you now.').waitFor()
      expect(new Set(await surfacesOf('alice', 'command line'))).toEqual(new Set([undefined]))
      await device.close()
    },
  )
})
