/**
 * contract, "Permission ticket" and "Single-use grant": what an agent relies on as written outlives a crash
 * of the machine: the file is on the disk before it has its name, and the name before it counts.
 */
import promises, {
  mkdir,
  mkdtemp,
  open,
  readdir,
  readFile,
  rm,
  rmdir,
  stat,
  symlink,
  utimes,
  type FileHandle,
} from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { createDurably, removeDurably, writeDurably } from '../../src/files/durable-file.ts'
import { until } from '../support/until.ts'

let folder: string
let steps: string[]

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'usher-durable-'))
  steps = []
  const probe = await open(folder, 'r')
  const prototype = Object.getPrototypeOf(probe) as FileHandle
  await probe.close()
  const sync: (this: FileHandle) => Promise<void> = Reflect.get(prototype, 'sync')
  vi.spyOn(prototype, 'sync').mockImplementation(async function (this: FileHandle) {
    steps.push((await this.stat()).isDirectory() ? 'sync folder' : 'sync file')
    return sync.call(this)
  })
  for (const name of ['rename', 'link', 'rm'] as const) {
    const original = promises[name] as (...given: unknown[]) => Promise<void>
    vi.spyOn(promises, name).mockImplementation(async (...given: unknown[]) => {
      steps.push(name)
      return original(...given)
    })
  }
  syncBuiltinESMExports()
})
afterEach(async () => {
  vi.restoreAllMocks()
  syncBuiltinESMExports()
  await rm(folder, { recursive: true, force: true })
})

it('A file that is written anew is on the disk before it takes the place of the old one', async () => {
  await writeDurably(folder, 'a.json', 'one')
  expect(steps).toEqual(['sync file', 'rename', 'sync folder'])
  await writeDurably(folder, 'a.json', 'two')
  expect(await readFile(join(folder, 'a.json'), 'utf8')).toBe('two')
  expect((await stat(join(folder, 'a.json'))).mode & 0o777).toBe(0o600)
  expect(await readdir(folder)).toEqual(['a.json'])
})

it('A file that is written where none may be is that of whoever came first', async () => {
  await createDurably(folder, 'key', 'one')
  expect(steps).toEqual(['sync file', 'link', 'rm', 'sync folder'])
  await createDurably(folder, 'key', 'two')
  expect(await readFile(join(folder, 'key'), 'utf8')).toBe('one')
  expect(await readdir(folder)).toEqual(['key'])
})

/** Has `link` fail as it does where there are no hard links. */
function withoutLinks(code: string): void {
  vi.spyOn(promises, 'link').mockImplementation(async () => {
    throw Object.assign(new Error('no links'), { code })
  })
  syncBuiltinESMExports()
}

it.each([
  'ENOTSUP',
  'EPERM',
  'ENOSYS',
  'EOPNOTSUPP',
  'EMLINK',
  'EACCES',
  'EXDEV',
  'EINVAL',
  'EPROTO',
  'UNKNOWN',
])(
  'Where there are no hard links (%s), it is that of whoever came first, too, and nothing is left beside it',
  async code => {
    withoutLinks(code)
    await createDurably(folder, 'key', 'one')
    await createDurably(folder, 'key', 'two')
    expect(await readFile(join(folder, 'key'), 'utf8')).toBe('one')
    expect(await readdir(folder)).toEqual(['key'])
  },
)

it('Where there are no hard links, of many who write it at once one does, and each finds it complete', async () => {
  withoutLinks('ENOTSUP')
  const texts = Array.from({ length: 16 }, (_, n) => `${n}`.repeat(5_000))
  const read = await Promise.all(
    texts.map(async text => {
      await createDurably(folder, 'key', text)
      return readFile(join(folder, 'key'), 'utf8')
    }),
  )
  expect(texts).toContain(read[0])
  expect(new Set(read).size).toBe(1)
  expect(await readdir(folder)).toEqual(['key'])
})

