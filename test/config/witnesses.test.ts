/** The witnesses that an authority names: docs/details/ledger.md, "Witnesses". Contract: "Limits". */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { readAuthorityConfig } from '../../src/config.ts'
import { encodeVerifierKey } from '../../src/wire/ledger/verifier-key.ts'
import { generatePrivateJwk, importPrivateJwk } from '../../src/wire/signatures/keys.ts'
import { configFolder, faultsOf } from '../support/config-files.ts'

const { folder, keysFile } = configFolder()
const logKeysFile = join(folder, 'log-keys.json')
writeFileSync(logKeysFile, JSON.stringify({ keys: [generatePrivateJwk()] }), { mode: 0o600 })
const environment = (UMA_AS_WITNESSES?: string) => ({
  UMA_AS_ISSUER: 'https://as.example',
  DATABASE_URL: 'postgres://x',
  UMA_AS_KEYS_FILE: keysFile,
  UMA_AS_LOG_KEYS_FILE: logKeysFile,
  UMA_AS_WITNESSES,
})
const vkeyOf = (name: string, type: 'ed25519' | 'cosignature' = 'cosignature') =>
  encodeVerifierKey({ name, type, key: importPrivateJwk(generatePrivateJwk()) })
const [ONE, OTHER] = [vkeyOf('one.example'), vkeyOf('other.example')]
const faults = (text: string, changes: object = {}) =>
  faultsOf(() => readAuthorityConfig({ ...environment(text), ...changes })).join('\n')

describe('The witnesses of an authority', () => {
  test('are none when left out', () => expect(readAuthorityConfig(environment()).witnesses).toBe(undefined))

  test('are each an address and a verifier key', () => {
    const text = `https://one.example ${ONE}, https://other.example/witness  ${OTHER}`
    const { witnesses } = readAuthorityConfig(environment(text))
    expect(witnesses).toMatchObject([
      { url: 'https://one.example', key: { name: 'one.example' } },
      { url: 'https://other.example/witness', key: { name: 'other.example' } },
    ])
  })

  test.each<[string, string]>([
    ['https://one.example', 'Give `https://… name+id+key` for each'],
    [`${ONE} https://one.example`, 'Give `https://… name+id+key` for each'],
    [`https://one.example ${ONE},`, 'Give `https://… name+id+key` for each'],
    [`https://one.example/ ${ONE}`, 'Give `https://… name+id+key` for each'],
    [`https://one.example ${ONE} ${OTHER}`, 'Give `https://… name+id+key` for each'],
    [`https://one.example ${ONE.replace('one', 'two')}`, 'its id is not that of its name and key'],
    [`https://one.example ${vkeyOf('one.example', 'ed25519')}`, 'it is not of a witness'],
    [`https://one.example ${ONE}, https://two.example ${ONE}`, 'Name each witness once'],
    [`http://one.example ${ONE}`, 'is not https'],
  ])('%s stops the start', (text, words) => expect(faults(text)).toContain(words))

  test('are at most 16', () => {
    const all = Array.from({ length: 17 }, (_, n) => `https://w${n}.example ${vkeyOf(`w${n}.example`)}`)
    expect(faults(all.slice(1).join(','))).toBe('')
    expect(faults(all.join(','))).toContain('Give at most 16 witnesses')
  })

  test('need keys of the log', () => {
    const text = `https://one.example ${ONE}`
    expect(faults(text, { UMA_AS_LOG_KEYS_FILE: undefined })).toContain('Set UMA_AS_LOG_KEYS_FILE')
  })
})
