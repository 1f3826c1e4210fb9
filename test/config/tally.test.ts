/**
 * The settings and the provisioning file of a tally: contract, "Limits" and "Tally for a jointly held
 * resource".
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { stringify } from 'yaml'
import { readTallyConfig } from '../../src/config.ts'
import { configFolder, faultsOf } from '../support/config-files.ts'
import { accountOf } from '../support/tally.ts'

const { folder, keysFile } = configFolder()
const file = (...accounts: object[]): string => {
  const path = join(folder, 'tally.yaml')
  writeFileSync(path, stringify({ accounts }))
  return path
}
const good = () => ({
  UMA_TALLY_ISSUER: 'https://tally.example',
  DATABASE_URL: 'postgres://x',
  UMA_TALLY_KEYS_FILE: keysFile,
  UMA_TALLY_PROVISION: file(accountOf()),
})
const faults = (...accounts: object[]) =>
  faultsOf(() => readTallyConfig({ ...good(), UMA_TALLY_PROVISION: file(...accounts) })).join('\n')

describe('The settings of a tally', () => {
  test('defaults are those of the reference page', () => {
    expect(readTallyConfig(good())).toMatchObject({
      listen: { host: '127.0.0.1', port: 9400 },
      metricsListen: { host: '127.0.0.1', port: 9402 },
      pollSeconds: 2,
      negotiationSeconds: 604_800,
      migrate: true,
    })
  })

  test.each([
    [{ UMA_TALLY_ISSUER: 'https://tally.example/a' }, 'UMA_TALLY_ISSUER'],
    [{ UMA_TALLY_PROVISION: undefined }, 'UMA_TALLY_PROVISION'],
    [{ UMA_TALLY_ALIASES: 'u4a-org-notice+jwt' }, 'UMA_TALLY_ALIASES'],
  ])('%j stops the start, naming the setting', (changes, name) =>
    expect(faultsOf(() => readTallyConfig({ ...good(), ...changes })).join('\n')).toContain(name),
  )
})

const BEA = { owner: 'bea', issuer: 'https://as.bea.test', weight: 1 }
const CARL = { owner: 'carl', issuer: 'https://as.carl.test', weight: 1 }

describe('The provisioning file of a tally', () => {
  test.each([
    [{ holders: [BEA] }, 'holders: name 2 to 16'],
    [{ holders: [BEA, { ...BEA, weight: 2 }] }, 'name each holder once'],
    [{ holders: [BEA, { ...CARL, issuer: 'http://as.carl.test' }] }, 'holders[1].issuer'],
    [{ holders: [BEA, { ...CARL, issuer: 'https://tally.example' }] }, 'other than the tally'],
    [{ rule: { kind: 'threshold', threshold: 3 } }, 'rule.threshold'],
    [{ rule: { kind: 'all', threshold: 1 } }, 'threshold of "all" as 2'],
    [{ resources: ['family-2/*'] }, 'begin it with family-1/'],
    [{ resource_servers: [] }, 'no resource server family-tools'],
    [{ account: 'family/1' }, 'accounts[0].account'],
  ])('%j is refused with its place', (changes, sentence) =>
    expect(faults(accountOf(changes))).toContain(sentence),
  )

  test('the document of an account is no larger than its readers take', () => {
    const registered = (count: number, name = 'Savings') =>
      Array.from({ length: count }, (_, n) => ({
        id: `family-1/savings-${n}`,
        client_id: 'family-tools',
        name,
        resource_scopes: ['read'],
      }))
    expect(faults(accountOf({ registered: registered(2_000) }))).toBe('')
    expect(faults(accountOf({ registered: registered(5_000, 'x'.repeat(200)) }))).toMatch(
      /^accounts\[0\]\.registered: keep it within .* 1048576 bytes: it has 5000 resources in \d+ bytes/,
    )
    expect(faults(accountOf({ registered: registered(10_001, 'x') }))).toMatch(/within 10000 resources/)
  })

  test('an account stands once', () => {
    expect(faults(accountOf(), accountOf())).toContain('family-1 is listed twice')
  })
})
