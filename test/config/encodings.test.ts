/**
 * contract, "Owner API": the text of a file that somebody edited is what she wrote, whatever her editor put
 * before it; in another encoding it is refused, since its letters would become others without a word.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { readObjectFile } from '../../src/client/object-file.ts'
import { readSecretFile, readYamlFile } from '../../src/config/files.ts'
import { configFolder, faultsOf } from '../support/config-files.ts'

const { folder } = configFolder()
const file = (name: string, content: Buffer | string): string => {
  const path = join(folder, name)
  writeFileSync(path, content, { mode: 0o600 })
  return path
}
const MARK = '\ufeff'
const OTHERS: [string, (text: string) => Buffer][] = [
  ['UTF-16, as PowerShell writes it', text => Buffer.from(`${MARK}${text}`, 'utf16le')],
  ['UTF-16 without a mark', text => Buffer.from(text, 'utf16le')],
  ['Latin-1', text => Buffer.from(`${text}\u00fc`, 'latin1')],
]

describe('A byte order mark', () => {
  it('is no part of a secret', () => {
    expect(readSecretFile('s', file('secret', `${MARK}sixteen-characters\r\n`))).toBe('sixteen-characters')
  })

  it('is no part of a file of settings', () => {
    expect(readYamlFile('s', file('a.yaml', `${MARK}name: Z\u00fcrich\r\n`))).toEqual({ name: 'Z\u00fcrich' })
  })

  it.each(['name: x\r\n', '{"name": "x"}\r\n'])('is no part of a tier or a charter: %j', async text => {
    expect(await readObjectFile(file('tier', MARK + text), 'a tier')).toEqual({ name: 'x' })
  })
})

describe.each(OTHERS)('A file in %s', (_encoding, encode) => {
  it('is refused as a secret and as a file of settings', () => {
    const secret = file('secret', encode('sixteen-characters'))
    const settings = file('a.yaml', encode('name: x'))
    expect(faultsOf(() => readSecretFile('s', secret))).toEqual([
      `s: ${secret} is not in UTF-8: save it in that encoding.`,
    ])
    expect(faultsOf(() => readYamlFile('s', settings))).toEqual([
      `s: ${settings} is not in UTF-8: save it in that encoding.`,
    ])
  })

  it.each(['name: x', '{"name": "x"}'])('is refused as a tier or a charter: %j', async text => {
    const path = file('tier', encode(text))
    await expect(readObjectFile(path, 'a tier')).rejects.toThrow(
      `${path} cannot be read (it is not in UTF-8: save it in that encoding)`,
    )
  })
})
