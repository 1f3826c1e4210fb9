/**
 * Owns a directory as Kubernetes mounts a secret: files are links through `..data`, which is swapped as a
 * whole.
 */
import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export interface MountedSecret {
  path(file: string): string
  /** Puts these files in place of all that were there, in one step; `mode` is that of each. */
  swap(files: Record<string, string>, mode?: number): Promise<void>
  remove(): Promise<void>
}

/** As the chart asks for (`defaultMode`). */
const DEFAULT_MODE = 0o440

/** Mounts these files. */
export async function mountSecret(files: Record<string, string>): Promise<MountedSecret> {
  const directory = await mkdtemp(join(tmpdir(), 'usher-secret-'))
  let version = 0
  const swap: MountedSecret['swap'] = async (next, mode = DEFAULT_MODE) => {
    const name = `..${++version}`
    await mkdir(join(directory, name))
    for (const [file, text] of Object.entries(next))
      await writeFile(join(directory, name, file), text, { mode })
    await symlink(name, join(directory, '..data_tmp'))
    await rename(join(directory, '..data_tmp'), join(directory, '..data'))
  }
  await swap(files)
  for (const file of Object.keys(files)) await symlink(join('..data', file), join(directory, file))
  return {
    path: file => join(directory, file),
    swap,
    remove: () => rm(directory, { recursive: true, force: true }),
  }
}
