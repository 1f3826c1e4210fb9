/**
 * contract, "What the service does": an unmodified client is given the bridge by an entry in its own file,
 * and loses nothing in that file.
 */
import promises, { lstat, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parse } from '@decimalturn/toml-patch'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { configure } from '../../../src/agent/bridge/setup/client-config.ts'
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
    const { mcp_servers } = parse(after) as { mcp_servers: { usher: { args: string[] } } }
    expect(mcp_servers.usher.args.slice(-3)).toEqual(['agent', 'bridge', RESOURCE])
  })

  it.each([
    [
      'an inline table',
      '[mcp_servers]\nusher = { command = "old" } # ours\nother = { command = "y" } # mine\n',
    ],
    ['all of them inline', 'mcp_servers = { other = { command = "y" } } # mine\nmodel = "x"\n'],
    ['dotted keys', 'mcp_servers.usher.command = "old"\nmcp_servers.other.command = "y" # mine\n'],
    [
      'a table with another below it',
      '[mcp_servers."usher"] # ours\ncommand = "old"\n[mcp_servers.usher.env]\nA = "old"\n[mcp_servers.other]\ncommand = "y" # mine\n',
    ],
    [
      'text and lists that look like tables',
      'text = """\n[mcp_servers.usher]\ncommand = "of the text"\n"""\nlists = [\n  [1, 2], # mine\n  ["[x]"],\n]\n[mcp_servers.other]\ncommand = "y"\n',
    ],
    [
      'a literal name',
      "[mcp_servers.'usher'] # mine\ncommand = 'old'\n\n[mcp_servers.other]\ncommand = 'y'\n",
    ],
    [
      'a literal name, with a table below it and lists in lines',
      "# mine\n[mcp_servers.'usher']\ncommand = 'old'\nargs = [\n  'old', # old\n]\n\n[mcp_servers.'usher'.env]\nA = 'old'\n\n[mcp_servers.other]\ncommand = 'y'\n",
    ],
    [
      'a name with an escape',
      '[mcp_servers."\\u0075sher"] # mine\ncommand = "old"\n[mcp_servers.other]\ncommand = "y"\n',
    ],
    [
      'quoted tables',
      '["mcp_servers"."usher"] # mine\ncommand = "old"\n["mcp_servers".other]\ncommand = "y"\n',
    ],
    [
      'spaces about the names',
      "[ mcp_servers . 'usher' ] # mine\ncommand = 'old'\n[mcp_servers . other]\ncommand = 'y'\n",
    ],
    ['literal dotted keys', "mcp_servers.'usher'.command = 'old' # mine\nmcp_servers.other.command = 'y'\n"],
    [
      'a literal text that looks like the table',
      "text = '''\n[mcp_servers.'usher']\ncommand = \"of the text\"\n'''\n[mcp_servers.other]\ncommand = 'y' # mine\n",
    ],
    [
      'numbers, times and other line ends',
      '# mine\r\nbig = 9007199254740993\r\nsince = 1979-05-27T07:32:00Z\r\n[mcp_servers.other]\r\ncommand = "y"\r\n',
    ],
  ])('codex is merged whatever way the file is written in: %s', async (_what, before) => {
    const file = join(folder, 'config.toml')
    await writeFile(file, before)
    await write('codex', file)
    const once = await readFile(file, 'utf8')
    await write('codex', file)
    expect(await readFile(file, 'utf8')).toBe(once)
    const was = parse(before) as { mcp_servers?: object }
    expect(parse(once)).toEqual({
      ...was,
      mcp_servers: {
        ...was.mcp_servers,
        other: { command: 'y' },
        usher: {
          command: process.execPath,
          args: expect.arrayContaining(['agent', 'bridge', RESOURCE]) as string[],
        },
      },
    })
    expect(once).toContain('# mine')
    // What is not ours stays as it was written.
    const others = before
      .split('\n')
      .filter(line => line !== '' && !/usher|["']old["']|mcp_servers = /.test(line))
    for (const line of others) expect(once.split('\n')).toContain(line)
    expect(await readFile(`${file}.bak`, 'utf8')).toBe(before)
  })

  it.each([
    ['no TOML', 'model = \n'],
    ['a list of servers', '[[mcp_servers]]\ncommand = "y"\n'],
    ['servers that are no table', 'mcp_servers = "y"\n'],
    ['a table twice', '[a]\nx = 1\n[a]\ny = 2\n'],
  ])(
    'codex is left as it is, and the entry printed, where it cannot be merged: %s',
    async (_what, before) => {
      const file = join(folder, 'config.toml')
      await writeFile(file, before)
      const terminal = capturedTerminal()
      const options = { resources: [RESOURCE], client: 'codex', name: 'usher', write: file }
      await expect(configure(options, terminal)).rejects.toThrow('stays as it is: add the entry by hand')
      expect(await readFile(file, 'utf8')).toBe(before)
      expect(terminal.printed).toContain('[mcp_servers.usher]')
      expect(await readdir(folder)).toEqual(['config.toml'])
    },
  )

  const ENTRY = ['"usher": {', '"command": "COMMAND",', '"args": ["CLI","agent","bridge","RESOURCE"]', '}']
  const long = (indent: string, step: string, newline = '\n'): string =>
    [
      '"usher": {',
      `${step}"command": "COMMAND",`,
      `${step}"args": [`,
      ...['CLI', 'agent', 'bridge'].map(word => `${step}${step}"${word}",`),
      `${step}${step}"RESOURCE"`,
      `${step}]`,
      '}',
    ].join(newline + indent)
  const short = ENTRY.join('').replaceAll(': ', ':')
  it.each([
    [
      'numbers that no double carries',
      '{\n  "limit": 9007199254740993,\n  "mcpServers": {\n    "other": { "id": 12345678901234567890, "rate": 1.0e0 }\n  }\n}\n',
      `{\n  "limit": 9007199254740993,\n  "mcpServers": {\n    "other": { "id": 12345678901234567890, "rate": 1.0e0 },\n    ${long('    ', '  ')}\n  }\n}\n`,
    ],
    [
      'one line',
      '{"mcpServers":{"usher":{"command":"old"},"a":1e400}}'.replace('1e400', '10000000000000000000001'),
      `{"mcpServers":{${short},"a":10000000000000000000001}}`,
    ],
    ['no servers yet', '{"a" : "\\u0041"}', `{"a" : "\\u0041","mcpServers" : {${short}}}`],
    [
      'tabs, other line ends and an empty line',
      '{\r\n\r\n\t"mcpServers": {},\r\n\t"a": "}"\r\n}',
      `{\r\n\r\n\t"mcpServers": {\r\n\t\t${long('\t\t', '\t', '\r\n')}\r\n\t},\r\n\t"a": "}"\r\n}`,
    ],
    [
      'a name with an escape, and servers on one line',
      '{\n  "mcp\\u0053ervers": {"other": {"command": "{\\"["}}, "z": [{}, []]\n}',
      `{\n  "mcp\\u0053ervers": {"other": {"command": "{\\"["},${short.replace('"usher":', '"usher": ')}}, "z": [{}, []]\n}`,
    ],
    ['null for its servers', '{"mcpServers" : null, "a": 1.0}', `{"mcpServers" : {${short}}, "a": 1.0}`],
    [
      'null for its servers, on lines',
      '{\n  "mcpServers": null,\n  "a": null\n}\n',
      `{\n  "mcpServers": {\n    ${long('    ', '  ')}\n  },\n  "a": null\n}\n`,
    ],
    ['an empty object', ' { } ', ` {\n  "mcpServers": {\n    ${long('    ', '  ')}\n  }\n} `],
    ['nothing', '', `{\n  "mcpServers": {\n    ${long('    ', '  ')}\n  }\n}\n`],
  ])('leaves every other byte of a JSON file as it was: %s', async (_what, before, after) => {
    const file = join(folder, 'mcp.json')
    await writeFile(file, before)
    await write('cursor', file)
    const written = await readFile(file, 'utf8')
    const { mcpServers } = JSON.parse(written) as { mcpServers: { usher: { args: string[] } } }
    const named = after
      .replace('COMMAND', process.execPath)
      .replace('CLI', mcpServers.usher.args[0]!)
      .replace('RESOURCE', RESOURCE)
    expect(written).toBe(named)
    await write('cursor', file)
    expect(await readFile(file, 'utf8')).toBe(written)
  })

  it('is not written through a link that leads nowhere: the refusal says what to do', async () => {
    const [file, link] = [join(folder, 'away.json'), join(folder, 'mcp.json')]
    await symlink(file, link)
    const refusal = `${link} is a link to ${file}, which is not there: make that file, or remove the link`
    for (const client of ['cursor', 'codex']) await expect(write(client, link)).rejects.toThrow(refusal)
    await expect(write('cursor', join(link, 'mcp.json'))).rejects.toThrow('is no folder')
    expect(await readdir(folder)).toEqual(['mcp.json'])
    await writeFile(file, '{}')
    await write('cursor', link)
    expect(await readFile(file, 'utf8')).toContain(RESOURCE)
  })

  it('is not written into a file that it would spoil', async () => {
    const file = join(folder, 'mcp.json')
    await writeFile(file, '{ /* mine */ "servers": {} }')
    await expect(write('vscode', file)).rejects.toThrow('add the entry by hand')
    expect(await readFile(file, 'utf8')).toBe('{ /* mine */ "servers": {} }')
  })

  it.each(['[]', '""', '0', 'false'])('is not written where its servers are %s', async servers => {
    const file = join(folder, 'mcp.json')
    await writeFile(file, `{"servers":${servers}}`)
    await expect(write('vscode', file)).rejects.toThrow('servers that is no object')
    expect(await readFile(file, 'utf8')).toBe(`{"servers":${servers}}`)
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

describe('A file that is to hold a secret, where the file system keeps no modes', () => {
  const running = { url: 'http://127.0.0.1:8123/mcp', secret: 'of this client' }
  const writeSecret = async (file: string): Promise<string> => {
    const terminal = capturedTerminal()
    await configure(
      { resources: [RESOURCE], client: 'cursor', name: 'usher', write: file, running },
      terminal,
    )
    return terminal.said
  }
  afterEach(() => {
    vi.restoreAllMocks()
    syncBuiltinESMExports()
  })

  it.each(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS'])(
    'is written, and it is said that others can read the copy (%s)',
    async code => {
      const file = join(folder, 'mcp.json')
      await writeFile(file, '{"mcpServers":{}}', { mode: 0o644 })
      vi.spyOn(promises, 'chmod').mockRejectedValue(Object.assign(new Error('no modes'), { code }))
      syncBuiltinESMExports()
      expect(await writeSecret(file)).toContain(`Others on this machine can read ${file}.bak`)
      expect(await readFile(file, 'utf8')).toContain('of this client')
    },
  )

  it('is told of no such thing where modes are kept', async () => {
    const file = join(folder, 'mcp.json')
    await writeFile(file, '{"mcpServers":{}}', { mode: 0o644 })
    expect(await writeSecret(file)).not.toContain('Others')
    for (const one of [file, `${file}.bak`]) expect((await stat(one)).mode & 0o077).toBe(0)
  })

  it('is not written where its copy fails otherwise', async () => {
    const file = join(folder, 'mcp.json')
    await writeFile(file, '{"mcpServers":{}}')
    vi.spyOn(promises, 'chmod').mockRejectedValue(Object.assign(new Error('read only'), { code: 'EROFS' }))
    syncBuiltinESMExports()
    await expect(writeSecret(file)).rejects.toMatchObject({ code: 'EROFS' })
    expect(await readFile(file, 'utf8')).toBe('{"mcpServers":{}}')
  })
})
