/**
 * Owns the way to the official test vectors: they are not part of this repository. `VECTORS_DIR` says where
 * they are; if one is absent, a line says so and its tests are not registered, unless `REQUIRE_ALL=1` makes
 * that a failure.
 */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describeWith } from './requirement.ts'

const DIRECTORY =
  process.env['VECTORS_DIR'] ?? join(import.meta.dirname, '..', '..', '..', 'shared', 'vectors')

/**
 * The parsed vector file of a name (`rfc9421.json`, `wycheproof/ed25519_test.json`), or undefined when it is
 * not here.
 */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the caller knows the file's shape
export function vectors<T>(name: string): T | undefined {
  const path = join(DIRECTORY, name)
  return existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as T) : undefined
}

/** A suite over one vector file. `register` gets the file and declares the tests. */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- as above
export function describeVectors<T>(name: string, title: string, register: (data: T) => void): void {
  const found = vectors<T>(name)
  const missing = `${name} is not in VECTORS_DIR`
  describeWith(found === undefined ? { missing } : { found }, `${title} (${name})`, register)
}
