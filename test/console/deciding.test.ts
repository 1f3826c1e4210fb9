/**
 * What she decides on her page, and what comes of it: contract, "Permission ticket" (awaiting-owner),
 * "Connection", "Owner API". Each story by touch and by keyboard, in a real browser over a real authority.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { listDeviceKeys } from '../../src/storage/authority/credentials/device-keys.ts'
import { asOwner } from '../../src/wire/identifiers.ts'
import { publicJwk } from '../../src/wire/signatures/keys.ts'
import { installedBrowser, type Device } from '../support/browser.ts'
import { card, consoleStand, DESK, PHONE, pictured, WAYS } from '../support/console-stand.ts'
import { describeWith } from '../support/requirement.ts'
import { protectionCall, testAgent } from '../support/test-agent.ts'
import { usherProgram } from '../support/usher-program.ts'

describeWith(installedBrowser(), 'What she decides on her page', path => {
  const stand = consoleStand(path)
  const { authority } = stand
  const devices = {} as Record<'touch' | 'keyboard', Device>
  beforeAll(async () => {
    devices.touch = await stand.deviceOf(PHONE)
    devices.keyboard = await stand.deviceOf(DESK)
  })

  describe.each(WAYS)('by $name', ({ name, press, hold, write }) => {
    const page = () => devices[name].page

    it('lets a new agent in, of which the agent’s own words are told apart', async () => {
      const agent = testAgent(authority)
      const { ticket, family } = await stand.waits(agent, 'portfolio_read', {
        reason: 'To tell you how it stands',
        client_name: 'Claude Code',
      })
      const one = card(page(), family)
      const claims = one.locator('.claims')
      await claims.getByText('To tell you how it stands').waitFor()
      expect(await claims.locator('dl').textContent()).toMatch(/^Calls itself.*Claude Code/)
      expect(await one.textContent()).toContain(agent.handle)
      await press(one.getByRole('button', { name: 'Approve', exact: true }))
      await one.getByText('Approved by you, on this device').waitFor()
      expect((await agent.present(ticket)).status).toBe(200)
    })

    it('denies with a reason that the agent reads', async () => {
      const agent = testAgent(authority)
      const { ticket, family } = await stand.waits(agent)
      const one = card(page(), family)
      await press(one.getByRole('button', { name: 'Deny', exact: true }))
      await write(one.getByLabel('Why (the agent reads this)'), 'Not before Monday')
      await press(one.getByRole('button', { name: 'Deny it' }))
      await one.getByText('Denied by you, on this device').waitFor()
      expect((await agent.present(ticket)).body).toMatchObject({
        error: 'request_denied',
        owner_reason: 'Not before Monday',
      })
    })

    it('approves a trade only by a deliberate act, with a signature that `usher verify` finds good', async () => {
      const agent = testAgent(authority)
      await stand.admit(agent)
      const { ticket, family } = await stand.waits(agent, 'place_trade', {
        operation: { tool: 'place_trade', params: { symbol: 'VTI', qty: 7 } },
      })
      const one = card(page(), family)
      const button = one.getByRole('button', { name: 'Hold to approve' })
      await one.evaluate(node => node.scrollIntoView())
      await pictured(page(), `trade-${name}`)
      await press(button)
      expect(await button.isEnabled()).toBe(true)
      await hold(button, () => one.getByText('Approved by you, on this device').waitFor())
      const reply = await agent.present(ticket)
      expect(reply.status).toBe(200)
      const { body } = await protectionCall(authority, '/introspect', { token: reply.body.access_token })
      await expectVerified((body.owner_decision as { statement: string }).statement)
    })

    it('revokes an agent, whose next call is refused', async () => {
      const agent = testAgent(authority)
      const { rpt } = await agent.granted()
      await press(page().getByRole('link', { name: 'Agents' }))
      const item = page().locator(`li[data-handle="${agent.handle}"]`)
      await press(item.getByRole('button', { name: 'Revoke', exact: true }))
      await press(item.getByRole('button', { name: 'Revoke now' }))
      await item.getByText('1 live grant ended.').waitFor()
      const { body } = await protectionCall(authority, '/introspect', { token: rpt })
      expect(body).toMatchObject({ active: false })
      await press(page().getByRole('link', { name: 'Waiting' }))
    })

    it('shows at once on one device what was decided on another', async () => {
      const agent = testAgent(authority)
      const { family } = await stand.waits(agent)
      const other = devices[name === 'touch' ? 'keyboard' : 'touch'].page
      await card(other, family).getByRole('button', { name: 'Deny', exact: true }).waitFor()
      const one = card(page(), family)
      await press(one.getByRole('button', { name: 'Approve', exact: true }))
      await one.getByText('Approved by you, on this device').waitFor()
      await card(other, family).getByText('Approved by you, elsewhere').waitFor()
      expect(await card(other, family).getByRole('button', { name: 'Deny', exact: true }).count()).toBe(0)
    })
  })

  it('goes from card to card and decides by single letters', async () => {
    const [first, second] = [testAgent(authority), testAgent(authority)]
    const one = await stand.waits(first)
    const other = await stand.waits(second)
    const { page } = devices.keyboard
    await card(page, other.family).waitFor()
    await page.locator('h1').focus()
    const goTo = async (family: string): Promise<void> => {
      const isAt = () => card(page, family).evaluate(node => node.matches(':focus'))
      for (let pressed = 0; pressed < 40 && !(await isAt()); pressed++) await page.keyboard.press('j')
    }
    await goTo(one.family)
    await page.keyboard.press('a')
    await card(page, one.family).getByText('Approved by you, on this device').waitFor()
    expect((await first.present(one.ticket)).status).toBe(200)
    await card(page, one.family).focus()
    await goTo(other.family)
    await page.keyboard.press('d')
    await page.keyboard.type('Not before Monday')
    await page.keyboard.press('Enter')
    await card(page, other.family).getByText('Denied by you, on this device').waitFor()
    expect((await second.present(other.ticket)).body).toMatchObject({ owner_reason: 'Not before Monday' })
  })

  /** By the program, in a process of its own, with the keys that she knows to be hers, and by no other. */
  async function expectVerified(statement: string): Promise<void> {
    const folder = mkdtempSync(join(tmpdir(), 'usher-statement-'))
    const [file, keysFile] = [join(folder, 'statement.jws'), join(folder, 'keys.json')]
    const verified = async (keys: object[]): Promise<number> => {
      writeFileSync(keysFile, JSON.stringify({ keys }))
      const program = usherProgram()
      const child = spawn(process.execPath, [program, 'verify', 'statement', file, '--keys', keysFile])
      const [code] = (await once(child, 'exit')) as [number]
      return code
    }
    writeFileSync(file, statement)
    const rows = await listDeviceKeys(authority.database.db, asOwner('alice'), { limit: 100 })
    expect(await verified(rows.map(({ jwk }) => jwk))).toBe(0)
    expect(await verified([publicJwk(authority.alice.key)])).toBe(1)
    rmSync(folder, { recursive: true })
  }
})
