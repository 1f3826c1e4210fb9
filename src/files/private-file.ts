/**
 * Owns the check that nobody else had access to a private file. Contract: "Authentication": a key or a secret
 * proves its holder, so one that others can read, or could have put there, proves nothing and is not used.
 */
import { closeSync, fstatSync, openSync, readFileSync, statSync } from 'node:fs'
import { open } from 'node:fs/promises'

const OTHERS_READ = 0o004
const GROUP_WRITES = 0o020
const OTHERS_WRITE = 0o002
const PERMISSIONS = 0o7777

/**
 * A private file that is open to others; the message names the path, the mode and the remedy. It was not
 * read.
 */
export class ExposedFile extends Error {
  override readonly name = 'ExposedFile'
}

/**
 * The bytes of a file that holds a private key or a secret. The opened file is checked, so links are
 * followed, and nobody can swap it in between. Throws `ExposedFile` if others can read it, or if its group or
 * others can write it; otherwise like `readFile`.
 */
export async function readPrivateFile(path: string): Promise<Buffer> {
  const file = await open(path, 'r')
  try {
    refuseExposed(path, await file.stat())
    return await file.readFile()
  } finally {
    await file.close()
  }
}

/** The same, synchronously, for files that are read before a process serves. */
export function readPrivateFileSync(path: string): Buffer {
  const file = openSync(path, 'r')
  try {
    refuseExposed(path, fstatSync(file))
    return readFileSync(file)
  } finally {
    closeSync(file)
  }
}

/**
 * Throws `ExposedFile` if somebody else could put files into a folder: its group or others may write there,
 * or it is another user's. A folder that is not there is nobody's.
 */
export function refuseExposedFolder(path: string): void {
  const stats = statSync(path, { throwIfNoEntry: false })
  if (stats === undefined || process.platform === 'win32') return
  const { mode, uid } = stats
  const ours = process.getuid!()
  const written = (mode & PERMISSIONS).toString(8).padStart(4, '0')
  if ((mode & (GROUP_WRITES | OTHERS_WRITE)) !== 0)
    throw new ExposedFile(
      `${path} has the mode ${written}, so ${(mode & OTHERS_WRITE) === 0 ? 'its group' : 'others'} can put files there: look at what is in it, then chmod 700 ${path} (a mount that keeps no modes: keep the folder elsewhere, or mount it with a mask of 077).`,
    )
  // A share may keep the files of root under another name.
  if (ours !== 0 && uid !== ours && uid !== 0)
    throw new ExposedFile(
      `${path} belongs to the user ${uid}, who can put files there: keep the folder elsewhere.`,
    )
}

/**
 * Its group may read it: that is how Kubernetes gives a mounted Secret to a process that is not root
 * (`fsGroup`). Windows has no such modes.
 */
function refuseExposed(path: string, { mode }: { mode: number }): void {
  if (process.platform === 'win32') return
  const who = exposedTo(mode)
  if (who === undefined) return
  const written = (mode & PERMISSIONS).toString(8).padStart(4, '0')
  throw new ExposedFile(
    `${path} has the mode ${written}, so ${who}: chmod 600 ${path} (a mounted Kubernetes Secret: defaultMode 0440 and an fsGroup; a mount that keeps no modes, such as a share of Windows: keep the file elsewhere, or mount it with a mask of 077).`,
  )
}

function exposedTo(mode: number): string | undefined {
  if ((mode & OTHERS_WRITE) !== 0) return 'others can change it'
  if ((mode & GROUP_WRITES) !== 0) return 'its group can change it'
  if ((mode & OTHERS_READ) !== 0) return 'others can read it'
  return undefined
}
