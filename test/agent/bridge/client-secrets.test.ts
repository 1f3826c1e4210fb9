/**
 * contract, "What the service does" and "Connection": clients of one bridge that listens are told apart by
 * secrets that are handed out to each, so that none of them acts under another's name.
 */
import { execFile } from 'node:child_process'
import { readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { parse } from '@decimalturn/toml-patch'
import type { Client } from '@modelcontextprotocol/client'
import { describe, expect, it } from 'vitest'
import { callerOf, clientSecret } from '../../../src/agent/bridge/listen-token.ts'
import { answerIn, pendingOf, type ToolAnswer } from '../../support/bridge.ts'
import { useBridges } from '../../support/bridge-stand.ts'
import { clientOver, listeningBridge } from '../../support/listening-bridge.ts'
import { usherProgram } from '../../support/usher-program.ts'

const stand = useBridges({ stack: { authorityEnvironment: { UMA_AS_POLL_SECONDS: '1' } } })
const { unique, waiting } = stand

interface Ran {
  code: number
  stdout: string
  stderr: string
}

/** `usher agent bridge config` for the resource of these tests. */
async function config(...args: string[]): Promise<Ran> {
  const cli = [usherProgram(), 'agent', 'bridge', 'config', stand.stack.resource, ...args]
  const env = { PATH: process.env['PATH'], HOME: stand.folder, UMA_DEV_LOOPBACK: 'true' }
  try {
    return { code: 0, ...(await promisify(execFile)(process.execPath, cli, { env })) }
  } catch (error) {
    return error as Ran
  }
}

/** The secret that the entry of a client holds, printed as JSON. */
const secretIn = (printed: string): string => /Bearer ([\w.-]+)/.exec(printed)![1]!

const called = async (client: Client): Promise<ToolAnswer> =>
  answerIn(await client.callTool({ name: 'portfolio_read', arguments: {} }))

describe('The secret of a client', () => {
  const token = 'A'.repeat(43)
  const one = clientSecret(token, 'one')

  it.each([
    ['of the bridge itself', token, { name: undefined }],
    ['of one client', one, { name: 'one' }],
    ['of another client', clientSecret(token, 'two'), { name: 'two' }],
    ['of a client under the name of another', one.replace('one.', 'two.'), undefined],
    ['of a client, without its name', one.replace('one.', ''), undefined],
    ['of a client, with no name', one.replace('one.', '.'), undefined],
    ['of a client, cut', one.slice(0, -1), undefined],
    ['of a client of another bridge', clientSecret('B'.repeat(43), 'one'), undefined],
    ['of a name that no client has', clientSecret(token, 'a b'), undefined],
    ['of a name with the separator in it', clientSecret(token, 'one.two'), undefined],
    ['that is the name alone', 'one', undefined],
  ])('%s lets in whom it names, or nobody', (_, secret, caller) => {
    expect(callerOf(`Bearer ${secret}`, token)).toEqual(caller)
  })
})

describe('`bridge config --listen`', () => {
  it.each([
    ['claude-code', 'mcpServers', { type: 'http' }],
    ['vscode', 'servers', { type: 'http' }],
    ['cursor', 'mcpServers', {}],
  ])('leads %s to the bridge that runs there, with a secret of its own', async (client, member, typed) => {
    const tokenFile = join(stand.folder, `token-${client}`)
    const given = ['--client', client, '--listen', '127.0.0.1:8765', '--listen-token-file', tokenFile]
    const { stdout } = await config(...given)
    const token = (await readFile(tokenFile, 'utf8')).trim()
    const server = {
      ...typed,
      url: 'http://127.0.0.1:8765/',
      headers: { Authorization: `Bearer ${clientSecret(token, client)}` },
    }
    expect(JSON.parse(stdout)).toEqual({ [member]: { usher: server } })
    expect((await stat(tokenFile)).mode & 0o777).toBe(0o600)

    const file = join(stand.folder, `${client}.json`)
    await writeFile(file, JSON.stringify({ [member]: { other: { command: 'x' } } }), { mode: 0o644 })
    const named = await config(...given, '--client-name', 'work', '--write', file)
    expect(named.stderr).toContain('out of version control')
    const authorization = `Bearer ${clientSecret(token, 'work')}`
    expect(JSON.parse(await readFile(file, 'utf8'))).toEqual({
      [member]: {
        other: { command: 'x' },
        usher: { ...server, headers: { Authorization: authorization } },
      },
    })
    // Everybody could read it before, and its copy may hold an earlier secret.
    for (const path of [file, `${file}.bak`]) expect((await stat(path)).mode & 0o777).toBe(0o600)
  })

  it('leads codex there, in place of the bridge that it started itself', async () => {
    const tokenFile = join(stand.folder, 'token-codex')
    const file = join(stand.folder, 'config.toml')
    expect((await config('--client', 'codex', '--write', file)).code).toBe(0)
    const given = ['--client', 'codex', '--listen', '[::1]:8765', '--listen-token-file', tokenFile]
    expect((await config(...given, '--write', file)).code).toBe(0)
    const token = (await readFile(tokenFile, 'utf8')).trim()
    expect(parse(await readFile(file, 'utf8'))).toEqual({
      mcp_servers: {
        usher: {
          url: 'http://[::1]:8765/',
          http_headers: { Authorization: `Bearer ${clientSecret(token, 'codex')}` },
        },
      },
    })
  })

  it.each([
    [
      'a client that only starts servers itself',
      ['--client', 'claude-desktop', '--listen', '127.0.0.1:8765'],
      /starts itself/,
    ],
    ['no port', ['--client', 'cursor', '--listen', '127.0.0.1:0'], /the port of the bridge that runs/],
    ['an address that is not this machine', ['--client', 'cursor', '--listen', '10.0.0.1:80'], /loopback/],
    [
      'a name with a space',
      ['--client', 'cursor', '--listen', '127.0.0.1:8765', '--client-name', 'a b'],
      /--client-name/,
    ],
  ])('refuses %s, and says what to give', async (_, args, saying) => {
    const ran = await config(...args, '--listen-token-file', join(stand.folder, 'token-refused'))
    expect([ran.code, ran.stderr]).toEqual([2, expect.stringMatching(saying)])
    expect(ran.stdout).toBe('')
  })

  it('refuses a secret for a bridge that is not named', async () => {
    const ran = await config('--client', 'cursor', '--client-name', 'work')
    expect([ran.code, ran.stderr]).toEqual([2, expect.stringContaining('together with --listen')])
    const without = await config('--client', 'cursor', '--listen', '127.0.0.1:8765')
    expect([without.code, without.stderr]).toEqual([2, expect.stringContaining('--listen-token-file')])
  })
})

describe('Clients with secrets of their own', () => {
  it.each(['legacy', '2026-07-28'] as const)(
    'share neither key, grant nor consent, though they call themselves the same (%s), and need no restart',
    async mode => {
      const tokenFile = join(stand.folder, `token-${unique()}`)
      const bridge = await listeningBridge(stand, '--hold', '20', '--listen-token-file', tokenFile)
      const secretOf = async (name: string): Promise<string> => {
        const given = ['--client', 'cursor', '--listen', bridge.url.host, '--listen-token-file', tokenFile]
        return secretIn((await config(...given, '--client-name', name)).stdout)
      }
      const name = `the same ${unique()}`
      const [mine, hers] = [`mine-${unique()}`, `hers-${unique()}`]
      const one = await clientOver(stand, { url: bridge.url, token: await secretOf(mine) }, { name, mode })
      const first = called(one.client)
      first.catch(() => undefined)
      const { family, handle } = await waiting()
      await stand.owner.decide(family, 'approved')
      expect((await first).isError).toBe(false)
      // Another window of that client has its grant, whatever it calls itself.
      const window = { url: bridge.url, token: await secretOf(mine) }
      const again = await clientOver(stand, window, { name: `another ${unique()}`, mode })
      expect((await called(again.client)).isError).toBe(false)
      expect(await pendingOf(stand.owner)).toEqual([])

      const two = await clientOver(stand, { url: bridge.url, token: await secretOf(hers) }, { name, mode })
      const other = called(two.client)
      other.catch(() => undefined)
      const item = await waiting()
      expect(item.handle).not.toBe(handle)
      await stand.owner.decide(item.family, 'approved')
      expect((await other).isError).toBe(false)
      // Nor does the first become the second by calling itself so.
      const claiming = { url: bridge.url, token: await secretOf(mine) }
      const claimed = await clientOver(stand, claiming, { name: hers, mode })
      expect((await called(claimed.client)).isError).toBe(false)
      expect(await pendingOf(stand.owner)).toEqual([])
    },
  )

  it('speak in no session of another one', async () => {
    const tokenFile = join(stand.folder, `token-${unique()}`)
    const bridge = await listeningBridge(stand, '--listen-token-file', tokenFile)
    const token = (await readFile(tokenFile, 'utf8')).trim()
    const secret = clientSecret(token, 'one')
    const { transport } = await clientOver(
      stand,
      { url: bridge.url, token: secret },
      { name: `one ${unique()}` },
    )
    const ping = async (bearer: string): Promise<number> => {
      const answer = await fetch(bridge.url, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${bearer}`,
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          'mcp-session-id': transport.sessionId!,
        },
        body: JSON.stringify({ jsonrpc: '2.0', id: 2, method: 'ping' }),
      })
      await answer.text()
      return answer.status
    }
    expect(await ping(secret)).toBe(200)
    expect([await ping(clientSecret(token, 'two')), await ping(token)]).toEqual([404, 404])
  })
})
