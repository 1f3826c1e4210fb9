/**
 * Her ledger with what her log signed of it: contract, "Events" (row 5); docs/proof.md. The page checks each
 * entry in a real browser over a real authority, whose database somebody else can write.
 */
import { sql } from 'kysely'
import type { Page } from 'playwright-core'
import { beforeAll, expect, it } from 'vitest'
import { freePorts } from '../../src/dev/stack/ports.ts'
import { serveConsole } from '../../src/owner/index.ts'
import { parseNote, signNote } from '../../src/wire/ledger/signed-note.ts'
import type { LedgerEntry } from '../../src/wire/owner/owner-api.ts'
import { generatePrivateJwk, importPrivateJwk, publicJwk } from '../../src/wire/signatures/keys.ts'
import { installedBrowser, type Device } from '../support/browser.ts'
import { consoleStand, DESK, expectSound, PHONE } from '../support/console-stand.ts'
import { withLogKeys } from '../support/log-keys.ts'
import { describeWith } from '../support/requirement.ts'
import { testAgent, type TestAgent } from '../support/test-agent.ts'

/** Her own machine reads the keys of the log at the issuer. */
const ADDRESS = `127.0.0.1:${(await freePorts(1))[0]}`

describeWith(installedBrowser(), 'Her ledger that a log signs', path => {
  const own = { UMA_AS_ISSUER: `http://${ADDRESS}`, UMA_AS_LISTEN: ADDRESS, UMA_DEV_LOOPBACK: 'true' }
  const stand = consoleStand(path, {
    owners: ['alice', 'bob'],
    environment: { ...withLogKeys().environment, ...own },
  })
  const { authority } = stand
  let agent: TestAgent
  let phone: Device
  beforeAll(async () => {
    agent = testAgent(authority)
    await agent.granted()
    phone = await stand.deviceOf(PHONE)
  })

  const openLedger = async (page: Page): Promise<void> => {
    await page.goto(`${authority.ownerUrl}/#/ledger`)
    await page.reload()
    await page.locator('li.line').first().waitFor()
  }
  const marked = (page: Page, mark: string) => page.locator(`li.line[data-mark=${mark}]`)
  const unmarked = (page: Page) => page.locator('li.line:not([data-mark])')
  const expectAllChecked = async (page: Page): Promise<void> => {
    const counts = async (): Promise<number[]> => {
      const lines = page.locator('li.line')
      const word = marked(page, 'checked').getByText('checked', { exact: true })
      return [(await lines.count()) - (await word.count()), await unmarked(page).count()]
    }
    await marked(page, 'checked').first().waitFor()
    await expect.poll(counts).toEqual([0, 0])
  }
  /** In place of what the server of the page says. */
  const saying = (page: Page, log_keys: object[] | undefined): Promise<unknown> =>
    page.route('**/console.json', async route => {
      const settings = (await (await route.fetch()).json()) as object
      await route.fulfill({ json: { ...settings, log_keys } })
    })

  it('says "checked" beside each entry that the signed head covers', async () => {
    await openLedger(phone.page)
    await expectAllChecked(phone.page)
    await phone.page.getByText('Checked in this browser').waitFor()
    await expectSound(phone.page, 'ledger-checked')
  })

  it('says so of what an agent did, too', async () => {
    const { page } = phone
    await page.goto(`${authority.ownerUrl}/#/agents`)
    await page.getByText('What it did').first().click()
    await page.locator('li.line').first().waitFor()
    await expectAllChecked(page)
  })

  it('says so of what she looks for, and of what happens while she looks', async () => {
    const { page } = phone
    await openLedger(page)
    const later = testAgent(authority)
    await later.granted()
    await marked(page, 'checked').filter({ hasText: later.handle }).first().waitFor()
    await page.getByLabel('Containing').fill(agent.handle)
    await expect.poll(() => page.locator('li.line').filter({ hasText: later.handle }).count()).toBe(0)
    await expectAllChecked(page)
  })

  it('is checked in the same way on her own machine', async () => {
    const access = { api: authority.ownerUrl, issuer: authority.issuer, key: authority.alice.key }
    const served = await serveConsole(access)
    const local = await stand.browser.open(served.link, DESK)
    await local.page.getByRole('link', { name: 'Ledger' }).click()
    await local.page.locator('li.line').first().waitFor()
    await expectAllChecked(local.page)
    await local.close()
    await served.close()
  })

  it('warns beside an entry that somebody with the database changed, and beside no other', async () => {
    const { page } = phone
    const { db } = authority.database
    const change = async (from: string, to: string): Promise<number> => {
      const { rows } = await sql<{ seq: number }>`UPDATE ledger SET kind = ${to} WHERE owner = 'alice'
        AND handle = ${agent.handle} AND kind = ${from} RETURNING seq`.execute(db)
      return rows[0]!.seq
    }
    const seq = await change('connected', 'denied')
    try {
      await openLedger(page)
      const line = page.locator(`li.line[data-seq="${seq}"]`)
      await line.getByText('This entry is not what the log of your authority signed.').waitFor()
      await expect.poll(() => unmarked(page).count()).toBe(0)
      expect(await marked(page, 'differs').count()).toBe(1)
      expect(await line.getByText('checked', { exact: true }).count()).toBe(0)
      await expectSound(page, 'ledger-changed')
    } finally {
      expect(await change('denied', 'connected')).toBe(seq)
    }
    await openLedger(page)
    await expectAllChecked(page)
  })

  it('shows what was signed, whatever else the answer says of an entry', async () => {
    const { page } = phone
    await page.route('**/owner/ledger?*', async route => {
      const answer = (await (await route.fetch()).json()) as { entries: LedgerEntry[] }
      const entries = answer.entries.map(entry => ({ ...entry, tool: 'a_lie', resource_id: 'a/lie' }))
      await route.fulfill({ json: { ...answer, entries } })
    })
    await openLedger(page)
    await expectAllChecked(page)
    expect(await page.getByText(/a_lie|a\/lie/).count()).toBe(0)
    await page.unrouteAll()
  })

  it('never says "checked" of another owner’s entry, though the same log signed it', async () => {
    const { page } = phone
    const { bob } = authority.owners
    await testAgent(authority).ask('portfolio_read', {}, 'bob')
    const entriesOfBob = async () => (await authority.call(bob!, { target: '/owner/ledger' })).body.entries
    await expect.poll(entriesOfBob).not.toHaveLength(0)
    await openLedger(page)
    await expectAllChecked(page)
    await page.route(/\/owner\/ledger[/?]/, async route => {
      const { pathname, search } = new URL(route.request().url())
      const { headers } = authority.prepare(bob!, { target: pathname + search })
      await route.fulfill({ response: await route.fetch({ headers }) })
    })
    await openLedger(page)
    await marked(page, 'foreign').first().waitFor()
    await expect.poll(() => unmarked(page).count()).toBe(0)
    expect(await marked(page, 'checked').count()).toBe(0)
    expect(await page.getByText('checked', { exact: true }).count()).toBe(0)
    await expectSound(page, 'ledger-foreign')
    await page.unrouteAll()
    await openLedger(page)
    await expectAllChecked(page)
  })

  it('says what cannot be checked now, and calls it no fault of an entry', async () => {
    const { page } = phone
    await page.route('**/owner/ledger/checkpoint', route => route.abort())
    await openLedger(page)
    await page.getByText('cannot be checked now, which says nothing about them').waitFor()
    expect(await page.locator('li.line[data-mark]').count()).toBe(0)
    await page.unrouteAll()
  })

  it('goes by the keys of the log that it remembers, until she takes over new ones', async () => {
    const { page } = phone
    await openLedger(page)
    await expectAllChecked(page)
    const stranger = importPrivateJwk(generatePrivateJwk())
    await saying(page, [publicJwk(stranger)])
    await page.route('**/owner/ledger/checkpoint', async route => {
      const { text, signatures } = parseNote(await (await route.fetch()).text())
      await route.fulfill({ body: signNote(text, { name: signatures[0]!.name, key: stranger }) })
    })
    await openLedger(page)
    await page.getByRole('alert').getByText('a key that this browser has not seen before').waitFor()
    expect(await page.locator('li.line[data-mark]').count()).toBe(0)
    await expectSound(page, 'ledger-new-key')
    await page.getByRole('button', { name: 'It has: use the new keys' }).click()
    await expectAllChecked(page)
    await page.unrouteAll()
  })

  it('has no mark and asks for no head where the authority has no keys of the log', async () => {
    const { page, ...device } = await stand.deviceOf(DESK)
    await saying(page, undefined)
    // The page reads its settings when it loads.
    await page.reload()
    await page.getByRole('heading', { name: 'Waiting' }).waitFor()
    const heads: string[] = []
    page.on(
      'request',
      request => void (/checkpoint|tile|bodies/.test(request.url()) && heads.push(request.url())),
    )
    await openLedger(page)
    expect(await page.locator('li.line[data-mark]').count()).toBe(0)
    expect(heads).toEqual([])
    await device.close()
  })
})
