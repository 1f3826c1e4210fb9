/**
 * Owns a replica of a test's authority as a separate process, which can be killed: same database, keys and
 * provisioning, but its own addresses.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startChild, untilReady } from '../../src/dev/stack/child-process.ts'
import { freePorts } from '../../src/dev/stack/ports.ts'
import { exchange, type OwnerCall, type Reply, type TestAuthority } from './authority.ts'
import { usherProgram } from './usher-program.ts'

export interface AuthorityProcess {
  publicUrl: string
  /** Signs and sends a request of alice to its owner API. */
  own(call: OwnerCall): Promise<Reply>
  /** The lines that it wrote until now, as JSON. */
  lines(): Record<string, unknown>[]
  /** Sends it SIGHUP. */
  hangup(): void
  /** Ends it outright. */
  kill(): Promise<void>
  /** If it was killed, there is nothing left to end. */
  close(): Promise<void>
}

const CLI = [usherProgram()]

/**
 * Starts it beside the authority, as `usher authority` runs.
 * @param program what Node is to run, with its options; this program when left out.
 */
export async function startAuthorityProcess(
  beside: TestAuthority,
  { program = CLI, environment = {} }: { program?: string[]; environment?: Record<string, string> } = {},
): Promise<AuthorityProcess> {
  const folder = mkdtempSync(join(tmpdir(), 'usher-authority-'))
  const [publicUrl, ownerUrl, metricsUrl] = (await freePorts(3)).map(port => `http://127.0.0.1:${port}`)
  const child = startChild({
    name: 'authority',
    command: [process.execPath, ...program, 'authority'],
    logFile: join(folder, 'authority.log'),
    environment: {
      ...beside.environment,
      UMA_AS_LISTEN: new URL(publicUrl!).host,
      UMA_AS_OWNER_LISTEN: new URL(ownerUrl!).host,
      UMA_AS_METRICS_LISTEN: new URL(metricsUrl!).host,
      UMA_AS_DRAIN_MS: '0',
      ...environment,
    },
  })
  await untilReady(child, async () => (await fetch(`${publicUrl}/ready`)).status === 200)
  return {
    publicUrl: publicUrl!,
    own: call => {
      const { url, ...prepared } = beside.prepare(beside.alice, call)
      return exchange({ ...prepared, url: ownerUrl + url.slice(beside.ownerUrl.length) })
    },
    lines: () =>
      readFileSync(child.logFile, 'utf8')
        .split('\n')
        .filter(line => line.startsWith('{'))
        .map(line => JSON.parse(line) as Record<string, unknown>),
    hangup: () => process.kill(child.pid!, 'SIGHUP'),
    kill: async () => {
      process.kill(child.pid!, 'SIGKILL')
      await child.exited
    },
    close: async () => {
      await child.stop()
      rmSync(folder, { recursive: true })
    },
  }
}
