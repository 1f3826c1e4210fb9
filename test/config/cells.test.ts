/** The cells between which owners are divided: contract, "What the service does" (many owners). */
import { describe, expect, test } from 'vitest'
import { readAuthorityConfig, readMigrationConfig, readOwnersConfig } from '../../src/config.ts'
import { configFolder, faultsOf } from '../support/config-files.ts'

const { keysFile } = configFolder()

describe('UMA_AS_CELLS', () => {
  const home = 'postgres://usher:secret@home.example/usher'
  const east = 'postgres://usher:secret@east.example/usher'
  const good = {
    UMA_AS_ISSUER: 'https://as.example.com',
    DATABASE_URL: home,
    UMA_AS_KEYS_FILE: keysFile,
  }
  const faults = (cells: string, others: Record<string, string> = {}) =>
    faultsOf(() => readAuthorityConfig({ ...good, ...others, UMA_AS_CELLS: cells }))

  test('names further databases, for the server and for every command alike', () => {
    const given = { ...good, UMA_AS_CELLS: `east=${east}  west=postgres://west.example/usher` }
    const cells = [
      { name: 'east', url: east },
      { name: 'west', url: 'postgres://west.example/usher' },
    ]
    for (const read of [readAuthorityConfig, readMigrationConfig, readOwnersConfig])
      expect(read(given).cells).toEqual(cells)
    expect(readAuthorityConfig(good).cells).toBeUndefined()
  })

  test.each([
    [east, 'Give name=postgres://'],
    ['east', 'Give name=postgres://'],
    ['east=mysql://secret@x/y', 'east: The scheme must be postgres'],
    [`home=${east}`, 'Call the cell home otherwise'],
    [`east=${east} east=postgres://west.example/usher`, 'Name each cell once.'],
    [`east=${east} west=${east}`, 'Give each cell a database of its own.'],
    [`east=${home}`, 'give the cell east another database than DATABASE_URL names'],
  ])('is refused as %s, with what to do and without the password', (cells, sentence) => {
    const told = faults(cells)
    expect(told).toEqual([expect.stringContaining(sentence)])
    expect(told.join()).not.toContain('secret')
  })

  test.each([
    ['UMA_AS_IDENTITY_ISSUERS', 'https://idp.example.com'],
    ['UMA_AS_TALLIES', 'https://tally.example.com'],
  ])('is refused beside %s, which would hold in each cell by itself', (variable, value) => {
    expect(faults(`east=${east}`, { [variable]: value })).toEqual([
      expect.stringContaining(`take ${variable} out`),
    ])
  })
})
