/**
 * Owns the throw-away copy of this tree that faults are brought into: what git knows or would take on, with
 * the installed packages linked, and of the cache what all copies may share. The tree itself is never
 * touched.
 */
import { execFile } from 'node:child_process'
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { copyFile, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { ROOT } from '../support/repository.ts'
import { edited, type Fault } from './faults.ts'

const run = promisify(execFile)
/**
 * Of the cache: what was fetched, or lies under the digest of what it was made of. The page is built to where
 * every build of it lies, so each copy has a place of its own: otherwise a test that is to fail could be
 * served the page of another copy, without its fault.
 */
const SHARED = ['chart', 'chart-outputs', 'envoy', 'python', 'usher']

export interface Tree {
  directory: string
  /** Brings a fault in. @throws with the reason if it no longer fits. */
  bringIn(fault: Fault): Promise<void>
  /** Takes out whatever was brought in. */
  restore(): Promise<void>
  remove(): Promise<void>
}

/** Copies the tree as it is now, changes that are not committed included. */
export async function copyTree(): Promise<Tree> {
  const directory = await mkdtemp(join(tmpdir(), 'usher-faults-'))
  // Also if a signal ends us.
  const removeAtExit = (): void => rmSync(directory, { recursive: true, force: true })
  process.once('exit', removeAtExit)
  const { stdout } = await run('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
    cwd: ROOT,
  })
  const paths = stdout.split('\0').filter(path => path !== '' && existsSync(join(ROOT, path)))
  for (const folder of new Set(paths.map(dirname))) await mkdir(join(directory, folder), { recursive: true })
  await Promise.all(paths.map(path => copyFile(join(ROOT, path), join(directory, path))))
  if (existsSync(join(ROOT, 'node_modules')))
    await symlink(join(ROOT, 'node_modules'), join(directory, 'node_modules'))
  await mkdir(join(directory, '.cache'))
  for (const name of SHARED.map(each => join('.cache', each))) {
    await mkdir(join(ROOT, name), { recursive: true })
    await symlink(join(ROOT, name), join(directory, name))
  }
  const textOf = (file: string): string => readFileSync(join(directory, file), 'utf8')
  /** Of the files that hold a fault: what they were before. */
  const sound = new Map<string, string>()
  return {
    directory,
    bringIn: async fault => {
      for (const [file, text] of edited(fault, textOf)) {
        sound.set(file, textOf(file))
        await writeFile(join(directory, file), text)
      }
    },
    restore: async () => {
      for (const [file, text] of sound) await writeFile(join(directory, file), text)
      sound.clear()
    },
    remove: async () => {
      await rm(directory, { recursive: true, force: true })
      process.off('exit', removeAtExit)
    },
  }
}
