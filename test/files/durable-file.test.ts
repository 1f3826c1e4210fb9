/**
 * contract, "Permission ticket" and "Single-use grant": what an agent relies on as written outlives a crash
 * of the machine: the file is on the disk before it has its name, and the name before it counts.
 */
import promises, { mkdtemp, open, readdir, readFile, rm, stat, type FileHandle } from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { createDurably, removeDurably, writeDurably } from '../../src/files/durable-file.ts'

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
