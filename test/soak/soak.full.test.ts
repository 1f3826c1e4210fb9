/**
 * The short form of `make soak`. contract, "Health": calls, probes and probes that leave do not fill the
 * enforcement point up.
 */
import { expect, test } from 'vitest'
import { describeWith } from '../support/requirement.ts'
import { soak } from './soak.ts'

const linux =
  process.platform === 'linux' ? { found: true } : { missing: 'resident memory is read from /proc' }

describeWith(linux, 'under a steady load', () => {
  test(
    'resident memory stays as it is once the sidecar is warm, and every answer is the right one',
    { timeout: 240_000 },
    async () => {
      const { growth, answers, series } = await soak({ seconds: 60, warmUpSeconds: 25 })
      process.stdout.write(`soak: ${series.map(({ rssMib }) => rssMib).join(' ')} MiB\n`)
      expect(growth).toBeLessThan(0.05)
      for (const answer of ['200', '400', '401', 'serving', 'left', '/metrics', '/health'])
        expect(answers[answer]).toBeGreaterThan(20)
      expect(answers['503'] ?? 0).toBeLessThan(answers['200']! / 20)
    },
  )
})
