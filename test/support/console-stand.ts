/**
 * Owns what tests of the owner's page begin with: an authority, a browser, devices of alice's that are signed
 * in, and the two ways in which a person works a page, touch and keyboard.
 */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { BrowserContextOptions, Locator, Page } from 'playwright-core'
import { afterEach, expect } from 'vitest'
import { analyse } from '../../src/console/parts/writing.ts'
import type { TestAuthority, TestAuthorityOptions, TestOwner } from './authority.ts'
import { browserStand, builtConsole, expectNoFaults, findings, type Device } from './browser.ts'
import { authorityStand } from './stands.ts'
import { decide, type TestAgent } from './test-agent.ts'

export const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true } as const
export const DESK = { viewport: { width: 1280, height: 900 } } as const

/** How a page is worked: nothing of the other way is used. */
export interface Way {
  name: 'touch' | 'keyboard'
  /** The device that is worked so. */
  device: BrowserContextOptions
  press: (target: Locator) => Promise<void>
  /** Presses until `done` holds: for what asks for a deliberate act. */
  hold: (target: Locator, done: () => Promise<void>) => Promise<void>
  /** Ticks a box, or takes its tick away. */
  tick: (target: Locator) => Promise<void>
  /** Writes into a field, in place of what it holds. */
  write: (target: Locator, text: string) => Promise<void>
}

const TOUCH: Way = {
  name: 'touch',
  device: PHONE,
  press: target => target.tap(),
  tick: target => target.tap(),
  hold: async (target, done) => {
    await target.scrollIntoViewIfNeeded()
    const { x, y, width, height } = (await target.boundingBox())!
    const session = await target.page().context().newCDPSession(target.page())
    const point = { x: x + width / 2, y: y + height / 2 }
    await session.send('Input.dispatchTouchEvent', { type: 'touchStart', touchPoints: [point] })
    await done()
    await session.send('Input.dispatchTouchEvent', { type: 'touchEnd', touchPoints: [] })
    await session.detach()
  },
  write: async (target, text) => {
    await target.tap()
    await target.fill(text)
  },
}

const KEYBOARD: Way = {
  name: 'keyboard',
  device: DESK,
  press: async target => {
    await reach(target)
    await target.page().keyboard.press('Enter')
  },
  tick: async target => {
    await reach(target)
    await target.page().keyboard.press(' ')
  },
  hold: async (target, done) => {
    await reach(target)
    await target.page().keyboard.down(' ')
    await done()
    await target.page().keyboard.up(' ')
  },
  write: async (target, text) => {
    await reach(target)
    const { keyboard } = target.page()
    await keyboard.press('Control+A')
    await keyboard.type(text)
  },
}

export const WAYS: readonly Way[] = [TOUCH, KEYBOARD]

/** Tabs until it has the focus: what cannot be reached so fails. */
async function reach(target: Locator): Promise<void> {
  await target.waitFor()
  const isAt = (): Promise<boolean> => target.evaluate(node => node.matches(':focus'))
  for (let pressed = 0; pressed < 300; pressed++) {
    if (await isAt()) return
    await target.page().keyboard.press('Tab')
  }
  throw new Error(`no tabbing reaches ${target.toString()}`)
}

/** Whose command line accepts what a new browser asks. */
interface Enrolment {
  authority: TestAuthority
  owner: TestOwner
}

/** Adds a browser that `page` is in to the owner's devices, and waits until it shows her page. */
export async function enrolled({ page }: Device, { authority, owner }: Enrolment): Promise<void> {
  await page.getByRole('button', { name: 'Make a request' }).click()
  const x = (await page.locator('code').first().textContent())!.slice('key_'.length)
  const json = { name: 'this browser', jwk: { kty: 'OKP', crv: 'Ed25519', x } }
  const added = await authority.call(owner, { method: 'POST', target: '/owner/device-keys', json })
  expect(added.status).toBe(201)
  await page.getByRole('heading', { name: 'Waiting' }).waitFor()
}

/** A browser alone, for pages of whatever a test starts; a page that complains fails the test. */
export function pageStand(path: string): ReturnType<typeof browserStand> {
  builtConsole()
  const browser = browserStand(path)
  afterEach(() => expectNoFaults(browser.faults))
  return browser
}

/** The page over an authority, in the browser at `path`. */
export function consoleStand(path: string, options?: TestAuthorityOptions) {
  const browser = pageStand(path)
  const authority = authorityStand(options)
  return {
    browser,
    authority,
    /** A browser of alice's that is signed in. */
    async deviceOf(settings: BrowserContextOptions): Promise<Device> {
      const device = await browser.open(authority.ownerUrl, settings)
      await enrolled(device, { authority, owner: authority.alice })
      return device
    },
    /** The agent asks, and is not let in unasked: its ticket, and the family that waits. */
    async waits(by: TestAgent, ...asked: Parameters<TestAgent['ask']>) {
      const asking = await by.ask(...asked)
      expect(asking.body).toMatchObject({ error: 'request_submitted' })
      const { ticket } = asking.body as { ticket: string }
      const { body } = await authority.call(authority.alice, { target: '/owner/pending?limit=1000' })
      const { family } = (body as { family: string; handle: string }[]).findLast(
        one => one.handle === by.handle,
      )!
      return { ticket, family }
    },
    /** Lets the agent in, as the command line does. */
    async admit(by: TestAgent): Promise<void> {
      const { ticket } = (await by.ask()).body as { ticket: string }
      await decide(authority, by.handle, 'approved')
      await by.present(ticket)
    },
  }
}

/** The card of what waits under this family. */
export function card(page: Page, family: string): Locator {
  return page.locator(`article[data-family="${family}"]`)
}

/** With USHER_PICTURES=folder, every page as it was seen, whole and as much as the screen had of it. */
export async function pictured(page: Page, name: string): Promise<void> {
  const folder = process.env['USHER_PICTURES']
  if (folder === undefined) return
  mkdirSync(folder, { recursive: true })
  await page.screenshot({ path: join(folder, `${name}-screen.png`) })
  await page.screenshot({ path: join(folder, `${name}.png`), fullPage: true })
}

/**
 * In light and in dark: nothing that axe finds, nothing beyond the screen's edge, at 320 px either, whether
 * the page is read from left to right or from right to left.
 */
export async function expectSound(page: Page, name: string): Promise<void> {
  const size = page.viewportSize()!
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme })
    expect(await findings(page)).toEqual([])
    await pictured(page, `${name}-${size.width}-${colorScheme}`)
  }
  for (const viewport of [size, { width: 320, height: 640 }]) {
    await page.setViewportSize(viewport)
    for (const direction of ['rtl', 'ltr'] as const) {
      await writeDirection(page, direction)
      expect(await overhang(page), `${direction} at ${viewport.width} px`).toBe(0)
    }
  }
  await page.setViewportSize(size)
}

/** Lays the page out for a language that is read in this direction. */
export async function writeDirection(page: Page, direction: 'ltr' | 'rtl'): Promise<void> {
  await page.locator('html').evaluate((node, dir) => {
    node.dir = dir
  }, direction)
}

/** By how many pixels a page is wider than its window. */
export function overhang(page: Page): Promise<number> {
  return page.locator('html').evaluate(node => node.scrollWidth - node.clientWidth)
}

/** A text as the page writes it: by the page's own rule, which is tested by itself. */
export function written(text: string): string {
  return analyse(text)
    .parts.map(part => part.text)
    .join('')
}

/** Flags and blanks between the parts of a text say nothing of it. */
export function spelled(text: string): string {
  return text.replaceAll(/\s/gu, '')
}
