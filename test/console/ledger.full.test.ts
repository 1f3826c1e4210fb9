/**
 * Finding what happened on her page: contract, "Owner API" (`GET /owner/ledger`). The server searches, so
 * that what is older than the page is found as well. In a real browser over a real authority.
 */
import { readFileSync } from 'node:fs'
import type { Page } from 'playwright-core'
import { beforeAll, describe, expect, it } from 'vitest'
import { installedBrowser } from '../support/browser.ts'
import { consoleStand, DESK, expectSound, WAYS } from '../support/console-stand.ts'
import { describeWith } from '../support/requirement.ts'
import { testAgent } from '../support/test-agent.ts'

describeWith(installedBrowser(), 'Searching her ledger', path => {
  const stand = consoleStand(path)
  const { authority } = stand
  const early = testAgent(authority)
  const ledgerOn = async (page: Page): Promise<void> => {
    await page.goto(`${authority.ownerUrl}/#/ledger`)
    await page.getByRole('heading', { name: 'Ledger' }).waitFor()
  }

  beforeAll(async () => {
    await early.granted()
    // More than the page shows of it at first.
    for (let agents = 0; agents < 20; agents++) await testAgent(authority).granted()
  })

  describe.each(WAYS)('by $name', ({ device: options, write }) => {
    it('finds by words and by days what is older than what it shows at first', async () => {
      const { page, ...device } = await stand.deviceOf(options)
      await ledgerOn(page)
      const lines = page.locator('li.line')
      await page.getByRole('button', { name: 'Show older' }).waitFor()
      expect(await lines.count()).toBe(50)
      expect(await lines.filter({ hasText: early.handle }).count()).toBe(0)
      await write(page.getByLabel('Containing'), early.handle.toUpperCase())
      await lines.filter({ hasText: early.handle }).first().waitFor()
      expect(await lines.count()).toBe(await lines.filter({ hasText: early.handle }).count())
      const today = new Date().toISOString().slice(0, 10)
      await page.getByLabel('Until').fill(today)
      await page.getByLabel('From').fill(today)
      await lines.first().waitFor()
      await expectSound(page, 'ledger-search')
      await page.getByLabel('Until').fill('2020-01-02')
      await page.getByLabel('From').fill('2020-01-01')
      await page.getByText('Nothing has happened that fits').waitFor()
      await expectSound(page, 'ledger-nothing')
      expect(await lines.count()).toBe(0)
      await device.close()
    })
  })

  describe('of a long ledger', () => {
    const entry = (seq: number) => ({ seq, ts: '2026-01-02T03:04:05.000Z', kind: 'touched', note: 'found' })
    /** Its answers, by the number before which they are asked for. */
    const answering = async (
      page: Page,
      answer: (before: number, limit: number) => object,
    ): Promise<void> => {
      await page.route('**/owner/ledger?*', route => {
        const { searchParams } = new URL(route.request().url())
        const before = Number(searchParams.get('before') ?? 1_000_000)
        return route.fulfill({ json: answer(before, Number(searchParams.get('limit'))) })
      })
    }

    it('goes on over pages that have nothing, and lets her search further back', async () => {
      const { page, ...device } = await stand.deviceOf(DESK)
      await answering(page, before =>
        before < 999_970 ? { entries: [entry(7)], next: null } : { entries: [], next: before - 1 },
      )
      await ledgerOn(page)
      await page.getByText('Nothing that fits was found so far').waitFor()
      await expectSound(page, 'ledger-further')
      await page.getByRole('button', { name: 'Search further back' }).click()
      await page.locator('li.line[data-seq="7"]').waitFor()
      expect(await page.getByRole('button', { name: 'Search further back' }).count()).toBe(0)
      await device.close()
    })

    it('exports the newest, and says that there are older ones', async () => {
      const { page, ...device } = await stand.deviceOf(DESK)
      await answering(page, (before, limit) => ({
        entries: Array.from({ length: limit }, (_, place) => entry(before - 1 - place)),
        next: before - limit,
      }))
      await ledgerOn(page)
      await page.locator('li.line').first().waitFor()
      const [download] = await Promise.all([
        page.waitForEvent('download'),
        page.getByRole('button', { name: 'Export JSON' }).click(),
      ])
      const saved = JSON.parse(readFileSync(await download.path(), 'utf8')) as { seq: number }[]
      expect([saved.length, saved[0]!.seq, saved.at(-1)!.seq]).toEqual([10_000, 999_999, 990_000])
      await page.getByText('Only the newest 10000 entries are in the file').waitFor()
      await device.close()
    })
  })
})
