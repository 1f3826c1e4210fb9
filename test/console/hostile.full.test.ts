/**
 * Requests that are made to be read as something else: contract, "Owner API": foreign text is shown
 * completely, as text, with invisible characters written out; and her buttons do what they say.
 */
import { beforeAll, describe, expect, it } from 'vitest'
import { canonicalize } from '../../src/wire/json.ts'
import { installedBrowser, type Device } from '../support/browser.ts'
import { card, consoleStand, overhang, PHONE, spelled, written } from '../support/console-stand.ts'
import { HOSTILE, HOSTILE_CARDS, hostileParameters } from '../support/hostile-texts.ts'
import { describeWith } from '../support/requirement.ts'
import { testAgent } from '../support/test-agent.ts'

const UNSEEN = /[\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]/

describeWith(installedBrowser(), 'Hostile requests on her page', path => {
  const stand = consoleStand(path)
  const { authority } = stand
  let phone: Device
  beforeAll(async () => {
    phone = await stand.deviceOf(PHONE)
  })

  it('shows a hundred hostile values of one call whole, as text, with what nobody would see written out', async () => {
    const agent = testAgent(authority)
    await stand.admit(agent)
    const { family } = await stand.waits(agent, 'place_trade', {
      operation: { tool: 'place_trade', params: hostileParameters() },
      reason: '<img src=x onerror=alert(1)>\u202ella evorppa',
    })
    const one = card(phone.page, family)
    await one.getByText('\\u{202e}').first().waitFor()
    const shown = await one.locator('dl.parameters > div').evaluateAll(rows =>
      rows.map(row => ({
        text: row.textContent ?? '',
        elements: row.querySelectorAll('img,script,svg,a,b,iframe').length,
      })),
    )
    expect(shown).toHaveLength(HOSTILE.length)
    expect(HOSTILE.length).toBeGreaterThanOrEqual(100)
    for (const { text, elements } of shown) {
      expect(elements).toBe(0)
      expect(text).not.toMatch(UNSEEN)
    }
    expect(await one.locator('[data-flag=unseen]').count()).toBeGreaterThan(20)
    expect(await one.locator('[data-flag=mixed]').count()).toBeGreaterThan(5)
    expect(await one.locator('[data-flag=long]').count()).toBeGreaterThan(5)
    expect(await overhang(phone.page)).toBe(0)
    await one.getByRole('button', { name: 'Deny' }).tap()
    await one.getByRole('button', { name: 'Deny it' }).tap()
    await one.getByText('Denied by you, on this device').waitFor()
  })

  describe('each a card of its own', () => {
    const EACH = 10
    const groups = Array.from({ length: Math.ceil(HOSTILE_CARDS.length / EACH) }, (_, at) => at * EACH)
    let narrow: Device
    const dialogs: string[] = []
    beforeAll(async () => {
      await phone.close()
      narrow = await stand.deviceOf({ ...PHONE, viewport: { width: 320, height: 640 } })
      narrow.page.on('dialog', dialog => {
        dialogs.push(dialog.message())
        void dialog.dismiss()
      })
    })

    it('are at least a hundred', () => {
      expect(HOSTILE_CARDS.length).toBeGreaterThanOrEqual(100)
    })

    it.each(groups)('shows them whole and as text, and decides what it says: from %s on', async first => {
      const { page } = narrow
      const address = page.url()
      const agent = testAgent(authority)
      await stand.admit(agent)
      for (const [place, { reason, params }] of HOSTILE_CARDS.slice(first, first + EACH).entries()) {
        const operation = { tool: 'place_trade', params }
        const { ticket, family } = await stand.waits(agent, 'place_trade', { operation, reason })
        const one = card(page, family)
        await one.locator('.claims blockquote').waitFor()
        const { text, foreign, flags } = await one.evaluate(node => ({
          text: node.textContent ?? '',
          foreign: node.querySelectorAll('img,script,svg,iframe,style,b,object,a:not([href^="#/"])').length,
          flags: node.querySelectorAll('[data-flag]').length,
        }))
        expect(foreign).toBe(0)
        expect(text).not.toMatch(UNSEEN)
        // The record is there whole: what cannot be seen written out, and nothing left away.
        expect(spelled(text)).toContain(spelled(written(canonicalize(params))))
        expect(spelled(text)).toContain(spelled(written(reason)))
        if (written(reason) !== reason || reason.length > 400) expect(flags).toBeGreaterThan(0)
        expect(await overhang(page)).toBe(0)
        expect(page.url()).toBe(address)
        if (place % 2 === 0) {
          await one.getByRole('button', { name: 'Deny', exact: true }).tap()
          await one.getByRole('button', { name: 'Deny it' }).tap()
          await one.getByText('Denied by you, on this device').waitFor()
          expect((await agent.present(ticket)).body).toMatchObject({ error: 'request_denied' })
        } else {
          await one.getByRole('button', { name: 'Type instead' }).tap()
          await one.getByLabel('Type place_trade to approve').fill('place_trade')
          await one.getByRole('button', { name: 'Approve', exact: true }).tap()
          await one.getByText('Approved by you, on this device').waitFor()
          expect((await agent.present(ticket)).status).toBe(200)
        }
        await one.getByRole('button', { name: 'Dismiss' }).tap()
      }
      expect(dialogs).toEqual([])
    })
  })
})
