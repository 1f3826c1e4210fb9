/** What the demo's Postgres is started from: binaries that another account than ours must be able to run. */
import { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { copyForAll } from '../../src/dev/embedded-postgres.ts'

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
