/**
 * Owns how a file is written so that it survives a crash of the machine. Contract: "Permission ticket" (the
 * family outlives a process) and "Single-use grant": when others rely on a write, the data and the file's
 * name are already on the disk.
 */
import { access, link, mkdir, open, readdir, rename, rm, rmdir, stat } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'

/** Writes a file completely or not at all, readable only by its user; it replaces an existing one. */
export async function writeDurably(directory: string, name: string, text: string): Promise<void> {
  await place({ directory, name, text }, rename)
}

/** The same for a free name; an existing file stays as it is. */
export async function createDurably(directory: string, name: string, text: string): Promise<void> {
  await place({ directory, name, text }, async (from, to) => {
    await link(from, to).catch(async (error: NodeJS.ErrnoException) => {
      if (error.code === 'EEXIST') return
      if (NO_FILE_EITHER.has(error.code ?? '')) throw error
      return nameOnce(from, to)
    })
    await rm(from, { force: true })
  })
}

/**
 * What `link` says where no file can be had at all. Anything else may be how a file system says that it has
 * no hard links, and each says it by another code: FAT, shares of Windows, Android, containers, what is in
 * user space.
 */
const NO_FILE_EITHER: ReadonlySet<string> = new Set([
  'EDQUOT',
  'EIO',
  'ELOOP',
  'ENAMETOOLONG',
  'ENOENT',
  'ENOSPC',
  'ENOTDIR',
  'EROFS',
  'ESTALE',
])
/** Whoever may give the name has given it long before; a claim that is older was left by a killed process. */
const CLAIM_MS_MAX = 10_000
const CLAIM_PAUSE_MS = 20

/**
 * Gives a complete file its name without a hard link, unless the name is taken. Making a folder is exclusive
 * on every file system, so a folder beside it is the right to do that.
 */
async function nameOnce(from: string, to: string): Promise<void> {
  const claim = join(dirname(to), `.${basename(to)}.claim`)
  let now: (() => number) | undefined
  for (;;) {
    try {
      await mkdir(claim)
      break
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
    if (await isThere(to)) return
    const since = await stat(claim).then(
      ({ mtimeMs }) => mtimeMs,
      () => undefined,
    )
    now ??= await clockOf(claim)
    if (since !== undefined && now() - since > CLAIM_MS_MAX) await rmdir(claim).catch(() => undefined)
    else await delay(CLAIM_PAUSE_MS)
  }
  try {
    if (!(await isThere(to))) await rename(from, to)
  } finally {
    // Somebody else took it for one that was left, and has removed it.
    await rmdir(claim).catch(() => undefined)
  }
}

/**
 * The clock of the file system, by a folder that is made beside: that of a share is not the clock of this
 * machine.
 */
async function clockOf(claim: string): Promise<() => number> {
  const probe = `${claim}.${crypto.randomUUID()}`
  await mkdir(probe)
  try {
    const { mtimeMs } = await stat(probe)
    const since = performance.now()
    return () => mtimeMs + performance.now() - since
  } finally {
    await rmdir(probe)
  }
}

/** A file that cannot be looked at may be there, and must not be replaced. */
export function isThere(path: string): Promise<boolean> {
  return wasThere(access(path))
}

/** Whether what was begun with a file found it: false if there is none; it fails as that fails otherwise. */
export function wasThere(act: Promise<void>): Promise<boolean> {
  return act.then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return false
      throw error
    },
  )
}

/**
 * A file whose text comes in pieces, and is never completely in memory; it is also written completely or not
 * at all. An existing file of the name is replaced.
 */
export async function writePiecesDurably(
  directory: string,
  name: string,
  pieces: AsyncIterable<string>,
): Promise<void> {
  await place({ directory, name, text: pieces }, rename)
}

/**
 * Removes what killed writers of such a file left, and checks that one can be written there. Call it only
 * while nobody writes a file of that name. Rejects with the error of the file system.
 */
export async function prepareFolder(directory: string, names: RegExp): Promise<void> {
  await makeFolder(directory)
  for (const left of await readdir(directory)) {
    const [, name] = /^\.(.+)\.[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.exec(left) ?? []
    if (name !== undefined && names.test(name)) await rm(join(directory, left), { force: true })
  }
  const probe = join(directory, `.${crypto.randomUUID()}`)
  await (await open(probe, 'wx', 0o600)).close()
  await rm(probe, { force: true })
}

/** Removes a file, if it is there, so that it does not come back. */
export async function removeDurably(path: string): Promise<void> {
  await rm(path, { force: true })
  await syncFolder(dirname(path))
}

async function place(
  { directory, name, text }: { directory: string; name: string; text: string | AsyncIterable<string> },
  give: (from: string, to: string) => Promise<void>,
): Promise<void> {
  await makeFolder(directory)
  const temporary = join(directory, `.${name}.${crypto.randomUUID()}`)
  const file = await open(temporary, 'wx', 0o600)
  try {
    try {
      await file.writeFile(text)
      await file.sync()
    } finally {
      await file.close()
    }
    await give(temporary, join(directory, name))
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => undefined)
    throw error
  }
  await syncFolder(directory)
}

/** Creates a folder that only its user can read, with those above it. */
async function makeFolder(directory: string): Promise<void> {
  const first = await mkdir(directory, { recursive: true, mode: 0o700 })
  if (first === undefined) return
  const top = dirname(resolve(first))
  for (let made = dirname(resolve(directory)); made.startsWith(top); made = dirname(made)) {
    await syncFolder(made)
    if (made === top) return
  }
}

/** Syncs the names in a folder. Windows cannot do that, and some other file systems refuse it. */
async function syncFolder(directory: string): Promise<void> {
  let folder
  try {
    folder = await open(directory, 'r')
    await folder.sync()
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    if (!WITHOUT_FOLDER_SYNC.has(code)) throw error
  } finally {
    await folder?.close()
  }
}

/** `ENOENT`: a folder that is gone has no names to keep. */
const WITHOUT_FOLDER_SYNC: ReadonlySet<string> = new Set([
  'EBADF',
  'EINVAL',
  'EISDIR',
  'ENOENT',
  'ENOSYS',
  'ENOTSUP',
  'EOPNOTSUPP',
  'EPERM',
])
