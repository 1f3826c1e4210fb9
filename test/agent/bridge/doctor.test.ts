/**
 * contract, "What the service does": a person is told what is wrong before a client runs into it.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { chmod } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { bridgeState } from '../../../src/agent/bridge/negotiation/state.ts'
import type { Stack } from '../../../src/dev/stack/stack.ts'
import { bridgeFolder, filesIn } from '../../support/bridge.ts'
import { startScriptedServer } from '../../support/scripted-http.ts'
import { startStack } from '../../support/stack.ts'
import { usherProgram } from '../../support/usher-program.ts'

let stack: Stack
let folder: Awaited<ReturnType<typeof bridgeFolder>>
const children: ChildProcess[] = []

beforeAll(async () => {
  stack = await startStack({})
  folder = await bridgeFolder()
})
afterAll(async () => {
  for (const child of children) child.kill('SIGKILL')
  await stack?.stop()
  await folder?.remove()
})

/** `usher agent bridge …`, with what it wrote so far. */
function run(...args: string[]) {
  const env = {
    PATH: process.env['PATH'],
    HOME: folder.folder,
    UMA_DEV_LOOPBACK: 'true',
    UMA_BRIDGE_STATE: folder.folder,
  }
  const child = spawn(process.execPath, [usherProgram(), 'agent', 'bridge', ...args], {
    env,
    stdio: 'pipe',
  })
  children.push(child)
  const wrote = { out: '', err: '' }
  child.stdout.on('data', chunk => (wrote.out += String(chunk)))
  child.stderr.on('data', chunk => (wrote.err += String(chunk)))
  const ended = new Promise<number | null>(resolve => child.once('close', resolve))
  return { wrote, ended }
}

describe('The doctor', () => {
  it('finds nothing wrong with a resource that is as it should be', async () => {
    const { wrote, ended } = run('doctor', stack.resource, '--client-name', 'new')
    expect(await ended).toBe(0)
    for (const what of ['address', 'metadata', 'clock', 'authority', 'key', 'tools'])
      expect(wrote.out).toContain(`ok    ${what}:`)
    expect(wrote.out).not.toContain('give --client-name')
  })

  it.each([
    [-3600, 'ahead of'],
    [3600, 'behind'],
  ])('says that the clocks are %i s apart', async (seconds, which) => {
    const server = await startScriptedServer(({ path }) => ({
      headers: { date: new Date(Date.now() + seconds * 1000).toUTCString() },
      status: path.startsWith('/.well-known/oauth-protected-resource') ? 200 : 404,
      body: { resource: `${server.origin}/mcp/alice`, authorization_servers: [stack.issuer] },
    }))
    try {
      const { wrote, ended } = run('doctor', `${server.origin}/mcp/alice`)
      expect(await ended).toBe(1)
      expect(wrote.out).toContain('ok    metadata:')
      expect(wrote.out).toMatch(
        new RegExp(`FAIL  clock: This clock is 3(600|599|601) s ${which} that of .* by NTP`),
      )
    } finally {
      await server.close()
    }
  })

  it('names the status of a resource that does not list its tools', async () => {
    const server = await startScriptedServer(() => ({ status: 404, body: {} }))
    try {
      const { wrote, ended } = run('doctor', `${server.origin}/mcp/alice`)
      expect(await ended).toBe(1)
      expect(wrote.out).toMatch(/^FAIL {2}metadata: .* status 404\. No resource is published .*: correct it/m)
      expect(wrote.out).toMatch(
        /^FAIL {2}tools: .* It answered with status 404\. .*rewrite the path .*\(unreachable\)$/m,
      )
    } finally {
      await server.close()
    }
  })

  it('names the key of a client, and says what is wrong with one that others can read', async () => {
    const state = bridgeState(folder.folder, 'known')
    const owner = { as_uri: stack.issuer, owner: 'alice' }
    await state.keepOwner(stack.resource, owner)
    const { key, file } = await state.identity(owner)
    const sound = run('doctor', stack.resource, '--client-name', 'known')
    expect(await sound.ended).toBe(0)
    expect(sound.wrote.out).toContain(
      `ok    key: jkt:${key.thumbprint} for alice at ${stack.issuer}, in ${file}`,
    )
    await chmod(file, 0o644)
    const open = run('doctor', stack.resource, '--client-name', 'known')
    expect(await open.ended).toBe(1)
    expect(open.wrote.out).toMatch(/^FAIL {2}key: /m)
    expect(open.wrote.out).toContain(`${file} has the mode 0644, so others can read it: chmod 600 ${file}`)
  })

  it('says that the key of a client is gone, and makes none', async () => {
    const state = bridgeState(folder.folder, 'bereft')
    const owner = { as_uri: stack.issuer, owner: 'alice' }
    await state.keepOwner(stack.resource, owner)
    const before = await filesIn(state.folder)
    const { wrote, ended } = run('doctor', stack.resource, '--client-name', 'bereft')
    expect(await ended).toBe(1)
    expect(wrote.out).toMatch(/^FAIL {2}key: \S+key\.json is gone, which held the key for alice/m)
    expect(await filesIn(state.folder)).toEqual(before)
  })

  it.each<[what: string, authority: (origin: string) => string, said: RegExp]>([
    ['is not there', () => 'http://127.0.0.1:9', /^FAIL {2}authority: .*127\.0\.0\.1:9.*\(unreachable\)$/m],
    ['is none', origin => origin, /^FAIL {2}authority: .*answered with status 404.*$/m],
  ])('says so where the authority that a resource names %s', async (_what, authority, said) => {
    const server = await startScriptedServer(({ path }) => ({
      status: path.startsWith('/.well-known/oauth-protected-resource') ? 200 : 404,
      body: { resource: `${server.origin}/mcp/alice`, authorization_servers: [authority(server.origin)] },
    }))
    try {
      const { wrote, ended } = run('doctor', `${server.origin}/mcp/alice`)
      expect(await ended).toBe(1)
      expect(wrote.out).toContain('ok    metadata:')
      expect(wrote.out).toMatch(said)
    } finally {
      await server.close()
    }
  })

  it('says what is wrong, with an exit code, where nothing is there', async () => {
    const { wrote, ended } = run('doctor', `${new URL(stack.resource).origin}/mcp/nobody`)
    expect(await ended).toBe(1)
    expect(wrote.out).toContain('FAIL  metadata:')
  })
})
