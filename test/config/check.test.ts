/**
 * A configuration that is checked without a start: contract, "Limits". Every fault at once, and nothing is
 * touched.
 */
import { execFile } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { configurationFaults, configurationWarnings, type ConfiguredParty } from '../../src/config.ts'
import { generatePrivateJwk } from '../../src/wire/signatures/keys.ts'
import { issueCertificate, makeCa } from '../support/local-ca.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { usherProgram } from '../support/usher-program.ts'

const CLI = usherProgram()
const run = promisify(execFile)
const directory = temporaryFolder('check')

const at = (name: string) => join(directory, name)
const write = (name: string, text: string): string => {
  writeFileSync(at(name), text, { mode: 0o600 })
  return at(name)
}
const keys = write('keys.json', JSON.stringify({ keys: [generatePrivateJwk()] }))
const AUTHORITY = {
  UMA_AS_ISSUER: 'https://as.example',
  UMA_AS_KEYS_FILE: keys,
  DATABASE_URL: 'postgres://nobody@192.0.2.1/none',
}

it('a configuration without a fault passes, and no database is asked', () => {
  expect(configurationFaults('authority', undefined, AUTHORITY)).toEqual([])
})

it('names the faults of settings, of several together, and of files, all at once', () => {
  const faults = configurationFaults('authority', undefined, {
    ...AUTHORITY,
    DATABASE_URL: '',
    UMA_AS_POLL_SECONDS: 'soon',
    UMA_AS_OWNERS: 'alice',
    UMA_AS_OWNER_AUTH: 'oidc',
    UMA_AS_ADMIN_LISTEN: '127.0.0.1:9103',
    UMA_AS_KEYS_FILE: at('nowhere.json'),
    UMA_AS_PROVISION: write('provision.yaml', 'owners: [{ owner: "a/b" }]'),
    OTEL_EXPORTER_OTLP_ENDPOINT: 'nowhere',
  })
  for (const part of [
    /^Set DATABASE_URL/,
    /^UMA_AS_POLL_SECONDS: /,
    /^UMA_AS_OWNERS is not a setting/,
    /^Set UMA_AS_OIDC_ISSUER/,
    /^Set UMA_AS_ADMINISTRATORS/,
    /^UMA_AS_KEYS_FILE: .*nowhere\.json/,
    /^owners\[0\]\.owner: /,
    /^OTEL_EXPORTER_OTLP_ENDPOINT/,
  ])
    expect(faults).toContainEqual(expect.stringMatching(part))
})

it('warns of an authority that does TLS by itself and does not say where owners reach their API', async () => {
  const pair = await issueCertificate(await makeCa(), 'server')
  const tls = {
    ...AUTHORITY,
    UMA_AS_TLS_CERT_FILE: write('tls.crt', pair.cert),
    UMA_AS_TLS_KEY_FILE: write('tls.key', pair.key),
  }
  const warnings = (environment: Record<string, string>) =>
    configurationWarnings('authority', undefined, environment)
  expect(warnings(tls)).toEqual([
    expect.stringMatching(/^UMA_AS_OWNER_URL: .*UMA_AS_TLS_CERT_FILE.* led to https:\/\/as\.example\/owner/),
  ])
  expect(warnings({ ...tls, UMA_AS_OWNER_URL: 'https://as.example:9101' })).toEqual([])
  expect(warnings({ ...tls, UMA_DEV_LOOPBACK: 'true' })).toEqual([])
  expect(warnings(AUTHORITY)).toEqual([])
})

it.each<[ConfiguredParty, RegExp]>([
  ['authority', /^Set UMA_AS_ISSUER/],
  ['organization', /^Set UMA_ORG_PROVISION/],
  ['tally', /^Set UMA_TALLY_ISSUER/],
  ['witness', /^Set UMA_WITNESS_LOGS/],
  ['sidecar', /^Set UMA_PEP_CONFIG/],
])('of an empty environment names what %s needs, each once', (party, part) => {
  const faults = configurationFaults(party, undefined, {})
  expect(faults).toContainEqual(expect.stringMatching(part))
  expect(faults.every(fault => fault.startsWith('Set '))).toBe(true)
  expect(faults.join()).not.toContain('stand-in')
})

it('of a sidecar tells what its file says wrong beside the files that it names, and makes no folder', () => {
  const state = at('state')
  const file = write(
    'sidecar.yaml',
    JSON.stringify({
      public_url: 'http://tools.example',
      listen: { check: '127.0.0.1:0', http: '127.0.0.1:0' },
      keys_file: at('nowhere.json'),
      reports: { state_dir: state },
      realm: 'tools',
      owners: [
        {
          owner: 'alice',
          authority: 'https://as.example',
          client_id: 'x',
          tools: [{ tool: 'read', resource_id: 'alice/x', scopes: ['read'] }],
          client_secret_file: at('no'),
        },
      ],
    }),
  )
  const faults = configurationFaults('sidecar', file, {})
  for (const part of [
    /^http:\/\/tools\.example is not https/,
    /^keys_file: /,
    /^client_secret_file of alice: /,
  ])
    expect(faults).toContainEqual(expect.stringMatching(part))
  expect(existsSync(state)).toBe(false)
})

it('usher <party> --check says so, and its exit code with it', async () => {
  const check = (env: Record<string, string>) =>
    run(process.execPath, [CLI, 'authority', '--check'], { env: { PATH: process.env['PATH'] ?? '', ...env } })
  expect((await check(AUTHORITY)).stdout).toBe('The configuration of usher authority has no fault.\n')
  await expect(check({ ...AUTHORITY, UMA_AS_POLL_SECONDS: 'soon', DATABASE_URL: '' })).rejects.toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/2 faults[^]*DATABASE_URL/) as string,
  })
})
