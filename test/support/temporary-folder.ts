/** Owns a folder of a test file, below the system's folder for temporary files. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll } from 'vitest'

/** The path of a new folder, which is gone after the tests. */
export function temporaryFolder(name: string): string {
  const folder = mkdtempSync(join(tmpdir(), `usher-${name}-`))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}
