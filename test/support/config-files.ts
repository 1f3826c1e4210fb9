/**
 * Owns files of configuration for tests: a folder of their own with a keys file in it, and what is wrong with
 * settings.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { ConfigFault, readSidecarConfig } from '../../src/config.ts'
import { generatePrivateJwk } from '../../src/wire/signatures/keys.ts'
import { temporaryFolder } from './temporary-folder.ts'

/** A folder that is gone after the tests, and in it a file with one private key. */
export function configFolder(): { folder: string; keysFile: string } {
  const folder = temporaryFolder('config')
  const keysFile = join(folder, 'keys.json')
  writeFileSync(keysFile, JSON.stringify({ keys: [generatePrivateJwk()] }), { mode: 0o600 })
  return { folder, keysFile }
}

/** An owner of a sidecar's file, who has no tools yet. */
export const SIDECAR_OWNER = {
  owner: 'alice',
  authority: 'https://as.example.com',
  client_id: 'demo-tools',
  client_secret: 'shh',
}

/** Files of a sidecar of these owners: what one says, and the same written, or written and read. */
export function sidecarFiles() {
  const { folder, keysFile } = configFolder()
  const fileOf = (owners: object[], more: object = {}) => ({
    public_url: 'https://tools.example.com',
    listen: { check: '127.0.0.1:9191', http: '127.0.0.1:9192' },
    keys_file: keysFile,
    realm: 'tools',
    owners,
    ...more,
  })
  const write = (owners: object[], more: object = {}): string => {
    const file = join(folder, 'sidecar.yaml')
    writeFileSync(file, stringify(fileOf(owners, more)))
    return file
  }
  const read = (owners: object[], more: object = {}) => readSidecarConfig(write(owners, more), {})
  return { folder, keysFile, fileOf, write, read }
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
