/**
 * contract, "What the service does": the entry that `usher agent bridge config` prints starts the bridge as
 * it was asked for, and is none where the bridge would not start.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { Command } from 'commander'
import { describe, expect, it } from 'vitest'
import { addBridge } from '../../../src/agent/bridge/command.ts'
import type { ClientConfig } from '../../../src/config.ts'
import { DEFAULT_SPEC_NS } from '../../../src/wire/names.ts'
import { capturedTerminal } from '../../support/captured-terminal.ts'

const RESOURCE = 'https://tools.example.com/mcp/alice'

describe('The entry that `bridge config` prints', () => {
  const HASH = `s256:${'A'.repeat(43)}`
  const CONFIG: Partial<ClientConfig> = { devLoopback: false, specNs: DEFAULT_SPEC_NS }
  /** The entry for a client that keeps JSON. */
  const entryOf = async (args: string[], config: Partial<ClientConfig> = {}) => {
    const [program, terminal] = [new Command('agent').exitOverride(), capturedTerminal()]
    addBridge(program, () => ({ ...CONFIG, ...config }) as ClientConfig, terminal)
    await program.parseAsync(['bridge', 'config', '--client', 'cursor', ...args], { from: 'user' })
    const { mcpServers } = JSON.parse(terminal.printed) as {
      mcpServers: { usher: { args: string[]; env?: object } }
    }
    const { args: said, env } = mcpServers.usher
    return { said: said.slice(said.indexOf('bridge') + 1), env }
  }

  it.each<[string[], string[]]>([
    [[], []],
    [['--stdio'], ['--stdio']],
    [
      ['--client-id', 'https://agents.example/me'],
      ['--client-id', 'https://agents.example/me'],
    ],
    [
      ['--hold', '45'],
      ['--hold', '45'],
    ],
    [
      ['--linger', '1', '--hold', '2'],
      ['--hold', '2', '--linger', '1'],
    ],
    [
      ['--owner-console', 'https://a.example/console'],
      ['--owner-console', 'https://a.example/console'],
    ],
    [
      ['--accept-terms', HASH],
      ['--accept-terms', HASH],
    ],
  ])('starts the bridge with the options that were given: %j', async (given, said) => {
    expect((await entryOf([RESOURCE, ...given])).said).toEqual([RESOURCE, ...said])
  })

  it('names a file by its whole path, because the client starts the bridge elsewhere', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'usher-config-'))
    const file = join(folder, 'accepted')
    await writeFile(file, HASH)
    const { said } = await entryOf([RESOURCE, '--accept-terms', 'any-of', relative(process.cwd(), file)])
    expect(said).toEqual([RESOURCE, '--accept-terms', 'any-of', file])
    await rm(folder, { recursive: true })
  })

  it.each([
    [['--hold', 'soon']],
    [['--linger', '-1']],
    [['--owner-console', 'http://a.example']],
    [['--accept-terms', 'these']],
    [['--hold', '3', '--listen', '127.0.0.1:1', '--listen-token-file', '/dev/null/absent']],
    [['--stdio', '--listen', '127.0.0.1:1', '--listen-token-file', '/dev/null/absent']],
  ])('is none with options that the bridge would refuse, or that lead nowhere: %j', async given => {
    await expect(entryOf([RESOURCE, ...given])).rejects.toThrow(/--|console|no hash/)
  })

  it.each([
    'http://a.example/mcp',
    'https://u:p@a.example/mcp',
    'https://a.example/mcp#x',
    'http://127.0.0.1:1/mcp',
    'nowhere',
  ])('is none for a resource that the bridge would refuse: %s', async resource => {
    await expect(entryOf([RESOURCE, resource])).rejects.toMatchObject({ code: 'address_refused' })
  })

  it.each<[Partial<ClientConfig>, object | undefined]>([
    [{}, undefined],
    [{ devLoopback: true }, { UMA_DEV_LOOPBACK: 'true' }],
    [{ specNs: 'https://specs.example' }, { UMA_SPEC_NS: 'https://specs.example' }],
    [{ stateHome: 'state' }, { XDG_STATE_HOME: join(process.cwd(), 'state') }],
    [{ extraCaCerts: 'ca.pem' }, { NODE_EXTRA_CA_CERTS: join(process.cwd(), 'ca.pem') }],
    [{ bridgeState: 'kept' }, { UMA_BRIDGE_STATE: join(process.cwd(), 'kept') }],
    [{ bridgeState: '~/kept' }, { UMA_BRIDGE_STATE: join(homedir(), 'kept') }],
  ])('has the variables that the bridge is run with here: %j', async (config, env) => {
    expect((await entryOf([RESOURCE], config)).env).toEqual(env)
  })
})
