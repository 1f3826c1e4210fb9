/** What the demo's Postgres is started from: binaries that another account than ours must be able to run. */
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { copyForAll, startEmbeddedPostgres } from '../../src/dev/stack/embedded-postgres.ts'

test('a copy can be read and run by every account, also of what was installed for its owner alone', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'usher-copy-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  mkdirSync(join(folder, 'native', 'bin'), { recursive: true })
  const modes = { 'native/bin/initdb': 0o700, 'native/readme': 0o600, 'native/bin': 0o700, native: 0o700 }
  writeFileSync(join(folder, 'native/bin/initdb'), '')
  writeFileSync(join(folder, 'native/readme'), '')
  for (const [path, mode] of Object.entries(modes)) chmodSync(join(folder, path), mode)
  await copyForAll(join(folder, 'native'), join(folder, 'copy'))
  const modeOf = (path: string): number => statSync(join(folder, path)).mode & 0o777
  expect(modeOf('copy')).toBe(0o755)
  expect(modeOf('copy/bin')).toBe(0o755)
  expect(modeOf('copy/bin/initdb')).toBe(0o755)
  expect(modeOf('copy/readme')).toBe(0o644)
})

/** Where data is kept in memory, and otherwise. */
const FOLDERS = ['/dev/shm', tmpdir()]

test.each([[true], [false]])('data that is kept in memory: %s, is gone with its server', async inMemory => {
  const server = await startEmbeddedPostgres({ maxConnections: 10, inMemory })
  onTestFinished(() => server.stop())
  const client = new Client({ connectionString: server.url })
  await client.connect()
  const { rows } = await client.query<{ data_directory: string }>('SHOW data_directory')
  await client.end()
  const [{ data_directory }] = rows as [{ data_directory: string }]
  const places = inMemory ? FOLDERS : FOLDERS.slice(1)
  expect(places.some(folder => data_directory.startsWith(`${folder}/`))).toBe(true)
  expect(existsSync(join(data_directory, '..'))).toBe(true)
  await server.stop()
  expect(existsSync(join(data_directory, '..'))).toBe(false)
})
