/**
 * How the owner's page is served: contract, "Owner API". Its content policy, its size, its servers, and the
 * faults that a browser finds.
 */
import { get } from 'node:http'
import { beforeAll, expect, it } from 'vitest'
import { serveConsole } from '../../src/owner/index.ts'
import { installedBrowser, type Device } from '../support/browser.ts'
import { card, consoleStand, DESK, expectSound, PHONE } from '../support/console-stand.ts'
import { describeWith } from '../support/requirement.ts'
import { testAgent } from '../support/test-agent.ts'

describeWith(installedBrowser(), 'The page of the owner', path => {
  const stand = consoleStand(path)
  const { authority, browser } = stand
  let phone: Device
  let desk: Device
  beforeAll(async () => {
    phone = await stand.deviceOf(PHONE)
    desk = await stand.deviceOf(DESK)
  })

  it('is served under one strict policy, compressed to less than 120 kB, and only where it is wanted', async () => {
    let bytes = 0
    for (const file of ['/', '/console.js', '/console.css', '/console.svg']) {
      const answer = await fetch(authority.ownerUrl + file, { headers: { 'accept-encoding': 'gzip' } })
      expect(answer.headers.get('content-security-policy')).toContain("script-src 'self'; style-src 'self'")
      expect(answer.headers.get('content-security-policy')).not.toMatch(/unsafe|\*|https?:/)
      expect(answer.headers.get('content-encoding')).toBe('gzip')
      bytes += Number(answer.headers.get('content-length'))
    }
    expect(bytes).toBeLessThan(120_000)
    expect(bytes).toBeGreaterThan(10_000)
    expect((await fetch(`${authority.publicUrl}/`)).status).toBe(404)
  })

  it('serves the same page on her own machine, whose key signs there, to nobody without the link', async () => {
    const { key } = authority.alice
    const served = await serveConsole({ api: authority.ownerUrl, issuer: authority.issuer, key })
    const { origin, hash } = new URL(served.link)
    const token = new URLSearchParams(hash.slice(1)).get('token')!
    for (const headers of [{}, { authorization: 'Bearer x' }])
      expect((await fetch(`${origin}/owner/pending`, { headers })).status).toBe(401)
    const elsewhere = { authorization: `Bearer ${token}`, host: 'elsewhere.example' }
    expect(await statusOf(`${origin}/owner/pending`, elsewhere)).toBe(404)
    const agent = testAgent(authority)
    const { ticket, family } = await stand.waits(agent)
    const local = await browser.open(served.link, DESK)
    expect(local.page.url()).not.toContain(token)
    const one = card(local.page, family)
    await one.getByRole('button', { name: 'Approve', exact: true }).click()
    await one.getByText('Approved by you, on this device').waitFor()
    expect((await agent.present(ticket)).status).toBe(200)
    const { body } = await authority.call(authority.alice, {
      target: `/owner/ledger?kind=approved&handle=${agent.handle}`,
    })
    expect(body.entries).toMatchObject([{ binding: 'signed', actor: { kid: key.thumbprint } }])
    await local.close()
    await served.close()
  })

  it('is framed by no other page, and makes neither markup nor script of text', async () => {
    const other = await browser.open(`${authority.publicUrl}/.well-known/uma2-configuration`, DESK)
    await other.page.setContent(`<iframe src="${authority.ownerUrl}/"></iframe>`)
    await expect.poll(() => other.page.frames().at(-1)!.url()).toMatch(/^chrome-error:/)
    await other.close()
    const made = await desk.page.evaluate(() => {
      const { document, trustedTypes } = globalThis as unknown as InPage
      const tried = (act: () => unknown): string => {
        try {
          act()
          return 'done'
        } catch (error) {
          return (error as Error).name
        }
      }
      return {
        markup: tried(() => (document.body.innerHTML = '<b>made</b>')),
        script: tried(() => (document.createElement('script').text = 'made()')),
        policy: tried(() => trustedTypes.createPolicy('another', {})),
      }
    })
    expect(made).toEqual({ markup: 'TypeError', script: 'TypeError', policy: 'TypeError' })
    // Each of the four was complained of by the browser, as it should be.
    expect(browser.faults.splice(0).length).toBeGreaterThanOrEqual(4)
  })

  it.each(['waiting', 'agents', 'operators', 'ledger', 'keys', 'more'])(
    'has no fault that axe finds on %s',
    async name => {
      if (name === 'waiting') await stand.waits(testAgent(authority))
      for (const { page } of [phone, desk]) {
        await page.goto(`${authority.ownerUrl}/#/${name}`)
        await page.locator('main h1').waitFor()
        if (name === 'waiting')
          await page.getByRole('button', { name: 'Approve', exact: true }).first().waitFor()
        await expectSound(page, name)
      }
    },
  )
})

/** Of a browser, as far as a test asks it. */
interface InPage {
  document: { body: { innerHTML: string }; createElement: (name: string) => { text: string } }
  trustedTypes: { createPolicy: (name: string, rules: object) => unknown }
}

/** By Node's own client: fetch lets nobody choose the host that it names. */
function statusOf(url: string, headers: Record<string, string>): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    get(url, { headers }, answer => {
      answer.resume()
      resolve(answer.statusCode)
    }).on('error', reject)
  })
}
