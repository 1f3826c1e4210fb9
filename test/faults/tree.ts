/**
 * Owns the throw-away copy of this tree that faults are brought into: what git knows or would take on, with
 * the installed packages and the cache linked. The tree itself is never touched.
 */
import { execFile } from 'node:child_process'
import { existsSync, rmSync } from 'node:fs'
import { cp, mkdtemp, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { ROOT } from '../support/repository.ts'

const run = promisify(execFile)
const LINKED = ['node_modules', '.cache']

export interface Tree {
  directory: string
  /** Applies a patch. Throws, with the reason, if it no longer applies. */
  apply(patch: string): Promise<void>
  /** Takes it out again. */
  revert(patch: string): Promise<void>
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
  for (const path of stdout.split('\0').filter(path => path !== '' && existsSync(join(ROOT, path))))
    await cp(join(ROOT, path), join(directory, path))
  for (const name of LINKED)
    if (existsSync(join(ROOT, name))) await symlink(join(ROOT, name), join(directory, name))
  return {
    directory,
    apply: patch => applyPatch(directory, [patch]),
    revert: patch => applyPatch(directory, ['--reverse', patch]),
    remove: async () => {
      await rm(directory, { recursive: true, force: true })
      process.off('exit', removeAtExit)
    },
  }
}

/**
 * Whether a patch applies to the present tree: undefined if it does, otherwise what git says. Changes
 * nothing.
 */
export async function whyNotApplying(patch: string): Promise<string | undefined> {
  return applyPatch(ROOT, ['--check', patch]).then(
    () => undefined,
    (error: Error) => error.message,
  )
}

async function applyPatch(cwd: string, args: string[]): Promise<void> {
  try {
    // One line of context is enough, because code that is only near a fault may change. Without the
    // repository around it, so that the copy and a tree inside another repository behave in the same way.
    await run('git', ['apply', '-C1', ...args], {
      cwd,
      env: { ...process.env, GIT_CEILING_DIRECTORIES: cwd },
    })
  } catch (error) {
    const { stderr = '' } = error as { stderr?: string }
    throw new Error(`The patch no longer applies: ${stderr.trim()}`, { cause: error })
  }
}
