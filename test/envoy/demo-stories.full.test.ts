/** The command behind `make demo`, with the other stories that it tells, and as it stays up. */
import { expect, test } from 'vitest'
import { ALLOWANCE_STORY } from '../../src/dev/story/allowance-story.ts'
import { JOINT_STORY } from '../../src/dev/story/joint-story.ts'
import { ORGANIZATION_STORY } from '../../src/dev/story/organization-story.ts'
import { installedBrowser } from '../support/browser.ts'
import { DESK, pageStand } from '../support/console-stand.ts'
import { dev, startDev } from '../support/dev-command.ts'
import { envoy } from '../support/envoy.ts'
import { describeWith } from '../support/requirement.ts'

const proxy = await envoy()
const LINK = /^ {2}(http:\/\/127\.0\.0\.1:\d+)\/#token=(\S+)$/m

describeWith(proxy, 'usher dev', () => {
  test.each([
    ['organization', 'of an organization above her', ORGANIZATION_STORY],
    ['joint', 'of what she holds with others', JOINT_STORY],
    ['allowance', 'of what she allows once, within limits', ALLOWANCE_STORY],
  ])('with --story %s it tells that %s', async (name, _of, story) => {
    const { code, out, err } = await dev(['--story', name, '--once'])
    expect({ code, err }).toEqual({ code: 0, err: '' })
    for (const [index, { title }] of story.entries()) expect(out).toContain(`${index + 1}. ${title}`)
    const held = `All ${story.length} steps held`
    expect(out.trimEnd().split('\n').at(-1)?.startsWith(held)).toBe(true)
  })

  test('without --once it stays up: on the page whose link it prints a request of an unknown agent waits for alice', async () => {
    const demo = startDev([])
    try {
      await expect.poll(() => demo.printed()).toContain('It all stays up until you press Ctrl-C.')
      const [, origin, token] = LINK.exec(demo.printed())!
      const page = await fetch(origin!)
      expect([page.status, page.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8'])
      const waiting = async (): Promise<unknown> => {
        const headers = { authorization: `Bearer ${token}` }
        return (await fetch(`${origin}/owner/pending`, { headers })).json()
      }
      await expect.poll(waiting).toMatchObject([{ kind: 'connection', resource_id: 'alice/portfolio' }])
    } finally {
      expect(await demo.end()).toBe(0)
    }
  })
})

describeWith('found' in proxy ? installedBrowser() : proxy, 'The page that usher dev leaves', path => {
  const browser = pageStand(path)

  test('is alice’s, if an agent waits that she has not met, and is let in by one press', async () => {
    const demo = startDev([])
    try {
      await expect.poll(() => demo.printed()).toContain('It all stays up until you press Ctrl-C.')
      const [link] = LINK.exec(demo.printed())!
      const { page, ...device } = await browser.open(link.trim(), DESK)
      const card = page.locator('article[data-family]')
      await card.getByText('A new agent asks to be let in').waitFor()
      await card.getByText('alice/portfolio').first().waitFor()
      await card.getByRole('button', { name: 'Approve', exact: true }).click()
      await card.getByText('Approved by you, on this device').waitFor()
      await page.getByRole('link', { name: 'Ledger' }).click()
      await page.locator('li.line[data-kind=approved]').getByText('signed').first().waitFor()
      // What the thief of the last step changed.
      await page.locator('li.line[data-kind=touched][data-mark=differs]').waitFor()
      await page.locator('li.line[data-mark=checked]').first().waitFor()
      await device.close()
    } finally {
      expect(await demo.end()).toBe(0)
    }
  })
})
