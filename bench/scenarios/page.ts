/**
 * Owns how long the owner's page takes until she can decide: from the first byte that is asked for to the
 * button that approves, over the loopback, in a browser that knows nothing yet, and in one that was there.
 * docs/performance.md says how to read it. By itself alone: `node bench/scenarios/page.ts`; it needs a
 * Chromium.
 */
import { join } from 'node:path'
import { chromium, type BrowserContext } from 'playwright-core'
import { startEmbeddedPostgres } from '../../src/dev/stack/embedded-postgres.ts'
import { openAgent } from '../../src/dev/story/scene.ts'
import { startStack } from '../../src/dev/stack/stack.ts'
import { createOwnerClient, serveConsole } from '../../src/owner/index.ts'
import { installedBrowser } from '../../test/support/browser.ts'
import { until } from '../../test/support/until.ts'
import { spreadOf } from '../figures.ts'
import { runByItself } from './by-itself.ts'

const TIMES = 10

async function measure(link: string, path: string): Promise<Record<'first' | 'again', number[]>> {
  const browser = await chromium.launch({ executablePath: path, args: ['--no-sandbox', '--disable-gpu'] })
  const ms: Record<'first' | 'again', number[]> = { first: [], again: [] }
  try {
    for (let n = 0; n <= TIMES; n++) {
      const context = await browser.newContext()
      const [first, again] = [await opened(context, link), await opened(context, link)]
      await context.close()
      // The browser itself starts with the first.
      if (n === 0) continue
      ms.first.push(first)
      ms.again.push(again)
    }
  } finally {
    await browser.close()
  }
  return ms
}

/** Milliseconds until what waits can be approved. */
async function opened(context: BrowserContext, link: string): Promise<number> {
  const page = await context.newPage()
  const since = performance.now()
  await page.goto(link, { waitUntil: 'commit' })
  await page.locator('button:enabled', { hasText: 'Approve' }).first().waitFor()
  const ms = performance.now() - since
  await page.close()
  return ms
}

async function run(directory: string): Promise<string> {
  const found = installedBrowser()
  if ('missing' in found) throw new Error(`There is none here: ${found.missing}`)
  const stops: (() => Promise<unknown>)[] = []
  try {
    const server = await startEmbeddedPostgres({ maxConnections: 100, durable: true })
    stops.push(() => server.stop())
    const stack = await startStack({ directory: join(directory, 'stack'), databaseUrl: server.url })
    stops.push(() => stack.stop())
    const access = { api: stack.ownerApi, issuer: stack.issuer, key: stack.household.ownerKey }
    const leaving = new AbortController()
    const call = openAgent(stack).startCall('portfolio_read', {}, { signal: leaving.signal })
    stops.push(async () => {
      leaving.abort()
      await call.result.catch(() => undefined)
    })
    const owner = createOwnerClient(access)
    await until(async () => (await owner.pending().next()).done === false)
    const served = await serveConsole(access)
    stops.push(() => served.close())
    const { first, again } = await measure(served.link, found.found)
    const shown = (ms: number[]): string => {
      const { median, min, max } = spreadOf(ms)!
      return `${median.toFixed(0)} ms (${min.toFixed(0)} to ${max.toFixed(0)})`
    }
    return `Until a request can be approved: ${shown(first)} in a new browser, ${shown(again)} in one that was there (goal: less than 1000 ms)`
  } finally {
    for (const stop of stops.toReversed()) await stop()
  }
}

if (import.meta.main) await runByItself(run)
