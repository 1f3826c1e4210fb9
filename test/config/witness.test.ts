/** The settings and the file of a witness: docs/details/witness.md. Contract: "Limits". */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { stringify } from 'yaml'
import { readWitnessConfig, readWitnessKeys } from '../../src/config.ts'
import { generatePrivateJwk, importPrivateJwk, publicJwk } from '../../src/wire/signatures/keys.ts'
import { configFolder, faultsOf } from '../support/config-files.ts'

const { folder, keysFile } = configFolder()
const key = importPrivateJwk(generatePrivateJwk())
const issuerOf = (changes: object = {}) => ({
  issuer: 'https://as.example',
  log_keys: [publicJwk(key)],
  ...changes,
})
const file = (...issuers: object[]): string => {
  const path = join(folder, 'witness.yaml')
  writeFileSync(path, stringify({ issuers }))
  return path
}
const good = () => ({
  UMA_WITNESS_ISSUER: 'https://witness.example',
  DATABASE_URL: 'postgres://x',
  UMA_WITNESS_KEYS_FILE: keysFile,
  UMA_WITNESS_LOGS: file(issuerOf()),
})
const faults = (...issuers: object[]) =>
  faultsOf(() => readWitnessConfig({ ...good(), UMA_WITNESS_LOGS: file(...issuers) })).join('\n')

describe('The settings of a witness', () => {
  test('defaults are those of the reference page, and its name is its address without the scheme', () => {
    expect(readWitnessConfig(good())).toMatchObject({
      name: 'witness.example',
      listen: { host: '127.0.0.1', port: 9500 },
      metricsListen: { host: '127.0.0.1', port: 9502 },
      migrate: true,
      issuers: [{ issuer: 'https://as.example', keys: [{ x: key.x }], originsMax: 10_000 }],
    })
  })

  test.each([
    [{ UMA_WITNESS_ISSUER: 'https://witness.example/a' }, 'UMA_WITNESS_ISSUER'],
    [{ UMA_WITNESS_ISSUER: 'http://witness.example' }, 'UMA_WITNESS_ISSUER'],
    [{ UMA_WITNESS_LOGS: undefined }, 'UMA_WITNESS_LOGS'],
    [{ UMA_WITNESS_KEYS_FILE: '/nowhere' }, 'UMA_WITNESS_KEYS_FILE'],
    [{ UMA_WITNESS_SWEEP_SECONDS: '60' }, 'UMA_WITNESS_SWEEP_SECONDS is not a setting'],
  ])('%j stops the start, naming the setting', (changes, name) =>
    expect(faultsOf(() => readWitnessConfig({ ...good(), ...changes })).join('\n')).toContain(name),
  )

  test('its keys are read without its database and its file', () => {
    const { UMA_WITNESS_ISSUER, UMA_WITNESS_KEYS_FILE } = good()
    const { name, keys } = readWitnessKeys({ UMA_WITNESS_ISSUER, UMA_WITNESS_KEYS_FILE })
    expect([name, keys.length]).toEqual(['witness.example', 1])
  })
})

describe('The file of a witness', () => {
  test.each<[object[], string]>([
    [[], 'issuers: Give at least 1'],
    [[issuerOf({ log_keys: [] })], 'issuers[0].log_keys: Give at least 1'],
    [
      [issuerOf({ log_keys: [publicJwk(key), { kty: 'RSA' }] })],
      'issuers[0].log_keys[1]: give a public Ed25519 key',
    ],
    [[issuerOf({ log_keys: [generatePrivateJwk()] })], 'issuers[0].log_keys[0]: give a public Ed25519 key'],
    [[issuerOf({ max_origins: 0 })], 'issuers[0].max_origins'],
    [[issuerOf({ issuer: 'as.example' })], 'issuers[0].issuer'],
    [[issuerOf({ issuer: 'https://as.example/' })], 'issuers[0].issuer: give scheme and authority only'],
    [[issuerOf({ issuer: 'http://as.example' })], 'issuers[0].issuer: http://as.example is not https'],
    [[issuerOf(), issuerOf({ max_origins: 5 })], 'the logs of as.example/ledger/ are listed twice'],
    [[issuerOf({ keys: [] })], 'issuers[0]: unknown member "keys"'],
  ])('%j is refused, with the place', (issuers, words) => expect(faults(...issuers)).toContain(words))

  test('may list several authorities, each with several keys', () => {
    const other = importPrivateJwk(generatePrivateJwk())
    const both = { log_keys: [publicJwk(key), publicJwk(other)] }
    expect(faults(issuerOf(both), issuerOf({ ...both, issuer: 'https://other.example' }))).toBe('')
  })
})
