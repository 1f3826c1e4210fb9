/** The program itself: one subcommand per party, and what it does when it is called wrongly. */
import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { readKeysFile, readNotificationKeyFile } from '../src/config/files.ts'
import { nodeFault } from '../src/files/package.ts'
import { usherProgram } from './support/usher-program.ts'

const CLI = usherProgram()

function usher(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  return new Promise(resolve => {
    const environment = { PATH: process.env['PATH'], HOME: '/nonexistent' }
    const child = execFile(process.execPath, [CLI, ...args], { env: environment }, (_error, out, err) =>
      resolve({ code: child.exitCode!, out, err }),
    )
  })
}

describe('usher', () => {
  it('names a subcommand for every party', async () => {
    const { code, out } = await usher('--help')
    expect(code).toBe(0)
    for (const name of ['authority', 'sidecar', 'migrate', 'agent', 'owner', 'admin', 'dev', 'print-docs'])
      expect(out).toContain(`\n  ${name} `)
  })

  it.each([
    [['owner', '--help'], 'Usage: usher owner'],
    [['agent', 'call', '--help'], 'Usage: usher agent call'],
  ])('leaves the arguments of a party to the party: %j', async (args, line) => {
    const { code, out } = await usher(...args)
    expect(code).toBe(0)
    expect(out).toContain(line)
  })

  it.each([
    [['authority', '--check', 'plan'], '--check is of usher authority alone'],
    [['sidecar', '--config', 'x.yaml', 'explain', 'fam_x'], '--config is of usher sidecar alone'],
    [['organization', '--check', 'migrate'], '--check is of usher organization alone'],
    [['tally', '--check', 'migrate'], '--check is of usher tally alone'],
    [['witness', '--check', 'keys'], '--check is of usher witness alone'],
    [['authority', 'plan', '--check'], "unknown option '--check'"],
    [['sidecar', 'explain', 'fam_x', '--config', 'x.yaml'], "unknown option '--config'"],
  ])('drops no option that is for another command: %j', async (args, sentence) => {
    const { code, err } = await usher(...args)
    expect({ code, err }).toEqual({ code: 2, err: expect.stringContaining(sentence) as string })
  })

  it('says of a word that it does not know what was meant, in a line of its own', async () => {
    const { err } = await usher('owner', 'leger')
    expect(err).toMatch(/^error: unknown command 'leger'\n\(Did you mean ledger\?\)\n$/)
  })

  it('says its version', async () => {
    const { version } = JSON.parse(readFileSync(join(import.meta.dirname, '..', 'package.json'), 'utf8'))
    expect(await usher('--version')).toEqual({ code: 0, out: `${version}\n`, err: '' })
  })

  it('makes the signing key of a server, which its user alone can read, and never writes over one', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'usher-keys-'))
    try {
      const file = join(folder, 'keys.json')
      const made = await usher('keys', 'new', file)
      expect(made).toMatchObject({ code: 0, err: '' })
      const text = readFileSync(file, 'utf8')
      const { keys } = JSON.parse(text)
      expect(keys).toHaveLength(1)
      expect(JSON.parse(made.out)).toMatchObject({ x: keys[0].x })
      expect(made.out).not.toContain(keys[0].d)
      expect(statSync(file).mode & 0o777).toBe(0o600)
      expect((await usher('keys', 'new', file)).code).toBe(2)
      expect(readFileSync(file, 'utf8')).toBe(text)
      expect(readKeysFile('UMA_AS_KEYS_FILE', file, 'EdDSA').map(({ x }) => x)).toEqual([keys[0].x])
    } finally {
      rmSync(folder, { recursive: true })
    }
  })

  it('prints the public halves of the keys in a file, as a set, and no private one', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'usher-keys-'))
    try {
      const file = join(folder, 'keys.json')
      const made = JSON.parse((await usher('keys', 'new', file)).out) as object
      const { code, out } = await usher('keys', 'public', file)
      expect(code).toBe(0)
      expect(JSON.parse(out)).toEqual({ keys: [made] })
      const missing = await usher('keys', 'public', join(folder, 'none.json'))
      expect([missing.code, missing.err]).toEqual([2, expect.stringContaining('usher keys new')])
    } finally {
      rmSync(folder, { recursive: true })
    }
  })

  it('makes the key by which an authority notifies owners, likewise, and refuses one of another kind', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'usher-keys-'))
    try {
      const [file, other] = [join(folder, 'notification.json'), join(folder, 'keys.json')]
      const made = await usher('keys', 'new-notification', file)
      expect(made).toMatchObject({ code: 0, err: '' })
      expect(statSync(file).mode & 0o777).toBe(0o600)
      const read = readNotificationKeyFile('UMA_AS_NOTIFICATION_KEY_FILE', file)
      expect(made.out).toBe(`${read.publicBytes.toString('base64url')}\n`)
      expect((await usher('keys', 'new-notification', file)).code).toBe(2)
      await usher('keys', 'new', other)
      expect(() => readNotificationKeyFile('UMA_AS_NOTIFICATION_KEY_FILE', other)).toThrow(
        /UMA_AS_NOTIFICATION_KEY_FILE.*usher keys new-notification/,
      )
    } finally {
      rmSync(folder, { recursive: true })
    }
  })

  it.each([
    ['22.18.0', undefined],
    ['24.1.0', undefined],
    ['22.18', undefined],
    ['22.17.9', 'usher needs Node 22.18 or later, and this is Node 22.17.9: install a current one.'],
    ['20.99.0', 'usher needs Node 22.18 or later, and this is Node 20.99.0: install a current one.'],
  ])('on Node %s says: %s', (running, said) => {
    expect(nodeFault(running, '>=22.18')).toBe(said)
  })

  it('prints the reference of every setting', async () => {
    const { code, out } = await usher('print-docs')
    expect(code).toBe(0)
    for (const name of ['UMA_AS_ISSUER', 'UMA_PEP_CONFIG', 'UMA_OWNER_KEY', 'UMA_AGENT_STORE'])
      expect(out).toContain(name)
  })

  it.each([
    [['frobnicate'], "unknown command 'frobnicate'"],
    [
      ['owner', 'pending'],
      'Name the authority: --issuer <url> or UMA_OWNER_ISSUER, or enrol, which keeps it.',
    ],
    [['admin', 'pending', 'list', 'alice'], 'Name the organization: --issuer <url> or UMA_ADMIN_ISSUER.'],
    [['admin', 'members'], 'Name the organization: --issuer <url> or UMA_ADMIN_ISSUER.'],
    [['authority'], 'Set UMA_AS_ISSUER'],
    [['sidecar', '--config', '/nonexistent/sidecar.yaml'], '/nonexistent/sidecar.yaml'],
  ])('%j ends with 2 and a sentence, not a stack', async (args, sentence) => {
    const { code, out, err } = await usher(...args)
    expect(code).toBe(2)
    expect(err).toContain(sentence)
    expect(out + err).not.toMatch(/\n\s+at /)
  })
})
