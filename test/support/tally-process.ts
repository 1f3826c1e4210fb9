/**
 * Owns a replica of a test's tally as a separate process that is killed at a step: same database, keys and
 * file, but its own addresses.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startChild, untilReady } from '../../src/dev/stack/child-process.ts'
import { freePorts } from '../../src/dev/stack/ports.ts'
import { exchange } from './authority.ts'
import type { TestTally } from './tally.ts'
import { usherProgram } from './usher-program.ts'

export type TallyProcess = Pick<TestTally, 'request' | 'pat' | 'close'> & {
  /** Settles once it was killed. */
  killed: Promise<void>
}

/** Starts it beside the tally, as `usher tally` runs; `killAt` as test/support/kill-at-statement.ts says. */
export async function startTallyProcess(beside: TestTally, killAt: string): Promise<TallyProcess> {
  const folder = mkdtempSync(join(tmpdir(), 'usher-tally-'))
  const [publicUrl, metricsUrl] = (await freePorts(2)).map(port => `http://127.0.0.1:${port}`)
  const child = startChild({
    name: 'tally',
    command: [
      process.execPath,
      '--import',
      join(import.meta.dirname, 'kill-at-statement.ts'),
      usherProgram(),
      'tally',
    ],
    logFile: join(folder, 'tally.log'),
    environment: {
      ...beside.environment,
      UMA_TALLY_LISTEN: new URL(publicUrl!).host,
      UMA_TALLY_METRICS_LISTEN: new URL(metricsUrl!).host,
      UMA_TALLY_DRAIN_MS: '0',
      KILL_AT: killAt,
    },
  })
  await untilReady(child, async () => (await fetch(`${publicUrl}/ready`)).status === 200)
  return {
    request: (target, { method = 'GET', headers = {}, body } = {}) =>
      exchange({
        url: publicUrl + target,
        method,
        headers: headers as Record<string, string>,
        body: body as string | undefined,
      }),
    // PATs are the same of all replicas.
    pat: () => beside.pat(),
    killed: child.exited,
    close: async () => {
      await child.stop()
      rmSync(folder, { recursive: true })
    },
  }
}
