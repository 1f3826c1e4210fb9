/**
 * Owns the parts of the demo that `usher dev` also runs by themselves, for a person who sets up the rest by
 * hand as docs/tutorial.md does: a throw-away Postgres, and an Envoy on a file of theirs. Contract: "What the
 * service does".
 */
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { dirname, resolve } from 'node:path'
import { parse } from 'yaml'
import { z } from 'zod'
import { UsageError, type Terminal } from '../terminal/command.ts'
import { startEmbeddedPostgres } from './stack/embedded-postgres.ts'
import type { Envoy } from './stack/envoy-binary.ts'
import { spawnGuarded } from './stack/guarded-spawn.ts'

const DATABASE_CONNECTIONS_MAX = 100

/** Runs a Postgres and prints its URL as the only line; ends, and deletes its data, when `stop` resolves. */
export async function runDatabase(terminal: Terminal, stop: Promise<void>): Promise<void> {
  const postgres = await startEmbeddedPostgres({ maxConnections: DATABASE_CONNECTIONS_MAX })
  terminal.out(`${postgres.url}\n`)
  await stop
  await postgres.stop()
}

/**
 * Runs Envoy on `file`, which names other files by absolute paths, and shows what it writes; ends it when
 * `stop` resolves. Answers Envoy's exit status.
 */
export async function runEnvoy(envoy: Envoy, file: string, stop: Promise<void>): Promise<number> {
  const path = resolve(file)
  for (const { address, port } of listenersOf(await readFile(path, 'utf8')))
    if (!(await isFree(address, port)))
      throw new UsageError(
        `Something listens on port ${port} already, perhaps a \`make demo\` that still runs: end it, or change the listener in ${file}.`,
      )
  const child = spawnGuarded(envoy.command(path, dirname(path)), { signal: 'TERM', stdout: 1, stderr: 2 })
  void stop.then(() => child.kill('SIGTERM'))
  return new Promise((ended, failed) => {
    child.once('error', failed)
    child.once('exit', code => ended(code ?? 0))
  })
}

const LISTENERS = z.object({
  static_resources: z.object({
    listeners: z.array(
      z.object({
        address: z.object({ socket_address: z.object({ address: z.string(), port_value: z.int() }) }),
      }),
    ),
  }),
})

/** Where a configuration has Envoy listen; nothing of what only Envoy can read. */
function listenersOf(text: string): { address: string; port: number }[] {
  const read = LISTENERS.safeParse(parse(text))
  if (!read.success) return []
  return read.data.static_resources.listeners.map(({ address: { socket_address } }) => ({
    address: socket_address.address,
    port: socket_address.port_value,
  }))
}

/** Envoy itself would not say: two of them share a port, and each gets a part of the connections. */
async function isFree(host: string, port: number): Promise<boolean> {
  const probe = createServer()
  return new Promise(resolve => {
    probe.once('error', (error: NodeJS.ErrnoException) => resolve(error.code !== 'EADDRINUSE'))
    probe.listen({ host, port }, () => probe.close(() => resolve(true)))
  })
}