it('Where there are no hard links, what a killed writer left keeps nobody from writing it', async () => {
  withoutLinks('ENOTSUP')
  await mkdir(join(folder, '.key.claim'))
  const longAgo = new Date(Date.now() - 60_000)
  await utimes(join(folder, '.key.claim'), longAgo, longAgo)
  await createDurably(folder, 'key', 'one')
  expect(await readdir(folder)).toEqual(['key'])
})

/** As on a share whose clock goes otherwise than that of this machine. */
function withClockAhead(ms: number): void {
  const original = promises.stat as (path: string) => Promise<{ mtimeMs: number }>
  vi.spyOn(promises, 'stat').mockImplementation((async (path: string) => {
    const { mtimeMs } = await original(path)
    steps.push('stat')
    return { mtimeMs: mtimeMs + ms }
  }) as typeof promises.stat)
  syncBuiltinESMExports()
}

const HOUR = 3_600_000
it.each([
  ['before', HOUR],
  ['behind', -HOUR],
])('What a killed writer left keeps nobody from it on a share whose clock is %s ours', async (_what, ms) => {
  withoutLinks('ENOTSUP')
  withClockAhead(ms)
  await mkdir(join(folder, '.key.claim'))
  const longAgo = new Date(Date.now() - 60_000)
  await utimes(join(folder, '.key.claim'), longAgo, longAgo)
  await createDurably(folder, 'key', 'one')
  expect(await readdir(folder)).toEqual(['key'])
})

it('A writer that lives keeps its turn on a share whose clock is behind ours', async () => {
  withoutLinks('ENOTSUP')
  withClockAhead(-HOUR)
  await mkdir(join(folder, '.key.claim'))
  const created = createDurably(folder, 'key', 'one')
  // It has looked at the claim, and at the clock, and looks again.
  await until(() => steps.filter(step => step === 'stat').length > 3)
  expect(await readdir(folder)).toContain('.key.claim')
  await rmdir(join(folder, '.key.claim'))
  await created
  expect(await readFile(join(folder, 'key'), 'utf8')).toBe('one')
})

it('A file that cannot be looked at is not replaced', async () => {
  withoutLinks('ENOTSUP')
  await symlink('key', join(folder, 'key'))
  await expect(createDurably(folder, 'key', 'one')).rejects.toMatchObject({ code: 'ELOOP' })
  expect(await readdir(folder)).toEqual(['key'])
})

it.each(['EIO', 'ENOSPC', 'EDQUOT', 'EROFS'])(
  'Another fault of the file system is told as it is: %s',
  async code => {
    withoutLinks(code)
    await expect(createDurably(folder, 'key', 'one')).rejects.toMatchObject({ code })
    expect(await readdir(folder)).toEqual([])
  },
)

it.each(['EBADF', 'EINVAL', 'ENOSYS', 'ENOTSUP', 'EOPNOTSUPP', 'EPERM'])(
  'A file system that cannot sync the names in a folder (%s) keeps the file',
  async code => {
    const probe = await open(folder, 'r')
    const prototype = Object.getPrototypeOf(probe) as FileHandle
    await probe.close()
    vi.spyOn(prototype, 'sync').mockImplementation(async function (this: FileHandle) {
      if ((await this.stat()).isDirectory()) throw Object.assign(new Error('no'), { code })
    })
    await writeDurably(folder, 'a.json', 'one')
    await createDurably(folder, 'key', 'one')
    expect(await readFile(join(folder, 'key'), 'utf8')).toBe('one')
  },
)

it('A folder that is made for it is there too, with those above it', async () => {
  await writeDurably(join(folder, 'a', 'b', 'c'), 'd.json', '{}')
  // b, a and the folder that holds a; then the file; then c.
  expect(steps).toEqual(['sync folder', 'sync folder', 'sync folder', 'sync file', 'rename', 'sync folder'])
})

it('A file that is removed does not come back', async () => {
  await writeDurably(folder, 'a.json', 'one')
  steps.length = 0
  await removeDurably(join(folder, 'a.json'))
  await removeDurably(join(folder, 'a.json'))
  expect(steps).toEqual(['rm', 'sync folder', 'rm', 'sync folder'])
})
