/**
 * The ledger of her page: receipts that are checked in the browser, and the export. Contract: "Grant answer
 * (beat 4)" (both sides hold the receipt), "Owner API" (`/owner/ledger`).
 */
import { readFileSync } from 'node:fs'
import type { Locator, Page } from 'playwright-core'
import { beforeAll, describe, expect, it } from 'vitest'
import { decodeBase64url, s256 } from '../../src/wire/encoding.ts'
import type { JsonObject } from '../../src/wire/json.ts'
import { signJws } from '../../src/wire/signatures/jws.ts'
import { importPrivateJwk, type PrivateJwk } from '../../src/wire/signatures/keys.ts'
import { TYP } from '../../src/wire/names.ts'
import type { ReceiptRecord } from '../../src/wire/owner/owner-api.ts'
import { installedBrowser, type Device } from '../support/browser.ts'
import { card, consoleStand, DESK, expectSound, PHONE, WAYS } from '../support/console-stand.ts'
import { describeWith } from '../support/requirement.ts'
import { testAgent } from '../support/test-agent.ts'
import { newKey } from '../support/wire-samples.ts'

describeWith(installedBrowser(), 'Her ledger', path => {
  const stand = consoleStand(path)
  const { authority } = stand
  const devices = {} as Record<'touch' | 'keyboard', Device>
  beforeAll(async () => {
    devices.touch = await stand.deviceOf(PHONE)
    devices.keyboard = await stand.deviceOf(DESK)
  })

  const openLedger = async (page: Page): Promise<void> => {
    await page.goto(`${authority.ownerUrl}/#/operators`)
    await page.goto(`${authority.ownerUrl}/#/ledger`)
    await page.getByRole('heading', { name: 'Ledger' }).waitFor()
  }
  /** The receipt of what this agent was granted last. */
  const receiptLink = (page: Page, handle: string): Locator =>
    page.locator('li.line').filter({ hasText: handle }).getByRole('button', { name: 'Receipt' }).first()

  describe.each(WAYS)('by $name', ({ name, press }) => {
    it('shows a receipt, and finds in the browser that it holds and which of her keys signed', async () => {
      const { page } = devices[name]
      const agent = testAgent(authority)
      const { ticket, family } = await stand.waits(agent)
      await page.goto(`${authority.ownerUrl}/#/waiting`)
      await press(card(page, family).getByRole('button', { name: 'Approve', exact: true }))
      await card(page, family).getByText('Approved by you, on this device').waitFor()
      await agent.present(ticket)
      await openLedger(page)
      await press(receiptLink(page, agent.handle))
      const dialog = page.getByRole('dialog')
      await dialog.getByText('It holds.').waitFor()
      await dialog
        .getByText('You signed the decision in it, with the key that you call “this browser”.')
        .waitFor()
      await expectSound(page, 'receipt')
      await press(dialog.getByRole('button', { name: 'Close' }))
      await dialog.waitFor({ state: 'detached' })
    })
  })

  it('says of a decision that nobody signed that it is none', async () => {
    const { page } = devices.keyboard
    const agent = testAgent(authority)
    await agent.granted()
    await openLedger(page)
    await receiptLink(page, agent.handle).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByText('No signed decision of yours is in it.').waitFor()
    expect(await dialog.getByText('It holds.').count()).toBe(1)
    await expectSound(page, 'receipt-unsigned')
    await page.keyboard.press('Escape')
  })

  describe('of a receipt that is not what it should be', () => {
    const own = () => {
      const file = readFileSync(authority.environment['UMA_AS_KEYS_FILE']!, 'utf8')
      return importPrivateJwk((JSON.parse(file) as { keys: PrivateJwk[] }).keys[0]!)
    }
    const signed = (payload: object, key = own()) => signJws({ typ: TYP.receipt, payload }, key)
    const stranger = newKey()

    const FORGERIES: [string, (claims: JsonObject, compact: string) => string][] = [
      ['The signature is not by the key of your authority.', (_claims, compact) => flipped(compact)],
      ['Your authority publishes no key of the name that it gives.', claims => signed(claims, stranger)],
      [
        'The signature is not by the key of your authority.',
        claims => signJws({ typ: TYP.receipt, kid: own().kid, payload: claims }, stranger),
      ],
      [
        'It is no receipt that can be read.',
        claims => signJws({ typ: TYP.agreement, payload: claims }, own()),
      ],
      [
        'It is by another authority than yours.',
        claims => signed({ ...claims, iss: 'https://other.example' }),
      ],
      [
        'The agreement in it is not the one that it names.',
        claims => signed({ ...claims, agreement: s256('another') }),
      ],
      [
        'The agreement in it was not signed by the agent that it names.',
        claims => signed({ ...claims, cnf: { jkt: stranger.thumbprint } }),
      ],
      [
        'It says something else than the agreement in it.',
        claims => signed({ ...claims, resource_id: 'alice/account' }),
      ],
      [
        'The ledger lists it under another negotiation, grant or agent.',
        claims => signed({ ...claims, rpt: 'another' }),
      ],
      [
        'The decision in it was not signed by your key, or is about something else.',
        claims => signed({ ...claims, owner_decision: { item_s256: s256('x'), statement: 'a.b.c' } }),
      ],
    ]

    it.each(FORGERIES)('says why it does not hold: %s', async (reason, forge) => {
      const { page } = devices.keyboard
      const agent = testAgent(authority)
      await agent.granted()
      await page.route('**/owner/receipts?*', async route => {
        const answer = await route.fetch()
        const { receipts } = (await answer.json()) as { receipts: ReceiptRecord[] }
        const [record] = receipts
        const claims = JSON.parse(decodeBase64url(record!.receipt.split('.')[1]!).toString()) as JsonObject
        const receipt = forge(claims, record!.receipt)
        await route.fulfill({ json: { receipts: [{ ...record, receipt }], next: null } })
      })
      await openLedger(page)
      await receiptLink(page, agent.handle).click()
      const dialog = page.getByRole('dialog')
      await dialog.getByRole('alert').getByText(`It does not hold. ${reason}`).waitFor()
      expect(await dialog.getByText('It holds.').count()).toBe(0)
      await expectSound(page, 'receipt-broken')
      await page.keyboard.press('Escape')
      await page.unroute('**/owner/receipts?*')
    })
  })

  it('says what cannot be checked now, and calls it no fault of the receipt', async () => {
    const { page } = devices.keyboard
    const agent = testAgent(authority)
    await agent.granted()
    await page.route('**/jwks', route => route.abort())
    await openLedger(page)
    await receiptLink(page, agent.handle).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByText('It cannot be checked now, which says nothing about it.').waitFor()
    expect(await dialog.getByText('It does not hold.').count()).toBe(0)
    await expectSound(page, 'receipt-unchecked')
    await page.keyboard.press('Escape')
    await page.unroute('**/jwks')
  })

  it('is taken along as JSON and as a table, as the filters leave it', async () => {
    const { page } = devices.keyboard
    const agent = testAgent(authority)
    await agent.granted()
    await openLedger(page)
    await page.getByLabel('Agent').selectOption(agent.handle)
    const saved = async (format: string): Promise<string> => {
      const [download] = await Promise.all([
        page.waitForEvent('download'),
        page.getByRole('button', { name: `Export ${format}` }).click(),
      ])
      return readFileSync(await download.path(), 'utf8')
    }
    const entries = JSON.parse(await saved('JSON')) as { handle: string; kind: string }[]
    expect(entries.length).toBeGreaterThan(2)
    expect(new Set(entries.map(({ handle }) => handle))).toEqual(new Set([agent.handle]))
    const lines = (await saved('CSV')).split('\r\n')
    expect(lines[0]).toMatch(/^"seq","ts","kind","handle"/)
    expect(lines.slice(1, -1).map(line => line.split(',')[2])).toEqual(entries.map(({ kind }) => `"${kind}"`))
  })
})

/** The last byte of its signature is another one. */
function flipped(compact: string): string {
  const [header, payload, signature] = compact.split('.') as [string, string, string]
  const bytes = decodeBase64url(signature)
  bytes[40]! ^= 1
  return `${header}.${payload}.${bytes.toString('base64url')}`
}
