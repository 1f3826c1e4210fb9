/**
 * Owns whether this machine has a PgBouncer, and the start of one before the database of a test.
 */
import { execFile } from 'node:child_process'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { startChild, untilReady } from '../../src/dev/stack/child-process.ts'
import { accepts, freePorts } from '../../src/dev/stack/ports.ts'
import type { Requirement } from './requirement.ts'

const run = promisify(execFile)
const PLACES = ['pgbouncer', '/usr/sbin/pgbouncer', '/usr/local/bin/pgbouncer']

/** The path of a real PgBouncer, or the line that says how to get one. */
export async function pgbouncer(): Promise<Requirement<string>> {
  for (const path of PLACES) {
    const version = await run(path, ['--version']).then(
      ({ stdout }) => stdout,
      () => '',
    )
    if (version.includes('PgBouncer')) return { found: path }
  }
  return { missing: 'PgBouncer (Debian: apt-get install pgbouncer).' }
}

/** `session`, `transaction` or `statement`, and further lines of its configuration. */
export interface PoolerOptions {
  mode: string
  settings?: Record<string, string | number>
}

/** Starts one before the database at `url`; `url` of the result leads through it. */
export async function startPgbouncer(
  path: string,
  url: string,
  { mode, settings = {} }: PoolerOptions,
): Promise<{ url: string; stop: () => Promise<void> }> {
  const directory = await mkdtemp(join(tmpdir(), 'usher-pgbouncer-'))
  const [port] = await freePorts(1)
  const to = new URL(url)
  const login = `user=${decodeURIComponent(to.username)} password=${decodeURIComponent(to.password)}`
  const lines = {
    listen_addr: '127.0.0.1',
    listen_port: port,
    unix_socket_dir: '',
    auth_type: 'any',
    pool_mode: mode,
    default_pool_size: 40,
    ...settings,
  }
  const file = join(directory, 'pgbouncer.ini')
  await writeFile(
    file,
    [
      '[databases]',
      `* = host=${to.hostname} port=${to.port} ${login}`,
      '[pgbouncer]',
      ...Object.entries(lines).map(([name, value]) => `${name} = ${value}`),
      '',
    ].join('\n'),
  )
  // It does not run as root, and reads its file after it became somebody else.
  await chmod(directory, 0o755)
  const asNobody = process.getuid?.() === 0 ? ['-u', 'nobody'] : []
  const child = startChild({
    name: 'pgbouncer',
    command: [path, ...asNobody, file],
    logFile: join(directory, 'pgbouncer.log'),
  })
  await untilReady(child, () => accepts(port))
  const through = new URL(url)
  through.hostname = '127.0.0.1'
  through.port = String(port)
  return {
    url: through.href,
    stop: async () => {
      await child.stop()
      await rm(directory, { recursive: true, force: true })
    },
  }
}
