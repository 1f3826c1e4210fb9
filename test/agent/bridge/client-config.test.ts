/**
 * contract, "What the service does": an unmodified client is given the bridge by an entry in its own file,
 * and loses nothing that stands there.
 */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
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
})
