/**
 * Owns files of configuration for tests: a folder of their own with a keys file in it, and what is wrong with
 * settings.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll } from 'vitest'
import { ConfigFault } from '../../src/config.ts'
import { generatePrivateJwk } from '../../src/wire/signatures/keys.ts'

/** A folder that is gone after the tests, and in it a file with one private key. */
export function configFolder(): { folder: string; keysFile: string } {
  const folder = mkdtempSync(join(tmpdir(), 'usher-config-'))
  afterAll(() => rmSync(folder, { recursive: true }))
  const keysFile = join(folder, 'keys.json')
  writeFileSync(keysFile, JSON.stringify({ keys: [generatePrivateJwk()] }), { mode: 0o600 })
  return { folder, keysFile }
}

/** The sentences of the ConfigFault that `read` throws, none if it throws nothing. */
export function faultsOf(read: () => unknown): string[] {
  try {
    read()
  } catch (error) {
    if (error instanceof ConfigFault) return error.faults
    throw error
  }
  return []
}
