/** Tools that ask for her signature, in the sidecar's file: contract, "Authorized call", order 4. */
import { execFile } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { configurationFaults, configurationWarnings, readSidecarConfig } from '../../src/config.ts'
import { generatePrivateJwk, importPrivateJwk, publicJwk } from '../../src/wire/signatures/keys.ts'
import { SIDECAR_OWNER, sidecarFiles } from '../support/config-files.ts'
import { usherProgram } from '../support/usher-program.ts'

const files = sidecarFiles()
const at = (name: string): string => join(files.folder, name)
const alice = importPrivateJwk(generatePrivateJwk())
const PASSKEY = {
  kty: 'EC',
  crv: 'P-256',
  x: 'f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU',
  y: 'x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0',
  kid: 'Y3JlZGVudGlhbA',
  rp_id: 'tools.example',
  origins: ['https://console.tools.example'],
}

/** The path of a sidecar's file with one tool that asks for her signature. */
function fileOf(keys: unknown, changes: object = {}, approval: object = {}): string {
  writeFileSync(at('alice.json'), typeof keys === 'string' ? keys : JSON.stringify({ keys }))
  const owner_approval = { keys_file: at('alice.json'), state_dir: at('marks'), ...approval }
  const tool = { tool: 'place_trade', resource_id: 'alice/trades', scopes: ['trade'], owner_approval }
  return files.write([{ ...SIDECAR_OWNER, tools: [tool], ...changes }])
}

const faults = (...of: Parameters<typeof fileOf>): string[] =>
  configurationFaults('sidecar', fileOf(...of), {})

describe('The file of the sidecar, of a tool that asks for her signature,', () => {
  it('names her keys and where their use is marked, and a check makes no folder', () => {
    expect(faults([publicJwk(alice), PASSKEY])).toEqual([])
    expect(existsSync(at('marks'))).toBe(false)
    expect(readSidecarConfig(at('sidecar.yaml'), {}).owners[0]!.tools[0]!.owner_approval).toEqual({
      keys_file: at('alice.json'),
      state_dir: at('marks'),
    })
    expect(existsSync(at('marks'))).toBe(true)
  })

  it.each<[string, unknown, RegExp]>([
    ['no keys', [], /public JWK/],
    ['text that is no JSON', 'keys', /owner_approval of alice\/place_trade\.keys_file: .*cannot be used/],
    ['a private key', [generatePrivateJwk()], /public half/],
    ['a private passkey', [{ ...PASSKEY, d: 'x' }], /public half/],
    ['a key of another kind', [{ kty: 'RSA', n: 'x', e: 'AQAB' }], /Ed25519/],
    ['a curve that is none', [{ ...PASSKEY, crv: 'P-384' }], /P-256/],
    ['a point that is none', [{ ...PASSKEY, y: PASSKEY.x }], /point/],
    ['a coordinate that is too short', [{ ...PASSKEY, y: 'x' }], /32 bytes/],
    ['a passkey without rp_id', [{ ...PASSKEY, rp_id: undefined }], /rp_id/],
    ['a passkey without its id', [{ ...PASSKEY, kid: undefined }], /kid/],
    ['a passkey without origins', [{ ...PASSKEY, origins: undefined }], /origins/],
    ['a passkey with no origin', [{ ...PASSKEY, origins: [] }], /origins/],
    ['a key that is text', ['key'], /JWK object/],
    ['a surface that is no word', [{ ...publicJwk(alice), surface: 1 }], /surface/],
  ])('with %s has a fault', (_what, keys, fault) => {
    expect(faults(keys)).toEqual([expect.stringMatching(fault)])
  })

  it('has a fault if a file or a folder is not named or cannot be had', () => {
    expect(faults([publicJwk(alice)], {}, { keys_file: at('none.json') })).toEqual([
      expect.stringMatching(/keys_file: cannot read/),
    ])
    expect(faults([publicJwk(alice)], {}, { state_dir: undefined }).join()).toContain('state_dir')
    expect(faults([publicJwk(alice)], {}, { state_dir: '/proc/1/marks' })).toEqual([
      expect.stringMatching(/state_dir: cannot write/),
    ])
  })

  it('has one on an account that several hold: they sign verdicts', () => {
    const joint = { tally: 'https://tally.example', account: 'alice', mandate_s256: 'any' }
    expect(faults([publicJwk(alice)], { authority: undefined, joint })).toEqual([
      expect.stringMatching(/leave owner_approval of place_trade out/),
    ])
  })

  it('is warned of where a key is pinned that pages of the authority can use', async () => {
    const path = fileOf([publicJwk(alice), { ...PASSKEY, surface: 'served' }])
    const warning = expect.stringMatching(/made in a page that the authority serves/) as string
    expect(configurationWarnings('sidecar', path, {})).toEqual([warning])
    const { stdout, stderr } = await promisify(execFile)(
      process.execPath,
      [usherProgram(), 'sidecar', '--check', '--config', path],
      { env: { PATH: process.env['PATH'] ?? '' } },
    )
    expect([stdout, stderr]).toEqual(['The configuration of usher sidecar has no fault.\n', warning])
    expect(configurationWarnings('sidecar', fileOf([publicJwk(alice)]), {})).toEqual([])
    expect(configurationWarnings('sidecar', fileOf([]), {})).toEqual([])
    expect(configurationWarnings('authority', path, {})).toEqual([])
  })
})
