/**
 * The script that `helm test` runs, with the very arguments that the chart gives it but for the addresses,
 * against a real sidecar.
 */
import { spawn } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Sidecar } from '../../src/enforcement/main.ts'
import { makeLocalCa } from '../support/local-ca.ts'
import { startScriptedAuthority, type ScriptedAuthority } from '../support/scripted-authority.ts'
import { startTestSidecar } from '../support/sidecar.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { CHART } from './render.ts'

const script = readFileSync(join(CHART, 'files', 'challenge.mjs'), 'utf8')

/** Runs it as the container does; short of patience, so that a failure is seen soon. */
function walk(what: object): Promise<{ code: number | null; said: string }> {
  const hasty = script.replace('const SECONDS = 60', 'const SECONDS = 0')
  const child = spawn(process.execPath, ['--input-type=module', '-e', hasty, JSON.stringify(what)])
  let said = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (part: Buffer) => (said += part.toString()))
  return new Promise(resolve => child.on('close', code => resolve({ code, said })))
}

const directory = temporaryFolder('challenge')
const clientTls = join(directory, 'client')
let authority: ScriptedAuthority
let plain: Sidecar
let mutual: Sidecar

beforeAll(async () => {
  authority = await startScriptedAuthority()
  plain = await startTestSidecar({ directory, authority })
  const { sidecar, caFile, envoyDirectory } = await makeLocalCa(directory)
  const check_tls = {
    cert_file: sidecar.certFile,
    key_file: sidecar.keyFile,
    client_ca_file: caFile,
  }
  mutual = await startTestSidecar({ directory, authority, settings: { check_tls } })
  mkdirSync(clientTls)
  for (const [ours, theirs] of Object.entries({
    'tls.crt': 'cert.pem',
    'tls.key': 'key.pem',
    'ca.crt': 'ca.pem',
  }))
    writeFileSync(join(clientTls, ours), readFileSync(join(envoyDirectory, theirs)))
})

afterAll(async () => {
  await Promise.all([plain.close(), mutual.close()])
  await authority.close()
})

const asked = (more: object) => ({
  sidecar: {
    address: plain.checkAddress,
    authority: authority.issuer,
    mcp: true,
    method: 'POST',
    path: '/mcp/alice',
    tool: 'portfolio_read',
    ...more,
  },
})

test('a sidecar that challenges passes', async () => {
  const { code, said } = await walk(asked({}))
  expect(said).toContain(`sent to ${authority.issuer}`)
  expect(code).toBe(0)
})

test('with mutual TLS it shows its certificate', async () => {
  const address = mutual.checkAddress.replace('127.0.0.1', 'localhost')
  expect(await walk(asked({ address, tls: clientTls }))).toMatchObject({ code: 0 })
  expect(await walk(asked({ address }))).not.toMatchObject({ code: 0 })
})

test.each([
  ['a path that nobody serves', { path: '/mcp/bob' }, 'no challenge, but 404'],
  ['a tool that is not hers', { tool: 'portfolio_burn' }, 'no challenge, but 403'],
  [
    'another authority than was wanted',
    { authority: 'https://as.example.com' },
    'not to https://as.example.com',
  ],
  ['nobody who answers', { address: '127.0.0.1:1' }, 'ECONNREFUSED'],
])('%s fails it, and it says so', async (_title, more, said) => {
  const walked = await walk(asked(more))
  expect(walked.code).toBe(1)
  expect(walked.said).toContain(said)
})

test('an authority that is away fails it with what the sidecar says: an outage, no denial', async () => {
  authority.script('/perm', 'cut')
  const walked = await walk(asked({}))
  authority.script('/perm', undefined)
  expect(walked.code).toBe(1)
  expect(walked.said).toContain('503')
})
