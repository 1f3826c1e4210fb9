/**
 * contract, "What the service does": an unmodified client is given the bridge by an entry in its own file,
 * and loses nothing that stands there.
 */
import { lstat, mkdtemp, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { configure } from '../../../src/agent/bridge/client-config.ts'
import { capturedTerminal } from '../../support/captured-terminal.ts'

const RESOURCE = 'https://tools.example.com/mcp/alice'
let folder: string
beforeEach(async () => void (folder = await mkdtemp(join(tmpdir(), 'usher-config-'))))
afterEach(() => rm(folder, { recursive: true, force: true }))

const write = (client: string, file: string) =>
  configure({ resources: [RESOURCE], client, name: 'usher', write: file }, capturedTerminal())

describe('The entry of a client', () => {
  it.each([
    ['claude-desktop', 'mcpServers'],
    ['claude-code', 'mcpServers'],
    ['cursor', 'mcpServers'],
    ['vscode', 'servers'],
  ])(
    '%s is merged into %s: other servers and settings stay, and the file as it was is kept',
    async (client, member) => {
      const file = join(folder, 'mcp.json')
      const before = JSON.stringify({
        theme: 'dark',
        [member]: { other: { command: 'x' }, usher: { command: 'old' } },
      })
      await writeFile(file, before)
      await write(client, file)
      const after = JSON.parse(await readFile(file, 'utf8')) as Record<
        string,
        Record<string, { args: string[] }>
      >
      expect(after).toMatchObject({ theme: 'dark', [member]: { other: { command: 'x' } } })
      expect(after[member]!['usher']!.args.slice(-3)).toEqual(['agent', 'bridge', RESOURCE])
      expect(await readFile(`${file}.bak`, 'utf8')).toBe(before)
    },
  )

  it('codex has a table in TOML, once, and the other tables stay as they are written', async () => {
    const file = join(folder, 'config.toml')
    await writeFile(
      file,
      'model = "x"\n\n[mcp_servers.usher]\ncommand = "old"\n\n[mcp_servers.other]\ncommand = "y" # mine\n',
    )
    await write('codex', file)
    await write('codex', file)
    const after = await readFile(file, 'utf8')
    expect(after.match(/\[mcp_servers\.usher\]/g)).toHaveLength(1)
    expect(after).toContain('[mcp_servers.other]\ncommand = "y" # mine')
    expect(after).not.toContain('"old"')
    expect(after).toContain(`"agent", "bridge", "${RESOURCE}"]`)
  })

  it('is not written into a file that it would spoil', async () => {
    const file = join(folder, 'mcp.json')
    await writeFile(file, '{ /* mine */ "servers": {} }')
    await expect(write('vscode', file)).rejects.toThrow('add the entry by hand')
    expect(await readFile(file, 'utf8')).toBe('{ /* mine */ "servers": {} }')
  })

  it('is printed where it is not to be written', async () => {
    const terminal = capturedTerminal()
    await configure({ resources: [RESOURCE], client: 'cursor', name: 'usher' }, terminal)
    expect(Object.keys(JSON.parse(terminal.printed) as object)).toEqual(['mcpServers'])
  })

  it('starts the very program that wrote it, and no package that a registry has by that name', async () => {
    const terminal = capturedTerminal()
    await configure({ resources: [RESOURCE], client: 'cursor', name: 'usher' }, terminal)
    const { mcpServers } = JSON.parse(terminal.printed) as {
      mcpServers: { usher: { command: string; args: string[] } }
    }
    expect(mcpServers.usher.command).toBe(process.execPath)
    expect((await stat(mcpServers.usher.args[0]!)).isFile()).toBe(true)
    expect(terminal.printed).not.toContain('npx')
  })

  it('leaves the first copy of the file as it was, whatever is written later', async () => {
    const file = join(folder, 'mcp.json')
    await writeFile(file, '{"theme":"dark"}')
    await write('cursor', file)
    const once = await readFile(file, 'utf8')
    await write('cursor', file)
    expect(await readFile(`${file}.bak`, 'utf8')).toBe('{"theme":"dark"}')
    expect(await readFile(`${file}.bak.1`, 'utf8')).toBe(once)
  })

  it('is written through a link, which stays one', async () => {
    const [file, link] = [join(folder, 'real.json'), join(folder, 'mcp.json')]
    await writeFile(file, '{}')
    await symlink(file, link)
    await write('cursor', link)
    expect((await lstat(link)).isSymbolicLink()).toBe(true)
    expect(await readFile(file, 'utf8')).toContain(RESOURCE)
  })

  it('is not written over what cannot be read as text', async () => {
    const file = join(folder, 'mcp.json')
    await writeFile(file, Buffer.from([0x7b, 0xff, 0x7d]))
    await expect(write('cursor', file)).rejects.toThrow('add the entry by hand')
    expect(await readFile(file)).toEqual(Buffer.from([0x7b, 0xff, 0x7d]))
  })
})
