/**
 * `ENFORCEMENT_MODE` must fit the door: two enforcement points in a row would spend a grant twice, and none
 * at all would let anybody in.
 */
import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { stringify } from 'yaml'
import { ConfigFault, readEmbeddedConfig, readSidecarConfig } from '../../src/config.ts'
import { embed } from '../../src/enforcement/doors/embedded/index.ts'
import { generatePrivateJwk } from '../../src/wire/signatures/keys.ts'
import { embeddedSettings } from '../support/embedded.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { usherProgram } from '../support/usher-program.ts'

const folder = temporaryFolder('mode')
let settings: object
let file: string
const LISTEN = { listen: { check: '127.0.0.1:0', http: '127.0.0.1:0' } }

beforeAll(() => {
  const keysFile = join(folder, 'keys.json')
  writeFileSync(keysFile, JSON.stringify({ keys: [generatePrivateJwk()] }), { mode: 0o600 })
  settings = embeddedSettings('https://as.example.com', keysFile)
  file = join(folder, 'sidecar.yaml')
  writeFileSync(file, stringify({ ...settings, ...LISTEN }))
})

const faultOf = (read: () => unknown): string => {
  try {
    read()
  } catch (error) {
    if (error instanceof ConfigFault) return error.faults.join('\n')
    throw error
  }
  return 'none'
}

describe('The sidecar', () => {
  test.each([undefined, '', 'gateway'])('starts where ENFORCEMENT_MODE is %j', mode => {
    expect(faultOf(() => readSidecarConfig(file, { ENFORCEMENT_MODE: mode }))).toBe('none')
  })

  test('does not start under embedded: the resource would ask again, and spend the grant twice', () => {
    expect(faultOf(() => readSidecarConfig(file, { ENFORCEMENT_MODE: 'embedded' }))).toMatch(
      /^ENFORCEMENT_MODE: .*no sidecar runs/,
    )
  })

  test('says so as a command, with the exit code of wrong usage, before it listens', async () => {
    const env = { PATH: process.env['PATH'], ENFORCEMENT_MODE: 'embedded' }
    const ended = await new Promise<{ code: unknown; said: string }>(resolve => {
      execFile(process.execPath, [usherProgram(), 'sidecar', '--config', file], { env }, (error, out, said) =>
        resolve({ code: error?.code ?? 0, said: out + said }),
      )
    })
    expect(ended.code).toBe(2)
    expect(ended.said).toMatch(/ENFORCEMENT_MODE/)
    expect(ended.said).not.toMatch(/serving/)
  })
})

describe('An embedded enforcement point', () => {
  test.each([undefined, '', 'embedded'])('starts where ENFORCEMENT_MODE is %j', mode => {
    expect(faultOf(() => readEmbeddedConfig(settings, { ENFORCEMENT_MODE: mode }))).toBe('none')
  })

  test('takes the file of a sidecar, too: what concerns its listeners has no effect', () => {
    expect(faultOf(() => readEmbeddedConfig(file, {}))).toBe('none')
  })

  test('does not start under gateway: a sidecar in front has spent the grant already', async () => {
    const start = embed(settings, { environment: { ENFORCEMENT_MODE: 'gateway' } })
    await expect(start).rejects.toThrow(/ENFORCEMENT_MODE: .*a sidecar enforces in front/)
  })
})

test.each(['Embedded', 'both', 'off'])('%j is no mode: neither door opens under it', mode => {
  expect(faultOf(() => readSidecarConfig(file, { ENFORCEMENT_MODE: mode }))).toMatch(/ENFORCEMENT_MODE/)
  expect(faultOf(() => readEmbeddedConfig(settings, { ENFORCEMENT_MODE: mode }))).toMatch(/ENFORCEMENT_MODE/)
})
