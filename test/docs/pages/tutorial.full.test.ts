/**
 * docs/tutorial.md: every command of it, in order, in one shell, against the real programs: authority,
 * sidecar, Envoy and Postgres. Only ports and home are others.
 */
import { expect, test } from 'vitest'
import { envoy } from '../../support/envoy.ts'
import { runPage } from '../../support/pages.ts'
import { describeWith } from '../../support/requirement.ts'

const MINUTES_MAX = 9

describeWith(await envoy(), 'docs/tutorial.md', () => {
  test(
    'each command works, prints what stands below it, and all of them take less than ten minutes',
    { timeout: (MINUTES_MAX + 1) * 60_000 },
    async () => {
      const ran = await runPage('docs/tutorial.md', { timeoutMs: MINUTES_MAX * 60_000 })
      const untold = ran.flatMap(({ line, shows, printed }) =>
        shows.filter(what => !printed.includes(what)).map(what => ({ line, what, printed })),
      )
      expect(untold).toEqual([])
      expect(ran.filter(({ shows }) => shows.length > 0).length).toBeGreaterThan(8)
      const seconds = ran.reduce((sum, one) => sum + one.seconds, 0)
      process.stdout.write(`docs/tutorial.md: its commands took ${seconds.toFixed(0)} s\n`)
      expect(seconds).toBeLessThan(600)
    },
  )
})
