/**
 * Owns the record of which signed words of an owner, or of her authority, were used here. Contract:
 * "Single-use grant" and "Authorized call", order 4; docs/choices.md: each lets one call through, even after
 * a restart and across replicas that share the folder. A mark is an empty file, created only if it did not
 * exist.
 */
import { open, readdir, rm, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { Refusal } from '../../wire/refusal.ts'
import { within, type Deadline } from '../deadline.ts'
import { outage } from '../outage.ts'

/** The use of one of them. */
export interface Mark {
  /**
   * Gives the use back, for a call that was not let through. Never rejects, because a mark that stays lets
   * nothing through.
   */
  release(): Promise<void>
}

export interface Marks {
  /**
   * Marks what has this digest and ends at `exp` (seconds), before its grant is spent; undefined if it was
   * used before. Rejects if the mark cannot be written.
   */
  take(digest: string, exp: number): Promise<Mark | undefined>
}

/**
 * A mark is removed only long after what it marks has ended, so that a clock that is set back does not make
 * that valid again.
 */
const MARK_RETENTION_SECONDS = 7 * 24 * 3600
const SWEEP_SECONDS = 3600

/**
 * The marks in an existing folder. A folder that has disappeared, with all its marks, is an outage. `clock`
 * in milliseconds since the epoch.
 */
export function openMarks(directory: string, { clock }: { clock: () => number }): Marks {
  let sweptAt = -Infinity
  const seconds = (): number => Math.floor(clock() / 1000)
  const sweep = async (): Promise<void> => {
    sweptAt = seconds()
    for (const name of await readdir(directory)) {
      const exp = MARK.exec(name)?.groups?.['exp']
      if (exp !== undefined && Number(exp) + MARK_RETENTION_SECONDS < sweptAt)
        await rm(join(directory, name), { force: true })
    }
  }
  return {
    take: async (digest, exp) => {
      const name = `${hexOf(digest)}.${exp}`
      if (!(await isNew(directory, name))) return undefined
      // A file that is left over only costs space.
      if (seconds() - sweptAt >= SWEEP_SECONDS) void sweep().catch(() => undefined)
      return { release: () => rm(join(directory, name), { force: true }).catch(() => undefined) }
    },
  }
}

/**
 * Marks by the call's deadline; a mark that comes too late is given back, because nobody waits for it any
 * more. Throws an outage if it cannot be made; `what` is what it would say.
 */
export async function takeInTime(
  marks: Marks,
  { digest, exp, what }: { digest: string; exp: number; what: string },
  deadline: Deadline,
): Promise<Mark | undefined> {
  const taking = marks.take(digest, exp)
  try {
    return await within(deadline, 'the mark', taking)
  } catch (error) {
    void taking.then(mark => mark?.release()).catch(() => undefined)
    if (error instanceof Refusal) throw error
    throw outage(`${what} could not be marked: try again.`, error)
  }
}

/**
 * Makes the file if there is none, so that a crash of the machine does not take it back. If that cannot be
 * had, no file is left: the call is not let through, and the next attempt must not find its use taken.
 */
async function isNew(directory: string, name: string): Promise<boolean> {
  const path = join(directory, name)
  let file: FileHandle
  try {
    file = await open(path, 'wx', 0o600)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
  try {
    await syncAndClose(file)
    await syncFolder(directory)
  } catch (error) {
    await rm(path, { force: true })
    throw error
  }
  return true
}

/** Syncs the names in the folder. Some file systems cannot do that. */
async function syncFolder(directory: string): Promise<void> {
  const folder = await open(directory, 'r')
  try {
    await syncAndClose(folder)
  } catch (error) {
    if (!WITHOUT_FOLDER_SYNC.has((error as NodeJS.ErrnoException).code ?? '')) throw error
  }
}

const WITHOUT_FOLDER_SYNC: ReadonlySet<string> = new Set([
  'EBADF',
  'EINVAL',
  'ENOSYS',
  'ENOTSUP',
  'EOPNOTSUPP',
  'EPERM',
])

async function syncAndClose(file: FileHandle): Promise<void> {
  try {
    await file.sync()
  } finally {
    await file.close()
  }
}

const MARK = /^[0-9a-f]{64}\.(?<exp>\d{1,16})$/

/** Some file systems do not distinguish upper and lower case, as base64url does. */
function hexOf(digest: string): string {
  return Buffer.from(digest.replace(/^s256:/, ''), 'base64url').toString('hex')
}
