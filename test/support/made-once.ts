/**
 * Owns what tests make of the tree once and share between workers and runs: each lies in a folder named by
 * the digest of what it was made of.
 */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, rmSync, statSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from './repository.ts'

/** A folder that nobody used for so many milliseconds is of an earlier tree. */
const UNUSED_AFTER_MS = 6 * 3_600_000

/** The digest of these files and folders of the tree, of their paths and contents. */
export function digestOf(paths: readonly string[]): string {
  const hash = createHash('sha256')
  const add = (path: string): void => {
    const at = join(ROOT, path)
    if (statSync(at).isDirectory()) for (const name of readdirSync(at).toSorted()) add(join(path, name))
    else hash.update(`${path}\0`).update(createHash('sha256').update(readFileSync(at)).digest())
  }
  for (const path of paths) add(path)
  return hash.digest('hex').slice(0, 16)
}

/** The folder is in use now, so `removeUnused` leaves it. */
export function markUsed(folder: string): void {
  const now = new Date()
  utimesSync(folder, now, now)
}

/** Removes the folders in `parent` that were made of earlier trees. */
export function removeUnused(parent: string): void {
  for (const name of readdirSync(parent)) {
    const age = Date.now() - (statSync(join(parent, name), { throwIfNoEntry: false })?.mtimeMs ?? 0)
    if (age > UNUSED_AFTER_MS) rmSync(join(parent, name), { recursive: true, force: true })
  }
}
