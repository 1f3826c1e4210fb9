/**
 * Where the focus goes on her page when her act takes away the button that has it: contract, "Owner API". By
 * keys, which go on from where the focus is.
 */
import { generateKeyPairSync } from 'node:crypto'
import type { Locator } from 'playwright-core'
import { expect, it } from 'vitest'
import type { OwnerCall } from '../support/authority.ts'
import { installedBrowser } from '../support/browser.ts'
import { consoleStand, DESK, WAYS, type Way } from '../support/console-stand.ts'
import { describeWith } from '../support/requirement.ts'

const ALLOWANCE = {
  amounts: [{ name: 'qty', each_max: '10' }],
  windows: [{ of: 'qty', per: 'day', max: '20' }],
  tiers: { trading: { tools: ['place_trade'], amounts: { qty: { pointer: '/qty' } } } },
}
const OUTAGE = {
  status: 503,
  json: { error: 'temporarily_unavailable', error_description: 'Nobody is there now.' },
}
const isConnections = (url: URL): boolean => url.pathname === '/owner/connections'

describeWith(installedBrowser(), 'The focus of somebody who works by keys', path => {
  const stand = consoleStand(path)
  const { authority } = stand
  const { press, tick, write } = WAYS.find(({ name }) => name === 'keyboard') as Way
  const own = (call: OwnerCall) => authority.call(authority.alice, call)
  const hasFocus = (target: Locator): Promise<boolean> => target.evaluate(node => node.matches(':focus'))
  const allowance = async (id: string) => {
    await own({ method: 'PUT', target: '/owner/policies/trading', json: { rules: [] } })
    const target = `/owner/allowances/${id}`
    expect((await own({ method: 'PUT', target, json: ALLOWANCE })).status).toBeLessThan(300)
    const device = await stand.deviceOf(DESK)
    await device.page.goto(`${authority.ownerUrl}/#/allowances`)
    const one = device.page.locator(`li[data-allowance="${id}"]`)
    const button = (name: string) => one.getByRole('button', { name, exact: true })
    const read = button(`Read what opening it means: ${id}, The trading tier`)
    return { device, one, end: button(`End: ${id}`), read }
  }

  it('comes back to the button whose question she leaves', async () => {
    const { device, one, end } = await allowance('left-as-it-is')
    const back = one.getByRole('button', { name: 'Back', exact: true })
    for (const key of ['Enter', 'Escape']) {
      await press(end)
      await expect.poll(() => hasFocus(back)).toBe(true)
      await device.page.keyboard.press(key)
      await expect.poll(() => hasFocus(end)).toBe(true)
    }
    await device.close()
  })

  it('comes back to the button whose act fails, and goes to the heading of what the act ends', async () => {
    const id = 'ended-by-keys'
    const { device, one, end } = await allowance(id)
    const now = one.getByRole('button', { name: 'End it now', exact: true })
    const place = `**/owner/allowances/${id}`
    await device.page.route(place, route => route.fulfill(OUTAGE))
    await press(end)
    await press(now)
    await one.getByRole('alert').getByText('Nobody is there now.').waitFor()
    await expect.poll(() => hasFocus(end)).toBe(true)
    await device.page.unroute(place)
    await press(end)
    await press(now)
    await one.getByText(/^It ended at .*; every operation is beyond it\.$/).waitFor()
    const heading = one.getByRole('heading', { name: id, exact: true })
    await expect.poll(() => hasFocus(heading)).toBe(true)
    await device.close()
  })

  it('goes to the heading of the tier that she reads about and leaves, or of the page without a new allowance', async () => {
    const id = 'only-read'
    const { device, one, read } = await allowance(id)
    const { page } = device
    await press(read)
    await press(one.getByRole('form').getByRole('button', { name: 'Back', exact: true }))
    const tier = one.getByRole('heading', { name: 'At The trading tier', exact: true })
    await expect.poll(() => hasFocus(tier)).toBe(true)
    await press(page.getByRole('button', { name: 'New allowance', exact: true }))
    const form = page.getByRole('form', { name: 'A new allowance', exact: true })
    await press(form.getByRole('button', { name: 'Back', exact: true }))
    const heading = page.getByRole('heading', { name: 'Allowances', exact: true })
    await expect.poll(() => hasFocus(heading)).toBe(true)
    await device.close()
  })

  it('goes to the heading of the tier from an opening that she leaves before it can be read', async () => {
    const id = 'unread'
    const { device, one, read } = await allowance(id)
    const { page } = device
    await read.waitFor()
    await page.route(isConnections, route => route.fulfill(OUTAGE))
    await press(read)
    await one.getByRole('alert').getByText('Nobody is there now.').waitFor()
    const unread = one.getByRole('group', { name: `What ${id} opens at trading`, exact: true })
    await expect.poll(() => hasFocus(unread)).toBe(true)
    await press(one.getByRole('button', { name: 'Close', exact: true }))
    const tier = one.getByRole('heading', { name: 'At The trading tier', exact: true })
    await expect.poll(() => hasFocus(tier)).toBe(true)
    await device.close()
  })

  it('goes to the heading of an opening once the tier is open, and of the tier when she closes it', async () => {
    const id = 'opened-by-keys'
    const { device, one, read } = await allowance(id)
    await press(read)
    const opening = one.getByRole('form', { name: `What ${id} opens at The trading tier`, exact: true })
    await tick(opening.getByLabel(/^I have read this/))
    await press(opening.getByRole('button', { name: 'Open', exact: true }))
    await opening.getByText(`${id} is in force at The trading tier.`).waitFor()
    const title = opening.getByRole('heading', { name: `What ${id} opens at The trading tier`, exact: true })
    await expect.poll(() => hasFocus(title)).toBe(true)
    await press(opening.getByRole('button', { name: 'Close', exact: true }))
    const tier = one.getByRole('heading', { name: 'At The trading tier', exact: true })
    await expect.poll(() => hasFocus(tier)).toBe(true)
    await device.close()
  })

  it('goes from the form of a new allowance to what it means, without a stop at the heading of the page', async () => {
    const { device } = await allowance('beside-a-new-one')
    const { page } = device
    await press(page.getByRole('button', { name: 'New allowance', exact: true }))
    const form = page.getByRole('form', { name: 'A new allowance', exact: true })
    await write(form.getByLabel('Short name'), 'read-by-keys')
    await write(form.getByLabel('Tool 1', { exact: true }), 'place_trade')
    const bound = form.getByRole('group', { name: 'Window 1', exact: true })
    await write(bound.getByLabel('At most', { exact: true }), '20')
    const top = page.getByRole('heading', { name: 'Allowances', exact: true })
    await top.evaluate(node => node.addEventListener('focus', () => node.setAttribute('data-stopped', '')))
    await press(form.getByRole('button', { name: 'Read what it means', exact: true }))
    const name = 'What read-by-keys opens at The trading tier'
    const title = page.getByRole('heading', { name, exact: true })
    await expect.poll(() => hasFocus(title)).toBe(true)
    expect(await top.getAttribute('data-stopped')).toBe(null)
    await device.close()
  })

  it('goes to the heading of the page when what she removes is listed no more', async () => {
    const name = 'a key that she removes'
    const { kty, crv, x } = generateKeyPairSync('ed25519').publicKey.export({ format: 'jwk' })
    const json = { name, jwk: { kty, crv, x } }
    expect((await own({ method: 'POST', target: '/owner/device-keys', json })).status).toBe(201)
    const { page, ...device } = await stand.deviceOf(DESK)
    await page.goto(`${authority.ownerUrl}/#/keys`)
    const remove = page.getByRole('button', { name: `Remove: ${name}`, exact: true })
    await press(remove)
    await press(page.getByRole('button', { name: 'Remove now', exact: true }))
    await remove.waitFor({ state: 'detached' })
    const heading = page.getByRole('heading', { name: 'Keys and logins', exact: true })
    await expect.poll(() => hasFocus(heading)).toBe(true)
    await device.close()
  })
})
