/**
 * Owns a real browser for tests of the owner's page: its location, the page as it is built and served, and
 * the actions of a test. A page that breaks its own policy, or throws, fails the test that opened it.
 */
import { randomBytes } from 'node:crypto'
import { accessSync, constants, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { chromium, type Browser, type BrowserContextOptions, type Page } from 'playwright-core'
import { build } from 'rolldown'
import { afterAll, beforeAll, expect } from 'vitest'
import configuration from '../../rolldown.console.config.js'
import { PATIENCE_MS } from './patience.ts'
import type { Requirement } from './requirement.ts'

const PLACES = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome']

/** The path of a browser, or the line that says how to get one. */
export function installedBrowser(): Requirement<string> {
  for (const path of PLACES) {
    try {
      accessSync(path, constants.X_OK)
      return { found: path }
    } catch {
      continue
    }
  }
  return { missing: 'a Chromium (Debian: apt-get install chromium).' }
}

/**
 * Builds the page where the sources look for it, before anything in the file is started. Each file is
 * written elsewhere first, and then moved there: a worker beside this one builds the same files, and what it
 * starts must not read one that is half written.
 */
export function builtConsole(): void {
  beforeAll(async () => {
    const place = configuration.output!.dir!
    const making = `${place}.${randomBytes(4).toString('hex')}`
    try {
      await build({ ...configuration, output: { ...configuration.output, dir: making }, logLevel: 'warn' })
      mkdirSync(place, { recursive: true })
      for (const name of readdirSync(making)) renameSync(join(making, name), join(place, name))
    } finally {
      rmSync(making, { recursive: true, force: true })
    }
  })
}

export interface Device {
  page: Page
  close(): Promise<void>
}

/**
 * A browser for the file. `open` is a device of its own, with nothing kept from any other; `faults` are what
 * pages complained of.
 */
export function browserStand(path: string) {
  let browser: Browser | undefined
  const faults: string[] = []
  beforeAll(async () => {
    browser = await chromium.launch({ executablePath: path, args: ['--no-sandbox', '--disable-gpu'] })
  }, 60_000)
  afterAll(() => browser?.close())
  return {
    faults,
    async open(url: string, options: BrowserContextOptions = {}): Promise<Device> {
      const context = await browser!.newContext({ locale: 'en-GB', timezoneId: 'UTC', ...options })
      context.setDefaultTimeout(PATIENCE_MS)
      const page = await context.newPage()
      page.on('pageerror', error => faults.push(error.message))
      page.on('console', message => {
        // A refusal that the page shows is told there, too, by the browser itself.
        if (message.type() === 'error' && !message.text().startsWith('Failed to load resource'))
          faults.push(message.text())
      })
      await page.goto(url)
      return { page, close: () => context.close() }
    },
  }
}

const AXE = createRequire(import.meta.url).resolve('axe-core/axe.min.js')

/** What axe finds on the present page; there must be no findings. */
export async function findings(page: Page): Promise<string[]> {
  await page.evaluate(await readAxe())
  const { violations } = (await page.evaluate('axe.run(document, { resultTypes: ["violations"] })')) as {
    violations: { id: string; nodes: { html: string; failureSummary?: string }[] }[]
  }
  return violations.flatMap(({ id, nodes }) =>
    nodes.map(({ html, failureSummary }) => `${id}: ${html.slice(0, 160)} ${failureSummary ?? ''}`),
  )
}

let axe: string | undefined
async function readAxe(): Promise<string> {
  const { readFile } = await import('node:fs/promises')
  return (axe ??= `${await readFile(AXE, 'utf8')};undefined`)
}

/** Fails if a page complained since the last time this was asked. */
export function expectNoFaults(faults: string[]): void {
  expect(faults.splice(0)).toEqual([])
}
