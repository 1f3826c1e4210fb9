/**
 * docs/tls.md: every command of it, in order, in one shell, against the real programs with TLS throughout and
 * no development switch. Only ports and home are others.
 */
import { expect, test } from 'vitest'
import { envoy } from '../../support/envoy.ts'
import { runPage } from '../../support/pages.ts'
import { describeWith } from '../../support/requirement.ts'

const TIMEOUT_MS = 280_000

describeWith(await envoy(), 'docs/tls.md', () => {
  test(
    'makes certificates, and two owners have two MCP servers over https: each command prints what stands below it',
    { timeout: TIMEOUT_MS + 10_000 },
    async () => {
      const ran = await runPage('docs/tls.md', {
        // The doctor of the page is to look at what the page sets up alone.
        before: 'unset UMA_TALLY_LISTEN UMA_TALLY_METRICS_LISTEN',
        timeoutMs: TIMEOUT_MS,
      })
      const missing = ran.flatMap(({ line, shows, printed }) =>
        shows.filter(what => !printed.includes(what)).map(what => ({ line, what, printed })),
      )
      expect(missing).toEqual([])
      expect(ran.filter(({ shows }) => shows.length > 0).length).toBeGreaterThan(5)
      expect(ran.map(({ printed }) => printed).join('')).not.toMatch(/^FAIL/m)
    },
  )
})
