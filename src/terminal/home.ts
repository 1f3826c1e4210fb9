/**
 * Owns paths that begin with the home folder. Contract: "Authentication": keys stay on the machine of their
 * holder, wherever she keeps them; a container may run as a user who has no home.
 */
import { homedir } from 'node:os'
import { UsageError } from './command.ts'

/** The path, with the home folder in place of `~`. Throws `UsageError` if one is needed and there is none. */
export function fromHome(path: string): string {
  return path.startsWith('~/') ? `${homeFolder()}${path.slice(1)}` : path
}

/** The home folder of this user. Throws `UsageError` if there is none. */
export function homeFolder(): string {
  let home = ''
  try {
    home = homedir()
  } catch {
    // Neither HOME nor an entry among the users of this system.
  }
  if (home === '') throw new UsageError('This user has no home folder: set HOME, or give the whole path.')
  return home
}
