/**
 * contract, "Single-use grant": what was used once is marked, on whatever file system the folder is; where
 * the mark may not outlive a crash of the machine, nothing is let through.
 */
import type { Stats } from 'node:fs'
import { mkdtemp, open, readdir, rm, type FileHandle } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { openMarks } from '../../src/enforcement/approval/use-marks.ts'
import { s256 } from '../../src/wire/encoding.ts'

const EXP = 2_000_000_000
const clock = (): number => Date.now()
let folder: string
beforeEach(async () => void (folder = await mkdtemp(join(tmpdir(), 'usher-marks-'))))
afterEach(async () => {
  vi.restoreAllMocks()
  await rm(folder, { recursive: true, force: true })
})

/** Some of what is opened cannot be synced, and the file system says so by this code. */
async function withoutSync(code: string, isConcerned: (one: Stats) => boolean): Promise<void> {
  const probe = await open(folder, 'r')
  const prototype = Object.getPrototypeOf(probe) as FileHandle
  await probe.close()
  vi.spyOn(prototype, 'sync').mockImplementation(async function (this: FileHandle) {
    if (isConcerned(await this.stat())) throw Object.assign(new Error('no sync'), { code })
  })
}
const withoutFolderSync = (code: string) => withoutSync(code, one => one.isDirectory())

describe('A mark in a folder whose names cannot be synced', () => {
  it.each(['EBADF', 'EINVAL', 'ENOSYS', 'ENOTSUP', 'EOPNOTSUPP', 'EPERM'])(
    'is made once, if the file system has no such thing: %s',
    async code => {
      await withoutFolderSync(code)
      const marks = openMarks(folder, { clock })
      expect(await marks.take(s256('a'), EXP)).toBeDefined()
      expect(await marks.take(s256('a'), EXP)).toBeUndefined()
    },
  )

  it.each(['EIO', 'ENOSPC'])('is none, where the file system failed: %s', async code => {
    await withoutFolderSync(code)
    await expect(openMarks(folder, { clock }).take(s256('a'), EXP)).rejects.toMatchObject({ code })
    expect(await readdir(folder)).toEqual([])
  })
})

describe('A mark that cannot be synced', () => {
  it.each(['EIO', 'ENOSPC', 'EDQUOT'])('is none, and the next attempt finds its use free: %s', async code => {
    await withoutSync(code, one => one.isFile())
    const marks = openMarks(folder, { clock })
    await expect(marks.take(s256('a'), EXP)).rejects.toMatchObject({ code })
    expect(await readdir(folder)).toEqual([])
    vi.restoreAllMocks()
    expect(await marks.take(s256('a'), EXP)).toBeDefined()
  })
})
