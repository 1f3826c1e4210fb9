/**
 * Files of private keys and secrets: the check that nobody else had access to them. contract,
 * "Authentication".
 */
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import {
  ExposedFile,
  readPrivateFile,
  readPrivateFileSync,
  refuseExposedFolder,
} from '../../src/files/private-file.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const folder = temporaryFolder('private')

let made = 0
function fileOf(mode: number): string {
  const path = join(folder, `${++made}`)
  writeFileSync(path, 'secret')
  chmodSync(path, mode)
  return path
}

/** Both ways of reading agree, so a rule cannot hold in one alone. */
async function read(path: string): Promise<string> {
  const [later, at_once] = await Promise.allSettled([
    readPrivateFile(path),
    Promise.resolve().then(() => readPrivateFileSync(path)),
  ])
  if (later.status === 'rejected') {
    expect(at_once).toMatchObject({ status: 'rejected', reason: { message: later.reason.message as string } })
    throw later.reason as Error
  }
  expect(at_once).toEqual(later)
  return later.value.toString()
}

describe('A private file', () => {
  test.each([0o600, 0o400, 0o440, 0o640, 0o700, 0o750])('of the mode %o is read', async mode => {
    expect(await read(fileOf(mode))).toBe('secret')
  })

  test.each([
    [0o644, 'others can read it'],
    [0o604, 'others can read it'],
    [0o444, 'others can read it'],
    [0o660, 'its group can change it'],
    [0o620, 'its group can change it'],
    [0o602, 'others can change it'],
    [0o666, 'others can change it'],
    [0o777, 'others can change it'],
  ])('of the mode %o is refused: %s, names path and mode, and says what to run', async (mode, who) => {
    const path = fileOf(mode)
    const refused = await read(path).catch((error: unknown) => error)
    expect(refused).toBeInstanceOf(ExposedFile)
    const written = `0${mode.toString(8)}`
    expect((refused as Error).message).toContain(
      `${path} has the mode ${written}, so ${who}: chmod 600 ${path} `,
    )
  })

  test('is judged by the file that links lead to, not by the link', async () => {
    const through = (to: string): string => {
      const link = `${to}.link`
      symlinkSync(to, link)
      return link
    }
    expect(await read(through(through(fileOf(0o400))))).toBe('secret')
    await expect(read(through(through(fileOf(0o444))))).rejects.toThrow('.link.link has the mode 0444')
  })

  test('that is not there fails like any other file', async () => {
    await expect(read(join(folder, 'none'))).rejects.toMatchObject({ code: 'ENOENT' })
    await expect(readPrivateFile(folder)).rejects.toMatchObject({ code: 'EISDIR' })
  })
})

describe('A folder of private files', () => {
  const folderOf = (mode: number): string => {
    const path = join(folder, `folder ${++made}`)
    mkdirSync(path)
    chmodSync(path, mode)
    return path
  }

  test.each([0o700, 0o750, 0o755, 0o2700])('of the mode %o is used', mode => {
    expect(() => refuseExposedFolder(folderOf(mode))).not.toThrow()
  })

  test('that is not there is used: it is made for its user alone', () => {
    expect(() => refuseExposedFolder(join(folder, 'none'))).not.toThrow()
  })

  test.each([
    [0o770, 'its group'],
    [0o720, 'its group'],
    [0o702, 'others'],
    [0o777, 'others'],
    [0o1777, 'others'],
  ])('of the mode %o is refused: %s can put files there', (mode, who) => {
    const path = folderOf(mode)
    expect(() => refuseExposedFolder(path)).toThrow(ExposedFile)
    expect(() => refuseExposedFolder(path)).toThrow(
      `${path} has the mode ${mode.toString(8).padStart(4, '0')}, so ${who} can put files there: look at what is in it, then chmod 700 ${path} `,
    )
  })
})
