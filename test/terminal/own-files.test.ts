/**
 * contract, "Authentication": keys stay with their holder: where there is no home folder, no room, or no
 * leave to read, a command says which, and leaves nothing behind that is in the way.
 */
import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import os from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { runAgent } from '../../src/agent/main.ts'
import { runOwner } from '../../src/owner/main.ts'
import { capturedTerminal } from '../support/captured-terminal.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { usherProgram } from '../support/usher-program.ts'

const CLI = usherProgram()
const folder = temporaryFolder('own-files')
const at = (name: string): string => join(folder, name)

describe('A user without a home folder', () => {
  const homeless = (): void => {
    vi.spyOn(os, 'homedir').mockImplementation(() => {
      throw new Error('uv_os_homedir returned ENOENT')
    })
    syncBuiltinESMExports()
  }
  afterEach(() => {
    vi.restoreAllMocks()
    syncBuiltinESMExports()
  })
  const bridge = ['bridge', 'config', 'https://tools.example/mcp', '--client', 'cursor', '--write']

  it.each([
    ['an agent', runAgent, ['--key', at('a.json'), '--store', at('store'), 'receipts']],
    ['an agent that makes a key', runAgent, ['--key', at('made.json'), 'keygen']],
    ['an owner', runOwner, ['--key', at('o.json'), 'key']],
    ['a bridge', runAgent, [...bridge, at('mcp.json')]],
  ])('is none to %s whose paths are whole', async (_who, run, args) => {
    homeless()
    const terminal = capturedTerminal()
    expect([await run(args, terminal), terminal.said]).toEqual([0, expect.not.stringContaining('home')])
  })

  it.each([
    ['an agent', runAgent, ['--key', '~/a.json', 'keygen']],
    ['an owner', runOwner, ['--key', '~/o.json', 'key']],
    ['a bridge', runAgent, bridge],
  ])('is told to %s that needs one', async (_who, run, args) => {
    homeless()
    const terminal = capturedTerminal()
    expect(await run(args, terminal)).toBe(2)
    expect(terminal.said).toContain('This user has no home folder: set HOME, or give the whole path.')
  })
})

describe('A key that is there and cannot be read', () => {
  it.each([
    ['an agent', runAgent, ['call', 'https://tools.example/mcp', 'trade']],
    ['an owner', runOwner, ['--issuer', 'https://as.example', 'pending']],
  ])('is not told to %s as one that is to be made', async (_who, run, args) => {
    mkdirSync(at('folder'), { recursive: true, mode: 0o700 })
    const terminal = capturedTerminal()
    await run([...args, '--key', at('folder')], terminal)
    expect(terminal.said).toContain(`The key at ${at('folder')} cannot be read (EISDIR)`)
  })
})

describe('A disk without room', () => {
  /** As on a full disk, every write of a file fails; what is printed goes through pipes. */
  const usher = (...args: string[]): Promise<string> =>
    new Promise(resolve => {
      const shell = ['-c', 'ulimit -f 0; exec "$0" "$@"', process.execPath, CLI, ...args]
      execFile('sh', shell, (_error, _out, err) => resolve(err))
    })

  it('leaves no part of a key, which would be in the way of a whole one', async () => {
    const file = at('full.json')
    expect(await usher('agent', '--key', file, 'keygen')).toMatch(
      /full\.json cannot be written whole \(EFBIG\)/,
    )
    expect(existsSync(file)).toBe(false)
  })

  it.each([
    ['as it was, and nothing beside it', '{"mcpServers":{}}'],
    ['as it was: not there', undefined],
  ])("leaves a client's file %s", async (_how, before) => {
    const client = mkdtempSync(at('client-'))
    const file = join(client, 'mcp.json')
    if (before !== undefined) writeFileSync(file, before)
    const said = await usher(
      'agent',
      'bridge',
      'config',
      'https://a.example/mcp',
      '--client',
      'cursor',
      '--write',
      file,
    )
    expect(said).toMatch(/mcp\.json cannot be (?:written whole|kept as .*) \(EFBIG\): make room/)
    expect(readdirSync(client)).toEqual(before === undefined ? [] : ['mcp.json'])
    if (before !== undefined) expect(readFileSync(file, 'utf8')).toBe(before)
  })
})
